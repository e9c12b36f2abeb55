/* Double binary trees, as NCCL builds them: each half of the buffer goes up and down one of two
 * trees over the nodes, and along a chain inside each node, whose head is in the tree. No node is
 * inside both trees, so that every node's link carries each half once in each direction.
 * Source: Sanders, Speck & Traeff, Parallel Computing 35 (2009) 581-594. */
#include <stdlib.h>

#include "core/base/array.h"
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

static size_t tree_place_of(size_t n, bool second, uint32_t node)
{
    return 1 + (!second ? node : n % 2 == 0 ? n - 1 - node : node + 1 < n ? node + 1 : 0);
}

uint32_t collective_tree_parent(size_t n, bool second, uint32_t node)
{
    size_t up = parent_place(n, tree_place_of(n, second, node));
    return up > 0 ? node_at(n, second, up) : UINT32_MAX;
}

/* The member of a node that is in the trees of a channel. */
static uint32_t tree_head(const struct collective_group *g, size_t node, size_t channel)
{
    return collective_member(g, node, 0, channel);
}

/* Latencies of a node: of its chain up to the head and down again, and of the way between the head
 * and the root. */
struct latencies {
    double chain_up, chain_down, up, down;
};

/* The chain of a node carries all that goes up and down both trees. */
static void add_chains(const struct collective_group *g, double bytes, size_t channel,
                       struct latencies *at, struct collective_shape *out)
{
    for (size_t node = 0; node < g->nodes; node++) {
        at[node].chain_up = at[node].chain_down = 0;
        for (size_t k = 1; k < collective_node_size(g, node); k++) {
            uint32_t above = collective_member(g, node, k - 1, channel);
            uint32_t below = collective_member(g, node, k, channel);
            collective_add(out, below, above, bytes);
            collective_add(out, above, below, bytes);
            at[node].chain_up += collective_tier(g, below, above)->latency_s;
            at[node].chain_down += collective_tier(g, above, below)->latency_s;
        }
    }
}

/* Add one tree, return its latency: the longest way up and the longest way down. A parent's place
 * has a higher lowest set bit, so that places are visited by that, highest first. */
static double add_tree(const struct collective_group *g, double bytes, bool second, size_t channel,
                       struct latencies *at, struct collective_shape *out)
{
    double up = 0, down = 0;
    size_t n = g->nodes, low = 1;
    while (2 * low <= n)
        low *= 2;
    for (; low > 0; low /= 2) {
        for (size_t place = low; place <= n; place += 2 * low) {
            size_t parent_at = parent_place(n, place);
            uint32_t node = node_at(n, second, place);
            struct latencies *here = &at[node];
            here->up = here->down = 0;
            if (parent_at > 0) {
                uint32_t parent = node_at(n, second, parent_at);
                uint32_t below = tree_head(g, node, channel), above = tree_head(g, parent, channel);
                collective_add(out, below, above, bytes);
                collective_add(out, above, below, bytes);
                here->up = at[parent].up + collective_tier(g, below, above)->latency_s;
                here->down = at[parent].down + collective_tier(g, above, below)->latency_s;
            }
            up = larger(up, here->chain_up + here->up);
            down = larger(down, here->chain_down + here->down);
        }
    }
    return up + down;
}

static enum status tree_shape(const struct collective_group *g, enum collective_kind kind,
                              double bytes, size_t channels, struct collective_shape *out)
{
    enum status st;
    double worst = 0, share = bytes / (double)channels;
    struct latencies *node = NULL;
    (void)kind;
    TRY(ARRAY_NEW(node, g->nodes));
    TRY(collective_shape_open(out, 1, channels * (2 * (g->n - g->nodes) + 4 * (g->nodes - 1))));
    for (size_t c = 0; c < channels; c++) {
        add_chains(g, share, c, node, out);
        worst = larger(worst, add_tree(g, share / 2, false, c, node, out));
        worst = larger(worst, add_tree(g, share / 2, true, c, node, out));
    }
    collective_end_phase(out, worst);
out:
    free(node);
    return st;
}

const struct collective_algorithm collective_tree = {
    .name = "tree",
    .summary =
        "double binary tree across nodes, a chain inside each node; latency grows with log2(nodes)",
    .serves = {[COLLECTIVE_ALLREDUCE] = true},
    .shape = tree_shape,
};
