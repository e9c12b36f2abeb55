/* Bytes per directed pair of devices: one entry for each message channel and for each flow of
 * each collective, sorted, then equal pairs are merged. O(n + devices) in the number of entries. */
#include "core/engine/pairs.h"

#include "core/base/array.h"
#include "core/base/order.h"

#include <stdlib.h>

/* The flows of one distinct collective, as often as the program calls it; returns their number. */
static size_t pairs_add_flows(const struct program *p, const struct shaped *s,
                              struct pair_bytes *out)
{
    const uint32_t *device = p->device + p->device_start[s->group];
    for (size_t f = 0; f < s->shape.flows; f++) {
        const struct collective_flow *flow = &s->shape.flow[f];
        out[f] = (struct pair_bytes){device[flow->from], device[flow->to], s->calls * flow->bytes};
    }
    return s->shape.flows;
}

enum status pairs_of(const struct program *p, const struct shapes *s, struct pair_bytes **pair,
                     size_t *n)
{
    enum status st;
    size_t room = p->channels, used = 0, kept = 0;
    uint32_t most = 0;
    for (size_t k = 0; k < s->n; k++)
        room += s->shaped[k].shape.flows;
    struct pair_bytes *all = NULL;
    TRY(ARRAY_NEW(all, room + 1));
    for (; used < p->channels; used++) {
        const struct program_channel *c = &p->channel[used];
        all[used] = (struct pair_bytes){p->rank[c->from].device, p->rank[c->to].device, 0};
    }
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_SEND)
            all[p->op[i].channel].bytes += (double)p->op[i].bytes;
    for (size_t k = 0; k < s->n; k++)
        used += pairs_add_flows(p, &s->shaped[k], all + used);
    for (size_t k = 0; k < used; k++) {
        most = all[k].from >= most ? all[k].from + 1 : most;
        most = all[k].to >= most ? all[k].to + 1 : most;
    }
    TRY(order_pairs(all, used, sizeof *all, most));
    for (size_t k = 0; k < used; k++)
        if (kept > 0 && order_by_pair(&all[kept - 1], &all[k]) == 0)
            all[kept - 1].bytes += all[k].bytes;
        else
            all[kept++] = all[k];
    *pair = all;
    *n = kept;
    all = NULL;
out:
    free(all);
    return st;
}

size_t pairs_find(const struct pair_bytes *pair, size_t n, uint32_t from, uint32_t to)
{
    struct pair_bytes wanted = {from, to, 0};
    const struct pair_bytes *found = bsearch(&wanted, pair, n, sizeof *pair, order_by_pair);
    return found ? (size_t)(found - pair) : 0;
}
