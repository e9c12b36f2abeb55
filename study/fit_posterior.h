/* fit_posterior.h - one linearised fit: log(measured / predicted) is linear in the logarithms of
 * constants. */
#ifndef STUDY_FIT_POSTERIOR_H
#define STUDY_FIT_POSTERIOR_H

#include "study/fit.h"

/* target = slope * x + what runs scatter by. */
struct fit_linear {
    size_t rows, constants;
    const double *slope;  /* [rows * constants] */
    const double *target; /* [rows] */
    double
        width[FIT_CONSTANTS]; /* standard deviation of x beforehand, whose mean is 0; 0: x is 0 */
};

struct fit_answer {
    double value[FIT_CONSTANTS]; /* of x */
    bool free[FIT_CONSTANTS];    /* those that are not 0 */
    double low[FIT_CONSTANTS], high[FIT_CONSTANTS],
        told[FIT_CONSTANTS]; /* as struct fit_constant */
    double correlation[FIT_CONSTANTS][FIT_CONSTANTS];
    double noise;  /* standard deviation of what runs scatter by */
    double *apart; /* [rows], the caller's: target less what rows without this one say; */
    double error;  /* the mean of their sizes */
};

/* With so many free constants, or all there are: those with which the runs are likeliest. O(rows *
 * constants^2 + subsets * constants^3). STATUS_NOMEM; what least_squares_invert() says. */
enum status fit_solve_linear(const struct fit_linear *l, size_t members,
                             struct fit_answer *a) MUST_CHECK;

#endif
