/* knapsack.h - multiple-choice knapsack: one option for every item, cheapest that fits.
 *
 * A Lagrangian relaxation gives a lower bound and a first solution; what it leaves open is settled
 * by a list of non-dominated partial solutions, pruned by the relaxation's reduced costs. */
#ifndef PAPERS_PIPER_KNAPSACK_H
#define PAPERS_PIPER_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"

struct knapsack_state {
    double cost, size;
    uint32_t parent, option;
};

/* Fill items, start, cost and size after knapsack_reserve(); the rest is working space. */
struct knapsack {
    size_t items, item_room, option_room;
    size_t *start;       /* [items + 1] options of item i: start[i] .. start[i + 1] - 1 */
    double *cost, *size; /* [start[items]] >= 0 */
    uint32_t *option;    /* [items] the solution: index into the options */
    uint32_t *trial;     /* [items] */
    double *rest_reduced, *rest_cost,
        *rest_size; /* [items + 1] least sums over the items from i on */
    size_t state_limit, states, state_room;
    struct knapsack_state *state;
    size_t *level;       /* [items + 2] where the states after i items begin */
    struct arena memory; /* of all arrays but state */
};

enum knapsack_verdict {
    KNAPSACK_FITS,      /* cost <= limit; *value is it */
    KNAPSACK_TOO_DEAR,  /* cheapest that fits costs more than the limit, at least *value */
    KNAPSACK_TOO_LARGE, /* nothing fits the capacity */
    KNAPSACK_UNDECIDED, /* states ran out; the cheapest costs at least *value */
};

/* Room for this many items and options; what the arrays hold is lost when they grow.
 * STATUS_NOMEM. */
enum status knapsack_reserve(struct knapsack *k, size_t items, size_t options) MUST_CHECK;
void knapsack_free(struct knapsack *k); /* accepts {0}; leaves {0} */

/* Is there a choice within `capacity` whose cost is at most `limit`? With `cheapest` the best one
 * is found; else any. O(items) when the relaxation decides. STATUS_NOMEM. */
enum status knapsack_solve(struct knapsack *k, double capacity, double limit, bool cheapest,
                           enum knapsack_verdict *verdict, double *value) MUST_CHECK;

#endif
