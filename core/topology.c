#include "core/topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum status topology_find_nodes(struct topology *t)
{
    enum status st = STATUS_OK;
    uint32_t nodes = 0;
    bool *inside = calloc(t->tiers + 1, sizeof *inside);
    uint32_t *first = calloc(t->n + 1, sizeof *first), *node = calloc(t->n + 1, sizeof *node);
    if (!inside || !first || !node) {
        st = error_set(STATUS_NOMEM, "nodes of %zu devices", t->n);
        goto out;
    }
    bool any = topology_inside(t, inside);
    for (uint32_t d = 0; d < t->n; d++) {
        node[d] = any ? node_of(t, inside, node, first, nodes, d) : nodes;
        if (node[d] == nodes)
            first[nodes++] = d;
    }
    free(t->node_of);
    t->node_of = node;
    node = NULL;
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

static void type_free(struct device_type *type)
{
    for (size_t k = 0; type->rate && k < type->rates; k++) {
        free(type->rate[k].kind);
        free(type->rate[k].flop);
        free(type->rate[k].flops);
    }
    free(type->rate);
    free(type->name);
}

void topology_free(struct topology *t)
{
    for (size_t i = 0; t->device && i < t->n; i++)
        free(t->device[i]);
    for (size_t i = 0; t->type && i < t->types; i++)
        type_free(&t->type[i]);
    for (size_t i = 0; t->tier && i < t->tiers; i++)
        free(t->tier[i].name);
    free(t->device);
    free(t->type_of);
    free(t->type);
    free(t->tier);
    topology_map_free(&t->between);
    free(t->node_of);
    free(t->name);
    *t = (struct topology){0};
}

static char *copy(const char *text)
{
    size_t n = strlen(text) + 1;
    char *to = malloc(n);
    return to ? memcpy(to, text, n) : NULL;
}

enum status topology_uniform(size_t n, const struct device_type *type,
                             const struct topology_tier *tier, struct topology *out)
{
    enum status st = STATUS_OK;
    struct topology t = {0};
    if (n < 1 || n > TOPOLOGY_MAX_DEVICES)
        return error_set(STATUS_INVALID, "%zu devices, expected 1 to %d", n, TOPOLOGY_MAX_DEVICES);
    t.name = copy("uniform");
    t.device = calloc(n, sizeof *t.device);
    t.type_of = calloc(n, sizeof *t.type_of);
    t.type = calloc(1, sizeof *t.type);
    t.tier = calloc(1, sizeof *t.tier);
    bool failed = !t.name || !t.device || !t.type_of || !t.type || !t.tier;
    if (!failed) {
        t.types = t.tiers = 1;
        t.type[0] = *type;
        t.type[0].rates = 0;
        t.type[0].rate = NULL;
        t.tier[0] = *tier;
        t.type[0].name = copy(type->name);
        t.tier[0].name = copy(tier->name);
        failed = !t.type[0].name || !t.tier[0].name;
    }
    for (; !failed && t.n < n; t.n++) {
        char name[24];
        snprintf(name, sizeof name, "d%zu", t.n);
        t.device[t.n] = copy(name);
        failed = !t.device[t.n];
    }
    if (failed) {
        st = error_set(STATUS_NOMEM, "%zu devices", n);
        goto out;
    }
    *out = t;
    t = (struct topology){0};
out:
    topology_free(&t);
    return st;
}
