/* What models after GPT-2 have: RMSNorm, rotary positions, gated activations, channels that pass by
 * a product. Formulas and sources are in exec/device/cpu/{rmsnorm,rope,gated,linear}.c. */
#include "exec/device/cuda/act.cuh"
#include "exec/device/cuda/join.cuh"
#include "exec/device/cuda/wide.cuh"

/* ---- RMSNorm: a block per unit of a row */

/* Channels at .. at + n - 1 of a row share a root, weights from `weight` on are theirs. */
struct rms_unit {
    size_t at, n, weight;
};

static __host__ __device__ size_t rms_units(const struct kernel_rms &l)
{
    return l.head > 0 ? l.normal / l.head : l.queries < l.normal ? 2 : 1;
}

static __device__ struct rms_unit rms_unit_at(const struct kernel_rms &l, size_t k)
{
    if (l.head > 0)
        return {k * l.head, l.head, k * l.head < l.queries ? 0 : l.head};
    return k == 0 ? rms_unit{0, l.queries, 0}
                  : rms_unit{l.queries, l.normal - l.queries, l.queries};
}

/* Channels that no unit has. */
template <typename T>
static __device__ void pass_by(const struct kernel_rms &l, size_t k, const T *from, T *to)
{
    ALONG(i, k == 0 ? l.channels - l.normal : 0)
    to[l.normal + i] = from[l.normal + i];
}

template <typename T> static __global__ void rms(struct kernel_rms l, void *y_)
{
    size_t units = rms_units(l), row = blockIdx.x / units, k = blockIdx.x % units;
    const T *x = (const T *)l.x + row * l.channels;
    T *y = (T *)y_ + row * l.channels;
    const struct rms_unit u = rms_unit_at(l, k);
    float part = 0, one = l.offset ? 1 : 0;
    ALONG(i, u.n)
    part += (float)x[u.at + i] * (float)x[u.at + i];
    float scale = 1 / sqrtf(block_sum(part) / (float)u.n + 1e-5f);
    ALONG(i, u.n)
    y[u.at + i] = T((float)x[u.at + i] * scale * (one + l.parameter[u.weight + i]));
    pass_by(l, k, x, y);
    if (threadIdx.x == 0)
        l.saved[blockIdx.x] = scale;
}

template <typename T>
static __global__ void rms_backward(struct kernel_rms l, const void *dy_, void *dx_)
{
    size_t units = rms_units(l), row = blockIdx.x / units, k = blockIdx.x % units;
    const T *x = (const T *)l.x + row * l.channels, *dy = (const T *)dy_ + row * l.channels;
    T *dx = (T *)dx_ + row * l.channels;
    const struct rms_unit u = rms_unit_at(l, k);
    float part = 0, one = l.offset ? 1 : 0, scale = l.saved[blockIdx.x];
    ALONG(i, u.n)
    part += (float)dy[u.at + i] * (one + l.parameter[u.weight + i]) * (float)x[u.at + i];
    float mean = block_sum(part) * scale / (float)u.n;
    ALONG(i, u.n)
    {
        float g = (float)dy[u.at + i] * (one + l.parameter[u.weight + i]);
        dx[u.at + i] = T(scale * (g - (float)x[u.at + i] * scale * mean));
    }
    pass_by(l, k, dy, dx);
}

/* d_weight += sums of dy n over rows and the units that share it: work [COLUMN_PARTS][weights] */
template <typename T>
static __global__ void rms_weight(float *d_weight, float *work, struct kernel_rms l,
                                  const void *dy_, size_t weights, unsigned *ticket)
{
    size_t w = (size_t)blockIdx.x * blockDim.x + threadIdx.x, units = rms_units(l);
    size_t end = w < weights ? part_row(l.rows, blockIdx.y + 1) : 0;
    float value = 0;
    for (size_t r = part_row(l.rows, blockIdx.y); r < end; r++) {
        const T *x = (const T *)l.x + r * l.channels, *dy = (const T *)dy_ + r * l.channels;
        for (size_t k = 0; k < units; k++) {
            const struct rms_unit u = rms_unit_at(l, k);
            size_t i = u.at + w - u.weight;
            if (w >= u.weight && w < u.weight + u.n)
                value += (float)dy[i] * (float)x[i] * l.saved[r * units + k];
        }
    }
    join_column(d_weight, work, weights, w, value, ticket);
}

/* ---- rotary positions: a thread per row and pair of channels, over all heads */

