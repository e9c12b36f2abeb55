/* Collectives of a torus or grid of nodes that send to neighbours only, on all links all the time.
 *
 * The buffer is cut into a part for each dimension and direction. Part p's reduce-scatter goes
 * through the dimensions from its p-th on, around; the all-gather comes back. Parts are as long as
 * makes all dimensions equally busy. What a dimension of L nodes is given is cut into L pieces:
 * in a ring half of them travel in each direction, in a row each towards its node from both sides.
 * An all-to-all is passed on from neighbour to neighbour, half of what goes half around each way.
 * Broadcasts and reduces: torus_tree.c. Members of one node reduce-scatter and all-gather among
 * themselves first and last, and each position of the nodes does with its share what is said here.
 *
 * Parts are made of chunks that follow one another through the dimensions, so that all of it is one
 * phase; what its first and last chunks leave idle is part of its latency
 * (docs/reference/collectives.md). Sources: Chan, Heimlich, Purkayastha & van de Geijn, CCPE 19
 * (2007) 1749-1783 (dimension by dimension); Sack & Gropp, PPoPP 2012 (parts in rotated orders on
 * all links of a torus). */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/torus.h"

static bool torus_reduces(enum collective_kind kind)
{
    return kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_REDUCESCATTER;
}

static bool torus_gathers(enum collective_kind kind)
{
    return kind == COLLECTIVE_ALLREDUCE || kind == COLLECTIVE_ALLGATHER;
}

/* ---- links */

size_t torus_step(const struct collective_grid *grid, size_t node, size_t d, bool back)
{
    size_t stride = torus_stride(grid, d), length = grid->length[d];
    size_t at = node / stride % length;
    if (back)
        return at > 0 ? node - stride : grid->ring[d] ? node + (length - 1) * stride : node;
    return at + 1 < length ? node + stride : grid->ring[d] ? node - at * stride : node;
}

/* The slowest link and the longest latency of each dimension, and of the ways inside nodes. */
static void torus_measure(struct torus *t)
{
    const struct collective_grid *grid = t->grid;
    for (size_t d = 0; d <= TORUS_INSIDE; d++)
        t->Bps[d] = INFINITY;
    for (size_t node = 0; node < grid->nodes; node++) {
        for (size_t d = 0; d < TORUS_INSIDE; d++) {
            size_t next = torus_step(grid, node, d, false);
            if (next != node)
                torus_look(t, d, torus_member(grid, node, 0), torus_member(grid, next, 0));
        }
        if (grid->each > 1)
            torus_look(t, TORUS_INSIDE, torus_member(grid, node, 0), torus_member(grid, node, 1));
    }
}

/* Seconds that a link of dimension d is busy when the whole buffer is given to the dimension. */
static double seconds_of_all(const struct torus *t, enum collective_kind kind, size_t d)
{
    double length = (double)t->grid->length[d], others = (length - 1) / length;
    double whole = t->bytes / t->Bps[d];
    if (t->grid->ring[d])
        return whole * others / (kind == COLLECTIVE_ALLREDUCE ? 1 : 2);
    return kind == COLLECTIVE_ALLREDUCE ? whole : whole * others; /* see torus_row_share() */
}

/* ---- parts */

/* Share of the buffer that begins with dimension d, for both directions. For every dimension to
 * take the same time T it must be given share x[d] = T / seconds_of_all(d) of the buffer; what it
 * is given is its own part and, of what came to the dimension before it, one L-th:
 * x[d] = part[d] + (x[before] - part[d] / (L[d] * ...)) / L[before], hence part[d] ~ x[d] -
 * x[before] / L[before]. Where one dimension is much faster a part would be less than nothing. */
static void share_parts(struct torus *t, enum collective_kind kind)
{
    double sum = 0;
    for (size_t k = 0; k < t->dimensions; k++) {
        size_t d = t->dimension[k];
        size_t before = t->dimension[(k + t->dimensions - 1) % t->dimensions];
        double own = 1 / seconds_of_all(t, kind, d);
        double passed = 1 / (seconds_of_all(t, kind, before) * (double)t->grid->length[before]);
        t->part[d] = t->dimensions == 1 ? 1 : larger(own - passed, 0);
        sum += t->part[d];
    }
    for (size_t k = 0; k < t->dimensions; k++)
        t->part[t->dimension[k]] /= sum;
}

/* Share of the buffer that dimension number k is given in step `turn`. */
static double share_in_turn(const struct torus *t, size_t k, size_t turn)
{
    size_t from = (k + t->dimensions - turn) % t->dimensions;
    double share = t->part[t->dimension[from]];
    for (size_t i = 0; i < turn; i++)
        share /= (double)t->grid->length[t->dimension[(from + i) % t->dimensions]];
    return share;
}

