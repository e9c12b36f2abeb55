/* What shared links add to plans that the quick evaluator scores without them: plans of one
 * division wait for the same links, so that one of them says by how much all are slower. */
#include <math.h>

#include "core/base/array.h"
#include "partition/auto_search.h"

struct auto_division {
    enum partition_placement placement;
    size_t depth, devices;
    struct strategy_stage own; /* its degrees count */
    double without_s;          /* one of its plans without shared links; */
    double slower;             /* with them it takes so many times as long */
};

static struct auto_division *find_division(const struct auto_state *s,
                                           const struct auto_candidate *c)
{
    const struct strategy_stage *own = &c->plan.stage[0].own;
    for (size_t i = 0; i < s->divisions; i++) {
        struct auto_division *d = &s->division[i];
        if (d->placement == c->placement && d->depth == c->depth && d->devices == c->devices &&
            !strategy_differs(STRATEGY_STAGE, strategy_divisions(), &d->own, own))
            return d;
    }
    return NULL;
}

/* A plan that is so much faster than the one that has said so says so anew. */
static const double faster = 0.97;

static enum status ask_links(struct auto_state *s, const struct auto_candidate *c,
                             struct auto_division **d)
{
    struct evaluation found;
    if (!*d) {
        PASS(ARRAY_ROOM(s->division, s->divisions));
        *d = &s->division[s->divisions++];
    }
    PASS(s->e->shared(s->e->context, &c->plan, &found));
    auto_count(s, found.lowered);
    **d = (struct auto_division){.placement = c->placement,
                                 .depth = c->depth,
                                 .devices = c->devices,
                                 .own = c->plan.stage[0].own,
                                 .without_s = c->quick.iteration_s,
                                 .slower = fmax(found.iteration_s / c->quick.iteration_s, 1)};
    return STATUS_OK;
}

enum status auto_add_sharing(struct auto_state *s, struct auto_candidate *c)
{
    struct evaluation *e = &c->quick;
    c->slowed = false;
    if (!s->e->shared || e->exact || auto_is_uneven(&c->plan))
        return STATUS_OK;
    struct auto_division *d = find_division(s, c);
    if (e->iteration_s < s->best_s && (!d || e->iteration_s <= faster * d->without_s))
        PASS(ask_links(s, c, &d));
    if (!d)
        return STATUS_OK;
    double more_s = (d->slower - 1) * e->iteration_s;
    e->iteration_s += more_s;
    e->gradients_s += more_s; /* most of what shares links */
    e->samples_per_s /= d->slower;
    c->slowed = true;
    return STATUS_OK;
}
