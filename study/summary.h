/* report.h - a measurement for people, the same for simulated and real runs. */
#ifndef STUDY_SUMMARY_H
#define STUDY_SUMMARY_H

#include <stdio.h>

#include "core/measurement.h"

/* Rows that tables have at most; 0: a table is left out. */
struct report_limits {
    size_t ranks, links;
};
extern const struct report_limits report_defaults;

/* Summary lines, verdict about memory, bottleneck; tables: where the time went, the busiest ranks,
 * memory of the fullest ranks, messages and collectives, the busiest links. Warnings go to stderr.
 */
enum status report_measurement(const struct measurement *m, const struct report_limits *limits,
                               FILE *out) MUST_CHECK;

/* "rank 3 (h3) needs 20 GiB, its device has 16 GiB; 5 more ranks likewise" of a measurement that
 * does not fit. */
enum { REPORT_VERDICT = 256 };
const char *report_lack(const struct measurement *m, char text[REPORT_VERDICT]);

#endif
