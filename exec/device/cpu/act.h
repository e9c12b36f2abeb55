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

/* gpt-oss: x = a | b, a at most 7 and b within -7 .. 7; y = a s(1.702 a) (b + 1). OpenAI, 2025,
 * github.com/openai/gpt-oss, swiglu(). */
#define CLAMP_LIMIT ((real)7)
#define CLAMP_STEEP ((real)1.702)

static inline void act_clamped(const real *restrict x, size_t n, real *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        real a = x[i] < CLAMP_LIMIT ? x[i] : CLAMP_LIMIT, b = x[n + i];
        b = b > CLAMP_LIMIT ? CLAMP_LIMIT : b < -CLAMP_LIMIT ? -CLAMP_LIMIT : b;
        y[i] = a / (1 + vector_exp(-CLAMP_STEEP * a)) * (b + 1);
    }
}

static inline void act_clamped_backward(const real *restrict x, const real *restrict dy, size_t n,
                                        real *restrict dx)
{
    for (size_t i = 0; i < n; i++) {
        bool a_free = x[i] < CLAMP_LIMIT,
             b_free = x[n + i] < CLAMP_LIMIT && x[n + i] > -CLAMP_LIMIT;
        real a = a_free ? x[i] : CLAMP_LIMIT;
        real b = b_free ? x[n + i] : x[n + i] > 0 ? CLAMP_LIMIT : -CLAMP_LIMIT;
        real s = 1 / (1 + vector_exp(-CLAMP_STEEP * a));
        dx[i] = a_free ? dy[i] * (b + 1) * (s + CLAMP_STEEP * a * s * (1 - s)) : 0;
        dx[n + i] = b_free ? dy[i] * a * s : 0;
    }
}

#endif
