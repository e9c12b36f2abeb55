/* Spanning trees of a torus that share no link, each of which broadcasts a part of the buffer.
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

static void torus_add(uint32_t from, uint32_t to, double bytes, bool towards,
                      struct collective_shape *out)
{
    collective_add(out, towards ? to : from, towards ? from : to, bytes);
}

enum status torus_trees(const struct torus *t, bool towards, struct collective_shape *out)
{
    const struct collective_grid *grid = t->grid;
    struct torus_tree x = {.t = t, .rings = true};
    double slowest_Bps = INFINITY;
    size_t steps;
    for (size_t k = 0; k < t->dimensions; k++) {
        x.rings = x.rings && grid->ring[t->dimension[k]];
        slowest_Bps = fmin(slowest_Bps, t->Bps[t->dimension[k]]);
    }
    size_t trees = (x.rings ? 2 : 1) * t->dimensions;
    double part = t->bytes / (double)trees;
    while (torus_member(grid, x.root, 0) != 0)
        x.root++;
    PASS(collective_shape_open(out, 1, grid->nodes * (trees + grid->each - 1)));
    for (size_t node = 0; node < grid->nodes; node++) {
        for (size_t k = 0; node != x.root && k < trees; k++) {
            x.first = k % t->dimensions;
            x.back = k >= t->dimensions;
            torus_add(torus_member(grid, torus_parent(&x, node), 0), torus_member(grid, node, 0),
                      part, towards, out);
        }
        for (size_t p = 1; p < grid->each; p++)
            torus_add(torus_member(grid, node, p - 1), torus_member(grid, node, p), t->bytes,
                      towards, out);
    }
    double latency_s = longest_way(&x, &steps);
    double chunk_s = part / collective_chunks(part) / slowest_Bps;
    collective_end_phase(out, latency_s + (double)(steps - 1) * chunk_s);
    return STATUS_OK;
}
