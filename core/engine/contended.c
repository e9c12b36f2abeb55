/* What could be wanted of each link, and of each step from one link to the next on some route. */
#include "core/engine/contended.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"

/* A demand of this much more than a link has is rounding. */
static const double rounding = 1e-9;

/* From a link to the next one of a route; PROGRAM_NONE before the first and after the last. */
struct contended_step {
    uint32_t from, to;
};

/* What is wanted of links and steps: all zero but for those of the list. */
struct contended_load {
    double *Bps;     /* [links + steps] */
    uint32_t *thing; /* [n] */
    size_t n;
};

struct contention_test {
    const struct program *p;
    const struct topology *t;
    const struct shapes *shapes;
    const struct flows *f;
    const struct slots *all;
    struct interner steps; /* struct contended_step, each once */
    uint32_t *step_of;     /* of every route, its steps: one more than it has links */
    struct contended_load total, group, phase;
    double *into, *out_of; /* [links] at most so much can come, or go on */
};

/* ---- steps */

/* Where the steps of route r are in step_of. */
static size_t steps_of(const struct contention_test *x, size_t r)
{
    return x->all->routes.start[r] + r;
}

/* Every step of every route, numbered once. */
static enum status contended_list_steps(struct contention_test *x)
{
    const struct routes *routes = &x->all->routes;
    x->steps.size = sizeof(struct contended_step);
    PASS(ARRAY_NEW(x->step_of, routes->start[routes->n] + routes->n));
    for (size_t r = 0; r < routes->n; r++) {
        size_t at = steps_of(x, r);
        struct contended_step s = {PROGRAM_NONE, PROGRAM_NONE};
        for (size_t e = routes->start[r]; e <= routes->start[r + 1]; e++) {
            s.to = e < routes->start[r + 1] ? routes->link[e] : PROGRAM_NONE;
            PASS(intern(&x->steps, &s, sizeof s, &x->step_of[at++], NULL));
            s.from = s.to;
        }
    }
    return STATUS_OK;
}

/* ---- loads */

/* What is wanted of a thing for the first time enters the list. */
static void load_add(struct contended_load *load, uint32_t thing, double Bps)
{
    if (load->Bps[thing] <= 0)
        load->thing[load->n++] = thing;
    load->Bps[thing] += Bps;
}

/* A flow at its bound on all links and steps of its route. */
static void load_add_flow(const struct contention_test *x, struct contended_load *load, size_t flow)
{
    size_t route = x->all->route[flow];
    double Bps = x->f->bound_Bps[flow];
    for (size_t e = slots_first(x->all, flow); e < slots_end(x->all, flow); e++)
        load_add(load, x->all->routes.link[e], Bps);
    for (size_t e = steps_of(x, route); e < steps_of(x, route + 1); e++)
        load_add(load, (uint32_t)x->t->links + x->step_of[e], Bps);
}

/* All flows of a slot. */
static void load_add_slot(const struct contention_test *x, struct contended_load *load, size_t slot)
{
    for (size_t k = flows_first(x->f, slot); k < flows_first(x->f, slot + 1); k++)
        load_add_flow(x, load, k);
}

/* Take everything out of a load, at most or in addition to what is in the other. */
static void load_move(struct contended_load *from, struct contended_load *to, bool most)
{
    for (; from->n > 0; from->n--) {
        uint32_t thing = from->thing[from->n - 1];
        double more = from->Bps[thing] - (most ? to->Bps[thing] : 0);
        if (more > 0)
            load_add(to, thing, more);
        from->Bps[thing] = 0;
    }
}

/* What a copy of group g may want of each link is what its worst phase wants there. */
static void add_group(struct contention_test *x, uint32_t g, size_t copy)
{
    const struct shapes *shapes = x->shapes;
    size_t others = copy * x->all->carriers[g];
    for (uint32_t k = shapes->first[g]; k != PROGRAM_NONE; k = shapes->shaped[k].next) {
        const struct collective_shape *shape = &shapes->shaped[k].shape;
        for (size_t i = 0; i < shape->phases; i++) {
            for (size_t j = shape->phase[i].flow_start; j < shape->phase[i].flow_end; j++)
                load_add_slot(x, &x->phase, others + flows_slot(x->f, k, j));
            load_move(&x->phase, &x->group, true);
        }
    }
    load_move(&x->group, &x->total, false);
}

