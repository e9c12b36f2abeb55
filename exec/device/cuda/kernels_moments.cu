/* Norms over the positions of images, and without moments at all:
 * exec/device/cpu/{groupnorm,batchnorm,affine}.c. */
#include "exec/device/cuda/images.h"
#include "exec/device/cuda/join.cuh"

static __host__ __device__ size_t sets_of(const struct kernel_moments &m)
{
    return m.rows / m.span * (m.channels / m.wide);
}

/* Of number e of x: which set it is in. */
static __device__ size_t set_of(const struct kernel_moments &m, size_t e)
{
    size_t row = e / m.channels, c = e % m.channels;
    return row / m.span * (m.channels / m.wide) + c / m.wide;
}

/* Number k of a set. */
static __device__ size_t moments_number_at(const struct kernel_moments &m, size_t set, size_t k)
{
    size_t groups = m.channels / m.wide, row = set / groups * m.span + k / m.wide;
    return row * m.channels + set % groups * m.wide + k % m.wide;
}

/* (x - mean) rstd of number e */
template <typename T> static __device__ float normal_of(const struct kernel_moments &m, size_t e)
{
    float x = (float)((const T *)m.x)[e];
    if (!m.moments)
        return x;
    const float *of = m.moments + 2 * set_of(m, e);
    return (x - of[0]) * of[1];
}

/* A block per set; the variance is the biased one, around the mean. */
template <typename T> static __global__ void find_moments(struct kernel_moments m)
{
    size_t n = m.span * m.wide;
    const T *x = (const T *)m.x;
    float part = 0;
    ALONG(k, n)
    part += (float)x[moments_number_at(m, blockIdx.x, k)];
    float mean = block_sum(part) / (float)n;
    part = 0;
    ALONG(k, n)
    {
        float d = (float)x[moments_number_at(m, blockIdx.x, k)] - mean;
        part += d * d;
    }
    float rstd = 1 / sqrtf(block_sum(part) / (float)n + 1e-5f);
    if (threadIdx.x == 0) {
        m.moments[2 * blockIdx.x] = mean;
        m.moments[2 * blockIdx.x + 1] = rstd;
    }
}

template <typename T> static __global__ void use_moments(struct kernel_moments m, void *y)
{
    const float *bias = m.parameter + m.channels;
    FOR_EACH(e, m.rows * m.channels)
    {
        size_t c = e % m.channels;
        ((T *)y)[e] = T(normal_of<T>(m, e) * m.parameter[c] + bias[c]);
    }
}

/* Means over a set of g = dy weight, and of g times what is normal. */
template <typename T>
static __global__ void moments_means(struct kernel_moments m, const void *dy_, float *means)
{
    size_t n = m.span * m.wide;
    const T *dy = (const T *)dy_;
    float sum = 0, product = 0;
    ALONG(k, n)
    {
        size_t e = moments_number_at(m, blockIdx.x, k);
        float g = (float)dy[e] * m.parameter[e % m.channels];
        sum += g;
        product += g * normal_of<T>(m, e);
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x == 0) {
        means[2 * blockIdx.x] = sum / (float)n;
        means[2 * blockIdx.x + 1] = product / (float)n;
    }
}

/* dx = rstd (g - mean(g) - n mean(g n)); g where there are no moments */
template <typename T>
static __global__ void moments_backward(struct kernel_moments m, const void *dy, void *dx,
                                        const float *means)
{
    FOR_EACH(e, m.rows * m.channels)
    {
        float g = (float)((const T *)dy)[e] * m.parameter[e % m.channels];
        if (m.moments) {
            size_t set = set_of(m, e);
            g -= means[2 * set] + normal_of<T>(m, e) * means[2 * set + 1];
            g *= m.moments[2 * set + 1];
        }
        ((T *)dx)[e] = T(g);
    }
}

/* d_weight += sums over rows of dy n, d_bias of dy: columns 0 .. channels - 1, and those behind
 * them. */
template <typename T>
static __global__ void moments_weight(struct kernel_moments m, const void *dy_, float *d_parameter,
                                      float *work, unsigned *ticket)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x, columns = 2 * m.channels;
    size_t end = c < columns ? part_row(m.rows, blockIdx.y + 1) : 0;
    const T *dy = (const T *)dy_;
    float value = 0;
    for (size_t r = part_row(m.rows, blockIdx.y); r < end; r++) {
        size_t e = r * m.channels + c % m.channels;
        value += (float)dy[e] * (c < m.channels ? normal_of<T>(m, e) : 1);
    }
    join_column(d_parameter, work, columns, c, value, ticket);
}

/* ---- launches */

cudaError_t kernel_moments(const struct kernel_moments *m, void *y)
{
    cudaError_t e = cudaSuccess;
    if (m->moments)
        e = LAUNCH_AS(m->type, find_moments, (unsigned)sets_of(*m), *m);
    return e ? e : LAUNCH_AS(m->type, use_moments, blocks_for(m->rows * m->channels), *m, y);
}

cudaError_t kernel_moments_backward(const struct kernel_moments *m, const void *dy, void *dx,
                                    float *d_parameter, float *work, unsigned *ticket)
{
    cudaError_t e = cudaSuccess;
    float *means = m->moments ? m->moments + 2 * sets_of(*m) : NULL;
    const dim3 grid = grid_for(2 * m->channels, parts_of(m->rows, COLUMN_PARTS));
    if (grid.x > TICKETS)
        return cudaErrorInvalidValue;
    if (means)
        e = LAUNCH_AS(m->type, moments_means, (unsigned)sets_of(*m), *m, dy, means);
    if (!e)
        e = LAUNCH_AS(m->type, moments_backward, blocks_for(m->rows * m->channels), *m, dy, dx,
                      means);
    return e ? e : LAUNCH_AS(m->type, moments_weight, grid, *m, dy, d_parameter, work, ticket);
}
