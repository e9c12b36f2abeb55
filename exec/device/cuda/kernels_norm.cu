/* Layer normalisation and RMSNorm of whole rows, with the sum before it, and backwards with the
 * gradient of its weights: each number of a tensor is read and written once.
 * exec/device/cpu/{layernorm,rmsnorm}.c have the formulas; RMSNorm's are layernorm's with means of
 * 0. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/wide.cuh"

/* COUNT weights from channel i on, and biases: none of RMSNorm. */
template <int COUNT>
static __device__ void load_weights(const struct kernel_norm &l, size_t i, float (&weight)[COUNT])
{
    load(weight, l.parameter + i);
    for (int j = 0; j < COUNT; j++)
        weight[j] += l.offset ? 1 : 0;
}

template <int COUNT>
static __device__ void load_biases(const struct kernel_norm &l, size_t i, float (&bias)[COUNT])
{
    if (!l.root)
        load(bias, l.parameter + l.channels + i);
}

/* A warp for each row: y = (x - mean) rstd weight + bias, of x or of x + l.other, which is then
 * kept in l.sum; mean and rstd go to `saved`. What has been read once comes from the cache. */
template <typename T> static __global__ void norm(struct kernel_norm l, void *y_)
{
    size_t row = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP,
           lane = threadIdx.x % WARP;
    size_t n = row < l.rows ? l.channels : 0, at = n > 0 ? row * n : 0;
    const T *x = (const T *)l.x + at, *other = (const T *)l.other + at;
    T *sum = (T *)l.sum + at, *y = (T *)y_ + at;
    float part = 0;
    if (l.other)
        along(sum, n, lane, WARP, [&](auto count, size_t i) {
            float a[count.n], b[count.n];
            load(a, x + i);
            load(b, other + i);
            for (int j = 0; j < count.n; j++)
                part += a[j] = (float)T(a[j] + b[j]);
            store(sum + i, a);
        });
    else if (!l.root)
        along(x, n, lane, WARP, [&](auto count, size_t i) {
            float a[count.n];
            load(a, x + i);
            for (int j = 0; j < count.n; j++)
                part += a[j];
        });
    x = l.other ? sum : x;
    float mean = l.root ? 0 : warp_sum(part) / (float)l.channels;
    part = 0;
    along(x, n, lane, WARP, [&](auto count, size_t i) {
        float a[count.n];
        load(a, x + i);
        for (int j = 0; j < count.n; j++)
            part += (a[j] - mean) * (a[j] - mean);
    });
    float rstd = 1 / sqrtf(warp_sum(part) / (float)l.channels + 1e-5f);
    along(x, n, lane, WARP, [&](auto count, size_t i) {
        float a[count.n], weight[count.n], bias[count.n] = {};
        load(a, x + i);
        load_weights(l, i, weight);
        load_biases(l, i, bias);
        for (int j = 0; j < count.n; j++)
            a[j] = (a[j] - mean) * rstd * weight[j] + bias[j];
        store(y + i, a);
    });
    if (lane == 0 && n > 0) {
        l.saved[2 * row] = mean;
        l.saved[2 * row + 1] = rstd;
    }
}

/* What the backward knows of a row: dx = rstd (g - g_mean - n gn_mean), n = (x - mean) rstd. */
struct norm_row {
    float mean, rstd, g_mean, gn_mean;
};

/* A warp's row, of which `lane` adds up its share: means of g = dy weight and of g n. */
template <typename T>
static __device__ struct norm_row norm_means(const struct kernel_norm &l, const T *x, const T *dy,
                                             size_t row, size_t n, size_t lane)
{
    struct norm_row r = {};
    float g_part = 0, gn_part = 0;
    if (n > 0) {
        r.mean = l.saved[2 * row];
        r.rstd = l.saved[2 * row + 1];
    }
    along(x, n, lane, WARP, [&](auto count, size_t i) {
        float a[count.n], d[count.n], weight[count.n];
        load(a, x + i);
        load(d, dy + i);
        load_weights(l, i, weight);
        for (int j = 0; j < count.n; j++) {
            float g = d[j] * weight[j];
            g_part += g;
            gn_part += g * (a[j] - r.mean) * r.rstd;
        }
    });
    r.g_mean = l.root ? 0 : warp_sum(g_part) / (float)l.channels;
    r.gn_mean = warp_sum(gn_part) / (float)l.channels;
    return r;
}

