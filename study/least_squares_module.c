/* GSL's nonlinear least squares, and its inverse by Cholesky factors, as a module. */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/provenance.h"
#include "study/least_squares.h"

struct least_squares_search {
    const struct least_squares *p;
    double *x,
        *out; /* [constants], [rows] without gaps: `out` of GSL may be a column of a matrix */
    enum status st;
};

static int least_squares_residuals(const gsl_vector *x, void *params, gsl_vector *out)
{
    struct least_squares_search *s = params;
    for (size_t k = 0; k < s->p->constants; k++)
        s->x[k] = gsl_vector_get(x, k);
    if (s->st == STATUS_OK)
        s->st = s->p->residuals(s->p->self, s->x, s->out);
    for (size_t i = 0; i < s->p->rows && s->st == STATUS_OK; i++)
        gsl_vector_set(out, i, s->out[i]);
    return s->st == STATUS_OK ? GSL_SUCCESS : GSL_EBADFUNC;
}

static int least_squares_minimise(struct least_squares_search *s, double *x)
{
    const struct least_squares *p = s->p;
    const double small = 1e-10; /* of the gradient */
    gsl_multifit_nlinear_parameters how = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf f = {
        .f = least_squares_residuals, .n = p->rows, .p = p->constants, .params = s};
    gsl_vector_view begin = gsl_vector_view_array(x, p->constants);
    int info = 0;
    if (p->step > 0)
        how.h_df = p->step;
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &how, p->rows, p->constants);
    if (!w)
        return GSL_ENOMEM;
    int code = gsl_multifit_nlinear_init(&begin.vector, &f, w);
    if (code == GSL_SUCCESS)
        code = gsl_multifit_nlinear_driver(p->iterations, p->tolerance, p->tolerance, small, NULL,
                                           NULL, &info, w);
    for (size_t k = 0; k < p->constants; k++)
        x[k] = gsl_vector_get(gsl_multifit_nlinear_position(w), k);
    gsl_multifit_nlinear_free(w);
    return code;
}

static const char *least_squares_solve_module(const struct least_squares *p, double *x,
                                              enum status *st)
{
    struct least_squares_search s = {
        .p = p, .x = calloc(p->constants, sizeof *s.x), .out = calloc(p->rows, sizeof *s.out)};
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    int code = s.x && s.out ? least_squares_minimise(&s, x) : GSL_ENOMEM;
    gsl_set_error_handler(handler);
    free(s.x);
    free(s.out);
    *st = code == GSL_ENOMEM && s.st == STATUS_OK ? STATUS_NOMEM : s.st;
    bool done = code == GSL_SUCCESS || code == GSL_EMAXITER || code == GSL_ENOPROG;
    return done ? NULL : gsl_strerror(code);
}

static const char *least_squares_invert_module(size_t n, size_t stride, double *m, double *log_det)
{
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    gsl_matrix_view view = gsl_matrix_view_array_with_tda(m, n, n, stride);
    int code = gsl_linalg_cholesky_decomp1(&view.matrix);
    for (size_t k = 0; k < n && code == GSL_SUCCESS; k++)
        *log_det += 2 * log(m[k * stride + k]);
    if (code == GSL_SUCCESS)
        code = gsl_linalg_cholesky_invert(&view.matrix);
    gsl_set_error_handler(handler);
    return code == GSL_SUCCESS ? NULL : gsl_strerror(code);
}

extern const struct gsl_module gsl_module;
__attribute__((visibility("default")))
const struct gsl_module gsl_module = {.module = {foreline_version},
                                      .solve = least_squares_solve_module,
                                      .invert = least_squares_invert_module};
