/* emulate_jobs.h - jobs on one emulated network: what they do to each other, measured. */
#ifndef STUDY_EMULATE_JOBS_H
#define STUDY_EMULATE_JOBS_H

#include "study/jobs.h"

struct emulate_jobs_options {
    double dilation; /* 0: as netns_options has it */
    size_t repeats;
    const char *collective; /* as launch_options.collective */
};

/* Of jobs that jobs_run() has simulated: run each alone, then all together as often as they were
 * simulated, `repeats` times, on one network; fill emulated_*_s of the jobs and call
 * done(argument, js): in a process of its own, so only what it writes and prints is left. */
enum status emulate_jobs(struct jobs *js, const struct emulate_jobs_options *o,
                         enum status (*done)(void *argument, const struct jobs *js),
                         void *argument) MUST_CHECK;

#endif
