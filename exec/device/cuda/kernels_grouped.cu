/* Products of all experts in one launch (mixture.h): a block per tile of the result, which finds
 * its expert itself. One kernel of fp32 sums for any numbers, and one on tensor cores: tiles of 64
 * x 128 over steps of 32, which come through shared memory, the next one while one is computed. */
#include "exec/device/cuda/mixture.cuh"
#include "exec/device/cuda/mma.cuh"

/* What a block does: c (rows, columns) from (row, column) on is the sum over `depth` of a b. */
struct grouped_block {
    size_t expert, row, column; /* of the result */
    size_t rows, columns;       /* behind the last ones */
    size_t from, to;            /* of the sum */
};

/* Result: rows of experts by weights, or the weights of each expert. COLUMNS: of a tile. False:
 * there is nothing to do. All threads come to the barriers. */
template <unsigned COLUMNS>
static __device__ bool find_block(const struct kernel_grouped &g, struct grouped_block *b)
{
    __shared__ size_t found;
    size_t width = g.form == GROUPED_FORWARD ? g.n : g.k;
    size_t across = (width + COLUMNS - 1) / COLUMNS;
    size_t tile = blockIdx.x / across, down = (g.n + GROUPED_TILE - 1) / GROUPED_TILE;
    b->column = blockIdx.x % across * COLUMNS;
    b->columns = width;
    if (g.form == GROUPED_WEIGHT) {
        b->expert = tile / down;
        b->row = tile % down * GROUPED_TILE;
        b->rows = g.n;
        b->from = (size_t)g.begin[b->expert];
        b->to = (size_t)g.begin[b->expert + 1];
        return b->from < b->to;
    }
    if (tile >= (size_t)g.tile[g.experts])
        return false;
    ALONG(e, g.experts)
    if (tile >= (size_t)g.tile[e] && tile < (size_t)g.tile[e + 1])
        found = e;
    __syncthreads();
    b->expert = found;
    b->row = (size_t)g.begin[found] + (tile - (size_t)g.tile[found]) * GROUPED_TILE;
    b->rows = (size_t)g.begin[found + 1];
    b->from = 0;
    b->to = g.form == GROUPED_FORWARD ? g.k : g.n;
    return true;
}

/* Gated: columns of a half of what is inside; one thread makes a number and its fellow in the other
 * half. 0: columns are as they lie. */
static __device__ size_t half_of(const struct kernel_grouped &g)
{
    return g.form == GROUPED_FORWARD && g.act != ACT_NONE && g.act != ACT_GELU ? g.n / 2 : 0;
}

/* The column at place `i` of a tile from `first` on: in halves, every other GROUP of places are of
 * the second one. `end` where there is none. */
template <unsigned GROUP>
static __device__ size_t column_of(size_t half, size_t end, size_t first, size_t i)
{
    if (half == 0)
        return first + i;
    size_t column = first / 2 + i / (2 * GROUP) * GROUP + i % GROUP;
    return column < half ? i / GROUP % 2 * half + column : end;
}

/* Where the operands are in memory, and how rows of them are apart. */
struct grouped_operand {
    size_t at, row;
    bool turned; /* a row of memory is a place in the sum, else a row or column of the result */
};

static __device__ struct grouped_operand left_of(const struct kernel_grouped &g)
{
    return {0, g.form == GROUPED_FORWARD ? g.k : g.n, g.form == GROUPED_WEIGHT};
}
static __device__ struct grouped_operand right_of(const struct kernel_grouped &g, size_t expert)
{
    return {g.form == GROUPED_WEIGHT ? 0 : expert * g.n * g.k, g.k, g.form != GROUPED_FORWARD};
}

/* Number (row, column) of the result, of activations: with its bias, or through the activation. */
template <typename T>
static __device__ void store(const struct kernel_grouped &g, const struct grouped_block &b,
                             size_t row, size_t column, float sum)
{
    T *c = (T *)g.c;
    if (g.act == ACT_NONE) {
        float value = sum + (g.bias ? g.bias[b.expert * b.columns + column] : 0);
        if (g.wide)
            ((float *)g.c)[row * b.columns + column] = value;
        else
            c[row * b.columns + column] = T(value);
        return;
    }
    sum *= g.weight[row];
    size_t halves = g.act == ACT_GELU ? 1 : 2, at = row * halves * b.columns + column;
    const struct act y = act_of(g.act, (float)c[at], halves == 2 ? (float)c[at + b.columns] : 0);
    c[at] = T(sum * y.da);
    if (halves == 2)
        c[at + b.columns] = T(sum * y.db);
}

