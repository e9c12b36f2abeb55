#include <math.h>
#include <stdlib.h>

#include "exec/corpus.h"
#include "exec/cuda/selftest.h"
#include "exec/random.h"

/* Products of up to 4096 numbers in other orders, in fp32. */
static const double limit = 1e-4;

/* ---- operands: the same arrays in host memory and on the GPU */

enum array {
    X0,
    X1,
    Y,
    SAVED,
    WORK,
    PARAMETER,
    SHARED,
    DY,
    DX0,
    DX1,
    D_PARAMETER,
    D_SHARED,
    TOKEN,
    TARGET,
    ARRAYS
};

struct operands {
    size_t n[ARRAYS], n_gpu[ARRAYS]; /* 4-byte numbers */
    void *host[ARRAYS], *gpu[ARRAYS];
};

static void set_sizes(const struct layer *cpu, const struct layer *gpu, size_t batch,
                      struct operands *o)
{
    const size_t n[ARRAYS] = {
        [X0] = batch * cpu->input,
        [X1] = batch * cpu->input,
        [Y] = batch * cpu->output,
        [SAVED] = batch * cpu->saved,
        [WORK] = cpu->work,
        [PARAMETER] = cpu->parameters,
        [SHARED] = cpu->shared,
        [DY] = batch * cpu->output,
        [DX0] = batch * cpu->input,
        [DX1] = batch * cpu->input,
        [D_PARAMETER] = cpu->parameters,
        [D_SHARED] = cpu->shared,
        [TOKEN] = batch * cpu->tokens,
        [TARGET] = batch * cpu->tokens,
    };
    for (int k = 0; k < ARRAYS; k++)
        o->n[k] = o->n_gpu[k] = n[k];
    o->n_gpu[SAVED] = batch * gpu->saved;
    o->n_gpu[WORK] = gpu->work;
}

/* Gradients of parameters begin with numbers too: they are added to. */
static void fill(struct operands *o, enum array k)
{
    float *data = o->host[k];
    int32_t *whole = o->host[k];
    for (size_t i = 0; i < o->n[k]; i++) {
        double u = random_unit((uint64_t)k, i);
        if (k == TOKEN)
            whole[i] = (int32_t)(u * CORPUS_VOCABULARY);
        else if (k == TARGET)
            whole[i] = i % 5 == 3 ? -1 : (int32_t)(u * CORPUS_VOCABULARY);
        else
            data[i] = (float)(2 * u - 1);
    }
}

static void close_operands(struct operands *o)
{
    for (int k = 0; k < ARRAYS; k++) {
        free(o->host[k]);
        cudaFree(o->gpu[k]);
    }
    *o = (struct operands){0};
}

static enum status open_operands(struct cuda_context *c, struct operands *o)
{
    enum status st = STATUS_OK;
    for (int k = 0; k < ARRAYS; k++) {
        o->host[k] = calloc(o->n[k] + 1, sizeof(float));
        if (!o->host[k]) {
            st = error_set(STATUS_NOMEM, "%zu numbers", o->n[k]);
            goto out;
        }
        TRY(CUDA_ERROR("memory", cudaMalloc(&o->gpu[k], (o->n_gpu[k] + 1) * sizeof(float))));
        if (k == SAVED || k == WORK)
            continue;
        fill(o, (enum array)k);
        backend_cuda.copy(c, o->gpu[k], o->host[k], o->n[k] * sizeof(float));
    }
    st = cuda_status(c);
out:
    return st;
}

static struct layer_io io_of(void *const data[ARRAYS], size_t batch, void *on)
{
    return (struct layer_io){
        .batch = batch,
        .x = {data[X0], data[X1]},
        .y = data[Y],
        .saved = data[SAVED],
        .work = data[WORK],
        .parameter = data[PARAMETER],
        .shared = data[SHARED],
        .token = data[TOKEN],
        .target = data[TARGET],
        .dy = data[DY],
        .dx = {data[DX0], data[DX1]},
        .d_parameter = data[D_PARAMETER],
        .d_shared = data[D_SHARED],
        .scale = 0.001F,
        .on = on,
    };
}

static double run(const struct layer *l, struct layer_io *io)
{
    l->kind->forward(l, io);
    double loss = io->loss * (double)io->scale;
    layer_backward(l, io);
    return loss;
}

/* ---- comparison */

/* Largest difference of an array, relative to its largest number. */
static enum status difference(struct cuda_context *c, const struct operands *o, enum array k,
                              double *worst)
{
    enum status st = STATUS_OK;
    const float *wanted = o->host[k];
    double largest = 0, off = 0;
    float *found = malloc((o->n[k] + 1) * sizeof *found);
    if (!found)
        return error_set(STATUS_NOMEM, "%zu numbers", o->n[k]);
    backend_cuda.copy(c, found, o->gpu[k], o->n[k] * sizeof *found);
    for (size_t i = 0; i < o->n[k]; i++) {
        double d = fabs((double)found[i] - (double)wanted[i]);
        largest = fmax(largest, fabs((double)wanted[i]));
        off = d <= off ? off : d; /* NAN too */
    }
    off = off > 0 || isnan(off) ? off / largest : 0;
    *worst = off <= *worst ? *worst : off;
    free(found);
    st = cuda_status(c);
    return st;
}

