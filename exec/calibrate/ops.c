/* One rank's compute: layers forward and backward, optimizer steps, copies, and what a call costs
 * that does hardly anything.
 *
 * An op in a pipeline finds its operands in memory, not in a cache, since other microbatches have
 * passed since they were written. So calls go round a ring of operands that is larger than the
 * caches, and a figure is the mean over whole rounds of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/calibrate/probe.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/cpu/vector.h"

/* Calls go round a ring of so many bytes of operands: in a pipeline, an op's weights and saved
 * activations have been out of the cache since the previous microbatch. */
static const double repeat_s = 4e-3;
enum { HOST_CALLS = 200 };
enum { RING_BYTES = 24 << 20, RING_GPU_BYTES = 256 << 20, RING_LEAST = 2, RING_MOST = 128 };

static size_t ring_bytes(const struct bench *b)
{
    return b->on.backend->remote ? RING_GPU_BYTES : RING_BYTES;
}

/* ---- the CPU as what is measured */

static void start_cpu(struct bench *b)
{
    b->start_s = clock_now();
}

static void stop_cpu(struct bench *b)
{
    b->sum_s += clock_now() - b->start_s;
}

static enum status take_cpu(struct bench *b, double *seconds)
{
    *seconds = b->sum_s;
    b->sum_s = 0;
    return STATUS_OK;
}

static const struct bench_watch watch_cpu = {start_cpu, stop_cpu, take_cpu, NULL};

static enum status choose_cpu(struct bench *b)
{
    if (b->on.backend)
        return STATUS_OK;
    PASS(gemm_single_thread());
    b->on = (struct memory){&backend_cpu, NULL};
    b->watch = &watch_cpu;
    return STATUS_OK;
}

/* ---- layers */

/* Operands: y, saved and parameters once per instance of the ring, the rest once. */
struct bed {
    const struct bench *bench;
    struct layer layer; /* as the backend has it */
    size_t batch, ring;
    size_t input, output, saved;                  /* reals of a call */
    real *x, *y, *kept, *parameter, *d_parameter; /* [ring] of them */
    real *source, *dy, *dx[LAYER_INPUTS], *work, *shared, *d_shared;
    real *half, *half_shared; /* [ring] */
    int32_t *token, *target;
};

static void bed_free(struct bed *b)
{
    void *const all[] = {b->x,           b->y,           b->kept,   b->parameter,
                         b->d_parameter, b->source,      b->dy,     b->dx[0],
                         b->dx[1],       b->work,        b->shared, b->d_shared,
                         b->half,        b->half_shared, b->token,  b->target};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (all[k])
            b->bench->on.backend->release(b->bench->on.self, all[k]);
}

/* n reals in the place's memory that hold numbers of moderate size, of 16 bits if `half`; or
 * NULL. */
static real *op_bench_numbers(const struct bench *b, size_t n, bool half)
{
    const struct memory *on = &b->on;
    size_t many = half ? 2 * n : n;
    real *made = on->backend->allocate(on->self, (n + 1) * sizeof *made);
    real *wide = half && made ? on->backend->allocate(on->self, (many + 1) * sizeof *wide) : made;
    real *host = on->backend->remote ? malloc((many + 1) * sizeof *host) : made;
    if (made && wide && host) {
        for (size_t i = 0; i < many; i++)
            host[i] = (real)((double)(i * 2654435761u % 1000) / 1000 - 0.5);
        if (host != made)
            on->backend->copy(on->self, wide, host, many * sizeof *host);
        if (half)
            on->backend->narrow(on->self, b->half, made, wide, many);
    } else if (made) {
        on->backend->release(on->self, made);
    }
    if (wide && wide != made)
        on->backend->release(on->self, wide);
    if (host != made)
        free(host);
    return wide && host ? made : NULL;
}

/* What a masked model predicts: one target in so many (BERT: 15 %). */
enum { MASKED_EVERY = 7 };

