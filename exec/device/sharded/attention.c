/* Self-attention of x (S, N, C): tokens, samples, channels (Vaswani et al., NeurIPS 2017), with a
 * mask (S, S), if any, that is added to the scores. The projection in has for every head the rows
 * of its queries, keys and values one after the other, so that slices of it are whole heads. Shards
 * over heads make summands, and each adds its share of the bias. */
#include <math.h>

#include "core/data/form.h"
#include "exec/device/sharded/kind.h"

enum { X, IN_W, IN_B, OUT_W, OUT_B, MASK, READS }; /* MASK: perhaps */

struct attention {
    size_t tokens, samples, channels, heads, depth; /* heads: of this rank */
    size_t rows, inner, wide;                       /* inner: heads x depth; wide: 3 inner */
    size_t stride;    /* from a token's row of a sample to the next, in queries, keys, values */
    real scale, part; /* part: of the bias */
    real *qkv, *weights, *out; /* saved: (rows, wide), (N, heads, S, S), (rows, inner) */
};

static struct attention sharded_attention_sizes(const struct operator_call *c)
{
    const struct view *x = &c->read[X].view;
    struct attention a = {.tokens = x->size[0], .samples = x->size[1], .channels = x->size[2]};
    a.depth = a.channels / (size_t)c->node->argument[0];
    a.inner = c->read[OUT_W].view.size[1];
    a.heads = a.inner / a.depth;
    a.rows = a.tokens * a.samples;
    a.wide = 3 * a.inner;
    a.stride = a.samples * a.wide;
    a.scale = (real)(1 / sqrt((double)a.depth));
    a.part = c->all->tensor[c->node->made].form == FORM_REDUCE ? 1 / (real)c->ranks : 1;
    a.qkv = c->saved;
    a.weights = a.qkv + a.rows * a.wide;
    a.out = a.weights + a.samples * a.heads * a.tokens * a.tokens;
    return a;
}

static bool fits_mask(const struct operator_call *c)
{
    const struct view *mask = &c->read[MASK].view;
    size_t tokens = c->read[X].view.size[0];
    return c->node->reads <= MASK ||
           (mask->rank == 2 && mask->size[0] == tokens && mask->size[1] == tokens);
}