/* Rows as many as warps, from `row` on: dx of each, added to what is there if l.adds, and their
 * shares of the gradients of weight and bias to sum [2][channels], or of the weight alone. A thread
 * has the same channels of all rows. */
template <typename T>
static __device__ void norm_rows(const struct kernel_norm &l, const struct norm_row *means,
                                 size_t row, size_t rows, const void *dy_, void *dx_, float *sum)
{
    const T *x = (const T *)l.x + row * l.channels, *dy = (const T *)dy_ + row * l.channels;
    T *dx = (T *)dx_ + row * l.channels;
    along(dx, l.channels, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float weight[count.n], d_weight[count.n], d_bias[count.n] = {};
        load_weights(l, i, weight);
        load(d_weight, sum + i);
        if (!l.root)
            load(d_bias, sum + l.channels + i);
        for (size_t k = 0; k < rows; k++) {
            const struct norm_row r = means[k];
            size_t at = k * l.channels + i;
            float a[count.n], d[count.n], to[count.n] = {};
            load(a, x + at);
            load(d, dy + at);
            if (l.adds)
                load(to, dx + at);
            for (int j = 0; j < count.n; j++) {
                float n = (a[j] - r.mean) * r.rstd;
                d_weight[j] += d[j] * n;
                d_bias[j] += d[j];
                to[j] += r.rstd * (d[j] * weight[j] - r.g_mean - n * r.gn_mean);
            }
            store(dx + at, to);
        }
        store(sum + i, d_weight);
        if (!l.root)
            store(sum + l.channels + i, d_bias);
    });
}

/* The rows of a part, as many at once as the block has warps. is_small: the sums fit into shared
 * memory, else they grow where the part is to be. */
template <typename T>
static __global__ void norm_backward(struct kernel_norm l, const void *dy, void *dx,
                                     float *d_parameter, float *work, unsigned *ticket,
                                     bool is_small)
{
    DYNAMIC_SHARED(shared);
    __shared__ struct norm_row means[BLOCK / WARP];
    size_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP,
           both = (l.root ? 1 : 2) * l.channels;
    float *part = work + blockIdx.x * both, *sum = is_small ? (float *)(void *)shared : part;
    size_t end = l.rows * (blockIdx.x + 1) / gridDim.x;
    ALONG(i, both)
    sum[i] = 0;
    for (size_t row = l.rows * blockIdx.x / gridDim.x; row < end; row += BLOCK / WARP) {
        size_t rows = end - row < BLOCK / WARP ? end - row : BLOCK / WARP;
        size_t mine = warp < rows ? row + warp : 0, n = warp < rows ? l.channels : 0;
        const struct norm_row r = norm_means(l, (const T *)l.x + mine * l.channels,
                                             (const T *)dy + mine * l.channels, mine, n, lane);
        __syncthreads(); /* the last rows' means have been used, and the first time sums are zero */
        if (lane == 0)
            means[warp] = r;
        __syncthreads();
        norm_rows<T>(l, means, row, rows, dy, dx, sum);
    }
    __syncthreads();
    ALONG(i, is_small ? both : 0)
    part[i] = sum[i];
    join_parts(d_parameter, work, both, ticket);
}

/* ---- launches */

cudaError_t kernel_norm(const struct kernel_norm *l, void *y)
{
    unsigned rows = BLOCK / WARP;
    return LAUNCH_AS(l->type, norm, (unsigned)((l->rows + rows - 1) / rows), *l, y);
}

cudaError_t kernel_norm_backward(const struct kernel_norm *l, const void *dy, void *dx,
                                 float *d_parameter, float *work, unsigned *ticket)
{
    size_t parts = parts_of(l->rows, NORM_PARTS);
    size_t bytes = (l->root ? 1 : 2) * l->channels * sizeof(float);
    bool is_small = bytes <= (40 << 10);
    if (!is_small)
        bytes = 0;
#define NORM_BACKWARD(T)                                                                           \
    LAUNCH_SHAPED(norm_backward<T>, parts, BLOCK, bytes, *l, dy, dx, d_parameter, work, ticket,    \
                  is_small)
    return l->type == KERNEL_FP32   ? NORM_BACKWARD(float)
           : l->type == KERNEL_BF16 ? NORM_BACKWARD(__nv_bfloat16)
                                    : NORM_BACKWARD(__half);
}
