/* element.h - the numbers that collectives reduce or gather, and how the host does that. */
#ifndef EXEC_ELEMENT_H
#define EXEC_ELEMENT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/data/program.h"

enum element { ELEMENT_FP32, ELEMENT_BF16, ELEMENT_FP16, ELEMENTS };
extern const char *const element_names[ELEMENTS]; /* "fp32", ... */

static inline size_t element_bytes(enum element e)
{
    return e == ELEMENT_FP32 ? 4 : 2;
}

/* Number i of an array. */
static inline void *element_at(enum element e, const void *data, size_t i)
{
    return (void *)((uintptr_t)data + i * element_bytes(e));
}

/* bf16 is the upper half of an fp32. */
static inline float element_widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To the nearest, ties to even: what is lost is more than half, or half and the rest is odd: round
 * up. The carry may make it infinite, as it should. */
static inline uint16_t element_narrow(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, even if all that is kept of it were zero */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* IEEE 754's binary16: 5 bits of exponent, 10 of fraction; exact, and to the nearest, ties to even,
 * numbers below 2^-14 in steps of 2^-24, from 65520 on infinite. */
float element_widen_fp16(uint16_t x);
uint16_t element_narrow_fp16(float f);

/* Number i of an array in fp32, and as fp32 has it. */
float element_get(enum element e, const void *data, size_t i);
void element_put(enum element e, void *data, size_t i, float x);

/* y += x on the host, n numbers; 16 bits: each sum is that of fp32, rounded to the nearest, ties to
 * even, as a GPU rounds it. */
void element_add(enum element e, void *y, const void *x, size_t n);

/* One step of a reduction: y = y + x (sums and averages), min(y, x) or max(y, x), n numbers; what
 * is compared with a NaN is a NaN. And its end over so many members: averages are divided, the rest
 * stays as it is. */
void element_reduce(enum element e, enum op_reduction how, void *y, const void *x, size_t n);
void element_end(enum element e, enum op_reduction how, void *y, size_t n, size_t members);

#endif
