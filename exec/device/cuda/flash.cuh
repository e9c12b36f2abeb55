/* flash.cuh - what the passes of attention on tensor cores share: tiles in shared memory, products
 * of them, who sees whom, and the range of fp16. */
#ifndef EXEC_DEVICE_CUDA_FLASH_CUH
#define EXEC_DEVICE_CUDA_FLASH_CUH

#include "exec/device/cuda/attention.cuh"
#include "exec/device/cuda/mma.cuh"

enum { ROWS = 64, THREADS = 128 };
/* Rows of shared memory are 16 bytes longer than they need be: eight of them lie in different
 * banks. */
template <unsigned D> struct tile {
    static const unsigned width = D + 8;
    static const unsigned other = D > 80 ? 32 : 64; /* rows of the other side, in the backward */
};
static const float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

/* ---- tiles in shared memory */

template <unsigned D, unsigned N, typename T>
static __device__ void load_tile(T *to, const T *from, size_t stride, unsigned first,
                                 unsigned tokens)
{
    for (unsigned e = threadIdx.x; e < N * D / 8; e += THREADS) {
        unsigned r = e / (D / 8), i = e % (D / 8) * 8;
        bool is_there = first + r < tokens;
        copy_begin(to + r * tile<D>::width + i, from + (is_there ? first + r : 0) * stride + i,
                   is_there);
    }
    copies_close();
}

/* To memory, 16 bytes at a time; all threads have written the tile. */
template <unsigned D, typename T>
static __device__ void store_tile(T *to, size_t stride, unsigned first, unsigned tokens,
                                  const T *from)
{
    for (unsigned e = threadIdx.x; e < ROWS * D / 8; e += THREADS) {
        unsigned r = e / (D / 8), i = e % (D / 8) * 8;
        if (first + r < tokens)
            *(uint4 *)(to + (first + r) * stride + i) =
                *(const uint4 *)(from + r * tile<D>::width + i);
    }
}

/* Rows 16 * warp ... of a tile of results, times what is said for each row of a thread. */
template <unsigned D, typename T>
static __device__ REGISTERS_ONLY void put_rows(T *to, const float (&value)[D / 8][4], float upper,
                                               float lower)
{
    unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (unsigned n = 0; n < D / 8; n++) {
        uint32_t *at = (uint32_t *)(to + row * tile<D>::width + n * 8 + lane % 4 * 2);
        at[0] = packed<T>(value[n][0] * upper, value[n][1] * upper);
        at[4 * tile<D>::width] = packed<T>(value[n][2] * lower, value[n][3] * lower);
    }
}

/* Fragment a of rows from `row`, and columns from `column`. */
template <unsigned D, typename T>
static __device__ void load_a(uint32_t (&a)[4], const T *from, unsigned row, unsigned column)
{
    unsigned lane = threadIdx.x % 32;
    load_matrices(a, from + (row + lane % 16) * tile<D>::width + column + lane / 16 * 8);
}

/* Fragments a of d's numbers, of two neighbours of 8 columns. */
template <typename T>
static __device__ REGISTERS_ONLY void as_a(uint32_t (&a)[4], const float (&left)[4],
                                           const float (&right)[4])
{
    a[0] = packed<T>(left[0], left[1]);
    a[1] = packed<T>(left[2], left[3]);
    a[2] = packed<T>(right[0], right[1]);
    a[3] = packed<T>(right[2], right[3]);
}

/* d (16, N) += a (16, 16) b^T for 16 columns, from `column`, of the tile b (N, D). */
template <unsigned D, unsigned N, typename T>
static __device__ REGISTERS_ONLY void outer(float (&d)[N / 8][4], const uint32_t (&a)[4],
                                            const T *b, unsigned column)
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned n = 0; n < N / 16; n++) {
        uint32_t part[4];
        load_matrices(part, b + (n * 16 + lane / 16 * 8 + lane % 8) * tile<D>::width + column +
                                lane / 8 % 2 * 8);
        mma<T>(d[2 * n], a, part[0], part[1]);
        mma<T>(d[2 * n + 1], a, part[2], part[3]);
    }
}

