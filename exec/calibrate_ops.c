#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/calibrate_run.h"
#include "exec/cpu/gemm.h"
#include "exec/cpu/stage.h"
#include "exec/cpu/vector.h"
#include "exec/tcp/socket.h"

/* Calls go round a ring of so many bytes of operands: in a pipeline, an op's weights and saved
 * activations have been out of the cache since the previous microbatch. */
static const double repeat_s = 4e-3;
enum { RING_BYTES = 24 << 20, RING_LEAST = 2, RING_MOST = 128 };

/* ---- layers */

/* Operands: y, saved and parameters once per instance of the ring, the rest once. */
struct bed {
    const struct layer *layer;
    size_t batch, ring;
    size_t input, output, saved;                  /* reals of a call */
    real *x, *y, *kept, *parameter, *d_parameter; /* [ring] of them */
    real *source, *dy, *dx[LAYER_INPUTS], *work, *shared, *d_shared;
    int32_t *token, *target;
};

static void bed_free(struct bed *b)
{
    real *const all[] = {b->x,  b->y,     b->kept,  b->parameter, b->d_parameter, b->source,
                         b->dy, b->dx[0], b->dx[1], b->work,      b->shared,      b->d_shared};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free(all[k]);
    free(b->token);
    free(b->target);
}

/* n numbers of moderate size, or NULL. */
static real *numbers(size_t n)
{
    real *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        x[i] = (real)((double)(i * 2654435761u % 1000) / 1000 - 0.5);
    return x;
}

/* What a masked model predicts: one target in so many (BERT: 15 %). */
enum { MASKED_EVERY = 7 };

static enum status bed_tokens(struct bed *b)
{
    size_t n = b->batch * b->layer->tokens;
    b->token = malloc((n + 1) * sizeof *b->token);
    b->target = malloc((n + 1) * sizeof *b->target);
    if (!b->token || !b->target)
        return error_set(STATUS_NOMEM, "%zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        b->token[i] = (int32_t)(i * 2654435761u % CORPUS_VOCABULARY);
        b->target[i] = b->layer->masked && i % MASKED_EVERY ? -1 : b->token[i];
    }
    return STATUS_OK;
}

static enum status bed_init(struct bed *b, const struct layer *l, size_t batch)
{
    *b = (struct bed){.layer = l, .batch = batch};
    b->input = l->input * batch;
    b->output = l->output * batch;
    b->saved = l->saved * batch;
    size_t instance = l->inputs * b->input + b->output + b->saved + 2 * (l->parameters + l->shared);
    b->ring = RING_BYTES / sizeof(real) / (instance + 1);
    b->ring = b->ring < RING_LEAST ? RING_LEAST : b->ring > RING_MOST ? RING_MOST : b->ring;
    size_t wide = b->input > b->output ? b->input : b->output;
    b->x = numbers(b->ring * l->inputs * b->input);
    b->y = numbers(b->ring * b->output);
    b->kept = numbers(b->ring * b->saved);
    b->parameter = numbers(b->ring * l->parameters);
    b->d_parameter = numbers(b->ring * l->parameters);
    b->shared = numbers(b->ring * l->shared);
    b->d_shared = numbers(b->ring * l->shared);
    b->source = numbers(wide);
    b->dy = numbers(b->output);
    b->dx[0] = numbers(b->input);
    b->dx[1] = numbers(b->input);
    b->work = numbers(l->work);
    if (!b->x || !b->y || !b->kept || !b->parameter || !b->d_parameter || !b->shared ||
        !b->d_shared || !b->source || !b->dy || !b->dx[0] || !b->dx[1] || !b->work)
        return error_set(STATUS_NOMEM, "operands of %s", l->kind->name);
    return bed_tokens(b);
}

static struct layer_io operands(const struct bed *b, size_t k)
{
    const struct layer *l = b->layer;
    struct layer_io io = {.batch = b->batch,
                          .y = b->y + k * b->output,
                          .saved = b->kept + k * b->saved,
                          .work = b->work,
                          .parameter = b->parameter + k * l->parameters,
                          .shared = b->shared + k * l->shared,
                          .token = b->token,
                          .target = b->target,
                          .dy = b->dy,
                          .d_parameter = b->d_parameter + k * l->parameters,
                          .d_shared = b->d_shared + k * l->shared,
                          .scale = (real)1e-3};
    for (size_t i = 0; i < l->inputs; i++) {
        io.x[i] = b->x + (k * l->inputs + i) * b->input;
        io.dx[i] = b->dx[i];
    }
    return io;
}

/* Mean seconds of a forward call. The input has just been written, as by the op before. */
static double forward_pass(const struct bed *b)
{
    const struct layer *l = b->layer;
    double sum_s = 0;
    for (size_t k = 0; k < b->ring; k++) {
        struct layer_io io = operands(b, k);
        for (size_t i = 0; i < l->inputs; i++)
            memcpy(b->x + (k * l->inputs + i) * b->input, b->source, b->input * sizeof(real));
        double start_s = clock_now();
        l->kind->forward(l, &io);
        sum_s += clock_now() - start_s;
    }
    return sum_s / (double)b->ring;
}

/* Mean seconds of a backward call. A residual comes with the sum of gradients where the stream had
 * forked, which the stage does for it. */
static double backward_pass(const struct bed *b)
{
    const struct layer *l = b->layer;
    bool forks = l->inputs > 1;
    double sum_s = 0;
    for (size_t k = 0; k < b->ring; k++) {
        struct layer_io io = operands(b, k);
        memcpy(b->dy, b->source, b->output * sizeof(real));
        double start_s = clock_now();
        layer_backward(l, &io);
        if (forks)
            vector_add(b->dx[0], b->dy, b->input);
        sum_s += clock_now() - start_s;
    }
    return sum_s / (double)b->ring;
}

