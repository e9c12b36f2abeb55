/* Topologies: which devices form nodes, look-up, and a uniform one. */
#include "core/data/topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

bool topology_tier_inside(const struct topology_tier *tier)
{
    for (const char *part = tier->name; part; part = strchr(part, '+')) {
        part += *part == '+';
        if (strncmp(part, "nv", 2) != 0 && strncmp(part, "pci", 3) != 0)
            return false;
    }
    return true;
}

/* By their names; on platforms whose links have other names the fastest tier is taken. */
bool topology_inside(const struct topology *t, bool *inside)
{
    bool any = false;
    for (size_t k = 0; k < t->tiers; k++)
        any |= inside[k] = topology_tier_inside(&t->tier[k]);
    if (!any && t->tiers > 1)
        any = inside[0] = true;
    return any;
}

/* Nodes being found, device by device. */
struct topology_nodes {
    const struct topology *t;
    const bool *inside;             /* [tiers] */
    bool *has[TOPOLOGY_MAP_LEVELS]; /* [squares] a tier inside nodes is somewhere in the square */
    uint32_t n, *first, *of;        /* [n] first device of each node; [devices] found so far */
};

/* Which squares of the map have a tier inside nodes, from below. */
static enum status mark_squares(struct topology_nodes *w)
{
    const struct topology_map *map = &w->t->between;
    for (unsigned l = 0; l < map->levels; l++) {
        PASS(ARRAY_NEW(w->has[l], map->squares[l]));
        for (size_t i = 0; i < map->squares[l] * TOPOLOGY_MAP_CELLS; i++) {
            const bool *below = l > 0 ? w->has[l - 1] : w->inside;
            if (below[map->cell[l][i]])
                w->has[l][i / TOPOLOGY_MAP_CELLS] = true;
        }
    }
    return STATUS_OK;
}

/* The first device of a node, of those before d that are rows of the square, that a tier inside
 * nodes joins with d; w->t->n if there is none. The square's rows begin with device `from`. */
static size_t first_near(const struct topology_nodes *w, unsigned level, size_t square, size_t from,
                         uint32_t d)
{
    const struct topology_map *map = &w->t->between;
    unsigned shift = level * TOPOLOGY_MAP_BITS;
    size_t column = d >> shift & (TOPOLOGY_MAP_SIDE - 1);
    for (size_t r = 0; r < TOPOLOGY_MAP_SIDE && from + (r << shift) < d; r++) {
        size_t row = from + (r << shift), found = w->t->n;
        uint32_t cell =
            map->cell[level][square * TOPOLOGY_MAP_CELLS + r * TOPOLOGY_MAP_SIDE + column];
        if (level > 0 && w->has[level - 1][cell])
            found = first_near(w, level - 1, cell, row, d);
        else if (level == 0 && w->inside[cell] && w->first[w->of[row]] == row)
            found = row;
        if (found < w->t->n)
            return found;
    }
    return w->t->n;
}

/* The node that device d is in, when those of the devices before it are known. */
static uint32_t topology_device_node(const struct topology_nodes *w, uint32_t d)
{
    const struct topology *t = w->t;
    if (d > 0 && w->inside[topology_between(t, d - 1, d) - t->tier])
        return w->of[d - 1];
    size_t first = t->between.levels > 0 ? first_near(w, t->between.levels - 1, 0, 0, d) : t->n;
    return first < t->n ? w->of[first] : w->n;
}

/* Is d joined with the first device of its node by a tier inside nodes? Neighbours in a torus are
 * joined in chains without end, which are no nodes. */
static bool node_is_whole(const struct topology_nodes *w, uint32_t d)
{
    uint32_t first = w->first[w->of[d]];
    return d == first || w->inside[topology_between(w->t, first, d) - w->t->tier];
}

enum status topology_find_nodes(struct topology *t)
{
    enum status st;
    bool *inside = NULL;
    struct topology_nodes w = {.t = t};
    TRY(ARRAY_NEW(inside, t->tiers));
    TRY(ARRAY_NEW(w.first, t->n));
    TRY(ARRAY_NEW(w.of, t->n));
    w.inside = inside;
    bool any = topology_inside(t, inside);
    if (any)
        TRY(mark_squares(&w));
    for (uint32_t d = 0; d < t->n; d++) {
        w.of[d] = any ? topology_device_node(&w, d) : w.n;
        if (w.of[d] == w.n)
            w.first[w.n++] = d;
        any = any && node_is_whole(&w, d);
    }
    for (uint32_t d = 0; d < t->n && !any; d++)
        w.of[d] = d;
    free(t->node_of);
    MOVE(&t->node_of, w.of);
out:
    for (unsigned l = 0; l < TOPOLOGY_MAP_LEVELS; l++)
        free(w.has[l]);
    free(w.of);
    free(w.first);
    free(inside);
    return st;
}

const char *topology_lane_name(const char *link, uint32_t lane, char *text, size_t size)
{
    static const char *const directions[] = {"_UP", "_DOWN"};
    size_t n = strlen(link), id = n;
    for (size_t k = 0; k < 2; k++) {
        size_t d = strlen(directions[k]);
        if (n > d && !strcmp(link + n - d, directions[k]))
            id = n - d;
    }
    snprintf(text, size, "%.*s.%u%s", (int)id, link, lane, link + id);
    return text;
}

bool topology_has_lanes(const struct topology *t)
{
    for (size_t l = 0; l < t->links; l++)
        if (topology_lanes(&t->link[l]) > 1)
            return true;
    return false;
}

uint32_t topology_find(const struct topology *t, const char *device)
{
    for (size_t i = 0; i < t->n; i++)
        if (!strcmp(t->device[i], device))
            return (uint32_t)i;
    return UINT32_MAX;
}

/* One type, one tier; the map of a single tier needs no squares. */
enum status topology_uniform(size_t n, const struct device_type *type,
                             const struct topology_tier *tier, struct topology *out)
{
    enum status st;
    struct topology t = {0};
    if (n < 1 || n > TOPOLOGY_MAX_DEVICES)
        return error_set(STATUS_INVALID, "got a platform of %zu devices, expected 1 to %d", n,
                         TOPOLOGY_MAX_DEVICES);
    TRY(text_copy("uniform", &t.name));
    TRY(ARRAY_NEW(t.device, n));
    TRY(ARRAY_NEW(t.type_of, n));
    TRY(ARRAY_NEW(t.type, 1));
    TRY(ARRAY_NEW(t.tier, 1));
    t.types = t.tiers = 1;
    t.type[0] = *type;
    t.type[0].name = NULL;
    t.type[0].rate = NULL;
    t.type[0].rates = 0;
    t.type[0].curve = NULL;
    t.type[0].curves = 0;
    t.tier[0] = *tier;
    t.tier[0].name = NULL;
    TRY(text_copy(type->name, &t.type[0].name));
    TRY(text_copy(tier->name, &t.tier[0].name));
    for (; t.n < n; t.n++) {
        char name[24];
        snprintf(name, sizeof name, "d%zu", t.n);
        TRY(text_copy(name, &t.device[t.n]));
    }
    MOVE(out, t);
out:
    topology_free(&t);
    return st;
}
