#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/calibrate_run.h"
#include "exec/cpu/gemm.h"
#include "exec/cpu/stage.h"
#include "exec/cpu/vector.h"
#include "exec/tcp/socket.h"

/* Shapes as in transformers: rows of 32 to 256 tokens, 32 to 768 channels. A linear layer comes
 * widening and narrowing (as in a feed-forward block) with the same work. */
const struct probe probes[] = {
    {"embedding", 32, 32, 0, 0, 2},   {"embedding", 128, 128, 0, 0, 1},
    {"embedding", 128, 128, 0, 0, 8}, {"embedding", 256, 512, 0, 0, 8},
    {"layernorm", 32, 32, 0, 0, 2},   {"layernorm", 128, 128, 0, 0, 1},
    {"layernorm", 128, 128, 0, 0, 8}, {"layernorm", 256, 512, 0, 0, 8},
    {"linear", 32, 32, 128, 0, 2},    {"linear", 32, 128, 32, 0, 2},
    {"linear", 64, 64, 256, 0, 2},    {"linear", 64, 256, 64, 0, 2},
    {"linear", 128, 128, 128, 0, 2},  {"linear", 128, 128, 512, 0, 1},
    {"linear", 128, 512, 128, 0, 1},  {"linear", 128, 128, 512, 0, 4},
    {"linear", 128, 512, 128, 0, 4},  {"linear", 128, 256, 1024, 0, 4},
    {"linear", 128, 1024, 256, 0, 4}, {"linear", 128, 768, 3072, 0, 4},
    {"linear", 128, 3072, 768, 0, 4}, {"attention", 32, 32, 0, 1, 2},
    {"attention", 64, 64, 0, 2, 2},   {"attention", 128, 128, 0, 4, 1},
    {"attention", 128, 128, 0, 4, 8}, {"attention", 256, 256, 0, 4, 8},
    {"gelu", 32, 128, 0, 0, 2},       {"gelu", 128, 512, 0, 0, 1},
    {"gelu", 128, 512, 0, 0, 8},      {"gelu", 256, 2048, 0, 0, 4},
    {"residual", 32, 32, 0, 0, 2},    {"residual", 128, 128, 0, 0, 1},
    {"residual", 128, 128, 0, 0, 8},  {"residual", 256, 512, 0, 0, 8},
    {"loss", 32, 256, 0, 0, 2},       {"loss", 128, 256, 0, 0, 1},
    {"loss", 128, 256, 0, 0, 8},      {"loss", 256, 1024, 0, 0, 8},
    {"adam", 1, 1 << 14, 0, 0, 1},    {"adam", 1, 1 << 18, 0, 0, 1},
    {"adam", 1, 1 << 21, 0, 0, 1},    {"sgd", 1, 1 << 14, 0, 0, 1},
    {"sgd", 1, 1 << 18, 0, 0, 1},     {"sgd", 1, 1 << 21, 0, 0, 1},
};
const size_t probes_n = sizeof probes / sizeof *probes;

/* Calls go round a ring of so many bytes of operands: in a pipeline, an op's weights and saved
 * activations have been out of the cache since the previous microbatch. */
static const double repeat_s = 4e-3;
enum { RING_BYTES = 24 << 20, RING_LEAST = 2, RING_MOST = 128 };

/* ---- what a probe is in a model; the formulas of model/layers.c */

static void attach(struct model_attribute *a, size_t *n, const char *name, int64_t value)
{
    a[(*n)++] = (struct model_attribute){(char *)(uintptr_t)name, value};
}

void probe_describe(const struct probe *p, struct model_attribute *a, struct model_op *op)
{
    double size = (double)(p->tokens * p->channels);
    *op = (struct model_op){.kind = (char *)(uintptr_t)p->kind, .shares = MODEL_NO_OP};
    op->output_bytes = 4 * p->tokens * p->channels;
    attach(a, &op->attributes, "tokens", p->tokens);
    if (!strcmp(p->kind, "embedding")) {
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "vocabulary", CORPUS_VOCABULARY);
        attach(a, &op->attributes, "positions", p->tokens);
        op->parameter_bytes = 4 * (CORPUS_VOCABULARY + p->tokens) * p->channels;
        op->forward_flop = size;
        op->backward_flop = 2 * size;
    } else if (!strcmp(p->kind, "layernorm")) {
        attach(a, &op->attributes, "channels", p->channels);
        op->parameter_bytes = 4 * 2 * p->channels;
        op->forward_flop = 7 * size;
        op->backward_flop = 13 * size;
    } else if (!strcmp(p->kind, "linear")) {
        attach(a, &op->attributes, "in", p->channels);
        attach(a, &op->attributes, "out", p->out);
        attach(a, &op->attributes, "bias", 1);
        op->parameter_bytes = 4 * (p->channels + 1) * p->out;
        op->output_bytes = 4 * p->tokens * p->out;
        op->forward_flop = 2 * size * (double)p->out;
        op->backward_flop = 2 * op->forward_flop;
    } else if (!strcmp(p->kind, "attention")) {
        attach(a, &op->attributes, "channels", p->channels);
        attach(a, &op->attributes, "heads", p->heads);
        attach(a, &op->attributes, "causal", 1);
        op->forward_flop = 4 * size * (double)p->tokens;
        op->backward_flop = 2 * op->forward_flop;
    } else if (!strcmp(p->kind, "loss")) {
        attach(a, &op->attributes, "vocabulary", p->channels);
        op->output_bytes = 4;
        op->forward_flop = 4 * size;
        op->backward_flop = 5 * size;
    } else { /* gelu, residual */
        bool gelu = !strcmp(p->kind, "gelu");
        attach(a, &op->attributes, "channels", p->channels);
        op->forward_flop = (gelu ? 9 : 1) * size;
        op->backward_flop = (gelu ? 18 : 1) * size;
    }
    op->attribute = a;
}

