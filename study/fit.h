/* fit.h - a few constants of a platform, or of the framework of plans, fitted to measured
 * iterations.
 *
 * Constants are changes as behind "@" of a platform (sim/platform/variant.h),
 * "uplink.bandwidth=25Gbps", or numbers of the plans' framework (core/strategy/framework.h),
 * "framework.host=1"; the value is where the fit begins. What is least is the sum of squares of
 * log(predicted / measured), by the analytic engine, over the logarithms of the constants: GSL's
 * trust region (Levenberg-Marquardt), whose derivatives are differences. All plans are on one
 * platform.
 *
 *     fit.c          constants, predictions, and what the library is asked for
 *     fit_rows.c     the table of measured iterations */
#ifndef STUDY_FIT_H
#define STUDY_FIT_H

#include <stdio.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "study/load.h"

struct provenance;

enum {
    FIT_CONSTANTS = 16, /* at most, */
    FIT_ROWS = 10000,   /* and rows */
    FIT_ROWS_EACH = 2,  /* rows that a constant takes at least */
    FIT_FOLDS = 12,     /* of the cross-validation; fewer rows than twice that: each is left out */
    FIT_NAME = 128
};

struct fit_row {
    char *path;               /* of the plan file, as it can be opened; owned */
    double measured_s;        /* > 0 */
    double begin_s, fitted_s; /* predicted with the values given, and with those found */
    double apart_s;           /* predicted with what was found without this row's fold */
    struct loaded_plan plan;
};

struct fit_constant {
    char name[FIT_NAME]; /* "uplink.bandwidth" */
    enum unit unit;      /* of values; of framework.* none: `plain` */
    bool plain;
    double begin, value;
};

struct fit {
    size_t rows;
    struct fit_row *row; /* [rows] */
    size_t constants;
    struct fit_constant constant[FIT_CONSTANTS];
    /* mean of |predicted / measured - 1|: before, after, and of rows not fitted */
    double begin_error, error, apart_error;
};

/* Rows of a text: a plan file, as the table calls it (core/base/path.h), a comma or tab, seconds.
 * Empty lines, lines that begin with '#' and the first line if it has no number are passed over.
 * STATUS_PARSE "path:line: what", STATUS_IO, STATUS_NOMEM; *f is to be freed in any case. */
enum status fit_read_rows(const char *path, struct fit *f) MUST_CHECK;

/* constants: "uplink.bandwidth=25Gbps,framework.host=1". STATUS_INVALID: no such constant, one that
 * changes no prediction, fewer than FIT_ROWS_EACH rows for each, plans of several platforms; what
 * reading plans and simulating them says. */
enum status fit_measured(const char *rows, const char *constants, struct fit *out) MUST_CHECK;

/* Rows and constants, for people. */
void fit_print(const struct fit *f, FILE *out);
/* The platform with the constants found. */
enum status fit_write_platform(const struct fit *f, const char *path,
                               const struct provenance *by) MUST_CHECK;
void fit_free(struct fit *f); /* accepts {0}; leaves {0} */

#endif
