/* cuda_bf16.h - numbers of 16 bits, the upper half of a float, rounded to the nearest even. */
#ifndef DOUBLE_CUDA_BF16_H
#define DOUBLE_CUDA_BF16_H

#include <stdint.h>
#include <string.h>

class __nv_bfloat16
{
    uint16_t half;

  public:
    __nv_bfloat16() = default;
    __nv_bfloat16(float value)
    {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        half = value != value ? (uint16_t)0x7fff
                              : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    operator float() const
    {
        uint32_t bits = (uint32_t)half << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
};

#endif
