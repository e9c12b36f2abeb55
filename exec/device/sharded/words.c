/* Words in and out: rows of a table, and what the right word's probability says. A number that
 * counts no row or class is nothing: it reads zeros, and it is not predicted. */
#include <math.h>

#include "exec/device/sharded/kind.h"

/* ---- embedding: y (..., channels) = rows of a table (rows, channels) that x (...) counts */

static enum status embedding_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *table = &c->read[1].view, *y = &c->made[0].view;
    bool fits = table->rank == 2 && y->rank == x->rank + 1 && y->size[x->rank] == table->size[1] &&
                table->size[0] == table->whole[0];
    for (size_t d = 0; fits && d < x->rank; d++)
        fits = x->size[d] == y->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

static struct lookups sharded_lookups(const struct operator_call *c)
{
    const struct view *table = &c->read[1].view;
    return (struct lookups){c->read[0].view.n, table->size[0], table->size[1], c->read[0].value};
}

static void sharded_embedding_forward(struct operator_call *c)
{
    const struct lookups l = sharded_lookups(c);
    c->does->look_up(c->self, &l, c->read[1].value, c->made[0].value);
}

static void sharded_embedding_backward(struct operator_call *c)
{
    const struct lookups l = sharded_lookups(c);
    c->does->look_up_back(c->self, &l, c->made[0].gradient, c->read[1].gradient);
}

static struct start embedding_start(const struct operator_call *c, size_t k)
{
    if (k == 0)
        return (struct start){.source = SOURCE_TOKENS, .of = c->read[1].view.whole[0]};
    return kind_numbers(0, 0.1);
}

const struct operator_kind sharded_embedding = {.reads = 2,
                                                .least = 2,
                                                .makes = 1,
                                                .check = embedding_check,
                                                .forward = sharded_embedding_forward,
                                                .backward = sharded_embedding_backward,
                                                .start = embedding_start};

/* ---- mul: by the root of the argument, as embeddings are by that of their channels (Vaswani et
 * al., NeurIPS 2017, 3.4) */

static void sharded_loss_scale(const struct operator_call *c, bool adds, const real *from, real *to)
{
    const struct stride_spread s = spread_rows(1, c->made[0].view.n, 0, 0);
    c->does->spread(c->self, &s, (real)sqrt((double)c->node->argument[0]), adds, from, to);
}

static void mul_forward(struct operator_call *c)
{
    sharded_loss_scale(c, false, c->read[0].value, c->made[0].value);
}

static void mul_backward(struct operator_call *c)
{
    sharded_loss_scale(c, true, c->made[0].gradient, c->read[0].gradient);
}

const struct operator_kind sharded_mul = {.reads = 1,
                                          .least = 1,
                                          .makes = 1,
                                          .arguments = 1,
                                          .forward = mul_forward,
                                          .backward = mul_backward};

/* ---- log_softmax over the last dimension */

static enum status log_softmax_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    bool fits = x->rank > 0 && view_alike(x, &c->made[0].view) &&
                (size_t)c->node->argument[0] == x->rank - 1 &&
                x->size[x->rank - 1] == x->whole[x->rank - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void log_softmax_forward(struct operator_call *c)
{
    const struct view *v = &c->read[0].view;
    c->does->log_softmax(c->self, view_numbers(v, 0, v->rank - 1), v->size[v->rank - 1],
                         c->read[0].value, c->made[0].value);
}

static void sharded_log_softmax_backward(struct operator_call *c)
{
    const struct view *v = &c->read[0].view;
    c->does->log_softmax_back(c->self, view_numbers(v, 0, v->rank - 1), v->size[v->rank - 1],
                              c->made[0].value, c->made[0].gradient, c->read[0].gradient);
}

const struct operator_kind sharded_log_softmax = {.reads = 1,
                                                  .least = 1,
                                                  .makes = 1,
                                                  .arguments = 1,
                                                  .check = log_softmax_check,
                                                  .forward = log_softmax_forward,
                                                  .backward = sharded_log_softmax_backward};

/* ---- nll_loss: of logarithms of probabilities x (N, C, ...) and what was right y (N, ...), the
 * mean over a sample's places, summed over samples */

static enum status nll_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->read[1].view;
    bool fits = x->rank >= 2 && y->rank + 1 == x->rank && c->made[0].view.rank == 0 &&
                x->size[0] == y->size[0] && x->size[1] == x->whole[1];
    for (size_t d = 2; fits && d < x->rank; d++)
        fits = x->size[d] == y->size[d - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static real nll_share(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    double places = 1;
    for (size_t d = 2; d < x->rank; d++)
        places *= (double)x->whole[d];
    return (real)(1 / places);
}

static struct picks sharded_picks(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    return (struct picks){x->size[0], x->size[1], view_numbers(x, 2, x->rank), c->read[1].value,
                          nll_share(c)};
}

static void nll_forward(struct operator_call *c)
{
    const struct picks p = sharded_picks(c);
    c->does->pick(c->self, &p, c->read[0].value, c->made[0].value);
}

static void nll_backward(struct operator_call *c)
{
    const struct picks p = sharded_picks(c);
    c->does->pick_back(c->self, &p, c->made[0].gradient, c->read[0].gradient);
}

static struct start nll_start(const struct operator_call *c, size_t k)
{
    if (k == 0)
        return kind_numbers(0, 1);
    return (struct start){.source = c->read[1].view.rank > 1 ? SOURCE_TARGETS : SOURCE_LABELS,
                          .of = c->read[0].view.whole[1]};
}

const struct operator_kind sharded_nll_loss = {.reads = 2,
                                               .least = 2,
                                               .makes = 1,
                                               .check = nll_check,
                                               .forward = nll_forward,
                                               .backward = nll_backward,
                                               .start = nll_start};
