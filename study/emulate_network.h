/* emulate_network.h - `foreline emulate` on network namespaces: --check, and any program. */
#ifndef STUDY_EMULATE_NETWORK_H
#define STUDY_EMULATE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/data/trace.h"
#include "study/load.h"

/* Print what this machine can do, a line each. STATUS_UNSUPPORTED when something needed is missing.
 */
enum status emulate_check(void) MUST_CHECK;
/* Print how exactly each distinct rate of a platform's links (as in load_topology()) comes out.
 *   ranks, dilation  as in struct emulate_command */
enum status emulate_check_platform(const char *platform, size_t ranks, double dilation) MUST_CHECK;

struct emulate_command {
    size_t ranks;       /* 0: one per device */
    double dilation;    /* 0: as netns_options has it */
    char *const *words; /* the command, NULL-terminated */
    const char *shell;  /* a device or rank: a shell in its node instead; NULL: the command */
};

/* Run a command once per rank on an emulated platform (as in load_topology()), or a shell; ends the
 * process with the exit status of the first rank that fails. */
enum status emulate_command(const char *platform, const struct emulate_command *c) MUST_CHECK;

/* A shell in an emulation that runs, as netns_join(); ends the process with its exit status. */
enum status emulate_join(const char *host, size_t pid) MUST_CHECK;

struct emulate_options {
    double dilation;      /* 0: as netns_options has it */
    size_t steps, warmup; /* iterations; with faults one that is measured, after at least one */
    const struct faults *faults;
    const char *collective; /* as launch_options.collective */
    FILE *log;              /* a line when a fault cannot be made; may be NULL without faults */
    bool mpi;               /* messages over MPI instead of TCP: latencies need netem then */
    bool real; /* numerics: as fast as they are, or dilated, and then inside the predicted times */
};

/* "auto" (0: as much as this machine needs to carry the platform) or a number above zero, by which
 * bandwidths are divided. STATUS_USAGE. */
enum status emulate_parse_dilation(const char *text, double *out) MUST_CHECK;

/* Run a plan's workers, one per device, on its platform, and call done(argument, measurement,
 * timeline) there, with undilated times: in a process of its own, so only what it writes and prints
 * is left. STATUS_UNSUPPORTED when dilated real compute takes longer than it may. */
enum status emulate_plan(const struct loaded_plan *p, const struct emulate_options *o,
                         enum status (*done)(void *argument, struct measurement *m,
                                             const struct timeline *t),
                         void *argument) MUST_CHECK;

/* ---- for emulate_jobs.c */

/* Compute takes `factor` times as long; *ops, malloc'd, replaces those of *out, which borrows all
 * else of `p`. */
enum status emulate_dilate(const struct program *p, double factor, struct program *out,
                           struct program_op **ops) MUST_CHECK;
/* Bytes per second of all messages and sums over the time that the busiest rank computes, or sends
 * when nothing else does. */
double emulate_mean_traffic(const struct program *p, const struct topology *t);
/* The kernel hashes connections; of other policies a bundle is one cable. */
void emulate_warn_of_bundles(const struct topology *t);

#endif