/* What is inside, and behind the activation: from sums that have not been rounded. Gated: column of
 * a half, and the sums of both. */
template <typename T>
static __device__ void store_inside(const struct kernel_grouped &g, const struct grouped_block &b,
                                    size_t row, size_t column, float one, float other)
{
    size_t half = half_of(g), inner = half > 0 ? half : g.n;
    const float *bias = g.bias ? g.bias + b.expert * g.n + column : NULL;
    T *c = (T *)g.c + row * g.n + column;
    one += bias ? bias[0] : 0;
    c[0] = T(one);
    if (half > 0) {
        other += bias ? bias[half] : 0;
        c[half] = T(other);
    }
    ((T *)g.made)[row * inner + column] = T(act_of(g.act, one, other).y);
}

/* ---- any numbers: every thread has a square of SIDE by SIDE of the tile's numbers */

enum { DEPTH = 16 };

/* Number (i, d) of a tile that begins at (first, from), or 0. */
template <typename T>
static __device__ float number_at(const struct grouped_operand &o, const T *data, size_t i,
                                  size_t end, size_t d, size_t to)
{
    if (i >= end || d >= to)
        return 0;
    return (float)data[o.at + (o.turned ? d * o.row + i : i * o.row + d)];
}

template <typename T> static __global__ void grouped(struct kernel_grouped g)
{
    const unsigned ALL = GROUPED_TILE, THREADS = BLOCK < 256 ? 4 : 16, SIDE = ALL / THREADS;
    __shared__ float left[DEPTH][ALL + 1], right[DEPTH][ALL + 1];
    struct grouped_block b;
    if (!find_block<ALL>(g, &b))
        return;
    const struct grouped_operand l = left_of(g), r = right_of(g, b.expert);
    unsigned y = threadIdx.x / THREADS, x = threadIdx.x % THREADS;
    size_t half = half_of(g);
    float sum[SIDE][SIDE] = {};
    for (size_t from = b.from; from < b.to; from += DEPTH) {
        __syncthreads();
        ALONG(e, DEPTH * ALL)
        {
            /* neighbours in memory are threads that are neighbours */
            size_t li = l.turned ? e % ALL : e / DEPTH, ld = l.turned ? e / ALL : e % DEPTH;
            size_t ri = r.turned ? e % ALL : e / DEPTH, rd = r.turned ? e / ALL : e % DEPTH;
            left[ld][li] = number_at(l, (const T *)g.a, b.row + li, b.rows, from + ld, b.to);
            right[rd][ri] =
                number_at(r, (const T *)g.b, column_of<THREADS>(half, b.columns, b.column, ri),
                          b.columns, from + rd, b.to);
        }
        __syncthreads();
        for (unsigned d = 0; d < DEPTH; d++)
            for (unsigned i = 0; i < SIDE; i++)
                for (unsigned k = 0; k < SIDE; k++)
                    sum[i][k] += left[d][i * THREADS + y] * right[d][k * THREADS + x];
    }
#pragma unroll
    for (unsigned i = 0; i < SIDE; i++)
#pragma unroll
        for (unsigned k = 0; k < SIDE; k++) {
            size_t row = b.row + i * THREADS + y;
            size_t column = column_of<THREADS>(half, b.columns, b.column, k * THREADS + x);
            if (row >= b.rows || column >= b.columns)
                continue;
            if (half > 0 && k % 2 == 0)
                store_inside<T>(g, b, row, column, sum[i][k], sum[i][(k + 1) % SIDE]);
            else if (g.form == GROUPED_FORWARD && g.act == ACT_GELU)
                store_inside<T>(g, b, row, column, sum[i][k], 0);
            else if (half > 0)
                continue;
            else if (g.form == GROUPED_WEIGHT)
                ((float *)g.c)[(b.expert * g.n + row) * g.k + column] += sum[i][k];
            else
                store<T>(g, b, row, column, sum[i][k]);
        }
}

/* ---- tensor cores: four warps, each with 32 x 64 of a tile */

enum { WARPS = 128, ACROSS = 128, STEP = 32, CORES_GROUP = 8 };
/* A tile in shared memory: rows of memory, 16 bytes longer than they need be. */
template <bool TURNED, unsigned ROWS> struct grouped_tile {
    static const unsigned step = STEP, rows = TURNED ? step : ROWS;
    static const unsigned width = (TURNED ? ROWS : step) + 8;
    static const unsigned size = rows * width;
};

