/* Attention (exec/device/cpu/attention.c) of any form, without tensor cores: tiles of queries by
 * tiles of keys in shared memory, the softmax along the way (Milakov & Gimelshein 2018,
 * arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135). Only the logarithm of a row's sum of
 * exponentials is kept; the backward makes the tiles again, rows first (the gradient of queries),
 * then columns (those of keys and values, over all heads that share them): nothing is added by two
 * blocks. */
#include "exec/device/cuda/attention.cuh"

/* A tile's rows of q, k, v or their gradients, as floats; zeros behind the last token. */
template <typename T, unsigned CHANNELS, unsigned TILE>
static __device__ void attention_load_tile(float (*to)[CHANNELS + 1], const T *from, size_t stride,
                                           size_t first, size_t tokens, size_t width)
{
    ALONG(e, TILE * CHANNELS)
    {
        size_t r = e / CHANNELS, i = e % CHANNELS;
        to[r][i] = i < width && first + r < tokens ? (float)from[(first + r) * stride + i] : 0;
    }
}

template <unsigned CHANNELS>
static __device__ REGISTERS_ONLY float dot(const float *a, const float *b, size_t width)
{
    float value = 0;
    for (size_t i = 0; i < width; i++)
        value += a[i] * b[i];
    return value;
}

/* Rows from `first` in global memory, and their tile, which has as many of their channels as it is
 * wide. Those that stay have been loaded, if the tile has all of them. */
template <typename T, unsigned CHANNELS> struct tile_rows {
    float (*tile)[CHANNELS + 1];
    const T *from;
    size_t stride, first;
    bool stay;
};

/* Channels from `at` of rows of `width` that a tile has. */
template <unsigned CHANNELS> static __device__ size_t attention_channels(size_t width, size_t at)
{
    return width - at < CHANNELS ? width - at : CHANNELS;
}

/* sum[r][c] = row r of a times row c of b, each element its own thread's: those of ALONG(e, TILE
 * * TILE). Heads wider than a tile pass through it, and the tiles are left with their last
 * channels. */
template <typename T, unsigned CHANNELS, unsigned TILE>
static __device__ void attention_products(float (*sum)[TILE + 1], const tile_rows<T, CHANNELS> &a,
                                          const tile_rows<T, CHANNELS> &b, size_t tokens,
                                          size_t width)
{
    for (size_t at = 0; at < width; at += CHANNELS) {
        __syncthreads();
        if (!a.stay || width > CHANNELS)
            attention_load_tile<T, CHANNELS, TILE>(a.tile, a.from + at, a.stride, a.first, tokens,
                                                   width - at);
        if (!b.stay || width > CHANNELS)
            attention_load_tile<T, CHANNELS, TILE>(b.tile, b.from + at, b.stride, b.first, tokens,
                                                   width - at);
        __syncthreads();
        ALONG(e, TILE * TILE)
        sum[e / TILE][e % TILE] = (at > 0 ? sum[e / TILE][e % TILE] : 0) +
                                  dot<CHANNELS>(a.tile[e / TILE], b.tile[e % TILE],
                                                attention_channels<CHANNELS>(width, at));
    }
}

/* Number k of those that a thread keeps of a tile of rows of `width`; none where there are none. */
#define KEPT(k, e, r, i, width)                                                                    \
    if ((width) > 0)                                                                               \
        for (unsigned k = 0, e = threadIdx.x, r = e / (unsigned)(width),                           \
                      i = e % (unsigned)(width);                                                   \
             k < TILE * CHANNELS / BLOCK;                                                          \
             k++, e += BLOCK, r = e / (unsigned)(width), i = e % (unsigned)(width))                \
            if (r < TILE)

/* One row of a tile of scores: numbers become exp(score - largest so far), the sum and the factor
 * of what there was follow. */
