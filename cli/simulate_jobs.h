/* simulate_jobs.h - `foreline simulate` of several plans. */
#ifndef CLI_SIMULATE_JOBS_H
#define CLI_SIMULATE_JOBS_H

#include <stdbool.h>

#include "cli/command.h"

/* Is the call about jobs: several plans, or an option that is only about them? */
bool simulate_is_about_jobs(const struct invocation *in);
enum status simulate_jobs(struct invocation *in) MUST_CHECK;

#endif
