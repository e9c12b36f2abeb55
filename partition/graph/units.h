/* units.h - the model's graph as a partition sees it: units, which are ops that stay together, and
 * the tensors that cross between them. */
#ifndef PARTITION_GRAPH_UNITS_H
#define PARTITION_GRAPH_UNITS_H

#include "core/base/array.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"

/* What a unit makes for other units. */
struct unit_tensor {
    uint32_t from;
    double bytes; /* per microbatch */
};

/* Weights that a unit borrows from another one: who has one of them sums its gradients with the
 * other. */
struct unit_tie {
    uint32_t owner, borrower;
    double bytes; /* of gradients */
};

struct units {
    size_t n, ops, types;
    uint32_t *first;      /* [n + 1] ops of the model; units are in a topological order */
    double *forward_s;    /* [types][n] per microbatch, of a device of each type */
    double *backward_s;   /* [types][n] what is made again included */
    double *update_s;     /* [types][n] per iteration */
    double *held_bytes;   /* [n] of parameters, gradients and state */
    double *summed_bytes; /* [n] of gradients */
    double *stash_bytes;  /* [n] per microbatch */
    size_t tensors;       /* by their producer */
    struct unit_tensor *tensor;
    size_t *made_start; /* [n + 1] tensors of a unit */
    size_t *reader_start;
    uint32_t *reader; /* [tensors + 1] CSR: units, ascending, each once */
    size_t *read_start;
    uint32_t *read; /* [n + 1] CSR: tensors that a unit reads */
    size_t ties;
    struct unit_tie *tie;
    struct arena memory;
};

/* Units of a plan's model.
 *   p       how ops are spread, issued, made again and kept, as its first stage says
 *   begins  [m->n + 1] as struct partition_problem has it: a unit begins where a stage may
 * O(types * ops + edges log edges). STATUS_NOMEM. */
enum status units_make(const struct plan *p, const struct model *m, const struct topology *t,
                       const size_t *begins, struct units *out) MUST_CHECK;
void units_free(struct units *u); /* accepts {0}; leaves {0} */

/* Is there one topological order only? Then stages can only be intervals of it. */
bool units_are_chain(const struct units *u);

#endif
