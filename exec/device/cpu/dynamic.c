/* Dynamic convolution: every token has its own kernel of K numbers for each head,
 *     y_{t,h,d} = sum over k of softmax(x0_{t,h})_k x1_{t + k - K/2, h, d},
 * with zeros at the ends; K is odd. Wu et al., ICLR 2019; with kernels made of spans of tokens:
 * Jiang et al., ConvBERT, NeurIPS 2020, section 3.2. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x0 (B, T, H K), x1, y (B, T, C); saved (B, T, H K): the softmax. K is in l->window_of.kernel. */
static enum status dynamic_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->out));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads.n));
    PASS(layer_odd_kernel(op, &l->window_of.kernel));
    if (l->out % l->heads.n != 0)
        return error_set(STATUS_INVALID, "op '%s': %zu channels cannot be divided into %zu heads",
                         op->name, l->out, l->heads.n);
    l->in = size_times(l->heads.n, l->window_of.kernel);
    l->heads.value = l->out / l->heads.n;
    l->input = l->saved = size_times(l->tokens, l->in);
    l->second = l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

static void dynamic_softmax_taps(const real *x, real *p, size_t n)
{
    real largest = vector_max(x, n), sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += p[i] = vector_exp(x[i] - largest);
    for (size_t i = 0; i < n; i++)
        p[i] /= sum;
}

static void dynamic_forward_pass(const struct layer *l, struct layer_io *io)
{
    size_t d = l->heads.value;
    memset(io->y, 0, io->batch * l->output * sizeof *io->y);
    for (size_t at = 0; at < io->batch * l->tokens * l->heads.n; at++) {
        size_t row = at / l->heads.n, h = at % l->heads.n, t = row % l->tokens;
        real *p = io->saved + at * l->window_of.kernel, *y = io->y + row * l->out + h * d;
        dynamic_softmax_taps(io->x[0] + at * l->window_of.kernel, p, l->window_of.kernel);
        for (size_t k = 0; k < l->window_of.kernel; k++) {
            size_t from = t + k - l->window_of.kernel / 2; /* wraps below 0 */
            const real *v = io->x[1] + (row - t + from) * l->out + h * d;
            for (size_t i = 0; from < l->tokens && i < d; i++)
                y[i] += p[k] * v[i];
        }
    }
}

/* With g_k = dy . v_k: dx0_k = p_k (g_k - sum of p g), dv_k += p_k dy. */
static void dynamic_backward_pass(const struct layer *l, struct layer_io *io)
{
    size_t d = l->heads.value;
    memset(io->dx[1], 0, io->batch * l->second * sizeof *io->dx[1]);
    for (size_t at = 0; at < io->batch * l->tokens * l->heads.n; at++) {
        size_t row = at / l->heads.n, h = at % l->heads.n, t = row % l->tokens;
        const real *p = io->saved + at * l->window_of.kernel, *dy = io->dy + row * l->out + h * d;
        real *g = io->dx[0] + at * l->window_of.kernel;
        for (size_t k = 0; k < l->window_of.kernel; k++) {
            size_t from = t + k - l->window_of.kernel / 2;
            g[k] = 0;
            if (from >= l->tokens)
                continue;
            size_t other = (row - t + from) * l->out + h * d;
            g[k] = vector_dot(dy, io->x[1] + other, d);
            for (size_t i = 0; i < d; i++)
                io->dx[1][other + i] += p[k] * dy[i];
        }
        real mean = vector_dot(p, g, l->window_of.kernel);
        for (size_t k = 0; k < l->window_of.kernel; k++)
            g[k] = p[k] * (g[k] - mean);
    }
}

const struct layer_kind kind_dynamic_convolution = {.type = OPERATOR_dynamic_convolution,
                                                    .inputs = 2,
                                                    .shape = dynamic_shape,
                                                    .forward = dynamic_forward_pass,
                                                    .backward = dynamic_backward_pass,
                                                    .mixes = true};
