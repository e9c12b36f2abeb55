/* Adds the bytes of every pair to the links of its route, and writes what simgrid_parse() reads. */
#include "sim/simgrid/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <simgrid/link.h>
#include <xbt/dynar.h>

#include "sim/child.h"
#include "sim/simgrid_report.h"

/* Bytes that crossed a link; one entry for each hop of each route at first. */
struct link_load {
    sg_link_t link;
    double bytes;
};

/* Links in the order of their addresses: any order does that brings equal ones together. */
static int by_link(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct link_load *)a)->link;
    uintptr_t y = (uintptr_t)((const struct link_load *)b)->link;
    return x < y ? -1 : x > y;
}

/* Bytes that crossed each link, by the routes of the pairs; sorted by link, *n entries. */
static enum status load_links(const struct simgrid_result *r, struct link_load **out, size_t *n)
{
    size_t room = 0, used = 0;
    struct link_load *load = NULL;
    for (size_t k = 0; k < r->pairs; k++) {
        xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
        sg_host_get_route(r->host[r->pair[k].from], r->host[r->pair[k].to], route);
        size_t hops = xbt_dynar_length(route);
        if (used + hops > room) {
            room = 2 * (used + hops) + 64;
            struct link_load *larger = realloc(load, room * sizeof *larger);
            if (!larger) {
                free(load);
                xbt_dynar_free(&route);
                return error_set(STATUS_NOMEM, "%zu links", room);
            }
            load = larger;
        }
        for (size_t h = 0; h < hops; h++) {
            sg_link_t link;
            xbt_dynar_get_cpy(route, h, &link);
            load[used++] = (struct link_load){link, r->pair[k].bytes};
        }
        xbt_dynar_free(&route);
    }
    size_t kept = 0;
    if (used > 0)
        qsort(load, used, sizeof *load, by_link);
    for (size_t k = 0; k < used; k++)
        if (kept > 0 && load[kept - 1].link == load[k].link)
            load[kept - 1].bytes += load[k].bytes;
        else
            load[kept++] = load[k];
    *out = load;
    *n = kept;
    return STATUS_OK;
}

enum status simgrid_report(const struct program *p, const struct simgrid_result *r, int fd)
{
    enum status st;
    struct link_load *load = NULL;
    size_t n = 0, ops = p->ops;
    double iteration_s = 0;
    for (size_t i = 0; i < ops; i++)
        iteration_s = fmax(iteration_s, r->end_s[i]);
    TRY(load_links(r, &load, &n));
    struct simgrid_header h = {r->cpu_s, r->messages, n};
    TRY(child_write(fd, &h, sizeof h));
    TRY(child_write(fd, r->start_s, ops * sizeof *r->start_s));
    TRY(child_write(fd, r->end_s, ops * sizeof *r->end_s));
    for (size_t k = 0; k < n; k++) {
        const char *name = sg_link_get_name(load[k].link);
        double busy_s = load[k].bytes / sg_link_get_bandwidth(load[k].link);
        struct simgrid_link record = {load[k].bytes, iteration_s > 0 ? busy_s / iteration_s : 0,
                                      strlen(name)};
        TRY(child_write(fd, &record, sizeof record));
        TRY(child_write(fd, name, strlen(name)));
    }
out:
    free(load);
    return st;
}
