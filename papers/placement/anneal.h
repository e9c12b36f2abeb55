/* anneal.h - simulated annealing of a split in which anything may be on any device. */
#ifndef PAPERS_PLACEMENT_ANNEAL_H
#define PAPERS_PLACEMENT_ANNEAL_H

#include "papers/placement/graph.h"
#include "papers/placement/work.h"

struct placement_anneal {
    double hot,
        cold;     /* temperatures at the beginning and the end, relative to one device's energy */
    double scale; /* a load that counts 1: a value to be reached */
    uint64_t steps;
    bool scatter; /* begin with random devices instead of device[] */
};

/* Move single units, pairs of neighbours, and swap two units, at a falling temperature; every load
 * is kept up to date by what the move changes. Memory and support are respected throughout.
 *   device  [g->n] the split to begin with, not necessarily within the memory; out: the best found
 *   value   to be beaten; out: of device[] when that is smaller, else untouched as device[] is
 *   w       what is spent is added, at most o->steps and a sixteenth more
 * Deterministic for a state of w->random unless the time is up. STATUS_NOMEM.
 * Source: Kirkpatrick, Gelatt & Vecchi, Science 220 (1983). */
enum status placement_anneal(const struct placement_problem *p, const struct placement_graph *g,
                             const struct placement_anneal *o, struct placement_work *w,
                             uint32_t *device, double *value) MUST_CHECK;

#endif