/* Rows or columns first .. of an operand, in halves or not, places from .. of the sum; zeros where
 * there is nothing. */
template <bool TURNED, unsigned ROWS, typename T>
static __device__ void load_step(T *to, const T *data, const struct grouped_operand &o, size_t half,
                                 size_t first, size_t end, size_t from, size_t last)
{
    typedef grouped_tile<TURNED, ROWS> tile;
    const unsigned each = (tile::width - 8) / 8;
    for (unsigned e = threadIdx.x; e < tile::rows * each; e += WARPS) {
        unsigned r = e / each, i = e % each * 8;
        size_t row = TURNED ? from + r : column_of<CORES_GROUP>(half, end, first, r),
               column = (TURNED ? first : from) + i;
        bool is_there = row < (TURNED ? last : end) && column < (TURNED ? end : last);
        copy_begin(to + r * tile::width + i, data + (is_there ? o.at + row * o.row + column : o.at),
                   is_there);
    }
}

/* Fragments a of rows from `row` and places from `d`. */
template <bool TURNED, typename T>
static __device__ void load_left(uint32_t (&a)[4], const T *from, unsigned row, unsigned d)
{
    const unsigned width = grouped_tile<TURNED, GROUPED_TILE>::width, lane = threadIdx.x % 32;
    if (TURNED)
        load_turned(a, from + (d + lane / 16 * 8 + lane % 8) * width + row + lane / 8 % 2 * 8);
    else
        load_matrices(a, from + (row + lane % 16) * width + d + lane / 16 * 8);
}

/* Fragments b of columns from `column`, twice 8 of them, and places from `d`. */
template <bool TURNED, typename T>
static __device__ void load_right(uint32_t (&b)[4], const T *from, unsigned column, unsigned d)
{
    const unsigned width = grouped_tile<TURNED, ACROSS>::width, lane = threadIdx.x % 32;
    if (TURNED)
        load_turned(b, from + (d + lane / 8 % 2 * 8 + lane % 8) * width + column + lane / 16 * 8);
    else
        load_matrices(b, from + (column + lane / 16 * 8 + lane % 8) * width + d + lane / 8 % 2 * 8);
}

/* sum (32, 64) of a warp += the step's product. */
template <bool LEFT, bool RIGHT, typename T>
static __device__ REGISTERS_ONLY void grouped_multiply(float (&sum)[2][8][4], const T *left,
                                                       const T *right)
{
    unsigned warp = threadIdx.x / 32, row = warp % 2 * 32, column = warp / 2 * 64;
#pragma unroll
    for (unsigned d = 0; d < STEP; d += 16) {
        uint32_t a[2][4];
        load_left<LEFT>(a[0], left, row, d);
        load_left<LEFT>(a[1], left, row + 16, d);
#pragma unroll
        for (unsigned n = 0; n < 4; n++) {
            uint32_t b[4];
            load_right<RIGHT>(b, right, column + n * 16, d);
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                mma<T>(sum[i][2 * n], a[i], b[0], b[1]);
                mma<T>(sum[i][2 * n + 1], a[i], b[2], b[3]);
            }
        }
    }
}

/* Two numbers next to each other of the result. */
template <typename T>
static __device__ void store_pair(const struct kernel_grouped &g, const struct grouped_block &b,
                                  size_t row, size_t column, float one, float other)
{
    if (row >= b.rows || column >= b.columns)
        return;
    if (g.form == GROUPED_WEIGHT) {
        float *to = (float *)g.c + (b.expert * g.n + row) * g.k + column;
        to[0] += one;
        to[1] += other;
    } else if (g.act == ACT_NONE && !g.bias && !g.wide) {
        *(uint32_t *)((T *)g.c + row * b.columns + column) = packed<T>(one, other);
    } else {
        store<T>(g, b, row, column, one);
        store<T>(g, b, row, column + 1, other);
    }
}

/* Two columns of rows `row` and 8 behind, as fragments have them; of the second half, `other`. */
template <typename T>
static __device__ void store_square(const struct kernel_grouped &g, const struct grouped_block &b,
                                    size_t row, size_t column, const float (&one)[4],
                                    const float (&other)[4])
{
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        if (row + i / 2 * 8 < b.rows && column + i % 2 < b.columns)
            store_inside<T>(g, b, row + i / 2 * 8, column + i % 2, one[i], other[i]);
}

