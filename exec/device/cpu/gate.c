/* Router of a mixture of experts: scores s = x weight^T, of which a token takes the top_k largest
 * (of equal ones the first). Their weights are a softmax over the scores taken (Mixtral; the same
 * as one over all experts, made to add up to 1 again), or, with `over_all`, those of a softmax over
 * all experts (Switch, Qwen2-MoE). Shazeer et al., ICLR 2017; Fedus et al., JMLR 23 (2022).
 *
 * With `sigmoid` (DeepSeek-V3, 2024, arXiv:2412.19437, section 2.1.2) the weights are sigmoids of
 * the scores, made to add up to 1 unless `over_all`. `bias`: one is added to each score;
 * `correction`: to what experts are chosen by, but not to the weights, and without a gradient (what
 * makes it balance the load is not done here: it stays what it was). Of `groups` of experts only
 * the group_top best are open to a token: by their best expert (DeepSeek-V2), with `sigmoid` by the
 * sum of their two best. Weights count `scale` thousandths.
 *
 * There is no capacity here, no noise, and no loss that balances the load. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

static enum status gate_read_choices(const struct model_op *op, struct layer *l)
{
    size_t scale;
    PASS(layer_flag(op, "over_all", &l->gate.over_all));
    PASS(layer_flag(op, "sigmoid", &l->gate.sigmoid));
    PASS(layer_flag(op, "bias", &l->bias));
    PASS(layer_flag(op, "correction", &l->gate.correction));
    PASS(layer_attribute(op, "groups", 1, 1, &l->gate.groups));
    PASS(layer_attribute(op, "group_top", 1, 1, &l->gate.group_top));
    PASS(layer_attribute(op, "scale", 1000, 1, &scale));
    l->gate.scale = (double)scale / 1000;
    if (l->moe.top_k > l->moe.experts)
        return error_set(STATUS_INVALID, "op '%s': the router cannot choose %zu of %zu experts",
                         op->name, l->moe.top_k, l->moe.experts);
    if (l->moe.experts % l->gate.groups != 0 || l->gate.group_top > l->gate.groups ||
        l->gate.group_top * (l->moe.experts / l->gate.groups) < l->moe.top_k ||
        (l->bias && l->gate.correction))
        return error_set(
            STATUS_INVALID,
            "op '%s': the router cannot choose %zu of %zu experts in %zu of %zu groups", op->name,
            l->moe.top_k, l->moe.experts, l->gate.group_top, l->gate.groups);
    return STATUS_OK;
}

/* x (B, T, C), weight (E, C), bias or correction [E]; y (B, T, 2 K): numbers of the K experts, best
 * first, then their weights; saved (B, T, E): the softmax, 0 where an expert has no part in it, or
 * the sigmoids; work (T, E), of the forward [2 E]: what experts are chosen by, and groups. */
static enum status gate_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_attribute(op, "experts", -1, 1, &l->moe.experts));
    PASS(layer_attribute(op, "top_k", -1, 1, &l->moe.top_k));
    PASS(gate_read_choices(op, l));
    if (model_attribute(op, "einsum", 0) != 0)
        return error_set(
            STATUS_UNSUPPORTED,
            "op '%s': foreline run cannot compute kind '%s' with masks; try --compute paced",
            op->name, op->kind);
    l->out = 2 * l->moe.top_k;
    l->part[0] = (struct layer_part){.n = size_times(l->moe.experts, l->in), .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = l->bias || l->gate.correction ? l->moe.experts : 0,
                                     .fill = FILL_ZERO};
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    l->saved = size_times(l->tokens, l->moe.experts);
    l->work = size_times(l->tokens > 2 ? l->tokens : 2, l->moe.experts);
    return STATUS_OK;
}

/* The K largest of score [E], best first. K is small: K passes. */
static void gate_choose_experts(const struct layer *l, const real *score, real *y)
{
    for (size_t k = 0; k < l->moe.top_k; k++) {
        size_t best = l->moe.experts;
        for (size_t e = 0; e < l->moe.experts; e++) {
            bool taken = false;
            for (size_t i = 0; i < k; i++)
                taken |= (size_t)y[i] == e;
            if (!taken && (best == l->moe.experts || score[e] > score[best]))
                best = e;
        }
        y[k] = (real)best;
    }
}

/* How good a group is whose experts have score [n]. */
static real group_score(const struct layer *l, const real *score, size_t n)
{
    real best = (real)-INFINITY, second = (real)-INFINITY;
    for (size_t e = 0; e < n; e++)
        if (score[e] > best) {
            second = best;
            best = score[e];
        } else if (score[e] > second) {
            second = score[e];
        }
    return l->gate.sigmoid && n > 1 ? best + second : best;
}

/* Experts of all groups but the best have no score; of equal groups the first. group [groups] */
static void close_groups(const struct layer *l, real *score, real *group)
{
    size_t n = l->moe.experts / l->gate.groups;
    for (size_t g = 0; g < l->gate.groups; g++)
        group[g] = group_score(l, score + g * n, n);
    for (size_t g = 0; g < l->gate.groups; g++) {
        size_t better = 0;
        for (size_t o = 0; o < l->gate.groups; o++)
            better += group[o] > group[g] || (group[o] == group[g] && o < g);
        for (size_t e = g * n; better >= l->gate.group_top && e < (g + 1) * n; e++)
            score[e] = (real)-INFINITY;
    }
}

