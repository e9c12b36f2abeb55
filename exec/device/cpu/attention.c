/* Multi-head scaled dot-product attention on a fused input x (B, T, 3C) = q | k | v, head h in
 * channels hD .. (h+1)D of each, D = C / heads; y (B, T, C). Per sample and head
 *     P = softmax(q k^T / sqrt(D)), row t over columns <= t if causal;  y = P v.
 * P (B, heads, T, T) is saved. Naive on purpose: four T x T products per head forward and backward
 * together, no tiling. Vaswani et al., NIPS 2017, arXiv:1706.03762. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, 3C), y (B, T, C), saved (B, heads, T, T), work (T, T): the gradient of one head's P.
 * No parameters: the products around attention are layers of their own. */
static enum status shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->out));
    PASS(layer_attribute(op, "heads", -1, 1, &l->heads));
    PASS(layer_flag(op, "causal", &l->causal));
    if (l->out % l->heads != 0)
        return error_set(STATUS_INVALID, "op '%s': %zu channels do not divide into %zu heads",
                         op->name, l->out, l->heads);
    l->in = 3 * l->out;
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->work = size_times(l->tokens, l->tokens);
    l->saved = size_times(l->heads, l->work);
    return STATUS_OK;
}

/* The matrices of one sample and head: q, k, v (T, D), rows 3C apart; y (T, D), rows C apart. */
struct head {
    size_t tokens, depth, x_stride, y_stride; /* T, D, 3C, C */
    real scale;                               /* 1 / sqrt(D) */
    struct matrix q, k, v, p;                 /* p (T, T) */
    real *probability;                        /* p's numbers */
};

static struct head head_of(const struct layer *l, const struct layer_io *io, size_t b, size_t h)
{
    size_t c = l->out, depth = c / l->heads, t = l->tokens;
    const real *x = io->x[0] + b * l->input + h * depth;
    real *p = io->saved + b * l->saved + h * l->work;
    return (struct head){
        .tokens = t,
        .depth = depth,
        .x_stride = l->in,
        .y_stride = c,
        .scale = (real)(1.0 / sqrt((double)depth)),
        .q = matrix(x, t, depth, l->in),
        .k = matrix(x + c, t, depth, l->in),
        .v = matrix(x + 2 * c, t, depth, l->in),
        .p = matrix(p, t, t, t),
        .probability = p,
    };
}

/* Softmax of the first `n` of `tokens` numbers, zeros after; Milakov & Gimelshein 2018 call it the
 * safe one: the largest is subtracted first. */
static void softmax(real *p, size_t n, size_t tokens)
{
    real largest = vector_max(p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = vector_exp(p[i] - largest);
    real scale = 1 / vector_sum(p, n);
    for (size_t i = 0; i < n; i++)
        p[i] *= scale;
    for (size_t i = n; i < tokens; i++)
        p[i] = 0;
}

/* p = softmax(scale q k^T), y = p v: equation (1) of Vaswani et al. */
static void head_forward(const struct head *a, bool causal, real *y)
{
    size_t t = a->tokens;
    struct gemm scores = product(a->scale, a->q, transposed(a->k), a->probability, t);
    struct gemm mean = product(1, a->p, a->v, y, a->y_stride);
    gemm(&scores);
    for (size_t row = 0; row < t; row++)
        softmax(a->probability + row * t, causal ? row + 1 : t, t);
    gemm(&mean);
}

/* The gradient of y = p v, and then that of the softmax, whose Jacobian is diag(p) - p p^T:
 *     dv = p^T dy,  dp = dy v^T,  ds = p (dp - sum over the row of dp p).
 * dy (T, D) with rows C apart, dv (T, D) with rows 3C apart; ds (T, T), dp before it. */
static void head_backward_softmax(const struct head *a, const real *dy, real *dv, real *ds)
{
    size_t t = a->tokens;
    struct matrix from = matrix(dy, t, a->depth, a->y_stride);
    struct gemm values = product(1, transposed(a->p), from, dv, a->x_stride);
    struct gemm probabilities = product(1, from, transposed(a->v), ds, t);
    gemm(&values);
    gemm(&probabilities);
    for (size_t row = 0; row < t; row++) {
        const real *p = a->probability + row * t;
        real *d = ds + row * t, mean = vector_dot(d, p, t);
        for (size_t i = 0; i < t; i++)
            d[i] = p[i] * (d[i] - mean);
    }
}

/* The gradient of s = scale q k^T: dq = scale ds k, dk = scale ds^T q; all (T, D), rows 3C
 * apart. */
static void head_backward_scores(const struct head *a, const real *ds, real *dq, real *dk)
{
    struct matrix from = matrix(ds, a->tokens, a->tokens, a->tokens);
    struct gemm queries = product(a->scale, from, a->k, dq, a->x_stride);
    struct gemm keys = product(a->scale, transposed(from), a->q, dk, a->x_stride);
    gemm(&queries);
    gemm(&keys);
}

/* Every head by itself: 2 T^2 D FLOP in the scores and as many in y, 4 T^2 C per sample; a causal
 * layer computes the scores above the diagonal too and forgets them. */
static void forward(const struct layer *l, struct layer_io *io)
{
    if (l->context > 1) {
        context_forward(l, io);
        return;
    }
    for (size_t b = 0; b < io->batch; b++)
        for (size_t h = 0; h < l->heads; h++) {
            struct head a = head_of(l, io, b, h);
            head_forward(&a, l->causal, io->y + b * l->output + h * a.depth);
        }
}

/* Twice the forward: four products of the same size; P comes from `saved`, not from x. dx (B, T,
 * 3C) is written once by every head, whose channels are its own: overwritten, not added to. */
static void backward(const struct layer *l, struct layer_io *io)
{
    if (l->context > 1) {
        context_backward(l, io);
        return;
    }
    for (size_t b = 0; b < io->batch; b++)
        for (size_t h = 0; h < l->heads; h++) {
            struct head a = head_of(l, io, b, h);
            const real *dy = io->dy + b * l->output + h * a.depth;
            real *dq = io->dx[0] + b * l->input + h * a.depth;
            head_backward_softmax(&a, dy, dq + 2 * l->out, io->work);
            head_backward_scores(&a, io->work, dq, dq + l->out);
        }
}

/* By heads: shard k of p has heads k h/p .. (k + 1) h/p - 1 of q, k and v, which the product before
 * divides in the same way (layer_divide(): groups). Nothing is exchanged here: the row-parallel
 * product after attention reduces. Shoeybi et al. 2019, arXiv:1909.08053, section 3. */
static enum status divide(const struct model_op *op, const struct layer_shard *s, size_t batch,
                          struct layer *l)
{
    (void)batch;
    if (l->heads % s->shards != 0)
        return layer_indivisible(op, s, "so many heads");
    l->heads /= s->shards;
    l->out /= s->shards;
    l->in = 3 * l->out;
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->saved = size_times(l->heads, size_times(l->tokens, l->tokens));
    return STATUS_OK;
}

const struct layer_kind kind_attention = {"attention", 1, shape, forward, backward, NULL, divide};
