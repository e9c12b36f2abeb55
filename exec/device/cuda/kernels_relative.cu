/* Attention by contents and distances, a block per row, column or distance of a head, in fp32
 * arithmetic: exec/device/cpu/relative.c. Scores are kept. */
#include "exec/device/cuda/launch.cuh"
#include "exec/device/cuda/words.h"

/* Sample, head, and which of `n` rows of the head a block is for. */
struct relative_at {
    size_t sample, head, k;
};
static __device__ struct relative_at relative_at(const struct kernel_relative &r, size_t n)
{
    size_t head = blockIdx.x / n;
    return {head / r.heads, head % r.heads, blockIdx.x % n};
}

/* Offset of row i of queries, keys or values (0, 1, 2) of a head in x; of distances; of y. */
static __device__ size_t relative_part_at(const struct kernel_relative &r,
                                          const struct relative_at &a, size_t i, size_t part)
{
    size_t channels = r.heads * r.depth;
    return (a.sample * r.tokens + i) * 3 * channels + part * channels + a.head * r.depth;
}
static __device__ size_t distance_at(const struct kernel_relative &r, const struct relative_at &a,
                                     size_t m)
{
    return ((a.sample * 2 * r.tokens + m) * r.heads + a.head) * r.depth;
}
static __device__ size_t relative_value_at(const struct kernel_relative &r,
                                           const struct relative_at &a, size_t i)
{
    return ((a.sample * r.tokens + i) * r.heads + a.head) * r.depth;
}
static __device__ size_t score_at(const struct kernel_relative &r, const struct relative_at &a,
                                  size_t i, size_t j)
{
    return ((a.sample * r.heads + a.head) * r.tokens + i) * r.tokens + j;
}

/* p_j = softmax_j(((q + u) k_j + (q + w) r_{T - i + j}) / sqrt(depth)), y_i = sum of p_j v_j */
template <typename T> static __global__ void relative_rows(struct kernel_relative r, void *y)
{
    const struct relative_at a = relative_at(r, r.tokens);
    const T *x = (const T *)r.x, *q = x + relative_part_at(r, a, a.k, 0);
    const float *u = r.bias + a.head * r.depth, *w = u + r.heads * r.depth;
    float *p = r.p + score_at(r, a, a.k, 0), largest = -INFINITY, sum = 0;
    float scale = 1 / sqrtf((float)r.depth);
    ALONG(j, r.tokens)
    {
        const T *k = x + relative_part_at(r, a, j, 1);
        const T *far = (const T *)r.far + distance_at(r, a, r.tokens - a.k + j);
        float near_score = 0, far_score = 0;
        for (size_t i = 0; i < r.depth; i++) {
            near_score += ((float)q[i] + u[i]) * (float)k[i];
            far_score += ((float)q[i] + w[i]) * (float)far[i];
        }
        p[j] = scale * (near_score + far_score);
        largest = fmaxf(largest, p[j]);
    }
    largest = block_max(largest);
    ALONG(j, r.tokens)
    sum += p[j] = expf(p[j] - largest);
    sum = block_sum(sum);
    ALONG(j, r.tokens)
    p[j] /= sum;
    __syncthreads();
    ALONG(i, r.depth)
    {
        float value = 0;
        for (size_t j = 0; j < r.tokens; j++)
            value += p[j] * (float)x[relative_part_at(r, a, j, 2) + i];
        ((T *)y)[relative_value_at(r, a, a.k) + i] = T(value);
    }
}

