/* report_files.h - what a page about a directory is made from: its files, and which come first.
 * Private. */
#ifndef STUDY_REPORT_FILES_H
#define STUDY_REPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/data/measurement.h"

enum what { OTHER, MEASUREMENT, TRACE, TIMELINE, TABLE }; /* TIMELINE: simulate --timeline */

struct found {
    char *path;
    char *command; /* that made it, of measurements, traces, timelines; NULL: not known */
    enum what what;
};

/* Files by path. Measurements are read at once, since most sections are about all of them. */
struct contents {
    size_t n, measurements, representatives, traces;
    struct found *file;    /* [n] */
    struct measurement *m; /* [measurements] */
    const char **name;     /* [measurements] paths */
    const char **command;  /* [measurements] borrowed; NULL: not known */
    double *samples_per_s; /* [measurements] median of the files alike; 0: not known */
    /* [measurements] one of each plan, then the rest; in both runs come before predictions, and
     * the fastest first. The first `representatives` are of different plans. */
    size_t *order;
    size_t *trace; /* [traces] files, those of measurements in the order of these */
};

/* The files of a directory and of those directly below it. STATUS_INVALID when none is of use,
 * STATUS_IO, STATUS_NOMEM. */
enum status contents_read(const char *directory, struct contents *out) MUST_CHECK;
void contents_free(struct contents *c); /* accepts {0} */

/* Are two measurements of the same plan by the same engine? */
bool contents_alike(const struct contents *c, size_t a, size_t b);
/* Of its plan, or else of the file; returns `text`. */
const char *contents_plan_name(const struct contents *c, size_t i, char *text, size_t room);

#endif
