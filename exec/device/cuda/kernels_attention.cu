/* Attention (exec/device/cpu/attention.c) of any form, without tensor cores: tiles of queries by
 * tiles of keys in shared memory, the softmax along the way (Milakov & Gimelshein 2018,
 * arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). Only the logarithm of a row's sum of
 * exponentials is kept; the backward makes the tiles again, rows first (the gradient of queries), then
 * columns (those of keys and values, over all heads that share them): nothing is added by two blocks. */
#include "exec/device/cuda/attention.cuh"

/* A tile's rows of q, k, v or their gradients, as floats; zeros behind the last token. */
template <typename T, unsigned HEADS_256, unsigned TILE>
static __device__ void load(float (*to)[HEADS_256 + 1], const T *from, size_t stride, size_t first,
                            size_t tokens, size_t width)
{
    ALONG(e, TILE * HEADS_256)
    {
        size_t r = e / HEADS_256, i = e % HEADS_256;
        to[r][i] = i < width && first + r < tokens ? (float)from[(first + r) * stride + i] : 0;
    }
}

template <unsigned HEADS_256>
static __device__ REGISTERS_ONLY float dot(const float *a, const float *b, size_t width)
{
    float value = 0;
    for (size_t i = 0; i < width; i++)
        value += a[i] * b[i];
    return value;
}

/* Number k of those that a thread keeps of a tile of rows of `width`. */
#define KEPT(k, e, r, i, width)                                                                    \
    for (unsigned k = 0, e = threadIdx.x, r = e / (unsigned)(width), i = e % (unsigned)(width);    \
         k < TILE * HEADS_256 / BLOCK;                                                             \
         k++, e += BLOCK, r = e / (unsigned)(width), i = e % (unsigned)(width))                    \
        if (r < TILE)

/* One row of a tile of scores: numbers become exp(score - largest so far), the sum and the factor of
 * what there was follow. */
template <unsigned TILE>
static __device__ REGISTERS_ONLY void online(float *score, float *largest, float *sum,
                                             float *factor)
{
    float most = *largest, total = 0;
    for (unsigned c = 0; c < TILE; c++)
        most = fmaxf(most, score[c]);
    for (unsigned c = 0; c < TILE; c++)
        total += score[c] = score[c] > -INFINITY ? expf(score[c] - most) : 0;
    *factor = *largest > -INFINITY ? expf(*largest - most) : 0;
    *sum = *sum * *factor + total;
    *largest = most;
}

/* A block per tile of rows of a head. */
template <typename T, unsigned HEADS_256, unsigned TILE>
static __global__ void attention(struct kernel_attention a, void *y_)
{
    __shared__ float q[TILE][HEADS_256 + 1], kv[TILE][HEADS_256 + 1], p[TILE][TILE + 1];
    __shared__ float largest[TILE], sum[TILE], factor[TILE];
    size_t tiles = tiles_of(a.tokens, TILE), head = blockIdx.x / tiles;
    size_t first = (tiles - 1 - blockIdx.x % tiles) * TILE; /* long rows first */
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x;
    size_t last = first + TILE < a.tokens ? first + TILE - 1 : a.tokens - 1;
    float o[TILE * HEADS_256 / BLOCK] = {0};
    load<T, HEADS_256, TILE>(q, x + h.q, h.row, first, a.tokens, a.depth);
    ALONG(r, TILE)
    {
        largest[r] = a.sink ? a.sink[head % a.heads] : -INFINITY;
        sum[r] = a.sink ? 1 : 0;
    }
    for (size_t c0 = sees_from(a, first) / TILE * TILE; c0 < sees_to(a, last); c0 += TILE) {
        __syncthreads();
        load<T, HEADS_256, TILE>(kv, x + h.k, h.row, c0, a.tokens, a.depth);
        __syncthreads();
        ALONG(e, TILE * TILE)
        p[e / TILE][e % TILE] = sees(a, first + e / TILE, c0 + e % TILE)
                                    ? a.scale * dot<HEADS_256>(q[e / TILE], kv[e % TILE], a.depth)
                                    : -INFINITY;
        __syncthreads();
        load<T, HEADS_256, TILE>(kv, x + h.v, h.row, c0, a.tokens, a.value);
        ALONG(r, TILE)
        online<TILE>(p[r], &largest[r], &sum[r], &factor[r]);
        __syncthreads();
        KEPT(k, e, r, i, a.value)
        {
            float value = o[k] * factor[r];
            for (unsigned c = 0; c < TILE; c++)
                value += p[r][c] * kv[c][i];
            o[k] = value;
        }
    }
    __syncthreads();
    KEPT(k, e, r, i, a.value)
    if (first + r < a.tokens)
        ((T *)y_)[h.y + (first + r) * h.out + i] = T(o[k] / sum[r]);
    ALONG(r, TILE)
    if (first + r < a.tokens)
        a.saved[h.saved + 2 * (first + r)] = largest[r] + logf(sum[r]);
}

