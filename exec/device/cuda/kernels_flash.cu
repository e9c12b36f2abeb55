/* Attention in 16 bits on tensor cores, heads of 64, 80 or 128 channels: the same passes as
 * kernels_attention.cu, in tiles whose scores never leave registers (Dao, FlashAttention-2, 2023,
 * arXiv:2307.08691). A block has four warps of 16 rows each; tiles of the other side come through
 * shared memory, the next one while one is computed. */
#include "exec/device/cuda/flash.cuh"

/* ---- forward */

/* Two rows of a thread: rows g and g + 8 of its warp's. */
struct softmax_rows {
    float largest[2], sum[2]; /* the sum of this thread's columns */
};

/* s: scores to exp(score - largest); o is scaled down to the same largest. */
template <unsigned D>
static __device__ REGISTERS_ONLY void flash_online_softmax(float (&s)[ROWS / 8][4], float scale,
                                                           struct softmax_rows &r,
                                                           float (&o)[D / 8][4])
{
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        float most = -INFINITY;
#pragma unroll
        for (unsigned n = 0; n < ROWS / 8; n++)
            most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        most = fmaxf(r.largest[half], row_max(most) * scale);
        float from = most > -INFINITY ? most : 0, factor = exp2f(r.largest[half] - from), sum = 0;
#pragma unroll
        for (unsigned n = 0; n < ROWS / 8; n++)
#pragma unroll
            for (unsigned i = 2 * half; i < 2 * half + 2; i++)
                sum += s[n][i] = exp2f(s[n][i] * scale - from);
#pragma unroll
        for (unsigned n = 0; n < D / 8; n++) {
            o[n][2 * half] *= factor;
            o[n][2 * half + 1] *= factor;
        }
        r.sum[half] = r.sum[half] * factor + sum;
        r.largest[half] = most;
    }
}

template <unsigned D, typename T = __nv_bfloat16>
static __global__ void __launch_bounds__(THREADS) flash(struct kernel_attention a, void *y)
{
    DYNAMIC_SHARED(shared);
    T *keys = (T *)shared, *values = keys + ROWS * tile<D>::width;
    unsigned tokens = (unsigned)a.tokens, tiles = (tokens + ROWS - 1) / ROWS;
    unsigned head = blockIdx.x / tiles, first = (tiles - 1 - blockIdx.x % tiles) * ROWS;
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x;
    unsigned last = first + ROWS <= tokens ? first + ROWS - 1 : tokens - 1;
    unsigned to = (unsigned)sees_to(a, last), from = (unsigned)sees_from(a, first) / ROWS * ROWS;
    uint32_t q[D / 16][4];
    float o[D / 8][4] = {}, sink = a.sink ? a.sink[head % a.heads] * LOG2_E : -INFINITY;
    float one = a.sink && lane % 4 == 0 ? 1 : 0;
    struct softmax_rows r = {{sink, sink}, {one, one}};
    load_tile<D, ROWS>(keys, x + h.q, h.row, first, tokens);
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < D / 16; k++)
        load_a<D>(q[k], keys, warp * 16, k * 16);
    __syncthreads();
    load_tile<D, ROWS>(keys, x + h.k, h.row, from, tokens);
    for (unsigned c0 = from; c0 < to; c0 += ROWS) {
        float s[ROWS / 8][4] = {};
        load_tile<D, ROWS>(values, x + h.v, h.row, c0, tokens);
        copies_wait<1>();
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < D / 16; k++)
            outer<D, ROWS>(s, q[k], keys, k * 16);
        __syncthreads();
        load_tile<D, ROWS>(keys, x + h.k, h.row, c0 + ROWS, tokens);
        if (!is_full(a, first, ROWS, c0, ROWS))
            mask<ROWS>(s, a, first + warp * 16, c0);
        flash_online_softmax<D>(s, a.scale * LOG2_E, r, o);
        copies_wait<1>();
        __syncthreads();
        inner<D, ROWS>(o, s, values);
        __syncthreads();
    }
    copies_wait<0>();
    __syncthreads();
    float upper = row_sum(r.sum[0]), lower = row_sum(r.sum[1]);
    put_rows<D>(keys, o, 1 / upper, 1 / lower);
    unsigned row = first + warp * 16 + lane / 4;
    float *saved = a.saved + h.saved + 2 * (size_t)row;
    if (lane % 4 == 0 && row < tokens)
        saved[0] = (r.largest[0] + log2f(upper)) * LN_2;
    if (lane % 4 == 0 && row + 8 < tokens)
        saved[16] = (r.largest[1] + log2f(lower)) * LN_2;
    __syncthreads();
    store_tile<D>((T *)y + h.y, h.out, first, tokens, keys);
}

