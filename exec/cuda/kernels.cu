/* Kernels: simple ones, a thread per element or a block per row; they are bound by memory. */
#include "exec/cuda/kernels.h"

#ifndef LAUNCH_ON /* else a test runs the kernels on the host (tests/cuda) */
static const unsigned BLOCK = 256, WARP = 32;
#define LAUNCH_ON(stream, kernel, blocks, ...)                                                     \
    (kernel<<<(blocks), BLOCK, 0, (stream)>>>(__VA_ARGS__), cudaGetLastError())
#endif
#define LAUNCH(kernel, blocks, ...) LAUNCH_ON(CUDA_STREAM, kernel, blocks, __VA_ARGS__)
static const unsigned MOST_BLOCKS = 65535;

static unsigned blocks_for(size_t n)
{
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    return blocks < 1 ? 1 : blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
}

/* Blocks of columns by `rows` rows of blocks. */
static dim3 grid_for(size_t columns, size_t rows)
{
    return dim3((unsigned)((columns + BLOCK - 1) / BLOCK), (unsigned)rows);
}

#define FOR_EACH(i, n)                                                                             \
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                        \
         i += (size_t)gridDim.x * blockDim.x)
/* Threads of a block over a row. */
#define ALONG(i, n) for (size_t i = threadIdx.x; i < (n); i += blockDim.x)

/* ---- sums and maxima over a block; every thread gets the result */

static __device__ float block_sum(float value)
{
    __shared__ float part[BLOCK / WARP];
    for (unsigned k = WARP / 2; k > 0; k /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, (int)k);
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

/* ---- element by element */

static __global__ void add(float *y, const float *x, size_t n)
{
    FOR_EACH(i, n)
    y[i] += x[i];
}

static __global__ void sum(float *y, const float *a, const float *b, size_t n)
{
    FOR_EACH(i, n)
    y[i] = a[i] + b[i];
}

static __global__ void bias_add(float *y, const float *bias, size_t n, size_t columns)
{
    FOR_EACH(i, n)
    y[i] += bias[i % columns];
}

/* exec/cpu/gelu.c has the formulas. */
#define ROOT  0.7978845608028654f
#define CUBIC 0.044715f

static __global__ void gelu(float *y, const float *x, size_t n)
{
    FOR_EACH(i, n)
    {
        float u = ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1 + expf(-2 * u));
    }
}

static __global__ void gelu_backward(float *dx, const float *x, const float *dy, size_t n)
{
    FOR_EACH(i, n)
    {
        float square = x[i] * x[i];
        float u = ROOT * (x[i] + CUBIC * x[i] * square);
        float s = 1 / (1 + expf(-2 * u));
        dx[i] = dy[i] * (s + x[i] * s * (1 - s) * 2 * ROOT * (1 + 3 * CUBIC * square));
    }
}

static __global__ void sgd(float *parameter, const float *gradient, size_t n, float rate)
{
    FOR_EACH(i, n)
    parameter[i] -= rate * gradient[i];
}

static __global__ void adam(float *parameter, const float *gradient, float *moment, float *square,
                            size_t n, float rate, float unbias)
{
    const float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
    FOR_EACH(i, n)
    {
        float g = gradient[i];
        moment[i] = beta1 * moment[i] + (1 - beta1) * g;
        square[i] = beta2 * square[i] + (1 - beta2) * g * g;
        parameter[i] -= rate * moment[i] / (sqrtf(square[i]) * unbias + epsilon);
    }
}

/* ---- sums over rows: a thread per column, first in parts, then the parts */

/* Row range of part blockIdx.y. */
static __device__ size_t part_row(size_t rows, unsigned part)
{
    return rows * part / COLUMN_PARTS;
}

static __global__ void column_parts(float *work, const float *x, size_t rows, size_t columns)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float value = 0;
    for (size_t r = part_row(rows, blockIdx.y); r < part_row(rows, blockIdx.y + 1); r++)
        value += x[r * columns + c];
    work[blockIdx.y * columns + c] = value;
}

static __global__ void norm_parts(float *work, struct kernel_norm l, const float *dy)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= l.channels)
        return;
    float weight = 0, bias = 0;
    for (size_t r = part_row(l.rows, blockIdx.y); r < part_row(l.rows, blockIdx.y + 1); r++) {
        float d = dy[r * l.channels + c];
        weight += d * (l.x[r * l.channels + c] - l.saved[2 * r]) * l.saved[2 * r + 1];
        bias += d;
    }
    work[blockIdx.y * l.channels + c] = weight;
    work[(COLUMN_PARTS + blockIdx.y) * l.channels + c] = bias;
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