/* p and ds of a tile, from k and v in turn in `kv`: p = exp(score - saved), ds = p (dp - delta).
 * Blocks of rows and of columns differ in what stays in shared memory, so operands are named. */
template <unsigned TILE>
static __device__ float again(const struct kernel_attention &a, const struct attention_head &h,
                              size_t row, size_t column, float product)
{
    return sees(a, row, column) ? expf(a.scale * product - a.saved[h.saved + 2 * row]) : 0;
}

/* dq = scale ds k for a tile of rows; delta = sum over the row of dy y, which is that of dp p, is saved
 * for the other kernel. */
template <typename T, unsigned HEADS_256, unsigned TILE>
static __global__ void attention_rows(struct kernel_attention a, const void *y_, const void *dy_,
                                      void *dx)
{
    __shared__ float q[TILE][HEADS_256 + 1], dy[TILE][HEADS_256 + 1], kv[TILE][HEADS_256 + 1];
    __shared__ float ds[TILE][TILE + 1], delta[TILE];
    size_t tiles = tiles_of(a.tokens, TILE), head = blockIdx.x / tiles;
    size_t first = (tiles - 1 - blockIdx.x % tiles) * TILE;
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x, *y = (const T *)y_ + h.y;
    size_t last = first + TILE < a.tokens ? first + TILE - 1 : a.tokens - 1;
    float dq[TILE * HEADS_256 / BLOCK] = {0};
    load<T, HEADS_256, TILE>(q, x + h.q, h.row, first, a.tokens, a.depth);
    load<T, HEADS_256, TILE>(dy, (const T *)dy_ + h.y, h.out, first, a.tokens, a.value);
    load<T, HEADS_256, TILE>(kv, y, h.out, first, a.tokens, a.value);
    __syncthreads();
    ALONG(r, TILE)
    {
        delta[r] = dot<HEADS_256>(dy[r], kv[r], a.value);
        if (first + r < a.tokens)
            a.saved[h.saved + 2 * (first + r) + 1] = delta[r];
    }
    for (size_t c0 = sees_from(a, first) / TILE * TILE; c0 < sees_to(a, last); c0 += TILE) {
        __syncthreads();
        load<T, HEADS_256, TILE>(kv, x + h.v, h.row, c0, a.tokens, a.value);
        __syncthreads();
        ALONG(e, TILE * TILE)
        ds[e / TILE][e % TILE] =
            dot<HEADS_256>(dy[e / TILE], kv[e % TILE], a.value) - delta[e / TILE];
        __syncthreads();
        load<T, HEADS_256, TILE>(kv, x + h.k, h.row, c0, a.tokens, a.depth);
        __syncthreads();
        ALONG(e, TILE * TILE)
        ds[e / TILE][e % TILE] *= again<TILE>(a, h, first + e / TILE, c0 + e % TILE,
                                              dot<HEADS_256>(q[e / TILE], kv[e % TILE], a.depth));
        __syncthreads();
        KEPT(k, e, r, i, a.depth)
        for (unsigned c = 0; c < TILE; c++)
            dq[k] += ds[r][c] * kv[c][i];
    }
    KEPT(k, e, r, i, a.depth)
    if (first + r < a.tokens)
        ((T *)dx)[h.q + (first + r) * h.row + i] = T(a.scale * dq[k]);
}

/* dk = scale ds^T q and dv = p^T dy for a tile of columns, over all heads that read them. */
template <typename T, unsigned HEADS_256, unsigned TILE>
static __global__ void attention_columns(struct kernel_attention a, const void *dy, void *dx)
{
    __shared__ float key[TILE][HEADS_256 + 1], value[TILE][HEADS_256 + 1],
        rows[TILE][HEADS_256 + 1];
    __shared__ float p[TILE][TILE + 1], ds[TILE][TILE + 1];
    size_t tiles = tiles_of(a.tokens, TILE), kv = blockIdx.x / tiles % a.kv_heads;
    size_t sample = blockIdx.x / tiles / a.kv_heads, c0 = blockIdx.x % tiles * TILE;
    size_t group = a.heads / a.kv_heads, end = c0 + TILE < a.tokens ? c0 + TILE : a.tokens;
    struct attention_head h = head_of(a, sample, kv * group);
    const T *x = (const T *)a.x;
    float dk[TILE * HEADS_256 / BLOCK] = {0}, dv[TILE * HEADS_256 / BLOCK] = {0};
    load<T, HEADS_256, TILE>(key, x + h.k, h.row, c0, a.tokens, a.depth);
    load<T, HEADS_256, TILE>(value, x + h.v, h.row, c0, a.tokens, a.value);
    for (size_t g = 0; g < group; g++) {
        h = head_of(a, sample, kv * group + g);
        for (size_t first = a.causal ? c0 : 0; first < seen_to(a, end); first += TILE) {
            __syncthreads();
            load<T, HEADS_256, TILE>(rows, x + h.q, h.row, first, a.tokens, a.depth);
            __syncthreads();
            ALONG(e, TILE * TILE)
            p[e / TILE][e % TILE] =
                again<TILE>(a, h, first + e / TILE, c0 + e % TILE,
                            dot<HEADS_256>(rows[e / TILE], key[e % TILE], a.depth));
            __syncthreads();
            load<T, HEADS_256, TILE>(rows, (const T *)dy + h.y, h.out, first, a.tokens, a.value);
            __syncthreads();
            ALONG(e, TILE * TILE)
            {
                unsigned r = (unsigned)e / TILE, c = (unsigned)e % TILE;
                float delta = first + r < a.tokens ? a.saved[h.saved + 2 * (first + r) + 1] : 0;
                ds[r][c] = p[r][c] * (dot<HEADS_256>(rows[r], value[c], a.value) - delta);
            }
            KEPT(k, e, c, i, a.value)
            for (unsigned r = 0; r < TILE; r++)
                dv[k] += p[r][c] * rows[r][i];
            __syncthreads();
            load<T, HEADS_256, TILE>(rows, x + h.q, h.row, first, a.tokens, a.depth);
            __syncthreads();
            KEPT(k, e, c, i, a.depth)
            for (unsigned r = 0; r < TILE; r++)
                dk[k] += ds[r][c] * rows[r][i];
        }
    }
    KEPT(k, e, c, i, a.depth)
    if (c0 + c < a.tokens)
        ((T *)dx)[h.k + (c0 + c) * h.row + i] = T(a.scale * dk[k]);
    KEPT(k, e, c, i, a.value)
    if (c0 + c < a.tokens)
        ((T *)dx)[h.v + (c0 + c) * h.row + i] = T(dv[k]);
}

