/* faults.h - what goes wrong at a known time: links that fail or become slow, ranks that are
 * killed.
 *
 * Times count from the start of the iteration that is simulated or measured. A link is both of its
 * directions. Whoever runs a program applies what is for links; faults_outcome() then says whether
 * the iteration was over before it mattered. */
#ifndef CORE_DATA_FAULTS_H
#define CORE_DATA_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/measurement.h"
#include "core/data/program.h"

enum fault_kind {
    FAULT_FAIL, /* of a link: nothing arrives any more */
    FAULT_SLOW, /* of a link: everything takes `factor` times as long */
    FAULT_KILL, /* of a rank */
};

struct fault {
    enum fault_kind kind;
    char
        *name; /* of the link as the platform file has it, or a device or number of a rank; owned */
    double factor, at_s;
};

struct faults {
    size_t n;
    struct fault *fault; /* [n] */
};

/* Add what "NAME@TIME,..." (FAULT_FAIL, FAULT_KILL) or "link:NAME=FACTOR@TIME,..." (FAULT_SLOW,
 * factor >= 1) says. STATUS_USAGE, STATUS_NOMEM, with *out as it was. */
enum status faults_add(struct faults *out, enum fault_kind kind, const char *list) MUST_CHECK;
/* Of a list for --slow: add the parts that begin with "link:", and hand the others back in *rest,
 * malloc'd, NULL when there are none. Errors as faults_add(). */
enum status faults_take_slow(struct faults *out, const char *list, char **rest) MUST_CHECK;
/* Are there any for links? */
bool faults_of_links(const struct faults *f);
/* The rank that the name of a FAULT_KILL stands for. STATUS_USAGE. */
enum status faults_rank(const struct fault *f, const struct program *p, uint32_t *rank) MUST_CHECK;

/* No link takes that long: an op that ends later waits for one that has failed. */
static const double faults_never_s = 1e6;
/* Did the iteration survive? STATUS_EXTERNAL with "link NAME failed at 0.1 s: ..." or "rank 2 (b0)
 * was killed at 0.1 s, in ...". */
enum status faults_outcome(const struct faults *f, const struct program *p,
                           const struct timeline *t) MUST_CHECK;
void faults_free(struct faults *f); /* accepts {0}; leaves {0} */

#endif
