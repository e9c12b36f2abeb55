/* launches.h - which part of a step launched a kernel: the host's calls by correlation number, and the parts of
 * threads that are a backward or an update. Private. */
#ifndef MEASURED_LAUNCHES_H
#define MEASURED_LAUNCHES_H

#include "measured/run.h"

struct launch {
    int64_t number, start_ns, thread;
};

struct launch_part {
    int64_t thread, start_ns, end_ns;
    uint8_t phase;
};

struct launches {
    size_t n, parts;
    struct launch *launch;    /* [n] */
    struct launch_part *part; /* [parts] */
};

/* What a host's event of this name is part of: autograd's nodes of the backward, optimizers' steps of the
 * update; PHASE_UNKNOWN: neither. */
enum span_phase launches_phase_of(const char *name);

enum status launches_add(struct launches *l, int64_t number, int64_t thread,
                         int64_t start_ns) MUST_CHECK;
enum status launches_add_part(struct launches *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                              enum span_phase phase) MUST_CHECK;
/* Set the phase of span[n] whose launch is known: that of the part in which it was launched, else forward,
 * provided that there are any parts. Sorts both lists. O((n + launches) log). */
enum status launches_find(struct launches *l, struct span *span, size_t n) MUST_CHECK;
void launches_free(struct launches *l); /* accepts {0}; leaves {0} */

#endif