static enum status load_make(struct contended_load *load, size_t things)
{
    PASS(ARRAY_NEW(load->Bps, things + 1));
    return ARRAY_NEW(load->thing, things + 1);
}

static void load_free(struct contended_load *load)
{
    free(load->Bps);
    free(load->thing);
}

/* ---- what follows */

/* May `neighbour` vouch for `link`, that no more goes through it than it has? Narrower links may,
 * kept or not, and those of the same width that were left out before: so nothing follows from
 * itself, by way of others, and what is left out follows from what is kept. */
static bool vouches(const struct topology *t, const uint32_t *kept, uint32_t link,
                    uint32_t neighbour)
{
    if (neighbour == PROGRAM_NONE || t->link[neighbour].fat)
        return false;
    double width = t->link[neighbour].bandwidth_Bps, own = t->link[link].bandwidth_Bps;
    return width < own || (width <= own && kept[neighbour] == PROGRAM_NONE);
}

/* What can come into `link` from a neighbour or go out to it, of Bps that want to. */
static double through(const struct topology *t, const uint32_t *kept, uint32_t link,
                      uint32_t neighbour, double Bps)
{
    return vouches(t, kept, link, neighbour) ? fmin(Bps, t->link[neighbour].bandwidth_Bps) : Bps;
}

/* Leave out all links that cannot be full, given those that were left out before; true if there
 * were any. */
static bool contended_drop_links(struct contention_test *x, uint32_t *kept)
{
    const struct topology *t = x->t;
    bool any = false;
    memset(x->into, 0, t->links * sizeof *x->into);
    memset(x->out_of, 0, t->links * sizeof *x->out_of);
    const struct contended_step *step = x->steps.data;
    for (size_t k = 0; k < x->steps.n; k++) {
        const struct contended_step *s = &step[k];
        double Bps = x->total.Bps[t->links + k];
        if (s->to != PROGRAM_NONE)
            x->into[s->to] += through(t, kept, s->to, s->from, Bps);
        if (s->from != PROGRAM_NONE)
            x->out_of[s->from] += through(t, kept, s->from, s->to, Bps);
    }
    for (size_t l = 0; l < t->links; l++) {
        double Bps = fmin(x->total.Bps[l], fmin(x->into[l], x->out_of[l]));
        if (kept[l] == PROGRAM_NONE ||
            (!t->link[l].fat && Bps > t->link[l].bandwidth_Bps * (1 + rounding)))
            continue;
        kept[l] = PROGRAM_NONE;
        any = true;
    }
    return any;
}

/* Leave out what cannot be full, again and again, as each link that goes may vouch for others;
 * those that stay get numbers in the order of the platform. */
static void number_links(struct contention_test *x, uint32_t *kept)
{
    uint32_t n = 0;
    for (size_t l = 0; l < x->t->links; l++)
        kept[l] = 0;
    while (contended_drop_links(x, kept))
        ;
    for (size_t l = 0; l < x->t->links; l++)
        if (kept[l] != PROGRAM_NONE)
            kept[l] = n++;
}

enum status contended_links(const struct program *p, const struct topology *t,
                            const struct shapes *shapes, const struct flows *f,
                            const struct slots *all, uint32_t *kept)
{
    enum status st;
    struct contention_test x = {.p = p, .t = t, .shapes = shapes, .f = f, .all = all};
    TRY(contended_list_steps(&x));
    TRY(load_make(&x.total, t->links + x.steps.n));
    TRY(load_make(&x.group, t->links + x.steps.n));
    TRY(load_make(&x.phase, t->links + x.steps.n));
    TRY(ARRAY_NEW(x.into, t->links));
    TRY(ARRAY_NEW(x.out_of, t->links));
    for (size_t s = 0; s < all->group_start[0]; s++)
        load_add_slot(&x, &x.total, s);
    for (uint32_t g = 0; g < p->groups; g++)
        for (size_t copy = 0; copy < program_group_copies(p, g); copy++)
            add_group(&x, g, copy);
    number_links(&x, kept);
out:
    load_free(&x.total);
    load_free(&x.group);
    load_free(&x.phase);
    free(x.step_of);
    interner_free(&x.steps);
    free(x.into);
    free(x.out_of);
    return st;
}
