/* What needs GSL, by the module. */
#include "study/least_squares.h"

static enum status least_squares_load(const struct gsl_module **gsl)
{
    const void *loaded;
    PASS(module_load(GSL_MODULE, "gsl_module", &loaded));
    *gsl = loaded;
    return STATUS_OK;
}

enum status least_squares_invert(size_t n, size_t stride, double *m, double *log_det)
{
    const struct gsl_module *gsl;
    *log_det = 0;
    if (n == 0)
        return STATUS_OK;
    PASS(least_squares_load(&gsl));
    const char *reason = gsl->invert(n, stride, m, log_det);
    return reason ? error_set(STATUS_EXTERNAL, "GSL: %s", reason) : STATUS_OK;
}

enum status least_squares(const struct least_squares *p, double *x)
{
    const struct gsl_module *gsl;
    enum status st = STATUS_OK;
    PASS(least_squares_load(&gsl));
    const char *reason = gsl->solve(p, x, &st);
    if (st == STATUS_NOMEM)
        return error_set(st, "out of memory: fit of %zu rows", p->rows);
    if (st != STATUS_OK)
        return st;
    return reason ? error_set(STATUS_EXTERNAL, "GSL: %s", reason) : STATUS_OK;
}
