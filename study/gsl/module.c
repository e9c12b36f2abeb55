/* GSL's nonlinear least squares as a module. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <stdlib.h>

#include "core/array.h"
#include "core/provenance.h"
#include "study/least_squares.h"

/* A problem, and room for what GSL keeps in the columns of a matrix. */
struct room {
    const struct least_squares *problem;
    double *x, *residual;
};

static int residuals(const gsl_vector *x, void *params, gsl_vector *f)
{
    struct room *r = params;
    for (size_t k = 0; k < r->problem->unknowns; k++)
        r->x[k] = gsl_vector_get(x, k);
    if (!r->problem->f(r->x, r->problem->context, r->residual))
        return GSL_EDOM;
    for (size_t i = 0; i < r->problem->residuals; i++)
        gsl_vector_set(f, i, r->residual[i]);
    return GSL_SUCCESS;
}

/* GSL's part; returns its code. */
static int drive(struct room *r, double *x)
{
    const struct least_squares *p = r->problem;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf f = {.f = residuals, .n = p->residuals, .p = p->unknowns, .params = r};
    gsl_vector_view start = gsl_vector_view_array(x, p->unknowns);
    int info = 0;
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, f.n, f.p);
    if (!w)
        return GSL_ENOMEM;
    int code = gsl_multifit_nlinear_init(&start.vector, &f, w);
    if (code == GSL_SUCCESS)
        code = gsl_multifit_nlinear_driver((size_t)p->iterations, 1e-6, 1e-8, 1e-10, NULL, NULL,
                                           &info, w);
    for (size_t k = 0; k < p->unknowns; k++)
        x[k] = gsl_vector_get(gsl_multifit_nlinear_position(w), k);
    gsl_multifit_nlinear_free(w);
    return code;
}

static enum status solve(const struct least_squares *p, double *x)
{
    enum status st;
    struct room room = {.problem = p};
    gsl_error_handler_t *handler = gsl_set_error_handler_off(); /* the default one aborts */
    TRY(ARRAY_NEW(room.x, p->unknowns));
    TRY(ARRAY_NEW(room.residual, p->residuals));
    int code = drive(&room, x);
    if (code == GSL_ENOMEM)
        FAIL(STATUS_NOMEM, "out of memory");
    if (code != GSL_SUCCESS && code != GSL_EMAXITER && code != GSL_ENOPROG)
        FAIL(STATUS_EXTERNAL, "GSL: %s", gsl_strerror(code));
out:
    gsl_set_error_handler(handler);
    free(room.x);
    free(room.residual);
    return st;
}

extern const struct least_squares_module least_squares_module;
__attribute__((visibility("default"))) const struct least_squares_module least_squares_module = {
    .module = {foreline_version},
    .solve = solve,
    .message = error_message,
};
