/* Layers that the GPU computes together: layer_kind.forward_with, backward_with and adds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/device/cuda/selftest.h"
#include "exec/device/cuda/selftest_operands.h"

/* fp32 as of single layers (selftest_layers.c). */
static const double limit[ELEMENTS] = {1e-4, 6e-3, 1e-3};

#define SHAPE(kind, n, ...)                                                                        \
    {                                                                                              \
        kind, kind, 2, false, n, __VA_ARGS__                                                       \
    }
#define ROPE_AND_ATTENTION(name, t, n, kv, d)                                                      \
    {                                                                                              \
        name, true, true,                                                                          \
            SHAPE("rope", 4, {{"tokens", t}, {"heads", n}, {"kv_heads", kv}, {"head", d}}),        \
            SHAPE("attention", 5,                                                                  \
                  {{"tokens", t},                                                                  \
                   {"channels", (n) * (d)},                                                        \
                   {"heads", n},                                                                   \
                   {"kv_heads", kv},                                                               \
                   {"causal", 1}})                                                                 \
    }
static const struct selftest_pair {
    const char *name;
    bool back;      /* the second one's backward with the first one's */
    bool only_half; /* fp32 has none */
    struct selftest_case first, second;
} pairs[] = {
    {"residual and layernorm 768", false, false,
     SHAPE("residual", 2, {{"tokens", 50}, {"channels", 768}}),
     SHAPE("layernorm", 2, {{"tokens", 50}, {"channels", 768}})},
    {"residual and layernorm 201", false, false,
     SHAPE("residual", 2, {{"tokens", 7}, {"channels", 201}}),
     SHAPE("layernorm", 2, {{"tokens", 7}, {"channels", 201}})},
    {"residual and rmsnorm 768", false, false,
     SHAPE("residual", 2, {{"tokens", 50}, {"channels", 768}}),
     SHAPE("rmsnorm", 2, {{"tokens", 50}, {"channels", 768}})},
    {"residual and rmsnorm 201, offset", false, false,
     SHAPE("residual", 2, {{"tokens", 7}, {"channels", 201}}),
     SHAPE("rmsnorm", 3, {{"tokens", 7}, {"channels", 201}, {"offset", 1}})},
    {"linear and gelu", false, true,
     SHAPE("linear", 4, {{"tokens", 60}, {"in", 96}, {"out", 320}, {"bias", 1}}),
     SHAPE("gelu", 2, {{"tokens", 60}, {"channels", 320}})},
    {"gelu and linear, backward", true, true, SHAPE("gelu", 2, {{"tokens", 60}, {"channels", 320}}),
     SHAPE("linear", 4, {{"tokens", 60}, {"in", 320}, {"out", 96}, {"bias", 1}})},
    ROPE_AND_ATTENTION("rope and attention 64, backward", 70, 4, 2, 64),
    ROPE_AND_ATTENTION("rope and attention 80, backward", 33, 2, 1, 80),
    ROPE_AND_ATTENTION("rope and attention 128, backward", 130, 2, 2, 128),
};
static const struct selftest_case adders[] = {
    SHAPE("layernorm", 2, {{"tokens", 50}, {"channels", 768}}),
    SHAPE("layernorm", 2, {{"tokens", 7}, {"channels", 201}}),
    SHAPE("rmsnorm", 2, {{"tokens", 50}, {"channels", 768}}),
    SHAPE("rmsnorm", 3, {{"tokens", 7}, {"channels", 201}, {"offset", 1}}),
};

struct side {
    struct layer cpu, gpu;
    struct operands operands;
    struct layer_io host, device;
};

static enum status open_side(struct cuda_context *c, const struct selftest_case *k,
                             enum element half, struct side *s)
{
    enum status st;
    const struct selftest_division whole = {*k, TENSOR_WHOLE, 1};
    TRY(selftest_shape(&whole, &(struct layer_shard){.shards = 1, .groups = 1, .parts = 1},
                       &s->cpu));
    s->gpu = s->cpu;
    s->gpu.half = half;
    TRY(cuda_adapt(&(struct model_op){.kind = (char *)(uintptr_t)k->kind}, &s->gpu));
    TRY(operands_open(c, &s->cpu, &s->gpu, k->batch, &s->operands));
    s->host = operands_io(s->operands.host, k->batch, NULL);
    s->device = operands_io(s->operands.gpu, k->batch, c);
out:
    return st;
}

