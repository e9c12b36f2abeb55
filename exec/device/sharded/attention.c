/* Self-attention of x (S, N, C): tokens, samples, channels (Vaswani et al., NeurIPS 2017), with a mask
 * (S, S), if any, that is added to the scores. The projection in has for every head the rows of its queries,
 * keys and values one after the other, so that slices of it are whole heads. Shards over heads make
 * summands, and each adds its share of the bias. */
#include <math.h>
#include <string.h>

#include "core/form.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

enum { X, IN_W, IN_B, OUT_W, OUT_B, MASK, READS }; /* MASK: perhaps */

struct attention {
    size_t tokens, samples, channels, heads, depth; /* heads: of this rank */
    size_t rows, inner, wide;                       /* inner: heads x depth; wide: 3 inner */
    size_t stride;    /* from a token's row of a sample to the next, in queries, keys, values */
    real scale, part; /* part: of the bias */
    real *qkv, *weights, *out; /* saved: (rows, wide), (N, heads, S, S), (rows, inner) */
};

static struct attention attention_of(const struct call *c)
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

static bool fits_mask(const struct call *c)
{
    const struct view *mask = &c->read[MASK].view;
    size_t tokens = c->read[X].view.size[0];
    return c->node->reads <= MASK ||
           (mask->rank == 2 && mask->size[0] == tokens && mask->size[1] == tokens);
}

