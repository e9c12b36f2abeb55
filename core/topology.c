/* Topologies: which devices form nodes, look-up, and a uniform one. */
#include "core/topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/text.h"

/* Does every part of "a+b" name a link that does not leave a node? */
static bool names_node(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '+')) {
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
        any |= inside[k] = names_node(t->tier[k].name);
    if (!any && t->tiers > 1)
        any = inside[0] = true;
    return any;
}

/* The node that device d is in, when those of the devices before it are known; first[nodes]. */
static uint32_t node_of(const struct topology *t, const bool *inside, const uint32_t *known,
                        const uint32_t *first, uint32_t nodes, uint32_t d)
{
    if (d > 0 && inside[topology_between(t, d - 1, d) - t->tier])
        return known[d - 1];
    for (uint32_t k = 0; k < nodes; k++)
        if (inside[topology_between(t, first[k], d) - t->tier])
            return k;
    return nodes;
}

/* One pass over the devices, with the first device of every node found so far. */
enum status topology_find_nodes(struct topology *t)
{
    enum status st;
    uint32_t nodes = 0, *first = NULL, *node = NULL;
    bool *inside = NULL;
    TRY(ARRAY_NEW(inside, t->tiers));
    TRY(ARRAY_NEW(first, t->n));
    TRY(ARRAY_NEW(node, t->n));
    bool any = topology_inside(t, inside);
    for (uint32_t d = 0; d < t->n; d++) {
        node[d] = any ? node_of(t, inside, node, first, nodes, d) : nodes;
        if (node[d] == nodes)
            first[nodes++] = d;
    }
    free(t->node_of);
    MOVE(&t->node_of, node);
out:
    free(node);
    free(first);
    free(inside);
    return st;
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
        return error_set(STATUS_INVALID, "%zu devices, expected 1 to %d", n, TOPOLOGY_MAX_DEVICES);
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