template <unsigned TILE>
static __device__ REGISTERS_ONLY void attention_online_softmax(float *score, float *largest,
                                                               float *sum, float *factor)
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
template <typename T, unsigned CHANNELS, unsigned TILE>
static __global__ void attention(struct kernel_attention a, void *y_)
{
    __shared__ float q[TILE][CHANNELS + 1], kv[TILE][CHANNELS + 1], p[TILE][TILE + 1];
    __shared__ float largest[TILE], sum[TILE], factor[TILE];
    size_t tiles = tiles_of(a.tokens, TILE), head = blockIdx.x / tiles;
    size_t first = (tiles - 1 - blockIdx.x % tiles) * TILE; /* long rows first */
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x;
    size_t last = first + TILE < a.tokens ? first + TILE - 1 : a.tokens - 1;
    attention_load_tile<T, CHANNELS, TILE>(q, x + h.q, h.row, first, a.tokens, a.depth);
    for (size_t at = 0; at < a.value; at += CHANNELS) { /* once, but for wide heads */
        size_t width = attention_channels<CHANNELS>(a.value, at);
        float o[TILE * CHANNELS / BLOCK] = {0};
        __syncthreads();
        ALONG(r, TILE)
        {
            largest[r] = a.sink ? a.sink[head % a.heads] : -INFINITY;
            sum[r] = a.sink ? 1 : 0;
        }
        for (size_t c0 = sees_from(a, first) / TILE * TILE; c0 < sees_to(a, last); c0 += TILE) {
            attention_products<T, CHANNELS, TILE>(p, {q, x + h.q, h.row, first, true},
                                                  {kv, x + h.k, h.row, c0, false}, a.tokens,
                                                  a.depth);
            ALONG(e, TILE * TILE)
            p[e / TILE][e % TILE] = sees(a, first + e / TILE, c0 + e % TILE)
                                        ? a.scale * p[e / TILE][e % TILE]
                                        : -INFINITY;
            __syncthreads();
            attention_load_tile<T, CHANNELS, TILE>(kv, x + h.v + at, h.row, c0, a.tokens, width);
            ALONG(r, TILE)
            attention_online_softmax<TILE>(p[r], &largest[r], &sum[r], &factor[r]);
            __syncthreads();
            KEPT(k, e, r, i, width)
            {
                float value = o[k] * factor[r];
                for (unsigned c = 0; c < TILE; c++)
                    value += p[r][c] * kv[c][i];
                o[k] = value;
            }
        }
        __syncthreads();
        KEPT(k, e, r, i, width)
        if (first + r < a.tokens)
            ((T *)y_)[h.y + (first + r) * h.out + at + i] = T(o[k] / sum[r]);
    }
    ALONG(r, TILE)
    if (first + r < a.tokens)
        a.saved[h.saved + 2 * (first + r)] = largest[r] + logf(sum[r]);
}

/* p and ds of a tile, from k and v in turn in `kv`: p = exp(score - saved), ds = p (dp - delta).
 * Blocks of rows and of columns differ in what stays in shared memory, so operands are named. */
template <unsigned TILE>
static __device__ float attention_probability(const struct kernel_attention &a,
                                              const struct attention_head &h, size_t row,
                                              size_t column, float product)
{
    return sees(a, row, column) ? expf(a.scale * product - a.saved[h.saved + 2 * row]) : 0;
}

/* dq = scale ds k for a tile of rows; delta = sum over the row of dy y, which is that of dp p, is
 * saved for the other kernel. */
