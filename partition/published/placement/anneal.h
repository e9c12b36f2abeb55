/* anneal.h - simulated annealing of a split in which anything may be on any device. */
#ifndef PARTITION_PUBLISHED_PLACEMENT_ANNEAL_H
#define PARTITION_PUBLISHED_PLACEMENT_ANNEAL_H

#include "partition/published/placement/graph.h"

struct placement_anneal {
    double hot,
        cold;       /* temperatures at the beginning and the end, relative to one device's energy */
    uint64_t steps; /* of the inner loops: the measure of work */
    uint64_t seed;
    double begin_s, default_limit_s; /* of the time limit in the request */
    bool scatter;                    /* begin with random devices instead of device[] */
};

/* Move single units, pairs of neighbours, and swap two units, at a falling temperature; every load
 * is kept up to date by what the move changes. Memory and support are respected throughout.
 *   device  [g->n] the split to begin with, not necessarily within the memory; out: the best found
 *   value   of the best split so far; out: of device[] when that is smaller, else untouched as
 *           device[] is
 * Deterministic for a seed unless the time is up. STATUS_NOMEM.
 * Source: Kirkpatrick, Gelatt & Vecchi, Science 220 (1983). */
enum status placement_anneal(const struct placement_problem *p, const struct placement_graph *g,
                             const struct placement_anneal *o, const struct objective_request *r,
                             uint32_t *device, double *value) MUST_CHECK;

#endif