/* ---- backward */

/* delta [ROWS]: sums over rows of dy y; two threads a row. Rows that are not there have 0. */
template <unsigned D, typename T>
static __device__ void find_delta(float *delta, const struct kernel_attention &a,
                                  const struct attention_head &h, unsigned first, const T *y,
                                  const T *dy)
{
    unsigned r = threadIdx.x / 2, half = threadIdx.x % 2;
    size_t at = h.y + (size_t)(first + r) * h.out + half * (D / 2);
    float value = 0;
    for (unsigned i = 0; i < D / 2 && first + r < a.tokens; i += 8) {
        uint4 left = *(const uint4 *)(y + at + i), right = *(const uint4 *)(dy + at + i);
        const T *one = (const T *)&left, *other = (const T *)&right;
#pragma unroll
        for (unsigned k = 0; k < 8; k++)
            value += (float)one[k] * (float)other[k];
    }
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    if (half == 0)
        delta[r] = value;
    if (half == 0 && first + r < a.tokens)
        a.saved[h.saved + 2 * (size_t)(first + r) + 1] = value;
}

/* s (16, N): scores to p = exp(score - saved), then ds = p (dp - delta), for the thread's two
 * rows. */
template <unsigned N>
static __device__ REGISTERS_ONLY void
gradient_of_scores(float (&s)[N / 8][4], const float (&dp)[N / 8][4], float scale,
                   const float (&log_sum)[2], const float (&delta)[2])
{
#pragma unroll
    for (unsigned n = 0; n < N / 8; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            s[n][i] = exp2f(s[n][i] * scale - log_sum[i / 2]) * (dp[n][i] - delta[i / 2]);
}

/* Gradients of rows from `row`, as fragments d have them, turned back: channels i and i + D / 2 of
 * a row are one thread's. */
template <unsigned D>
static __device__ void turn_back(float (&value)[D / 8][4], const struct kernel_attention &a,
                                 unsigned row)
{
    unsigned lane = threadIdx.x % 32;
    if (!a.angles)
        return;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned t = row + lane / 4 + i / 2 * 8;
        const float *angle = a.angles + (size_t)(t < a.tokens ? t : 0) * D;
#pragma unroll
        for (unsigned n = 0; n < D / 16; n++) {
            unsigned pair = n * 8 + lane % 4 * 2 + i % 2;
            float c = angle[2 * pair], s = angle[2 * pair + 1];
            float one = value[n][i], other = value[n + D / 16][i];
            value[n][i] = one * c + other * s;
            value[n + D / 16][i] = other * c - one * s;
        }
    }
}

/* dq = scale ds k, a block per tile of rows; delta is saved for the other kernel. */
template <unsigned D, typename T = __nv_bfloat16>
static __global__ void __launch_bounds__(THREADS)
    flash_rows(struct kernel_attention a, const void *y, const void *dy_, void *dx)
{
    const unsigned N = tile<D>::other;
    DYNAMIC_SHARED(shared);
    T *keys = (T *)shared, *values = keys + N * tile<D>::width;
    float *deltas = (float *)(keys + 2 * ROWS * tile<D>::width);
    unsigned tokens = (unsigned)a.tokens, tiles = (tokens + ROWS - 1) / ROWS;
    unsigned head = blockIdx.x / tiles, first = (tiles - 1 - blockIdx.x % tiles) * ROWS;
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = first + warp * 16 + lane / 4;
    const struct attention_head h = head_of(a, head / a.heads, head % a.heads);
    const T *x = (const T *)a.x, *dy = (const T *)dy_;
    unsigned last = first + ROWS <= tokens ? first + ROWS - 1 : tokens - 1;
    unsigned to = (unsigned)sees_to(a, last), from = (unsigned)sees_from(a, first) / N * N;
    uint32_t q[D / 16][4], d[D / 16][4];
    float dq[D / 8][4] = {}, log_sum[2], delta[2], factor[2] = {UNFIT<T>, UNFIT<T>};
    load_tile<D, ROWS>(keys, x + h.q, h.row, first, tokens);
    load_tile<D, ROWS>(keys + ROWS * tile<D>::width, dy + h.y, h.out, first, tokens);
    find_delta<D>(deltas, a, h, first, (const T *)y, dy);
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (unsigned k = 0; k < D / 16; k++) {
        load_a<D>(q[k], keys, warp * 16, k * 16);
        load_a<D>(d[k], keys, ROWS + warp * 16, k * 16);
    }
    for (unsigned i = 0; i < 2; i++) {
        const float *saved = a.saved + h.saved + 2 * (size_t)(row + 8 * i);
        log_sum[i] = row + 8 * i < tokens ? saved[0] * LOG2_E : INFINITY;
        delta[i] = deltas[warp * 16 + lane / 4 + 8 * i];
    }
    __syncthreads();
    load_tile<D, N>(values, x + h.v, h.row, from, tokens);
    load_tile<D, N>(keys, x + h.k, h.row, from, tokens);
    for (unsigned c0 = from; c0 < to; c0 += N) {
        float s[N / 8][4] = {}, dp[N / 8][4] = {};
        copies_wait<1>();
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < D / 16; k++)
            outer<D, N>(dp, d[k], values, k * 16);
        __syncthreads();
        load_tile<D, N>(values, x + h.v, h.row, c0 + N, tokens);
        copies_wait<1>();
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < D / 16; k++)
            outer<D, N>(s, q[k], keys, k * 16);
        if (!is_full(a, first, ROWS, c0, N))
            mask<N>(s, a, first + warp * 16, c0);
        gradient_of_scores<N>(s, dp, a.scale * LOG2_E, log_sum, delta);
        inner_fit<D, N>(dq, s, keys, factor);
        __syncthreads();
        load_tile<D, N>(keys, x + h.k, h.row, c0 + N, tokens);
    }
    copies_wait<0>();
    __syncthreads();
    turn_back<D>(dq, a, first + warp * 16);
    put_rows<D>(keys, dq, a.scale / factor[0], a.scale / factor[1]);
    __syncthreads();
    store_tile<D>((T *)dx + h.q, h.row, first, tokens, keys);
}

