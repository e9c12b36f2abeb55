/* Nodes change places in a finalist: what a platform of unequal racks, or with more nodes than are
 * needed, has to gain beyond devices in an order of neighbours. */
#include <stdlib.h>

#include "core/base/array.h"
#include "partition/auto_search.h"

static const double part_of_work = 0.1, usual_work = 1e8;

/* used [n]: which nodes the plan has. */
static void mark_used(const struct plan *p, const struct device_nodes *x, bool *used)
{
    for (size_t k = 0; k < x->n; k++)
        used[k] = false;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t i = 0; i < p->stage[s].devices; i++)
            used[x->node_of[p->stage[s].device[i]]] = true;
}

/* May they change places: are they as large, of one type each? */
static bool nodes_are_alike(const struct topology *t, const struct device_nodes *x, size_t a,
                            size_t b)
{
    return device_nodes_size(x, a) == device_nodes_size(x, b) &&
           t->type_of[x->device[x->start[a]]] == t->type_of[x->device[x->start[b]]];
}

static enum status exchange(struct auto_state *s, const struct device_nodes *x, size_t a, size_t b,
                            struct auto_candidate *best, bool *better)
{
    enum status st;
    struct auto_candidate c = *best;
    c.plan = (struct plan){0};
    TRY(plan_copy(&best->plan, &c.plan));
    for (size_t k = 0; k < c.plan.stages; k++)
        for (size_t i = 0; i < c.plan.stage[k].devices; i++) {
            uint32_t *device = &c.plan.stage[k].device[i];
            size_t node = x->node_of[*device], other = node == a ? b : a;
            if (node != a && node != b)
                continue;
            size_t place = 0;
            while (x->device[x->start[node] + place] != *device)
                place++;
            *device = x->device[x->start[other] + place];
        }
    TRY(auto_score(s, &c));
    *better = auto_take_better(&c, best);
out:
    plan_free(&c.plan);
    return st;
}

enum status auto_swap_nodes(struct auto_state *s, struct auto_candidate *c)
{
    enum status st;
    struct device_nodes x = {0};
    bool *used = NULL;
    double until = *s->lowered + part_of_work * (s->r->lowered > 0 ? s->r->lowered : usual_work);
    if (s->r->fixed.devices != DEVICES_OPTIMISED || c->baseline)
        return STATUS_OK;
    TRY(device_nodes_find(s->t, &x));
    TRY(ARRAY_NEW(used, x.n));
    mark_used(&c->plan, &x, used);
    for (size_t k = 0, since = 0, pairs = x.n * x.n;
         since < pairs && *s->lowered < until && !auto_must_stop(s); k = (k + 1) % pairs, since++) {
        size_t a = k / x.n, b = k % x.n;
        bool better = false;
        if (a >= b || !(used[a] || used[b]) || !nodes_are_alike(s->t, &x, a, b))
            continue;
        TRY(exchange(s, &x, a, b, c, &better));
        if (better) {
            mark_used(&c->plan, &x, used);
            since = 0;
        }
    }
out:
    device_nodes_free(&x);
    free(used);
    return st;
}
