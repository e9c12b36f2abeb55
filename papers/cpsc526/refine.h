/* refine.h - what local search is made of: starts, moves, label exchanges. Private to
 * papers/cpsc526/. Everything obeys the time limit of the request by stopping early.
 */
#ifndef PAPERS_CPSC526_REFINE_H
#define PAPERS_CPSC526_REFINE_H

#include "papers/cpsc526/problem.h"

struct cpsc526_search {
    const struct objective_request *r;
    double begin_s;
    uint64_t random; /* state of the generator, never 0 */
    bool stopped;
    bool whole; /* splits of all ops, whose values r->better() is told */
};

struct cpsc526_search cpsc526_search_begin(const struct objective_request *r);
bool cpsc526_search_stops(struct cpsc526_search *s);

/* Improve label [n] until a pass brings nothing. A pass moves ops one by one, each time the move
 * with the best gain among ops that have not moved yet even if that is a loss, and goes back to the
 * best point it has seen; two moves across the same cut are a swap. An op may move to the part of a
 * neighbour or to the lightest part. Gains come from the op's edges and the two weights alone.
 * Then labels of parts are exchanged while that gains. O(n * degree^2) per move.
 * Source: Fiduccia & Mattheyses, DAC 1982; Kernighan & Lin, Bell System Technical J. 49 (1970). */
enum status cpsc526_refine(const struct cpsc526_problem *p, struct cpsc526_search *s,
                           uint32_t *label) MUST_CHECK;

/* `tries` starts, refined; the best stays in label [n], its metric in *value. A start is an order
 * of the ops (as they are, depth first or breadth first from an end of the graph) cut into
 * consecutive parts by dynamic programming; every fourth is random. Stops at the bound. */
enum status cpsc526_search_best(const struct cpsc526_problem *p, struct cpsc526_search *s,
                                size_t tries, uint32_t *label, double *value) MUST_CHECK;

/* A random split with the minimum of ops in every part. STATUS_NOMEM. */
enum status cpsc526_scatter(const struct cpsc526_problem *p, struct cpsc526_search *s,
                            uint32_t *label) MUST_CHECK;

#endif
