/* Hosts have no meaning but as names of routes: SimGrid keeps a table of all pairs, so there are as
 * few of them as have enough pairs. */
#include "sim/quotient.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/divisor.h"

enum { LONGEST = 1 << 22 }; /* links of all routes together */

/* The least h with h (h - 1) ordered pairs for all flows. */
uint32_t quotient_hosts(size_t flows)
{
    uint32_t hosts = 2;
    while ((size_t)hosts * (hosts - 1) < flows)
        hosts++;
    return hosts;
}

/* Flow f takes the f-th ordered pair of different hosts. */
struct quotient_ends quotient_ends(size_t flows, uint32_t flow)
{
    uint32_t others = quotient_hosts(flows) - 1, from = flow / others, to = flow % others;
    return (struct quotient_ends){from, to < from ? to : to + 1};
}

/* Of the weights on every link, 0 without flows; they are whole numbers, counts of flows. */
static enum status quotient_find_units(const struct sharing_network *n, uint64_t *unit)
{
    double length = 0;
    for (size_t e = 0; e < n->start[n->flows]; e++)
        unit[n->link[e]] = common_divisor(unit[n->link[e]], (uint64_t)llround(n->weight[e]));
    for (size_t e = 0; e < n->start[n->flows]; e++)
        length += n->weight[e] / (double)unit[n->link[e]];
    if (length > LONGEST)
        return error_set(
            STATUS_UNSUPPORTED,
            "ranks are not symmetric enough to simulate classes of ranks on SimGrid: "
            "the routes of the classes have %.3g links in total, expected at most %.3g",
            length, (double)LONGEST);
    return STATUS_OK;
}

/* One link for each distinct bound: bound_link[flow] is its number. */
struct bound {
    double Bps;
    uint32_t flow;
};

static int by_bound(const void *a, const void *b)
{
    double x = ((const struct bound *)a)->Bps, y = ((const struct bound *)b)->Bps;
    return x < y ? -1 : x > y;
}

/* A flow that is bounded below its links gets a link of its own speed that nobody shares: one for
 * each distinct bound, FATPIPE. */
static enum status write_bounds(const struct sharing_network *n, uint32_t *bound_link, FILE *to)
{
    struct bound *bound;
    uint32_t links = 0;
    PASS(ARRAY_NEW(bound, n->flows));
    for (uint32_t f = 0; f < n->flows; f++)
        bound[f] = (struct bound){n->bound_Bps[f], f};
    if (n->flows > 0)
        qsort(bound, n->flows, sizeof *bound, by_bound);
    for (size_t k = 0; k < n->flows; k++) {
        if (k == 0 || bound[k].Bps > bound[k - 1].Bps)
            fprintf(to,
                    "<link id=\"b%" PRIu32 "\" bandwidth=\"%.17gBps\" latency=\"0s\" "
                    "sharing_policy=\"FATPIPE\"/>\n",
                    links++, bound[k].Bps);
        bound_link[bound[k].flow] = links - 1;
    }
    free(bound);
    return STATUS_OK;
}

/* A link stands as many times on a route as the flow takes units of it: SimGrid counts each
 * time. */
static void write_route(const struct sharing_network *n, uint32_t flow, const uint64_t *unit,
                        uint32_t bound_link, FILE *to)
{
    struct quotient_ends ends = quotient_ends(n->flows, flow);
    fprintf(to,
            "<route src=\"%" PRIu32 "\" dst=\"%" PRIu32
            "\" symmetrical=\"NO\"><link_ctn id=\"b%" PRIu32 "\"/>",
            ends.from, ends.to, bound_link);
    for (size_t e = n->start[flow]; e < n->start[flow + 1]; e++) {
        uint64_t times = (uint64_t)llround(n->weight[e]) / unit[n->link[e]];
        for (uint64_t k = 0; k < times; k++)
            fprintf(to, "<link_ctn id=\"l%" PRIu32 "\"/>", n->link[e]);
    }
    fputs("</route>\n", to);
}

enum status quotient_write(const struct sharing_network *n, FILE *to)
{
    enum status st;
    uint64_t *unit = NULL;
    uint32_t *bound_link = NULL;
    TRY(ARRAY_NEW(unit, n->links));
    TRY(ARRAY_NEW(bound_link, n->flows));
    TRY(quotient_find_units(n, unit));
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"quotient\" routing=\"Full\">\n",
          to);
    for (uint32_t k = 0; k < quotient_hosts(n->flows); k++)
        fprintf(to, "<host id=\"%" PRIu32 "\" speed=\"1Gf\"/>\n", k);
    for (uint32_t l = 0; l < n->links; l++)
        if (unit[l] > 0)
            fprintf(to, "<link id=\"l%" PRIu32 "\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", l,
                    n->capacity_Bps[l] / (double)unit[l]);
    TRY(write_bounds(n, bound_link, to));
    for (uint32_t f = 0; f < n->flows; f++)
        write_route(n, f, unit, bound_link[f], to);
    fputs("</zone>\n</platform>\n", to);
out:
    free(unit);
    free(bound_link);
    return st;
}