/* Does expert e take part in the softmax? */
static bool gate_takes_part(const struct layer *l, const real *y, size_t e)
{
    bool chosen = l->gate.over_all;
    for (size_t k = 0; k < l->moe.top_k; k++)
        chosen |= (size_t)y[k] == e;
    return chosen;
}

/* p [E], the scores of a row, becomes a softmax. */
static void gate_weigh_by_softmax(const struct layer *l, const real *y, real *p)
{
    real largest = p[(size_t)y[0]], sum = 0;
    for (size_t e = 0; e < l->moe.experts; e++) /* groups may be closed to the largest of all */
        largest = l->gate.over_all && p[e] > largest ? p[e] : largest;
    for (size_t e = 0; e < l->moe.experts; e++) {
        p[e] = gate_takes_part(l, y, e) ? vector_exp(p[e] - largest) : 0;
        sum += p[e];
    }
    for (size_t e = 0; e < l->moe.experts; e++)
        p[e] /= sum;
}

/* What the weights of a row's choices are divided by. */
static real gate_total_chance(const struct layer *l, const real *y, const real *p)
{
    real sum = 0;
    if (!l->gate.sigmoid || l->gate.over_all)
        return 1;
    for (size_t k = 0; k < l->moe.top_k; k++)
        sum += p[(size_t)y[k]];
    return sum;
}

/* p [E]: scores of a row, then what weights are made of; by [2 E]. */
static void gate_route_token(const struct layer *l, const real *bias, real *p, real *y, real *by)
{
    size_t n = l->moe.experts;
    for (size_t e = 0; e < n; e++) {
        p[e] += l->bias ? bias[e] : 0;
        p[e] = l->gate.sigmoid ? 1 / (1 + vector_exp(-p[e])) : p[e];
        by[e] = p[e] + (l->gate.correction ? bias[e] : 0);
    }
    if (l->gate.group_top < l->gate.groups)
        close_groups(l, by, by + n);
    gate_choose_experts(l, by, y);
    if (!l->gate.sigmoid)
        gate_weigh_by_softmax(l, y, p);
    real scale = (real)l->gate.scale / gate_total_chance(l, y, p);
    for (size_t k = 0; k < l->moe.top_k; k++)
        y[l->moe.top_k + k] = scale * p[(size_t)y[k]];
}

static void gate_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens, n = l->moe.experts;
    struct gemm scores = product(1, matrix(io->x[0], rows, l->in, l->in),
                                 transposed(matrix(io->parameter, n, l->in, l->in)), io->saved, n);
    gemm(&scores);
    for (size_t row = 0; row < rows; row++)
        gate_route_token(l, io->parameter + n * l->in, io->saved + row * n, io->y + row * l->out,
                         io->work);
}

/* The gradient of a row's scores, from g, those of the weights w at the experts taken and 0
 * elsewhere. Of a softmax
 *     ds = p (g scale - sum over the row of g w),
 * of sigmoids that add up to S, where the chosen ones are
 *     ds = p (1 - p) (g scale - sum of g w) / S;  not made to: the same without the sum and S. */
static void gate_scores_backward(const struct layer *l, const real *p, const real *y,
                                 const real *dy, real *ds)
{
    const real *g = dy + l->moe.top_k, *w = y + l->moe.top_k;
    real mean = 0, scale = (real)l->gate.scale, sum = gate_total_chance(l, y, p);
    for (size_t k = 0; k < l->moe.top_k; k++)
        mean += g[k] * w[k];
    for (size_t e = 0; e < l->moe.experts; e++)
        ds[e] = l->gate.sigmoid ? 0 : -p[e] * mean;
    for (size_t k = 0; k < l->moe.top_k; k++) {
        size_t e = (size_t)y[k];
        ds[e] += l->gate.sigmoid
                     ? p[e] * (1 - p[e]) * (g[k] * scale - (l->gate.over_all ? 0 : mean)) / sum
                     : w[k] * g[k];
    }
}

/* dx = ds weight,  d_weight += ds^T x. The choice itself has no derivative. Sample by sample, so
 * that the scratch is one sample's. */
static void gate_backward(const struct layer *l, struct layer_io *io)
{
    size_t n = l->moe.experts;
    for (size_t b = 0; b < io->batch; b++) {
        const real *x = io->x[0] + b * l->input;
        for (size_t t = 0; t < l->tokens; t++) {
            size_t row = b * l->tokens + t;
            gate_scores_backward(l, io->saved + row * n, io->y + row * l->out,
                                 io->dy + row * l->out, io->work + t * n);
            if (l->bias)
                vector_add(io->d_parameter + n * l->in, io->work + t * n, n);
        }
        struct gemm_operand ds = matrix(io->work, l->tokens, n, n);
        struct gemm inputs =
            product(1, ds, matrix(io->parameter, n, l->in, l->in), io->dx[0] + b * l->input, l->in);
        struct gemm weights = product_added(transposed(ds), matrix(x, l->tokens, l->in, l->in),
                                            io->d_parameter, l->in);
        gemm(&inputs);
        gemm(&weights);
    }
}

/* Every shard of tensor parallelism routes all tokens: no divide(). */
const struct layer_kind kind_gate = {.type = OPERATOR_gate,
                                     .inputs = 1,
                                     .shape = gate_shape,
                                     .forward = gate_forward,
                                     .backward = gate_backward,
                                     .reads_output = true};