template <bool LEFT, bool RIGHT, typename T = __nv_bfloat16>
static __global__ void __launch_bounds__(WARPS) grouped_cores(struct kernel_grouped g)
{
    DYNAMIC_SHARED(shared);
    const unsigned size =
        grouped_tile<LEFT, GROUPED_TILE>::size + grouped_tile<RIGHT, ACROSS>::size;
    T *step = (T *)shared;
    struct grouped_block b;
    if (!find_block<ACROSS>(g, &b))
        return;
    const struct grouped_operand l = left_of(g), r = right_of(g, b.expert);
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, now = 0;
    size_t half = half_of(g);
    float sum[2][8][4] = {};
    for (size_t from = b.from; from < b.to + STEP; from += STEP, now ^= 1) {
        T *next = step + now * size, *done = step + (now ^ 1) * size;
        if (from < b.to) {
            load_step<LEFT, GROUPED_TILE>(next, (const T *)g.a, l, 0, b.row, b.rows, from, b.to);
            load_step<RIGHT, ACROSS>(next + grouped_tile<LEFT, GROUPED_TILE>::size, (const T *)g.b,
                                     r, half, b.column, b.columns, from, b.to);
        }
        copies_close();
        if (from > b.from) {
            copies_wait<1>();
            __syncthreads();
            grouped_multiply<LEFT, RIGHT>(sum, done, done + grouped_tile<LEFT, GROUPED_TILE>::size);
            __syncthreads();
        }
    }
#pragma unroll
    for (unsigned i = 0; i < 2; i++)
#pragma unroll
        for (unsigned n = 0; n < 8; n++) {
            size_t row = b.row + warp % 2 * 32 + i * 16 + lane / 4;
            unsigned at = warp / 2 * 64 + n * 8 + lane % 4 * 2;
            size_t column = b.column + at;
            if (g.form == GROUPED_FORWARD && g.act != ACT_NONE) {
                if (half == 0 || n % 2 == 0)
                    store_square<T>(g, b, row,
                                    column_of<CORES_GROUP>(half, b.columns, b.column, at),
                                    sum[i][n], sum[i][(n + 1) % 8]);
                continue;
            }
            store_pair<T>(g, b, row, column, sum[i][n][0], sum[i][n][1]);
            store_pair<T>(g, b, row + 8, column, sum[i][n][2], sum[i][n][3]);
        }
}

/* ---- launches */

/* As many tiles of rows as there can be: every expert has one that is not full. */
static size_t grouped_blocks(const struct kernel_grouped *g, size_t columns)
{
    size_t width = g->form == GROUPED_FORWARD ? g->n : g->k,
           across = (width + columns - 1) / columns;
    size_t down = (g->n + GROUPED_TILE - 1) / GROUPED_TILE;
    return across *
           (g->form == GROUPED_WEIGHT ? g->experts * down : g->most / GROUPED_TILE + g->experts);
}

static bool fits_cores(const struct kernel_grouped *g)
{
    size_t halves = g->form == GROUPED_FORWARD && g->act != ACT_NONE ? 16 : 8;
    return g->tensor_cores && g->type != KERNEL_FP32 && g->n % halves == 0 && g->k % 8 == 0 &&
           ((uintptr_t)g->a | (uintptr_t)g->b | (uintptr_t)g->c) % 16 == 0;
}

/* Two steps of both operands, of 16 bits. */
template <bool LEFT, bool RIGHT> static size_t step_bytes()
{
    return 2 * sizeof(uint16_t) *
           (grouped_tile<LEFT, GROUPED_TILE>::size + grouped_tile<RIGHT, ACROSS>::size);
}

#define LAUNCH_CORES(g, left, right)                                                               \
    ((g)->type == KERNEL_BF16                                                                      \
         ? LAUNCH_SHAPED((grouped_cores<left, right>), grouped_blocks(g, ACROSS), WARPS,           \
                         (step_bytes<left, right>()), *g)                                          \
         : LAUNCH_SHAPED((grouped_cores<left, right, __half>), grouped_blocks(g, ACROSS), WARPS,   \
                         (step_bytes<left, right>()), *g))

cudaError_t kernel_grouped(const struct kernel_grouped *g)
{
    if (!fits_cores(g))
        return LAUNCH_AS(g->type, grouped, (unsigned)grouped_blocks(g, GROUPED_TILE), *g);
    return g->form == GROUPED_FORWARD    ? LAUNCH_CORES(g, false, false)
           : g->form == GROUPED_BACKWARD ? LAUNCH_CORES(g, false, true)
                                         : LAUNCH_CORES(g, true, true);
}