static enum status compare_loss(struct cuda_context *c, double wanted, double *worst)
{
    double found = 0;
    backend_cuda.copy(c, &found, c->loss, sizeof found);
    backend_cuda.zero(c, c->loss, sizeof found);
    double off = fabs(found - wanted) / (wanted > 0 ? wanted : 1);
    *worst = off <= *worst ? *worst : off;
    return cuda_status(c);
}

/* ---- cases */

struct layer_case {
    const char *name, *kind;
    size_t batch;
    bool tied;
    size_t attributes;
    struct model_attribute attribute[6];
};

static const struct layer_case cases[] = {
    {"embedding",
     "embedding",
     3,
     false,
     5,
     {{"tokens", 96}, {"channels", 200}, {"vocabulary", 300}, {"positions", 128}, {"types", 2}}},
    {"embedding, concat",
     "embedding",
     5,
     false,
     4,
     {{"tokens", 8}, {"channels", 24}, {"vocabulary", 256}, {"concat", 1}}},
    {"layernorm 768", "layernorm", 3, false, 2, {{"tokens", 70}, {"channels", 768}}},
    {"layernorm 20", "layernorm", 1, false, 2, {{"tokens", 3}, {"channels", 20}}},
    {"linear with bias",
     "linear",
     2,
     false,
     4,
     {{"tokens", 100}, {"in", 192}, {"out", 320}, {"bias", 1}}},
    {"linear, tied", "linear", 2, true, 3, {{"tokens", 33}, {"in", 64}, {"out", 256}}},
    {"gelu", "gelu", 2, false, 2, {{"tokens", 100}, {"channels", 3000}}},
    {"residual", "residual", 2, false, 2, {{"tokens", 100}, {"channels", 96}}},
    {"attention, causal",
     "attention",
     2,
     false,
     4,
     {{"tokens", 100}, {"channels", 96}, {"heads", 3}, {"causal", 1}}},
    {"attention, not causal",
     "attention",
     2,
     false,
     3,
     {{"tokens", 64}, {"channels", 64}, {"heads", 2}}},
    {"attention 1024, causal, in blocks",
     "attention",
     1,
     false,
     4,
     {{"tokens", 1024}, {"channels", 384}, {"heads", 12}, {"causal", 1}}},
    {"attention 1024, in blocks",
     "attention",
     1,
     false,
     3,
     {{"tokens", 1024}, {"channels", 384}, {"heads", 12}}},
    {"loss", "loss", 3, false, 2, {{"tokens", 50}, {"vocabulary", 1000}}},
};

static enum status shape(const struct layer_case *k, struct layer *out)
{
    enum status st;
    struct model_attribute attribute[6];
    for (size_t i = 0; i < k->attributes; i++)
        attribute[i] = k->attribute[i];
    char name[] = "self-test", kind[32];
    snprintf(kind, sizeof kind, "%s", k->kind);
    const struct model_op op = {
        .name = name, .kind = kind, .attributes = k->attributes, .attribute = attribute};
    struct layer l = {.kind = layer_kind_find(kind), .tied = k->tied};
    l.inputs = l.kind->inputs;
    TRY(l.kind->shape(&op, &l));
    for (size_t i = 0; i < LAYER_PARTS; i++)
        l.parameters += l.part[i].n;
    *out = l;
out:
    return st;
}

static enum status run_case(struct cuda_context *c, const struct layer_case *k, double *worst)
{
    static const enum array results[] = {Y, DX0, DX1, D_PARAMETER, D_SHARED};
    enum status st;
    struct operands o = {0};
    struct layer cpu, gpu;
    TRY(shape(k, &cpu));
    gpu = cpu;
    cuda_adapt(&gpu);
    set_sizes(&cpu, &gpu, k->batch, &o);
    TRY(open_operands(c, &o));
    struct layer_io host = io_of(o.host, k->batch, NULL), device = io_of(o.gpu, k->batch, c);
    double loss = run(&cpu, &host);
    run(&gpu, &device);
    *worst = 0;
    TRY(compare_loss(c, loss, worst));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (results[i] != DX1 || cpu.inputs > 1)
            TRY(difference(c, &o, results[i], worst));
out:
    close_operands(&o);
    return st;
}

enum status selftest_layers(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st = STATUS_OK;
    bool all = true;
    gemm_single_thread();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double worst = NAN;
        TRY(run_case(c, &cases[k], &worst));
        all = selftest_row(to, cases[k].name, worst, limit) && all;
    }
    *good = all;
out:
    return st;
}