/* What each dimension is given in all; and the seconds that pipelining saves: all steps one after
 * the other, each as long as its slowest dimension, less what the busiest dimension takes. */
static double share_dimensions(struct torus *t, enum collective_kind kind)
{
    double steps_s = 0, busiest_s = 0;
    double twice = kind == COLLECTIVE_ALLREDUCE ? 2 : 1, inner = (double)(t->grid->each - 1);
    for (size_t turn = 0; turn < t->dimensions; turn++) {
        double longest_s = 0;
        for (size_t k = 0; k < t->dimensions; k++) {
            size_t d = t->dimension[k];
            double share = share_in_turn(t, k, turn);
            t->given[d] += share;
            longest_s = larger(longest_s, share * seconds_of_all(t, COLLECTIVE_REDUCESCATTER, d));
        }
        steps_s += twice * longest_s;
    }
    for (size_t k = 0; k < t->dimensions; k++)
        busiest_s =
            larger(busiest_s, t->given[t->dimension[k]] * seconds_of_all(t, kind, t->dimension[k]));
    if (t->grid->each > 1) /* inside nodes, before and after */
        steps_s += twice * inner / (double)t->grid->each * t->bytes / t->Bps[TORUS_INSIDE];
    return larger(steps_s - busiest_s, 0);
}

/* ---- what a link carries */

/* The way from place c of a row of L to c + 1, of what the row is given: a reduce-scatter brings
 * the pieces of all places behind it, an all-gather those of all up to it. */
static double torus_row_share(enum collective_kind kind, size_t c, size_t length)
{
    double behind = (double)(length - 1 - c) / (double)length;
    double up_to = (double)(c + 1) / (double)length;
    if (kind == COLLECTIVE_ALLTOALL)
        return behind * (double)(c + 1);
    return (torus_reduces(kind) ? behind : 0) + (torus_gathers(kind) ? up_to : 0);
}

static double torus_ring_share(enum collective_kind kind, size_t length)
{
    double n = (double)length;
    if (kind == COLLECTIVE_ALLTOALL) /* a fourth of the way around on average, both ways */
        return length % 2 == 0 ? n / 8 : (n * n - 1) / (8 * n);
    return (n - 1) / n / (kind == COLLECTIVE_ALLREDUCE ? 1 : 2);
}

/* Bytes over the link from a node to the next of dimension d, or the one before. */
static double torus_link_bytes(const struct torus *t, enum collective_kind kind, size_t node,
                               size_t d, bool back)
{
    const struct collective_grid *grid = t->grid;
    size_t length = grid->length[d], c = node / torus_stride(grid, d) % length;
    double given = kind == COLLECTIVE_ALLTOALL ? 1 : t->given[d];
    double share = grid->ring[d] ? torus_ring_share(kind, length)
                                 : torus_row_share(kind, back ? length - 1 - c : c, length);
    return t->bytes * given * share;
}

/* All flows out of one member. */
static void add_member(const struct torus *t, enum collective_kind kind, size_t node,
                       size_t position, struct collective_shape *out)
{
    const struct collective_grid *grid = t->grid;
    size_t each = grid->each, others = kind == COLLECTIVE_ALLTOALL ? each - 1 : each > 1;
    uint32_t member = torus_member(grid, node, position);
    double inner = kind == COLLECTIVE_ALLTOALL    ? t->bytes / (double)each
                   : kind == COLLECTIVE_ALLREDUCE ? 2 * t->bytes * (double)(each - 1) / (double)each
                                                  : t->bytes * (double)(each - 1) / (double)each;
    double scale = kind == COLLECTIVE_ALLTOALL ? 1 : 1 / (double)each;
    for (size_t k = 1; k <= others; k++)
        collective_add(out, member, torus_member(grid, node, (position + k) % each), inner);
    for (size_t k = 0; k < 2 * t->dimensions; k++) {
        size_t d = t->dimension[k / 2], next = torus_step(grid, node, d, k % 2 == 1);
        if (next != node)
            collective_add(out, member, torus_member(grid, next, position),
                           scale * torus_link_bytes(t, kind, node, d, k % 2 == 1));
    }
}

/* Steps from node to node that follow one another. */
static double torus_latency(const struct torus *t, enum collective_kind kind)
{
    double sum = 0, inner = (double)(t->grid->each - 1),
           twice = kind == COLLECTIVE_ALLREDUCE ? 2 : 1;
    for (size_t k = 0; k < t->dimensions; k++) {
        size_t d = t->dimension[k], steps = t->grid->length[d] - 1;
        if (kind == COLLECTIVE_ALLTOALL && t->grid->ring[d])
            steps = t->grid->length[d] / 2;
        sum += twice * (double)steps * t->latency_s[d];
    }
    if (kind == COLLECTIVE_ALLTOALL && inner > 1)
        inner = 1;
    return sum + twice * inner * t->latency_s[TORUS_INSIDE];
}

