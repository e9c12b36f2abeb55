/* Rows and numbers that are put side by side, added, multiplied or bent: what models beside GPT-2
 * and Llama have (xlnet, convbert, mobilebert, unet, VGG, ResNet). exec/device/cpu/NAME.c has the
 * formulas. */
#include "exec/device/cuda/act.cuh"
#include "exec/device/cuda/rows.h"
#include "exec/device/cuda/wide.cuh"

/* ---- number by number */

template <typename T> static __global__ void relu(void *y_, const void *x, size_t n)
{
    T *y = (T *)y_;
    change(y, y, (const T *)x, n, [](float value) { return value > 0 ? value : 0; });
}

template <typename T>
static __global__ void relu_backward(void *dx_, const void *x, const void *dy, size_t n)
{
    T *dx = (T *)dx_;
    combine(dx, dx, (const T *)x, (const T *)dy, n,
            [](float value, float d) { return value > 0 ? d : 0; });
}

template <typename T> static __global__ void silu(void *y_, const void *x, size_t n)
{
    T *y = (T *)y_;
    change(y, y, (const T *)x, n, [](float value) { return act_of(false, value).y; });
}

template <typename T>
static __global__ void silu_backward(void *dx_, const void *x, const void *dy, size_t n)
{
    T *dx = (T *)dx_;
    combine(dx, dx, (const T *)x, (const T *)dy, n,
            [](float value, float d) { return d * act_of(false, value).da; });
}

/* y = tanh(sums + bias) of (rows, channels), which takes the place of the sums in fp32 too */
template <typename T>
static __global__ void tangents(void *y, float *sums, const float *bias, size_t n, size_t channels)
{
    FOR_EACH(e, n)
    {
        sums[e] = tanhf(sums[e] + bias[e % channels]);
        ((T *)y)[e] = T(sums[e]);
    }
}

/* g = dy (1 - y^2) */
template <typename T>
static __global__ void tangents_backward(void *g, const float *y, const void *dy, size_t n)
{
    FOR_EACH(e, n)
    ((T *)g)[e] = T((float)((const T *)dy)[e] * (1 - y[e] * y[e]));
}

/* y (rows, n) = the first n of a (rows, width) times b (rows, n) */
template <typename T>
static __global__ void multiply(void *y, const void *a, const void *b, size_t rows, size_t width,
                                size_t n)
{
    FOR_EACH(e, rows * n)
    ((T *)y)[e] = T((float)((const T *)a)[e / n * width + e % n] * (float)((const T *)b)[e]);
}

/* Of a's other channels it is 0. */
template <typename T>
static __global__ void multiply_backward(void *da, void *db, const void *a, const void *b,
                                         const void *dy, size_t rows, size_t width, size_t n)
{
    FOR_EACH(e, rows * width)
    {
        size_t i = e % width, at = e / width * n + i;
        float d = i < n ? (float)((const T *)dy)[at] : 0;
        ((T *)da)[e] = T(i < n ? d * (float)((const T *)b)[at] : 0);
        if (i < n)
            ((T *)db)[at] = T(d * (float)((const T *)a)[e]);
    }
}

/* ---- rows */

/* y (rows, first + second) = a (rows, first) | b (rows, second), or, apart, a and b from y */
template <typename T>
static __global__ void beside(void *y_, void *a_, void *b_, size_t rows, size_t first,
                              size_t second, bool apart)
{
    size_t width = first + second;
    FOR_EACH(e, rows * width)
    {
        size_t row = e / width, i = e % width;
        T *half = i < first ? (T *)a_ + row * first + i : (T *)b_ + row * second + i - first;
        T *y = (T *)y_ + e;
        if (apart)
            *half = *y;
        else
            *y = *half;
    }
}

/* y (samples, tokens, channels) = x + row (samples, channels) */
template <typename T>
static __global__ void add_row(void *y, const void *x, const void *row, size_t n, size_t sample,
                               size_t channels)
{
    FOR_EACH(e, n)
    ((T *)y)[e] =
        T((float)((const T *)x)[e] + (float)((const T *)row)[e / sample * channels + e % channels]);
}

