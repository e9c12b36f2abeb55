/* Links between switches by their ends, and the pairs of them that lead around another. */
#include "core/engine/detours.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/random.h"

/* Routes of one link between vertices that are no devices. */
static enum status list_edges(const struct topology *t, struct detours *d)
{
    enum status st;
    const struct route_graph *g = &t->graph;
    bool *device = NULL;
    size_t n = 0;
    TRY(ARRAY_NEW(device, g->vertices));
    TRY(ARRAY_NEW(d->edge, g->edges));
    for (size_t k = 0; k < t->n; k++)
        device[g->vertex[k]] = true;
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++)
            if (!device[v] && !device[g->to[e]] && g->first[e + 1] - g->first[e] == 1)
                d->edge[n++] = (struct detours_edge){v, g->to[e], g->hop[g->first[e]]};
    TRY(order_pairs(d->edge, n, sizeof *d->edge, (uint32_t)g->vertices));
    for (size_t k = 0; k < n; k++) {
        d->start[d->edge[k].from + 1]++;
        d->from[d->edge[k].link] = d->edge[k].from;
        d->to[d->edge[k].link] = d->edge[k].to;
    }
    for (size_t v = 0; v < d->vertices; v++)
        d->start[v + 1] += d->start[v];
out:
    free(device);
    return st;
}

enum status detours_open(const struct topology *t, struct detours *out)
{
    enum status st = STATUS_OK;
    struct detours d = {.links = t->links, .vertices = t->graph.vertices};
    if (d.vertices == 0)
        goto out;
    TRY(ARRAY_NEW(d.from, d.links + 1));
    TRY(ARRAY_NEW(d.to, d.links + 1));
    TRY(ARRAY_NEW(d.start, d.vertices + 1));
    for (size_t l = 0; l < d.links; l++)
        d.from[l] = d.to[l] = UINT32_MAX;
    TRY(list_edges(t, &d));
    *out = d;
    return STATUS_OK;
out:
    detours_free(&d);
    *out = d;
    return st;
}

void detours_free(struct detours *d)
{
    free(d->from);
    free(d->to);
    free(d->start);
    free(d->edge);
    *d = (struct detours){0};
}

/* The link from one switch to another; UINT32_MAX: there is none. */
static uint32_t find_edge(const struct detours *d, uint32_t from, uint32_t to)
{
    size_t low = d->start[from], high = d->start[from + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->edge[middle].to < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->start[from + 1] && d->edge[low].to == to ? d->edge[low].link : UINT32_MAX;
}

/* How many detours a link has; way [2] of number `number`, if there are so many. */
static size_t count_detours(const struct detours *d, uint32_t link, size_t number, uint32_t *way)
{
    size_t n = 0;
    if (!detours_between_switches(d, link))
        return 0;
    uint32_t from = d->from[link], to = d->to[link];
    for (size_t k = d->start[from]; k < d->start[from + 1]; k++) {
        uint32_t by = d->edge[k].to,
                 second = by == to || by == from ? UINT32_MAX : find_edge(d, by, to);
        if (second == UINT32_MAX)
            continue;
        if (n++ == number) {
            way[0] = d->edge[k].link;
            way[1] = second;
        }
    }
    return n;
}

bool detours_along(const struct detours *d, const uint32_t *link, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (count_detours(d, link[k], SIZE_MAX, NULL) > 0)
            return true;
    return false;
}

bool detours_exist(const struct topology *t)
{
    struct detours d;
    bool found = false;
    if (detours_open(t, &d) != STATUS_OK)
        return false;
    for (uint32_t l = 0; l < d.links && !found; l++)
        found = count_detours(&d, l, SIZE_MAX, NULL) > 0;
    detours_free(&d);
    return found;
}

size_t detours_take(const struct detours *d, uint64_t key, const uint32_t *link, size_t n,
                    uint32_t *out)
{
    size_t made = 0;
    for (size_t k = 0; k < n; k++) {
        size_t ways = count_detours(d, link[k], SIZE_MAX, NULL);
        if (ways == 0) {
            out[made++] = link[k];
            continue;
        }
        count_detours(d, link[k], random_at(key, link[k]) % ways, out + made);
        made += 2;
    }
    return made;
}
