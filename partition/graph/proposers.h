/* proposers.h - who proposes cuts of a graph.
 *
 * A proposer gives every unit a number, its key. Units in a topological order, of those that may
 * come next the one with the smallest key first, are cut into stages by proposers_cut(). So
 * communities, spectra and minimum cuts all become chains of down-sets. */
#ifndef PARTITION_GRAPH_PROPOSERS_H
#define PARTITION_GRAPH_PROPOSERS_H

#include "partition/graph/pipeline.h"

struct graph_proposer {
    const char *name, *summary;
    /* [u->n] keys; `parts`: stages that are wanted. STATUS_UNSUPPORTED: none for such a graph. */
    enum status (*keys)(const struct units *u, size_t parts, double *key);
};

#define PROPOSER(name, word, summary)                                                              \
    enum status proposer_##name(const struct units *u, size_t parts, double *key) MUST_CHECK;
#include "partition/graph/proposers.def"
#undef PROPOSER
extern const struct graph_proposer graph_proposers[];
extern const size_t graph_proposers_n;

/* Keys of units that belong together in groups: the mean position of the group.
 *   group  [u->n] < u->n
 * STATUS_NOMEM. */
enum status proposers_group(const struct units *u, const uint32_t *group, double *key) MUST_CHECK;

/* The units in the proposer's order.
 *   order  [u->n] out
 *   key    [u->n] out, NULL: not asked for
 * O((units + readers) log units), and the keys. STATUS_NOMEM, and what keys() returns. */
enum status proposers_order(const struct graph_proposer *by, const struct units *u, size_t parts,
                            uint32_t *order, double *key) MUST_CHECK;

/* The stages that the whole parts of the keys are; false: they are none of so many parts.
 *   stage  [u->n] out */
bool proposers_stages(const struct units *u, size_t parts, const double *key, uint32_t *stage);

/* Cut the order into the pipeline's stages, on the places that its cut has now: the least slowest
 * stage, of compute and of what enters it (chain.h).
 *   stage  [units] out
 * STATUS_NOMEM. */
enum status proposers_cut(const struct pipeline *x, const uint32_t *order,
                          uint32_t *stage) MUST_CHECK;

#endif
