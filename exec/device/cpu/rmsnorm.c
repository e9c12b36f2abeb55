/* RMSNorm: y = x / sqrt(mean(x^2) + 1e-5) * weight. Zhang & Sennrich, NeurIPS 2019.
 *
 * What shares a root is a unit: the whole row, or, where only queries and keys of a fused row are
 * normalised (`of` < channels), all queries and all keys, or each head of theirs (`head`), which
 * then share the weights of their part. Channels from `of` on pass, as those of latent attention do
 * that are turned. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, C); weights [units of different parts], from 1, or from 0 where 1 is added to them
 * (`offset`, Gemma); saved (B, T, units): one over the root; work: a unit. */
static size_t rmsnorm_units(const struct layer *l)
{
    return l->head > 0 ? l->normal / l->head : l->queries < l->normal ? 2 : 1;
}

static enum status rmsnorm_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    PASS(layer_attribute(op, "of", (int64_t)l->in, 1, &l->normal));
    PASS(layer_attribute(op, "queries", (int64_t)l->normal, 1, &l->queries));
    PASS(layer_attribute(op, "head", 0, 1, &l->head));
    PASS(layer_flag(op, "offset", &l->offset));
    bool fits = l->queries <= l->normal && l->normal <= l->in;
    if (!fits || (l->head > 0 && (l->queries % l->head != 0 || l->normal % l->head != 0)))
        return error_set(STATUS_INVALID,
                         "op '%s': cannot normalize %zu of %zu channels in groups of %zu channels",
                         op->name, l->normal, l->in, l->head);
    bool both = l->queries < l->normal;
    size_t weights = l->head == 0 ? l->normal : both ? 2 * l->head : l->head;
    l->part[0] = (struct layer_part){.n = weights, .fill = l->offset ? FILL_ZERO : FILL_ONE};
    l->saved = size_times(l->tokens, rmsnorm_units(l));
    l->work = l->normal;
    return STATUS_OK;
}

/* Channels at .. at + n - 1 of a row, and the first of their weights. */
struct unit {
    size_t at, n, weight;
};

static struct unit rmsnorm_unit_at(const struct layer *l, size_t k)
{
    if (l->head > 0)
        return (struct unit){k * l->head, l->head, k * l->head < l->queries ? 0 : l->head};
    return k == 0 ? (struct unit){0, l->queries, 0}
                  : (struct unit){l->queries, l->normal - l->queries, l->queries};
}

static void rmsnorm_forward(const struct layer *l, struct layer_io *io)
{
    size_t units = rmsnorm_units(l);
    real one = l->offset;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * l->in;
        real *y = io->y + row * l->in;
        for (size_t k = 0; k < units; k++) {
            struct unit u = rmsnorm_unit_at(l, k);
            const real *from = x + u.at, *weight = io->parameter + u.weight;
            real *to = y + u.at, square = vector_dot(from, from, u.n) / (real)u.n;
            real scale = (real)(1.0 / sqrt((double)square + 1e-5));
            for (size_t i = 0; i < u.n; i++)
                to[i] = from[i] * scale * (one + weight[i]);
            io->saved[row * units + k] = scale;
        }
        memcpy(y + l->normal, x + l->normal, (l->in - l->normal) * sizeof *y);
    }
}

/* With n = x scale, g = dy weight, means over the unit, sums over the rows:
 *     dx = scale (g - n mean(g n)),  d_weight = sum of dy n. */
static void rmsnorm_backward(const struct layer *l, struct layer_io *io)
{
    size_t units = rmsnorm_units(l);
    real one = l->offset;
    real *restrict g = io->work;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * l->in, *dy = io->dy + row * l->in;
        real *dx = io->dx[0] + row * l->in;
        for (size_t k = 0; k < units; k++) {
            struct unit u = rmsnorm_unit_at(l, k);
            const real *weight = io->parameter + u.weight, *from = x + u.at, *d = dy + u.at;
            real *restrict d_weight = io->d_parameter + u.weight, *to = dx + u.at;
            real scale = io->saved[row * units + k];
            for (size_t i = 0; i < u.n; i++) {
                g[i] = d[i] * (one + weight[i]);
                d_weight[i] += d[i] * from[i] * scale;
            }
            real mean = vector_dot(g, from, u.n) * scale / (real)u.n;
            for (size_t i = 0; i < u.n; i++)
                to[i] = scale * (g[i] - from[i] * scale * mean);
        }
        memcpy(dx + l->normal, dy + l->normal, (l->in - l->normal) * sizeof *dx);
    }
}

const struct layer_kind kind_rmsnorm = {.type = OPERATOR_rmsnorm,
                                        .inputs = 1,
                                        .shape = rmsnorm_shape,
                                        .forward = rmsnorm_forward,
                                        .backward = rmsnorm_backward};
