/* Kernels: simple ones, a thread per element or a block per row; they are bound by memory. */
#include "exec/device/cuda/columns.cuh"

/* ---- element by element */

/* y += x, [n] fp32: gradients of parameters */
static __global__ void add(float *y, const float *x, size_t n)
{
    FOR_EACH(i, n)
    y[i] += x[i];
}

/* Kernels of activations are given them untyped and take them for T. */

template <typename T> static __global__ void accumulate(void *y_, const void *x_, size_t n)
{
    T *y = (T *)y_;
    const T *x = (const T *)x_;
    FOR_EACH(i, n)
    y[i] = T((float)y[i] + (float)x[i]);
}

/* y = a + b, [n]: the residual connection */
template <typename T> static __global__ void sum(void *y, const void *a_, const void *b_, size_t n)
{
    const T *a = (const T *)a_, *b = (const T *)b_;
    FOR_EACH(i, n)
    ((T *)y)[i] = T((float)a[i] + (float)b[i]);
}

/* fp32 to bf16, to the nearest; [n] */
template <typename T> static __global__ void narrow(void *y, const float *x, size_t n)
{
    FOR_EACH(i, n)
    ((T *)y)[i] = T(x[i]);
}

/* bf16 to fp32, exact; [n] */
template <typename T> static __global__ void widen(float *y, const void *x, size_t n)
{
    FOR_EACH(i, n)
    y[i] = (float)((const T *)x)[i];
}

/* y (rows, columns) += bias [columns], n = rows * columns */
template <typename T>
static __global__ void bias_add(void *y_, const float *bias, size_t n, size_t columns)
{
    T *y = (T *)y_;
    FOR_EACH(i, n)
    y[i] = T((float)y[i] + bias[i % columns]);
}

/* exec/device/cpu/gelu.c has the formulas. */
#define ROOT  0.7978845608028654f
#define CUBIC 0.044715f

/* y = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3), [n]: exec/device/cpu/gelu.c */
template <typename T> static __global__ void gelu(void *y, const void *x_, size_t n)
{
    FOR_EACH(i, n)
    {
        float x = (float)((const T *)x_)[i];
        float u = ROOT * (x + CUBIC * x * x * x);
        ((T *)y)[i] = T(x / (1 + expf(-2 * u)));
    }
}

/* dx = dy (s + x s (1 - s) 2 du/dx), s = 1 / (1 + exp(-2u)), [n] */
template <typename T>
static __global__ void gelu_backward(void *dx, const void *x_, const void *dy, size_t n)
{
    FOR_EACH(i, n)
    {
        float x = (float)((const T *)x_)[i], square = x * x;
        float u = ROOT * (x + CUBIC * x * square);
        float s = 1 / (1 + expf(-2 * u));
        float slope = s + x * s * (1 - s) * 2 * ROOT * (1 + 3 * CUBIC * square);
        ((T *)dx)[i] = T((float)((const T *)dy)[i] * slope);
    }
}

/* p -= rate g, [n] */
static __global__ void sgd(float *parameter, const float *gradient, size_t n, float rate)
{
    FOR_EACH(i, n)
    parameter[i] -= rate * gradient[i];
}

/* Equations in exec/device/backend.h; all arrays [n] fp32 */
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

/* ---- embedding */

/* Row `at` of a table in the parameters; NULL: another shard has it, or nobody. */
static __device__ const float *table_row(const struct kernel_table &t, size_t at, size_t channels,
                                         const float *parameter)
{
    if (at < t.first || at - t.first >= t.rows)
        return NULL;
    return parameter + t.start + (at - t.first) * channels;
}

/* y(b, t, :) = values[token(b, t), :] + positions[t, :] + segments[0, :], as far as rows are
 * here */
template <typename T>
static __global__ void embedding(struct kernel_embedding e, const float *parameter, void *y)
{
    size_t row = blockIdx.x;
    const float *value = table_row(e.value, (size_t)e.token[row], e.channels, parameter);
    const float *position = table_row(e.position, row % e.tokens, e.channels, parameter);
    const float *type = table_row(e.segment, 0, e.channels, parameter);
    ALONG(i, e.channels)
    {
        float total = value ? value[i] * e.factor : 0;
        if (position)
            total += position[i];
        if (type)
            total += type[i];
        ((T *)y)[row * e.channels + i] = T(total);
    }
}

