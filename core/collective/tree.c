#include <stdlib.h>

#include "core/collective/shapes.h"

/* Places 1 .. n: the parent of place k differs in k's lowest set bit and the one above it; past
 * the end of the row it is the place before instead, which then is an ancestor of k. */
static size_t parent_place(size_t n, size_t k)
{
    size_t low = k & (~k + 1), up = (k ^ low) | low << 1;
    return up <= n ? up : k ^ low; /* 0: k is the root */
}

/* The node at place 1 .. n of a tree, and the place of a node. */
static uint32_t node_at(size_t n, bool second, size_t place)
{
    size_t k = place - 1;
    return (uint32_t)(!second ? k : n % 2 == 0 ? n - 1 - k : k > 0 ? k - 1 : n - 1);
}

static size_t place_of(size_t n, bool second, uint32_t node)
{
    return 1 + (!second ? node : n % 2 == 0 ? n - 1 - node : node + 1 < n ? node + 1 : 0);
}

uint32_t collective_tree_parent(size_t n, bool second, uint32_t node)
{
    size_t up = parent_place(n, place_of(n, second, node));
    return up > 0 ? node_at(n, second, up) : UINT32_MAX;
}

static uint32_t head(const struct collective_group *g, size_t node, size_t channel)
{
    return collective_member(g, node, 0, channel);
}

/* Latencies of a node: of its chain up to the head and down again, and of the way between the head
 * and the root. */
struct ways {
    double chain_up, chain_down, up, down;
};

/* The chain of a node carries all that goes up and down both trees. */
static void add_chains(const struct collective_group *g, double bytes, size_t channel,
                       struct ways *ways, struct collective_shape *out)
{
    for (size_t node = 0; node < g->nodes; node++) {
        ways[node].chain_up = ways[node].chain_down = 0;
        for (size_t k = 1; k < collective_node_size(g, node); k++) {
            uint32_t above = collective_member(g, node, k - 1, channel);
            uint32_t below = collective_member(g, node, k, channel);
            collective_add(out, below, above, bytes);
            collective_add(out, above, below, bytes);
            ways[node].chain_up += collective_tier(g, below, above)->latency_s;
            ways[node].chain_down += collective_tier(g, above, below)->latency_s;
        }
    }
}

/* Add one tree, return its latency: the longest way up and the longest way down. A parent's place
 * has a higher lowest set bit, so that places are visited by that, highest first. */
static double add_tree(const struct collective_group *g, double bytes, bool second, size_t channel,
                       struct ways *ways, struct collective_shape *out)
{
    double up = 0, down = 0;
    size_t n = g->nodes, low = 1;
    while (2 * low <= n)
        low *= 2;
    for (; low > 0; low /= 2) {
        for (size_t place = low; place <= n; place += 2 * low) {
            size_t parent_at = parent_place(n, place);
            uint32_t node = node_at(n, second, place);
            struct ways *way = &ways[node];
            way->up = way->down = 0;
            if (parent_at > 0) {
                uint32_t parent = node_at(n, second, parent_at);
                uint32_t below = head(g, node, channel), above = head(g, parent, channel);
                collective_add(out, below, above, bytes);
                collective_add(out, above, below, bytes);
                way->up = ways[parent].up + collective_tier(g, below, above)->latency_s;
                way->down = ways[parent].down + collective_tier(g, above, below)->latency_s;
            }
            up = larger(up, way->chain_up + way->up);
            down = larger(down, way->chain_down + way->down);
        }
    }
    return up + down;
}

enum status collective_tree(const struct collective_group *g, enum collective_kind kind,
                            double bytes, size_t channels, struct collective_shape *out)
{
    enum status st;
    double worst = 0, share = bytes / (double)channels;
    struct ways *ways = malloc(g->nodes * sizeof *ways);
    (void)kind;
    if (!ways) {
        st = error_set(STATUS_NOMEM, "trees over %zu nodes", g->nodes);
        goto out;
    }
    TRY(collective_shape_open(out, 1, channels * (2 * (g->n - g->nodes) + 4 * (g->nodes - 1))));
    for (size_t c = 0; c < channels; c++) {
        add_chains(g, share, c, ways, out);
        worst = larger(worst, add_tree(g, share / 2, false, c, ways, out));
        worst = larger(worst, add_tree(g, share / 2, true, c, ways, out));
    }
    collective_end_phase(out, worst);
out:
    free(ways);
    return st;
}
