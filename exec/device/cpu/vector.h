/* vector.h - sums over a row, and exp, that compilers turn into vector code.
 *
 * C forbids reordering a sum, so it is written with LANES partial sums: the result depends on n
 * alone, not on compiler options or alignment. */
#ifndef EXEC_DEVICE_CPU_VECTOR_H
#define EXEC_DEVICE_CPU_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "exec/device/layer.h"

enum { LANES = 16 };

/* Of a function that is a loop over many numbers: compiled for AVX-512, AVX2 and any processor, of
 * which the loader takes one. Sums have the order above and products are never contracted
 * (sources.cmake), so all give the same bits. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTOR_CLONES
#endif

/* y += x, [n]; they do not overlap */
static inline void vector_add(real *restrict y, const real *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

/* The partial sums, first lane first. */
static inline real vector_lanes(const real lane[LANES])
{
    real sum = 0;
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* Sum of x [n]: number i goes to lane i mod LANES, so rounding errors grow with n / LANES. */
static inline real vector_sum(const real *x, size_t n)
{
    real lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (; i < n; i++)
        lane[i % LANES] += x[i];
    return vector_lanes(lane);
}

/* Sum of x y, both [n], in the same lanes. */
static inline real vector_dot(const real *x, const real *y, size_t n)
{
    real lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        lane[i % LANES] += x[i] * y[i];
    return vector_lanes(lane);
}

/* Largest of x [n], n >= 1. */
static inline real vector_max(const real *x, size_t n)
{
    real lane[LANES];
    size_t i = 0;
    for (size_t l = 0; l < LANES; l++)
        lane[l] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (size_t l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* exp without branches or calls, relative error below 3e-7: x = k ln 2 + r with |r| <= ln 2 / 2,
 * ln 2 split in two so that r is exact (Cody & Waite 1980), then the Taylor polynomial in r.
 * Arguments are cut off at -64 and 64, beyond which a softmax or a sigmoid in fp32 does not change.
 * (With the full range, compilers fold the callers for the limit, and the division by 1e38 in lanes
 * that are then thrown away takes denormal time: three times slower, measured.) */
static inline float vector_expf(float x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, kept in the low bits */
    x = x > 64.0f ? 64.0f : x;
    x = x < -64.0f ? -64.0f : x;
    float shifted = x * 1.44269504f + shift;
    float k = shifted - shift;
    float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23; /* 2^k; what shift put above it falls off */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* exp as precise as `real`. */
static inline real vector_exp(real x)
{
    return sizeof(real) == sizeof(float) ? (real)vector_expf((float)x) : (real)exp((double)x);
}

#endif
