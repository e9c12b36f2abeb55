/* alike.h - what graphs of models have in common, and how they are built up. */
#ifndef PARTITION_ALIKE_H
#define PARTITION_ALIKE_H

#include <stdbool.h>

#include "core/data/model.h"

enum { ALIKE_OPS = 20000 }; /* larger graphs are not compared */

/* From nothing to everything; each is true of the ones before, too. */
enum model_alike {
    ALIKE_NOT,
    /* ops of the one can stand for those of the other so that all edges are theirs, */
    ALIKE_GRAPHS,
    ALIKE_KINDS, /* and kinds too, */
    ALIKE_SIZES, /* and bytes of parameters and outputs, and forward FLOP */
    ALIKE_LEVELS
};
extern const char *const model_alike_names[ALIKE_LEVELS]; /* lines for people */

/* The most that two models have in common. Names do not count. Exponential only for graphs whose
 * ops look alike however far around one looks, which models are not. STATUS_UNSUPPORTED above
 * ALIKE_OPS, STATUS_NOMEM, STATUS_EXTERNAL (igraph). Source: Cordella et al., IEEE TPAMI 26 (2004)
 * 1367 (VF2), as igraph has it, on colours refined as Weisfeiler & Leman, 1968, do. */
enum status model_alike(const struct model *a, const struct model *b,
                        enum model_alike *out) MUST_CHECK;

/* Is the graph, with all its first ops joined into one end and all its last ones into another, made
 * of edges by putting parts behind each other and beside each other? Expected O(ops + edges);
 * STATUS_NOMEM. Source: Valdes, Tarjan & Lawler, SIAM J. Comput. 11 (1982) 298. */
enum status model_series_parallel(const struct model *m, bool *out) MUST_CHECK;

#endif
