/* fit.h - constants of a platform fitted to measured iterations on it.
 *
 * Constants are those of core/data/fitted.def: of devices, and of each tier of links. They are
 * times what the catalogue says, so that runs on platforms of several sizes say one thing. What is
 * known of them beforehand is that table's widths; how far runs scatter is found as well. The rows
 * say by log(measured / predicted), by the analytic engine.
 *
 *     fit_rows.c       the table of measured iterations
 *     fit.c            constants, predictions, and rounds of linearised fits
 *     fit_posterior.c  one linearised fit: which constants are free, values, intervals
 *     fit_print.c      text, JSON, the platform */
#ifndef STUDY_FIT_H
#define STUDY_FIT_H

#include <stdio.h>

#include "core/base/error.h"
#include "core/data/fitted.h"
#include "core/engine/engine.h"
#include "study/load.h"

struct provenance;

enum {
    FIT_CONSTANTS = 24, /* at most, */
    FIT_TIERS = 8,      /* tiers whose links have some, */
    FIT_TRIED = 12,     /* constants of which all subsets are tried, */
    FIT_FREED = 5,      /* that are free, */
    FIT_ROWS = 1000,    /* and rows */
    FIT_NAME = 128
};

struct fit_row {
    char *name;            /* of the row in messages: its plan, or what its cells say; owned */
    size_t line;           /* of the table */
    double measured_s;     /* 0: not measured, only predicted */
    double measured_bytes; /* peak of the fullest device; 0: not measured */
    /* predicted as the catalogue has it, with what was found, and with what was found without this
     * row */
    double begin_s, fitted_s, apart_s;
    double peak_bytes; /* predicted */
    size_t platform;
    struct loaded_plan plan;
};

struct fit_platform {
    char *path, *text;             /* the XML; owned */
    double earlier[FITTED_DEVICE]; /* what an earlier fit says there; 0: nothing */
    uint32_t tiers;                /* bit i: its links are of tier i of the fit */
    size_t devices;
};

enum fit_state {
    FIT_SILENT, /* the runs say nothing of it: as the catalogue has it */
    FIT_HELD,   /* they say little: as the catalogue has it */
    FIT_FREE    /* fitted */
};

struct fit_constant {
    char name[FIT_NAME]; /* "products", "rail.bandwidth" */
    enum fitted_constant what;
    size_t tier;     /* of links */
    double standard; /* of links what the catalogue says, in SI units; 0: only times are said */
    enum fit_state state;
    double value, low, high; /* times the catalogue's; 5 % and 95 % quantiles */
    double told;             /* 1 - variance / variance beforehand */
};

struct fit {
    char *path; /* of the table */
    size_t rows, measured;
    struct fit_row *row; /* [rows] */
    size_t platforms;
    struct fit_platform *platform; /* [platforms] */
    size_t tiers;
    struct {
        char name[FIT_NAME];
        double bandwidth_Bps, latency_s; /* as the first platform has it; 0: not known */
    } tier[FIT_TIERS];
    size_t constants;
    struct fit_constant constant[FIT_CONSTANTS];
    double correlation[FIT_CONSTANTS][FIT_CONSTANTS]; /* of what is known of them by now */
    double noise;                                     /* of a run, as a share */
    /* mean of |predicted / measured - 1| of measured rows: before, after, and left out */
    double begin_error, error, apart_error;
    size_t memories;                                    /* rows with a measured peak */
    double overhead_bytes, overhead_low, overhead_high; /* measured less predicted peak */
};

struct fit_options {
    const char *rows; /* the table */
    const char *only; /* "products,rail.bandwidth": these constants; NULL: all */
    const struct simulation_watch *watch; /* told of predictions done; NULL: nobody is */
    FILE *notes;                          /* a line for each row that cannot be used */
};

/* Rows of a text with names of columns: `plan`, a plan file, or settings as experiments have them
 * (study/point.h; options of plans also without "plan."), `iteration_s`, and perhaps `memory`, the
 * peak. Where the first line ends in a number there are no names: a plan file and seconds.
 * STATUS_PARSE, STATUS_INVALID "path: 2 of 7 rows cannot be used", with a line "path:line: what"
 * for each in notes; STATUS_IO, STATUS_NOMEM; *f is to be freed in any case. */
enum status fit_read_rows(const char *path, FILE *notes, struct fit *f) MUST_CHECK;

/* STATUS_INVALID: no such constant, fewer than two measured rows; what reading plans and simulating
 * them says. */
enum status fit_measured(const struct fit_options *o, struct fit *out) MUST_CHECK;

/* Rows, constants and what the runs cannot tell, for people, and as JSON. */
void fit_print(const struct fit *f, FILE *out);
/* A line for each reason not to take the fit for one: constants at their bounds, none, errors. */
void fit_warn(const struct fit *f, FILE *out);
void fit_print_json(const struct fit *f, const struct provenance *by, FILE *out);
/* A platform (NULL: the largest of the rows') with the constants found, to a stream. */
enum status fit_put_platform(const struct fit *f, const struct fit_platform *p, const double *times,
                             FILE *to) MUST_CHECK;
enum status fit_write_platform(struct fit *f, const char *platform, const char *path,
                               const struct provenance *by) MUST_CHECK;
/* The peaks that were measured, against those predicted. */
void fit_find_overhead(struct fit *f);
/* A platform, its tiers by the fit's. */
enum status fit_read_platform(const char *path, struct fit *f, struct fit_platform *out) MUST_CHECK;
void fit_platform_free(struct fit_platform *p);
void fit_free(struct fit *f); /* accepts {0}; leaves {0} */

#endif
