/* Nodes change places in a finalist: what a platform of unequal racks, or with more nodes than are
 * needed, has to gain beyond devices in an order of neighbours. */
#include <stdlib.h>

#include "core/base/array.h"
#include "partition/auto_search.h"

static const double part_of_work = 0.1, usual_work = 1e8;

struct auto_nodes {
    size_t n;
    size_t *start;     /* [n + 1] */
    uint32_t *device;  /* [t->n] node by node */
    uint32_t *node_of; /* [t->n] */
    bool *used;        /* [n] by the plan */
};

static enum status list_nodes(const struct topology *t, struct auto_nodes *x)
{
    struct topology nodes = *t;
    nodes.node_of = NULL;
    PASS(topology_find_nodes(&nodes));
    x->node_of = nodes.node_of;
    for (size_t d = 0; d < t->n; d++)
        x->n = x->node_of[d] >= x->n ? x->node_of[d] + 1 : x->n;
    PASS(ARRAY_NEW(x->start, x->n + 2));
    PASS(ARRAY_NEW(x->device, t->n));
    PASS(ARRAY_NEW(x->used, x->n));
    for (size_t d = 0; d < t->n; d++)
        x->start[x->node_of[d] + 2]++;
    for (size_t k = 0; k < x->n; k++)
        x->start[k + 2] += x->start[k + 1];
    for (uint32_t d = 0; d < t->n; d++)
        x->device[x->start[x->node_of[d] + 1]++] = d;
    return STATUS_OK;
}

static void nodes_free(struct auto_nodes *x)
{
    free(x->start);
    free(x->device);
    free(x->node_of);
    free(x->used);
}

static void mark_used(const struct plan *p, struct auto_nodes *x)
{
    for (size_t k = 0; k < x->n; k++)
        x->used[k] = false;
    for (size_t s = 0; s < p->stages; s++)
        for (size_t i = 0; i < p->stage[s].devices; i++)
            x->used[x->node_of[p->stage[s].device[i]]] = true;
}

/* Does it make sense to exchange them: is one used, are they as large, of one type each? */
static bool nodes_may_change(const struct topology *t, const struct auto_nodes *x, size_t a,
                             size_t b)
{
    size_t size = x->start[a + 1] - x->start[a];
    return (x->used[a] || x->used[b]) && size == x->start[b + 1] - x->start[b] &&
           t->type_of[x->device[x->start[a]]] == t->type_of[x->device[x->start[b]]];
}

static enum status exchange(struct auto_state *s, const struct auto_nodes *x, size_t a, size_t b,
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
    struct auto_nodes x = {0};
    double until = *s->lowered + part_of_work * (s->r->lowered > 0 ? s->r->lowered : usual_work);
    if (s->r->fixed.devices != DEVICES_OPTIMISED || c->baseline)
        return STATUS_OK;
    TRY(list_nodes(s->t, &x));
    mark_used(&c->plan, &x);
    for (size_t k = 0, since = 0, pairs = x.n * x.n;
         since < pairs && *s->lowered < until && !auto_must_stop(s); k = (k + 1) % pairs, since++) {
        size_t a = k / x.n, b = k % x.n;
        bool better = false;
        if (a >= b || !nodes_may_change(s->t, &x, a, b))
            continue;
        TRY(exchange(s, &x, a, b, c, &better));
        if (better) {
            mark_used(&c->plan, &x);
            since = 0;
        }
    }
out:
    nodes_free(&x);
    return st;
}
