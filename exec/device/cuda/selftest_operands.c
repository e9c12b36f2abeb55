#include "exec/device/cuda/selftest_operands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "exec/corpus.h"

/* Numbers of each operand for a batch; what is saved and scratch may differ between the sides. */
static void operands_set_sizes(const struct layer *cpu, const struct layer *gpu, size_t batch,
                               struct operands *o)
{
    const size_t n[ARRAYS] = {
        [X0] = batch * cpu->input,
        [X1] = batch * layer_input(cpu, 1),
        [Y] = batch * cpu->output,
        [SAVED] = batch * cpu->saved,
        [WORK] = cpu->work,
        [PARAMETER] = cpu->parameters,
        [SHARED] = cpu->shared,
        [DY] = batch * cpu->output,
        [DX0] = batch * cpu->input,
        [DX1] = batch * layer_input(cpu, 1),
        [D_PARAMETER] = cpu->parameters,
        [D_SHARED] = cpu->shared,
        [TOKEN] = batch * cpu->tokens,
        [TARGET] = batch * cpu->tokens,
    };
    o->half = gpu->half;
    for (int k = 0; k < ARRAYS; k++)
        o->n[k] = o->n_gpu[k] = n[k];
    o->n_gpu[HALF] = o->n[PARAMETER];
    o->n_gpu[HALF_SHARED] = o->n[SHARED];
    o->n_gpu[SAVED] = batch * gpu->saved;
    o->n_gpu[WORK] = gpu->work;
}

/* What has 16 bits on a GPU that computes in them. */
static bool is_activation(enum array k)
{
    return k == X0 || k == X1 || k == Y || k == DY || k == DX0 || k == DX1;
}

/* The nearest number that they have: both sides begin with the same. */
static float operands_rounded(enum element half, float x)
{
    float nearest;
    element_put(half, &nearest, 0, x);
    return element_get(half, &nearest, 0);
}

/* Rows of a gate's output: numbers of experts, then their weights. */
static void fill_choices(struct operands *o, const struct layer *l)
{
    float *y = o->host[X1];
    for (size_t i = 0; i < o->n[X1]; i++)
        if (i / l->moe.top_k % 2 == 0)
            y[i] = floorf(fabsf(y[i]) * 0.999F * (float)l->moe.experts);
}

/* How wide number i of the parameters is spread: those that begin by how many they are summed with,
 * so; what comes back again and again, as in an LSTM, would grow. */
static double operands_width(const struct layer *l, size_t i)
{
    const struct layer_part *p = l->part;
    while (p + 1 < l->part + LAYER_PARTS && i >= p->n)
        i -= p++->n;
    return p->fill == FILL_FAN ? sqrt(2.0 / (double)p->fan) : 1;
}

/* How much larger number i of an array is in the test of ranges: attention's values, behind queries
 * and keys, and the gradient of its output. */
static double large_of(enum array k, const struct layer *l, size_t i)
{
    size_t row = l->heads.n * l->heads.depth + l->heads.kv * (l->heads.depth + l->heads.value);
    if (k == X0 && i % row >= row - l->heads.kv * l->heads.value)
        return 64;
    return k == DY ? 1 << 10 : 1;
}

/* Gradients of parameters begin with numbers too: they are added to. */
static void operands_fill(struct operands *o, enum array k, const struct layer *l)
{
    uint64_t key = (uint64_t)k + (k == TOKEN || k == TARGET ? 0 : ARRAYS * l->shard);
    float *data = o->host[k];
    int32_t *whole = o->host[k];
    for (size_t i = 0; i < o->n[k]; i++) {
        double u = random_unit(key, i);
        double wide = k == PARAMETER ? operands_width(l, i) : o->large ? large_of(k, l, i) : 1;
        float value = (float)(wide * (2 * u - 1));
        if (k == TOKEN)
            whole[i] = (int32_t)(u * CORPUS_VOCABULARY);
        else if (k == TARGET)
            whole[i] = i % 5 == 3 ? -1 : (int32_t)(u * CORPUS_VOCABULARY);
        else
            data[i] = operands_rounded(o->half, value);
    }
}

void operands_close(struct operands *o)
{
    for (int k = 0; k < ARRAYS; k++) {
        free(o->host[k]);
        cudaFree(o->gpu[k]);
    }
    *o = (struct operands){0};
}

