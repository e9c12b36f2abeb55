/* Kernels of the loss. */
#include "exec/device/cuda/wide.cuh"

/* ---- loss: a block per row */

/* Largest of x [n] and the sum of exp(x - largest), in one pass: every thread corrects its sum when
 * it meets a larger number. */
template <typename T>
static __device__ void loss_scan(const T *x, size_t n, float *largest_of, float *sum_of)
{
    float largest = -INFINITY, sum = 0;
    along(x, n, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float value[count.n], most = largest;
        load(value, x + i);
        for (int j = 0; j < count.n; j++)
            most = fmaxf(most, value[j]);
        sum *= expf(largest - most);
        largest = most;
        for (int j = 0; j < count.n; j++)
            sum += expf(value[j] - largest);
    });
    *largest_of = block_max(largest);
    *sum_of = block_sum(largest == -INFINITY ? 0 : sum * expf(largest - *largest_of));
}

/* part(row, shard, :) = largest logit, sum of exp(x - largest), logit of the target of this shard
 * */
template <typename T> static __global__ void loss_look(struct kernel_loss l)
{
    size_t row = blockIdx.x;
    const T *x = (const T *)l.x + row * l.row;
    float *part = l.part + row * l.shards * 3, largest, sum;
    ALONG(i, l.shards * 3)
    part[i] = 0;
    if (l.target[row] < 0) /* the whole block */
        return;
    loss_scan(x, l.columns, &largest, &sum);
    if (threadIdx.x > 0)
        return;
    size_t target = (size_t)l.target[row] - l.first;
    part += l.shard * 3;
    part[0] = largest;
    part[1] = sum;
    part[2] = target < l.columns ? (float)x[target] : 0;
}

/* dx = scale (exp(x - largest) / sum - one at the target), from 1 / sum; zeros without a target. dx
 * may be x. */
template <typename T>
static __device__ void loss_gradient(const struct kernel_loss &l, size_t row, float largest,
                                     float inverse, T *dx)
{
    const T *x = (const T *)l.x + row * l.row;
    bool counts = l.target[row] >= 0;
    size_t target = counts ? (size_t)l.target[row] - l.first : l.columns;
    float scale = inverse * l.scale;
    along(dx, l.columns, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float value[count.n];
        load(value, x + i);
        for (int j = 0; j < count.n; j++) {
            float d = counts ? expf(value[j] - largest) * scale : 0;
            value[j] = i + j == target ? d - l.scale : d;
        }
        store(dx + i, value);
    });
}

/* All of a row where it is not divided: `saved`, and, if wanted, the gradient in the logits'
 * place. */
template <typename T> static __global__ void loss_row(struct kernel_loss l, bool in_place)
{
    size_t row = blockIdx.x;
    T *x = (T *)(uintptr_t)l.x + row * l.row;
    bool counts = l.target[row] >= 0;
    float largest = 0, sum = 1, at_target = counts ? (float)x[(size_t)l.target[row] - l.first] : 0;
    if (counts) /* the whole block */
        loss_scan(x, l.columns, &largest, &sum);
    if (threadIdx.x == 0) {
        l.saved[3 * row] = largest;
        l.saved[3 * row + 1] = counts ? 1 / sum : 0;
        l.saved[3 * row + 2] = counts ? logf(sum) + (largest - at_target) : 0;
    }
    if (in_place)
        loss_gradient(l, row, largest, 1 / sum, x);
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

/* Behind a look and a join. */
template <typename T> static __global__ void loss_backward(struct kernel_loss l, void *dx)
{
    size_t row = blockIdx.x;
    loss_gradient(l, row, l.saved[3 * row], l.saved[3 * row + 1], (T *)dx + row * l.row);
}

/* ---- launches */

cudaError_t kernel_loss_look(const struct kernel_loss *l)
{
    return LAUNCH_AS(l->type, loss_look, (unsigned)l->rows, *l);
}

cudaError_t kernel_loss_row(const struct kernel_loss *l, int in_place)
{
    return LAUNCH_AS(l->type, loss_row, (unsigned)l->rows, *l, in_place != 0);
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