/* out (samples, channels) = sums of x (samples, tokens, channels) over tokens */
template <typename T>
static __global__ void token_sums(void *out, const void *x_, size_t n, size_t sample,
                                  size_t channels)
{
    FOR_EACH(e, n)
    {
        const T *x = (const T *)x_ + e / channels * sample + e % channels;
        float sum = 0;
        for (size_t at = 0; at < sample; at += channels)
            sum += (float)x[at];
        ((T *)out)[e] = T(sum);
    }
}

/* y_t = x_{t+1} | x_t | x_{t-1}, zeros at the ends; rows of `tokens` to a sample */
enum { NEIGHBOURS = 3 };
template <typename T>
static __global__ void neighbours(void *y, const void *x, size_t rows, size_t tokens,
                                  size_t channels)
{
    FOR_EACH(e, rows * NEIGHBOURS * channels)
    {
        size_t row = e / (NEIGHBOURS * channels), k = e / channels % NEIGHBOURS, t = row % tokens;
        bool there = t + 1 - k < tokens; /* of t = 0 and k = 2 it wraps */
        ((T *)y)[e] = there ? ((const T *)x)[(row + 1 - k) * channels + e % channels] : T(0.0F);
    }
}

template <typename T>
static __global__ void neighbours_backward(void *dx, const void *dy, size_t rows, size_t tokens,
                                           size_t channels)
{
    FOR_EACH(e, rows * channels)
    {
        size_t row = e / channels, t = row % tokens;
        float sum = 0;
        for (size_t k = 0; k < NEIGHBOURS; k++)
            if (t + k - 1 < tokens) /* row t + k - 1 has it in part k */
                sum += (float)((
                    const T *)dy)[((row + k - 1) * NEIGHBOURS + k) * channels + e % channels];
        ((T *)dx)[e] = T(sum);
    }
}

/* y_t = x_t + position_t + type, the last if there is one */
template <typename T>
static __global__ void add_positions(void *y, const void *x, const float *position,
                                     const float *type, size_t n, size_t sample, size_t channels)
{
    FOR_EACH(e, n)
    {
        float value = (float)((const T *)x)[e] + position[e % sample];
        ((T *)y)[e] = T(value + (type ? type[e % channels] : 0));
    }
}

/* Rows of the place's tokens, into the whole or out of it */
static __global__ void rows_of_place(struct kernel_rows_of r, float *whole, float *part, bool out)
{
    size_t all = r.place.context * r.place.tokens;
    FOR_EACH(e, r.samples * r.place.tokens * r.n)
    {
        size_t row = e / r.n, i = e % r.n;
        size_t b = row / r.place.tokens, at = place_of(r.place, row % r.place.tokens);
        float *here = whole + (b * all + at) * r.whole_width + r.at + i;
        float *there = part + row * r.part_width + r.part_at + i;
        if (out)
            *there = *here;
        else
            *here = *there;
    }
}

/* Row m of a sample: p = first - m; sines of p 10000^(-2 i / channels), then cosines. */
template <typename T>
static __global__ void sinusoids(void *y_, size_t rows, size_t tokens, size_t channels,
                                 size_t first)
{
    size_t half = channels / 2;
    FOR_EACH(e, rows * half)
    {
        size_t row = e / half, i = e % half;
        double p = (double)first - (double)(row % tokens);
        double sine, cosine, angle = p * pow(10000.0, -(double)i / (double)half);
        sincospi(angle * 0.3183098861837907, &sine, &cosine); /* 1 / pi */
        T *y = (T *)y_ + row * channels + i;
        y[0] = T((float)sine);
        y[half] = T((float)cosine);
    }
}

/* ---- tokens for heads */

/* Heads of a part, of queries and of keys and values; the first of the latter in part k. */
static __host__ __device__ size_t rows_queries(const struct kernel_swap &s)
{
    return s.heads / s.place.context;
}
static __host__ __device__ size_t rows_keys(const struct kernel_swap &s)
{
    return s.kv_heads > 0 && s.kv_heads < s.place.context ? 1 : s.kv_heads / s.place.context;
}
static __device__ size_t rows_first_key(const struct kernel_swap &s, size_t k)
{
    return s.kv_heads > 0 ? k * rows_queries(s) / (s.heads / s.kv_heads) : 0;
}
static __host__ __device__ size_t rows_key_width(const struct kernel_swap &s)
{
    return rows_queries(s) * s.depth + rows_keys(s) * (s.depth + s.value);
}
static __device__ size_t rows_row_at(const struct kernel_swap &s)
{
    return s.heads * s.depth + s.kv_heads * (s.depth + s.value);
}

