/* Convolutions over tokens, and the steps of an LSTM:
 * exec/device/cpu/{depthwise,dynamic,lstm}.c. */
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/words.h"

/* The row `by` tokens behind row `row`, less K / 2; false: the sample has none. */
static __device__ bool row_beside(const struct kernel_taps &t, size_t row, size_t by, size_t *out)
{
    size_t at = row % t.tokens + by - t.kernel / 2; /* wraps below 0 */
    *out = row - row % t.tokens + at;
    return at < t.tokens;
}

/* ---- depthwise */

/* back: of gradients, which come from where values go. */
template <typename T>
static __global__ void depthwise(struct kernel_taps t, const float *weight, const void *x, void *y,
                                 bool back)
{
    FOR_EACH(e, t.samples * t.tokens * t.channels)
    {
        size_t c = e % t.channels, row;
        float sum = 0;
        for (size_t k = 0; k < t.kernel; k++)
            if (row_beside(t, e / t.channels, k, &row))
                sum += weight[c * t.kernel + (back ? t.kernel - 1 - k : k)] *
                       (float)((const T *)x)[row * t.channels + c];
        ((T *)y)[e] = T(sum);
    }
}

/* d_weight (channels, kernel), numbers first .. first + n - 1 of it */
template <typename T>
static __global__ void depthwise_weight(struct kernel_taps t, const void *x, const void *dy,
                                        float *d_weight, size_t first, size_t n, float *work,
                                        unsigned *ticket)
{
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x, rows = t.samples * t.tokens;
    size_t c = (first + at) / t.kernel, k = (first + at) % t.kernel, row;
    size_t end = at < n ? part_row(rows, blockIdx.y + 1) : 0;
    float value = 0;
    for (size_t r = part_row(rows, blockIdx.y); r < end; r++)
        if (row_beside(t, r, k, &row))
            value += (float)((const T *)dy)[r * t.channels + c] *
                     (float)((const T *)x)[row * t.channels + c];
    join_column(d_weight + first, work, n, at, value, ticket);
}

/* ---- dynamic */

/* A thread per token and head. */
template <typename T>
static __global__ void dynamic_softmax(struct kernel_taps t, const void *x_, float *p_)
{
    FOR_EACH(at, t.samples * t.tokens * t.heads)
    {
        const T *x = (const T *)x_ + at * t.kernel;
        float *p = p_ + at * t.kernel, largest = (float)x[0], sum = 0;
        for (size_t k = 1; k < t.kernel; k++)
            largest = fmaxf(largest, (float)x[k]);
        for (size_t k = 0; k < t.kernel; k++)
            sum += p[k] = expf((float)x[k] - largest);
        for (size_t k = 0; k < t.kernel; k++)
            p[k] /= sum;
    }
}

/* y, or, back, the gradient of the values from dy: whose kernels are then those of the rows that it
 * comes from. */
template <typename T>
static __global__ void dynamic(struct kernel_taps t, const float *p, const void *value, void *y,
                               bool back)
{
    size_t depth = t.channels / t.heads;
    FOR_EACH(e, t.samples * t.tokens * t.channels)
    {
        size_t c = e % t.channels, row, own = e / t.channels;
        float sum = 0;
        for (size_t k = 0; k < t.kernel; k++)
            if (row_beside(t, own, k, &row)) {
                size_t of = (back ? row : own) * t.heads + c / depth;
                sum += p[of * t.kernel + (back ? t.kernel - 1 - k : k)] *
                       (float)((const T *)value)[row * t.channels + c];
            }
        ((T *)y)[e] = T(sum);
    }
}

/* g_k = dy . value of its row */
template <typename T>
static __global__ void dynamic_products(struct kernel_taps t, const void *value, const void *dy,
                                        float *g)
{
    size_t depth = t.channels / t.heads;
    FOR_EACH(e, t.samples * t.tokens * t.heads * t.kernel)
    {
        size_t at = e / t.kernel, own = at / t.heads, first = at % t.heads * depth, row;
        float sum = 0;
        if (row_beside(t, own, e % t.kernel, &row))
            for (size_t i = first; i < first + depth; i++)
                sum += (float)((const T *)dy)[own * t.channels + i] *
                       (float)((const T *)value)[row * t.channels + i];
        g[e] = sum;
    }
}

/* dx_k = p_k (g_k - sum of p g) */
template <typename T>
static __global__ void dynamic_slopes(struct kernel_taps t, const float *p_, const float *g_,
                                      void *dx)
{
    FOR_EACH(at, t.samples * t.tokens * t.heads)
    {
        const float *p = p_ + at * t.kernel, *g = g_ + at * t.kernel;
        float mean = 0;
        for (size_t k = 0; k < t.kernel; k++)
            mean += p[k] * g[k];
        for (size_t k = 0; k < t.kernel; k++)
            ((T *)dx)[at * t.kernel + k] = T(p[k] * (g[k] - mean));
    }
}

/* ---- LSTM: a thread per sample and number of the state */

static __device__ float sigmoid_of(float x)
{
    return 1 / (1 + expf(-x));
}

/* Behind the 4 gates. */
enum { LSTM_CELL = 4, LSTM_HIDDEN = 5, LSTM_SUMS = 6 };

static __device__ float *lstm_row(const struct kernel_lstm &l, size_t sample, size_t t)
{
    return l.saved + (sample * l.tokens + t) * l.width;
}

