/* Layers over the tokens of a sample beside attention: kernels_words.cu, kernels_relative.cu. */
#include "exec/device/cuda/layers.h"
#include "exec/device/cuda/words.h"

/* ---- depthwise and dynamic convolutions; their weights are used in fp32 */

static struct kernel_taps taps_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_taps){.type = cuda_type(l),
                                .samples = io->batch,
                                .tokens = l->tokens,
                                .channels = l->out,
                                .heads = l->heads.n,
                                .kernel = l->window_of.kernel};
}

static void cuda_depthwise_sizes(struct layer *l)
{
    l->work = size_times(COLUMN_PARTS, l->part[0].n);
}

static void cuda_depthwise_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_taps t = taps_of(l, io);
    CUDA_NOTE(io->on, "depthwise", kernel_depthwise(&t, io->parameter, io->x[0], io->y));
}

static void cuda_depthwise_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_taps t = taps_of(l, io);
    CUDA_NOTE(io->on, "depthwise backward",
              kernel_depthwise_backward(&t, io->parameter, io->x[0], io->dy, io->dx[0],
                                        io->d_parameter, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_depthwise = {.type = OPERATOR_depthwise,
                                          .inputs = 1,
                                          .forward = cuda_depthwise_forward,
                                          .backward = cuda_depthwise_backward,
                                          .sizes = cuda_depthwise_sizes};

/* saved (B, T, H K) twice: the softmax, and the gradients of its numbers. */
static void cuda_dynamic_convolution_sizes(struct layer *l)
{
    l->saved = size_times(2, l->input);
}

static void cuda_dynamic_convolution_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_taps t = taps_of(l, io);
    CUDA_NOTE(io->on, "dynamic convolution",
              kernel_dynamic(&t, io->x[0], io->x[1], io->saved, io->y));
}

static void cuda_dynamic_convolution_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_taps t = taps_of(l, io);
    CUDA_NOTE(io->on, "dynamic convolution backward",
              kernel_dynamic_backward(&t, io->saved, io->saved + io->batch * l->input, io->x[1],
                                      io->dy, io->dx[0], io->dx[1]));
}

const struct layer_kind cuda_dynamic_convolution = {.type = OPERATOR_dynamic_convolution,
                                                    .inputs = 2,
                                                    .forward = cuda_dynamic_convolution_forward,
                                                    .backward = cuda_dynamic_convolution_backward,
                                                    .sizes = cuda_dynamic_convolution_sizes};

/* ---- LSTM */

enum { GATES = 4, HIDDEN = 5, SUMS = 6 };

/* Numbers of a row of what is saved (words.h). */
static size_t cuda_relative_width(const struct layer *l)
{
    return (l->half ? SUMS + GATES / 2 : SUMS) * l->out;
}

static void cuda_lstm_sizes(struct layer *l)
{
    l->saved = size_times(l->tokens, cuda_relative_width(l));
    l->work = size_times(COLUMN_PARTS, GATES * l->out);
}

static struct kernel_lstm turn_of(const struct layer *l, const struct layer_io *io, size_t k)
{
    bool first = k == 0, last = k + 1 == l->tokens;
    return (struct kernel_lstm){.type = cuda_type(l),
                                .samples = io->batch,
                                .tokens = l->tokens,
                                .hidden = l->out,
                                .width = cuda_relative_width(l),
                                .t = layer_token_at(l, k),
                                .before = layer_token_at(l, first ? k : k - 1),
                                .after = layer_token_at(l, last ? k : k + 1),
                                .first = first,
                                .last = last,
                                .saved = io->saved};
}

static struct gemm_operand cuda_lstm_input_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->half ? io->half : io->parameter, GATES * l->out, l->in, l->in);
}

static struct gemm_operand cuda_lstm_state_weight(const struct layer *l, const struct layer_io *io)
{
    const real *all = l->half ? io->half : io->parameter;
    return matrix(cuda_at(l, all, l->part[0].n), GATES * l->out, l->out, l->out);
}

/* Gradients of the gates' sums of `rows` rows that begin at row `first` and are `apart` rows
 * apart. */
static struct gemm_operand cuda_relative_sums(const struct layer *l, const struct layer_io *io,
                                              size_t first, size_t rows, size_t apart)
{
    const real *row = io->saved + first * cuda_relative_width(l);
    return matrix(l->half ? row + SUMS * l->out : row, rows, GATES * l->out,
                  apart * cuda_relative_width(l) * (l->half ? 2 : 1));
}

/* Rows of h likewise. */
static struct gemm_operand states_of(const struct layer *l, const struct layer_io *io, size_t first,
                                     size_t rows, size_t apart)
{
    return matrix(cuda_at(l, io->y, first * l->out), rows, l->out, apart * l->out);
}

/* The products with x of all tokens at once, those with h token after token. */
static void cuda_lstm_forward(const struct layer *l, struct layer_io *io)
{
    const real *bias = io->parameter + l->part[0].n + l->part[1].n;
    struct gemm_operand x = matrix(io->x[0], io->batch * l->tokens, l->in, l->in);
    const struct cuda_gemm all = {.g = product(1, x, transposed(cuda_lstm_input_weight(l, io)),
                                               io->saved, cuda_relative_width(l)),
                                  .in = cuda_type(l)};
    cuda_gemm(io->on, "lstm", &all);
    for (size_t k = 0; k < l->tokens; k++) {
        const struct kernel_lstm turn = turn_of(l, io, k);
        const struct gemm_operand h = states_of(l, io, turn.before, io->batch, l->tokens);
        const struct cuda_gemm g = {.g = product_added(h, transposed(cuda_lstm_state_weight(l, io)),
                                                       io->saved + turn.t * turn.width,
                                                       l->tokens * turn.width),
                                    .in = cuda_type(l)};
        if (k > 0)
            cuda_gemm(io->on, "lstm", &g);
        CUDA_NOTE(io->on, "lstm", kernel_lstm(&turn, bias, io->y));
    }
}

