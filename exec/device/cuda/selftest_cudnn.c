/* Attention by cuDNN: as that of our kernels against the CPU's; and both beside each other, in
 * milliseconds. */
#include "exec/device/cuda/selftest.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "exec/device/cuda/attention_cudnn.h"
#include "exec/element.h"

enum status selftest_cudnn(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st;
    size_t shapes;
    TRY(selftest_attention(c, to, good));
    fprintf(to, "%s\n", cuda_cudnn_remark(c, &shapes));
    *good = *good && shapes > 0;
out:
    return st;
}

/* ---- speed */

enum { CALLS = 20 };
static const struct size {
    const char *name;
    size_t samples, tokens, heads, kv_heads, width;
} sizes[] = {{"GPT-2, 8 x 1,024", 8, 1024, 12, 12, 64}, {"Llama, 1 x 4,096", 1, 4096, 32, 8, 128}};

/* On the GPU: x, y, dy, dx, saved; events around the calls. */
struct cudnn_bench {
    struct cuda_context *c;
    struct kernel_attention a;
    size_t in, out; /* bytes of x, of y */
    void *x, *y, *dy, *dx, *saved, *host[2];
    cudaEvent_t begin, end;
};

/* Numbers of bf16 from -1 to 1. */
static void cudnn_bench_fill(struct cudnn_bench *b, void *data, size_t bytes, uint64_t seed)
{
    uint16_t *host = b->host[0];
    for (size_t i = 0; i < bytes / sizeof *host; i++) {
        host[i] = element_narrow((float)(2 * random_unit(seed, i) - 1));
    }
    backend_cuda.copy(b->c, data, host, bytes);
}

static enum status open_bench(struct cuda_context *c, const struct size *s, struct cudnn_bench *b)
{
    enum status st;
    size_t rows = s->samples * s->tokens;
    b->c = c;
    b->in = rows * (s->heads + 2 * s->kv_heads) * s->width * sizeof(uint16_t);
    b->out = rows * s->heads * s->width * sizeof(uint16_t);
    TRY(CUDA_ERROR("memory", cudaMalloc(&b->x, b->in)));
    TRY(CUDA_ERROR("memory", cudaMalloc(&b->dx, b->in)));
    TRY(CUDA_ERROR("memory", cudaMalloc(&b->y, b->out)));
    TRY(CUDA_ERROR("memory", cudaMalloc(&b->dy, b->out)));
    TRY(CUDA_ERROR("memory", cudaMalloc(&b->saved, 2 * rows * s->heads * sizeof(float))));
    TRY(CUDA_ERROR("event", cudaEventCreate(&b->begin)));
    TRY(CUDA_ERROR("event", cudaEventCreate(&b->end)));
    for (size_t k = 0; k < 2; k++) {
        b->host[k] = malloc(b->in);
        if (!b->host[k])
            FAIL(STATUS_NOMEM, "%zu bytes", b->in);
    }
    b->a = (struct kernel_attention){.type = KERNEL_BF16,
                                     .samples = s->samples,
                                     .tokens = s->tokens,
                                     .heads = s->heads,
                                     .kv_heads = s->kv_heads,
                                     .depth = s->width,
                                     .value = s->width,
                                     .causal = 1,
                                     .tensor_cores = c->tensor_cores,
                                     .scale = s->width == 64 ? 0.125f : 0.0883883476f,
                                     .x = b->x,
                                     .saved = b->saved};
    cudnn_bench_fill(b, b->x, b->in, 1);
    cudnn_bench_fill(b, b->dy, b->out, 2);
    st = cuda_status(c);
out:
    return st;
}

static void close_bench(struct cudnn_bench *b)
{
    void *memory[] = {b->x, b->dx, b->y, b->dy, b->saved};
    for (size_t k = 0; k < sizeof memory / sizeof *memory; k++)
        if (memory[k])
            cudaFree(memory[k]);
    if (b->begin)
        cudaEventDestroy(b->begin);
    if (b->end)
        cudaEventDestroy(b->end);
    free(b->host[0]);
    free(b->host[1]);
}

static void cudnn_bench_call(struct cudnn_bench *b, bool cudnn, bool back)
{
    if (cudnn && back)
        (void)cuda_cudnn_backward(b->c, &b->a, b->y, b->dy, b->dx);
    else if (cudnn)
        (void)cuda_cudnn_forward(b->c, &b->a, b->y);
    else if (back)
        CUDA_NOTE(b->c, "attention backward",
                  kernel_attention_backward(&b->a, b->y, b->dy, b->dx, NULL));
    else
        CUDA_NOTE(b->c, "attention", kernel_attention(&b->a, b->y));
}

/* Of one call of CALLS, after one that is not counted. */
static enum status cudnn_bench_measure(struct cudnn_bench *b, bool cudnn, bool back, float *ms)
{
    enum status st;
    cudnn_bench_call(b, cudnn, back);
    TRY(CUDA_ERROR("stopwatch", cudaEventRecord(b->begin, CUDA_STREAM)));
    for (int k = 0; k < CALLS; k++)
        cudnn_bench_call(b, cudnn, back);
    TRY(CUDA_ERROR("stopwatch", cudaEventRecord(b->end, CUDA_STREAM)));
    TRY(CUDA_ERROR("stopwatch", cudaEventSynchronize(b->end)));
    TRY(CUDA_ERROR("stopwatch", cudaEventElapsedTime(ms, b->begin, b->end)));
    *ms /= CALLS;
    st = cuda_status(b->c);
out:
    return st;
}

/* Do two calls leave the same gradients? */
static bool repeats(struct cudnn_bench *b)
{
    for (size_t k = 0; k < 2; k++) {
        cudnn_bench_call(b, true, true);
        backend_cuda.copy(b->c, b->host[k], b->dx, b->in);
    }
    return memcmp(b->host[0], b->host[1], b->in) == 0;
}

static enum status cudnn_bench_compare(struct cuda_context *c, const struct size *s, FILE *to,
                                       bool *good)
{
    enum status st;
    struct cudnn_bench b = {0};
    float ms[4] = {0};
    TRY(open_bench(c, s, &b));
    for (size_t k = 0; k < 2; k++)
        TRY(cudnn_bench_measure(&b, false, k > 0, &ms[k]));
    if (!cuda_cudnn_takes(c, &b.a)) {
        fprintf(to, "%-24s %9.3f %9.3f %9s %9s\n", s->name, (double)ms[0], (double)ms[1], "-", "-");
        goto out;
    }
    for (size_t k = 0; k < 2; k++)
        TRY(cudnn_bench_measure(&b, true, k > 0, &ms[2 + k]));
    bool same = repeats(&b);
    *good = *good && same;
    fprintf(to, "%-24s %9.3f %9.3f %9.3f %9.3f  %s\n", s->name, (double)ms[0], (double)ms[1],
            (double)ms[2], (double)ms[3], same ? "the same bits twice" : "OTHER BITS: FAILED");
    st = cuda_status(c);
out:
    close_bench(&b);
    return st;
}

enum status selftest_cudnn_speed(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st = STATUS_OK;
    size_t shapes;
    *good = true;
    fprintf(to,
            "# causal attention, bf16, ms  forward  backward   forward  backward\n"
            "# %32s            %18s\n",
            "own kernels", "cuDNN");
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        TRY(cudnn_bench_compare(c, &sizes[k], to, good));
    fprintf(to, "%s\n", cuda_cudnn_remark(c, &shapes));
out:
    return st;
}
