/* All-to-all as a flow from every member to every other, in one phase. In large groups, where that
 * would be too many flows, fewer flows that load every port with the same bytes stand for them.
 * Gather and scatter as a flow for every member but the first, to it or from it. */
#include "core/collective/shapes.h"

enum { SHIFTS = 4 }; /* destinations that stand for all of a large group, inside and across nodes */

size_t collective_shifts(const struct collective_group *g, size_t n)
{
    return g->n <= COLLECTIVE_PAIRS_MAX || n - 1 < SHIFTS ? n - 1 : SHIFTS;
}

/* Append a flow; the phase takes the largest latency of its flows. */
static void direct_add_flow(const struct collective_group *g, uint32_t from, uint32_t to,
                            double bytes, double *latency_s, struct collective_shape *out)
{
    collective_add(out, from, to, bytes);
    *latency_s = larger(*latency_s, collective_tier(g, from, to)->latency_s);
}

/* Ordered by distance, so that the flows of a member do not stand side by side. */
double collective_every_pair(const struct collective_group *g, double pair, bool but_first,
                             struct collective_shape *out)
{
    double latency_s = 0;
    for (size_t shift = 1; shift < g->n; shift++)
        for (size_t k = 0; k < g->n; k++)
            if (!but_first || (g->order[k] != 0 && g->order[(k + shift) % g->n] != 0))
                direct_add_flow(g, g->order[k], g->order[(k + shift) % g->n], pair, &latency_s,
                                out);
    return latency_s;
}

/* What a member sends into its node and out of it, bytes as with every pair, goes to at most SHIFTS
 * members each, at distances spread evenly over the node and over the nodes. */
static double folded(const struct collective_group *g, double pair, struct collective_shape *out)
{
    double latency_s = 0;
    size_t across = collective_shifts(g, g->nodes), near[SHIFTS], far[SHIFTS];
    for (size_t i = 0; i < across; i++)
        far[i] = collective_shift(i, across, g->nodes);
    for (size_t node = 0; node < g->nodes; node++) {
        size_t size = collective_node_size(g, node), inside = collective_shifts(g, size);
        double near_bytes = pair * (double)(size - 1) / (double)inside;
        double far_bytes = pair * (double)(g->n - size) / (double)across;
        for (size_t i = 0; i < inside; i++)
            near[i] = collective_shift(i, inside, size);
        for (size_t k = 0; k < size; k++) {
            uint32_t from = collective_member(g, node, k, 0);
            for (size_t i = 0; i < inside; i++)
                direct_add_flow(g, from, collective_member(g, node, k, near[i]), near_bytes,
                                &latency_s, out);
            for (size_t i = 0; i < across; i++) {
                size_t other = node + far[i] < g->nodes ? node + far[i] : node + far[i] - g->nodes;
                direct_add_flow(g, from, collective_member(g, other, k, 0), far_bytes, &latency_s,
                                out);
            }
        }
    }
    return latency_s;
}

double collective_one_to_all(const struct collective_group *g, double part, bool back,
                             struct collective_shape *out)
{
    double latency_s = 0;
    for (uint32_t k = 1; k < g->n; k++)
        direct_add_flow(g, back ? k : 0, back ? 0 : k, part, &latency_s, out);
    return latency_s;
}

static enum status direct_shape(const struct collective_group *g, enum collective_kind kind,
                                double bytes, size_t channels, struct collective_shape *out)
{
    double pair = bytes / (double)g->n;
    bool fold = g->n > COLLECTIVE_PAIRS_MAX;
    (void)channels;
    if (kind != COLLECTIVE_ALLTOALL) {
        PASS(collective_shape_open(out, 1, g->n - 1));
        collective_end_phase(out, collective_one_to_all(g, pair, kind == COLLECTIVE_GATHER, out));
        return STATUS_OK;
    }
    PASS(collective_shape_open(out, 1, g->n * (fold ? 2 * SHIFTS : g->n - 1)));
    collective_end_phase(out,
                         fold ? folded(g, pair, out) : collective_every_pair(g, pair, false, out));
    return STATUS_OK;
}

const struct collective_algorithm collective_direct = {
    .name = "direct",
    .summary = "every pair of members exchanges its data at the same time",
    .serves =
        {[COLLECTIVE_ALLTOALL] = true, [COLLECTIVE_GATHER] = true, [COLLECTIVE_SCATTER] = true},
    .plain = true,
    .shape = direct_shape,
};
