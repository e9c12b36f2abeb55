/* Kernels: simple ones, a thread per element or a block per row; they are bound by memory. */
#include "exec/device/cuda/wide.cuh"

/* ---- element by element; kernels of activations are given them untyped and take them for T */

/* y = a + b, [n]: sums of gradients, and the residual connection */
template <typename T> static __global__ void sum(void *y_, const void *a, const void *b, size_t n)
{
    T *y = (T *)y_;
    combine(y, y, (const T *)a, (const T *)b, n, [](float p, float q) { return p + q; });
}

/* fp32 to 16 bits, to the nearest, and back, exact; [n] */
template <typename T> static __global__ void narrow(void *y_, const float *x, size_t n)
{
    T *y = (T *)y_;
    change(y, y, x, n, [](float value) { return value; });
}
template <typename T> static __global__ void widen(float *y, const void *x_, size_t n)
{
    const T *x = (const T *)x_;
    change(x, y, x, n, [](float value) { return value; });
}

/* The first columns of y (rows, width) += bias [columns], n = rows * width */
template <typename T>
static __global__ void bias_add(void *y_, const float *bias, size_t n, size_t columns, size_t width)
{
    T *y = (T *)y_;
    along_all(y, n, [&](auto count, size_t i) {
        float value[count.n];
        size_t c = i % width;
        load(value, y + i);
        for (int j = 0; j < count.n; j++) {
            value[j] += c < columns ? bias[c] : 0;
            c = c + 1 < width ? c + 1 : 0;
        }
        store(y + i, value);
    });
}

/* exec/device/cpu/gelu.c has the formulas. */
#define ROOT  0.7978845608028654f
#define CUBIC 0.044715f

/* y = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3), [n]: exec/device/cpu/gelu.c */
template <typename T> static __global__ void gelu(void *y_, const void *x, size_t n)
{
    T *y = (T *)y_;
    change(y, y, (const T *)x, n, [](float value) {
        float u = ROOT * (value + CUBIC * value * value * value);
        return value / (1 + expf(-2 * u));
    });
}

/* dx = dy (s + x s (1 - s) 2 du/dx), s = 1 / (1 + exp(-2u)), [n] */
template <typename T>
static __global__ void gelu_backward(void *dx_, const void *x, const void *dy, size_t n)
{
    T *dx = (T *)dx_;
    combine(dx, dx, (const T *)x, (const T *)dy, n, [](float value, float d) {
        float square = value * value;
        float u = ROOT * (value + CUBIC * value * square);
        float s = 1 / (1 + expf(-2 * u));
        return d * (s + value * s * (1 - s) * 2 * ROOT * (1 + 3 * CUBIC * square));
    });
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
static __global__ void embedding(struct kernel_embedding e, const float *parameter, void *y_)
{
    size_t row = blockIdx.x;
    const float *value = table_row(e.value, (size_t)e.token[row], e.channels, parameter);
    const float *position =
        table_row(e.position, place_of(e.place, row % e.tokens), e.channels, parameter);
    const float *type = table_row(e.segment, 0, e.channels, parameter);
    T *y = (T *)y_ + row * e.channels;
    along(y, e.channels, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float total[count.n] = {}, more[count.n];
        if (value)
            load(total, value + i);
        for (int j = 0; j < count.n; j++)
            total[j] *= e.factor;
        for (int k = 0; k < 2; k++) {
            const float *from = k == 0 ? position : type;
            if (!from)
                continue;
            load(more, from + i);
            for (int j = 0; j < count.n; j++)
                total[j] += more[j];
        }
        store(y + i, total);
    });
}

/* Gradient of the first n values here: each looks for its rows in ascending order. */
template <typename T>
static __global__ void embedding_values(struct kernel_embedding e, const void *dy_, float *d_table,
                                        size_t n)
{
    const T *dy = (const T *)dy_;
    for (size_t k = blockIdx.x; k < n; k += gridDim.x) {
        int32_t value = (int32_t)(e.value.first + k);
        float *d = d_table + k * e.channels;
        along(dy, e.channels, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
            float total[count.n], more[count.n];
            load(total, d + i);
            for (size_t row = 0; row < e.samples * e.tokens; row++) {
                if (e.token[row] != value)
                    continue;
                load(more, dy + row * e.channels + i);
                for (int j = 0; j < count.n; j++)
                    total[j] += e.factor * more[j];
            }
            store(d + i, total);
        });
    }
}