/* Array k to the GPU; 16 bits by way of an array of floats there. */
static enum status operands_upload(struct cuda_context *c, struct operands *o, enum array k)
{
    enum status st;
    void *wide = NULL;
    size_t bytes = o->n[k] * sizeof(float);
    if (!o->half || !is_activation(k)) {
        backend_cuda.copy(c, o->gpu[k], o->host[k], bytes);
        return cuda_status(c);
    }
    TRY(CUDA_ERROR("memory", cudaMalloc(&wide, bytes + 1)));
    backend_cuda.copy(c, wide, o->host[k], bytes);
    CUDA_NOTE(c, "to 16 bits", kernel_narrow(cuda_numbers(o->half), o->gpu[k], wide, o->n[k]));
    st = cuda_finish(c);
out:
    cudaFree(wide);
    return st;
}

/* And back, to found [n]. */
static enum status operands_download(struct cuda_context *c, const struct operands *o, enum array k,
                                     float *found)
{
    enum status st;
    void *wide = NULL;
    size_t bytes = o->n[k] * sizeof(float);
    if (!o->half || !is_activation(k)) {
        backend_cuda.copy(c, found, o->gpu[k], bytes);
        return cuda_status(c);
    }
    TRY(CUDA_ERROR("memory", cudaMalloc(&wide, bytes + 1)));
    CUDA_NOTE(c, "from 16 bits", kernel_widen(cuda_numbers(o->half), wide, o->gpu[k], o->n[k]));
    backend_cuda.copy(c, found, wide, bytes);
    st = cuda_finish(c);
out:
    cudaFree(wide);
    return st;
}

enum status operands_open(struct cuda_context *c, const struct layer *cpu, const struct layer *gpu,
                          size_t batch, struct operands *o)
{
    enum status st = STATUS_OK;
    operands_set_sizes(cpu, gpu, batch, o);
    for (int k = 0; k < ARRAYS; k++) {
        o->host[k] = calloc(o->n[k] + 1, sizeof(float));
        if (!o->host[k]) {
            st = error_set(STATUS_NOMEM, "%zu elements", o->n[k]);
            goto out;
        }
        TRY(CUDA_ERROR("memory", cudaMalloc(&o->gpu[k], (o->n_gpu[k] + 1) * sizeof(float))));
        if (k == SAVED || k == WORK || k == HALF || k == HALF_SHARED)
            continue;
        operands_fill(o, (enum array)k, cpu);
        if (k == X1 && cpu->moe.slots > 0)
            fill_choices(o, cpu);
        TRY(operands_upload(c, o, (enum array)k));
    }
    for (enum array k = HALF; k <= HALF_SHARED && o->half; k++) {
        enum array of = k == HALF ? PARAMETER : SHARED;
        CUDA_NOTE(c, "to 16 bits",
                  kernel_narrow(cuda_numbers(o->half), o->gpu[k], o->gpu[of], o->n[of]));
    }
    st = cuda_status(c);
out:
    return st;
}

struct layer_io operands_io(void *const data[ARRAYS], size_t batch, void *on)
{
    return (struct layer_io){
        .batch = batch,
        .x = {data[X0], data[X1]},
        .y = data[Y],
        .saved = data[SAVED],
        .work = data[WORK],
        .parameter = data[PARAMETER],
        .shared = data[SHARED],
        .half = data[HALF],
        .half_shared = data[HALF_SHARED],
        .token = data[TOKEN],
        .target = data[TARGET],
        .dy = data[DY],
        .dx = {data[DX0], data[DX1]},
        .d_parameter = data[D_PARAMETER],
        .d_shared = data[D_SHARED],
        .scale = 0.001F,
        .loss_scale = 0.004F, /* another, as where one microbatch makes an update */
        .on = on,
    };
}

enum status operands_compare(struct cuda_context *c, const struct operands *o, enum array k,
                             double *worst)
{
    enum status st = STATUS_OK;
    const float *wanted = o->host[k];
    double largest = 0, off = 0;
    float *found = malloc((o->n[k] + 1) * sizeof *found);
    if (!found)
        return error_set(STATUS_NOMEM, "%zu elements", o->n[k]);
    TRY(operands_download(c, o, k, found));
    for (size_t i = 0; i < o->n[k]; i++) {
        double d = fabs((double)found[i] - (double)wanted[i]);
        largest = fmax(largest, fabs((double)wanted[i]));
        off = d <= off ? off : d; /* NAN too */
    }
    off = off > 0 || isnan(off) ? off / largest : 0;
    *worst = off <= *worst ? *worst : off;
out:
    free(found);
    return st;
}
