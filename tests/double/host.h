/* host.h - CUDA's language in plain C++, so that the kernels run where there is no GPU: the blocks
 * of a grid one after the other, the threads of a block as fibers that take turns at
 * __syncthreads() and shuffles. Blocks are small; a kernel must not depend on how large they are.
 *
 * Kernels are compiled with -fsanitize=thread, whose hooks (grid.cpp) are ours: every access of a
 * kernel is seen. */
#ifndef DOUBLE_HOST_H
#define DOUBLE_HOST_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#define __global__
#define __device__
#define __host__
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __shared__ static

#ifndef DOUBLE_BLOCK
#define DOUBLE_BLOCK 16
#define DOUBLE_WARP  4
#endif
static const unsigned BLOCK = DOUBLE_BLOCK, WARP = DOUBLE_WARP;
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* Blocks of so many threads; others than BLOCK by LAUNCH_SHAPED_NOW alone, whose warps have 32. */
enum { DOUBLE_MOST_THREADS = 128 };
void __syncthreads();
float __shfl_xor_sync(unsigned mask, float value, int distance);
/* Blocks come one after the other. */
static inline unsigned atomicAdd(unsigned *at, unsigned n)
{
    unsigned was = *at;
    *at += n;
    return was;
}
static inline void __threadfence()
{
}
template <typename T> static inline T __ldcg(const T *at)
{
    return *at;
}
static inline void sincospi(double x, double *s, double *c)
{
    *s = sin(x * 3.141592653589793);
    *c = cos(x * 3.141592653589793);
}
#define HOST_CLOCK
static inline unsigned long long clock_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ULL + (unsigned long long)t.tv_nsec;
}

/* Queue a kernel: `run` does with `closure` [bytes], which is copied, what each thread does. */
cudaError_t double_launch(const char *name, cudaStream_t stream, dim3 grid, unsigned threads,
                          const void *closure, size_t bytes, void (*run)(const void *closure));

/* Arguments are copied when the kernel is launched, as CUDA does. */
template <typename... P, typename... A>
static inline cudaError_t launch_on(const char *name, cudaStream_t stream, dim3 grid,
                                    unsigned threads, void (*kernel)(P...), A... a)
{
    auto thread = [=] { kernel(a...); };
    typedef decltype(thread) type;
    return double_launch(name, stream, grid, threads, &thread, sizeof thread,
                         [](const void *closure) { (*(const type *)closure)(); });
}

#define LAUNCH_NOW(stream, kernel, blocks, ...)                                                    \
    launch_on(#kernel, (stream), dim3(blocks), BLOCK, kernel, __VA_ARGS__)

/* Shared memory is as large as an H100's block may have, and is not looked at before it is
 * written. */
enum { DOUBLE_SHARED = 227 << 10 };
#define REGISTERS_ONLY       __attribute__((no_sanitize("thread")))
#define DYNAMIC_SHARED(name) alignas(16) static unsigned char name[DOUBLE_SHARED]
#define LAUNCH_SHAPED_NOW(kernel, blocks, threads, bytes, ...)                                     \
    ((bytes) > DOUBLE_SHARED ? cudaErrorInvalidValue                                               \
                             : launch_on(#kernel, CUDA_STREAM, dim3((unsigned)(blocks)), threads,  \
                                         kernel, __VA_ARGS__))

/* ---- exec/device/cuda/mma.cuh: fragments lie as there, and warps have 32 threads */

#define HOST_MMA
template <typename T> void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void load_matrices(uint32_t (&r)[4], const void *row);
void load_turned(uint32_t (&r)[4], const void *row);

/* At once: what is copied ahead may be seen before copies_wait(), which the double does not
 * find. */
static inline void copy_begin(void *to, const void *from, bool is_there)
{
    if (is_there)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}
static inline void copies_close()
{
}
template <int most> static inline void copies_wait()
{
}

template <typename T> static inline uint32_t packed(float low, float high)
{
    const T both[2] = {low, high};
    uint32_t bits;
    memcpy(&bits, both, sizeof bits);
    return bits;
}

#endif