static enum status bed_tokens(struct bed *b)
{
    enum status st = STATUS_OK;
    const struct memory *on = &b->bench->on;
    size_t n = b->batch * b->layer.tokens;
    int32_t *token = malloc(2 * (n + 1) * sizeof *token), *target = token + n + 1;
    b->token = on->backend->allocate(on->self, (n + 1) * sizeof *b->token);
    b->target = on->backend->allocate(on->self, (n + 1) * sizeof *b->target);
    if (!token || !b->token || !b->target)
        FAIL(STATUS_NOMEM, "out of memory: buffers for the ids of %zu tokens", n);
    for (size_t i = 0; i < n; i++) {
        token[i] = (int32_t)(i * 2654435761u % CORPUS_VOCABULARY);
        target[i] = b->layer.masked && i % MASKED_EVERY ? -1 : token[i];
    }
    on->backend->copy(on->self, b->token, token, n * sizeof *token);
    on->backend->copy(on->self, b->target, target, n * sizeof *target);
out:
    free(token);
    return st;
}

/* What a router makes, every expert chosen as often: the second input of experts. */
static void bed_routes(const struct bed *b)
{
    const struct layer *l = &b->layer;
    bool routed = l->second > 0 && l->moe.experts > 0;
    for (size_t i = 0; routed && i < b->ring * b->batch * l->second; i++) {
        size_t call = i / (b->batch * l->second), at = i % (b->batch * l->second);
        size_t k = at % (2 * l->moe.top_k), row = at / (2 * l->moe.top_k);
        b->x[(call * l->inputs + 1) * b->input + at] =
            k < l->moe.top_k ? (real)((row * l->moe.top_k + k) % l->moe.experts)
                             : (real)1 / (real)l->moe.top_k;
    }
}

/* Enough of the operands that they do not stay in a cache. */
static size_t ring_of(const struct bed *b)
{
    const struct layer *l = &b->layer;
    size_t instance = l->inputs * b->input + b->output + b->saved + 2 * (l->parameters + l->shared);
    size_t ring = ring_bytes(b->bench) / sizeof(real) / (instance + 1);
    return ring < RING_LEAST ? RING_LEAST : ring > RING_MOST ? RING_MOST : ring;
}

/* What differs from call to call lies in the ring; what an op would find in a cache, since the op
 * before has just written it, exists once. */
static enum status bed_init(struct bed *b, const struct bench *bench, const struct layer *layer,
                            size_t batch)
{
    *b = (struct bed){.bench = bench, .layer = *layer, .batch = batch};
    struct layer *l = &b->layer;
    l->half = bench->half;
    const struct model_op op = {.kind = (char *)(uintptr_t)layer_kind_name(l->kind)};
    if (bench->on.backend->adapt)
        PASS(bench->on.backend->adapt(&op, l));
    b->input = layer_room(l, (l->second > l->input ? l->second : l->input) * batch);
    b->output = layer_room(l, l->output * batch);
    b->saved = l->saved * batch;
    b->ring = ring_of(b);
    size_t wide = b->input > b->output ? b->input : b->output;
    const struct {
        real **data;
        size_t n;
        bool half;
    } array[] = {
        {&b->x, b->ring * l->inputs * b->input, l->half},
        {&b->y, b->ring * b->output, l->half},
        {&b->kept, b->ring * b->saved, false},
        {&b->parameter, b->ring * l->parameters, false},
        {&b->d_parameter, b->ring * l->parameters, false},
        {&b->shared, b->ring * l->shared, false},
        {&b->d_shared, b->ring * l->shared, false},
        {&b->half, l->half ? b->ring * (l->parameters / 2 + 1) : 0, true},
        {&b->half_shared, l->half ? b->ring * (l->shared / 2 + 1) : 0, true},
        {&b->source, wide, l->half},
        {&b->dy, b->output, l->half},
        {&b->dx[0], b->input, l->half},
        {&b->dx[1], b->input, l->half},
        {&b->work, l->work, false},
    };
    for (size_t k = 0; k < sizeof array / sizeof *array; k++)
        if (!(*array[k].data = op_bench_numbers(bench, array[k].n, array[k].half && l->half)))
            return error_set(STATUS_NOMEM, "out of memory: buffers for the operands of op kind %s",
                             layer_kind_name(l->kind));
    bed_routes(b);
    return bed_tokens(b);
}

