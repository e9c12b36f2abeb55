/* summary_modules.h - tables of a captured script's measurement: seconds of compute by module and
 * phase, and communication that its ranks wait for, by where it is issued. */
#ifndef STUDY_SUMMARY_MODULES_H
#define STUDY_SUMMARY_MODULES_H

#include <stdio.h>

#include "core/data/measurement.h"

/* Nothing where the measurement has no sites. STATUS_NOMEM. */
enum status summary_print_modules(const struct measurement *m, FILE *out) MUST_CHECK;

#endif
