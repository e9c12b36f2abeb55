/* exhaustive.h - all splits in the order of the course project, without those a bound rules out.
 * Private to papers/cpsc526/ and its tests. */
#ifndef PAPERS_CPSC526_EXHAUSTIVE_H
#define PAPERS_CPSC526_EXHAUSTIVE_H

#include "papers/cpsc526/problem.h"

enum { CPSC526_MAX_EXHAUSTIVE = 4096 };

/* Partitions of the ops in order: the first op alone in the first part, before all partitions of
 * the others into k - 1 parts; then each partition of the others into k parts, with the first op
 * joining one part after the other. Of each partition all labelings in lexicographic order, only
 * the first where all pairs of labels cost the same. Subtrees whose bound is no better than the
 * best so far are left out, which leaves the sequence of improvements, which r->better is told, as
 * it is.
 *   label [n] out: the best; *complete: nothing was left out for want of time
 * Exponential; stops at r->time_limit_s (120 s by default, as the project did) and at the bound.
 * Returns STATUS_UNSUPPORTED (more than CPSC526_MAX_EXHAUSTIVE ops), STATUS_NOMEM. */
enum status cpsc526_enumerate(const struct cpsc526_problem *p, const struct objective_request *r,
                              uint32_t *label, bool *complete) MUST_CHECK;

/* Partitions of n things into k parts, Stirling's number of the second kind: exact to 2^53,
 * infinite when it is too large for a double. k <= CPSC526_MAX_PARTS. O(n k). */
double cpsc526_partitions(size_t n, size_t k);

#endif