/* ds of a row, and the gradient of its query in two parts: by contents and by distances */
template <typename T>
static __global__ void relative_queries(struct kernel_relative r, const void *dy_, void *dx)
{
    const struct relative_at a = relative_at(r, r.tokens);
    const T *x = (const T *)r.x, *dy = (const T *)dy_ + relative_value_at(r, a, a.k);
    const float *p = r.p + score_at(r, a, a.k, 0);
    float *ds = r.ds + score_at(r, a, a.k, 0), part = 0, scale = 1 / sqrtf((float)r.depth);
    ALONG(j, r.tokens)
    {
        float dp = 0;
        for (size_t i = 0; i < r.depth; i++)
            dp += (float)dy[i] * (float)x[relative_part_at(r, a, j, 2) + i];
        ds[j] = dp;
        part += p[j] * dp;
    }
    float mean = block_sum(part);
    ALONG(j, r.tokens)
    ds[j] = scale * p[j] * (ds[j] - mean);
    __syncthreads();
    size_t to = relative_value_at(r, a, a.k), all = r.samples * r.tokens * r.heads * r.depth;
    const T *far = (const T *)r.far + distance_at(r, a, r.tokens - a.k);
    ALONG(i, r.depth)
    {
        float near_sum = 0, far_sum = 0;
        for (size_t j = 0; j < r.tokens; j++) {
            near_sum += ds[j] * (float)x[relative_part_at(r, a, j, 1) + i];
            far_sum += ds[j] * (float)far[j * r.heads * r.depth + i];
        }
        r.dq[to + i] = near_sum;
        r.dq[all + to + i] = far_sum;
        ((T *)dx)[relative_part_at(r, a, a.k, 0) + i] = T(near_sum + far_sum);
    }
}

/* dk_j = sum of ds_ij (q_i + u), dv_j = sum of p_ij dy_i */
template <typename T>
static __global__ void relative_keys(struct kernel_relative r, const void *dy, void *dx)
{
    const struct relative_at a = relative_at(r, r.tokens);
    const T *x = (const T *)r.x;
    const float *u = r.bias + a.head * r.depth;
    ALONG(i, r.depth)
    {
        float key = 0, value = 0;
        for (size_t t = 0; t < r.tokens; t++) {
            size_t at = score_at(r, a, t, a.k);
            key += r.ds[at] * ((float)x[relative_part_at(r, a, t, 0) + i] + u[i]);
            value += r.p[at] * (float)((const T *)dy)[relative_value_at(r, a, t) + i];
        }
        ((T *)dx)[relative_part_at(r, a, a.k, 1) + i] = T(key);
        ((T *)dx)[relative_part_at(r, a, a.k, 2) + i] = T(value);
    }
}

/* dr_m = sum of ds_ij (q_i + w) of the pairs with T - i + j = m */
template <typename T>
static __global__ void relative_distances(struct kernel_relative r, void *d_far)
{
    const struct relative_at a = relative_at(r, 2 * r.tokens);
    const T *x = (const T *)r.x;
    const float *w = r.bias + (r.heads + a.head) * r.depth;
    ALONG(i, r.depth)
    {
        float sum = 0;
        for (size_t t = 0; t < r.tokens; t++) {
            size_t j = a.k + t - r.tokens; /* wraps below 0 */
            if (j < r.tokens)
                sum += r.ds[score_at(r, a, t, j)] *
                       ((float)x[relative_part_at(r, a, t, 0) + i] + w[i]);
        }
        ((T *)d_far)[distance_at(r, a, a.k) + i] = T(sum);
    }
}

/* ---- launches */

cudaError_t kernel_relative(const struct kernel_relative *r, void *y)
{
    unsigned rows = (unsigned)(r->samples * r->heads * r->tokens);
    return LAUNCH_AS(r->type, relative_rows, rows, *r, y);
}

cudaError_t kernel_relative_backward(const struct kernel_relative *r, const void *dy, void *dx,
                                     void *d_far)
{
    unsigned rows = (unsigned)(r->samples * r->heads * r->tokens);
    cudaError_t e = LAUNCH_AS(r->type, relative_queries, rows, *r, dy, dx);
    if (!e)
        e = LAUNCH_AS(r->type, relative_keys, rows, *r, dy, dx);
    return e ? e : LAUNCH_AS(r->type, relative_distances, 2 * rows, *r, d_far);
}
