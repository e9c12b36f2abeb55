/* When nothing fits: which plan lacks least memory, by branch and bound. Shapes are looked at in
 * order of what their weights, gradients and optimizer state take at least; a plan is scored only
 * where neither what its ranks keep at least nor a shorter iteration lacks as much as the best so
 * far. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "partition/auto_search.h"

/* Of the ops that a search may lower, on top. */
static const double part_of_work = 0.25;

struct nearest {
    struct auto_state *s;
    double lack;                /* of the best, bytes; what lacks as much is left out */
    double until;               /* ops lowered */
    struct auto_candidate best; /* no plan: none yet */
};

struct nearest_shape {
    double lack; /* at least */
    const struct auto_shape *shape;
};

static int nearest_by_lack(const void *a, const void *b)
{
    const struct nearest_shape *x = a, *y = b;
    if (x->lack != y->lack)
        return x->lack < y->lack ? -1 : 1;
    return (x->shape > y->shape) - (x->shape < y->shape);
}

static bool nearest_is_done(const struct nearest *n)
{
    const struct auto_state *s = n->s;
    return auto_must_stop(s) || (s->r->lowered > 0 && *s->lowered > n->until) ||
           (s->r->only_fits && n->best.plan.stages > 0);
}

static enum status nearest_try_plan(struct nearest *n, const struct auto_trial *t,
                                    const struct auto_saving *saving)
{
    enum status st;
    struct auto_candidate c = {.placement = t->shape.placement,
                               .depth = t->shape.pipeline,
                               .devices = auto_devices(&t->shape)};
    TRY(auto_make_plan(n->s, t, saving, &c.plan));
    TRY(auto_score(n->s, &c));
    double lack = isinf(c.quick.iteration_s)
                      ? INFINITY
                      : -(double)auto_spare_bytes(n->s->t, n->s->r, &c.quick);
    if (lack < n->lack) {
        struct auto_candidate worse = n->best;
        n->lack = lack;
        n->best = c;
        c = worse;
    }
out:
    plan_free(&c.plan);
    return st;
}

/* What saves most comes first. */
static enum status nearest_try_schedule(struct nearest *n, struct auto_trial *t)
{
    PASS(auto_count_flight(n->s, t));
    for (t->saving = AUTO_SAVINGS - 1; t->saving >= 0 && !nearest_is_done(n); t->saving--) {
        const struct auto_saving *saving = &auto_savings[t->saving];
        double lack;
        if (!auto_saving_wanted(n->s, t, saving) || auto_least_lack(n->s, t) >= n->lack)
            continue;
        PASS(auto_peak_lack(n->s, t, saving, &lack));
        if (lack < n->lack)
            PASS(nearest_try_plan(n, t, saving));
    }
    return STATUS_OK;
}

/* Groups of replicas depend on the placement, if both are tried. */
static enum status nearest_try_chunks(struct nearest *n, const struct auto_shape *shape,
                                      uint32_t chunks)
{
    enum status st = STATUS_OK;
    bool alike = shape->pipeline == 1 || shape->replicas == 1;
    int last = alike ? PLACE_PIPELINES : (int)auto_last_placement(n->s);
    int first = alike ? PLACE_PIPELINES : (int)auto_first_placement(n->s);
    for (int p = first; p <= last && st == STATUS_OK; p++) {
        struct plan cut = {0};
        struct auto_trial t = {.shape = *shape, .cut = &cut};
        t.shape.chunks = chunks;
        t.shape.placement = (enum partition_placement)p;
        for (size_t k = 0; k < schedules_n && !nearest_is_done(n) && st == STATUS_OK; k++) {
            t.schedule = schedules[k];
            if (!auto_schedule_wanted(n->s, t.schedule, &t.shape))
                continue;
            st = auto_cut_for(n->s, &t, &cut);
            if (st == STATUS_OK)
                st = nearest_try_schedule(n, &t);
        }
        plan_free(&cut);
    }
    return st;
}

static enum status nearest_try_shapes(struct nearest *n, const struct auto_shapes *all)
{
    enum status st;
    struct auto_state *s = n->s;
    struct nearest_shape *order = NULL;
    double room = 0;
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : AUTO_CHUNKS;
    TRY(ARRAY_NEW(order, all->n));
    for (size_t k = 0; k < s->t->types; k++)
        room = fmax(room, auto_room(s, k));
    for (size_t i = 0; i < all->n; i++)
        order[i] =
            (struct nearest_shape){auto_weight_bytes(s, &all->shape[i]) - room, &all->shape[i]};
    qsort(order, all->n, sizeof *order, nearest_by_lack);
    for (size_t i = 0; i < all->n && order[i].lack < n->lack; i++)
        for (uint32_t chunks = 1; chunks <= most && !nearest_is_done(n); chunks++)
            if (auto_chunks_wanted(s, order[i].shape, chunks))
                TRY(nearest_try_chunks(n, order[i].shape, chunks));
out:
    free(order);
    return st;
}

/* Shapes of all numbers of devices. */
static enum status nearest_try_all(struct nearest *n)
{
    struct auto_shapes all = {0};
    n->s->most = n->s->t->n;
    n->s->least = 0;
    enum status st = auto_list_shapes(n->s, &all);
    if (st == STATUS_OK)
        st = nearest_try_shapes(n, &all);
    free(all.shape);
    return st;
}

enum status auto_try_nearest(struct auto_state *s)
{
    enum status st;
    const struct auto_request *given = s->r;
    struct nearest n = {.s = s,
                        .lack = s->r->only_fits ? 1 : INFINITY,
                        .until = *s->lowered + part_of_work * s->r->lowered};
    s->offloads = *s->r;
    TRY(nearest_try_all(&n));
    if (!auto_given(s, KNOB_BIT(offload)) && !s->r->executable) {
        n.until += part_of_work * s->r->lowered;
        s->offloads.fixed.offload = OFFLOAD_OPTIMIZER;
        s->r = &s->offloads;
        TRY(nearest_try_all(&n));
    }
    if (n.best.plan.stages > 0) {
        TRY(ARRAY_ROOM(s->result.candidate, s->result.n));
        s->result.candidate[s->result.n++] = n.best;
        n.best.plan = (struct plan){0};
    }
out:
    s->r = given;
    plan_free(&n.best.plan);
    return st;
}
