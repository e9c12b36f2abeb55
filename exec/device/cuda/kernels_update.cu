/* The optimizer: everything that an update reads and writes, once; and the norm of gradients. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/wide.cuh"

/* What follows a new parameter: its copy in 16 bits, and zero for its gradient. */
template <int N>
static __device__ void finish_sum(const struct kernel_update &u, size_t i,
                                  const float (&parameter)[N])
{
    const float zeros[N] = {};
    store(u.parameter + i, parameter);
    if (u.half && u.as == KERNEL_BF16)
        store((__nv_bfloat16 *)u.half + i, parameter);
    else if (u.half)
        store((__half *)u.half + i, parameter);
    if (u.clears)
        store(u.gradient + i, zeros);
}

/* Packs of as many numbers as 16 bytes have of 16 bits, from parameters at a multiple of 32 bytes
 * on. */
static __device__ const __nv_bfloat16 *packs_of(const struct kernel_update &u)
{
    return (const __nv_bfloat16 *)((uintptr_t)u.parameter / 2);
}

/* What a gradient is multiplied by. */
static __device__ float update_scale(const struct kernel_update &u)
{
    return u.clipped ? u.scale * *u.clipped : u.scale;
}

/* p -= rate g, with decay, and with momentum where there is a moment; [n] */
static __global__ void sgd(struct kernel_update u)
{
    const float scale = update_scale(u);
    along_all(packs_of(u), u.n, [&](auto count, size_t i) {
        float p[count.n], g[count.n], moment[count.n];
        load(p, u.parameter + i);
        load(g, u.gradient + i);
        for (int j = 0; j < count.n; j++)
            g[j] = scale * g[j] + u.decay * p[j];
        if (u.moment) {
            load(moment, u.moment + i);
            for (int j = 0; j < count.n; j++) {
                moment[j] = u.momentum * moment[j] + g[j];
                g[j] = u.nesterov ? g[j] + u.momentum * moment[j] : moment[j];
            }
            store(u.moment + i, moment);
        }
        for (int j = 0; j < count.n; j++)
            p[j] -= u.rate * g[j];
        finish_sum(u, i, p);
    });
}

/* Equations in exec/device/backend.h */
static __global__ void adam(struct kernel_update u)
{
    const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, scale = update_scale(u);
    along_all(packs_of(u), u.n, [&](auto count, size_t i) {
        float p[count.n], g[count.n], moment[count.n], square[count.n];
        load(p, u.parameter + i);
        load(g, u.gradient + i);
        load(moment, u.moment + i);
        load(square, u.square + i);
        for (int j = 0; j < count.n; j++) {
            g[j] *= scale;
            moment[j] = beta1 * moment[j] + (1 - beta1) * g[j];
            square[j] = beta2 * square[j] + (1 - beta2) * g[j] * g[j];
            p[j] -= u.decay * p[j];
            p[j] -= u.rate * moment[j] / (sqrtf(square[j]) * u.unbias + epsilon);
        }
        store(u.moment + i, moment);
        store(u.square + i, square);
        finish_sum(u, i, p);
    });
}

/* Squares are summed in double, in an order that does not depend on timing. */
static __global__ void clip(float *factor, const float *gradient, size_t n, double scale,
                            double most, double *part, unsigned *ticket)
{
    __shared__ double of_thread[BLOCK];
    double sum = 0;
    FOR_EACH(i, n)
    sum += (double)gradient[i] * (double)gradient[i];
    of_thread[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (unsigned k = 0; k < BLOCK; k++)
            sum += of_thread[k];
        part[blockIdx.x] = sum;
    }
    if (!is_last(ticket, gridDim.x) || threadIdx.x > 0)
        return;
    sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++)
        sum += __ldcg(part + k);
    double norm = scale * sqrt(sum);
    *factor = (float)(norm > most ? most / norm : 1);
}

/* ---- launches */

cudaError_t kernel_update(const struct kernel_update *u)
{
    if (u->n == 0)
        return cudaSuccess;
    return u->square ? LAUNCH(adam, blocks_along(KERNEL_FP16, u->n), *u)
                     : LAUNCH(sgd, blocks_along(KERNEL_FP16, u->n), *u);
}

cudaError_t kernel_clip(float *factor, const float *gradient, size_t n, double scale, double most,
                        double *part, unsigned *ticket)
{
    unsigned blocks = blocks_for(n);
    return LAUNCH(clip, blocks < CLIP_PARTS ? blocks : (unsigned)CLIP_PARTS, factor, gradient, n,
                  scale, most, part, ticket);
}
