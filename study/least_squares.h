/* least_squares.h - nonlinear least squares, by GSL in a shared object of its own: GSL and its BLAS would cost
 * time at every start, and one command needs them. */
#ifndef STUDY_LEAST_SQUARES_H
#define STUDY_LEAST_SQUARES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/module.h"

struct least_squares {
    size_t residuals, unknowns;
    /* residual[residuals] at x[unknowns]; false: x is out of bounds. */
    bool (*f)(const double *x, void *context, double *residual);
    void *context;
    int iterations;
};

/* What the module exports, as "least_squares_module". */
struct least_squares_module {
    struct module module;
    enum status (*solve)(const struct least_squares *p, double *x);
    const char *(*message)(void);
};

/* Levenberg and Marquardt's trust regions from x on; x becomes the best point found. Jacobians are by
 * finite differences. STATUS_EXTERNAL: GSL's complaint; STATUS_IO, STATUS_INVALID: no module; STATUS_NOMEM. */
enum status least_squares_solve(const struct least_squares *p, double *x) MUST_CHECK;

#endif
