/* summary.h - what a simulated or real run leaves: its measurement for people, and its files. */
#ifndef STUDY_SUMMARY_H
#define STUDY_SUMMARY_H

#include <stdio.h>

#include "core/data/measurement.h"
#include "core/data/trace.h"
#include "study/evaluate.h"
#include "study/settings.h"

/* Rows that tables have at most, 0: a table is left out; and what is said besides. */
enum { SUMMARY_RANKS = 4, SUMMARY_LINKS = 5 };
struct summary_rows {
    size_t ranks, links;
    double train_tokens;     /* to say what training with so many takes; 0: not asked */
    const struct plan *plan; /* to say what it is; NULL: not known */
    const struct evaluation_context *expected; /* of the plan, to say how sure its prediction is and
                                                * what would shorten it; NULL: not asked */
    const char *accuracy;   /* of a capture: how sure its prediction is; NULL: not asked */
    struct program *script; /* of a capture, and where it runs, to say what would shorten it; NULL:
                             * not asked */
    const struct evaluation_context *script_on;
};

/* Summary lines, verdict about memory, bottleneck; tables: where the time went, the busiest ranks,
 * memory of the fullest ranks, messages and collectives, the busiest links.
 *   rows      NULL: SUMMARY_RANKS, SUMMARY_LINKS
 *   warnings  where those of the measurement go, a line each */
enum status summary_print(const struct measurement *m, const struct summary_rows *rows, FILE *out,
                          FILE *warnings) MUST_CHECK;

/* What a command has to hand over; everything is borrowed. A run that was not asked for a trace may
 * have an empty timeline. */
struct results {
    const struct program *program;
    const struct timeline *timeline;
    const struct measurement *m;
    const struct provenance *by;
};

enum { TRACE_LARGE = 200000 }; /* ops from which on traces are compressed: some 60 MB */
/* The files that --output and --trace ask for; `notes` (NULL: nobody) is told of a trace that is
 * compressed by itself. */
enum status results_write(const struct results *r, const struct arguments *a,
                          FILE *notes) MUST_CHECK;
/* JSON with --json, to standard output, else the summary to `out`. */
enum status results_print(const struct results *r, const struct arguments *a,
                          const struct summary_rows *rows, FILE *out, FILE *warnings) MUST_CHECK;

/* "rank 3 (h3) needs 20 GiB, its device has 16 GiB; 5 more ranks likewise" of a measurement that
 * does not fit. */
enum { REPORT_VERDICT = 256 };
const char *report_lack(const struct measurement *m, char text[REPORT_VERDICT]);

#endif
