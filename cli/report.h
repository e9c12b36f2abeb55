/* report.h - a measurement for people, the same for simulated and real runs. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <stdio.h>

#include "core/measurement.h"

/* Summary lines, a table of ranks and the five busiest links; warnings go to stderr. */
void report_measurement(const struct measurement *m, FILE *out);

#endif
