/* Lanes as links, and the hash of equal-cost routing. */
#include "core/engine/lanes.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/base/text.h"

enum { NAME = 300 };

/* Of a cable, whose directions fail together. */
size_t lanes_match(const struct topology *t, const struct fault *fault, bool *down)
{
    char name[NAME];
    size_t found = 0, at = 0;
    for (size_t l = 0; l < t->links; l++)
        for (uint32_t k = 0, lanes = topology_lanes(&t->link[l]); k < lanes; k++, at++) {
            if (lanes < 2 || fault->kind != FAULT_FAIL)
                continue;
            topology_lane_name(t->link[l].name, k, name, sizeof name);
            char *direction = strrchr(name, '_');
            if (direction && (!strcmp(direction, "_UP") || !strcmp(direction, "_DOWN")))
                *direction = '\0';
            if (fnmatch(fault->name, name, 0) != 0)
                continue;
            found++;
            if (down)
                down[at] = true;
        }
    return found;
}

static enum status mark_down(struct lanes *x, const struct faults *faults)
{
    for (size_t k = 0; faults && k < faults->n; k++) {
        if (lanes_match(x->t, &faults->fault[k], NULL) == 0)
            continue;
        if (!x->down)
            PASS(ARRAY_NEW(x->down, x->view.links + 1));
        lanes_match(x->t, &faults->fault[k], x->down);
    }
    return STATUS_OK;
}

enum status lanes_open(const struct topology *t, const struct faults *faults, struct lanes *out)
{
    enum status st;
    char name[NAME];
    struct lanes x = {.t = t, .view = *t};
    x.view.link = NULL;
    x.view.links = 0;
    TRY(ARRAY_NEW(x.first, t->links + 1));
    for (size_t l = 0; l < t->links; l++)
        x.first[l + 1] = x.first[l] + topology_lanes(&t->link[l]);
    TRY(ARRAY_NEW(x.view.link, x.first[t->links] + 1));
    for (size_t l = 0; l < t->links; l++)
        for (uint32_t k = 0, lanes = topology_lanes(&t->link[l]); k < lanes; k++) {
            struct topology_link *lane = &x.view.link[x.view.links];
            *lane = t->link[l];
            lane->bandwidth_Bps /= lanes;
            lane->name = NULL;
            x.view.links++;
            TRY(text_copy(lanes > 1 ? topology_lane_name(t->link[l].name, k, name, sizeof name)
                                    : t->link[l].name,
                          &lane->name));
        }
    TRY(mark_down(&x, faults));
    *out = x;
    x = (struct lanes){0};
out:
    lanes_free(&x);
    return st;
}

void lanes_free(struct lanes *x)
{
    for (size_t l = 0; x->view.link && l < x->view.links; l++)
        free(x->view.link[l].name);
    free(x->view.link);
    free(x->first);
    free(x->down);
    detours_free(&x->detours);
    *x = (struct lanes){0};
}

uint32_t lanes_ways(const struct lanes *x, const uint32_t *link, size_t n)
{
    uint32_t ways = 1;
    for (size_t k = 0; k < n; k++) {
        const struct topology_link *l = &x->t->link[link[k]];
        uint32_t switches = l->lanes > 0 ? l->lanes / l->cables : 1;
        ways = switches > ways ? switches : ways;
    }
    return ways;
}

static bool has_bundle(const struct lanes *x, const uint32_t *link, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (topology_lanes(&x->t->link[link[k]]) > 1)
            return true;
    return false;
}

uint32_t lanes_cables(const struct lanes *x, uint32_t link, uint32_t first)
{
    uint32_t cables = x->t->link[link].cables, up = 0;
    for (uint32_t k = 0; k < cables; k++)
        up += !(x->down && x->down[first + k]);
    return cables > 0 ? up : 1;
}

bool lanes_are_usable(const struct lanes *x, const uint32_t *link, size_t n, uint32_t ways,
                      uint32_t way)
{
    for (size_t k = 0; x->down && k < n; k++)
        if (lanes_cables(x, link[k], lanes_on_way(x, link[k], ways, way)) == 0)
            return false;
    return true;
}

uint32_t lanes_usable_ways(const struct lanes *x, const uint32_t *link, size_t n)
{
    uint32_t ways = lanes_ways(x, link, n), usable = 0;
    for (uint32_t way = 0; way < ways; way++)
        usable += lanes_are_usable(x, link, n, ways, way);
    return usable;
}

