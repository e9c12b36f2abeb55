/* failures.h - how often the parts of a machine fail, and how long it takes to go on.
 *
 * Times between failures of a piece are exponentially distributed: failures do not know of each
 * other, and nothing ages. */
#ifndef CAMPAIGN_FAILURES_H
#define CAMPAIGN_FAILURES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

enum failure_cause {
#define CAUSE(id, ...) CAUSE_##id,
#include "campaign/causes.def"
#undef CAUSE
    CAUSES
};

struct cause {
    const char *name;
    bool takes_node; /* it has to be repaired, and another one takes its place */
};
extern const struct cause causes[CAUSES];

struct failures {
    const char *text, *source; /* of the preset */
    double between_s[CAUSES];  /* mean time between failures of one piece; 0: it never fails */
    double scale;              /* by which rates were multiplied */
    double detect_s;           /* from a failure until it is noticed */
    double hang, timeout_s;    /* share of failures that are noticed by this timeout only */
    double restart_s; /* from there until the job loads its checkpoint: processes, groups, data */
    double repair_s;  /* of a node, until it can be used again */
    double slow_s;    /* mean time until a GPU becomes slow, without failing; 0: never */
    double slower;    /* the job takes 1 + slower times as long then, until */
    double slow_found_s; /* it is found, and its node replaced */
};

/* "llama3", or "llama3:gpu=50000h,repair=12h": a row of presets.def with other numbers. Lives as
 * long as the process. STATUS_INVALID with what there is. */
enum status failures_read(const char *text, struct failures *out) MUST_CHECK;
enum status failures_check(const char *text) MUST_CHECK;
/* Name of preset i and what it is; NULL behind the last. */
const char *failures_preset(size_t i, const char **text);
/* Failures per second of so many pieces. */
double failures_rate(const struct failures *f, const double pieces[CAUSES]);

#endif
