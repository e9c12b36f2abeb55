/* models.h - the paper's models, with synthetic input, words or images, as graphs of operators. */
#ifndef PAPERS_HIDUP_MODELS_H
#define PAPERS_HIDUP_MODELS_H

#include "papers/hidup/graph.h"

/* "tmlp:layers=2,batch=256,hidden=768" (models.def) into *out. STATUS_INVALID: an unknown model or
 * option, with the known ones; STATUS_NOMEM. The graph's nodes are in the order in which the
 * published code traces them: inputs, parameters before the operator that reads them, output. */
enum status spmd_model(const char *spec, bool compat, struct spmd_graph *out) MUST_CHECK;
/* The same with so many samples; 0: as the text says. */
enum status spmd_model_part(const char *spec, bool compat, int64_t samples,
                            struct spmd_graph *out) MUST_CHECK;
/* The table: names with what they are, and what can be said of each. */
struct spmd_family {
    const char *name;
    bool alone; /* else the zoo has a model of the name, too, and this one is NAME:ops=1 */
    const char *summary;
};
extern const struct spmd_family spmd_families[]; /* [spmd_families_n] */
extern const size_t spmd_families_n;
struct spmd_option {
    const char *name;
    int64_t standard, most; /* from 1 */
};
extern const struct spmd_option spmd_options[]; /* [spmd_options_n] */
extern const size_t spmd_options_n;
/* Does the specification name one of them? */
bool spmd_has(const char *spec);

#endif
