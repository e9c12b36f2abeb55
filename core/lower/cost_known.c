/* What the stages of the last few plans cost: searches lower a plan several times, with other
 * microbatches, on other devices and by itself or among those whose memory is asked for. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/cost/op_costs.h"
#include "core/lower/lowering.h"

enum { KNOWN = 8 };

/* Bytes that two plans have in common if their stages cost the same. */
struct cost_key {
    size_t n, room;
    char *byte;
};
struct known_plan {
    struct cost_key key;
    size_t costs;
    struct lowering_cost **cost; /* [costs] */
};
struct known_plans {
    size_t next; /* the oldest */
    struct known_plan plan[KNOWN];
    struct cost_key asked;
};

static void free_costs(struct lowering_cost **cost, size_t n)
{
    for (size_t k = 0; cost && k < n; k++)
        lowering_cost_free(cost[k]);
    free(cost);
}

static void forget_plan(struct known_plan *p)
{
    free_costs(p->cost, p->costs);
    free(p->key.byte);
    *p = (struct known_plan){0};
}

static void drop_plans(void *plans)
{
    struct known_plans *all = plans;
    for (size_t k = 0; k < KNOWN; k++)
        forget_plan(&all->plan[k]);
    free(all->asked.byte);
    free(all);
}

static enum status key_put(struct cost_key *key, const void *from, size_t bytes)
{
    PASS(ARRAY_RESERVE(key->byte, key->n + bytes, key->room));
    memcpy(key->byte + key->n, from, bytes);
    key->n += bytes;
    return STATUS_OK;
}

/* All that make_cost() asks of a plan: neither its devices, but for which stages share them, nor
 * its microbatches, unless casts are spread over them. */
static enum status write_key(const struct lowering *l, struct cost_key *key)
{
    const struct plan *p = l->plan;
    const struct framework *f = plan_framework(p);
    uint32_t microbatches = op_costs_casts(l->costs) ? p->microbatches : 0;
    key->n = 0;
    PASS(key_put(key, &l->topology->type, sizeof l->topology->type));
    PASS(key_put(key, &l->schedule, sizeof l->schedule));
    PASS(key_put(key, p->optimizer, strlen(p->optimizer) + 1));
    PASS(key_put(key, &p->microbatch_size, sizeof p->microbatch_size));
    PASS(key_put(key, &microbatches, sizeof microbatches));
    PASS(key_put(key, &p->shared, sizeof p->shared));
    PASS(key_put(key, &p->stages, sizeof p->stages));
    PASS(key_put(key, l->shape.team_of, p->stages * sizeof *l->shape.team_of));
    for (size_t s = 0; s < p->stages; s++) {
        PASS(key_put(key, &p->stage[s].own, sizeof p->stage[s].own));
        PASS(key_put(key, &p->stage[s].ops, sizeof p->stage[s].ops));
        PASS(key_put(key, p->stage[s].op, p->stage[s].ops * sizeof *p->stage[s].op));
    }
    return f ? key_put(key, f, sizeof *f) : STATUS_OK;
}

static struct known_plan *find_plan(struct known_plans *all)
{
    for (size_t k = 0; k < KNOWN; k++)
        if (all->plan[k].key.n == all->asked.n &&
            memcmp(all->plan[k].key.byte, all->asked.byte, all->asked.n) == 0)
            return &all->plan[k];
    return NULL;
}

/* The plan that was asked for takes the place of the oldest. */
static enum status add_plan(struct known_plans *all, size_t costs, struct known_plan **out)
{
    struct known_plan *p = *out = &all->plan[all->next];
    forget_plan(p);
    PASS(ARRAY_NEW(p->cost, costs));
    p->costs = costs;
    p->key = all->asked;
    all->asked = (struct cost_key){0};
    all->next = (all->next + 1) % KNOWN;
    return STATUS_OK;
}

enum status lowering_costs_open(struct lowering *l)
{
    size_t costs = l->plan->stages * l->topology->types;
    l->forgets = !l->costs || l->plan->steps > 0;
    if (l->forgets)
        return ARRAY_NEW(l->cost, costs);
    struct op_costs_beside *beside = op_costs_beside(l->costs);
    if (!beside->kept) {
        struct known_plans *all;
        PASS(ARRAY_NEW(all, 1));
        *beside = (struct op_costs_beside){all, drop_plans};
    }
    struct known_plans *all = beside->kept;
    PASS(write_key(l, &all->asked));
    struct known_plan *found = find_plan(all);
    if (!found)
        PASS(add_plan(all, costs, &found));
    l->cost = found->cost;
    return STATUS_OK;
}

void lowering_costs_close(struct lowering *l)
{
    if (l->forgets)
        free_costs(l->cost, l->plan->stages * l->topology->types);
    l->cost = NULL;
}
