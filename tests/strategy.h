/* strategy.h - strategies of HiDup drawn at random among the legal ones, as programs. */
#ifndef TESTS_STRATEGY_H
#define TESTS_STRATEGY_H

#include "core/data/program.h"
#include "core/data/topology.h"
#include "papers/hidup/lowered.h"

/* A tensor as a node reads it: the form that it was made in, and the one that it is read in, which
 * is the same or what a conversion makes of it. */
struct strategy_edge {
    uint32_t node;
    size_t read; /* of the node's tensors */
    uint8_t from, to;
};

/* Those of a model that legal strategies have, and which of them those that were drawn have had. */
struct strategy_edges {
    enum { NO_EDGE, EDGE_LEFT, EDGE_HAD } (*is)[SPMD_READS][FORMS][FORMS]; /* [nodes] */
    size_t all, had;
    struct strategy_edge next; /* that the last strategy was to have */
};

/* Nothing is had yet; `is` is the caller's to free. */
void strategy_edges_init(const char *model, struct strategy_edges *e);

/* What a strategy is of, and the program of its plan. */
struct drawn {
    struct spmd_graph g, part;
    struct topology t;
    struct model m;
    uint32_t *op_of;
    struct arena memory;
    struct spmd_strategy s;
    struct plan plan;
    struct program program;
    struct strategy_edges *edges; /* the caller's, or NULL */
};

/* A model as spmd_model() reads it, on so many devices, in halves (`two`) or in one piece. Nodes
 * and stages are drawn one after the other among what the forms that are there allow, from the
 * beginning again where nothing does; what leads to an edge that `edges` has left (NULL: none) goes
 * first, and what the strategy has is left no longer. Ends the test on failure. */
void strategy_draw(const char *model, size_t devices, bool two, struct strategy_edges *edges,
                   uint64_t *dice, struct drawn *d);
void strategy_free(struct drawn *d);

#endif
