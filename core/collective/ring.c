/* Rings: in each step every member sends one n-th of the buffer to the next one. Reduce-scatter and
 * all-gather take n - 1 steps, an all-reduce is the one after the other.
 * Source: Patarasuk & Yuan, JPDC 69 (2009) 117-124; broadcast: a pipelined chain from member 0,
 * reduce: the same towards it. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/shapes.h"

static bool is_chain(enum collective_kind kind)
{
    return kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE;
}

/* Fraction of `bytes` that every edge carries. */
static double edge_share(enum collective_kind kind, size_t n)
{
    double others = (double)(n - 1) / (double)n;
    return kind == COLLECTIVE_ALLREDUCE ? 2 * others : is_chain(kind) ? 1 : others;
}

/* The ring of one channel: each node begins at another of its members. With an even number of
 * channels every other node is passed backwards, so that the ring enters a node on the rail on
 * which it left the one before; NCCL exchanges pairs of rings on odd nodes to the same end. Member
 * 0 is where it is. */
static void order_ring(const struct collective_group *g, size_t channel, bool alternate,
                       uint32_t *ring)
{
    size_t at = 0;
    for (size_t node = 0; node < g->nodes; node++) {
        size_t n = collective_node_size(g, node);
        bool backwards = alternate && node % 2 == 1;
        for (size_t k = 0; k < n; k++)
            ring[at++] = collective_member(g, node, backwards ? n - 1 - k : k, channel);
    }
}

/* A chunk waits for the one before it only at its own next edge: the latencies of a step differ
 * from member to member, and what counts is the worst path of as many edges as there are steps. */
static double add_ring(const struct collective_group *g, enum collective_kind kind, double bytes,
                       const uint32_t *ring, double *latency, struct collective_shape *out)
{
    size_t n = g->n, first = 0, edges = is_chain(kind) ? n - 1 : n;
    bool towards = kind == COLLECTIVE_REDUCE;
    while (is_chain(kind) && ring[first] != 0)
        first++;
    for (size_t k = 0; k < edges; k++) {
        uint32_t near = ring[(first + k) % n], far = ring[(first + k + 1) % n];
        uint32_t from = towards ? far : near, to = towards ? near : far;
        collective_add(out, from, to, bytes);
        latency[k] = collective_tier(g, from, to)->latency_s;
    }
    return collective_worst_window(latency, edges,
                                   kind == COLLECTIVE_ALLREDUCE ? 2 * (n - 1) : n - 1);
}

static enum status ring_shape(const struct collective_group *g, enum collective_kind kind,
                              double bytes, size_t channels, struct collective_shape *out)
{
    enum status st;
    double worst = 0;
    uint32_t *ring = NULL;
    double *latency = NULL;
    TRY(ARRAY_NEW(ring, g->n));
    TRY(ARRAY_NEW(latency, g->n));
    TRY(collective_shape_open(out, 1, channels * g->n));
    for (size_t c = 0; c < channels; c++) {
        order_ring(g, c, channels % 2 == 0, ring);
        double path = add_ring(g, kind, bytes * edge_share(kind, g->n) / (double)channels, ring,
                               latency, out);
        worst = larger(worst, path);
    }
    collective_end_phase(out, worst);
out:
    free(ring);
    free(latency);
    return st;
}

const struct collective_algorithm collective_ring = {
    .name = "ring",
    .summary = "chunks travel around a ring; sends the fewest bytes, latency grows with the number "
               "of members",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true,
               [COLLECTIVE_BROADCAST] = true,
               [COLLECTIVE_REDUCE] = true},
    .plain = true,
    .shape = ring_shape,
};
