/* columns.cuh - sums over rows: a thread per column, first in COLUMN_PARTS parts, then the parts. */
#ifndef EXEC_DEVICE_CUDA_COLUMNS_CUH
#define EXEC_DEVICE_CUDA_COLUMNS_CUH

#include "exec/device/cuda/launch.cuh"

/* Row range of part blockIdx.y. */
static __device__ size_t part_row(size_t rows, unsigned part)
{
    return rows * part / COLUMN_PARTS;
}

/* out [gridDim.y][columns] += the parts of each. */
static __global__ void add_parts(float *out, const float *work, size_t columns)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float value = 0;
    for (unsigned part = 0; part < COLUMN_PARTS; part++)
        value += work[((size_t)blockIdx.y * COLUMN_PARTS + part) * columns + c];
    out[blockIdx.y * columns + c] += value;
}

/* Blocks of columns by `rows` rows of blocks, as far as a grid goes: BLOCK_ROWS() does the rest. */
static inline dim3 grid_for(size_t columns, size_t rows)
{
    return dim3((unsigned)((columns + BLOCK - 1) / BLOCK),
                rows < MOST_BLOCKS ? (unsigned)rows : MOST_BLOCKS);
}

#endif