/* Of the columns' side: s (16 keys, N queries), transposed; log_sum and delta are of queries. p
 * stays in s, dp becomes ds. */
template <unsigned N>
static __device__ REGISTERS_ONLY void
gradient_of_columns(float (&s)[N / 8][4], float (&dp)[N / 8][4], const struct kernel_attention &a,
                    unsigned key, unsigned first, const float *log_sum, const float *delta)
{
    unsigned lane = threadIdx.x % 32, tokens = (unsigned)a.tokens;
    bool all = is_full(a, first, N, key, 16);
    float scale = a.scale * LOG2_E;
#pragma unroll
    for (unsigned n = 0; n < N / 8; n++)
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            unsigned at = n * 8 + lane % 4 * 2 + i % 2, t = first + at;
            unsigned c = key + lane / 4 + i / 2 * 8;
            bool seen = all || (c < (a.causal ? t + 1 : tokens) &&
                                (a.window == 0 || c + (unsigned)a.window > t));
            s[n][i] = seen ? exp2f(s[n][i] * scale - log_sum[at]) : 0;
            dp[n][i] = s[n][i] * (dp[n][i] - delta[at]);
        }
}

/* dk = scale ds^T q and dv = p^T dy, a block per tile of columns; heads that share it one after the
 * other. */