/* A point turned by the angle whose cosine and sine are given. */
template <typename T>
static __device__ void turn_pairs(const T *x, T *y, size_t pairs, float c, float s)
{
    float a = (float)x[0], b = (float)x[pairs];
    y[0] = T(a * c - b * s);
    y[pairs] = T(b * c + a * s);
}

/* Cosine and sine of token t's angle for pair i, in double as the CPU has them; back: the other
 * way. */
static __device__ void angle_of(const struct kernel_rope &r, size_t row, size_t i, float *c,
                                float *s)
{
    double each = pow(r.base, -(double)i / (double)r.pairs);
    double sine, cosine;
    sincospi((double)place_of(r.place, row % r.place.tokens) * each * 0.3183098861837907, &sine,
             &cosine); /* 1 / pi */
    *c = (float)cosine;
    *s = (float)(r.back ? -sine : sine);
}

template <typename T> static __global__ void rope(struct kernel_rope r, const void *x_, void *y_)
{
    size_t width = (r.heads + 2 * r.kv_heads) * r.depth, turned = (r.heads + r.kv_heads) * r.depth;
    FOR_EACH(e, r.rows * r.pairs)
    {
        size_t row = e / r.pairs, i = e % r.pairs;
        const T *x = (const T *)x_ + row * width;
        T *y = (T *)y_ + row * width;
        float c, s;
        angle_of(r, row, i, &c, &s);
        if (r.table && row < r.place.tokens) {
            r.table[2 * e] = c;
            r.table[2 * e + 1] = s;
        }
        for (size_t at = i; at < turned; at += r.depth)
            turn_pairs(x + at, y + at, r.pairs, c, s);
        for (size_t at = turned + i; at < width; at += r.pairs)
            y[at] = x[at];
    }
}

/* ---- of latents: rows of q, of k and v, and of y = q | k | v; forward from the first two to the
 * third */

template <typename T>
static __global__ void latent(struct kernel_rope r, const void *q_, const void *kv_, void *y_)
{
    size_t n = r.depth - 2 * r.pairs, wide = n + r.value, all = r.heads * r.depth;
    FOR_EACH(e, r.rows * r.pairs)
    {
        size_t row = e / r.pairs, i = e % r.pairs;
        const T *q = (const T *)q_ + row * all;
        const T *kv = (const T *)kv_ + row * (r.heads * wide + 2 * r.pairs);
        T *y = (T *)y_ + row * (2 * all + r.heads * r.value);
        float c, s;
        angle_of(r, row, i, &c, &s);
        for (size_t h = 0; h < r.heads; h++) {
            T *to_q = y + h * r.depth, *to_k = to_q + all, *to_v = y + 2 * all + h * r.value;
            turn_pairs(q + h * r.depth + n + i, to_q + n + i, r.pairs, c, s);
            turn_pairs(kv + r.heads * wide + i, to_k + n + i, r.pairs, c, s);
            for (size_t k = i; k < n; k += r.pairs) {
                to_q[k] = q[h * r.depth + k];
                to_k[k] = kv[h * wide + k];
            }
            for (size_t k = i; k < r.value; k += r.pairs)
                to_v[k] = kv[h * wide + n + k];
        }
    }
}

/* What heads share has the sum of their gradients. */
template <typename T>
static __global__ void latent_backward(struct kernel_rope r, const void *dy_, void *dq_, void *dkv_)
{
    size_t n = r.depth - 2 * r.pairs, wide = n + r.value, all = r.heads * r.depth;
    FOR_EACH(e, r.rows * r.pairs)
    {
        size_t row = e / r.pairs, i = e % r.pairs;
        const T *dy = (const T *)dy_ + row * (2 * all + r.heads * r.value);
        T *dq = (T *)dq_ + row * all;
        T *dkv = (T *)dkv_ + row * (r.heads * wide + 2 * r.pairs);
        float c, s, left = 0, right = 0;
        angle_of(r, row, i, &c, &s);
        for (size_t h = 0; h < r.heads; h++) {
            const T *d = dy + h * r.depth, *k_of = d + all, *v_of = dy + 2 * all + h * r.value;
            turn_pairs(d + n + i, dq + h * r.depth + n + i, r.pairs, c, s);
            left += (float)k_of[n + i];
            right += (float)k_of[n + r.pairs + i];
            for (size_t k = i; k < n; k += r.pairs) {
                dq[h * r.depth + k] = d[k];
                dkv[h * wide + k] = k_of[k];
            }
            for (size_t k = i; k < r.value; k += r.pairs)
                dkv[h * wide + n + k] = v_of[k];
        }
        dkv[r.heads * wide + i] = T(left * c - right * s);
        dkv[r.heads * wide + r.pairs + i] = T(right * c + left * s);
    }
}

