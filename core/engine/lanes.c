/* Lanes as links, and the hash of equal-cost routing. */
#include "core/engine/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"
#include "core/base/text.h"

/* "leaf0-up_UP" and 3: "leaf0-up.3_UP". */
static enum status lane_name(const char *link, uint32_t lane, char **out)
{
    static const char *const directions[] = {"_UP", "_DOWN"};
    size_t n = strlen(link), size = n + 16, id = n;
    for (size_t k = 0; k < 2; k++) {
        size_t d = strlen(directions[k]);
        if (n > d && !strcmp(link + n - d, directions[k]))
            id = n - d;
    }
    PASS(ARRAY_NEW(*out, size));
    snprintf(*out, size, "%.*s.%u%s", (int)id, link, lane, link + id);
    return STATUS_OK;
}

enum status lanes_open(const struct topology *t, struct lanes *out)
{
    enum status st;
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
            TRY(lanes > 1 ? lane_name(t->link[l].name, k, &lane->name)
                          : text_copy(t->link[l].name, &lane->name));
        }
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

/* One route: the hash says the way, and a hash of its own for each bundle the cable, since each
 * switch chooses for itself. */
static void hash_route(const struct lanes *x, uint64_t key, double h, const uint32_t *link,
                       size_t n, uint32_t *out)
{
    uint32_t ways = lanes_ways(x, link, n), way = (uint32_t)(h * ways);
    for (size_t k = 0; k < n; k++) {
        uint32_t cables = x->t->link[link[k]].cables;
        out[k] = lanes_on_way(x, link[k], ways, way < ways ? way : ways - 1);
        if (cables > 1)
            out[k] += (uint32_t)(random_at(key, link[k]) % cables);
    }
}

void lanes_queue_pairs(const struct lanes *x, const struct paths_options *o,
                       const struct routes *routes, size_t *first)
{
    first[0] = 0;
    for (size_t k = 0; k < routes->n; k++) {
        size_t n = routes->start[k + 1] - routes->start[k];
        bool several = o->queue_pairs > 1 && has_bundle(x, routes->link + routes->start[k], n);
        first[k + 1] = first[k] + (several ? o->queue_pairs : 1);
    }
}

enum status lanes_hash(const struct lanes *x, const struct paths_options *o,
                       const struct device_pair *pair, const size_t *first, struct routes *routes)
{
    enum status st;
    struct routes made = {.n = first[routes->n]};
    size_t links = 0;
    for (size_t k = 0; k < routes->n; k++)
        links += (routes->start[k + 1] - routes->start[k]) * (first[k + 1] - first[k]);
    TRY(ARRAY_NEW(made.start, made.n + 1));
    TRY(ARRAY_NEW(made.link, links));
    for (size_t k = 0; k < routes->n; k++) {
        size_t n = routes->start[k + 1] - routes->start[k];
        uint64_t key = random_key(random_key(o->seed, pair[k].from), pair[k].to);
        for (size_t r = first[k]; r < first[k + 1]; r++) {
            size_t number = r - first[k];
            double h = o->hash ? o->hash(o->context, pair[k].from, pair[k].to, number)
                               : random_unit(key, number);
            hash_route(x, random_key(key, number), h, routes->link + routes->start[k], n,
                       made.link + made.start[r]);
            made.start[r + 1] = made.start[r] + n;
        }
    }
    routes_free(routes);
    *routes = made;
    made = (struct routes){0};
out:
    routes_free(&made);
    return st;
}
