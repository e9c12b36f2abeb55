/* jobs.h - `foreline simulate` and `foreline emulate --engine netns` of several plans. */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <stdbool.h>

#include "cli/command.h"

/* Is the call about jobs: several plans, or an option that is only about them? */
bool cli_jobs_given(const struct invocation *in);
enum status cli_jobs_simulate(struct invocation *in) MUST_CHECK;
enum status cli_jobs_emulate(struct invocation *in) MUST_CHECK;

#endif
