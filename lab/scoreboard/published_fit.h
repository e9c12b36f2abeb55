/* published_fit.h - the constants of core/strategy/constants.def fitted to published runs, and how
 * far predictions of runs are off that were not fitted to: those of a whole set, or of a whole
 * generation of GPUs.
 *
 * What is least is the sum over rows of Huber's function of log(predicted / measured) / 0.1, where
 * a set of n rows counts as sqrt(n) of them, and of ((log constant - log a priori) / width)^2: a
 * constant that no row knows of stays what it is a priori. Rows of more than 512 GPUs are
 * predicted, not fitted to; of a set with more than PUBLISHED_FITTED others every k-th is. Fits
 * begin at the values a priori, so that nothing of a row reaches a fit that it is left out of.
 * Logarithms of times are taken to be linear in those of constants, with differences at the values
 * a priori, which all fits share; where a fit went, rows of few GPUs are looked up again, three
 * times, and their derivatives corrected (Broyden). The catalogue has figures of its own that
 * follow `power` and `gb300` (topologies/catalogue.c).
 */
#ifndef LAB_SCOREBOARD_PUBLISHED_FIT_H
#define LAB_SCOREBOARD_PUBLISHED_FIT_H

#include <stdio.h>

#include "core/strategy/constants.h"
#include "lab/scoreboard/published.h"

struct json_writer;

enum {
    PUBLISHED_FITTED = 200, /* rows of a set that are fitted to, at most */
    PUBLISHED_FITS = 32
};

/* A fit, and whose rows it does not know. */
struct published_fit {
    const char *by;      /* "all", "set" or "generation" */
    const char *without; /* name of that; NULL: nothing */
    struct constants constants;
    double known[CONSTANTS]; /* what rows say of a constant, in parts of what is known a priori */
};

struct published_fits {
    size_t rows;
    bool *fitted; /* [rows] has a time, and is one of the rows that are fitted to */
    size_t fits;
    struct published_fit fit[PUBLISHED_FITS]; /* the first one knows all rows */
    /* [rows] seconds, 0 where there are none: by constants a priori and shipped, and of the two
     * fits that do not know the row's set, and its generation */
    double *prior_s, *shipped_s, *set_s, *generation_s;
    /* rows fitted to that a constant changes, of so many sets, and the first of these */
    size_t on[CONSTANTS], sets_on[CONSTANTS];
    const char *set_on[CONSTANTS];
};

/* shipped: [rows] predictions by the shipped constants, and fits without each set and generation as
 * well; NULL: the one of all rows alone. STATUS_INFEASIBLE: no row has a time and a prediction;
 * what predicting says. */
enum status published_fit(const struct published *p, const struct published_prediction *shipped,
                          struct published_fits *out) MUST_CHECK;
void published_fits_free(struct published_fits *f); /* accepts {0}; leaves {0} */

/* "Hopper": by the name of the GPU. */
const char *published_generation(const struct published_config *c);

/* The table of constants with what was fitted (core/strategy/constants.h). */
void published_fit_write(const struct published_fits *f, FILE *out);
/* Errors by set and generation: a priori, as shipped, and of fits without them; then constants. */
enum status published_fits_print(const struct published *p, const struct published_fits *f,
                                 FILE *out) MUST_CHECK;
/* The same as members of an object that is open. */
enum status published_fits_put_json(const struct published *p, const struct published_fits *f,
                                    struct json_writer *w) MUST_CHECK;

#endif
