/* Reductions of numbers of 32 and 16 bits on the host. */
#include "exec/element.h"

const char *const element_names[ELEMENTS] = {"fp32", "bf16", "fp16"};

float element_widen_fp16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ff;
    uint32_t bits = sign | (exponent + 112) << 23 | fraction << 13;
    float f;
    if (exponent == 31)
        bits = sign | 0x7f800000 | fraction << 13;
    memcpy(&f, &bits, sizeof f);
    if (exponent == 0)
        f = (sign ? -1.0f : 1.0f) * ((float)fraction * 0x1p-24f);
    return f;
}

uint16_t element_narrow_fp16(float f)
{
    uint32_t bits, size;
    memcpy(&bits, &f, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) /* 65520 */
        return (uint16_t)(sign | 0x7c00);
    if (size <
        0x38800000) /* 2^-14; adding 1/2 rounds to a multiple of 2^-24, the low bits of the sum */
        return (uint16_t)(sign | (uint16_t)(int)(0x1p24f * ((fabsf(f) + 0.5f) - 0.5f)));
    return (uint16_t)(sign | ((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13));
}

float element_get(enum element e, const void *data, size_t i)
{
    if (e == ELEMENT_FP32)
        return ((const float *)data)[i];
    uint16_t x = ((const uint16_t *)data)[i];
    return e == ELEMENT_BF16 ? element_widen(x) : element_widen_fp16(x);
}

void element_put(enum element e, void *data, size_t i, float x)
{
    if (e == ELEMENT_FP32)
        ((float *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = e == ELEMENT_BF16 ? element_narrow(x) : element_narrow_fp16(x);
}

void element_add(enum element e, void *y, const void *x, size_t n)
{
    if (e == ELEMENT_FP32) {
        float *to = y;
        const float *more = x;
        for (size_t i = 0; i < n; i++)
            to[i] += more[i];
    } else {
        for (size_t i = 0; i < n; i++)
            element_put(e, y, i, element_get(e, y, i) + element_get(e, x, i));
    }
}

void element_reduce(enum element e, enum op_reduction how, void *y, const void *x, size_t n)
{
    if (how == REDUCTION_SUM || how == REDUCTION_AVERAGE) {
        element_add(e, y, x, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float a = element_get(e, y, i), b = element_get(e, x, i);
        bool other = isnan(b) || (how == REDUCTION_MIN ? b < a : b > a);
        element_put(e, y, i, other && !isnan(a) ? b : a);
    }
}

void element_end(enum element e, enum op_reduction how, void *y, size_t n, size_t members)
{
    for (size_t i = 0; how == REDUCTION_AVERAGE && i < n; i++)
        element_put(e, y, i, element_get(e, y, i) / (float)members);
}
