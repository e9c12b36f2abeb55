/* model_text.h - a model as a table. */
#ifndef STUDY_MODEL_TEXT_H
#define STUDY_MODEL_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"

/* A row per op, in the model's order, and one for all: forward and backward FLOP per sample, or the
 * seconds of the first profile where the model has times only; bytes of parameters, of what is kept
 * for the backward (per sample), of the output; the inputs. */
void model_print(const struct model *m, FILE *out);

/* 124439808 -> "124,439,808". Returns `text`. */
enum { MODEL_GROUPED = 32 };
const char *model_grouped(int64_t value, char text[MODEL_GROUPED]);

/* Each op's seconds of a microbatch by the first profile, bytes of its output for that microbatch
 * and of its parameters, as a table that plots/table.h reads; *text is malloc'd. STATUS_INVALID
 * without a profile. */
enum status model_profile_table(const struct model *m, const char *path, char **text,
                                size_t *length) MUST_CHECK;

/* Each op with the layer that it is of ("" for none), its stage with the first of its devices ("0:
 * n0g0 + 3"; "" without a plan) and the rows of the ops that it reads ("0,4"), as a table for the
 * picture of the graph; *text is malloc'd. `p` and `t` may be NULL. O(length). STATUS_NOMEM. */
enum status model_graph_table(const struct model *m, const struct plan *p, const struct topology *t,
                              char **text, size_t *length) MUST_CHECK;

#endif
