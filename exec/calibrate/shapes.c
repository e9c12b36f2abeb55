/* What is measured on GPUs: sizes up to those of today's buckets, and the ops of a model, whole and
 * as shards have them, where one is named. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "exec/calibrate/probe.h"

enum { SMALLEST = 1 << 10, SHARDS_MOST = 8, UPDATES_LEAST = 1 << 10 };

static bool shapes_is_linear(const struct probe *p)
{
    return !strcmp(p->kind, "linear");
}

const struct probe *bench_heaviest(const struct bench_task *task)
{
    const struct probe *most = NULL;
    for (size_t k = 0; k < task->probes; k++)
        if (shapes_is_linear(&task->probe[k]) &&
            (!most || probe_flop(&task->probe[k], false) >= probe_flop(most, false)))
            most = &task->probe[k];
    return most;
}

/* 1 KiB, 4 KiB, ... */
static enum status make_sizes(int64_t largest, struct bench_shapes *s)
{
    size_t n = 1;
    for (int64_t bytes = SMALLEST; bytes <= largest / 4; bytes *= 4)
        n++;
    PASS(ARRAY_NEW(s->size, n));
    for (size_t k = 0; k < n; k++)
        s->size[k] = k ? s->size[k - 1] * 4 : SMALLEST;
    s->task.size = s->size;
    if ((int64_t)s->task.copy_bytes > largest)
        s->task.copy_bytes = (size_t)largest;
    s->task.sizes = n;
    return STATUS_OK;
}

/* Fused attention has rates of its own (core/cost/cost.h). */
static const char *shapes_op_kind(const struct model_op *op)
{
    return model_attribute(op, "flash", 0) > 0 ? "flash" : op->kind;
}

static void shapes_add_size(struct bench_shapes *s, const char *kind, const struct layer *l,
                            size_t batch, const double flop[2])
{
    size_t n = s->task.probes;
    for (size_t k = 0; k < n; k++)
        if (layers_alike(&s->layer[k], l) && !strcmp(s->probe[k].kind, kind))
            return;
    s->layer[n] = *l;
    s->probe[n] = (struct probe){.kind = kind, .batch = batch, .layer = &s->layer[n]};
    memcpy(s->probe[n].flop, flop, sizeof s->probe[n].flop);
    s->task.probes++;
}

/* An op without work has no rate. Shards have equal parts of it. */
static enum status shapes_add_op(const struct model *m, uint32_t i, size_t batch,
                                 struct bench_shapes *s)
{
    struct layer whole;
    const struct model_op *op = &m->op[i];
    PASS(layer_shape(m, i, batch, &whole));
    for (size_t shards = 1; shards <= SHARDS_MOST; shards *= 2) {
        struct layer l = whole;
        const struct layer_shard part = {.shards = shards, .parts = 1};
        double work = (double)batch / (double)shards;
        double flop[2] = {op->forward_flop * work, op->backward_flop * work};
        if (shards > 1 && op->tensor == TENSOR_WHOLE)
            break;
        if (layer_divide(m, i, &part, batch, &l) != STATUS_OK)
            break; /* and into more parts neither */
        if (flop[0] > 0 && flop[1] > 0)
            shapes_add_size(s, shapes_op_kind(op), &l, batch, flop);
    }
    return STATUS_OK;
}

/* Those of a kind side by side, by work. */
static int by_kind(const void *a, const void *b)
{
    const struct probe *p = a, *q = b;
    int order = strcmp(p->kind, q->kind);
    double work = probe_flop(p, false) - probe_flop(q, false);
    return order ? order : work < 0 ? -1 : work > 0;
}

static enum status shapes_add_model(const struct model *m, size_t batch, struct bench_shapes *s)
{
    enum { UPDATES = 4, PARTS = 4 }; /* of 1, 2, 4, 8 shards */
    size_t most = PARTS * m->n + 2 * UPDATES;
    int64_t parameters = model_parameters(m);
    PASS(ARRAY_NEW(s->probe, most));
    PASS(ARRAY_NEW(s->layer, most));
    for (uint32_t i = 0; i < m->n; i++)
        PASS(shapes_add_op(m, i, batch, s));
    for (size_t k = UPDATES; k-- > 0;)
        for (size_t a = 0; a < 2 && parameters >> k >= UPDATES_LEAST; a++)
            s->probe[s->task.probes++] =
                (struct probe){.kind = a ? "sgd" : "adam", .channels = parameters >> k, .batch = 1};
    qsort(s->probe, s->task.probes, sizeof *s->probe, by_kind);
    s->task.probe = s->probe;
    return STATUS_OK;
}

enum status bench_shapes_make(const struct model *m, size_t batch, int64_t largest,
                              struct bench_shapes *out)
{
    enum status st;
    struct bench_shapes s = {.task = bench_task_gpu};
    if (m)
        s.task.probes = 0;
    TRY(make_sizes(largest, &s));
    if (m)
        TRY(shapes_add_model(m, batch, &s));
    MOVE(out, s);
out:
    bench_shapes_free(&s);
    return st;
}

void bench_shapes_free(struct bench_shapes *s)
{
    free(s->probe);
    free(s->layer);
    free(s->size);
    *s = (struct bench_shapes){0};
}
