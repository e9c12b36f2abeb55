/* Linear: y (BT, out) = x (BT, in) weight^T + bias, weight (out, in). A tied weight is the first
 * out * in parameters of its owner (the token table of the embedding: Press & Wolf, EACL 2017).
 *
 * Rows may have channels behind those of the product that are passed on as they are (`passes`):
 * what the heads of latent attention share takes the way of what is made for each of them, so that
 * shards sum both gradients at once. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, in), y (B, T, out). Parts: weight (out, in), normal(0, 0.02), none when it is borrowed;
 * bias [out] from 0. In three parts each when shards divide groups of different sizes. */
static enum status linear_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "in", -1, 1, &l->in));
    PASS(layer_attribute(op, "out", -1, 1, &l->out));
    PASS(layer_attribute(op, "passes", 0, 0, &l->passed));
    PASS(layer_flag(op, "bias", &l->bias));
    size_t weight = size_times(l->in, l->out);
    l->shared = l->tied ? weight : 0;
    l->part[0] = (struct layer_part){.n = l->tied ? 0 : weight, .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = l->bias ? l->out : 0, .fill = FILL_ZERO};
    l->in += l->passed;
    l->out += l->passed;
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

/* (out, in), the layer's own or borrowed. */
static struct gemm_operand linear_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->tied ? io->shared : io->parameter, layer_product_out(l), layer_product_in(l),
                  layer_product_in(l));
}

/* The last channels of rows, from those of `from_width` to those of `to_width`. */
static void linear_pass_on(const struct layer *l, size_t rows, const real *from, size_t from_width,
                           real *to, size_t to_width)
{
    for (size_t row = 0; l->passed > 0 && row < rows; row++)
        memcpy(to + (row + 1) * to_width - l->passed, from + (row + 1) * from_width - l->passed,
               l->passed * sizeof *to);
}

/* y (BT, out) = x (BT, in) weight^T + bias [out]. */
static void linear_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    struct gemm_operand x = matrix(io->x[0], rows, layer_product_in(l), l->in);
    struct gemm g = product(1, x, transposed(linear_weight(l, io)), io->y, l->out);
    gemm(&g);
    const real *bias = io->parameter + (l->tied ? 0 : layer_product_in(l) * layer_product_out(l));
    for (size_t row = 0; l->bias && row < rows; row++)
        vector_add(io->y + row * l->out, bias, layer_product_out(l));
    linear_pass_on(l, rows, io->x[0], l->in, io->y, l->out);
}

/* dx (BT, in) = dy (BT, out) weight: all that the op before waits for. */
static void linear_backward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    struct gemm_operand dy = matrix(io->dy, rows, layer_product_out(l), l->out);
    struct gemm g = product(1, dy, linear_weight(l, io), io->dx[0], l->in);
    gemm(&g);
    linear_pass_on(l, rows, io->dy, l->out, io->dx[0], l->in);
}

/* d_weight (out, in) += dy^T (out, BT) x (BT, in); d_bias [out] += column sums of dy. */
static void linear_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    struct gemm_operand dy = matrix(io->dy, rows, layer_product_out(l), l->out);
    struct gemm g =
        product_added(transposed(dy), matrix(io->x[0], rows, layer_product_in(l), l->in),
                      l->tied ? io->d_shared : io->d_parameter, layer_product_in(l));
    gemm(&g);
    real *d_bias = io->d_parameter + (l->tied ? 0 : layer_product_in(l) * layer_product_out(l));
    for (size_t row = 0; l->bias && row < rows; row++)
        vector_add(d_bias, io->dy + row * l->out, layer_product_out(l));
}

/* Column-parallel queries, keys and values of which there are fewer heads: a part for each. */
static void divide_queries(const struct layer_shard *s, struct layer *l)
{
    const size_t rows[] = {s->queries, s->keys, s->keys};
    const struct layer_part weight = l->part[0], bias = l->part[1];
    struct layer_shard one = *s;
    one.groups = 1;
    for (size_t k = 0, first = 0; k < 3; first += rows[k++]) {
        struct layer_part *w = &l->part[k], *b = &l->part[3 + k];
        *w = (struct layer_part){.fill = weight.fill, .from = weight.from + first * l->in};
        *b = (struct layer_part){.fill = bias.fill, .from = bias.from + first, .run = 1};
        layer_divide_rows(&one, rows[k], l->in, w);
        if (l->bias)
            layer_divide_rows(&one, rows[k], 1, b);
    }
    l->out = shard_rows(s->queries, s) + 2 * shard_rows(s->keys, s);
}

/* Megatron's two ways (Shoeybi et al. 2019, section 3):
 *   column-parallel   by outputs: rows of the stored weight; y is a part, the gradient of x is the
 *                     sum over the shards
 *   row-parallel      by inputs: columns of the stored weight; x is a part, y is the sum over the
 *                     shards; the bias is the first shard's, so that it is in the sum once */
static enum status linear_divide(const struct model_op *op, const struct layer_shard *s,
                                 size_t batch, struct layer *l)
{
    (void)batch;
    if (op->tensor == TENSOR_COLUMN && s->queries > 0 && !l->tied) {
        divide_queries(s, l);
    } else if (op->tensor == TENSOR_COLUMN && layer_product_out(l) % s->groups == 0) {
        size_t whole = layer_product_out(l), out = s->groups * shard_rows(whole / s->groups, s);
        layer_divide_rows(s, whole, 1, &l->part[1]);
        l->part[1].n = l->bias ? l->part[1].n : 0;
        if (l->tied)
            l->shared = out * layer_product_in(l);
        else
            layer_divide_rows(s, whole, layer_product_in(l), &l->part[0]);
        l->out = out + l->passed;
    } else if (op->tensor == TENSOR_ROW && !l->tied && l->passed == 0) {
        struct layer_part *weight = &l->part[0];
        weight->from += shard_first(l->in, s);
        weight->stride = l->in;
        l->in = weight->run = shard_rows(l->in, s);
        weight->n = l->out * l->in;
        l->bias = l->bias && s->shard == 0;
        l->part[1].n = l->bias ? l->out : 0;
    } else {
        return layer_indivisible(op, s, "a product of this shape");
    }
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

const struct layer_kind kind_linear = {.type = OPERATOR_linear,
                                       .inputs = 1,
                                       .shape = linear_shape,
                                       .forward = linear_forward,
                                       .backward = linear_backward,
                                       .backward_weight = linear_backward_weight,
                                       .divide = linear_divide};
