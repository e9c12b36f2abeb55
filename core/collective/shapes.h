/* shapes.h - what the algorithms of collective.h share; private to core/collective/collective.c and
 * core/collective/.
 *
 *   algorithms.def   the list: one line per algorithm
 *   ring.c  tree.c  hierarchical.c  switch.c  direct.c  halving.c  pairs.c
 *   pipelined.c  torus.c (torus_tree.c, torus.h)
 *   file.c (steps.c) algorithms that were read from files
 *   shapes.c         what is declared here and not inline
 *   group.c  grid.c  members, the nodes they form, and the grid that these form
 *   nccl.c           NCCL's cost table, which picks the algorithm
 *   fastest.c        the one that takes least on the network
 *   attained.c       measured curves, and the model of what NCCL attains */
#ifndef CORE_COLLECTIVE_SHAPES_H
#define CORE_COLLECTIVE_SHAPES_H

#include "core/collective/collective.h"

/* The cheapest row of NCCL's table, of algorithm `only` unless that is NULL; *out is left alone
 * when the table has none. n >= 2, bytes > 0. O(n). */
void collective_table(const struct collective_group *g, enum collective_kind kind, double bytes,
                      uint32_t channels, const struct collective_algorithm *only,
                      struct collective_choice *out);

/* What a collective alone takes: so many seconds, if known; else times its bytes inside nodes and
 * across. */
struct collective_attained {
    double seconds; /* 0: by the factors */
    double latency_s, inside, across;
    bool switched; /* the switch sums */
};
/* Is the algorithm asked for that is the fastest here? */
bool collective_wants_fastest(const struct collective_options *options);
/* False: nothing is known, or an algorithm is asked for, but for the fastest. Of that and of an
 * algorithm between neighbours, which NCCL does not have, the latency is what comes besides that of
 * its shape.
 *   chosen  what collective_choose() says
 * n >= 2, bytes > 0. O(n) with curves. */
bool collective_attain(const struct collective_group *g, enum collective_kind kind, double bytes,
                       const struct collective_options *options,
                       const struct collective_algorithm *chosen, struct collective_attained *out);
/* Lengthen the flows by the factors and share the latency out over the phases as it was.
 *   node  [n] of each member */
void collective_stretch(const struct collective_group *g, const uint32_t *node,
                        const struct collective_attained *a, struct collective_shape *s);

/* Fill g->grid of a group that has all the rest. O(n + lengths). STATUS_NOMEM. */
enum status collective_find_grid(struct collective_group *g) MUST_CHECK;
/* Seconds that a phase takes at least on the grid: what its flows need of each dimension, if they
 * went the shortest ways and shared all links there evenly. O(flows + n). */
double collective_grid_seconds(const struct collective_group *g, const struct collective_shape *s,
                               const struct collective_phase *phase);
/* Seconds of a phase by its busiest link, along the routes of its flows. As topology_routes(). */
enum status collective_link_seconds(const struct collective_group *g,
                                    const struct collective_shape *s,
                                    const struct collective_phase *phase,
                                    double *seconds) MUST_CHECK;
void collective_grid_free(struct collective_grid *grid); /* accepts NULL */

/* Channels there can be: one for each member of the smallest node; inside a node all are alike. */
size_t collective_count_channels(const struct collective_group *g,
                                 const struct collective_options *o);
/* The closed form of a shape: phases follow one another, each takes its latency and its
 * transfer. With `a`, NULL or what it attains: flows are lengthened to that. STATUS_NOMEM. */
enum status collective_close(const struct collective_group *g, double nics,
                             struct collective_attained *a, struct collective_shape *s) MUST_CHECK;
/* The fastest algorithm by closed forms, and where one is asked for (`fastest`) by the busiest link
 * of its flows; *out is left alone when none applies. Without what switches would sum.
 * STATUS_NOMEM, or as topology_routes(). */
enum status collective_take_fastest(const struct collective_group *g, enum collective_kind kind,
                                    double bytes, const struct collective_options *options,
                                    struct collective_choice *out) MUST_CHECK;

/* Chunks that a part of a buffer is cut into, which follow one another through a pipeline. */
double collective_chunks(double bytes);

/* The phases of steps among members in the order of the group's devices; `bytes` as collective.h
 * counts them. STATUS_NOMEM. */
enum status collective_follow(const struct collective_group *g, const struct steps_algorithm *steps,
                              double bytes, struct collective_shape *out) MUST_CHECK;

/* Room for phases and flows; nothing in them yet. What was there before is not released. */
enum status collective_shape_open(struct collective_shape *s, size_t phases,
                                  size_t flows) MUST_CHECK;

/* Append a flow to the phase that is being filled. */
static inline void collective_add(struct collective_shape *s, uint32_t from, uint32_t to,
                                  double bytes)
{
    s->flow[s->flows++] = (struct collective_flow){from, to, bytes};
}

/* End the phase that is being filled: the flows since the last one are its own. */
void collective_end_phase(struct collective_shape *s, double latency_s);

static inline double larger(double a, double b) /* fmax() is a call */
{
    return a > b ? a : b;
}

static inline const struct topology_tier *collective_tier(const struct collective_group *g,
                                                          uint32_t from, uint32_t to)
{
    return topology_between(g->topology, g->device[from], g->device[to]);
}

static inline size_t collective_node_size(const struct collective_group *g, size_t node)
{
    return g->node_start[node + 1] - g->node_start[node];
}

/* The k-th member of a node, counted around from its `channel`-th. */
static inline uint32_t collective_member(const struct collective_group *g, size_t node, size_t k,
                                         size_t channel)
{
    size_t size = collective_node_size(g, node), at = k + channel;
    return g->order[g->node_start[node] + (at < size          ? at
                                           : at - size < size ? at - size
                                                              : at % size)];
}

/* Members of the smallest node; whether all nodes are alike. */
size_t collective_smallest_node(const struct collective_group *g);
bool collective_equal_nodes(const struct collective_group *g);

/* The phases of `hierarchical`, which `pipelined` makes one of. */
enum status collective_levels(const struct collective_group *g, enum collective_kind kind,
                              double bytes, size_t channels, struct collective_shape *out);

/* Largest sum of `length` consecutive values of a ring of n; length >= 0. O(n). */
double collective_worst_window(const double *value, size_t n, size_t length);

/* All-to-all among a row of n members of the group: how many others each sends to, fewer than n - 1
 * above COLLECTIVE_PAIRS_MAX members; and how far away the k-th of `count` is, 1 .. n - 1, spread
 * evenly. */
size_t collective_shifts(const struct collective_group *g, size_t n);
static inline size_t collective_shift(size_t k, size_t count, size_t n)
{
    return 1 + (2 * k + 1) * (n - 1) / (2 * count);
}

/* A flow of `pair` bytes from every member to every other, but for member 0 if asked to; and one of
 * `part` bytes from member 0 to every other, or back. They return the largest latency. */
double collective_every_pair(const struct collective_group *g, double pair, bool but_first,
                             struct collective_shape *out);
double collective_one_to_all(const struct collective_group *g, double part, bool back,
                             struct collective_shape *out);

/* Parent of each of n nodes in the first (second = false) or second of the two binary trees, and
 * UINT32_MAX for its root. Each tree is in order, of depth floor(log2 n), with its inner nodes at
 * every other place; the second is the first mirrored (n even) or shifted by one (n odd), so that
 * no node is inside both. Source: Sanders, Speck & Traeff, Parallel Computing 35 (2009) 581-594. */
uint32_t collective_tree_parent(size_t n, bool second, uint32_t node);

#endif
