/* Kernels with a softmax in them: rows of attention scores, and the loss. A block per row. */
#include "exec/device/cuda/launch.cuh"

/* ---- attention: a block per row of each head, head by head */

/* Offset of the row. */
static __device__ size_t score_row(const struct kernel_scores &s)
{
    return blockIdx.x * s.columns;
}
static __device__ float *score_saved(const struct kernel_scores &s)
{
    unsigned rows = (unsigned)s.rows, head = blockIdx.x / rows, row = blockIdx.x % rows;
    return s.saved + (head * s.tokens + s.first + row) * 2;
}
/* Columns that the row sees. */
static __device__ size_t score_seen(const struct kernel_scores &s)
{
    return s.causal ? s.first + blockIdx.x % (unsigned)s.rows + 1 : s.columns;
}

/* p = exp(score - largest) / sum of these over the columns that the row sees; zeros behind them */
template <typename T> static __global__ void softmax(struct kernel_scores s)
{
    float *score = s.score + score_row(s), largest = -INFINITY, part = 0;
    T *p = (T *)s.p + score_row(s);
    size_t seen = score_seen(s);
    ALONG(i, seen)
    largest = fmaxf(largest, score[i]);
    largest = block_max(largest);
    ALONG(i, seen)
    part += score[i] = expf(score[i] - largest);
    float scale = 1 / block_sum(part);
    ALONG(i, s.columns)
    p[i] = T(i < seen ? score[i] * scale : 0);
    if (threadIdx.x == 0) {
        score_saved(s)[0] = largest;
        score_saved(s)[1] = scale;
    }
}

/* The same from the two numbers saved per row: neither largest nor sum is looked for */
template <typename T> static __global__ void softmax_again(struct kernel_scores s)
{
    const float *score = s.score + score_row(s);
    T *p = (T *)s.p + score_row(s);
    float largest = score_saved(s)[0], scale = score_saved(s)[1];
    size_t seen = score_seen(s);
    ALONG(i, s.columns)
    p[i] = T(i < seen ? expf(score[i] - largest) * scale : 0);
}

/* ds = p (d - sum over the row of d p) */
template <typename T>
static __global__ void softmax_backward(struct kernel_scores s, const float *all, void *ds_)
{
    const T *p = (const T *)s.p + score_row(s);
    const float *d = all + score_row(s);
    T *ds = (T *)ds_ + score_row(s);
    float part = 0;
    ALONG(i, s.columns)
    part += d[i] * (float)p[i];
    float mean = block_sum(part);
    ALONG(i, s.columns)
    ds[i] = T((float)p[i] * (d[i] - mean));
}

/* ---- loss: a block per row */

/* part(row, shard, :) = largest logit, sum of exp(x - largest), logit of the target of this shard
 * */
template <typename T> static __global__ void loss_look(struct kernel_loss l)
{
    size_t row = blockIdx.x;
    const T *x = (const T *)l.x + row * l.columns;
    float *part = l.part + row * l.shards * 3, largest = -INFINITY, sum = 0;
    ALONG(i, l.shards * 3)
    part[i] = 0;
    if (l.target[row] < 0) /* the whole block */
        return;
    ALONG(i, l.columns)
    largest = fmaxf(largest, (float)x[i]);
    largest = block_max(largest);
    ALONG(i, l.columns)
    sum += expf((float)x[i] - largest);
    sum = block_sum(sum);
    if (threadIdx.x > 0)
        return;
    size_t target = (size_t)l.target[row] - l.first;
    part += l.shard * 3;
    part[0] = largest;
    part[1] = sum;
    part[2] = target < l.columns ? (float)x[target] : 0;
}

/* A thread per row; the same order on all shards, so the same bits. */
static __global__ void loss_join(struct kernel_loss l)
{
    FOR_EACH(row, l.rows)
    {
        const float *part = l.part + row * l.shards * 3;
        float largest = part[0], sum = part[1], target = part[2];
        for (size_t k = 1; k < l.shards; k++) {
            float here = part[3 * k], both = fmaxf(largest, here);
            sum = sum * expf(largest - both) + part[3 * k + 1] * expf(here - both);
            target += part[3 * k + 2];
            largest = both;
        }
        l.saved[3 * row] = largest;
        l.saved[3 * row + 1] = l.target[row] < 0 ? 0 : 1 / sum;
        l.saved[3 * row + 2] = l.target[row] < 0 ? 0 : logf(sum) + (largest - target);
    }
}

/* One block. */
static __global__ void loss_sum(struct kernel_loss l, double *loss)
{
    __shared__ double part[BLOCK];
    double total = 0;
    ALONG(row, l.rows)
    total += (double)l.saved[3 * row + 2];
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    total = 0;
    for (unsigned k = 0; k < BLOCK; k++)
        total += part[k];
    *loss += total * (double)l.scale;
}

/* dx (rows, columns) = scale (exp(x - largest) / sum - one at the target); zeros without a target
 * */
template <typename T> static __global__ void loss_backward(struct kernel_loss l, void *dx)
{
    size_t row = blockIdx.x;
    const T *x = (const T *)l.x + row * l.columns;
    bool counts = l.target[row] >= 0;
    size_t target = counts ? (size_t)l.target[row] - l.first : l.columns;
    float largest = l.saved[3 * row], scale = l.saved[3 * row + 1] * l.scale;
    ALONG(i, l.columns)
    {
        float d = counts ? expf((float)x[i] - largest) * scale : 0;
        ((T *)dx)[row * l.columns + i] = T(i == target ? d - l.scale : d);
    }
}

/* ---- launches */

/* In x, where a grid is large enough for any number of heads. */
static unsigned score_grid(const struct kernel_scores *s)
{
    return (unsigned)(s->rows * s->heads);
}

cudaError_t kernel_softmax(const struct kernel_scores *s)
{
    return LAUNCH_AS(s->type, softmax, score_grid(s), *s);
}

cudaError_t kernel_softmax_again(const struct kernel_scores *s)
{
    return LAUNCH_AS(s->type, softmax_again, score_grid(s), *s);
}

cudaError_t kernel_softmax_backward(const struct kernel_scores *s, const float *d, void *ds)
{
    return LAUNCH_AS(s->type, softmax_backward, score_grid(s), *s, d, ds);
}

cudaError_t kernel_loss_look(const struct kernel_loss *l)
{
    return LAUNCH_AS(l->type, loss_look, (unsigned)l->rows, *l);
}

cudaError_t kernel_loss_join(const struct kernel_loss *l)
{
    return LAUNCH(loss_join, blocks_for(l->rows), *l);
}

cudaError_t kernel_loss_sum(const struct kernel_loss *l, double *loss)
{
    return LAUNCH(loss_sum, 1, *l, loss);
}

cudaError_t kernel_loss_backward(const struct kernel_loss *l, void *dx)
{
    return LAUNCH_AS(l->type, loss_backward, (unsigned)l->rows, *l, dx);
}
