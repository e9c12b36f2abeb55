/* difference.h - plans, predictions or runs side by side: which is faster, by how much, and why.
 *
 * Of two, A is the first. Plans are simulated, all alike. Times are per iteration where all have
 * the same model and global batch, else per token, or per sample where one has no tokens. */
#ifndef STUDY_DIFFERENCE_H
#define STUDY_DIFFERENCE_H

#include <stdio.h>

#include "core/data/breakdown.h"
#include "study/planning.h"

enum { DIFFERENCE_WARNINGS = 5, DIFFERENCE_TEXT = 512 };
struct difference {
    size_t n, plans, predictions, runs; /* plans are predictions too */
    const char *const *path;            /* [n] borrowed */
    struct measurement *m;              /* [n] */
    struct loaded_plan *plan;           /* [n] */
    bool *known;                        /* [n] plan[i] is the plan of m[i] */
    const char *per;                    /* "iteration", "token" or "sample": */
    double *units;                      /* [n] how many of them an iteration has */
    size_t warnings;                    /* what makes them less alike */
    char warning[DIFFERENCE_WARNINGS][DIFFERENCE_TEXT];
};

/* Read n >= 2 files, plans or measurements, and simulate the plans as options say. *out must be {0}
 * and be freed even after a failure. STATUS_USAGE: an option says nothing about these files; else
 * as the readers and engines. */
enum status difference_read(const struct arguments *a, const char *const *path, size_t n,
                            struct difference *out) MUST_CHECK;
/* Find the plans of measurements, where they are as they were, and what times are per. */
enum status difference_settle(struct difference *d) MUST_CHECK;
void difference_free(struct difference *d); /* accepts {0}; leaves {0} */

/* Seconds of the i-th per d->per. */
double difference_time(const struct difference *d, size_t i);
/* The parts of it, BREAKDOWN_PARTS seconds that add up to it; false, and nothing: not known. */
bool difference_parts(const struct difference *d, size_t i, double part_s[BREAKDOWN_PARTS]);
/* Parts that A or B has, those that differ most first. Returns how many; 0: those of one are not
 * known. */
struct difference_row {
    size_t part; /* of a breakdown */
    double a_s, b_s;
};
size_t difference_rows(const struct difference *d, struct difference_row row[BREAKDOWN_PARTS]);
/* plan_changes() of A and B, and the framework; false: one of the plans is not known. */
enum { DIFFERENCE_CHANGES = PLAN_CHANGES + 1 };
bool difference_changes(const struct difference *d, struct plan_change change[DIFFERENCE_CHANGES],
                        size_t *n);

/* Of two the answer, and a table of where the time goes; of more a table, fastest first. Warnings
 * are lines to `warnings`. */
void difference_print(const struct difference *d, FILE *out, FILE *warnings);
void difference_print_json(const struct difference *d, FILE *out);

#endif
