/* attention.cuh - what the kernels of attention share: where a head's rows are, and who sees
 * whom. */
#ifndef EXEC_DEVICE_CUDA_ATTENTION_CUH
#define EXEC_DEVICE_CUDA_ATTENTION_CUH

#include "exec/device/cuda/launch.cuh"

/* One head of queries of one sample, and the keys and values that it reads. */
struct attention_head {
    size_t q, k, v, y; /* numbers before its row 0 in x, and in y */
    size_t row, out;   /* numbers from a row to the next in x, and in y */
    size_t saved;      /* numbers before its pairs: log of the sum of exponentials, delta */
};

static __device__ struct attention_head head_of(const struct kernel_attention &a, size_t sample,
                                                size_t head)
{
    size_t kv = head / (a.heads / a.kv_heads), keys = a.heads * a.depth;
    size_t row = keys + a.kv_heads * (a.depth + a.value), out = a.heads * a.value;
    size_t x = sample * a.tokens * row;
    return {x + head * a.depth,
            x + keys + kv * a.depth,
            x + keys + a.kv_heads * a.depth + kv * a.value,
            sample * a.tokens * out + head * a.value,
            row,
            out,
            (sample * a.heads + head) * a.tokens * 2};
}

/* Columns from .. to - 1 are what row t sees. */
static __device__ size_t sees_from(const struct kernel_attention &a, size_t t)
{
    return a.window > 0 && t + 1 > a.window ? t + 1 - a.window : 0;
}
static __device__ size_t sees_to(const struct kernel_attention &a, size_t t)
{
    return a.causal ? t + 1 : a.tokens;
}
static __device__ bool sees(const struct kernel_attention &a, size_t t, size_t column)
{
    return t < a.tokens && column >= sees_from(a, t) && column < sees_to(a, t);
}
/* Rows behind the last one that sees any of the columns before `end`; the first one is `column`
 * where attention is causal. */
static __device__ size_t seen_to(const struct kernel_attention &a, size_t end)
{
    return a.window > 0 && end - 1 + a.window < a.tokens ? end - 1 + a.window : a.tokens;
}

/* kernels_flash.cu: attention on tensor cores, if it fits; y stands for any other array. */
bool kernel_flash_fits(const struct kernel_attention *a, const void *y);
cudaError_t kernel_flash(const struct kernel_attention *a, void *y);
cudaError_t kernel_flash_backward(const struct kernel_attention *a, const void *y, const void *dy,
                                  void *dx);

static inline __host__ __device__ size_t tiles_of(size_t n, size_t tile)
{
    return (n + tile - 1) / tile;
}

#endif
