/* wide.cuh - numbers of activations and of parameters, 16 bytes at a time wherever they lie so.
 *
 * along() goes over a run of numbers in packs of 16 bytes, and number by number before the first
 * and behind the last of them; load() and store() take N numbers in accesses of 16 bytes if they
 * are aligned and one by one if not. So kernels are right for every width and address, and fast
 * where rows are multiples of 16 bytes. Arithmetic is on floats. */
#ifndef EXEC_DEVICE_CUDA_WIDE_CUH
#define EXEC_DEVICE_CUDA_WIDE_CUH

#include <string.h>

#include "exec/device/cuda/launch.cuh"

/* Numbers in 16 bytes. */
template <typename T> constexpr int WIDE = 16 / sizeof(T);

template <int N> struct count_of {
    static constexpr int n = N;
};

template <typename T> static __device__ bool is_aligned(const T *x)
{
    return (uintptr_t)x % 16 == 0;
}

template <int N, typename T> static __device__ void load(float (&to)[N], const T *x)
{
    if constexpr (N >= WIDE<T>)
        if (is_aligned(x)) {
#pragma unroll
            for (int k = 0; k < N; k += WIDE<T>) {
                const uint4 raw = *(const uint4 *)(const void *)(x + k);
                T part[WIDE<T>];
                memcpy(part, &raw, sizeof raw);
#pragma unroll
                for (int i = 0; i < WIDE<T>; i++)
                    to[k + i] = (float)part[i];
            }
            return;
        }
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = (float)x[i];
}

template <int N, typename T> static __device__ void store(T *y, const float (&from)[N])
{
    if constexpr (N >= WIDE<T>)
        if (is_aligned(y)) {
#pragma unroll
            for (int k = 0; k < N; k += WIDE<T>) {
                T part[WIDE<T>];
#pragma unroll
                for (int i = 0; i < WIDE<T>; i++)
                    part[i] = T(from[k + i]);
                uint4 raw;
                memcpy(&raw, part, sizeof raw);
                *(uint4 *)(void *)(y + k) = raw;
            }
            return;
        }
#pragma unroll
    for (int i = 0; i < N; i++)
        y[i] = T(from[i]);
}

/* f(count_of<N>, i) for all numbers i .. i + N - 1 of `at` [n], of which thread `me` of `threads`
 * has its share: always the same for the same address modulo 16. */
template <typename T, typename F>
static __device__ void along(const T *at, size_t n, size_t me, size_t threads, F f)
{
    constexpr size_t W = WIDE<T>;
    size_t head = (W - (uintptr_t)at / sizeof(T) % W) % W;
    if (head > n)
        head = n;
    size_t packs = (n - head) / W, rest = n - packs * W;
    for (size_t k = me; k < packs; k += threads)
        f(count_of<(int)W>(), head + k * W);
    for (size_t k = me; k < rest; k += threads)
        f(count_of<1>(), k < head ? k : k + packs * W);
}

/* The same over all threads of a grid. */
template <typename T, typename F> static __device__ void along_all(const T *at, size_t n, F f)
{
    along(at, n, (size_t)blockIdx.x * blockDim.x + threadIdx.x, (size_t)gridDim.x * blockDim.x, f);
}

/* y = f(a, b), or f(a), [n] each, in packs of `at`, the narrower of their types. */
template <typename At, typename Y, typename A, typename B, typename F>
static __device__ void combine(const At *at, Y *y, const A *a, const B *b, size_t n, F f)
{
    along_all(at, n, [&](auto count, size_t i) {
        float left[count.n], right[count.n];
        load(left, a + i);
        load(right, b + i);
        for (int j = 0; j < count.n; j++)
            left[j] = f(left[j], right[j]);
        store(y + i, left);
    });
}
template <typename At, typename Y, typename A, typename F>
static __device__ void change(const At *at, Y *y, const A *a, size_t n, F f)
{
    along_all(at, n, [&](auto count, size_t i) {
        float value[count.n];
        load(value, a + i);
        for (int j = 0; j < count.n; j++)
            value[j] = f(value[j]);
        store(y + i, value);
    });
}

static inline size_t wide_of(enum kernel_type t)
{
    return t == KERNEL_FP32 ? WIDE<float> : WIDE<__half>;
}

/* Blocks for it, a pack for each thread. */
static inline unsigned blocks_along(enum kernel_type t, size_t n)
{
    return blocks_for(n / wide_of(t) + 1);
}

#endif
