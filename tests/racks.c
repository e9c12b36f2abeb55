#include "tests/racks.h"
#include "tests/map_build.h"

#include <stdlib.h>

#include "tests/sample.h"

struct topology racks_any(size_t n, const char *type, const struct topology_tier *tier,
                          size_t tiers,
                          uint32_t (*between)(const void *context, uint32_t from, uint32_t to),
                          const void *context)
{
    struct topology t = sample_clique(n, 0, 1);
    free(t.type[0].name);
    t.type[0].name = sample_text(type);
    free(t.tier[0].name);
    free(t.tier);
    t.tiers = tiers;
    t.tier = calloc(tiers, sizeof *t.tier);
    if (!t.tier)
        abort();
    for (size_t k = 0; k < tiers; k++) {
        t.tier[k] = tier[k];
        t.tier[k].name = sample_text(tier[k].name);
    }
    if (map_build(n, between, context, &t.between) != STATUS_OK)
        abort();
    return t;
}

static uint32_t other_node(const void *each, uint32_t from, uint32_t to)
{
    return from / *(const uint32_t *)each != to / *(const uint32_t *)each;
}

struct topology racks_nodes(uint32_t nodes, uint32_t each, const char *type,
                            const struct topology_tier tier[2])
{
    return racks_any(nodes * each, type, tier, 2, other_node, &each);
}

const uint32_t *racks_all(void)
{
    static uint32_t all[TOPOLOGY_MAX_DEVICES];
    for (uint32_t i = 0; i < TOPOLOGY_MAX_DEVICES; i++)
        all[i] = i;
    return all;
}
