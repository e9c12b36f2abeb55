/* Spanning trees of a torus that share no link, each of which broadcasts a part of the buffer, or
 * brings everybody its own; reduces and gathers are the same towards the root.
 *
 * Tree s goes along dimension s from the root; from all those nodes but the root along dimension
 * s + 1, and so on. So it has every node but those with the root's coordinate in dimension s, to
 * which the nodes next to them on the far side send: in a ring those that the way around came to
 * last. In a torus of rings a second set of trees does the same in the other directions, which
 * makes as many trees as a node has links. In rows, and of two nodes, a tree goes both ways from
 * the root and back by one step, and there is one tree for each dimension.
 *
 * No two trees use one link in one direction: dimension d's links are used, but for those back to
 * the root's coordinate, by tree d on the root's own row, by tree s < d on rows of nodes ... whose
 * coordinate s is not the root's (unit.torus counts). */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/torus.h"

struct torus_tree {
    const struct torus *t;
    size_t root, first; /* node, and number of the first dimension */
    bool rings, back;   /* all dimensions are rings; the tree goes backwards */
};

static size_t coordinate(const struct collective_grid *grid, size_t node, size_t d)
{
    return node / torus_stride(grid, d) % grid->length[d];
}

/* The node that sends to `node`, towards the root along dimension d. */
static size_t nearer(const struct torus_tree *x, size_t node, size_t d)
{
    const struct collective_grid *grid = x->t->grid;
    bool below = coordinate(grid, node, d) < coordinate(grid, x->root, d);
    return torus_step(grid, node, d, x->rings ? !x->back : !below);
}

/* The node that sends to a node with the root's coordinate in the first dimension. */
static size_t far_side(const struct torus_tree *x, size_t node)
{
    const struct collective_grid *grid = x->t->grid;
    size_t d = x->t->dimension[x->first];
    if (x->rings)
        return torus_step(grid, node, d, !x->back);
    size_t above = torus_step(grid, node, d, false);
    return above != node ? above : torus_step(grid, node, d, true);
}

static size_t torus_parent(const struct torus_tree *x, size_t node)
{
    const struct torus *t = x->t;
    size_t d = t->dimension[x->first];
    if (coordinate(t->grid, node, d) == coordinate(t->grid, x->root, d))
        return far_side(x, node);
    for (size_t k = t->dimensions; k-- > 0;) {
        d = t->dimension[(x->first + k) % t->dimensions];
        if (coordinate(t->grid, node, d) != coordinate(t->grid, x->root, d))
            break;
    }
    return nearer(x, node, d);
}

/* The longest way through a tree: latency and nodes. */
static double longest_way(const struct torus_tree *x, size_t *steps)
{
    const struct torus *t = x->t;
    double latency_s = 0, worst_s = 0;
    size_t most = 0;
    *steps = t->grid->each - 1;
    for (size_t k = 0; k < t->dimensions; k++) {
        size_t d = t->dimension[k], at = coordinate(t->grid, x->root, d);
        size_t far = t->grid->length[d] - 1;
        if (!x->rings)
            far = at > far - at ? at : far - at;
        *steps += far;
        latency_s += (double)far * t->latency_s[d];
        size_t more = t->dimensions == 1 ? 0 : x->rings || far == 1 ? 1 : 0;
        most = more > most ? more : most;
        worst_s = larger(worst_s, (double)more * t->latency_s[d]);
    }
    *steps += most;
    return latency_s + worst_s + (double)(t->grid->each - 1) * t->latency_s[TORUS_INSIDE];
}

/* How many nodes are in the tree below each node, itself included, by taking leaves off.
 *   below   [nodes] out
 *   parent, open, leaf  [nodes] what this needs besides
 */
static void count_below(const struct torus_tree *x, uint32_t *below, uint32_t *parent,
                        uint32_t *open, uint32_t *leaf)
{
    size_t nodes = x->t->grid->nodes, leaves = 0;
    for (size_t v = 0; v < nodes; v++)
        open[v] = 0;
    for (size_t v = 0; v < nodes; v++) {
        below[v] = 1;
        parent[v] = (uint32_t)(v == x->root ? v : torus_parent(x, v));
        open[parent[v]] += v != x->root;
    }
    for (uint32_t v = 0; v < nodes; v++)
        if (open[v] == 0)
            leaf[leaves++] = v;
    while (leaves > 0) {
        uint32_t v = leaf[--leaves], up = parent[v];
        if (v == x->root)
            continue;
        below[up] += below[v];
        if (--open[up] == 0)
            leaf[leaves++] = up;
    }
}

/* Whether everybody gets something else, and whether it goes towards the root. */
struct torus_what {
    bool each, towards;
};

static void torus_add(uint32_t from, uint32_t to, double bytes, struct torus_what what,
                      struct collective_shape *out)
{
    collective_add(out, what.towards ? to : from, what.towards ? from : to, bytes);
}

/* One tree: `part` to everybody, or a piece of it for each. */
static void add_torus_tree(const struct torus_tree *x, double part, struct torus_what what,
                           uint32_t *work, struct collective_shape *out)
{
    const struct collective_grid *grid = x->t->grid;
    size_t nodes = grid->nodes;
    uint32_t *below = work, *parent = work + nodes;
    count_below(x, below, parent, work + 2 * nodes, work + 3 * nodes);
    for (size_t v = 0; v < nodes; v++)
        if (v != x->root)
            torus_add(torus_member(grid, parent[v], 0), torus_member(grid, v, 0),
                      what.each ? part * (double)below[v] / (double)nodes : part, what, out);
}

/* In each node a chain from its first member on. */
static void add_torus_chains(const struct torus *t, struct torus_what what,
                             struct collective_shape *out)
{
    const struct collective_grid *grid = t->grid;
    double piece = t->bytes / (double)t->g->n;
    for (size_t v = 0; v < grid->nodes; v++)
        for (size_t p = 1; p < grid->each; p++)
            torus_add(torus_member(grid, v, p - 1), torus_member(grid, v, p),
                      what.each ? piece * (double)(grid->each - p) : t->bytes, what, out);
}

enum status torus_trees(const struct torus *t, enum collective_kind kind,
                        struct collective_shape *out)
{
    enum status st;
    const struct collective_grid *grid = t->grid;
    struct torus_tree x = {.t = t, .rings = true};
    struct torus_what what = {kind == COLLECTIVE_GATHER || kind == COLLECTIVE_SCATTER,
                              kind == COLLECTIVE_GATHER || kind == COLLECTIVE_REDUCE};
    double slowest_Bps = INFINITY;
    uint32_t *work;
    size_t steps;
    for (size_t k = 0; k < t->dimensions; k++) {
        x.rings = x.rings && grid->ring[t->dimension[k]];
        slowest_Bps = fmin(slowest_Bps, t->Bps[t->dimension[k]]);
    }
    size_t trees = (x.rings ? 2 : 1) * t->dimensions;
    double part = t->bytes / (double)trees;
    x.root = grid->node[0];
    TRY(ARRAY_NEW(work, 4 * grid->nodes));
    TRY(collective_shape_open(out, 1, grid->nodes * (trees + grid->each - 1)));
    for (size_t k = 0; k < trees; k++) {
        x.first = k % t->dimensions;
        x.back = k >= t->dimensions;
        add_torus_tree(&x, part, what, work, out);
    }
    add_torus_chains(t, what, out);
    double latency_s = longest_way(&x, &steps);
    double chunk_s = part / collective_chunks(part) / slowest_Bps;
    collective_end_phase(out, latency_s + (double)(steps - 1) * chunk_s);
out:
    free(work);
    return st;
}