/* ---- layer normalisation: a block per row */

static __global__ void norm(struct kernel_norm l, float *y)
{
    size_t row = blockIdx.x;
    const float *x = l.x + row * l.channels;
    float part = 0;
    ALONG(i, l.channels)
    part += x[i];
    float mean = block_sum(part) / (float)l.channels;
    part = 0;
    ALONG(i, l.channels)
    part += (x[i] - mean) * (x[i] - mean);
    float rstd = 1 / sqrtf(block_sum(part) / (float)l.channels + 1e-5f);
    ALONG(i, l.channels)
    y[row * l.channels + i] = (x[i] - mean) * rstd * l.parameter[i] + l.parameter[l.channels + i];
    if (threadIdx.x == 0) {
        l.saved[2 * row] = mean;
        l.saved[2 * row + 1] = rstd;
    }
}

static __global__ void norm_backward(struct kernel_norm l, const float *dy, float *dx)
{
    size_t row = blockIdx.x;
    const float *x = l.x + row * l.channels;
    dy += row * l.channels;
    dx += row * l.channels;
    float mean = l.saved[2 * row], rstd = l.saved[2 * row + 1], g_part = 0, gn_part = 0;
    ALONG(i, l.channels)
    {
        float g = dy[i] * l.parameter[i];
        g_part += g;
        gn_part += g * (x[i] - mean) * rstd;
    }
    float g_mean = block_sum(g_part) / (float)l.channels;
    float gn_mean = block_sum(gn_part) / (float)l.channels;
    ALONG(i, l.channels)
    dx[i] = rstd * (dy[i] * l.parameter[i] - g_mean - (x[i] - mean) * rstd * gn_mean);
}

/* ---- embedding */

/* Row `at` of a table in the parameters; NULL: another shard has it, or nobody. */
static __device__ const float *table_row(const struct kernel_table &t, size_t at, size_t channels,
                                         const float *parameter)
{
    if (at < t.first || at - t.first >= t.rows)
        return NULL;
    return parameter + t.start + (at - t.first) * channels;
}

static __global__ void embedding(struct kernel_embedding e, const float *parameter, float *y)
{
    size_t row = blockIdx.x;
    const float *value = table_row(e.value, (size_t)e.token[row], e.channels, parameter);
    const float *position = table_row(e.position, row % e.tokens, e.channels, parameter);
    const float *type = table_row(e.type, 0, e.channels, parameter);
    ALONG(i, e.channels)
    {
        float total = value ? value[i] : 0;
        if (position)
            total += position[i];
        if (type)
            total += type[i];
        y[row * e.channels + i] = total;
    }
}

/* Gradient of the values: a block for each that is here, which looks for its rows in ascending
 * order. */
static __global__ void embedding_values(struct kernel_embedding e, const float *dy, float *d_table)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int32_t value = (int32_t)(e.value.first + blockIdx.y);
    if (c >= e.channels)
        return;
    float *d = d_table + blockIdx.y * e.channels + c, total = *d;
    for (size_t row = 0; row < e.samples * e.tokens; row++)
        if (e.token[row] == value)
            total += dy[row * e.channels + c];
    *d = total;
}

static __global__ void embedding_positions(struct kernel_embedding e, const float *dy, float *d)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t token = e.position.first + blockIdx.y;
    if (c >= e.channels)
        return;
    float total = d[blockIdx.y * e.channels + c];
    for (size_t b = 0; b < e.samples; b++)
        total += dy[(b * e.tokens + token) * e.channels + c];
    d[blockIdx.y * e.channels + c] = total;
}

/* ---- attention: a block per row (x) and head (y) */

static __device__ float *score_row(const struct kernel_scores &s)
{
    return s.p + (blockIdx.y * s.rows + blockIdx.x) * s.columns;
}
static __device__ float *score_saved(const struct kernel_scores &s)
{
    return s.saved + (blockIdx.y * s.tokens + s.first + blockIdx.x) * 2;
}
/* Columns that the row sees. */
static __device__ size_t score_seen(const struct kernel_scores &s)
{
    return s.causal ? s.first + blockIdx.x + 1 : s.columns;
}

