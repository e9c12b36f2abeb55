/* least_squares.h - the constants for which a sum of squares is least, by GSL's trust region
 * (Levenberg-Marquardt; Moré 1978) with derivatives by differences. GSL is in a module of its own
 * (core/base/module.h): few commands need it. */
#ifndef STUDY_LEAST_SQUARES_H
#define STUDY_LEAST_SQUARES_H

#include <stddef.h>

#include "core/base/error.h"
#include "core/base/module.h"

struct least_squares {
    size_t rows, constants; /* rows >= constants >= 1 */
    /* x [constants] -> out [rows]; anything but STATUS_OK, with its message set, ends the
     * search. */
    enum status (*residuals)(void *self, const double *x, double *out);
    void *self;
    double step;       /* of differences, as a part of x; 0: the square root of the precision */
    double tolerance;  /* of x, at which the search ends */
    size_t iterations; /* at most */
};

/* x [constants]: where the search begins, then where it ended. What residuals() said;
 * STATUS_EXTERNAL with GSL's reason; STATUS_IO without the module; STATUS_NOMEM. */
enum status least_squares(const struct least_squares *p, double *x) MUST_CHECK;

/* The inverse of a symmetric positive definite matrix m [n][stride], n <= stride, in place, and the
 * logarithm of its determinant. n 0: nothing to do, and 0. Errors of the module as above. */
enum status least_squares_invert(size_t n, size_t stride, double *m, double *log_det) MUST_CHECK;

/* What the module exports, as "gsl_module": *st is what residuals() said; NULL, or GSL's reason. */
struct gsl_module {
    struct module module;
    const char *(*solve)(const struct least_squares *p, double *x, enum status *st);
    const char *(*invert)(size_t n, size_t stride, double *m, double *log_det);
};

#endif
