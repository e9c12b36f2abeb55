/* cuda_fp16.h - numbers of IEEE 754's binary16, rounded to the nearest even. */
#ifndef DOUBLE_CUDA_FP16_H
#define DOUBLE_CUDA_FP16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

class __half
{
    uint16_t half;

  public:
    __half() = default;
    __half(float value)
    {
        uint32_t bits, size;
        memcpy(&bits, &value, sizeof bits);
        uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
        size = bits & 0x7fffffff;
        if (size > 0x7f800000)
            half = 0x7fff;
        else if (size >= 0x477ff000) /* 65520 */
            half = (uint16_t)(sign | 0x7c00);
        else if (size < 0x38800000) /* 2^-14: a multiple of 2^-24, to which adding 1/2 rounds */
            half = (uint16_t)(sign | (uint16_t)(int)(0x1p24f * ((fabsf(value) + 0.5f) - 0.5f)));
        else
            half = (uint16_t)(sign | ((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13));
    }
    operator float() const
    {
        uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fffu;
        uint32_t bits =
            sign | (size >= 0x7c00 ? size << 13 | 0x7f800000 : (size << 13) + (112u << 23));
        float value;
        memcpy(&value, &bits, sizeof value);
        return size < 0x400 ? (sign ? -1.0f : 1.0f) * ((float)size * 0x1p-24f) : value;
    }
};

#endif