/* d_sink [heads] -= sum over samples and rows of the part of the softmax that a sink has, times delta:
 * a block per head. */
static __global__ void attention_sinks(struct kernel_attention a, float *d_sink)
{
    size_t head = blockIdx.x;
    float part = 0;
    ALONG(row, a.samples * a.tokens)
    {
        size_t sample = row / a.tokens, t = row % a.tokens;
        const float *saved = a.saved + ((sample * a.heads + head) * a.tokens + t) * 2;
        part += expf(a.sink[head] - saved[0]) * saved[1];
    }
    part = block_sum(part);
    if (threadIdx.x == 0)
        d_sink[head] -= part;
}

/* ---- launches */

enum {
    HEADS_128 = 128,
    HEADS_128_TILE = 16,
    HEADS_256 = 256,
    HEADS_256_TILE = 8,
    HEADS_MOST_TILE = 2
};

static size_t widest(const struct kernel_attention *a)
{
    return a->depth > a->value ? a->depth : a->value;
}

/* Heads of up to ATTENTION_WIDEST channels, in one of three sizes of tiles. */
#define LAUNCH_TILES(a, kernel, heads, wide, tile, ...)                                            \
    ((a)->type == KERNEL_BF16                                                                      \
         ? LAUNCH((kernel<__nv_bfloat16, wide, tile>),                                             \
                  (unsigned)(tiles_of((a)->tokens, tile) * (heads)), __VA_ARGS__)                  \
         : LAUNCH((kernel<float, wide, tile>), (unsigned)(tiles_of((a)->tokens, tile) * (heads)),  \
                  __VA_ARGS__))
#define LAUNCH_WIDE(a, kernel, heads, ...)                                                         \
    (widest(a) <= HEADS_128                                                                        \
         ? LAUNCH_TILES(a, kernel, heads, HEADS_128, HEADS_128_TILE, __VA_ARGS__)                  \
     : widest(a) <= HEADS_256                                                                      \
         ? LAUNCH_TILES(a, kernel, heads, HEADS_256, HEADS_256_TILE, __VA_ARGS__)                  \
         : LAUNCH_TILES(a, kernel, heads, ATTENTION_WIDEST, HEADS_MOST_TILE, __VA_ARGS__))

cudaError_t kernel_attention(const struct kernel_attention *a, void *y)
{
    if (kernel_flash_fits(a, y))
        return kernel_flash(a, y);
    return LAUNCH_WIDE(a, attention, a->samples * a->heads, *a, y);
}

int kernel_attention_turns(const struct kernel_attention *a, const void *y, const void *dy,
                           const void *dx)
{
    return kernel_flash_fits(a, y) && kernel_flash_fits(a, dy) && kernel_flash_fits(a, dx);
}

cudaError_t kernel_attention_backward(const struct kernel_attention *a, const void *y,
                                      const void *dy, void *dx, float *d_sink)
{
    bool flash = kernel_attention_turns(a, y, dy, dx);
    cudaError_t e = flash ? kernel_flash_backward(a, y, dy, dx)
                          : LAUNCH_WIDE(a, attention_rows, a->samples * a->heads, *a, y, dy, dx);
    if (e == cudaSuccess && !flash)
        e = LAUNCH_WIDE(a, attention_columns, a->samples * a->kv_heads, *a, dy, dx);
    return e == cudaSuccess && a->sink ? LAUNCH(attention_sinks, (unsigned)a->heads, *a, d_sink)
                                       : e;
}
