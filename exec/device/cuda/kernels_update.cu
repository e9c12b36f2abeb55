/* The optimizer: everything that an update reads and writes, once. */
#include "exec/device/cuda/wide.cuh"

/* What follows a new parameter: its copy in bf16, and zero for its gradient. */
template <int N>
static __device__ void finish(const struct kernel_update &u, size_t i, const float (&parameter)[N])
{
    const float zeros[N] = {};
    store(u.parameter + i, parameter);
    if (u.half)
        store((__nv_bfloat16 *)u.half + i, parameter);
    if (u.clears)
        store(u.gradient + i, zeros);
}

/* Packs of as many numbers as 16 bytes have of bf16, from parameters at a multiple of 32 bytes on. */
static __device__ const __nv_bfloat16 *packs_of(const struct kernel_update &u)
{
    return (const __nv_bfloat16 *)((uintptr_t)u.parameter / 2);
}

/* p -= rate g, [n] */
static __global__ void sgd(struct kernel_update u)
{
    along_all(packs_of(u), u.n, [&](auto count, size_t i) {
        float p[count.n], g[count.n];
        load(p, u.parameter + i);
        load(g, u.gradient + i);
        for (int j = 0; j < count.n; j++)
            p[j] -= u.rate * g[j];
        finish(u, i, p);
    });
}

/* Equations in exec/device/backend.h */
static __global__ void adam(struct kernel_update u)
{
    const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    along_all(packs_of(u), u.n, [&](auto count, size_t i) {
        float p[count.n], g[count.n], moment[count.n], square[count.n];
        load(p, u.parameter + i);
        load(g, u.gradient + i);
        load(moment, u.moment + i);
        load(square, u.square + i);
        for (int j = 0; j < count.n; j++) {
            moment[j] = beta1 * moment[j] + (1 - beta1) * g[j];
            square[j] = beta2 * square[j] + (1 - beta2) * g[j] * g[j];
            p[j] -= u.rate * moment[j] / (sqrtf(square[j]) * u.unbias + epsilon);
        }
        store(u.moment + i, moment);
        store(u.square + i, square);
        finish(u, i, p);
    });
}

cudaError_t kernel_update(const struct kernel_update *u)
{
    if (u->n == 0)
        return cudaSuccess;
    return u->moment ? LAUNCH(adam, blocks_along(KERNEL_BF16, u->n), *u)
                     : LAUNCH(sgd, blocks_along(KERNEL_BF16, u->n), *u);
}