template <typename T, unsigned CHANNELS, unsigned TILE>
static __global__ void attention_rows(struct kernel_attention a, const void *y_, const void *dy_,
                                      void *dx)
{
    __shared__ float q[TILE][CHANNELS + 1], dy[TILE][CHANNELS + 1], kv[TILE][CHANNELS + 1];
    __shared__ float p[TILE][TILE + 1], ds[TILE][TILE + 1], delta[TILE];
    size_t tiles = tiles_of(a.tokens, TILE), head = blockIdx.x / tiles;
    size_t first = (tiles - 1 - blockIdx.x % tiles) * TILE;
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x, *y = (const T *)y_ + h.y;
    size_t last = first + TILE < a.tokens ? first + TILE - 1 : a.tokens - 1;
    for (size_t at = 0; at < a.value; at += CHANNELS) {
        __syncthreads();
        attention_load_tile<T, CHANNELS, TILE>(dy, (const T *)dy_ + h.y + at, h.out, first,
                                               a.tokens, a.value - at);
        attention_load_tile<T, CHANNELS, TILE>(kv, y + at, h.out, first, a.tokens, a.value - at);
        __syncthreads();
        ALONG(r, TILE)
        delta[r] = (at > 0 ? delta[r] : 0) +
                   dot<CHANNELS>(dy[r], kv[r], attention_channels<CHANNELS>(a.value, at));
    }
    ALONG(r, TILE)
    if (first + r < a.tokens)
        a.saved[h.saved + 2 * (first + r) + 1] = delta[r];
    attention_load_tile<T, CHANNELS, TILE>(q, x + h.q, h.row, first, a.tokens, a.depth);
    for (size_t at = 0; at < a.depth; at += CHANNELS) {
        size_t width = attention_channels<CHANNELS>(a.depth, at);
        float dq[TILE * CHANNELS / BLOCK] = {0};
        for (size_t c0 = sees_from(a, first) / TILE * TILE; c0 < sees_to(a, last); c0 += TILE) {
            attention_products<T, CHANNELS, TILE>(
                ds, {dy, (const T *)dy_ + h.y, h.out, first, true}, {kv, x + h.v, h.row, c0, false},
                a.tokens, a.value);
            attention_products<T, CHANNELS, TILE>(p, {q, x + h.q, h.row, first, true},
                                                  {kv, x + h.k, h.row, c0, false}, a.tokens,
                                                  a.depth);
            ALONG(e, TILE * TILE)
            {
                unsigned r = (unsigned)e / TILE, c = (unsigned)e % TILE;
                ds[r][c] = (ds[r][c] - delta[r]) *
                           attention_probability<TILE>(a, h, first + r, c0 + c, p[r][c]);
            }
            __syncthreads();
            if (a.depth > CHANNELS) {
                attention_load_tile<T, CHANNELS, TILE>(kv, x + h.k + at, h.row, c0, a.tokens,
                                                       width);
                __syncthreads();
            }
            KEPT(k, e, r, i, width)
            for (unsigned c = 0; c < TILE; c++)
                dq[k] += ds[r][c] * kv[c][i];
        }
        KEPT(k, e, r, i, width)
        if (first + r < a.tokens)
            ((T *)dx)[h.q + (first + r) * h.row + at + i] = T(a.scale * dq[k]);
    }
}