/* Channel `i` of a row of part k is which of the row's? */
static __device__ size_t channel_of(const struct kernel_swap &s, size_t k, size_t i)
{
    size_t queries = rows_queries(s) * s.depth, keys = rows_keys(s) * s.depth,
           first = rows_first_key(s, k);
    if (i < queries)
        return k * queries + i;
    i -= queries;
    return s.heads * s.depth +
           (i < keys ? first * s.depth + i : s.kv_heads * s.depth + first * s.value + i - keys);
}

/* The sum of channel c over the parts that have it. */
static __device__ float sum_over_parts(const struct kernel_swap &s, const float *parts, size_t row,
                                       size_t c)
{
    size_t width = rows_key_width(s), queries = s.heads * s.depth, keys = s.kv_heads * s.depth;
    bool value = c >= queries + keys;
    size_t d = value ? s.value : s.depth, at = c < queries ? c : c - queries - (value ? keys : 0);
    size_t before = c < queries ? 0 : (rows_queries(s) + (value ? rows_keys(s) : 0)) * s.depth;
    size_t here = (c < queries ? rows_queries(s) : rows_keys(s)) * d;
    float sum = 0;
    for (size_t k = 0; k < s.place.context; k++) {
        size_t first = c < queries ? k * here : rows_first_key(s, k) * d;
        if (at >= first && at < first + here)
            sum += parts[(k * s.samples * s.place.tokens + row) * width + before + at - first];
    }
    return sum;
}

static __global__ void parts_of_heads(struct kernel_swap s, const float *rows, float *parts)
{
    size_t n = s.samples * s.place.tokens, width = rows_key_width(s), whole = rows_row_at(s);
    FOR_EACH(e, s.place.context * n * width)
    {
        size_t row = e / width % n, k = e / width / n;
        parts[e] = rows[row * whole + channel_of(s, k, e % width)];
    }
}

static __global__ void heads_of_parts(struct kernel_swap s, float *rows, const float *parts)
{
    size_t whole = rows_row_at(s);
    FOR_EACH(e, s.samples * s.place.tokens * whole)
    {
        rows[e] = sum_over_parts(s, parts, e / whole, e % whole);
    }
}

static __global__ void swap_tokens(struct kernel_swap s, float *all, float *parts, bool out)
{
    size_t width = rows_key_width(s), tokens = s.place.tokens, n = s.samples * tokens;
    FOR_EACH(e, s.place.context * n * width)
    {
        size_t row = e / width % n, k = e / width / n;
        struct kernel_place place = s.place;
        place.position = k;
        size_t at = row / tokens * tokens * place.context + place_of(place, row % tokens);
        float *here = all + at * width + e % width;
        if (out)
            parts[e] = *here;
        else
            *here = parts[e];
    }
}

/* ---- launches */

static unsigned rows_blocks(const struct kernel_swap *s)
{
    return blocks_for(s->place.context * s->samples * s->place.tokens * rows_key_width(*s));
}

cudaError_t kernel_swap_heads(const struct kernel_swap *s, float *rows, float *parts, int out)
{
    return out ? LAUNCH(parts_of_heads, rows_blocks(s), *s, rows, parts)
               : LAUNCH(heads_of_parts, rows_blocks(s), *s, rows, parts);
}

cudaError_t kernel_swap_tokens(const struct kernel_swap *s, float *all, float *parts, int out)
{
    return LAUNCH(swap_tokens, rows_blocks(s), *s, all, parts, out != 0);
}

cudaError_t kernel_rows_in(const struct kernel_rows_of *r, float *whole, const float *part)
{
    return LAUNCH(rows_of_place, blocks_for(r->samples * r->place.tokens * r->n), *r, whole,
                  (float *)part, false);
}

