/* Long short-term memory over the tokens of a sample, from the first one on or, `reverse`, from the
 * last, from a state of zeros:
 *     a = x_t W^T + h_{t-1} U^T + bias,   i, f, g, o = s(a_i), s(a_f), tanh(a_g), s(a_o),
 *     c_t = f c_{t-1} + i g,   h_t = o tanh(c_t),   s(u) = 1 / (1 + exp(-u)).
 * Hochreiter & Schmidhuber, Neural Computation 9 (1997) 1735; the forget gate: Gers et al., Neural
 * Computation 12 (2000) 2451. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* Where a row of what is saved has the cell c_t and room for the gradient of h_{t-1}, [H] each
 * behind the 4 H gates. The backward turns gates into their gradients, and c_t into that of
 * c_{t-1}. */
enum { GATES = 4, CELL = 4, HIDDEN = 5, SAVED = 6 };

/* x (B, T, in), y (B, T, H) = h, saved (B, T, SAVED H). Parts: W (4 H, in), U (4 H, H), bias [4 H]
 * from 0, each with its gates in the order i, f, g, o. */
static enum status lstm_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_is_told(op, "tokens"));
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "in", -1, 1, &l->in));
    PASS(layer_attribute(op, "out", -1, 1, &l->out));
    if (l->out > (size_t)1 << 24)
        return error_set(STATUS_INVALID,
                         "op '%s': state of %zu elements is too large, expected at most 2^24",
                         op->name, l->out);
    PASS(layer_flag(op, "reverse", &l->reverse));
    size_t gates = GATES * l->out, fan = 2 * l->out; /* a deviation of 1 / sqrt(H) */
    l->part[0] = (struct layer_part){.n = size_times(gates, l->in), .fill = FILL_FAN, .fan = fan};
    l->part[1] = (struct layer_part){.n = size_times(gates, l->out), .fill = FILL_FAN, .fan = fan};
    l->part[2] = (struct layer_part){.n = gates, .fill = FILL_ZERO};
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->saved = size_times(l->tokens, SAVED * l->out);
    return STATUS_OK;
}

/* Token t of all samples: (B, columns) of rows that have `width` numbers. */
static struct gemm_operand token_of(const struct layer *l, const struct layer_io *io,
                                    const real *rows, size_t t, size_t columns, size_t width)
{
    return matrix(rows + t * width, io->batch, columns, l->tokens * width);
}

static real *lstm_row_of(const struct layer *l, const struct layer_io *io, size_t b, size_t t)
{
    return io->saved + (b * l->tokens + t) * SAVED * l->out;
}

static struct gemm_operand lstm_input_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->parameter, GATES * l->out, l->in, l->in);
}
static struct gemm_operand lstm_state_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->parameter + l->part[0].n, GATES * l->out, l->out, l->out);
}

static real sigmoid(real x)
{
    return 1 / (1 + vector_exp(-x));
}
static real tangent(real x)
{
    return 2 * sigmoid(2 * x) - 1;
}

/* Gates of one token from their sums, then c_t and h_t; before [H]: c_{t-1}, NULL: zeros. */
static void lstm_advance(size_t n, const real *bias, const real *before, real *gate, real *h)
{
    real *i = gate, *f = gate + n, *g = gate + 2 * n, *o = gate + 3 * n, *c = gate + CELL * n;
    for (size_t k = 0; k < n; k++) {
        i[k] = sigmoid(i[k] + bias[k]);
        f[k] = sigmoid(f[k] + bias[n + k]);
        g[k] = tangent(g[k] + bias[2 * n + k]);
        o[k] = sigmoid(o[k] + bias[3 * n + k]);
        c[k] = i[k] * g[k] + (before ? f[k] * before[k] : 0);
        h[k] = o[k] * tangent(c[k]);
    }
}

/* The products with x of all tokens at once, those with h token after token. */
static void lstm_forward(const struct layer *l, struct layer_io *io)
{
    size_t n = l->out, width = SAVED * n;
    struct gemm_operand x = matrix(io->x[0], io->batch * l->tokens, l->in, l->in);
    struct gemm all = product(1, x, transposed(lstm_input_weight(l, io)), io->saved, width);
    gemm(&all);
    for (size_t k = 0; k < l->tokens; k++) {
        size_t t = layer_token_at(l, k), before = layer_token_at(l, k > 0 ? k - 1 : 0);
        struct gemm_operand h = token_of(l, io, io->y, before, n, n);
        struct gemm g = product_added(h, transposed(lstm_state_weight(l, io)),
                                      io->saved + t * width, l->tokens * width);
        if (k > 0)
            gemm(&g);
        for (size_t b = 0; b < io->batch; b++)
            lstm_advance(n, io->parameter + l->part[0].n + l->part[1].n,
                         k > 0 ? lstm_row_of(l, io, b, before) + CELL * n : NULL,
                         lstm_row_of(l, io, b, t), io->y + (b * l->tokens + t) * n);
    }
}

