/* Every way of every flow. */
#include "sim/alternatives.h"

#include <stdlib.h>

#include "core/base/array.h"

static enum status check_cables(const struct flows *f)
{
    const struct topology *t = f->lanes.t;
    for (size_t l = 0; f->adaptive.load_Bps && l < t->links; l++)
        if (t->link[l].cables > 1)
            return error_set(STATUS_UNSUPPORTED,
                             "simgrid: adaptive paths over several cables to one switch (%s) are "
                             "unsupported. Try --engine analytic",
                             t->link[l].name);
    return STATUS_OK;
}

/* How many ways a flow has, and how many links it is over. */
static size_t ways_of(const struct flows *f, size_t flow, size_t *links)
{
    const struct sharing_network *w = &f->network;
    *links = w->start[flow + 1] - w->start[flow];
    if (f->ugal.load_Bps)
        return UGAL_WAYS;
    return f->adaptive.load_Bps ? adaptive_ways(&f->adaptive, w->link + w->start[flow], *links) : 1;
}

static void put_ways(const struct flows *f, size_t flow, struct alternatives *x)
{
    const struct sharing_network *w = &f->network;
    size_t links;
    ways_of(f, flow, &links);
    for (size_t k = x->first[flow]; k < x->first[flow + 1]; k++) {
        size_t at = x->start[k], way = k - x->first[flow];
        const struct ugal *u = &f->ugal;
        const uint32_t *link = (u->load_Bps ? u->link[way] : w->link) + w->start[flow];
        if (f->adaptive.load_Bps)
            adaptive_put(&f->adaptive, (uint32_t)way, link, links, x->link + at);
        for (size_t e = 0; e < links; e++) {
            if (!f->adaptive.load_Bps)
                x->link[at + e] = link[e];
            x->weight[at + e] = w->weight[w->start[flow] + e];
        }
        x->bound_Bps[k] = u->load_Bps ? u->bound_Bps[way][flow] : w->bound_Bps[flow];
        x->start[k + 1] = at + links;
    }
}

enum status alternatives_make(const struct flows *f, struct alternatives *out)
{
    enum status st;
    const struct sharing_network *w = &f->network;
    struct alternatives x = {0};
    size_t all = 0, links;
    TRY(check_cables(f));
    TRY(ARRAY_NEW(x.first, w->flows + 1));
    for (size_t k = 0; k < w->flows; k++) {
        x.first[k + 1] = x.first[k] + ways_of(f, k, &links);
        all += (x.first[k + 1] - x.first[k]) * links;
    }
    size_t flows = x.first[w->flows];
    TRY(ARRAY_NEW(x.start, flows + 1));
    TRY(ARRAY_NEW(x.link, all + 1));
    TRY(ARRAY_NEW(x.weight, all + 1));
    TRY(ARRAY_NEW(x.bound_Bps, flows + 1));
    for (size_t k = 0; k < w->flows; k++)
        put_ways(f, k, &x);
    x.network = (struct sharing_network){flows,    w->links,    x.start,        x.link,
                                         x.weight, x.bound_Bps, w->capacity_Bps};
    *out = x;
    x = (struct alternatives){0};
out:
    alternatives_free(&x);
    return st;
}

void alternatives_free(struct alternatives *x)
{
    free(x->first);
    free(x->start);
    free(x->link);
    free(x->weight);
    free(x->bound_Bps);
    *x = (struct alternatives){0};
}
