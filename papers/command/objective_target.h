/* objective_target.h - what the plans of a published objective are made for, and what they are
 * worth there. */
#ifndef PAPERS_COMMAND_OBJECTIVE_TARGET_H
#define PAPERS_COMMAND_OBJECTIVE_TARGET_H

#include "papers/command/objective_plan.h"
#include "study/settings.h"

/* The model is the one that simulate and run read: nodes of its file may be in one op. */
struct objective_target {
    struct model m;
    struct topology t;
    struct import_members members;
    struct objective_plan_request q; /* of these; the result is still to be put there */
};

/* Load what the arguments say; `platform` instead of theirs, which may be NULL. *x borrows all that
 * it is given, and is to be closed after a failure, too. What loading returns. */
enum status objective_target_open(const struct arguments *a, const struct objective *o,
                                  const struct objective_request *r, const char *platform,
                                  struct objective_target *x) MUST_CHECK;
void objective_target_close(struct objective_target *x); /* accepts {0}; leaves {0} */

/* For the field `simulate` of a request, whose `simulator` is a struct objective_plan_request: what
 * the analytic engine says. STATUS_NOMEM. */
enum status objective_simulate(void *simulator, const struct objective_result *split,
                               double *seconds) MUST_CHECK;

#endif
