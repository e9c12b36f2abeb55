/* mixture.cuh - numbers of experts as activations, and what experts do inside, for the kernels of
 * mixture.h. */
#ifndef EXEC_DEVICE_CUDA_MIXTURE_CUH
#define EXEC_DEVICE_CUDA_MIXTURE_CUH

#include "exec/device/cuda/act.cuh"
#include "exec/device/cuda/mixture.h"

#include <string.h>

/* From which number on not all whole ones are there, and the bits of that one. */
template <typename T> struct whole {
    static const size_t most = std::is_same<T, __half>::value ? 2048 : 256;
    static const size_t bits = std::is_same<T, __half>::value ? 0x6800 : 0x4380;
};

template <typename T> static __device__ T number_of(size_t expert)
{
    T number = T((float)expert);
    if (sizeof(T) == 2 && expert > whole<T>::most) {
        const uint16_t bits = (uint16_t)(whole<T>::bits + expert - whole<T>::most);
        memcpy(&number, &bits, sizeof bits);
    }
    return number;
}

/* Always an expert, whatever the activation is. */
template <typename T> static __device__ size_t expert_of(T number, size_t experts)
{
    float value = (float)number;
    uint16_t bits;
    memcpy(&bits, &number, sizeof bits);
    size_t e = value >= 0 && value < 1e9f ? (size_t)value : 0;
    if (sizeof(T) == 2 && value > (float)whole<T>::most)
        e = whole<T>::most + bits - whole<T>::bits;
    return e < experts ? e : experts - 1;
}

/* What an expert makes of a and, gated, b. */
static __device__ struct act act_of(enum mixture_act kind, float a, float b)
{
    const float limit = 7, steep = 1.702f;
    if (kind != ACT_CLAMPED) {
        struct act of_a = act_of(kind == ACT_GELU, a);
        return kind == ACT_GELU ? of_a : act{of_a.y * b, b * of_a.da, of_a.y};
    }
    bool a_free = a < limit, b_free = b < limit && b > -limit;
    a = a_free ? a : limit;
    b = b_free ? b : b > 0 ? limit : -limit;
    float s = 1 / (1 + expf(-steep * a)), slope = s + steep * a * s * (1 - s);
    return {a * s * (b + 1), a_free ? (b + 1) * slope : 0, b_free ? a * s : 0};
}

#endif