/* dh, dc [H]: gradients of h_t, in two parts, and of c_t by what comes later, NULL: nothing does.
 * Gates become the gradients of their sums, c_t that of c_{t-1}. */
static void step_back(size_t n, const real *dy, const real *dh, const real *dc, const real *before,
                      real *gate)
{
    real *i = gate, *f = gate + n, *g = gate + 2 * n, *o = gate + 3 * n, *c = gate + CELL * n;
    for (size_t k = 0; k < n; k++) {
        real h = dy[k] + (dh ? dh[k] : 0), t = tangent(c[k]);
        real d = h * o[k] * (1 - t * t) + (dc ? dc[k] : 0);
        real di = d * g[k], df = before ? d * before[k] : 0, dg = d * i[k];
        c[k] = d * f[k];
        i[k] = di * i[k] * (1 - i[k]);
        f[k] = df * f[k] * (1 - f[k]);
        g[k] = dg * (1 - g[k] * g[k]);
        o[k] = h * t * o[k] * (1 - o[k]);
    }
}

/* Token after token from the one that came last: dh_{t-1} = da_t U. Then dx = da W. */
static void lstm_backward(const struct layer *l, struct layer_io *io)
{
    size_t n = l->out, width = SAVED * n;
    for (size_t k = l->tokens; k-- > 0;) {
        const size_t t = layer_token_at(l, k), before = layer_token_at(l, k > 0 ? k - 1 : 0);
        for (size_t b = 0; b < io->batch; b++) {
            const real *later =
                k + 1 < l->tokens ? lstm_row_of(l, io, b, layer_token_at(l, k + 1)) : NULL;
            step_back(n, io->dy + (b * l->tokens + t) * n, later ? later + HIDDEN * n : NULL,
                      later ? later + CELL * n : NULL,
                      k > 0 ? lstm_row_of(l, io, b, before) + CELL * n : NULL,
                      lstm_row_of(l, io, b, t));
        }
        struct gemm g =
            product(1, token_of(l, io, io->saved, t, GATES * n, width), lstm_state_weight(l, io),
                    io->saved + t * width + HIDDEN * n, l->tokens * width);
        if (k > 0)
            gemm(&g);
    }
    struct gemm_operand sums = matrix(io->saved, io->batch * l->tokens, GATES * n, width);
    struct gemm g = product(1, sums, lstm_input_weight(l, io), io->dx[0], l->in);
    gemm(&g);
}

/* dW += da^T x, dU += the sum over samples of da_t^T h_{t-1}, d_bias += column sums of da. */
static void lstm_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t n = l->out, rows = io->batch * l->tokens, width = SAVED * n;
    struct gemm_operand sums = matrix(io->saved, rows, GATES * n, width);
    struct gemm w = product_added(transposed(sums), matrix(io->x[0], rows, l->in, l->in),
                                  io->d_parameter, l->in);
    gemm(&w);
    for (size_t b = 0; b < io->batch && l->tokens > 1; b++) {
        struct gemm_operand later =
            matrix(lstm_row_of(l, io, b, !l->reverse), l->tokens - 1, GATES * n, width);
        struct gemm_operand h =
            matrix(io->y + b * l->output + (l->reverse ? n : 0), l->tokens - 1, n, n);
        struct gemm u = product_added(transposed(later), h, io->d_parameter + l->part[0].n, n);
        gemm(&u);
    }
    real *d_bias = io->d_parameter + l->part[0].n + l->part[1].n;
    for (size_t row = 0; row < rows; row++)
        vector_add(d_bias, io->saved + row * width, GATES * n);
}

const struct layer_kind kind_lstm = {.type = OPERATOR_lstm,
                                     .inputs = 1,
                                     .shape = lstm_shape,
                                     .forward = lstm_forward,
                                     .backward = lstm_backward,
                                     .backward_weight = lstm_backward_weight,
                                     .reads_output = true,
                                     .mixes = true};
