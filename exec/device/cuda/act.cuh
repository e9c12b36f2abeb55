/* act.cuh - activations: exec/device/cpu/act.h has the formulas. */
#ifndef EXEC_DEVICE_CUDA_ACT_CUH
#define EXEC_DEVICE_CUDA_ACT_CUH

#include "exec/device/cuda/launch.cuh"

/* What becomes of a and, gated, b, and what these get of its gradient. */
struct act {
    float y, da, db;
};

/* x s(u) and its derivative: u = x, or that of gelu in its tanh form. */
static __device__ struct act act_of(bool is_tanh, float x)
{
    const float root = 0.7978845608028654f, cubic = 0.044715f;
    float u = is_tanh ? 2 * root * (x + cubic * x * x * x) : x;
    float du = is_tanh ? 2 * root * (1 + 3 * cubic * x * x) : 1, s = 1 / (1 + expf(-u));
    return {x * s, s + x * s * (1 - s) * du, 0};
}

#endif