template <unsigned D, typename T = __nv_bfloat16>
static __global__ void __launch_bounds__(THREADS)
    flash_columns(struct kernel_attention a, const void *dy_, void *dx)
{
    const unsigned N = tile<D>::other;
    DYNAMIC_SHARED(shared);
    T *keys = (T *)shared, *values = keys + ROWS * tile<D>::width;
    T *queries = values + ROWS * tile<D>::width, *outs = queries + N * tile<D>::width;
    float *log_sum = (float *)(outs + N * tile<D>::width), *delta = log_sum + N;
    unsigned tokens = (unsigned)a.tokens, tiles = (tokens + ROWS - 1) / ROWS;
    unsigned kv = blockIdx.x / tiles, sample = kv / (unsigned)a.kv_heads;
    unsigned group = (unsigned)(a.heads / a.kv_heads), c0 = blockIdx.x % tiles * ROWS;
    unsigned warp = threadIdx.x / 32, end = c0 + ROWS < tokens ? c0 + ROWS : tokens;
    unsigned head = kv % (unsigned)a.kv_heads * group, from = a.causal ? c0 : 0;
    unsigned steps = ((unsigned)seen_to(a, end) - from + N - 1) / N;
    struct attention_head h = head_of(a, sample, head);
    const T *x = (const T *)a.x, *dy = (const T *)dy_;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {}, factor[2] = {UNFIT<T>, UNFIT<T>};
    load_tile<D, ROWS>(keys, x + h.k, h.row, c0, tokens);
    load_tile<D, ROWS>(values, x + h.v, h.row, c0, tokens);
    load_tile<D, N>(queries, x + h.q, h.row, from, tokens);
    load_tile<D, N>(outs, dy + h.y, h.out, from, tokens);
    for (unsigned step = 0; step < group * steps; step++) {
        unsigned first = from + step % steps * N;
        bool more = step + 1 < group * steps;
        unsigned after = more ? from + (step + 1) % steps * N : tokens; /* nothing is there */
        const float *saved = a.saved + head_of(a, sample, head + step / steps).saved;
        float s[N / 8][4] = {}, dp[N / 8][4] = {};
        for (unsigned r = threadIdx.x; r < N; r += THREADS) {
            bool is_there = first + r < tokens;
            log_sum[r] = is_there ? saved[2 * (size_t)(first + r)] * LOG2_E : INFINITY;
            delta[r] = is_there ? saved[2 * (size_t)(first + r) + 1] : 0;
        }
        copies_wait<0>();
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < D / 16; k++) {
            uint32_t part[4];
            load_a<D>(part, keys, warp * 16, k * 16);
            outer<D, N>(s, part, queries, k * 16);
            load_a<D>(part, values, warp * 16, k * 16);
            outer<D, N>(dp, part, outs, k * 16);
        }
        gradient_of_columns<N>(s, dp, a, c0 + warp * 16, first, log_sum, delta);
        inner<D, N>(dv, s, outs);
        inner_fit<D, N>(dk, dp, queries, factor);
        __syncthreads();
        h = head_of(a, sample, head + (more ? (step + 1) / steps : 0));
        load_tile<D, N>(queries, x + h.q, h.row, after, tokens);
        load_tile<D, N>(outs, dy + h.y, h.out, after, tokens);
    }
    copies_wait<0>();
    __syncthreads();
    turn_back<D>(dk, a, c0 + warp * 16);
    put_rows<D>(keys, dk, a.scale / factor[0], a.scale / factor[1]);
    put_rows<D>(values, dv, 1, 1);
    __syncthreads();
    h = head_of(a, sample, head);
    store_tile<D>((T *)dx + h.k, h.row, c0, tokens, keys);
    store_tile<D>((T *)dx + h.v, h.row, c0, tokens, values);
}

/* ---- launches */

/* 16 bytes at a time: all offsets are multiples of 8 numbers where heads are, if arrays are
 * aligned. */
bool kernel_flash_fits(const struct kernel_attention *a, const void *y)
{
    return a->tensor_cores && a->type != KERNEL_FP32 && a->depth == a->value &&
           (a->depth == 64 || a->depth == 80 || a->depth == 128) &&
           ((uintptr_t)a->x | (uintptr_t)y) % 16 == 0;
}

#define LAUNCH_HEADS(a, kernel, D, heads, columns, ...)                                            \
    ((a)->type == KERNEL_BF16                                                                      \
         ? LAUNCH_SHAPED(kernel<D>, tiles_of((a)->tokens, ROWS) * (heads), THREADS,                \
                         shared_bytes<D>(columns), __VA_ARGS__)                                    \
         : LAUNCH_SHAPED((kernel<D, __half>), tiles_of((a)->tokens, ROWS) * (heads), THREADS,      \
                         shared_bytes<D>(columns), __VA_ARGS__))
#define LAUNCH_FLASH(a, kernel, ...)                                                               \
    ((a)->depth == 64   ? LAUNCH_HEADS(a, kernel, 64, __VA_ARGS__)                                 \
     : (a)->depth == 80 ? LAUNCH_HEADS(a, kernel, 80, __VA_ARGS__)                                 \
                        : LAUNCH_HEADS(a, kernel, 128, __VA_ARGS__))

/* Tiles of ROWS, or `columns`: of the other side's rows besides; and two numbers a row. */
template <unsigned D> static size_t shared_bytes(bool columns)
{
    size_t rows = 2 * ROWS + (columns ? 2 * tile<D>::other : 0);
    return rows * tile<D>::width * sizeof(uint16_t) + 2 * ROWS * sizeof(float);
}

cudaError_t kernel_flash(const struct kernel_attention *a, void *y)
{
    return LAUNCH_FLASH(a, flash, a->samples * a->heads, false, *a, y);
}

cudaError_t kernel_flash_backward(const struct kernel_attention *a, const void *y, const void *dy,
                                  void *dx)
{
    cudaError_t e = LAUNCH_FLASH(a, flash_rows, a->samples * a->heads, false, *a, y, dy, dx);
    return e ? e : LAUNCH_FLASH(a, flash_columns, a->samples * a->kv_heads, true, *a, dy, dx);
}
