/* Layers of 16-bit numbers that are computed in fp32. */
#include "exec/device/cpu/half.h"

#include <string.h>

#include "exec/device/backend.h"

/* Is part k of its parameters an operand of products? All others begin at zero or one, or are
 * looked up. */
static bool multiplies(const struct layer *l, size_t k)
{
    return l->part[k].fill != FILL_ZERO && l->part[k].fill != FILL_ONE && !l->kind->exact;
}

/* Everything that a call has in fp32, one after the other behind the kind's own scratch: its inputs
 * and their gradients, its output and that one's, its parameters and those it borrows. */
size_t half_work(const struct layer *l, size_t batch)
{
    size_t passed = l->output;
    if (!l->rounds)
        return l->work;
    for (size_t i = 0; i < l->inputs; i++)
        passed = size_plus(passed, layer_input(l, i));
    passed = size_times(2, size_times(batch, passed));
    return size_plus(l->work, size_plus(passed, size_plus(l->parameters, l->shared)));
}

enum status half_fits(const struct model_op *op, const struct layer *l, size_t bf16, size_t fp16)
{
    size_t most = l->half == ELEMENT_BF16 ? bf16 : fp16;
    if (l->half && (l->spread.ranks > 1 || l->context.replicas > 1))
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': expert and context parallelism run in fp32 only; plan the model "
                         "with dtype=fp32",
                         op->name);
    if (l->half && l->moe.experts > most)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': %zu experts are more than the %zu that 16-bit activations can "
                         "number; plan the model with dtype=fp32",
                         op->name, l->moe.experts, most);
    return STATUS_OK;
}

enum status half_adapt(const struct model_op *op, struct layer *l)
{
    l->rounds = l->half ? &backend_cpu : NULL;
    return half_fits(op, l, 1 << 8, 1 << 11); /* all whole numbers are there up to them */
}

/* n numbers out of *next. */
static real *half_take_numbers(real **next, size_t n)
{
    real *data = *next;
    *next += n;
    return data;
}

static const real *widened(const struct layer *l, const void *half, size_t n, real **next)
{
    real *wide = half_take_numbers(next, n);
    l->rounds->widen(NULL, l->half, wide, half, n);
    return wide;
}

/* Weights in 16 bits, the others as they are. */
static const real *parameters(const struct layer *l, const struct layer_io *io, real **next)
{
    real *all = half_take_numbers(next, l->parameters);
    for (size_t k = 0, at = 0; k < LAYER_PARTS; at += l->part[k++].n)
        if (l->part[k].n > 0 && multiplies(l, k))
            l->rounds->widen(NULL, l->half, all + at, element_at(l->half, io->half, at),
                             l->part[k].n);
        else if (l->part[k].n > 0)
            memcpy(all + at, io->parameter + at, l->part[k].n * sizeof *all);
    return all;
}

/* io's operands in fp32; room for what a pass makes. `made`: the output is there. */
static struct layer_io half_widen_numbers(const struct layer *l, const struct layer_io *io,
                                          bool made)
{
    struct layer_io wide = *io;
    real *next = io->work + l->work;
    size_t out = io->batch * l->output;
    for (size_t i = 0; i < l->inputs; i++) {
        size_t n = io->batch * layer_input(l, i);
        if (!made || !l->kind->forgets)
            wide.x[i] = widened(l, io->x[i], n, &next);
        wide.dx[i] = half_take_numbers(&next, n);
    }
    wide.y = half_take_numbers(&next, out);
    if (made) {
        l->rounds->widen(NULL, l->half, wide.y, io->y, out);
        wide.dy = widened(l, io->dy, out, &next);
    }
    if (l->parameters > 0)
        wide.parameter = parameters(l, io, &next);
    if (l->shared > 0)
        wide.shared = widened(l, io->half_shared, l->shared, &next);
    return wide;
}

void half_forward(const struct layer *l, struct layer_io *io)
{
    struct layer_io wide = half_widen_numbers(l, io, false);
    l->kind->forward(l, &wide);
    l->rounds->narrow(NULL, l->half, io->y, wide.y, io->batch * l->output);
    io->loss = wide.loss;
    memcpy(io->hits, wide.hits, sizeof io->hits);
}

void half_backward(const struct layer *l, struct layer_io *io)
{
    struct layer_io wide = half_widen_numbers(l, io, true);
    l->kind->backward(l, &wide);
    for (size_t i = 0; i < l->inputs; i++)
        l->rounds->narrow(NULL, l->half, io->dx[i], wide.dx[i], io->batch * layer_input(l, i));
}

void half_backward_weight(const struct layer *l, struct layer_io *io)
{
    struct layer_io wide = half_widen_numbers(l, io, true);
    l->kind->backward_weight(l, &wide);
}
