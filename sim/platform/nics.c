/* Network ports of a node: from each of its members towards the same far device, the distinct
 * narrowest links are counted. */
#include "sim/platform/nics.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>

#include <simgrid/link.h>
#include <xbt/dynar.h>

enum { MOST_MEMBERS = 64 }; /* of a node that are looked at */

/* A narrowest link of the route; *shared: flows share it. */
static sg_link_t narrowest(sg_host_t from, sg_host_t to, bool *shared)
{
    sg_link_t found = NULL;
    double least = INFINITY;
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(from, to, route);
    for (size_t k = 0; k < xbt_dynar_length(route); k++) {
        sg_link_t link;
        xbt_dynar_get_cpy(route, k, &link);
        if (sg_link_get_bandwidth(link) < least) {
            least = sg_link_get_bandwidth(link);
            found = link;
        }
    }
    xbt_dynar_free(&route);
    *shared = found && sg_link_is_shared(found);
    return found;
}

/* The first device of a type; every type has one. */
static uint32_t first_of(const struct topology *t, uint32_t type)
{
    uint32_t d = 0;
    while (t->type_of[d] != type)
        d++;
    return d;
}

/* The device outside d's node that is reached fastest, UINT32_MAX if there is none. */
static uint32_t nearest_outside(const struct topology *t, const bool *inside, uint32_t d)
{
    uint32_t best = UINT32_MAX;
    const struct topology_tier *tier = NULL;
    for (uint32_t j = 0; j < t->n; j++) {
        if (j == d)
            continue;
        const struct topology_tier *between = topology_between(t, d, j);
        if (inside[between - t->tier] || (tier && between->bandwidth_Bps <= tier->bandwidth_Bps))
            continue;
        tier = between;
        best = j;
    }
    return best;
}

/* The ports of d's node: links that flows share count once, others once for each member. */
static uint32_t count_ports(const sg_host_t *host, const struct topology *t, const bool *inside,
                            uint32_t d)
{
    sg_link_t seen[MOST_MEMBERS];
    uint32_t ports = 0, distinct = 0, members = 0, far = nearest_outside(t, inside, d);
    if (far == UINT32_MAX)
        return 0;
    for (uint32_t j = 0; j < t->n && members < MOST_MEMBERS; j++) {
        bool shared;
        uint32_t k = 0;
        if (j != d && !inside[topology_between(t, d, j) - t->tier])
            continue;
        members++;
        sg_link_t link = narrowest(host[j], host[far], &shared);
        while (shared && k < distinct && seen[k] != link)
            k++;
        if (!shared || k == distinct) {
            seen[distinct++] = link;
            ports++;
        }
    }
    return ports;
}

enum status platform_nics(const sg_host_t *host, struct topology *t)
{
    bool *inside;
    PASS(ARRAY_NEW(inside, t->tiers + 1));
    if (topology_inside(t, inside))
        for (uint32_t k = 0; k < t->types; k++)
            t->type[k].nics = count_ports(host, t, inside, first_of(t, k));
    free(inside);
    return STATUS_OK;
}
