/* published_expected.h - how far off the next prediction may be, from errors of predictions that
 * did not know the set of a run: the table study/expected.def, and how well such tables did.
 *
 * A line of the table stands for the runs that share its words, the first ones of EXPECTED_LIKE.
 * Its quantiles are taken over all runs. Each set weighs one; within a set the weight of a run
 * doubles with each word that it shares with the line. A quantile is the least error with at least
 * part * (n + 1) / n of the weight at or below it, where the weights are worth n equal ones,
 * rounded up to 0.1 %. A line needs 5 runs of its own; without them the next wider line holds. */
#ifndef LAB_SCOREBOARD_PUBLISHED_EXPECTED_H
#define LAB_SCOREBOARD_PUBLISHED_EXPECTED_H

#include <stdio.h>

#include "lab/scoreboard/published_fit.h"
#include "study/expected.h"

/* A run, and how far it was off. */
struct published_miss {
    const char *set;
    const char *like[EXPECTED_LIKE]; /* of expected_roofline: as the roofline predicts it */
    double error;                    /* |predicted / measured - 1| */
};

struct published_misses {
    size_t n;
    struct published_miss *miss; /* [n] by error, then set and words */
};

/* Rows by constants that do not know their sets.
 *
 *   roofline  [rows] predictions of the same rows by the roofline, NULL: none
 *
 * Words live as long as the program or p, to which they are added. */
enum status published_misses_find(struct published *p, const struct published_fits *f,
                                  const struct published_prediction *roofline,
                                  struct published_misses *out) MUST_CHECK;
void published_misses_free(struct published_misses *m); /* accepts {0}; leaves {0} */
/* In the order that the others need. */
void published_misses_sort(struct published_misses *m);

/* The table of all runs but those of the set `without` (NULL: of all), the narrowest lines first;
 * names are those of m. *table is the caller's, to free(). O(lines * runs). */
enum status published_expect(const struct published_misses *m, const char *without,
                             struct expected **table, size_t *lines) MUST_CHECK;

/* Shares of the runs of a set, as predicted under their frameworks, that are within what a table
 * without the set says. */
struct published_coverage {
    const char *name;
    size_t runs;
    double median, nine_in_ten;
};
/* Of each set, in order of name, then their mean and those of all runs; *out is the caller's, to
 * free(). */
enum status published_cover(const struct published_misses *m, struct published_coverage **out,
                            size_t *lines) MUST_CHECK;
enum status published_coverage_print(const struct published_misses *m, FILE *out) MUST_CHECK;
/* The same as an array "expected" of an object that is open. */
enum status published_coverage_put_json(const struct published_misses *m,
                                        struct json_writer *w) MUST_CHECK;
/* study/expected.def. */
enum status published_expected_write(const struct published_misses *m, FILE *out) MUST_CHECK;

#endif