/* Dimensions longer than 1, and their links. */
static struct torus torus_of(const struct collective_group *g, double bytes)
{
    struct torus t = {.g = g, .grid = g->grid, .bytes = bytes};
    for (size_t d = 0; d < TORUS_INSIDE; d++)
        if (t.grid->length[d] > 1)
            t.dimension[t.dimensions++] = d;
    torus_measure(&t);
    return t;
}

static enum status torus_shape(const struct collective_group *g, enum collective_kind kind,
                               double bytes, size_t channels, struct collective_shape *out)
{
    struct torus t = torus_of(g, bytes);
    double idle_s = 0;
    (void)channels;
    if (kind >= COLLECTIVE_BROADCAST)
        return torus_trees(&t, kind, out);
    if (kind != COLLECTIVE_ALLTOALL) { /* there all dimensions are as busy in every step */
        share_parts(&t, kind);
        idle_s = share_dimensions(&t, kind);
    }
    size_t each = t.grid->each, inside = kind == COLLECTIVE_ALLTOALL ? each - 1 : 1;
    PASS(collective_shape_open(out, 1, g->n * (2 * t.dimensions + inside)));
    for (size_t node = 0; node < t.grid->nodes; node++)
        for (size_t position = 0; position < each; position++)
            add_member(&t, kind, node, position, out);
    double part = bytes / (double)(2 * t.dimensions * each);
    collective_end_phase(out, torus_latency(&t, kind) + idle_s / collective_chunks(part));
    return STATUS_OK;
}

double collective_grid_seconds(const struct collective_group *g, const struct collective_shape *s,
                               const struct collective_phase *phase)
{
    struct torus t = torus_of(g, 0);
    double worst = 0;
    for (size_t k = 0; k < t.dimensions; k++) {
        size_t d = t.dimension[k], length = t.grid->length[d], stride = torus_stride(t.grid, d);
        double steps = 0, links = 2 * (double)t.grid->nodes;
        if (!t.grid->ring[d])
            links *= (double)(length - 1) / (double)length;
        for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
            size_t from = t.grid->node[s->flow[f].from] / stride % length;
            size_t to = t.grid->node[s->flow[f].to] / stride % length;
            size_t apart = from < to ? to - from : from - to;
            if (t.grid->ring[d] && apart > length - apart)
                apart = length - apart;
            steps += (double)apart * s->flow[f].bytes;
        }
        worst = larger(worst, steps / (links * t.Bps[d]));
    }
    return worst;
}

/* Does only the first member of each node send to other nodes, as trees do? */
static bool torus_is_of_first(const struct collective_grid *grid, const struct collective_shape *s,
                              const struct collective_phase *phase)
{
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        uint32_t from = s->flow[f].from, node = grid->node[from];
        if (node != grid->node[s->flow[f].to] && grid->member[node * grid->each] != from)
            return false;
    }
    return true;
}

/* Neighbours have ways of their own, which the members of a node share; a member of several has one
 * into its node, over which all goes that it sends. */
static double torus_transfer(const struct collective_group *g, const struct collective_shape *s,
                             const struct collective_phase *phase)
{
    const struct collective_grid *grid = g->grid;
    double worst = 0, port_s = 0, inside_Bps = 0;
    double sharing = torus_is_of_first(grid, s, phase) ? 1 : (double)grid->each;
    if (grid->each > 1)
        inside_Bps = collective_tier(g, grid->member[0], grid->member[1])->bandwidth_Bps;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        const struct collective_flow *flow = &s->flow[f];
        const struct topology_tier *tier = collective_tier(g, flow->from, flow->to);
        bool inside = grid->node[flow->from] == grid->node[flow->to];
        double share = inside ? 1 : sharing;
        worst = larger(worst, share * flow->bytes / tier->bandwidth_Bps);
        if (grid->each == 1)
            continue;
        bool more = f > phase->flow_start && s->flow[f - 1].from == flow->from;
        port_s = (more ? port_s : 0) + flow->bytes / inside_Bps;
        worst = larger(worst, port_s);
    }
    return worst;
}

const struct collective_algorithm collective_torus = {
    .name = "torus",
    .summary = "exchange between torus or grid neighbours, on all links at once",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true,
               [COLLECTIVE_ALLTOALL] = true,
               [COLLECTIVE_BROADCAST] = true,
               [COLLECTIVE_REDUCE] = true,
               [COLLECTIVE_GATHER] = true,
               [COLLECTIVE_SCATTER] = true},
    .neighbours = true,
    .shape = torus_shape,
    .transfer_s = torus_transfer,
};
