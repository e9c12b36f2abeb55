/* join.cuh - sums that the blocks of a grid make together: each leaves a part in memory, and who
 * comes last adds them. Who that is depends on timing, the order in which parts are added does not:
 * the same bits every time. Tickets count who has come; they are zeros before a launch and after
 * it. */
#ifndef EXEC_DEVICE_CUDA_JOIN_CUH
#define EXEC_DEVICE_CUDA_JOIN_CUH

#include "exec/device/cuda/launch.cuh"

/* Called by all threads of a block: is it the last of `blocks` to have written what it has? Then it
 * sees what the others have. */
static __device__ bool is_last(unsigned *ticket, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) + 1 == blocks;
        if (last)
            *ticket = 0;
    }
    __syncthreads();
    if (last)
        __threadfence();
    return last;
}

/* In how many parts rows are summed: what is left of each is to be little beside what has been
 * read. */
static inline size_t parts_of(size_t rows, size_t most)
{
    enum { ROWS = 32 };
    size_t parts = (rows + ROWS - 1) / ROWS;
    return parts < most ? parts : most;
}

/* The sum over `parts` rows of work [...][stride], from the first on, at column c. From beyond the
 * first cache, which may have what was there before. */
static __device__ float sum_of_parts(const float *work, size_t stride, unsigned parts, size_t c)
{
    float value = 0;
#pragma unroll 8
    for (unsigned k = 0; k < parts; k++)
        value += __ldcg(work + k * stride + c);
    return value;
}

/* Of a grid of columns by parts of rows: the first row of part blockIdx.y or of the next one, */
static __device__ size_t part_row(size_t rows, unsigned part)
{
    return rows * part / gridDim.y;
}

/* what a thread has of column c, and for the last block of the column: out [n] += the sum of all
 * of them, work [gridDim.y][n]. All threads of a block come here, also those behind the last
 * column. */
static __device__ void join_column(float *out, float *work, size_t n, size_t c, float value,
                                   unsigned *ticket)
{
    if (c < n)
        work[blockIdx.y * n + c] = value;
    if (is_last(ticket + blockIdx.x, gridDim.y) && c < n)
        out[c] += sum_of_parts(work, n, gridDim.y, c);
}

/* Blocks of columns by `rows` rows of blocks, as far as a grid goes: BLOCK_ROWS() does the rest. */
static inline dim3 grid_for(size_t columns, size_t rows)
{
    return dim3((unsigned)((columns + BLOCK - 1) / BLOCK),
                rows < MOST_BLOCKS ? (unsigned)rows : MOST_BLOCKS);
}

/* out [n] += the sum of all blocks' parts, work [gridDim.x][n]: first JOIN_GROUP neighbours, then
 * their sums. ticket [1 + groups]. */
enum { JOIN_GROUP = 16 };
static __device__ void join_parts(float *out, float *work, size_t n, unsigned *ticket)
{
    unsigned groups = (gridDim.x + JOIN_GROUP - 1) / JOIN_GROUP, group = blockIdx.x / JOIN_GROUP;
    unsigned first = group * JOIN_GROUP, left = gridDim.x - first;
    unsigned members = left < JOIN_GROUP ? left : (unsigned)JOIN_GROUP;
    if (!is_last(ticket + 1 + group, members))
        return;
    ALONG(c, n)
    work[first * n + c] = sum_of_parts(work + first * n, n, members, c);
    if (!is_last(ticket, groups))
        return;
    ALONG(c, n)
    out[c] += sum_of_parts(work, JOIN_GROUP * n, groups, c);
}

#endif