template <typename T>
static __global__ void lstm_step(struct kernel_lstm l, const float *bias, void *y)
{
    FOR_EACH(e, l.samples * l.hidden)
    {
        size_t b = e / l.hidden, k = e % l.hidden, n = l.hidden;
        float *gate = lstm_row(l, b, l.t) + k;
        float before = l.first ? 0 : lstm_row(l, b, l.before)[LSTM_CELL * n + k];
        float i = sigmoid_of(gate[0] + bias[k]), f = sigmoid_of(gate[n] + bias[n + k]);
        float g = tanhf(gate[2 * n] + bias[2 * n + k]);
        float o = sigmoid_of(gate[3 * n] + bias[3 * n + k]), c = i * g + f * before;
        gate[0] = i;
        gate[n] = f;
        gate[2 * n] = g;
        gate[3 * n] = o;
        gate[LSTM_CELL * n] = c;
        ((T *)y)[(b * l.tokens + l.t) * n + k] = T(o * tanhf(c));
    }
}

/* Gates become the gradients of their sums, or these go behind them; c_t becomes the gradient of
 * c_{t-1}. */
template <typename T> static __global__ void lstm_step_back(struct kernel_lstm l, const void *dy)
{
    FOR_EACH(e, l.samples * l.hidden)
    {
        size_t b = e / l.hidden, k = e % l.hidden, n = l.hidden;
        float *gate = lstm_row(l, b, l.t);
        const float *after = lstm_row(l, b, l.after);
        T *sums =
            std::is_same<T, float>::value ? (T *)(void *)gate : (T *)(void *)(gate + LSTM_SUMS * n);
        float before = l.first ? 0 : lstm_row(l, b, l.before)[LSTM_CELL * n + k];
        float i = gate[k], f = gate[n + k], g = gate[2 * n + k], o = gate[3 * n + k];
        float h = (float)((const T *)dy)[(b * l.tokens + l.t) * n + k];
        h += l.last ? 0 : after[LSTM_HIDDEN * n + k];
        float t = tanhf(gate[LSTM_CELL * n + k]);
        float d = h * o * (1 - t * t) + (l.last ? 0 : after[LSTM_CELL * n + k]);
        gate[LSTM_CELL * n + k] = d * f;
        sums[k] = T(d * g * i * (1 - i));
        sums[n + k] = T(d * before * f * (1 - f));
        sums[2 * n + k] = T(d * i * (1 - g * g));
        sums[3 * n + k] = T(h * t * o * (1 - o));
    }
}

/* ---- launches */

cudaError_t kernel_depthwise(const struct kernel_taps *t, const float *weight, const void *x,
                             void *y)
{
    size_t n = t->samples * t->tokens * t->channels;
    return LAUNCH_AS(t->type, depthwise, blocks_for(n), *t, weight, x, y, false);
}

cudaError_t kernel_depthwise_backward(const struct kernel_taps *t, const float *weight,
                                      const void *x, const void *dy, void *dx, float *d_weight,
                                      float *work, unsigned *ticket)
{
    size_t rows = t->samples * t->tokens, n = rows * t->channels;
    size_t weights = t->channels * t->kernel, most = (size_t)TICKETS * BLOCK;
    cudaError_t e = LAUNCH_AS(t->type, depthwise, blocks_for(n), *t, weight, dy, dx, true);
    for (size_t first = 0; first < weights && !e; first += most) {
        size_t some = weights - first < most ? weights - first : most;
        e = LAUNCH_AS(t->type, depthwise_weight, grid_for(some, parts_of(rows, COLUMN_PARTS)), *t,
                      x, dy, d_weight, first, some, work, ticket);
    }
    return e;
}

cudaError_t kernel_dynamic(const struct kernel_taps *t, const void *x, const void *value, float *p,
                           void *y)
{
    size_t rows = t->samples * t->tokens;
    cudaError_t e = LAUNCH_AS(t->type, dynamic_softmax, blocks_for(rows * t->heads), *t, x, p);
    return e ? e
             : LAUNCH_AS(t->type, dynamic, blocks_for(rows * t->channels), *t, p, value, y, false);
}

cudaError_t kernel_dynamic_backward(const struct kernel_taps *t, const float *p, float *g,
                                    const void *value, const void *dy, void *dx, void *d_value)
{
    size_t rows = t->samples * t->tokens, kernels = rows * t->heads;
    cudaError_t e =
        LAUNCH_AS(t->type, dynamic_products, blocks_for(kernels * t->kernel), *t, value, dy, g);
    if (!e)
        e = LAUNCH_AS(t->type, dynamic_slopes, blocks_for(kernels), *t, p, g, dx);
    return e ? e
             : LAUNCH_AS(t->type, dynamic, blocks_for(rows * t->channels), *t, p, dy, d_value,
                         true);
}

cudaError_t kernel_lstm(const struct kernel_lstm *l, const float *bias, void *y)
{
    return LAUNCH_AS(l->type, lstm_step, blocks_for(l->samples * l->hidden), *l, bias, y);
}

cudaError_t kernel_lstm_backward(const struct kernel_lstm *l, const void *dy)
{
    return LAUNCH_AS(l->type, lstm_step_back, blocks_for(l->samples * l->hidden), *l, dy);
}
