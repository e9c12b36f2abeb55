/* start.h - first splits for local search. Private to papers/cpsc526/. */
#ifndef PAPERS_CPSC526_START_H
#define PAPERS_CPSC526_START_H

#include "papers/cpsc526/refine.h"

/* Start number `index` (refine.h says of which kind) into label [n]; every part has at least
 * p->minimum ops, which p->n allows. */
enum status cpsc526_start(const struct cpsc526_problem *p, struct cpsc526_search *s, size_t index,
                          uint32_t *label) MUST_CHECK;

#endif