static __global__ void softmax(struct kernel_scores s)
{
    float *p = score_row(s), largest = -INFINITY, part = 0;
    size_t seen = score_seen(s);
    ALONG(i, seen)
    largest = fmaxf(largest, p[i]);
    largest = block_max(largest);
    ALONG(i, seen)
    part += p[i] = expf(p[i] - largest);
    float scale = 1 / block_sum(part);
    ALONG(i, s.columns)
    p[i] = i < seen ? p[i] * scale : 0;
    if (threadIdx.x == 0) {
        score_saved(s)[0] = largest;
        score_saved(s)[1] = scale;
    }
}

static __global__ void softmax_again(struct kernel_scores s)
{
    float *p = score_row(s), largest = score_saved(s)[0], scale = score_saved(s)[1];
    size_t seen = score_seen(s);
    ALONG(i, s.columns)
    p[i] = i < seen ? expf(p[i] - largest) * scale : 0;
}

static __global__ void softmax_backward(struct kernel_scores s, float *all)
{
    const float *p = score_row(s);
    float *d = all + (p - s.p), part = 0;
    ALONG(i, s.columns)
    part += d[i] * p[i];
    float mean = block_sum(part);
    ALONG(i, s.columns)
    d[i] = p[i] * (d[i] - mean);
}

/* ---- loss: a block per row */

static __global__ void loss_look(struct kernel_loss l)
{
    size_t row = blockIdx.x;
    const float *x = l.x + row * l.columns;
    float *part = l.part + row * l.shards * 3, largest = -INFINITY, sum = 0;
    ALONG(i, l.shards * 3)
    part[i] = 0;
    if (l.target[row] < 0) /* the whole block */
        return;
    ALONG(i, l.columns)
    largest = fmaxf(largest, x[i]);
    largest = block_max(largest);
    ALONG(i, l.columns)
    sum += expf(x[i] - largest);
    sum = block_sum(sum);
    if (threadIdx.x > 0)
        return;
    size_t target = (size_t)l.target[row] - l.first;
    part += l.shard * 3;
    part[0] = largest;
    part[1] = sum;
    part[2] = target < l.columns ? x[target] : 0;
}

/* A thread per row; the same order on all shards, so the same bits. */
static __global__ void loss_join(struct kernel_loss l)
{
    FOR_EACH(row, l.rows)
    {
        const float *part = l.part + row * l.shards * 3;
        float largest = part[0], sum = part[1], target = part[2];
        for (size_t k = 1; k < l.shards; k++) {
            float here = part[3 * k], both = fmaxf(largest, here);
            sum = sum * expf(largest - both) + part[3 * k + 1] * expf(here - both);
            target += part[3 * k + 2];
            largest = both;
        }
        l.saved[3 * row] = largest;
        l.saved[3 * row + 1] = l.target[row] < 0 ? 0 : 1 / sum;
        l.saved[3 * row + 2] = l.target[row] < 0 ? 0 : logf(sum) + (largest - target);
    }
}

/* One block. */
static __global__ void loss_sum(struct kernel_loss l, double *loss)
{
    __shared__ double part[BLOCK];
    double total = 0;
    ALONG(row, l.rows)
    total += (double)l.saved[3 * row + 2];
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    total = 0;
    for (unsigned k = 0; k < BLOCK; k++)
        total += part[k];
    *loss += total * (double)l.scale;
}

static __global__ void loss_backward(struct kernel_loss l, float *dx)
{
    size_t row = blockIdx.x;
    const float *x = l.x + row * l.columns;
    bool counts = l.target[row] >= 0;
    size_t target = counts ? (size_t)l.target[row] - l.first : l.columns;
    float largest = l.saved[3 * row], scale = l.saved[3 * row + 1] * l.scale;
    ALONG(i, l.columns)
    {
        float d = counts ? expf(x[i] - largest) * scale : 0;
        dx[row * l.columns + i] = i == target ? d - l.scale : d;
    }
}

/* ---- launches */

cudaError_t kernel_add(float *y, const float *x, size_t n)
{
    return kernel_add_on(CUDA_STREAM, y, x, n);
}