/* d (16, D) += s (16, N) b for the tile b (N, D). */
template <unsigned D, unsigned N, typename T>
static __device__ REGISTERS_ONLY void inner(float (&d)[D / 8][4], const float (&s)[N / 8][4],
                                            const T *b)
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned k = 0; k < N / 16; k++) {
        uint32_t a[4];
        as_a<T>(a, s[2 * k], s[2 * k + 1]);
#pragma unroll
        for (unsigned n = 0; n < D / 16; n++) {
            uint32_t part[4];
            load_turned(part, b + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * tile<D>::width + n * 16 +
                                  lane / 16 * 8);
            mma<T>(d[2 * n], a, part[0], part[1]);
            mma<T>(d[2 * n + 1], a, part[2], part[3]);
        }
    }
}

/* ---- masks */

/* Do all rows first .. first + rows - 1 see all columns from c0 on? */
static __device__ bool is_full(const struct kernel_attention &a, unsigned first, unsigned rows,
                               unsigned c0, unsigned columns)
{
    return c0 + columns <= (a.causal ? first + 1 : (unsigned)a.tokens) &&
           (a.window == 0 || c0 + (unsigned)a.window > first + rows - 1);
}

/* Over four lanes that have parts of a row. */
static __device__ float row_sum(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
static __device__ float row_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/* Scores (16, N) of rows from `row` to powers of two: score * scale, or nothing where it is not
 * seen. */
template <unsigned N>
static __device__ REGISTERS_ONLY void mask(float (&s)[N / 8][4], const struct kernel_attention &a,
                                           unsigned row, unsigned c0)
{
    unsigned lane = threadIdx.x % 32;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned t = row + lane / 4 + i / 2 * 8, tokens = (unsigned)a.tokens;
        unsigned to = t >= tokens ? 0 : a.causal ? t + 1 : tokens;
        unsigned from = (unsigned)sees_from(a, t);
#pragma unroll
        for (unsigned n = 0; n < N / 8; n++) {
            unsigned c = c0 + n * 8 + lane % 4 * 2 + i % 2;
            s[n][i] = c >= from && c < to ? s[n][i] : -INFINITY;
        }
    }
}

/* ---- range */

/* fp16 has 5 bits of exponent. So gradients of scores s (16, N), whose products are added to sum
 * (16, D), are packed times a power of two, which makes the largest that a row has had so far at
 * least 2^13 and less than 2^14; `factor` is that of the thread's two rows, and sum is so many
 * times what it should be. bf16, which has fp32's exponents, needs none. */
template <typename T, unsigned N, unsigned D>
static __device__ REGISTERS_ONLY void fit(float (&s)[N / 8][4], float (&sum)[D / 8][4],
                                          float (&factor)[2])
{
    if constexpr (std::is_same<T, __half>::value)
#pragma unroll
        for (unsigned half = 0; half < 2; half++) {
            float most = 0, fits;
            uint32_t bits;
#pragma unroll
            for (unsigned n = 0; n < N / 8; n++)
                most = fmaxf(most, fmaxf(fabsf(s[n][2 * half]), fabsf(s[n][2 * half + 1])));
            most = row_max(most);
            memcpy(&bits, &most, sizeof bits);
            bits = bits >> 23 > 80 ? bits >> 23 : 80;
            bits = (127 + 13 + 127 - bits) << 23;
            memcpy(&fits, &bits, sizeof fits);
            fits = fits < factor[half] ? fits : factor[half];
            float less = fits / factor[half];
#pragma unroll
            for (unsigned n = 0; n < D / 8; n++) {
                sum[n][2 * half] *= less;
                sum[n][2 * half + 1] *= less;
            }
#pragma unroll
            for (unsigned n = 0; n < N / 8; n++) {
                s[n][2 * half] *= fits;
                s[n][2 * half + 1] *= fits;
            }
            factor[half] = fits;
        }
}
/* inner() of gradients of scores. */
template <unsigned D, unsigned N, typename T>
static __device__ REGISTERS_ONLY void inner_fit(float (&d)[D / 8][4], float (&s)[N / 8][4],
                                                const T *b, float (&factor)[2])
{
    fit<T, N, D>(s, d, factor);
    inner<D, N>(d, s, b);
}
/* The first factor: no row's is larger. */
template <typename T> constexpr float UNFIT = std::is_same<T, __half>::value ? 0x1p60f : 1;

#endif