/* Token after token from the one that came last: dh_{t-1} = da_t U. Then dx = da W. */
static void cuda_lstm_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t k = l->tokens; k-- > 0;) {
        const struct kernel_lstm turn = turn_of(l, io, k);
        const struct gemm_operand sums = cuda_relative_sums(l, io, turn.t, io->batch, l->tokens);
        const struct cuda_gemm g = {.g = product(1, sums, cuda_lstm_state_weight(l, io),
                                                 io->saved + turn.t * turn.width + HIDDEN * l->out,
                                                 l->tokens * turn.width),
                                    .in = cuda_type(l)};
        CUDA_NOTE(io->on, "lstm backward", kernel_lstm_backward(&turn, io->dy));
        if (k > 0)
            cuda_gemm(io->on, "lstm backward", &g);
    }
    const struct cuda_gemm all = {
        .g = product(1, cuda_relative_sums(l, io, 0, io->batch * l->tokens, 1),
                     cuda_lstm_input_weight(l, io), io->dx[0], l->in),
        .in = cuda_type(l),
        .out = cuda_type(l)};
    cuda_gemm(io->on, "lstm backward", &all);
}

/* dW += da^T x, dU += the sum over samples of da_t^T h_{t-1}, d_bias += column sums of da. */
static void cuda_lstm_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    const struct gemm_operand sums = cuda_relative_sums(l, io, 0, rows, 1);
    const struct gemm_operand x = matrix(io->x[0], rows, l->in, l->in);
    const struct cuda_gemm w = {.g = product_added(transposed(sums), x, io->d_parameter, l->in),
                                .in = cuda_type(l)};
    cuda_gemm(io->on, "lstm weight", &w);
    for (size_t b = 0; b < io->batch && l->tokens > 1; b++) {
        size_t first = b * l->tokens, pairs = l->tokens - 1;
        const struct gemm_operand later = cuda_relative_sums(l, io, first + !l->reverse, pairs, 1);
        const struct gemm_operand h = states_of(l, io, first + l->reverse, pairs, 1);
        const struct cuda_gemm u = {
            .g = product_added(transposed(later), h, io->d_parameter + l->part[0].n, l->out),
            .in = cuda_type(l)};
        cuda_gemm(io->on, "lstm weight", &u);
    }
    CUDA_NOTE(io->on, "lstm bias",
              kernel_columns(cuda_type(l), io->d_parameter + l->part[0].n + l->part[1].n, sums.data,
                             rows, GATES * l->out, sums.stride, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_lstm = {.type = OPERATOR_lstm,
                                     .inputs = 1,
                                     .forward = cuda_lstm_forward,
                                     .backward = cuda_lstm_backward,
                                     .backward_weight = cuda_lstm_backward_weight,
                                     .reads_output = true,
                                     .sizes = cuda_lstm_sizes};

/* ---- attention by contents and distances */

/* The softmax, the gradient of scores, and that of queries in two parts (words.h). */
static void cuda_relative_sizes(struct layer *l)
{
    size_t scores = size_times(l->heads.n, size_times(l->tokens, l->tokens));
    l->saved = size_plus(size_times(2, scores), size_times(2, l->output));
    l->work = size_times(COLUMN_PARTS, l->out);
}

static struct kernel_relative relative_of(const struct layer *l, const struct layer_io *io)
{
    size_t scores = io->batch * l->heads.n * l->tokens * l->tokens;
    return (struct kernel_relative){.type = cuda_type(l),
                                    .samples = io->batch,
                                    .tokens = l->tokens,
                                    .heads = l->heads.n,
                                    .depth = l->heads.value,
                                    .x = io->x[0],
                                    .far = io->x[1],
                                    .bias = io->parameter,
                                    .p = io->saved,
                                    .ds = io->saved + scores,
                                    .dq = io->saved + 2 * scores};
}

static void cuda_relative_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_relative r = relative_of(l, io);
    CUDA_NOTE(io->on, "relative attention", kernel_relative(&r, io->y));
}

/* Behind it sums over the rows of both parts: the gradients of u and w. */
static void cuda_relative_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_relative r = relative_of(l, io);
    size_t rows = io->batch * l->tokens;
    CUDA_NOTE(io->on, "relative attention backward",
              kernel_relative_backward(&r, io->dy, io->dx[0], io->dx[1]));
    for (size_t k = 0; k < 2; k++)
        CUDA_NOTE(io->on, "relative attention backward",
                  kernel_columns(KERNEL_FP32, io->d_parameter + k * l->out,
                                 r.dq + k * rows * l->out, rows, l->out, l->out, io->work,
                                 cuda_tickets(io)));
}

const struct layer_kind cuda_relative = {.type = OPERATOR_relative,
                                         .inputs = 2,
                                         .forward = cuda_relative_forward,
                                         .backward = cuda_relative_backward,
                                         .sizes = cuda_relative_sizes};
