/* Prefix sums of compute time per device type, the links between neighbouring stages, and who reads
 * a tensor first. */
#include "partition/chain_cost.h"

#include "core/base/array.h"
#include "core/cost/op_costs.h"

void chain_cost_free(struct chain_cost *c)
{
    arena_free(&c->memory);
    *c = (struct chain_cost){0};
}

static enum status find_readers(struct chain_cost *c)
{
    const struct model *m = c->m;
    uint32_t *last; /* [n] 1 + the last op so far that reads each tensor */
    PASS(ARENA_NEW(&c->memory, last, m->n));
    for (uint32_t j = 0; j < m->n; j++)
        for (size_t k = m->in_start[j]; k < m->in_start[j + 1]; k++) {
            c->reader[k] = last[m->in[k]];
            last[m->in[k]] = j + 1;
        }
    return STATUS_OK;
}

double chain_cost_entering(const struct chain_cost *c, size_t first, size_t j)
{
    const struct model *m = c->m;
    double bytes = 0;
    for (size_t k = m->in_start[j]; k < m->in_start[j + 1]; k++)
        if (m->in[k] < first && c->reader[k] <= first)
            bytes += (double)m->op[m->in[k]].output_bytes;
    return bytes;
}

enum status chain_cost_begin(const struct partition_problem *p, struct chain_cost *c)
{
    const struct topology *t = p->t;
    const struct partition_request *r = p->r;
    size_t n = p->m->n;
    struct cost_split spread = partition_spread(r);
    *c = (struct chain_cost){.m = p->m, .stages = r->stages, .types = t->types};
    PASS(ARENA_NEW(&c->memory, c->type, r->stages));
    PASS(ARENA_NEW(&c->memory, c->until_s, t->types * (n + 1)));
    PASS(ARENA_NEW(&c->memory, c->gap_s, r->stages));
    PASS(ARENA_NEW(&c->memory, c->latency_s, r->stages));
    PASS(ARENA_NEW(&c->memory, c->reader, p->m->edges));
    PASS(find_readers(c));
    for (size_t k = 0; k < t->types; k++) {
        double *until_s = c->until_s + k * (n + 1);
        const struct op_costs_key key = {&t->type[k], r->microbatch_size, r->optimizer, spread};
        op_costs_begin(r->costs, &key);
        for (uint32_t i = 0; i < n; i++) {
            struct op_cost op = op_costs_of(r->costs, p->m, &key, i);
            until_s[i + 1] = until_s[i] + op_cost_forward(&op) + op_cost_backward(&op);
        }
    }
    for (size_t s = 0; s < r->stages; s++) {
        c->type[s] = t->type_of[p->device[s]];
        if (s == 0 || p->device[s] == p->device[s - 1])
            continue;
        const struct topology_tier *link = topology_between(t, p->device[s - 1], p->device[s]);
        c->gap_s[s] = 2 * (double)r->microbatch_size / link->bandwidth_Bps;
        c->latency_s[s] = 2 * link->latency_s;
    }
    return STATUS_OK;
}
