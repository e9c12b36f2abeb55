/* matching.h - which pods of an optical network should have circuits, for one plan. */
#ifndef STUDY_MATCHING_H
#define STUDY_MATCHING_H

#include "study/evaluate.h"

enum { MATCHING_WORDS = 3 };
extern const char *const matching_word[MATCHING_WORDS]; /* "even", "ring", "torus" */

struct matching {
    double planned_s;              /* iteration with the circuits of the description, */
    double word_s[MATCHING_WORDS]; /* ... with these; INFINITY: too few circuits; */
    double iteration_s;            /* ... with the best that was found, */
    char *platform;                /* whose description this is; malloc'd */
    size_t simulations;
};

/* Search circuits that shorten the plan's iteration on the analytic engine.
 *
 * Begins with the best of the circuits given, the matchings by name and one that deals circuits
 * out by the bytes between pods, and moves circuits to the pairs with the most bytes per circuit,
 * as long as that helps, and for at most `most` simulations. Same plan and seed, same circuits. The
 * principle is that of TopoOpt (Wang et al., NSDI 2023), whose search is another one.
 *
 *   spec      description "ocs:...": the plan's devices, whatever its circuits
 *   context   of evaluations; topology and platform are not used; `scored` is told of how many
 *             simulations are done, and may stop them: then the best so far is the answer
 * STATUS_INVALID: of another family; STATUS_UNSUPPORTED: one pod, or more than MATCHING_PODS, whose
 * circuits a description could not hold. */
enum { MATCHING_PODS = 32 };
enum status matching_search(const struct plan *p, const struct evaluation_context *context,
                            const char *spec, size_t most, struct matching *out) MUST_CHECK;
void matching_free(struct matching *m); /* accepts {0}; leaves {0} */

#endif
