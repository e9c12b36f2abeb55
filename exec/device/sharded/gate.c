/* The router of experts: x (N, S, C) by w (C, E) to masks (N, S, E, slots) of dispatch and of
 * combination. A token goes to its one or two most probable experts, as long as these have slots
 * left for the sample: all first choices before all second ones, in the order of the tokens
 * (Lepikhin et al., GShard, ICLR 2021). It comes back times its probability; what has no slot is
 * dropped. */
#include <math.h>

#include "exec/device/sharded/kind.h"

enum { DISPATCH, COMBINE };

struct gate {
    size_t samples, tokens, channels, experts, slots, top, rows;
    real *chance; /* saved: (rows, experts) */
};

static struct gate sharded_gate_sizes(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *m = &c->made[0].view;
    return (struct gate){x->size[0],
                         x->size[1],
                         x->size[2],
                         m->size[2],
                         m->size[3],
                         (size_t)c->node->argument[0],
                         x->size[0] * x->size[1],
                         c->saved};
}

static enum status sharded_gate_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *m = &c->made[0].view;
    bool fits = x->rank == 3 && w->rank == 2 && m->rank == 4 && x->size[2] == w->size[0] &&
                m->size[0] == x->size[0] && m->size[1] == x->size[1] && m->size[2] == w->size[1] &&
                view_alike(m, &c->made[1].view) && c->node->argument[0] >= 1 &&
                (uint64_t)c->node->argument[0] <= w->size[1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t sharded_gate_saved(const struct operator_call *c)
{
    struct gate g = sharded_gate_sizes(c);
    return g.rows * g.experts;
}

/* Which experts each token has chosen (in a backward: the gradient of the logits), its latest
 * choice, and the slots taken of each expert. */
static size_t sharded_gate_work(const struct operator_call *c)
{
    struct gate g = sharded_gate_sizes(c);
    return g.rows * g.experts + g.rows + g.samples * g.experts;
}

static struct slot_routes sharded_gate_routes(const struct operator_call *c, const struct gate *g)
{
    real *picked = c->work + g->rows * g->experts;
    return (struct slot_routes){g->samples,
                                g->tokens,
                                g->experts,
                                g->slots,
                                g->top,
                                g->chance,
                                c->work,
                                picked,
                                picked + g->rows,
                                c->made[DISPATCH].value,
                                c->made[COMBINE].value};
}

static void sharded_gate_forward(struct operator_call *c)
{
    struct gate g = sharded_gate_sizes(c);
    const struct slot_routes r = sharded_gate_routes(c, &g);
    kind_product(
        c, &(struct kind_product){.a = matrix(c->read[0].value, g.rows, g.channels, g.channels),
                                  .b = matrix(c->read[1].value, g.channels, g.experts, g.experts),
                                  .to = g.chance,
                                  .to_stride = g.experts});
    c->does->softmax(c->self, g.rows, g.experts, NULL, 1, g.chance);
    for (size_t k = 0; k < 2; k++)
        kind_zero(c, c->made[k].view.n, c->made[k].value);
    c->does->route(c->self, &r);
}

/* Which slots there are is no function of the probabilities that has a derivative. */
static void sharded_gate_backward(struct operator_call *c)
{
    struct gate g = sharded_gate_sizes(c);
    const struct slot_routes r = sharded_gate_routes(c, &g);
    struct gemm_operand x = matrix(c->read[0].value, g.rows, g.channels, g.channels);
    struct gemm_operand w = matrix(c->read[1].value, g.channels, g.experts, g.experts);
    struct gemm_operand d = matrix(c->work, g.rows, g.experts, g.experts);
    c->does->route_back(c->self, &r, c->made[COMBINE].gradient, c->work);
    c->does->softmax_back(c->self, g.rows, g.experts, g.chance, c->work);
    kind_product(c, &(struct kind_product){.a = d,
                                           .b = transposed(w),
                                           .adds = true,
                                           .to = c->read[0].gradient,
                                           .to_stride = g.channels});
    kind_product(c, &(struct kind_product){.a = transposed(x),
                                           .b = d,
                                           .adds = true,
                                           .to = c->read[1].gradient,
                                           .to_stride = g.experts});
}

static struct start sharded_gate_start(const struct operator_call *c, size_t k)
{
    return kind_numbers(0, 1 / sqrt((double)c->read[k].view.whole[0]));
}

const struct operator_kind sharded_gate = {.reads = 2,
                                           .least = 2,
                                           .makes = 2,
                                           .arguments = 1,
                                           .check = sharded_gate_check,
                                           .saved = sharded_gate_saved,
                                           .work = sharded_gate_work,
                                           .forward = sharded_gate_forward,
                                           .backward = sharded_gate_backward,
                                           .start = sharded_gate_start};
