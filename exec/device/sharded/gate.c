/* The router of experts: x (N, S, C) by w (C, E) to masks (N, S, E, slots) of dispatch and of
 * combination. A token goes to its one or two most probable experts, as long as these have slots left
 * for the sample: all first choices before all second ones, in the order of the tokens (Lepikhin et
 * al., GShard, ICLR 2021). It comes back times its probability; what has no slot is dropped. */
#include <math.h>
#include <string.h>

#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

enum { DISPATCH, COMBINE };

struct gate {
    size_t samples, tokens, channels, experts, slots, top, rows;
    real *chance; /* saved: (rows, experts) */
};

static struct gate gate_of(const struct call *c)
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

static enum status check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *m = &c->made[0].view;
    bool fits = x->rank == 3 && w->rank == 2 && m->rank == 4 && x->size[2] == w->size[0] &&
                m->size[0] == x->size[0] && m->size[1] == x->size[1] && m->size[2] == w->size[1] &&
                view_alike(m, &c->made[1].view) && c->node->argument[0] >= 1 &&
                (uint64_t)c->node->argument[0] <= w->size[1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static size_t saved(const struct call *c)
{
    struct gate g = gate_of(c);
    return g.rows * g.experts;
}

/* Slots taken of each expert, and choices made by each token of a sample; in a backward the gradient
 * of the logits. */
static size_t work(const struct call *c)
{
    struct gate g = gate_of(c);
    return g.rows * g.experts + g.tokens * g.experts + g.experts;
}

/* The most probable expert that the token has not chosen yet. */
static size_t choose(const struct gate *g, const real *chance, const real *chosen)
{
    size_t best = g->experts;
    for (size_t e = 0; e < g->experts; e++)
        if (chosen[e] == 0 && (best == g->experts || chance[e] > chance[best]))
            best = e;
    return best;
}

static void route(const struct call *c, const struct gate *g, size_t sample)
{
    real *taken = c->work, *chosen = c->work + g->experts;
    memset(c->work, 0, (g->tokens + 1) * g->experts * sizeof *c->work);
    for (size_t choice = 0; choice < g->top; choice++)
        for (size_t s = 0; s < g->tokens; s++) {
            size_t row = sample * g->tokens + s;
            const real *chance = g->chance + row * g->experts;
            size_t e = choose(g, chance, chosen + s * g->experts);
            chosen[s * g->experts + e] = 1;
            if ((size_t)taken[e] == g->slots)
                continue;
            size_t place = (row * g->experts + e) * g->slots + (size_t)taken[e];
            c->made[DISPATCH].value[place] = 1;
            c->made[COMBINE].value[place] = chance[e];
            taken[e] += 1;
        }
}

static void forward(struct call *c)
{
    struct gate g = gate_of(c);
    struct matrix x = matrix(c->read[0].value, g.rows, g.channels, g.channels);
    struct matrix w = matrix(c->read[1].value, g.channels, g.experts, g.experts);
    kind_product(1, &x, &w, false, g.chance, g.experts);
    for (size_t row = 0; row < g.rows; row++) {
        real *chance = g.chance + row * g.experts, most = vector_max(chance, g.experts);
        for (size_t e = 0; e < g.experts; e++)
            chance[e] = vector_exp(chance[e] - most);
        real sum = vector_sum(chance, g.experts);
        for (size_t e = 0; e < g.experts; e++)
            chance[e] /= sum;
    }
    for (size_t k = 0; k < 2; k++)
        memset(c->made[k].value, 0, c->made[k].view.n * sizeof(real));
    for (size_t sample = 0; sample < g.samples; sample++)
        route(c, &g, sample);
}

/* Which slots there are is no function of the probabilities that has a derivative. */
static void backward(struct call *c)
{
    struct gate g = gate_of(c);
    real *d_logits = c->work;
    for (size_t row = 0; row < g.rows; row++) {
        const real *chance = g.chance + row * g.experts;
        real *d = d_logits + row * g.experts;
        for (size_t e = 0; e < g.experts; e++) {
            d[e] = 0;
            for (size_t k = 0; k < g.slots; k++) {
                size_t place = (row * g.experts + e) * g.slots + k;
                if (c->made[DISPATCH].value[place] > 0)
                    d[e] += c->made[COMBINE].gradient[place];
            }
        }
        real dot = vector_dot(chance, d, g.experts);
        for (size_t e = 0; e < g.experts; e++)
            d[e] = chance[e] * (d[e] - dot);
    }
    struct matrix x = matrix(c->read[0].value, g.rows, g.channels, g.channels), x_t = transposed(x);
    struct matrix w = matrix(c->read[1].value, g.channels, g.experts, g.experts);
    struct matrix d = matrix(d_logits, g.rows, g.experts, g.experts), w_t = transposed(w);
    kind_product(1, &d, &w_t, true, c->read[0].gradient, g.channels);
    kind_product(1, &x_t, &d, true, c->read[1].gradient, g.experts);
}

static struct start start(const struct call *c, size_t k)
{
    return kind_numbers(0, 1 / sqrt((double)c->read[k].view.whole[0]));
}

const struct kind sharded_gate = {.name = "gate",
                                  .reads = 2,
                                  .least = 2,
                                  .makes = 2,
                                  .arguments = 1,
                                  .check = check,
                                  .saved = saved,
                                  .work = work,
                                  .forward = forward,
                                  .backward = backward,
                                  .start = start};
