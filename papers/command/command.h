/* command.h - published objectives as `foreline plan` and points of experiments ask for them. */
#ifndef PAPERS_COMMAND_COMMAND_H
#define PAPERS_COMMAND_COMMAND_H

#include "model/papers.h"
#include "study/planning.h"

/* plan_by_objective() and plan_of_objective() of study/planning.h. */
enum status objective_command(const struct arguments *a, const struct provenance *by,
                              const volatile int *stop) MUST_CHECK;
enum status objective_of_point(const struct arguments *a, const struct model *m,
                               const struct topology *t, struct plan *out) MUST_CHECK;

#endif