cudaError_t kernel_rows_out(const struct kernel_rows_of *r, const float *whole, float *part)
{
    return LAUNCH(rows_of_place, blocks_for(r->samples * r->place.tokens * r->n), *r,
                  (float *)whole, part, true);
}

cudaError_t kernel_relu(enum kernel_type t, void *y, const void *x, size_t n)
{
    return LAUNCH_AS(t, relu, blocks_along(t, n), y, x, n);
}

cudaError_t kernel_relu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n)
{
    return LAUNCH_AS(t, relu_backward, blocks_along(t, n), dx, x, dy, n);
}

cudaError_t kernel_silu(enum kernel_type t, void *y, const void *x, size_t n)
{
    return LAUNCH_AS(t, silu, blocks_along(t, n), y, x, n);
}

cudaError_t kernel_silu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n)
{
    return LAUNCH_AS(t, silu_backward, blocks_along(t, n), dx, x, dy, n);
}

cudaError_t kernel_tangents(enum kernel_type t, void *y, float *sums, const float *bias,
                            size_t rows, size_t channels)
{
    size_t n = rows * channels;
    return LAUNCH_AS(t, tangents, blocks_for(n), y, sums, bias, n, channels);
}

cudaError_t kernel_tangents_backward(enum kernel_type t, void *g, const float *y, const void *dy,
                                     size_t n)
{
    return LAUNCH_AS(t, tangents_backward, blocks_for(n), g, y, dy, n);
}

cudaError_t kernel_multiply(enum kernel_type t, void *y, const void *a, const void *b, size_t rows,
                            size_t width, size_t n)
{
    return LAUNCH_AS(t, multiply, blocks_for(rows * n), y, a, b, rows, width, n);
}

cudaError_t kernel_multiply_backward(enum kernel_type t, void *da, void *db, const void *a,
                                     const void *b, const void *dy, size_t rows, size_t width,
                                     size_t n)
{
    return LAUNCH_AS(t, multiply_backward, blocks_for(rows * width), da, db, a, b, dy, rows, width,
                     n);
}

cudaError_t kernel_beside(enum kernel_type t, void *y, void *a, void *b, size_t rows, size_t first,
                          size_t second, int apart)
{
    return LAUNCH_AS(t, beside, blocks_for(rows * (first + second)), y, a, b, rows, first, second,
                     apart != 0);
}

cudaError_t kernel_add_row(enum kernel_type t, void *y, const void *x, const void *row,
                           size_t samples, size_t tokens, size_t channels)
{
    size_t sample = tokens * channels, n = samples * sample;
    return LAUNCH_AS(t, add_row, blocks_for(n), y, x, row, n, sample, channels);
}

cudaError_t kernel_token_sums(enum kernel_type t, void *out, const void *x, size_t samples,
                              size_t tokens, size_t channels)
{
    size_t n = samples * channels;
    return LAUNCH_AS(t, token_sums, blocks_for(n), out, x, n, tokens * channels, channels);
}

cudaError_t kernel_neighbours(enum kernel_type t, void *y, const void *x, size_t samples,
                              size_t tokens, size_t channels)
{
    size_t rows = samples * tokens;
    return LAUNCH_AS(t, neighbours, blocks_for(rows * NEIGHBOURS * channels), y, x, rows, tokens,
                     channels);
}

cudaError_t kernel_neighbours_backward(enum kernel_type t, void *dx, const void *dy, size_t samples,
                                       size_t tokens, size_t channels)
{
    size_t rows = samples * tokens;
    return LAUNCH_AS(t, neighbours_backward, blocks_for(rows * channels), dx, dy, rows, tokens,
                     channels);
}

cudaError_t kernel_positions(enum kernel_type t, void *y, const void *x, const float *position,
                             const float *type, size_t samples, size_t tokens, size_t channels)
{
    size_t sample = tokens * channels, n = samples * sample;
    return LAUNCH_AS(t, add_positions, blocks_for(n), y, x, position, type, n, sample, channels);
}

cudaError_t kernel_sinusoids(enum kernel_type t, void *y, size_t samples, size_t rows,
                             size_t channels, size_t first)
{
    size_t n = samples * rows;
    return LAUNCH_AS(t, sinusoids, blocks_for(n * channels / 2), y, n, rows, channels, first);
}
