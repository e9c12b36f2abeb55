/* emulate_faults.h - core/data/faults.h while workers run on an emulated network. */
#ifndef STUDY_EMULATE_FAULTS_H
#define STUDY_EMULATE_FAULTS_H

#include <stdio.h>
#include <sys/types.h>

#include "core/data/faults.h"
#include "core/data/network.h"
#include "exec/netns/netns.h"

/* Faults of a run: a process waits for the time of each. */
struct fault_clock {
    const struct faults *faults;
    const struct program *program;
    const struct netns_inside *inside;
    double begin_s; /* of the measured iteration; 0: not yet */
    pid_t *pid;     /* [faults->n] */
    FILE *log;      /* a line when a fault cannot be made */
};

/* Is every link that a fault names in the network, and every rank in the program? STATUS_USAGE. To
 * be asked before anything is built. */
enum status fault_check(const struct faults *faults, const struct program *p,
                        const struct network *net) MUST_CHECK;

/* Faults that were checked. STATUS_USAGE: no way of the ranks leads over a link; STATUS_IO,
 * STATUS_NOMEM. */
enum status fault_clock_open(const struct faults *faults, const struct program *p,
                             const struct netns_inside *inside, FILE *log,
                             struct fault_clock *out) MUST_CHECK;
/* launch_options.measuring: the measured iteration begins now. */
void fault_clock_start(void *clock, const int *held, size_t ranks);
/* After the run: stop waiting; a failure of the run that a fault came before is that fault's. */
enum status fault_clock_close(struct fault_clock *c, enum status st) MUST_CHECK;

#endif