/* Mean over as many passes as take a few milliseconds, so that no single interruption counts. */
static double repeat(const struct bed *b, double (*pass)(const struct bed *))
{
    double sum_s = 0, end_s = clock_now() + repeat_s;
    size_t n = 0;
    for (; n == 0 || clock_now() < end_s; n++)
        sum_s += pass(b);
    return sum_s / (double)n;
}

enum status bench_layer(struct bench *b, const struct layer *l, size_t batch, double *forward_s,
                        double *backward_s)
{
    struct bed bed;
    enum status st = bed_init(&bed, l, batch);
    if (st == STATUS_OK) {
        (void)forward_pass(&bed);
        b->together(b->context);
        for (size_t k = 0; k < b->repeats; k++)
            forward_s[k] = repeat(&bed, forward_pass);
        (void)backward_pass(&bed);
        b->together(b->context);
        for (size_t k = 0; k < b->repeats; k++)
            backward_s[k] = repeat(&bed, backward_pass);
    }
    bed_free(&bed);
    return st;
}

static enum status bench_probe(struct bench *b, size_t probe)
{
    enum status st;
    struct layer l;
    TRY(probe_layer(&b->task->probe[probe], &l));
    TRY(bench_layer(b, &l, b->task->probe[probe].batch, calls_of(b, 2 * probe, b->rank),
                    calls_of(b, 2 * probe + 1, b->rank)));
out:
    return st;
}

/* ---- optimizers and memory */

/* Stages without ops, whose parameters, gradients and moments are one array after the other. */
struct update_bed {
    size_t n, ring; /* parameters of each, how many */
    bool moments;
    real *data; /* [4 * n * ring] */
};

static enum status update_pass(const struct update_bed *b, double *mean_s)
{
    enum status st = STATUS_OK;
    double sum_s = 0;
    for (size_t i = 0; i < b->ring; i++) {
        real *own = b->data + 4 * b->n * i;
        const struct program none = {0};
        struct stage_piece all = {.n = b->n, .own_n = b->n};
        struct stage s = {.on = {&backend_cpu, NULL},
                          .program = &none,
                          .pieces = 1,
                          .piece = &all,
                          .parameters = b->n,
                          .parameter = own,
                          .gradient = own + b->n};
        s.learning_rate = 1e-3;
        s.moment = b->moments ? own + 2 * b->n : NULL;
        s.square = own + 3 * b->n;
        double start_s = clock_now();
        TRY(stage_update(&s));
        sum_s += clock_now() - start_s;
    }
    *mean_s = sum_s / (double)b->ring;
out:
    return st;
}

static enum status bench_update(struct bench *b, size_t probe)
{
    enum status st;
    const struct probe *p = &b->task->probe[probe];
    size_t n = (size_t)p->channels, ring = RING_BYTES / (4 * sizeof(real) * n) + 1;
    struct update_bed bed = {n, ring, *p->kind == 'a', numbers(4 * n * ring)};
    double *update_s = calls_of(b, 2 * probe, b->rank), ignored_s;
    if (!bed.data)
        return error_set(STATUS_NOMEM, "%zu parameters", n);
    for (size_t i = 0; i < ring; i++) /* a sum of squares is not negative */
        for (size_t k = 0; k < n; k++)
            bed.data[4 * n * i + 3 * n + k] = 1;
    TRY(update_pass(&bed, &ignored_s));
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++)
        TRY(update_pass(&bed, &update_s[k]));
out:
    free(bed.data);
    return st;
}

static enum status bench_copy(struct bench *b)
{
    size_t n = b->task->copy_bytes;
    char *from = malloc(n), *to = malloc(n);
    double *copy_s = calls_of(b, 2 * b->task->probes + FIGURE_COPY, b->rank);
    if (!from || !to) {
        free(from);
        free(to);
        return error_set(STATUS_NOMEM, "arrays to copy");
    }
    memset(from, 1, n);
    memset(to, 2, n);
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++) {
        from[k % n] = (char)k; /* so that no two copies are the same */
        double start_s = clock_now();
        memcpy(to, from, n);
        copy_s[k] = clock_now() - start_s;
        from[k % n] = to[n - 1 - k % n];
    }
    free(from);
    free(to);
    return STATUS_OK;
}

/* A layer on one number: what a call costs besides its work. */
static enum status bench_launch(struct bench *b)
{
    static const struct probe least = {"residual", 1, 1, 0, 0, 1};
    double *launch_s = calls_of(b, 2 * b->task->probes + FIGURE_LAUNCH, b->rank);
    struct layer l;
    struct bed bed = {0};
    enum status st;
    TRY(probe_layer(&least, &l));
    TRY(bed_init(&bed, &l, least.batch));
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++)
        launch_s[k] = repeat(&bed, forward_pass);
out:
    bed_free(&bed);
    return st;
}

enum status bench_ops(struct bench *b)
{
    enum status st = STATUS_OK;
    gemm_single_thread();
    for (size_t k = 0; k < b->task->probes; k++) {
        if (b->progress && b->rank == 0)
            fprintf(stderr, "\rcalibrate: op %zu of %zu", k + 1, b->task->probes);
        TRY(probe_updates(&b->task->probe[k]) ? bench_update(b, k) : bench_probe(b, k));
    }
    TRY(bench_copy(b));
    TRY(bench_launch(b));
out:
    return st;
}