void lanes_spray(const struct lanes *x, const uint32_t *link, size_t n, size_t k, double *share)
{
    uint32_t ways = lanes_ways(x, link, n), usable = lanes_usable_ways(x, link, n);
    uint32_t l = link[k], cables = x->t->link[l].cables;
    for (uint32_t i = 0; i < topology_lanes(&x->t->link[l]); i++)
        share[i] = 0;
    for (uint32_t way = 0; way < ways; way++) {
        uint32_t first = lanes_on_way(x, l, ways, way);
        if (!lanes_are_usable(x, link, n, ways, way))
            continue;
        for (uint32_t i = first; i < first + cables; i++)
            if (!(x->down && x->down[i]))
                share[i - x->first[l]] += 1.0 / usable / lanes_cables(x, l, first);
    }
}

/* The way of a number of those that may be taken. */
static uint32_t usable_way(const struct lanes *x, const uint32_t *link, size_t n, double h)
{
    uint32_t ways = lanes_ways(x, link, n), usable = lanes_usable_ways(x, link, n);
    uint32_t left = (uint32_t)(h * usable), way = 0;
    left = left < usable ? left : usable - 1;
    for (;; way++)
        if (lanes_are_usable(x, link, n, ways, way) && left-- == 0)
            return way;
}

/* One route: the hash says the way, and a hash of its own for each bundle the cable, since each
 * switch chooses for itself. */
static void hash_route(const struct lanes *x, uint64_t key, double h, const uint32_t *link,
                       size_t n, uint32_t *out)
{
    uint32_t ways = lanes_ways(x, link, n), way = usable_way(x, link, n, h);
    for (size_t k = 0; k < n; k++) {
        out[k] = lanes_on_way(x, link[k], ways, way);
        uint32_t up = lanes_cables(x, link[k], out[k]);
        uint32_t left = up > 1 ? (uint32_t)(random_at(key, link[k]) % up) : 0;
        while ((x->down && x->down[out[k]]) || left-- > 0)
            out[k]++;
    }
}

uint32_t lanes_link(const struct lanes *x, uint32_t lane)
{
    size_t low = 0, high = x->t->links;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (x->first[middle] <= lane)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

void lanes_queue_pairs(const struct lanes *x, const struct paths_options *o,
                       const struct routes *routes, size_t *first)
{
    first[0] = 0;
    for (size_t k = 0; k < routes->n; k++) {
        size_t n = routes->start[k + 1] - routes->start[k];
        const uint32_t *link = routes->link + routes->start[k];
        bool several =
            o->queue_pairs > 1 && (has_bundle(x, link, n) || detours_along(&x->detours, link, n));
        first[k + 1] = first[k] + (several ? o->queue_pairs : 1);
    }
}

enum status lanes_hash(const struct lanes *x, const struct paths_options *o,
                       const struct device_pair *pair, const size_t *first, bool around,
                       const struct routes *routes, struct routes *out)
{
    enum status st;
    struct routes made = {.n = first[routes->n]};
    uint32_t *detour = NULL;
    size_t links = 0, longest = 0;
    for (size_t k = 0; k < routes->n; k++) {
        size_t n = (routes->start[k + 1] - routes->start[k]) * (around ? 2 : 1);
        links += n * (first[k + 1] - first[k]);
        longest = n > longest ? n : longest;
    }
    TRY(ARRAY_NEW(made.start, made.n + 1));
    TRY(ARRAY_NEW(made.link, links));
    TRY(ARRAY_NEW(detour, longest));
    for (size_t k = 0; k < routes->n; k++) {
        uint64_t key = random_key(random_key(o->seed, pair[k].from), pair[k].to);
        for (size_t r = first[k]; r < first[k + 1]; r++) {
            size_t number = r - first[k], n = routes->start[k + 1] - routes->start[k];
            const uint32_t *link = routes->link + routes->start[k];
            double h = o->hash ? o->hash(o->context, pair[k].from, pair[k].to, number)
                               : random_unit(key, number);
            size_t further = around ? detours_take(&x->detours, random_key(key, ~(uint64_t)number),
                                                   link, n, detour)
                                    : 0;
            if (further > n && lanes_usable_ways(x, detour, further) > 0) {
                link = detour;
                n = further;
            }
            hash_route(x, random_key(key, number), h, link, n, made.link + made.start[r]);
            made.start[r + 1] = made.start[r] + n;
        }
    }
    *out = made;
    made = (struct routes){0};
out:
    free(detour);
    routes_free(&made);
    return st;
}