/* As core/cost.c counts them. */
double probe_flop(const struct probe *p, bool backward)
{
    struct model_attribute attribute[PROBE_ATTRIBUTES];
    struct model_op op;
    if (!strcmp(p->kind, "adam") || !strcmp(p->kind, "sgd"))
        return backward ? 0 : (double)p->channels * (*p->kind == 'a' ? 12 : 2);
    probe_describe(p, attribute, &op);
    return (double)p->batch * (backward ? op.backward_flop : op.forward_flop);
}

/* The layer that the CPU device makes of it: the op after as many embeddings as it has inputs. */
static enum status shape(const struct probe *p, struct layer *out)
{
    enum { OPS = LAYER_INPUTS + 1 };
    struct model_attribute attribute[OPS][PROBE_ATTRIBUTES];
    struct model_op op[OPS];
    size_t start[OPS + 1] = {0}, nothing[OPS + 1] = {0};
    uint32_t in[LAYER_INPUTS] = {0, 1};
    const struct layer_kind *kind = layer_kind_find(p->kind);
    if (!kind)
        return error_set(STATUS_UNSUPPORTED, "the CPU device has no '%s'", p->kind);
    uint32_t inputs = (uint32_t)kind->inputs;
    struct probe source = {"embedding", p->tokens, p->channels, 0, 0, p->batch};
    if (!strcmp(p->kind, "attention"))
        source.channels *= 3;
    for (uint32_t i = 0; i < inputs; i++)
        probe_describe(&source, attribute[i], &op[i]);
    probe_describe(p, attribute[inputs], &op[inputs]);
    char name[] = "probe";
    op[inputs].name = name;
    start[inputs + 1] = inputs;
    struct model m = {.n = inputs + 1,
                      .op = op,
                      .in_start = start,
                      .in = in,
                      .out_start = nothing,
                      .element_bytes = 4};
    return layer_shape(&m, inputs, p->batch, out);
}

/* ---- layers */

/* Operands: y, saved and parameters once per instance of the ring, the rest once. */
struct bed {
    const struct probe *probe;
    struct layer layer;
    size_t ring;
    size_t input, output, saved;                  /* reals of a call */
    real *x, *y, *kept, *parameter, *d_parameter; /* [ring] of them */
    real *source, *dy, *dx[LAYER_INPUTS], *work;
    int32_t *token;
};

static void bed_free(struct bed *b)
{
    real *const all[] = {b->x,      b->y,  b->kept,  b->parameter, b->d_parameter,
                         b->source, b->dy, b->dx[0], b->dx[1],     b->work};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        free(all[k]);
    free(b->token);
}

/* n numbers of moderate size, or NULL. */
static real *numbers(size_t n)
{
    real *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; x && i < n; i++)
        x[i] = (real)((double)(i * 2654435761u % 1000) / 1000 - 0.5);
    return x;
}

static enum status bed_init(struct bed *b, const struct probe *p)
{
    enum status st;
    const struct layer *l = &b->layer;
    *b = (struct bed){.probe = p};
    TRY(shape(p, &b->layer));
    b->input = l->input * p->batch;
    b->output = l->output * p->batch;
    b->saved = l->saved * p->batch;
    size_t instance = l->inputs * b->input + b->output + b->saved + 2 * l->parameters;
    b->ring = RING_BYTES / sizeof(real) / (instance + 1);
    b->ring = b->ring < RING_LEAST ? RING_LEAST : b->ring > RING_MOST ? RING_MOST : b->ring;
    size_t wide = b->input > b->output ? b->input : b->output, n = p->batch * l->tokens;
    b->x = numbers(b->ring * l->inputs * b->input);
    b->y = numbers(b->ring * b->output);
    b->kept = numbers(b->ring * b->saved);
    b->parameter = numbers(b->ring * l->parameters);
    b->d_parameter = numbers(b->ring * l->parameters);
    b->source = numbers(wide);
    b->dy = numbers(b->output);
    b->dx[0] = numbers(b->input);
    b->dx[1] = numbers(b->input);
    b->work = numbers(l->work);
    b->token = malloc(n * sizeof *b->token);
    if (!b->x || !b->y || !b->kept || !b->parameter || !b->d_parameter || !b->source || !b->dy ||
        !b->dx[0] || !b->dx[1] || !b->work || !b->token)
        st = error_set(STATUS_NOMEM, "operands of %s", p->kind);
    for (size_t i = 0; b->token && i < n; i++)
        b->token[i] = (int32_t)(i * 2654435761u % CORPUS_VOCABULARY);
out:
    return st;
}