static enum status check(const struct call *c)
{
    const struct view *x = &c->read[X].view, *in = &c->read[IN_W].view, *out = &c->read[OUT_W].view;
    const struct view *y = &c->made[0].view;
    int64_t heads = c->node->argument[0];
    bool fits = x->rank == 3 && view_alike(x, y) && in->rank == 2 && out->rank == 2 &&
                in->size[1] == x->size[2] && out->size[0] == x->size[2] &&
                in->size[0] == 3 * out->size[1] && c->read[IN_B].view.n == in->size[0] &&
                c->read[OUT_B].view.n == x->size[2] && fits_mask(c);
    if (heads < 1 || (fits && x->size[2] % (size_t)heads != 0))
        return error_set(STATUS_UNSUPPORTED, "'%s': %lld heads of %zu channels (heads=)",
                         c->node->name, (long long)heads, x->size[2]);
    bool whole = in->size[0] == in->whole[0] || (size_t)heads % c->ranks == 0;
    if (fits && !whole)
        return error_set(STATUS_UNSUPPORTED, "'%s': %lld heads do not divide over %zu ranks",
                         c->node->name, (long long)heads, c->ranks);
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t saved(const struct call *c)
{
    struct attention a = attention_of(c);
    return a.rows * (a.wide + a.inner) + a.samples * a.heads * a.tokens * a.tokens;
}

/* Gradients of queries, keys and values, of `out`, of scores. */
static size_t work(const struct call *c)
{
    struct attention a = attention_of(c);
    return a.rows * (a.wide + a.inner) + a.tokens * a.tokens;
}

/* Queries (0), keys (1) or values (2) of a head of a sample: (S, depth). */
static struct matrix part_of(const struct attention *a, const real *qkv, size_t sample, size_t head,
                             size_t which)
{
    return matrix(qkv + sample * a->wide + (3 * head + which) * a->depth, a->tokens, a->depth,
                  a->stride);
}

static real *weights_of(const struct attention *a, size_t sample, size_t head)
{
    return a->weights + (sample * a->heads + head) * a->tokens * a->tokens;
}

static void softmax(real *row, const real *mask, size_t n)
{
    if (mask)
        vector_add(row, mask, n);
    real most = vector_max(row, n);
    for (size_t i = 0; i < n; i++)
        row[i] = vector_exp(row[i] - most);
    real sum = vector_sum(row, n);
    for (size_t i = 0; i < n; i++)
        row[i] /= sum;
}

static void forward(struct call *c)
{
    struct attention a = attention_of(c);
    struct matrix x = matrix(c->read[X].value, a.rows, a.channels, a.channels);
    struct matrix in = matrix(c->read[IN_W].value, a.wide, a.channels, a.channels);
    struct matrix out_w = matrix(c->read[OUT_W].value, a.channels, a.inner, a.inner);
    struct matrix out = matrix(a.out, a.rows, a.inner, a.inner);
    const real *mask = c->node->reads > MASK ? c->read[MASK].value : NULL;
    real *y = c->made[0].value;
    in = transposed(in);
    out_w = transposed(out_w);
    kind_product(1, &x, &in, false, a.qkv, a.wide);
    for (size_t row = 0; row < a.rows; row++)
        vector_add(a.qkv + row * a.wide, c->read[IN_B].value, a.wide);
    for (size_t i = 0; i < a.samples * a.heads; i++) {
        size_t sample = i / a.heads, head = i % a.heads;
        struct matrix q = part_of(&a, a.qkv, sample, head, 0);
        struct matrix k = transposed(part_of(&a, a.qkv, sample, head, 1));
        struct matrix v = part_of(&a, a.qkv, sample, head, 2);
        real *weights = weights_of(&a, sample, head);
        kind_product(a.scale, &q, &k, false, weights, a.tokens);
        for (size_t t = 0; t < a.tokens; t++)
            softmax(weights + t * a.tokens, mask ? mask + t * a.tokens : NULL, a.tokens);
        struct matrix p = matrix(weights, a.tokens, a.tokens, a.tokens);
        kind_product(1, &p, &v, false, a.out + sample * a.inner + head * a.depth,
                     a.samples * a.inner);
    }
    kind_product(1, &out, &out_w, false, y, a.channels);
    for (size_t i = 0; i < a.rows * a.channels; i++)
        y[i] += a.part * c->read[OUT_B].value[i % a.channels];
}

/* dS = P (dP - sum(P dP)), row by row, in place of dP. */
static void softmax_backward(const real *p, real *dp, size_t n)
{
    real dot = vector_dot(p, dp, n);
    for (size_t i = 0; i < n; i++)
        dp[i] = p[i] * (dp[i] - dot);
}

static void backward_head(const struct call *c, const struct attention *a, size_t sample,
                          size_t head, const real *d_out)
{
    real *d_qkv = c->work, *dp = c->work + a->rows * (a->wide + a->inner);
    struct matrix d_o = matrix(d_out + sample * a->inner + head * a->depth, a->tokens, a->depth,
                               a->samples * a->inner);
    struct matrix v = transposed(part_of(a, a->qkv, sample, head, 2));
    struct matrix p =
        transposed(matrix(weights_of(a, sample, head), a->tokens, a->tokens, a->tokens));
    struct matrix q = part_of(a, a->qkv, sample, head, 0), k = part_of(a, a->qkv, sample, head, 1);
    real *to = d_qkv + sample * a->wide + 3 * head * a->depth;
    kind_product(1, &d_o, &v, false, dp, a->tokens);
    for (size_t t = 0; t < a->tokens; t++)
        softmax_backward(weights_of(a, sample, head) + t * a->tokens, dp + t * a->tokens,
                         a->tokens);
    struct matrix ds = matrix(dp, a->tokens, a->tokens, a->tokens), ds_t = transposed(ds);
    kind_product(a->scale, &ds, &k, false, to, a->stride);
    kind_product(a->scale, &ds_t, &q, false, to + a->depth, a->stride);
    kind_product(1, &p, &d_o, false, to + 2 * a->depth, a->stride);
}

static void backward(struct call *c)
{
    struct attention a = attention_of(c);
    real *d_qkv = c->work, *d_out = c->work + a.rows * a.wide;
    struct matrix x = matrix(c->read[X].value, a.rows, a.channels, a.channels);
    struct matrix in = matrix(c->read[IN_W].value, a.wide, a.channels, a.channels);
    struct matrix out_w = matrix(c->read[OUT_W].value, a.channels, a.inner, a.inner);
    struct matrix out = matrix(a.out, a.rows, a.inner, a.inner);
    struct matrix dy = matrix(c->made[0].gradient, a.rows, a.channels, a.channels);
    struct matrix dy_t = transposed(dy), d = matrix(d_qkv, a.rows, a.wide, a.wide),
                  d_t = transposed(d);
    kind_product(1, &dy, &out_w, false, d_out, a.inner);
    kind_product(1, &dy_t, &out, true, c->read[OUT_W].gradient, a.inner);
    for (size_t i = 0; i < a.rows * a.channels; i++)
        c->read[OUT_B].gradient[i % a.channels] += a.part * dy.data[i];
    for (size_t i = 0; i < a.samples * a.heads; i++)
        backward_head(c, &a, i / a.heads, i % a.heads, d_out);
    kind_product(1, &d, &in, true, c->read[X].gradient, a.channels);
    kind_product(1, &d_t, &x, true, c->read[IN_W].gradient, a.channels);
    for (size_t row = 0; row < a.rows; row++)
        vector_add(c->read[IN_B].gradient, d_qkv + row * a.wide, a.wide);
}

static struct start start(const struct call *c, size_t k)
{
    if (k == IN_W || k == OUT_W)
        return kind_numbers(0, 1 / sqrt((double)c->read[X].view.whole[2]));
    return kind_numbers(0, 0.02);
}

const struct kind sharded_attention = {.name = "attention",
                                       .reads = READS,
                                       .least = MASK,
                                       .makes = 2,
                                       .arguments = 1,
                                       .check = check,
                                       .saved = saved,
                                       .work = work,
                                       .forward = forward,
                                       .backward = backward,
                                       .start = start};
