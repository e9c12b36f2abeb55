/* host.h - CUDA's language in plain C++, so that the kernels run where there is no GPU: the blocks
 * of a grid one after the other, the threads of a block as fibers that take turns at
 * __syncthreads() and shuffles. Blocks are small; a kernel must not depend on how large they are.
 *
 * Kernels are compiled with -fsanitize=thread, whose hooks (grid.cpp) are ours: every access of a
 * kernel is seen. */
#ifndef DOUBLE_HOST_H
#define DOUBLE_HOST_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stddef.h>
#include <time.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#define __global__
#define __device__
#define __host__
#define __shared__ static

#ifndef DOUBLE_BLOCK
#define DOUBLE_BLOCK 16
#define DOUBLE_WARP  4
#endif
static const unsigned BLOCK = DOUBLE_BLOCK, WARP = DOUBLE_WARP;
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

void __syncthreads();
float __shfl_xor_sync(unsigned mask, float value, int distance);
#define HOST_CLOCK
static inline unsigned long long clock_ns()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ULL + (unsigned long long)t.tv_nsec;
}

/* Queue a kernel: `run` does with `closure` [bytes], which is copied, what each thread does. */
cudaError_t double_launch(const char *name, cudaStream_t stream, dim3 grid, const void *closure,
                          size_t bytes, void (*run)(const void *closure));

/* Arguments are copied when the kernel is launched, as CUDA does. */
template <typename... P, typename... A>
static inline cudaError_t launch_on(const char *name, cudaStream_t stream, dim3 grid,
                                    void (*kernel)(P...), A... a)
{
    auto thread = [=] { kernel(a...); };
    typedef decltype(thread) type;
    return double_launch(name, stream, grid, &thread, sizeof thread,
                         [](const void *closure) { (*(const type *)closure)(); });
}

#define LAUNCH_ON(stream, kernel, blocks, ...)                                                     \
    launch_on(#kernel, (stream), dim3(blocks), kernel, __VA_ARGS__)

#endif