/* Shards' sums are measured as collectives. */
static void op_bench_sum_nothing(void *self, enum element e, void *data, size_t n)
{
    (void)self, (void)e, (void)data, (void)n;
}

static const struct layer_reduction no_reduction = {.sum = op_bench_sum_nothing};

/* The operands of call k of a pass over the ring. */
static struct layer_io op_bench_operands(const struct bed *b, size_t k)
{
    const struct layer *l = &b->layer;
    struct layer_io io = {.batch = b->batch,
                          .y = b->y + k * b->output,
                          .saved = b->kept + k * b->saved,
                          .work = b->work,
                          .parameter = b->parameter + k * l->parameters,
                          .shared = b->shared + k * l->shared,
                          .half = b->half + (l->half ? k * (l->parameters / 2 + 1) : 0),
                          .half_shared = b->half_shared + (l->half ? k * (l->shared / 2 + 1) : 0),
                          .token = b->token,
                          .target = b->target,
                          .dy = b->dy,
                          .d_parameter = b->d_parameter + k * l->parameters,
                          .d_shared = b->d_shared + k * l->shared,
                          .scale = (real)1e-3,
                          .reduction = &no_reduction,
                          .on = b->bench->on.self};
    for (size_t i = 0; i < l->inputs; i++) {
        io.x[i] = b->x + (k * l->inputs + i) * b->input;
        io.dx[i] = b->dx[i];
    }
    layer_borrow(l, &io);
    return io;
}

/* Mean seconds of a forward call. The input has just been written, as by the op before. */
enum status bed_pass(struct bench *bench, const struct bed *b, double *mean_s)
{
    const struct layer *l = &b->layer;
    const struct memory *on = &bench->on;
    for (size_t k = 0; k < b->ring; k++) {
        struct layer_io io = op_bench_operands(b, k);
        for (size_t i = 0; i < (l->second > 0 ? 1 : l->inputs); i++)
            on->backend->copy(on->self, b->x + (k * l->inputs + i) * b->input, b->source,
                              b->input * sizeof(real));
        bench->watch->start(bench);
        l->kind->forward(l, &io);
        bench->watch->stop(bench);
    }
    PASS(bench->watch->take(bench, mean_s));
    *mean_s /= (double)b->ring;
    return STATUS_OK;
}

/* Mean seconds of a backward call. A residual comes with the sum of gradients where the stream had
 * forked, which the stage does for it. */
static enum status backward_pass(struct bench *bench, const struct bed *b, double *mean_s)
{
    const struct layer *l = &b->layer;
    const struct memory *on = &bench->on;
    bool forks = l->inputs > 1 && l->second == 0;
    for (size_t k = 0; k < b->ring; k++) {
        struct layer_io io = op_bench_operands(b, k);
        on->backend->copy(on->self, b->dy, b->source, b->output * sizeof(real));
        bench->watch->start(bench);
        layer_backward(l, &io);
        if (forks && l->half)
            on->backend->add_half(on->self, l->half, b->dx[0], b->dy, 2 * b->input);
        else if (forks)
            on->backend->add(on->self, b->dx[0], b->dy, b->input);
        bench->watch->stop(bench);
    }
    PASS(bench->watch->take(bench, mean_s));
    *mean_s /= (double)b->ring;
    return STATUS_OK;
}

/* Mean over as many passes as take a few milliseconds, so that no single interruption counts. */
static enum status repeat(struct bench *bench, const struct bed *b,
                          enum status (*pass)(struct bench *, const struct bed *, double *),
                          double *mean_s)
{
    double sum_s = 0, begin_s = clock_now(), cpu_s = clock_thread_cpu(), once_s;
    size_t n = 0;
    for (; n == 0 || clock_now() < begin_s + repeat_s; n++) {
        PASS(pass(bench, b, &once_s));
        sum_s += once_s;
    }
    *mean_s = sum_s / (double)n;
    bench->cpu_s += clock_thread_cpu() - cpu_s;
    bench->wall_s += clock_now() - begin_s;
    return STATUS_OK;
}

