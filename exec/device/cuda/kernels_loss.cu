/* Kernels of the loss. */
#include "exec/device/cuda/launch.cuh"

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
