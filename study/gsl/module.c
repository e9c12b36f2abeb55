/* GSL's nonlinear least squares as a module. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>

#include "core/provenance.h"
#include "study/least_squares.h"

static int residuals(const gsl_vector *x, void *params, gsl_vector *f)
{
    const struct least_squares *p = params;
    /* What GSL's solvers pass is dense. */
    return p->f(x->data, p->context, f->data) ? GSL_SUCCESS : GSL_EDOM;
}

static enum status solve(const struct least_squares *p, double *x)
{
    struct least_squares copy = *p;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf f = {
        .f = residuals, .n = p->residuals, .p = p->unknowns, .params = &copy};
    gsl_vector_view start = gsl_vector_view_array(x, p->unknowns);
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    int info = 0, code = GSL_ENOMEM;
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, f.n, f.p);
    if (w)
        code = gsl_multifit_nlinear_init(&start.vector, &f, w);
    if (w && code == GSL_SUCCESS)
        code = gsl_multifit_nlinear_driver((size_t)p->iterations, 1e-6, 1e-8, 1e-10, NULL, NULL,
                                           &info, w);
    for (size_t k = 0; w && k < p->unknowns; k++)
        x[k] = gsl_vector_get(gsl_multifit_nlinear_position(w), k);
    if (w)
        gsl_multifit_nlinear_free(w);
    gsl_set_error_handler(handler);
    if (code == GSL_ENOMEM)
        return error_set(STATUS_NOMEM, "out of memory");
    if (code != GSL_SUCCESS && code != GSL_EMAXITER && code != GSL_ENOPROG)
        return error_set(STATUS_EXTERNAL, "GSL: %s", gsl_strerror(code));
    return STATUS_OK;
}

extern const struct least_squares_module least_squares_module;
__attribute__((visibility("default"))) const struct least_squares_module least_squares_module = {
    .module = {foreline_version},
    .solve = solve,
    .message = error_message,
};