/* Gradient of the first n values here: each looks for its rows in ascending order. */
template <typename T>
static __global__ void embedding_values(struct kernel_embedding e, const void *dy, float *d_table,
                                        size_t n)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= e.channels)
        return;
    BLOCK_ROWS(k, n)
    {
        int32_t value = (int32_t)(e.value.first + k);
        float *d = d_table + k * e.channels + c, total = *d;
        for (size_t row = 0; row < e.samples * e.tokens; row++)
            if (e.token[row] == value)
                total += e.factor * (float)((const T *)dy)[row * e.channels + c];
        *d = total;
    }
}

/* d (n, channels), the first n positions here, += the sum over samples b of dy(b, t, :) */
template <typename T>
static __global__ void embedding_positions(struct kernel_embedding e, const void *dy, float *d,
                                           size_t n)
{
    size_t c = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= e.channels)
        return;
    BLOCK_ROWS(k, n)
    {
        size_t token = e.position.first + k;
        float total = d[k * e.channels + c];
        for (size_t b = 0; b < e.samples; b++)
            total += (float)((const T *)dy)[(b * e.tokens + token) * e.channels + c];
        d[k * e.channels + c] = total;
    }
}

/* ---- a paced op */

#ifndef HOST_CLOCK /* else a test's */
static __device__ unsigned long long clock_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
#endif

/* One thread looks; the others of the block wait for it at the end. */
static __global__ void spin(unsigned long long ns)
{
    unsigned long long begin = clock_ns();
    while (threadIdx.x == 0 && clock_ns() - begin < ns)
        ;
}

/* ---- launches */

cudaError_t kernel_add(float *y, const float *x, size_t n)
{
    return n > 0 ? LAUNCH(add, blocks_for(n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_accumulate(enum kernel_type t, void *y, const void *x, size_t n)
{
    return kernel_accumulate_on(CUDA_STREAM, t, y, x, n);
}

cudaError_t kernel_accumulate_on(cudaStream_t stream, enum kernel_type t, void *y, const void *x,
                                 size_t n)
{
    return t == KERNEL_BF16 ? LAUNCH_ON(stream, accumulate<__nv_bfloat16>, blocks_for(n), y, x, n)
                            : LAUNCH_ON(stream, accumulate<float>, blocks_for(n), y, x, n);
}

cudaError_t kernel_sum(enum kernel_type t, void *y, const void *a, const void *b, size_t n)
{
    return LAUNCH_AS(t, sum, blocks_for(n), y, a, b, n);
}

cudaError_t kernel_narrow(void *y, const float *x, size_t n)
{
    return n > 0 ? LAUNCH(narrow<__nv_bfloat16>, blocks_for(n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_widen(float *y, const void *x, size_t n)
{
    return n > 0 ? LAUNCH(widen<__nv_bfloat16>, blocks_for(n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_bias(enum kernel_type t, void *y, const float *bias, size_t rows, size_t columns)
{
    return LAUNCH_AS(t, bias_add, blocks_for(rows * columns), y, bias, rows * columns, columns);
}

cudaError_t kernel_gelu(enum kernel_type t, void *y, const void *x, size_t n)
{
    return LAUNCH_AS(t, gelu, blocks_for(n), y, x, n);
}

cudaError_t kernel_gelu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n)
{
    return LAUNCH_AS(t, gelu_backward, blocks_for(n), dx, x, dy, n);
}

cudaError_t kernel_embedding(const struct kernel_embedding *e, const float *parameter, void *y)
{
    return LAUNCH_AS(e->type, embedding, (unsigned)(e->samples * e->tokens), *e, parameter, y);
}

/* Rows of a table below `end` that are here. */
static size_t rows_below(const struct kernel_table *t, size_t end)
{
    size_t rows = t->first < end ? end - t->first : 0;
    return rows < t->rows ? rows : t->rows;
}

cudaError_t kernel_embedding_backward(const struct kernel_embedding *e, const void *dy,
                                      float *d_parameter, float *work, unsigned *ticket)
{
    cudaError_t error = cudaSuccess;
    size_t values = rows_below(&e->value, e->values);
    size_t positions = rows_below(&e->position, e->tokens);
    if (values > 0)
        error = LAUNCH_AS(e->type, embedding_values, grid_for(e->channels, values), *e, dy,
                          d_parameter + e->value.start, values);
    if (!error && positions > 0)
        error = LAUNCH_AS(e->type, embedding_positions, grid_for(e->channels, positions), *e, dy,
                          d_parameter + e->position.start, positions);
    if (!error && rows_below(&e->segment, 1) > 0)
        error = kernel_columns(e->type, d_parameter + e->segment.start, dy, e->samples * e->tokens,
                               e->channels, work, ticket);
    return error;
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

cudaError_t kernel_spin(uint64_t ns)
{
    return LAUNCH(spin, 1, (unsigned long long)ns);
}
