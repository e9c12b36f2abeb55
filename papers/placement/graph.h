/* graph.h - the problem contracted to units: sets of nodes that share a device.
 *
 * A tensor becomes a net from the unit that makes it to the units that read it; tensors that stay
 * inside one unit vanish, tensors between the same units are summed. The forward order is the
 * partial order that contiguous splits respect. */
#ifndef PAPERS_PLACEMENT_GRAPH_H
#define PAPERS_PLACEMENT_GRAPH_H

#include "papers/placement/problem.h"

struct placement_pin {
    uint32_t net;
    bool is_source;
};

struct placement_graph {
    size_t n;                         /* units */
    double *cpu, *accelerator, *size; /* [n] sums over the unit's nodes */
    bool *supported;                  /* [n] all its nodes are, on accelerators */
    size_t nets;
    uint32_t *net_source; /* [nets] */
    double *net_cost;     /* [nets] > 0 */
    size_t *net_start;    /* [nets + 1] into net_dest */
    uint32_t *net_dest;   /* other units than the source, ascending */
    size_t *pin_start;    /* [n + 1] into pin */
    struct placement_pin *pin;
    size_t *succ_start, *pred_start; /* [n + 1] forward order, acyclic; NULL without order */
    uint32_t *succ, *pred;
    uint32_t *unit; /* [problem's n] unit of each node */
    struct arena memory;
};

/* Each of these leaves *out to placement_graph_free() after a failure, too.
 *
 * Units for contiguous splits: colours, in which cycles of the forward order are fused. A colour
 * of backward nodes only takes its place in the forward order from the mirrored backward edges.
 * Then units that cost nothing anywhere and have one neighbour join it: no split gets worse. */
enum status placement_contract(const struct placement_problem *p,
                               struct placement_graph *out) MUST_CHECK;
/* Units for arbitrary splits that are to be better than `limit`: colours, and every two colours
 * that cannot be on different devices in such a split. Without forward order. limit INFINITY:
 * only the harmless merges. */
enum status placement_merge(const struct placement_problem *p, double limit,
                            struct placement_graph *out) MUST_CHECK;
void placement_graph_free(struct placement_graph *g); /* accepts {0}; leaves {0} */

/* Add nets and weights for a given unit[problem's n] < n; used by the two above.
 * O((n + edges) log edges). */
enum status placement_graph_build(const struct placement_problem *p, const uint32_t *unit, size_t n,
                                  struct placement_graph *g) MUST_CHECK;

#endif
