/* The addresses and routes of a space, as a script for `ip`. */
#define _DEFAULT_SOURCE
#include "exec/netns/inside.h"

enum { TABLE = 1000 }; /* of routes by which detours leave interface 0 */

/* Where a way leads out of a space: an interface, or those of all lanes of a bundle. */
static void write_hops(const struct wiring *w, uint32_t space, uint32_t way, FILE *f)
{
    for (size_t i = way; i < w->links && wiring_leads_over(w, way, i); i++) {
        const struct wiring_link *l = &w->link[i];
        fprintf(f, "%s dev eth%u", w->link[way].lanes > 0 ? " nexthop" : "",
                l->interface[l->space[0] == space ? 0 : 1]);
    }
}

/* The source address of a route is that of the node's first rank: programs that do not bind would
 * otherwise take that of the interface. */
static void write_routes(const struct wiring *w, uint32_t space, FILE *f)
{
    const struct wiring_space *s = &w->space[space];
    char address[INSIDE_ADDRESS], source[INSIDE_ADDRESS];
    fprintf(f, "link set lo up\n");
    for (uint32_t i = 0; i < s->interfaces; i++)
        fprintf(f, "link set eth%u gso_max_segs 1 arp off up\n", i);
    for (uint32_t r = 0; r < w->ranks; r++)
        if (w->space_of[r] == space)
            fprintf(f, "addr add %s/32 dev %s\n", build_address(r, address),
                    s->interfaces ? "eth0" : "lo");
    for (uint32_t r = 0; r < w->ranks; r++) {
        uint32_t way = w->way[space * w->ranks + r];
        if (way == WIRING_NONE)
            continue;
        fprintf(f, "route add %s/32", build_address(r, address));
        if (s->ranks)
            fprintf(f, " src %s", build_address(s->first, source));
        write_hops(w, space, way, f);
        fputc('\n', f);
    }
}

/* A table for each interface that detours leave by, and a rule for each rank that sends there. */
static void write_detours(const struct wiring *w, uint32_t space, FILE *f)
{
    char from[INSIDE_ADDRESS], to[INSIDE_ADDRESS];
    for (size_t k = 0; k < w->detours; k++) {
        const struct wiring_detour *d = &w->detour[k];
        const struct wiring_link *l = &w->link[d->link];
        unsigned interface = l->interface[l->space[0] == space ? 0 : 1];
        if (d->space != space)
            continue;
        fprintf(f, "route replace default table %u", TABLE + interface);
        write_hops(w, space, d->link, f);
        fputc('\n', f);
        for (uint32_t r = 0; r < w->ranks; r++)
            if (w->space_of[r] == d->node)
                fprintf(f, "rule add from %s/32 to %s/32 table %u\n", build_address(r, from),
                        build_address(d->rank, to), TABLE + interface);
    }
}

void ways_write(const struct wiring *w, uint32_t space, FILE *f)
{
    write_routes(w, space, f);
    write_detours(w, space, f);
}