static enum status sharded_attention_check(const struct operator_call *c)
{
    const struct view *x = &c->read[X].view, *in = &c->read[IN_W].view, *out = &c->read[OUT_W].view;
    const struct view *y = &c->made[0].view;
    int64_t heads = c->node->argument[0];
    bool fits = x->rank == 3 && view_alike(x, y) && in->rank == 2 && out->rank == 2 &&
                in->size[1] == x->size[2] && out->size[0] == x->size[2] &&
                in->size[0] == 3 * out->size[1] && c->read[IN_B].view.n == in->size[0] &&
                c->read[OUT_B].view.n == x->size[2] && fits_mask(c);
    if (heads < 1 || (fits && x->size[2] % (size_t)heads != 0))
        return error_set(STATUS_UNSUPPORTED,
                         "operator '%s': got heads=%lld, expected a divisor of its %zu channels",
                         c->node->name, (long long)heads, x->size[2]);
    bool whole = in->size[0] == in->whole[0] || (size_t)heads % c->ranks == 0;
    if (fits && !whole)
        return error_set(STATUS_UNSUPPORTED,
                         "operator '%s': %lld heads cannot be divided over %zu ranks",
                         c->node->name, (long long)heads, c->ranks);
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t sharded_attention_saved(const struct operator_call *c)
{
    struct attention a = sharded_attention_sizes(c);
    return a.rows * (a.wide + a.inner) + a.samples * a.heads * a.tokens * a.tokens;
}

/* Gradients of queries, keys and values, of `out`, of scores. */
static size_t sharded_attention_work(const struct operator_call *c)
{
    struct attention a = sharded_attention_sizes(c);
    return a.rows * (a.wide + a.inner) + a.samples * a.heads * a.tokens * a.tokens;
}

/* Queries (0), keys (1) or values (2) of the first head of the first sample, (S, depth); those of
 * others follow 3 depth numbers apart. */
static struct gemm_operand sharded_attention_part(const struct attention *a, const real *qkv,
                                                  size_t which)
{
    return matrix(qkv + which * a->depth, a->tokens, a->depth, a->stride);
}

/* Likewise of an array (rows, inner), depth numbers apart; and of weights. */
static struct gemm_operand sharded_attention_head(const struct attention *a, const real *out)
{
    return matrix(out, a->tokens, a->depth, a->samples * a->inner);
}
static struct gemm_operand scores_of(const struct attention *a, const real *weights)
{
    return matrix(weights, a->tokens, a->tokens, a->tokens);
}

static void sharded_attention_forward(struct operator_call *c)
{
    struct attention a = sharded_attention_sizes(c);
    struct gemm_operand in = matrix(c->read[IN_W].value, a.wide, a.channels, a.channels);
    struct gemm_operand out_w = matrix(c->read[OUT_W].value, a.channels, a.inner, a.inner);
    const real *mask = c->node->reads > MASK ? c->read[MASK].value : NULL;
    size_t heads = a.samples * a.heads, square = a.tokens * a.tokens;
    struct kind_product project = {.a = matrix(c->read[X].value, a.rows, a.channels, a.channels),
                                   .b = transposed(in),
                                   .to = a.qkv,
                                   .to_stride = a.wide};
    struct kind_product score = {.a = sharded_attention_part(&a, a.qkv, 0),
                                 .b = transposed(sharded_attention_part(&a, a.qkv, 1)),
                                 .alpha = a.scale,
                                 .to = a.weights,
                                 .to_stride = a.tokens,
                                 .steps = {heads, 3 * a.depth, 3 * a.depth, square}};
    struct kind_product attend = {.a = scores_of(&a, a.weights),
                                  .b = sharded_attention_part(&a, a.qkv, 2),
                                  .to = a.out,
                                  .to_stride = a.samples * a.inner,
                                  .steps = {heads, square, 3 * a.depth, a.depth}};
    struct kind_product out = {.a = matrix(a.out, a.rows, a.inner, a.inner),
                               .b = transposed(out_w),
                               .to = c->made[0].value,
                               .to_stride = a.channels};
    kind_product(c, &project);
    kind_bias(c, a.rows, a.wide, 1, c->read[IN_B].value, a.qkv);
    kind_product(c, &score);
    c->does->softmax(c->self, heads * a.tokens, a.tokens, mask, a.tokens, a.weights);
    kind_product(c, &attend);
    kind_product(c, &out);
    kind_bias(c, a.rows, a.channels, a.part, c->read[OUT_B].value, c->made[0].value);
}

/* Gradients of queries, keys and values from that of what all heads have made. */
static void backward_heads(const struct operator_call *c, const struct attention *a,
                           const real *d_out, real *d_qkv, real *dp)
{
    size_t heads = a->samples * a->heads, square = a->tokens * a->tokens, third = 3 * a->depth;
    struct gemm_operand ds = scores_of(a, dp), p = scores_of(a, a->weights),
                        d_o = sharded_attention_head(a, d_out);
    const struct kind_product of_p = {.a = d_o,
                                      .b = transposed(sharded_attention_part(a, a->qkv, 2)),
                                      .to = dp,
                                      .to_stride = a->tokens,
                                      .steps = {heads, a->depth, third, square}};
    const struct kind_product of_q = {.a = ds,
                                      .b = sharded_attention_part(a, a->qkv, 1),
                                      .alpha = a->scale,
                                      .to = d_qkv,
                                      .to_stride = a->stride,
                                      .steps = {heads, square, third, third}};
    const struct kind_product of_k = {.a = transposed(ds),
                                      .b = sharded_attention_part(a, a->qkv, 0),
                                      .alpha = a->scale,
                                      .to = d_qkv + a->depth,
                                      .to_stride = a->stride,
                                      .steps = {heads, square, third, third}};
    const struct kind_product of_v = {.a = transposed(p),
                                      .b = d_o,
                                      .to = d_qkv + 2 * a->depth,
                                      .to_stride = a->stride,
                                      .steps = {heads, square, a->depth, third}};
    kind_product(c, &of_p);
    c->does->softmax_back(c->self, heads * a->tokens, a->tokens, a->weights, dp);
    kind_product(c, &of_q);
    kind_product(c, &of_k);
    kind_product(c, &of_v);
}

static void sharded_attention_backward(struct operator_call *c)
{
    struct attention a = sharded_attention_sizes(c);
    real *d_qkv = c->work, *d_out = d_qkv + a.rows * a.wide, *dp = d_out + a.rows * a.inner;
    struct gemm_operand dy = matrix(c->made[0].gradient, a.rows, a.channels, a.channels);
    struct gemm_operand d = matrix(d_qkv, a.rows, a.wide, a.wide);
    const struct kind_product of_out = {
        .a = dy,
        .b = matrix(c->read[OUT_W].value, a.channels, a.inner, a.inner),
        .to = d_out,
        .to_stride = a.inner};
    const struct kind_product of_out_w = {.a = transposed(dy),
                                          .b = matrix(a.out, a.rows, a.inner, a.inner),
                                          .adds = true,
                                          .to = c->read[OUT_W].gradient,
                                          .to_stride = a.inner};
    const struct kind_product of_x = {
        .a = d,
        .b = matrix(c->read[IN_W].value, a.wide, a.channels, a.channels),
        .adds = true,
        .to = c->read[X].gradient,
        .to_stride = a.channels};
    const struct kind_product of_in_w = {
        .a = transposed(d),
        .b = matrix(c->read[X].value, a.rows, a.channels, a.channels),
        .adds = true,
        .to = c->read[IN_W].gradient,
        .to_stride = a.channels};
    kind_product(c, &of_out);
    kind_product(c, &of_out_w);
    kind_bias_back(c, a.rows, a.channels, a.part, dy.data, c->read[OUT_B].gradient);
    backward_heads(c, &a, d_out, d_qkv, dp);
    kind_product(c, &of_x);
    kind_product(c, &of_in_w);
    kind_bias_back(c, a.rows, a.wide, 1, d_qkv, c->read[IN_B].gradient);
}

static struct start sharded_attention_start(const struct operator_call *c, size_t k)
{
    if (k == IN_W || k == OUT_W)
        return kind_numbers(0, 1 / sqrt((double)c->read[X].view.whole[2]));
    return kind_numbers(0, 0.02);
}

const struct operator_kind sharded_attention = {.reads = READS,
                                                .least = MASK,
                                                .makes = 2,
                                                .arguments = 1,
                                                .check = sharded_attention_check,
                                                .saved = sharded_attention_saved,
                                                .work = sharded_attention_work,
                                                .forward = sharded_attention_forward,
                                                .backward = sharded_attention_backward,
                                                .start = sharded_attention_start};
