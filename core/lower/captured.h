/* captured.h - a capture becomes a program: every rank's period on a device, with seconds.
 *
 * Operators of a phase that follow one another are one COMPUTE; a wait is a dependency of what
 * comes next; communication is issued behind all that its rank did before. Ranks of a class differ
 * in groups and peers alone. */
#ifndef CORE_LOWER_CAPTURED_H
#define CORE_LOWER_CAPTURED_H

#include "core/cost/operators_time.h"
#include "core/data/capture.h"
#include "core/data/measurement.h"
#include "core/data/program.h"
#include "core/data/topology.h"

struct captured_options {
    const struct operator_times *times; /* measured; NULL: none */
    bool model;  /* by shape and bytes what has some, even if a trace measured it */
    bool dry;    /* operators together take what the dry run of their class took between
                  * communications; STATUS_INVALID where a class has none */
    bool serial; /* a collective is waited for at once: its rank's core does the work */
};

/* By what the times of the distinct operators are known. */
struct captured_tally {
    size_t measured, shaped, bytes;
};

/* Where the ops of the program come from. */
struct captured_map {
    size_t kinds; /* classes x types of devices */
    double *
        *seconds;    /* [kinds] of each entry of class k / types on type k % types; NULL: no rank */
    uint32_t *entry; /* [ops of the program] entry of the rank's class that it is, or, of a
                       * COMPUTE, the first one of it */
};
void captured_map_free(struct captured_map *m); /* accepts {0}; leaves {0} */

/* Rank r is on device r of the topology. The result is matched and checked; sample_flop is of one
 * step of all ranks, and a step is a sample.
 * STATUS_INVALID: fewer devices than ranks, ranks that do not fit together (who is taken to be
 * alike is not); STATUS_NOMEM. O(ops of all ranks).
 *   map  may be NULL */
enum status capture_lower(const struct capture *c, const struct topology *t,
                          const struct captured_options *o, struct program *out,
                          struct captured_tally *tally, struct captured_map *map) MUST_CHECK;

/* Fill sites of *out: what the ranks compute and wait for, by module, phase and kind.
 *   p, map  of capture_lower(); p may have been perturbed since
 *   t       a timeline of it
 * O(ops of all ranks * log sites). STATUS_NOMEM. */
enum status captured_sites(const struct capture *c, const struct topology *on,
                           const struct program *p, const struct captured_map *map,
                           const struct timeline *t, struct measurement *out) MUST_CHECK;

#endif