/* dk = scale ds^T q and dv = p^T dy for a tile of columns, over all heads that read them. */
template <typename T, unsigned CHANNELS, unsigned TILE>
static __global__ void attention_columns(struct kernel_attention a, const void *dy, void *dx)
{
    __shared__ float key[TILE][CHANNELS + 1], value[TILE][CHANNELS + 1], rows[TILE][CHANNELS + 1];
    __shared__ float p[TILE][TILE + 1], ds[TILE][TILE + 1];
    size_t tiles = tiles_of(a.tokens, TILE), kv = blockIdx.x / tiles % a.kv_heads;
    size_t sample = blockIdx.x / tiles / a.kv_heads, c0 = blockIdx.x % tiles * TILE;
    size_t group = a.heads / a.kv_heads, end = c0 + TILE < a.tokens ? c0 + TILE : a.tokens;
    struct attention_head h = head_of(a, sample, kv * group);
    const T *x = (const T *)a.x;
    attention_load_tile<T, CHANNELS, TILE>(key, x + h.k, h.row, c0, a.tokens, a.depth);
    attention_load_tile<T, CHANNELS, TILE>(value, x + h.v, h.row, c0, a.tokens, a.value);
    for (size_t at = 0; at < a.depth || at < a.value; at += CHANNELS) {
        size_t deep = at < a.depth ? attention_channels<CHANNELS>(a.depth, at) : 0;
        size_t wide = at < a.value ? attention_channels<CHANNELS>(a.value, at) : 0;
        float dk[TILE * CHANNELS / BLOCK] = {0}, dv[TILE * CHANNELS / BLOCK] = {0};
        for (size_t g = 0; g < group; g++) {
            h = head_of(a, sample, kv * group + g);
            for (size_t first = a.causal ? c0 : 0; first < seen_to(a, end); first += TILE) {
                attention_products<T, CHANNELS, TILE>(p, {rows, x + h.q, h.row, first, false},
                                                      {key, x + h.k, h.row, c0, true}, a.tokens,
                                                      a.depth);
                attention_products<T, CHANNELS, TILE>(
                    ds, {rows, (const T *)dy + h.y, h.out, first, false},
                    {value, x + h.v, h.row, c0, true}, a.tokens, a.value);
                ALONG(e, TILE * TILE)
                {
                    unsigned r = (unsigned)e / TILE, c = (unsigned)e % TILE;
                    float delta = first + r < a.tokens ? a.saved[h.saved + 2 * (first + r) + 1] : 0;
                    p[r][c] = attention_probability<TILE>(a, h, first + r, c0 + c, p[r][c]);
                    ds[r][c] = p[r][c] * (ds[r][c] - delta);
                }
                __syncthreads();
                if (a.value > CHANNELS) {
                    attention_load_tile<T, CHANNELS, TILE>(rows, (const T *)dy + h.y + at, h.out,
                                                           first, a.tokens, wide);
                    __syncthreads();
                }
                KEPT(k, e, c, i, wide)
                for (unsigned r = 0; r < TILE; r++)
                    dv[k] += p[r][c] * rows[r][i];
                __syncthreads();
                attention_load_tile<T, CHANNELS, TILE>(rows, x + h.q + at, h.row, first, a.tokens,
                                                       deep);
                __syncthreads();
                KEPT(k, e, c, i, deep)
                for (unsigned r = 0; r < TILE; r++)
                    dk[k] += ds[r][c] * rows[r][i];
            }
        }
        KEPT(k, e, c, i, deep)
        if (c0 + c < a.tokens)
            ((T *)dx)[h.k + (c0 + c) * h.row + at + i] = T(a.scale * dk[k]);
        KEPT(k, e, c, i, wide)
        if (c0 + c < a.tokens)
            ((T *)dx)[h.v + (c0 + c) * h.row + at + i] = T(dv[k]);
    }
}

/* d_sink [heads] -= sum over samples and rows of the part of the softmax that a sink has, times
 * delta: a block per head. */
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
    HEADS_1024 = 1024,
    HEADS_1024_TILE = 2
};

static size_t attention_widest(const struct kernel_attention *a)
{
    return a->depth > a->value ? a->depth : a->value;
}

#define LAUNCH_TILE(a, kernel, heads, tile, ...)                                                   \
    LAUNCH(kernel, (unsigned)(tiles_of((a)->tokens, tile) * (heads)), __VA_ARGS__)
/* In one of three sizes of tiles; wider heads pass through the widest. */
#define LAUNCH_TILES(a, kernel, heads, wide, tile, ...)                                            \
    ((a)->type == KERNEL_FP32                                                                      \
         ? LAUNCH_TILE(a, (kernel<float, wide, tile>), heads, tile, __VA_ARGS__)                   \
     : (a)->type == KERNEL_BF16                                                                    \
         ? LAUNCH_TILE(a, (kernel<__nv_bfloat16, wide, tile>), heads, tile, __VA_ARGS__)           \
         : LAUNCH_TILE(a, (kernel<__half, wide, tile>), heads, tile, __VA_ARGS__))
#define LAUNCH_WIDE(a, kernel, heads, ...)                                                         \
    (attention_widest(a) <= HEADS_128                                                              \
         ? LAUNCH_TILES(a, kernel, heads, HEADS_128, HEADS_128_TILE, __VA_ARGS__)                  \
     : attention_widest(a) <= HEADS_256                                                            \
         ? LAUNCH_TILES(a, kernel, heads, HEADS_256, HEADS_256_TILE, __VA_ARGS__)                  \
         : LAUNCH_TILES(a, kernel, heads, HEADS_1024, HEADS_1024_TILE, __VA_ARGS__))

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
