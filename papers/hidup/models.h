/* models.h - the paper's models, with synthetic input, words or images, as graphs of operators. */
#ifndef PAPERS_HIDUP_MODELS_H
#define PAPERS_HIDUP_MODELS_H

#include "model/papers.h"
#include "papers/hidup/graph.h"

/* "tmlp:layers=2,batch=256,hidden=768" (models.def) into *out. STATUS_INVALID: an unknown model or
 * option, with the known ones; STATUS_NOMEM. The graph's nodes are in the order in which the
 * published code traces them: inputs, parameters before the operator that reads them, output. */
enum status spmd_model(const char *spec, bool compat, struct spmd_graph *out) MUST_CHECK;
/* The same with so many samples; 0: as the text says. */
enum status spmd_model_part(const char *spec, bool compat, int64_t samples,
                            struct spmd_graph *out) MUST_CHECK;
/* What can be said of each. */
extern const struct papers_option spmd_options[]; /* ends with one without a name */

#endif