static struct layer_io operands(const struct bed *b, size_t k)
{
    const struct layer *l = &b->layer;
    struct layer_io io = {.batch = b->probe->batch,
                          .y = b->y + k * b->output,
                          .saved = b->kept + k * b->saved,
                          .work = b->work,
                          .parameter = b->parameter + k * l->parameters,
                          .token = b->token,
                          .target = b->token,
                          .dy = b->dy,
                          .d_parameter = b->d_parameter + k * l->parameters,
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
    const struct layer *l = &b->layer;
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
    const struct layer *l = &b->layer;
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

static enum status bench_layer(struct bench *b, size_t rank, size_t probe)
{
    struct bed bed;
    double *forward_s = calls_of(b, 2 * probe, rank),
           *backward_s = calls_of(b, 2 * probe + 1, rank);
    enum status st = bed_init(&bed, &probes[probe]);
    if (st == STATUS_OK) {
        (void)forward_pass(&bed);
        pthread_barrier_wait(&b->together);
        for (size_t k = 0; k < b->repeats; k++)
            forward_s[k] = repeat(&bed, forward_pass);
        (void)backward_pass(&bed);
        pthread_barrier_wait(&b->together);
        for (size_t k = 0; k < b->repeats; k++)
            backward_s[k] = repeat(&bed, backward_pass);
    }
    bed_free(&bed);
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

static enum status bench_update(struct bench *b, size_t rank, size_t probe)
{
    enum status st;
    const struct probe *p = &probes[probe];
    size_t n = (size_t)p->channels, ring = RING_BYTES / (4 * sizeof(real) * n) + 1;
    struct update_bed bed = {n, ring, *p->kind == 'a', numbers(4 * n * ring)};
    double *update_s = calls_of(b, 2 * probe, rank), ignored_s;
    if (!bed.data)
        return error_set(STATUS_NOMEM, "%zu parameters", n);
    for (size_t i = 0; i < ring; i++) /* a sum of squares is not negative */
        for (size_t k = 0; k < n; k++)
            bed.data[4 * n * i + 3 * n + k] = 1;
    TRY(update_pass(&bed, &ignored_s));
    pthread_barrier_wait(&b->together);
    for (size_t k = 0; k < b->repeats; k++)
        TRY(update_pass(&bed, &update_s[k]));
out:
    free(bed.data);
    return st;
}

static enum status bench_copy(struct bench *b, size_t rank)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double *copy_s = calls_of(b, 2 * probes_n + FIGURE_COPY, rank);
    if (!from || !to) {
        free(from);
        free(to);
        return error_set(STATUS_NOMEM, "arrays to copy");
    }
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    pthread_barrier_wait(&b->together);
    for (size_t k = 0; k < b->repeats; k++) {
        from[k] = (char)k; /* so that no two copies are the same */
        double start_s = clock_now();
        memcpy(to, from, COPY_BYTES);
        copy_s[k] = clock_now() - start_s;
        from[k] = to[COPY_BYTES - 1 - k];
    }
    free(from);
    free(to);
    return STATUS_OK;
}

/* A layer on one number: what a call costs besides its work. */
static enum status bench_launch(struct bench *b, size_t rank)
{
    static const struct probe least = {"residual", 1, 1, 0, 0, 1};
    double *launch_s = calls_of(b, 2 * probes_n + FIGURE_LAUNCH, rank);
    struct bed bed;
    enum status st = bed_init(&bed, &least);
    pthread_barrier_wait(&b->together);
    for (size_t k = 0; st == STATUS_OK && k < b->repeats; k++)
        launch_s[k] = repeat(&bed, forward_pass);
    bed_free(&bed);
    return st;
}

enum status bench_ops(struct bench *b, size_t rank)
{
    enum status st = STATUS_OK;
    gemm_single_thread();
    for (size_t k = 0; k < probes_n; k++) {
        if (b->progress && rank == 0)
            fprintf(stderr, "\rcalibrate: op %zu of %zu", k + 1, probes_n);
        if (layer_kind_find(probes[k].kind))
            TRY(bench_layer(b, rank, k));
        else
            TRY(bench_update(b, rank, k));
    }
    TRY(bench_copy(b, rank));
    TRY(bench_launch(b, rank));
out:
    return st;
}