static enum status not_together(const char *name)
{
    return error_set(STATUS_UNSUPPORTED,
                     "%s: the self-test expects a fused kernel, but the worker has none", name);
}

static enum status compare_forward(struct cuda_context *c, const char *name, struct side *a,
                                   struct side *b, double *worst)
{
    enum status st;
    a->cpu.kind->forward(&a->cpu, &a->host);
    b->host.x[0] = a->host.y;
    b->cpu.kind->forward(&b->cpu, &b->host);
    b->device.x[0] = a->device.y;
    if (!a->gpu.kind->forward_with ||
        !a->gpu.kind->forward_with(&a->gpu, &a->device, &b->gpu, &b->device))
        return not_together(name);
    TRY(operands_compare(c, &a->operands, Y, worst));
    TRY(operands_compare(c, &b->operands, Y, worst));
out:
    return st;
}

static enum status compare_backward(struct cuda_context *c, const char *name, struct side *a,
                                    struct side *b, double *worst)
{
    a->cpu.kind->forward(&a->cpu, &a->host);
    b->host.x[0] = a->host.y;
    b->cpu.kind->forward(&b->cpu, &b->host);
    a->gpu.kind->forward(&a->gpu, &a->device);
    b->device.x[0] = a->device.y;
    b->gpu.kind->forward(&b->gpu, &b->device);
    b->cpu.kind->backward(&b->cpu, &b->host);
    a->host.dy = b->host.dx[0];
    a->cpu.kind->backward(&a->cpu, &a->host);
    if (!b->gpu.kind->backward_with ||
        !b->gpu.kind->backward_with(&b->gpu, &b->device, &a->gpu, &a->device))
        return not_together(name);
    return operands_compare(c, &a->operands, DX0, worst);
}

static enum status try_pair(struct cuda_context *c, const struct selftest_pair *p,
                            enum element half, FILE *to, bool *good)
{
    enum status st;
    double worst = 0;
    char name[64];
    struct side a = {0}, b = {0};
    snprintf(name, sizeof name, "%s%s", p->name, selftest_half[half]);
    TRY(open_side(c, &p->first, half, &a));
    TRY(open_side(c, &p->second, half, &b));
    TRY(p->back ? compare_backward(c, name, &a, &b, &worst)
                : compare_forward(c, name, &a, &b, &worst));
    *good = selftest_row(to, name, worst, limit[half]) && *good;
out:
    operands_close(&a.operands);
    operands_close(&b.operands);
    return st;
}

/* Both sides have the same numbers where the gradient is to be. */
static enum status try_adder(struct cuda_context *c, const struct selftest_case *k,
                             enum element half, FILE *to, bool *good)
{
    enum status st;
    double worst = 0;
    char name[64];
    struct side s = {0};
    real *there = NULL;
    snprintf(name, sizeof name, "%s, added%s", k->name, selftest_half[half]);
    TRY(open_side(c, k, half, &s));
    size_t n = k->batch * s.cpu.input;
    there = malloc(n * sizeof *there);
    if (!there || !s.gpu.kind->adds) {
        st = there
                 ? not_together(name)
                 : error_set(STATUS_NOMEM, "out of memory: buffer of %zu bytes", n * sizeof *there);
        goto out;
    }
    memcpy(there, s.host.dx[0], n * sizeof *there);
    s.device.adds = true;
    s.cpu.kind->forward(&s.cpu, &s.host);
    s.gpu.kind->forward(&s.gpu, &s.device);
    layer_backward(&s.cpu, &s.host);
    layer_backward(&s.gpu, &s.device);
    for (size_t i = 0; i < n; i++)
        s.host.dx[0][i] += there[i];
    TRY(operands_compare(c, &s.operands, DX0, &worst));
    TRY(operands_compare(c, &s.operands, D_PARAMETER, &worst));
    *good = selftest_row(to, name, worst, limit[half]) && *good;
out:
    free(there);
    operands_close(&s.operands);
    return st;
}

enum status selftest_pairs(struct cuda_context *c, FILE *to, bool *good)
{
    for (enum element half = 0; half < ELEMENTS; half++) {
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
            if (half || !pairs[k].only_half)
                PASS(try_pair(c, &pairs[k], half, to, good));
        for (size_t k = 0; k < sizeof adders / sizeof *adders; k++)
            PASS(try_adder(c, &adders[k], half, to, good));
    }
    return STATUS_OK;
}
