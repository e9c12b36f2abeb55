/* launch.cuh - what the kernels share: launches, loops, sums over a block. Everything is static:
 * each source has its own. */
#ifndef EXEC_DEVICE_CUDA_LAUNCH_CUH
#define EXEC_DEVICE_CUDA_LAUNCH_CUH

#include "exec/device/cuda/kernels.h"
#include "exec/device/cuda/queue.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>
#include <type_traits>

#ifndef LAUNCH_NOW /* else a test runs the kernels on the host (tests/double) */
static const unsigned BLOCK = 256, WARP = 32;
#define LAUNCH_NOW(stream, kernel, blocks, ...)                                                    \
    (kernel<<<(blocks), BLOCK, 0, (stream)>>>(__VA_ARGS__), cudaGetLastError())
/* Blocks of so many threads with so much shared memory, DYNAMIC_SHARED; more than 48 KiB is asked
 * for. */
template <typename... P, typename... A>
static cudaError_t launch_shaped(void (*kernel)(P...), size_t blocks, unsigned threads,
                                 size_t bytes, A... a)
{
    cudaError_t e = cudaSuccess;
    if (bytes > (48 << 10))
        e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)bytes);
    if (e == cudaSuccess)
        kernel<<<(unsigned)blocks, threads, bytes, CUDA_STREAM>>>(a...);
    return e == cudaSuccess ? cudaGetLastError() : e;
}
#define LAUNCH_SHAPED_NOW(kernel, blocks, threads, bytes, ...)                                     \
    launch_shaped(kernel, blocks, threads, bytes, __VA_ARGS__)
/* A function that accesses registers and shared memory alone: tests need not look at what it
 * does. */
#define REGISTERS_ONLY
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

/* An argument as cuda_queues() notes it. */
template <typename A> static inline uint64_t noted(const A &a)
{
    uint64_t value = 0;
    if constexpr (!std::is_class<A>::value)
        memcpy(&value, &a, sizeof a);
    return value;
}
template <typename... A> static inline bool launches(const char *name, dim3 blocks, const A &...a)
{
    const uint64_t value[] = {blocks.x, blocks.y, noted(a)...};
    return cuda_queues(name, value, sizeof value / sizeof *value);
}

#define LAUNCH_ON(stream, kernel, blocks, ...)                                                     \
    (launches(#kernel, dim3(blocks), __VA_ARGS__)                                                  \
         ? LAUNCH_NOW(stream, kernel, blocks, __VA_ARGS__)                                         \
         : cudaSuccess)
#define LAUNCH_SHAPED(kernel, blocks, threads, bytes, ...)                                         \
    (launches(#kernel, dim3((unsigned)(blocks)), __VA_ARGS__)                                      \
         ? LAUNCH_SHAPED_NOW(kernel, blocks, threads, bytes, __VA_ARGS__)                          \
         : cudaSuccess)
#define LAUNCH(kernel, blocks, ...) LAUNCH_ON(CUDA_STREAM, kernel, blocks, __VA_ARGS__)
/* A kernel for what activations are stored as. */
#define LAUNCH_AS(type, kernel, blocks, ...)                                                       \
    ((type) == KERNEL_FP32 ? LAUNCH(kernel<float>, blocks, __VA_ARGS__)                            \
                           : LAUNCH_HALF(type, kernel, blocks, __VA_ARGS__))
#define LAUNCH_HALF(type, kernel, blocks, ...)                                                     \
    ((type) == KERNEL_BF16 ? LAUNCH(kernel<__nv_bfloat16>, blocks, __VA_ARGS__)                    \
                           : LAUNCH(kernel<__half>, blocks, __VA_ARGS__))
static const unsigned MOST_BLOCKS = 65535; /* in y and z; in x there may be 2^31 - 1 */

static inline unsigned blocks_for(size_t n)
{
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    return blocks < 1 ? 1 : blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
}

#define FOR_EACH(i, n)                                                                             \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                        \
         i += (size_t)gridDim.x * blockDim.x)
/* The rows of blocks over n rows. */
#define BLOCK_ROWS(k, n) for (size_t k = blockIdx.y; k < (n); k += gridDim.y)
/* Threads of a block over a row. */
#define ALONG(i, n) for (size_t i = threadIdx.x; i < (n); i += blockDim.x)

/* Of token t, and which token has a place; tokens or more: none here. */
static __device__ size_t place_of(const struct kernel_place &p, size_t t)
{
    size_t chunk = p.tokens / 2;
    if (p.context < 2)
        return t;
    return t < chunk ? p.position * chunk + t : (2 * p.context - 2 - p.position) * chunk + t;
}
static __device__ size_t token_at(const struct kernel_place &p, size_t place)
{
    size_t chunk = p.tokens / 2, last = 2 * p.context - 1 - p.position;
    if (p.context < 2)
        return place;
    return place / chunk == p.position ? place % chunk
           : place / chunk == last     ? place % chunk + chunk
                                       : p.tokens;
}

/* ---- sums and maxima over a warp or a block; every thread of it gets the result */

/* All warps of a block call it as often. */
static __device__ float warp_sum(float value)
{
    for (unsigned k = WARP / 2; k > 0; k /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, (int)k);
    return value;
}

static __device__ float block_sum(float value)
{
    __shared__ float part[BLOCK / WARP];
    value = warp_sum(value);
    __syncthreads(); /* the last call's parts have been read */
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = value;
    __syncthreads();
    float sum = 0;
    for (unsigned k = 0; k < BLOCK / WARP; k++)
        sum += part[k];
    return sum;
}

static __device__ float block_max(float value)
{
    __shared__ float part[BLOCK / WARP];
    for (unsigned k = WARP / 2; k > 0; k /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, (int)k));
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = value;
    __syncthreads();
    float largest = part[0];
    for (unsigned k = 1; k < BLOCK / WARP; k++)
        largest = fmaxf(largest, part[k]);
    return largest;
}

#endif
