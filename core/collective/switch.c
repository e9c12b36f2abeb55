/* What an all-reduce would take if switches reduced. Each member sends its buffer into its node's
 * switch and receives the result; each position does so with its p-th of the buffer across nodes.
 * Flows to the next member load the ports as that does. One phase: the reductions are pipelined. */
#include "core/collective/shapes.h"

static enum status switch_shape(const struct collective_group *g, enum collective_kind kind,
                                double bytes, size_t channels, struct collective_shape *out)
{
    double inside_s = 0, across_s = 0;
    (void)kind;
    (void)channels;
    PASS(collective_shape_open(out, 1, 2 * g->n));
    for (size_t node = 0; node < g->nodes; node++) {
        size_t size = collective_node_size(g, node), next = (node + 1) % g->nodes;
        for (size_t k = 0; k < size; k++) {
            uint32_t from = collective_member(g, node, k, 0);
            uint32_t peer = collective_member(g, node, k + 1, 0);
            uint32_t other = collective_member(g, next, k, 0);
            if (size > 1) {
                collective_add(out, from, peer, bytes);
                inside_s = larger(inside_s, collective_tier(g, from, peer)->latency_s);
            }
            if (g->nodes > 1) {
                collective_add(out, from, other, bytes / (double)size);
                across_s = larger(across_s, collective_tier(g, from, other)->latency_s);
            }
        }
    }
    collective_end_phase(out, inside_s + across_s);
    return STATUS_OK;
}

const struct collective_algorithm collective_switch = {
    .name = "switch",
    .summary = "hypothetical in-network reduction: each member sends its buffer once and receives "
               "the result once",
    .serves = {[COLLECTIVE_ALLREDUCE] = true},
    .shape = switch_shape,
};
