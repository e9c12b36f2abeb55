#include "core/topology.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct topology_tier *topology_between(const struct topology *t, uint32_t from, uint32_t to)
{
    assert(from < t->n && to < t->n && from != to);
    return &t->tier[t->tier_of[(size_t)from * t->n + to]];
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
    free(t->tier_of);
    free(t->name);
    *t = (struct topology){0};
}
