/* Collectives in two levels: inside each node, across nodes among members of one position, and
 * inside again. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/shapes.h"

/* A phase of rings: what every edge carries, and how many steps follow one another. */
struct turn {
    double bytes;
    size_t steps;
    bool open; /* a chain from the first member on, not a ring */
};

static void ring_phase(const struct collective_group *g, bool across, const struct turn *turn,
                       size_t rings, double *latency, struct collective_shape *out)
{
    double worst = 0;
    for (size_t r = 0; r < rings; r++) {
        size_t n = across ? g->nodes : collective_node_size(g, r), edges = turn->open ? n - 1 : n;
        for (size_t k = 0; n > 1 && k < edges; k++) {
            size_t next = (k + 1) % n;
            uint32_t from = collective_member(g, across ? k : r, across ? r : k, 0);
            uint32_t to = collective_member(g, across ? next : r, across ? r : next, 0);
            collective_add(out, from, to, turn->bytes);
            latency[k] = collective_tier(g, from, to)->latency_s;
        }
        if (n > 1)
            worst = larger(worst, collective_worst_window(latency, edges, turn->steps));
    }
    if (out->flows > (out->phases > 0 ? out->phase[out->phases - 1].flow_end : 0))
        collective_end_phase(out, worst);
}

/* Everybody to everybody of a row of members of one node, or of one position: pairs of `bytes`,
 * folded like a large all-to-all. */
static void pair_phase(const struct collective_group *g, bool across, double bytes,
                       struct collective_shape *out)
{
    double worst = 0;
    size_t size = collective_node_size(g, 0), n = across ? g->nodes : size;
    size_t shifts = collective_shifts(g, n);
    for (size_t row = 0; row < (across ? size : g->nodes); row++)
        for (size_t i = 0; i < shifts; i++)
            for (size_t k = 0; k < n; k++) {
                size_t other = (k + collective_shift(i, shifts, n)) % n;
                uint32_t from = collective_member(g, across ? k : row, across ? row : k, 0);
                uint32_t to = collective_member(g, across ? other : row, across ? row : other, 0);
                collective_add(out, from, to, bytes * (double)(n - 1) / (double)shifts);
                worst = larger(worst, collective_tier(g, from, to)->latency_s);
            }
    if (n > 1)
        collective_end_phase(out, worst);
}

static enum status two_level_alltoall(const struct collective_group *g, double bytes,
                                      struct collective_shape *out)
{
    size_t p = collective_node_size(g, 0), nodes = g->nodes;
    double pair = bytes / (double)g->n;
    PASS(collective_shape_open(out, 2,
                               g->n * (collective_shifts(g, p) + collective_shifts(g, nodes))));
    pair_phase(g, false, pair * (double)nodes, out); /* to the peer with the receiver's position */
    pair_phase(g, true, pair * (double)p, out);
    return STATUS_OK;
}

/* With p members in each of k nodes: reduce-scatter inside, the kind among members of one position
 * over a p-th of the buffer, all-gather inside; all-gather and reduce-scatter do without a third.
 * Broadcast: a chain over the first members, then one in each node. */
enum status collective_levels(const struct collective_group *g, enum collective_kind kind,
                              double bytes, size_t channels, struct collective_shape *out)
{
    enum status st;
    size_t p = collective_node_size(g, 0), k = g->nodes;
    double inner = bytes * (double)(p - 1) / (double)p;
    double outer = bytes * (double)(k - 1) / (double)k / (double)p;
    struct turn inside = {inner, p - 1, false}, across = {outer, k - 1, false};
    bool reduces = kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCESCATTER;
    bool gathers = kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_ALLGATHER;
    double *latency = NULL;

    (void)channels;
    if (kind == COLLECTIVE_ALLTOALL)
        return two_level_alltoall(g, bytes, out);
    TRY(ARRAY_NEW(latency, g->n));
    TRY(collective_shape_open(out, 3, 3 * g->n));
    if (kind == COLLECTIVE_BROADCAST) {
        inside = (struct turn){bytes, p - 1, true};
        across = (struct turn){bytes, k - 1, true};
        ring_phase(g, true, &across, 1, latency, out);
        ring_phase(g, false, &inside, k, latency, out);
        goto out;
    }
    if (kind == COLLECTIVE_ALLREDUCE)
        across = (struct turn){2 * outer, 2 * (k - 1), false};
    if (reduces)
        ring_phase(g, false, &inside, k, latency, out);
    ring_phase(g, true, &across, p, latency, out);
    if (gathers)
        ring_phase(g, false, &inside, k, latency, out);
out:
    free(latency);
    return st;
}

const struct collective_algorithm collective_hierarchical = {
    .name = "hierarchical",
    .summary = "inside each node, then across nodes between equal local ranks, then inside again; "
               "needs equal nodes",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true,
               [COLLECTIVE_ALLTOALL] = true,
               [COLLECTIVE_BROADCAST] = true},
    .equal_nodes = true,
    .shape = collective_levels,
};