/* ---- gated activations: x s(u) of a, times b */

template <typename T>
static __global__ void gated(bool is_tanh, void *y_, const void *x_, size_t columns)
{
    const T *x = (const T *)x_ + 2 * blockIdx.x * columns;
    T *y = (T *)y_ + blockIdx.x * columns;
    along(y, columns, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float a[count.n], b[count.n];
        load(a, x + i);
        load(b, x + columns + i);
        for (int j = 0; j < count.n; j++)
            a[j] = act_of(is_tanh, a[j]).y * b[j];
        store(y + i, a);
    });
}

template <typename T>
static __global__ void gated_backward(bool is_tanh, void *dx_, const void *x_, const void *dy_,
                                      size_t columns)
{
    const T *x = (const T *)x_ + 2 * blockIdx.x * columns;
    const T *dy = (const T *)dy_ + blockIdx.x * columns;
    T *dx = (T *)dx_ + 2 * blockIdx.x * columns;
    along(dy, columns, threadIdx.x, blockDim.x, [&](auto count, size_t i) {
        float a[count.n], b[count.n], d[count.n];
        load(a, x + i);
        load(b, x + columns + i);
        load(d, dy + i);
        for (int j = 0; j < count.n; j++) {
            const struct act of_a = act_of(is_tanh, a[j]);
            a[j] = d[j] * b[j] * of_a.da;
            b[j] = d[j] * of_a.y;
        }
        store(dx + i, a);
        store(dx + columns + i, b);
    });
}

/* The last n channels of rows, from those of one width to those of another. */
template <typename T>
static __global__ void pass_on(void *to, size_t to_width, const void *from, size_t from_width,
                               size_t rows, size_t n)
{
    FOR_EACH(e, rows * n)
    {
        size_t row = e / n + 1, i = n - e % n;
        ((T *)to)[row * to_width - i] = ((const T *)from)[row * from_width - i];
    }
}

/* ---- launches */

cudaError_t kernel_rms(const struct kernel_rms *l, void *y)
{
    return LAUNCH_AS(l->type, rms, (unsigned)(l->rows * rms_units(*l)), *l, y);
}

cudaError_t kernel_rms_backward(const struct kernel_rms *l, const void *dy, void *dx)
{
    return LAUNCH_AS(l->type, rms_backward, (unsigned)(l->rows * rms_units(*l)), *l, dy, dx);
}

cudaError_t kernel_rms_weight(const struct kernel_rms *l, const void *dy, size_t weights,
                              float *d_parameter, float *work, unsigned *ticket)
{
    const dim3 grid = grid_for(weights, COLUMN_PARTS);
    if (grid.x > TICKETS)
        return cudaErrorInvalidValue;
    return LAUNCH_AS(l->type, rms_weight, grid, d_parameter, work, *l, dy, weights, ticket);
}

cudaError_t kernel_rope(const struct kernel_rope *r, const void *x, void *y)
{
    return LAUNCH_AS(r->type, rope, blocks_for(r->rows * r->pairs), *r, x, y);
}

cudaError_t kernel_latent(const struct kernel_rope *r, const void *q, const void *kv, void *y)
{
    return LAUNCH_AS(r->type, latent, blocks_for(r->rows * r->pairs), *r, q, kv, y);
}

cudaError_t kernel_latent_backward(const struct kernel_rope *r, const void *dy, void *dq, void *dkv)
{
    return LAUNCH_AS(r->type, latent_backward, blocks_for(r->rows * r->pairs), *r, dy, dq, dkv);
}

cudaError_t kernel_gated(enum kernel_type t, int is_tanh, void *y, const void *x, size_t rows,
                         size_t columns)
{
    return LAUNCH_AS(t, gated, (unsigned)rows, is_tanh != 0, y, x, columns);
}

cudaError_t kernel_gated_backward(enum kernel_type t, int is_tanh, void *dx, const void *x,
                                  const void *dy, size_t rows, size_t columns)
{
    return LAUNCH_AS(t, gated_backward, (unsigned)rows, is_tanh != 0, dx, x, dy, columns);
}

cudaError_t kernel_pass_on(enum kernel_type t, void *to, size_t to_width, const void *from,
                           size_t from_width, size_t rows, size_t n)
{
    return LAUNCH_AS(t, pass_on, blocks_for(rows * n), to, to_width, from, from_width, rows, n);
}
