/* perturb.h - compute that is not as fast as predicted: jitter and stragglers, as a change of the
 * program, so that every engine and every executor sees the same.
 *
 * Jitter multiplies the time of each compute op by its own random factor of mean 1 and standard
 * deviation `jitter` (lognormal: never negative). The factor is a function of the seed and of what
 * the op is - device, stage, kind, microbatch, part, step - alone: the order of ops in memory, the
 * schedule and the engine do not change it. Communication keeps its sizes. */
#ifndef CORE_DATA_PERTURB_H
#define CORE_DATA_PERTURB_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"

/* Ops that take `factor` times as long: those of a device by its name, else of a rank by its
 * number ("3"), else of a stage ("stage:1"). */
struct perturbation_slow {
    char *name; /* owned */
    double factor;
};

struct perturbation {
    double jitter; /* standard deviation / mean, 0 .. 1 */
    uint64_t seed;
    size_t n;
    struct perturbation_slow *slow; /* [n] */
};

/* "5%" or "0.05". STATUS_USAGE: not a number, or outside 0 .. 1. */
enum status perturbation_parse_jitter(const char *text, double *out) MUST_CHECK;
/* Add what "NAME=FACTOR[,NAME=FACTOR...]" says. STATUS_USAGE: no such form, a factor that is not
 * above 0, a name twice; STATUS_NOMEM. */
enum status perturbation_add_slow(struct perturbation *out, const char *list) MUST_CHECK;

/* Change the seconds of the compute ops of p. STATUS_USAGE, with p as it was: a name that stands
 * for no rank or stage of p, or an op that two factors are for; STATUS_NOMEM.
 * O(ops + names * ranks). */
enum status perturb_program(const struct perturbation *by, struct program *p) MUST_CHECK;

enum { PERTURBATION_TEXT = 256 };
/* "jitter 5 % (seed 7), slowed: r0n0g1 x 1.3, stage:2 x 2", shortened with "..."; "" for none.
 * Returns `text`. */
const char *perturbation_print(const struct perturbation *p, char text[PERTURBATION_TEXT]);
void perturbation_free(struct perturbation *p); /* accepts {0}; leaves {0} */

#endif
