/* act.h - activations of one number or of a gated row, for layers and for the inside of experts. */
#ifndef EXEC_DEVICE_CPU_ACT_H
#define EXEC_DEVICE_CPU_ACT_H

#include "exec/device/cpu/vector.h"

#define GELU_ROOT  ((real)0.7978845608028654) /* sqrt(2/pi) */
#define GELU_CUBIC ((real)0.044715)

/* Both are x s(u) with s(u) = 1 / (1 + exp(-u)): u = x is silu; gelu in its tanh form has
 * u = 2 sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh(u / 2)) / 2 = s(u). */
static inline real act_of(bool tanh, real x)
{
    real u = tanh ? 2 * GELU_ROOT * (x + GELU_CUBIC * x * x * x) : x;
    return x / (1 + vector_exp(-u));
}

/* d/dx x s(u) = s + x s (1 - s) du/dx */
static inline real act_slope(bool tanh, real x)
{
    real u = tanh ? 2 * GELU_ROOT * (x + GELU_CUBIC * x * x * x) : x;
    real du = tanh ? 2 * GELU_ROOT * (1 + 3 * GELU_CUBIC * x * x) : 1;
    real s = 1 / (1 + vector_exp(-u));
    return s + x * s * (1 - s) * du;
}

/* y [n] = act(a) b of x = a | b, [2 n] */
static inline void act_gate(bool tanh, const real *restrict x, size_t n, real *restrict y)
{
    const real *b = x + n;
    for (size_t i = 0; i < n; i++)
        y[i] = act_of(tanh, x[i]) * b[i];
}

static inline void act_gate_backward(bool tanh, const real *restrict x, const real *restrict dy,
                                     size_t n, real *restrict dx)
{
    const real *b = x + n;
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * b[i] * act_slope(tanh, x[i]);
        dx[n + i] = dy[i] * act_of(tanh, x[i]);
    }
}

#endif
