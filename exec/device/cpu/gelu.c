/* Gaussian error linear unit, tanh form: y = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3).
 * Since (1 + tanh u) / 2 = 1 / (1 + exp(-2u)) =: s, y = x s without cancellation for x << 0.
 * Hendrycks & Gimpel 2016, arXiv:1606.08415. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

#define ROOT  ((real)0.7978845608028654) /* sqrt(2/pi) */
#define CUBIC ((real)0.044715)

/* x, y (B, T, C), number by number. */
VECTOR_CLONES static void gelu_forward(const struct layer *l, struct layer_io *io)
{
    const real *x = io->x[0];
    real *y = io->y;
    for (size_t i = 0, n = io->batch * l->input; i < n; i++) {
        real u = ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1 + vector_exp(-2 * u));
    }
}

/* dx, dy (B, T, C): dx = dy (dy/dx) with
 *     dy/dx = s + x s (1 - s) 2 du/dx,  du/dx = sqrt(2/pi) (1 + 3 x 0.044715 x^2)
 * since s = 1 / (1 + exp(-2u)) has ds/du = 2 s (1 - s). u and s are computed again from x: two
 * products and an exp cost less than the memory for them. */
VECTOR_CLONES static void gelu_backward(const struct layer *l, struct layer_io *io)
{
    const real *x = io->x[0], *dy = io->dy;
    real *dx = io->dx[0];
    for (size_t i = 0, n = io->batch * l->input; i < n; i++) {
        real square = x[i] * x[i];
        real u = ROOT * (x[i] + CUBIC * x[i] * square);
        real s = 1 / (1 + vector_exp(-2 * u));
        dx[i] = dy[i] * (s + x[i] * s * (1 - s) * 2 * ROOT * (1 + 3 * CUBIC * square));
    }
}

const struct layer_kind kind_gelu = {.type = OPERATOR_gelu,
                                     .inputs = 1,
                                     .shape = layer_rowwise,
                                     .forward = gelu_forward,
                                     .backward = gelu_backward,
                                     .divide = layer_divide_channels};