/* One to warm up, then, together with the others, all that count. */
static enum status repeat_all(struct bench *bench, const struct bed *b,
                              enum status (*pass)(struct bench *, const struct bed *, double *),
                              double *mean_s)
{
    double ignored_s;
    PASS(pass(bench, b, &ignored_s));
    bench->together(bench->context);
    for (size_t k = 0; k < bench->repeats; k++)
        PASS(repeat(bench, b, pass, &mean_s[k]));
    return STATUS_OK;
}

enum status bench_layer(struct bench *b, const struct layer *l, size_t batch, double *forward_s,
                        double *backward_s)
{
    enum status st;
    struct bed bed;
    PASS(choose_cpu(b));
    TRY(bed_init(&bed, b, l, batch));
    TRY(repeat_all(b, &bed, bed_pass, forward_s));
    TRY(repeat_all(b, &bed, backward_pass, backward_s));
out:
    bed_free(&bed);
    return st;
}

static enum status bench_probe(struct bench *b, size_t probe)
{
    struct layer l;
    PASS(probe_layer(&b->task->probe[probe], &l));
    return bench_layer(b, &l, b->task->probe[probe].batch, calls_of(b, 2 * probe, b->rank),
                       calls_of(b, 2 * probe + 1, b->rank));
}

/* ---- optimizers and memory */

/* Stages without ops, whose parameters, gradients and moments are one array after the other. */
struct update_bed {
    size_t n, ring; /* parameters of each, how many */
    bool moments;
    real *data; /* [4 * n * ring] */
};

static enum status update_pass(struct bench *bench, const struct update_bed *b, double *mean_s)
{
    for (size_t i = 0; i < b->ring; i++) {
        real *own = b->data + 4 * b->n * i;
        const struct program none = {0};
        struct stage_bucket all = {.n = b->n, .own = {0, b->n}};
        struct stage s = {.on = bench->on,
                          .program = &none,
                          .share = {.buckets = 1, .regions = 1, .bucket = &all},
                          .layout.parameters = b->n,
                          .state = {.learning_rate = 1e-3,
                                    .factor = 1,
                                    .scale = 1,
                                    .parameter = own,
                                    .gradient = own + b->n,
                                    .moment = b->moments ? own + 2 * b->n : NULL,
                                    .square = b->moments ? own + 3 * b->n : NULL}};
        bench->watch->start(bench);
        PASS(stage_update(&s));
        bench->watch->stop(bench);
    }
    PASS(bench->watch->take(bench, mean_s));
    *mean_s /= (double)b->ring;
    return STATUS_OK;
}

/* A sum of squares is not negative: zeros. */
static void clear_squares(const struct bench *b, const struct update_bed *u)
{
    for (size_t i = 0; i < u->ring; i++)
        b->on.backend->zero(b->on.self, u->data + 4 * u->n * i + 3 * u->n, u->n * sizeof(real));
}

/* Parameters, gradients and both moments of a whole stage lie one after the other, as in a device;
 * the ring has as many stages as fill it. */
static enum status bench_update(struct bench *b, size_t probe)
{
    enum status st;
    const struct probe *p = &b->task->probe[probe];
    size_t n = (size_t)p->channels, ring = ring_bytes(b) / (4 * sizeof(real) * n) + 1;
    struct update_bed bed = {n, ring, *p->kind == 'a', op_bench_numbers(b, 4 * n * ring, false)};
    double *update_s = calls_of(b, 2 * probe, b->rank), ignored_s;
    if (!bed.data)
        return error_set(STATUS_NOMEM, "out of memory: buffers to update %zu parameters", n);
    clear_squares(b, &bed);
    TRY(update_pass(b, &bed, &ignored_s));
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++)
        TRY(update_pass(b, &bed, &update_s[k]));
out:
    b->on.backend->release(b->on.self, bed.data);
    return st;
}

