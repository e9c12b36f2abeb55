/* strategy.h - strategies of HiDup drawn at random among the legal ones, as programs. */
#ifndef TESTS_STRATEGY_H
#define TESTS_STRATEGY_H

#include "core/program.h"
#include "core/topology.h"
#include "partition/published/hidup/lowered.h"

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
};

/* A model as spmd_model() reads it, on so many devices, in halves (`two`) or in one piece. Nodes and
 * stages are drawn one after the other among what the forms that are there allow, from the beginning
 * again where nothing does. Ends the test on failure. */
void strategy_draw(const char *model, size_t devices, bool two, uint64_t *dice, struct drawn *d);
void strategy_free(struct drawn *d);

#endif
