#include "partition/stage_cost.h"

#include <stdlib.h>

void stage_cost_free(struct stage_cost *c)
{
    free(c->type);
    free(c->until_s);
    free(c->pace);
    free(c->latency_s);
    *c = (struct stage_cost){0};
}

enum status stage_cost_begin(const struct model *m, const struct topology *t,
                             const struct partition_request *r, const uint32_t *device,
                             struct stage_cost *out)
{
    size_t n = m->n;
    struct cost_split spread = partition_spread(r);
    struct stage_cost c = {.m = m, .stages = r->stages, .types = t->types};
    c.type = calloc(r->stages, sizeof *c.type);
    c.until_s = calloc(t->types * (n + 1), sizeof *c.until_s);
    c.pace = calloc(r->stages, sizeof *c.pace);
    c.latency_s = calloc(r->stages, sizeof *c.latency_s);
    if (!c.type || !c.until_s || !c.pace || !c.latency_s) {
        stage_cost_free(&c);
        return error_set(STATUS_NOMEM, "%zu stages of %zu ops", r->stages, n);
    }
    for (size_t k = 0; k < t->types; k++)
        for (uint32_t i = 0; i < n; i++) {
            struct op_cost op =
                cost_op(m, &t->type[k], i, r->microbatch_size, r->optimizer, &spread);
            c.until_s[k * (n + 1) + i + 1] =
                c.until_s[k * (n + 1) + i] + op.forward_s + op.backward_s;
        }
    for (size_t s = 0; s < r->stages; s++) {
        c.type[s] = t->type_of[device[s]];
        if (s == 0 || device[s] == device[s - 1])
            continue;
        const struct topology_tier *link = topology_between(t, device[s - 1], device[s]);
        c.pace[s] = 2 * (double)r->microbatch_size / link->bandwidth_Bps;
        c.latency_s[s] = 2 * link->latency_s;
    }
    *out = c;
    return STATUS_OK;
}
