/* Sums over rows, of gradients of outputs: gradients of biases. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/wide.cuh"

/* out [columns] += sums of the first columns of x (rows, width). A block has as many columns as a
 * warp reads at once, and of their rows part blockIdx.y, which its warps take in turn: work
 * [gridDim.y][columns], a ticket for each gridDim.x. */
template <typename T>
static __global__ void column_sums(float *out, const void *x_, size_t rows, size_t columns,
                                   size_t width, size_t first, float *work, unsigned *ticket)
{
    constexpr int W = WIDE<T>;
    alignas(16) __shared__ float of_warp[BLOCK / WARP][WARP * W];
    unsigned warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    size_t low = first + (size_t)blockIdx.x * WARP * W, c = low + lane * W;
    const T *x = (const T *)x_;
    float sum[W] = {}, a[W] = {};
    for (size_t r = rows * blockIdx.y / gridDim.y + warp; r < rows * (blockIdx.y + 1) / gridDim.y;
         r += BLOCK / WARP) {
        if (c + W <= columns)
            load(a, x + r * width + c);
        else
            for (int j = 0; j < W; j++)
                a[j] = c + j < columns ? (float)x[r * width + c + j] : 0;
        for (int j = 0; j < W; j++)
            sum[j] += a[j];
    }
    store(&of_warp[warp][lane * W], sum);
    __syncthreads();
    size_t end = columns - low < WARP * W ? columns - low : WARP * W;
    ALONG(k, end)
    {
        float value = 0;
        for (unsigned w = 0; w < BLOCK / WARP; w++)
            value += of_warp[w][k];
        work[blockIdx.y * columns + low + k] = value;
    }
    if (!is_last(ticket + blockIdx.x, gridDim.y))
        return;
    ALONG(k, end)
    out[low + k] += sum_of_parts(work, columns, gridDim.y, low + k);
}

/* ---- launches */

cudaError_t kernel_columns(enum kernel_type t, float *out, const void *x, size_t rows,
                           size_t columns, size_t width, float *work, unsigned *ticket)
{
    cudaError_t e = cudaSuccess;
    size_t wide = WARP * wide_of(t);
    size_t parts = parts_of(rows, COLUMN_PARTS), most = TICKETS;
    for (size_t first = 0; first < columns && !e; first += wide * most) {
        size_t n = (columns - first + wide - 1) / wide;
        const dim3 grid((unsigned)(n < most ? n : most), (unsigned)parts);
        e = LAUNCH_AS(t, column_sums, grid, out, x, rows, columns, width, first, work, ticket);
    }
    return e;
}
