/* objective_cut.h - what a split by a published objective divides. */
#ifndef PAPERS_COMMAND_OBJECTIVE_CUT_H
#define PAPERS_COMMAND_OBJECTIVE_CUT_H

#include <stdio.h>

#include "papers/common/objective.h"

/* A line per part: its ops, its share of the parameters and of the edges; the bytes of the edges
 * inside it and of those with an end in it, over an even share of all; and the edges to each other
 * part with their bytes per sample, an edge counted as often as the model has it; then all that are
 * cut. O(n + edges + parts^2). STATUS_NOMEM. */
enum status objective_print_cut(const struct model *m, const struct objective_result *r,
                                FILE *out) MUST_CHECK;

#endif
