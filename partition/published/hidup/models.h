/* models.h - the paper's four models with synthetic input, as graphs of operators. */
#ifndef PARTITION_PUBLISHED_HIDUP_MODELS_H
#define PARTITION_PUBLISHED_HIDUP_MODELS_H

#include "partition/published/hidup/graph.h"

/* "tmlp:layers=2,batch=256,hidden=768" (models.def) into *out. STATUS_INVALID: an unknown model or
 * option, with the known ones; STATUS_NOMEM. The graph's nodes are in the order in which the
 * published code traces them: inputs, parameters before the operator that reads them, output. */
enum status spmd_model(const char *spec, bool compat, struct spmd_graph *out) MUST_CHECK;
/* Does the specification begin with the name of one of them? */
bool spmd_has(const char *spec);

#endif
