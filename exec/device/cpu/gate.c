/* Router of a mixture of experts: scores s = x weight^T, of which a token takes the top_k largest
 * (of equal ones the first). Their weights are a softmax over the scores taken (Mixtral; the same
 * as one over all experts, made to add up to 1 again), or, with `over_all`, those of a softmax over
 * all experts (Switch, Qwen2-MoE). Shazeer et al., ICLR 2017; Fedus et al., JMLR 23 (2022).
 *
 * There is no capacity here, no noise, and no loss that balances the load. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, C), weight (E, C); y (B, T, 2 K): numbers of the K experts, best first, then their
 * weights; saved (B, T, E): the softmax, 0 where an expert has no part in it; work (T, E). */
static enum status shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_attribute(op, "experts", -1, 1, &l->experts));
    PASS(layer_attribute(op, "top_k", -1, 1, &l->top_k));
    PASS(layer_flag(op, "over_all", &l->over_all));
    if (l->top_k > l->experts)
        return error_set(STATUS_INVALID, "op '%s': %zu of %zu experts", op->name, l->top_k,
                         l->experts);
    if (model_attribute(op, "scoring", 0) > 0)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': no numerics for kind '%s' with more parameters than its product",
                         op->name, op->kind);
    if (model_attribute(op, "einsum", 0) != 0)
        return error_set(STATUS_UNSUPPORTED, "op '%s': no numerics for kind '%s' with masks",
                         op->name, op->kind);
    l->out = 2 * l->top_k;
    l->part[0] = (struct layer_part){.n = size_times(l->experts, l->in), .fill = FILL_NORMAL};
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->saved = size_times(l->tokens, l->experts);
    l->work = l->saved;
    return STATUS_OK;
}

/* The K largest of score [E], best first. K is small: K passes. */
static void choose(const struct layer *l, const real *score, real *y)
{
    for (size_t k = 0; k < l->top_k; k++) {
        size_t best = l->experts;
        for (size_t e = 0; e < l->experts; e++) {
            bool taken = false;
            for (size_t i = 0; i < k; i++)
                taken |= (size_t)y[i] == e;
            if (!taken && (best == l->experts || score[e] > score[best]))
                best = e;
        }
        y[k] = (real)best;
    }
}

/* Does expert e take part in the softmax? */
static bool takes_part(const struct layer *l, const real *y, size_t e)
{
    bool chosen = l->over_all;
    for (size_t k = 0; k < l->top_k; k++)
        chosen |= (size_t)y[k] == e;
    return chosen;
}

static void forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens, n = l->experts;
    struct gemm scores = product(1, matrix(io->x[0], rows, l->in, l->in),
                                 transposed(matrix(io->parameter, n, l->in, l->in)), io->saved, n);
    gemm(&scores);
    for (size_t row = 0; row < rows; row++) {
        real *p = io->saved + row * n, *y = io->y + row * l->out, sum = 0;
        choose(l, p, y);
        real largest = p[(size_t)y[0]];
        for (size_t e = 0; e < n; e++) {
            p[e] = takes_part(l, y, e) ? vector_exp(p[e] - largest) : 0;
            sum += p[e];
        }
        for (size_t e = 0; e < n; e++)
            p[e] /= sum;
        for (size_t k = 0; k < l->top_k; k++)
            y[l->top_k + k] = p[(size_t)y[k]];
    }
}

/* With g the gradients of the weights at the experts taken and 0 elsewhere,
 *     ds = p (g - sum over the row of g p),  dx = ds weight,  d_weight += ds^T x.
 * The choice itself has no derivative. Sample by sample, so that the scratch is one sample's. */
static void backward(const struct layer *l, struct layer_io *io)
{
    size_t n = l->experts, k_first = l->top_k;
    for (size_t b = 0; b < io->batch; b++) {
        const real *x = io->x[0] + b * l->input;
        for (size_t t = 0; t < l->tokens; t++) {
            size_t row = b * l->tokens + t;
            const real *p = io->saved + row * n, *y = io->y + row * l->out;
            const real *dy = io->dy + row * l->out;
            real *ds = io->work + t * n, mean = 0;
            for (size_t k = 0; k < l->top_k; k++)
                mean += dy[k_first + k] * y[k_first + k];
            for (size_t e = 0; e < n; e++)
                ds[e] = -p[e] * mean;
            for (size_t k = 0; k < l->top_k; k++)
                ds[(size_t)y[k]] += y[k_first + k] * dy[k_first + k];
        }
        struct matrix ds = matrix(io->work, l->tokens, n, n);
        struct gemm inputs =
            product(1, ds, matrix(io->parameter, n, l->in, l->in), io->dx[0] + b * l->input, l->in);
        struct gemm weights = product_added(transposed(ds), matrix(x, l->tokens, l->in, l->in),
                                            io->d_parameter, l->in);
        gemm(&inputs);
        gemm(&weights);
    }
}

/* Every shard of tensor parallelism routes all tokens: no divide(). */
const struct layer_kind kind_gate = {
    .name = "gate", .inputs = 1, .shape = shape, .forward = forward, .backward = backward};
