/* host.h - CUDA's language in plain C++, so that the kernels run where there is no GPU: the blocks
 * of a grid one after the other, the threads of a block as fibers that take turns at
 * __syncthreads() and shuffles. Blocks are small; a kernel must not depend on how large they are.
 * Finds wrong formulas, indices and reductions; not races, and nothing about speed. */
#ifndef TESTS_CUDA_HOST_H
#define TESTS_CUDA_HOST_H

#include <cuda_runtime_api.h>
#include <functional>
#include <math.h>
#include <time.h>

#undef __global__
#undef __device__
#undef __shared__
#define __global__
#define __device__
#define __shared__ static

static const unsigned BLOCK = 16, WARP = 4;
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
cudaError_t host_launch(dim3 grid, const std::function<void()> &thread);

#define LAUNCH_ON(stream, kernel, blocks, ...)                                                     \
    host_launch(dim3(blocks), [=] { kernel(__VA_ARGS__); })

#endif
