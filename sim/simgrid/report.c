/* Adds the bytes of every pair to the links of its route, and writes what simgrid_parse() reads. */
#include "sim/simgrid/report.h"

#include <math.h>
#include <stdlib.h>

#include <simgrid/link.h>
#include <xbt/dynar.h>

#include "core/base/array.h"
#include "sim/simgrid_answer.h"

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
static enum status simgrid_report_links(const struct simgrid_result *r, struct link_load **out,
                                        size_t *n)
{
    enum status st = STATUS_OK;
    size_t used = 0, kept = 0;
    struct link_load *load = NULL;
    for (size_t k = 0; k < r->pairs; k++) {
        xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
        sg_host_get_route(r->host[r->pair[k].from], r->host[r->pair[k].to], route);
        size_t hops = xbt_dynar_length(route);
        for (size_t h = 0; h < hops && st == STATUS_OK; h++) {
            sg_link_t link;
            xbt_dynar_get_cpy(route, h, &link);
            if ((st = ARRAY_ROOM(load, used)) == STATUS_OK)
                load[used++] = (struct link_load){link, r->pair[k].bytes};
        }
        xbt_dynar_free(&route);
        TRY(st);
    }
    if (used > 0)
        qsort(load, used, sizeof *load, by_link);
    for (size_t k = 0; k < used; k++)
        if (kept > 0 && load[kept - 1].link == load[k].link)
            load[kept - 1].bytes += load[k].bytes;
        else
            load[kept++] = load[k];
    *n = kept;
    MOVE(out, load);
out:
    free(load);
    return st;
}

enum status simgrid_report(const struct program *p, const struct simgrid_result *r, int fd)
{
    enum status st;
    struct link_load *load = NULL;
    struct simulation s = {
        .timeline = {p->ops, r->start_s, r->end_s}, .cpu_s = r->cpu_s, .messages = r->messages};
    double iteration_s = 0;
    for (size_t i = 0; i < p->ops; i++)
        iteration_s = fmax(iteration_s, r->end_s[i]);
    TRY(simgrid_report_links(r, &load, &s.links));
    TRY(ARRAY_NEW(s.link, s.links));
    for (size_t k = 0; k < s.links; k++) {
        double busy_s = load[k].bytes / sg_link_get_bandwidth(load[k].link);
        s.link[k] = (struct measured_link){
            .name = (char *)(uintptr_t)sg_link_get_name(load[k].link), /* read alone */
            .bytes = load[k].bytes,
            .busy_fraction = iteration_s > 0 ? busy_s / iteration_s : 0};
    }
    TRY(simgrid_send(&s, fd));
out:
    free(s.link);
    free(load);
    return st;
}