/* Two arrays larger than the caches, to and fro. */
static enum status bench_copy(struct bench *b)
{
    enum status st = STATUS_OK;
    const struct memory *on = &b->on;
    size_t n = b->task->copy_bytes / sizeof(real);
    real *from = op_bench_numbers(b, n, false), *to = op_bench_numbers(b, n, false);
    double *copy_s = calls_of(b, 2 * b->task->probes + FIGURE_COPY, b->rank);
    if (!from || !to)
        FAIL(STATUS_NOMEM, "out of memory: two buffers of %zu bytes for the copy benchmark",
             n * sizeof(real));
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++) { /* to and fro, so that no two copies are the same */
        b->watch->start(b);
        on->backend->copy(on->self, k % 2 ? from : to, k % 2 ? to : from, n * sizeof(real));
        b->watch->stop(b);
        TRY(b->watch->take(b, &copy_s[k]));
        on->backend->zero(on->self, k % 2 ? from : to, sizeof(real));
    }
out:
    if (from)
        on->backend->release(on->self, from);
    if (to)
        on->backend->release(on->self, to);
    return st;
}

/* How long the host is at queueing a call, while the GPU's queue has room for many. */
static enum status host_pass(struct bench *b, const struct bed *bed, double *mean_s)
{
    double begin_s = clock_now();
    for (size_t k = 0; k < HOST_CALLS; k++) {
        struct layer_io io = op_bench_operands(bed, k % bed->ring);
        bed->layer.kind->forward(&bed->layer, &io);
    }
    *mean_s = (clock_now() - begin_s) / HOST_CALLS;
    double ignored_s;
    return b->watch->take(b, &ignored_s);
}

/* A layer on hardly any numbers: what a call costs besides its work. */
static enum status bench_launch(struct bench *b)
{
    static const struct probe least = PROBE("residual", 1, 1, 0, 0, 1),
                              pair = PROBE("residual", 1, 2, 0, 0, 1);
    double *launch_s = calls_of(b, 2 * b->task->probes + FIGURE_LAUNCH, b->rank);
    double *host_s = calls_of(b, 2 * b->task->probes + FIGURE_HOST, b->rank);
    struct layer l;
    struct bed bed = {.bench = b};
    enum status st;
    TRY(probe_layer(b->half ? &pair : &least, &l));
    TRY(bed_init(&bed, b, &l, 1));
    b->together(b->context);
    for (size_t k = 0; k < b->repeats; k++)
        TRY(repeat(b, &bed, bed_pass, &launch_s[k]));
    for (size_t k = 0; k < b->repeats && b->task->gpus; k++)
        TRY(host_pass(b, &bed, &host_s[k]));
out:
    bed_free(&bed);
    return st;
}

enum status bed_open(struct bench *b, const struct probe *p, struct bed **out)
{
    enum status st;
    struct layer l;
    struct bed *bed = NULL;
    TRY(probe_layer(p, &l));
    TRY(ARRAY_NEW(bed, 1));
    TRY(bed_init(bed, b, &l, p->batch));
    MOVE(out, bed);
out:
    bed_close(bed);
    return st;
}

void bed_close(struct bed *bed)
{
    if (bed && bed->bench)
        bed_free(bed);
    free(bed);
}

/* What is not repeated: memory, and the share of a core that this rank had for its layers. */
static void note_device(struct bench *b)
{
    bool remote = b->on.backend->remote;
    double *bytes = calls_of(b, 2 * b->task->probes + FIGURE_MEMORY, b->rank);
    double *share = calls_of(b, 2 * b->task->probes + FIGURE_SHARE, b->rank);
    for (size_t k = 0; k < b->repeats; k++) {
        bytes[k] = remote ? b->on.backend->memory_bytes(b->on.self) : 0;
        share[k] = remote ? 1 : b->cpu_s / b->wall_s;
    }
}

/* All ranks go through the same figures in the same order, each beside the others. */
enum status bench_ops(struct bench *b)
{
    PASS(choose_cpu(b));
    for (size_t k = 0; k < b->task->probes; k++) {
        if (b->notes && b->rank == 0)
            fprintf(b->notes, "\rcalibrate: op %zu of %zu", k + 1, b->task->probes);
        PASS(probe_updates(&b->task->probe[k]) ? bench_update(b, k) : bench_probe(b, k));
    }
    PASS(bench_copy(b));
    PASS(bench_launch(b));
    note_device(b);
    return bench_power(b);
}