/* d (n, channels), the first n positions here, += the sum over samples b of dy(b, t, :) */
template <typename T>
static __global__ void embedding_positions(struct kernel_embedding e, const void *dy_, float *d,
                                           size_t n)
{
    size_t sample = e.tokens * e.channels;
    const T *dy = (const T *)dy_ + e.position.first * e.channels;
    if (e.place.context > 1) { /* number by number: rows are elsewhere */
        FOR_EACH(i, n * e.channels)
        {
            size_t t = token_at(e.place, e.position.first + i / e.channels);
            for (size_t b = 0; b < e.samples && t < e.tokens; b++)
                d[i] += (float)((const T *)dy_)[b * sample + t * e.channels + i % e.channels];
        }
        return;
    }
    along_all(dy, n * e.channels, [&](auto count, size_t i) {
        float total[count.n], more[count.n];
        load(total, d + i);
        for (size_t b = 0; b < e.samples; b++) {
            load(more, dy + b * sample + i);
            for (int j = 0; j < count.n; j++)
                total[j] += more[j];
        }
        store(d + i, total);
    });
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
    return kernel_accumulate(KERNEL_FP32, y, x, n);
}

cudaError_t kernel_accumulate(enum kernel_type t, void *y, const void *x, size_t n)
{
    return kernel_accumulate_on(CUDA_STREAM, t, y, x, n);
}

cudaError_t kernel_accumulate_on(cudaStream_t stream, enum kernel_type t, void *y, const void *x,
                                 size_t n)
{
    unsigned blocks = blocks_along(t, n);
    if (n == 0)
        return cudaSuccess;
    return t == KERNEL_FP32   ? LAUNCH_ON(stream, sum<float>, blocks, y, y, x, n)
           : t == KERNEL_BF16 ? LAUNCH_ON(stream, sum<__nv_bfloat16>, blocks, y, y, x, n)
                              : LAUNCH_ON(stream, sum<__half>, blocks, y, y, x, n);
}

cudaError_t kernel_sum(enum kernel_type t, void *y, const void *a, const void *b, size_t n)
{
    return LAUNCH_AS(t, sum, blocks_along(t, n), y, a, b, n);
}

cudaError_t kernel_narrow(enum kernel_type t, void *y, const float *x, size_t n)
{
    return n > 0 ? LAUNCH_HALF(t, narrow, blocks_along(t, n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_widen(enum kernel_type t, float *y, const void *x, size_t n)
{
    return n > 0 ? LAUNCH_HALF(t, widen, blocks_along(t, n), y, x, n) : cudaSuccess;
}

cudaError_t kernel_bias(enum kernel_type t, void *y, const float *bias, size_t rows, size_t columns,
                        size_t width)
{
    size_t n = rows * width;
    return LAUNCH_AS(t, bias_add, blocks_along(t, n), y, bias, n, columns, width);
}

cudaError_t kernel_gelu(enum kernel_type t, void *y, const void *x, size_t n)
{
    return LAUNCH_AS(t, gelu, blocks_along(t, n), y, x, n);
}

cudaError_t kernel_gelu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n)
{
    return LAUNCH_AS(t, gelu_backward, blocks_along(t, n), dx, x, dy, n);
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
    size_t shared = e->place.context > 1 ? e->place.context : 1;
    size_t positions = rows_below(&e->position, shared * e->tokens);
    if (values > 0)
        error = LAUNCH_AS(e->type, embedding_values,
                          (unsigned)(values < MOST_BLOCKS ? values : MOST_BLOCKS), *e, dy,
                          d_parameter + e->value.start, values);
    if (!error && positions > 0)
        error =
            LAUNCH_AS(e->type, embedding_positions, blocks_along(e->type, positions * e->channels),
                      *e, dy, d_parameter + e->position.start, positions);
    if (!error && rows_below(&e->segment, 1) > 0)
        error = kernel_columns(e->type, d_parameter + e->segment.start, dy, e->samples * e->tokens,
                               e->channels, e->channels, work, ticket);
    return error;
}

cudaError_t kernel_spin(uint64_t ns)
{
    return LAUNCH(spin, 1, (unsigned long long)ns);
}