cudaError_t kernel_add_on(cudaStream_t stream, float *y, const float *x, size_t n)
{
    return n > 0 ? LAUNCH_ON(stream, add, blocks_for(n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_sum(float *y, const float *a, const float *b, size_t n)
{
    return LAUNCH(sum, blocks_for(n), y, a, b, n);
}

cudaError_t kernel_bias(float *y, const float *bias, size_t rows, size_t columns)
{
    return LAUNCH(bias_add, blocks_for(rows * columns), y, bias, rows * columns, columns);
}

cudaError_t kernel_columns(float *out, const float *x, size_t rows, size_t columns, float *work)
{
    cudaError_t e = LAUNCH(column_parts, grid_for(columns, COLUMN_PARTS), work, x, rows, columns);
    return e ? e : LAUNCH(add_parts, grid_for(columns, 1), out, work, columns);
}

cudaError_t kernel_gelu(float *y, const float *x, size_t n)
{
    return LAUNCH(gelu, blocks_for(n), y, x, n);
}

cudaError_t kernel_gelu_backward(float *dx, const float *x, const float *dy, size_t n)
{
    return LAUNCH(gelu_backward, blocks_for(n), dx, x, dy, n);
}

cudaError_t kernel_norm(const struct kernel_norm *l, float *y)
{
    return LAUNCH(norm, (unsigned)l->rows, *l, y);
}

cudaError_t kernel_norm_backward(const struct kernel_norm *l, const float *dy, float *dx)
{
    return LAUNCH(norm_backward, (unsigned)l->rows, *l, dy, dx);
}

cudaError_t kernel_norm_weight(const struct kernel_norm *l, const float *dy, float *d_parameter,
                               float *work)
{
    cudaError_t e = LAUNCH(norm_parts, grid_for(l->channels, COLUMN_PARTS), work, *l, dy);
    return e ? e : LAUNCH(add_parts, grid_for(l->channels, 2), d_parameter, work, l->channels);
}

cudaError_t kernel_embedding(const struct kernel_embedding *e, const float *parameter, float *y)
{
    return LAUNCH(embedding, (unsigned)(e->samples * e->tokens), *e, parameter, y);
}

/* Rows of a table below `end` that are here. */
static size_t rows_below(const struct kernel_table *t, size_t end)
{
    size_t rows = t->first < end ? end - t->first : 0;
    return rows < t->rows ? rows : t->rows;
}

cudaError_t kernel_embedding_backward(const struct kernel_embedding *e, const float *dy,
                                      float *d_parameter, float *work)
{
    cudaError_t error = cudaSuccess;
    size_t values = rows_below(&e->value, e->values);
    size_t positions = rows_below(&e->position, e->tokens);
    if (values > 0)
        error = LAUNCH(embedding_values, grid_for(e->channels, values), *e, dy,
                       d_parameter + e->value.start);
    if (!error && positions > 0)
        error = LAUNCH(embedding_positions, grid_for(e->channels, positions), *e, dy,
                       d_parameter + e->position.start);
    if (!error && rows_below(&e->type, 1) > 0)
        error = kernel_columns(d_parameter + e->type.start, dy, e->samples * e->tokens, e->channels,
                               work);
    return error;
}

static dim3 score_grid(const struct kernel_scores *s)
{
    return dim3((unsigned)s->rows, (unsigned)s->heads);
}

cudaError_t kernel_softmax(const struct kernel_scores *s)
{
    return LAUNCH(softmax, score_grid(s), *s);
}

cudaError_t kernel_softmax_again(const struct kernel_scores *s)
{
    return LAUNCH(softmax_again, score_grid(s), *s);
}

cudaError_t kernel_softmax_backward(const struct kernel_scores *s, float *d)
{
    return LAUNCH(softmax_backward, score_grid(s), *s, d);
}

cudaError_t kernel_loss_look(const struct kernel_loss *l)
{
    return LAUNCH(loss_look, (unsigned)l->rows, *l);
}

cudaError_t kernel_loss_join(const struct kernel_loss *l)
{
    return LAUNCH(loss_join, blocks_for(l->rows), *l);
}

cudaError_t kernel_loss_sum(const struct kernel_loss *l, double *loss)
{
    return LAUNCH(loss_sum, 1, *l, loss);
}

cudaError_t kernel_loss_backward(const struct kernel_loss *l, float *dx)
{
    return LAUNCH(loss_backward, (unsigned)l->rows, *l, dx);
}

cudaError_t kernel_sgd(float *parameter, const float *gradient, size_t n, float rate)
{
    return n > 0 ? LAUNCH(sgd, blocks_for(n), parameter, gradient, n, rate) : cudaSuccess;
}

cudaError_t kernel_adam(float *parameter, const float *gradient, float *const state[2], size_t n,
                        float rate, float unbias)
{
    return n > 0 ? LAUNCH(adam, blocks_for(n), parameter, gradient, state[0], state[1], n, rate,
                          unbias)
                 : cudaSuccess;
}
