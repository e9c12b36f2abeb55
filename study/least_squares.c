/* What needs GSL, by the module. */
#include "study/least_squares.h"

enum status least_squares(const struct least_squares *p, double *x)
{
    const void *loaded;
    enum status st = STATUS_OK;
    PASS(module_load(GSL_MODULE, "gsl_module", &loaded));
    const struct gsl_module *gsl = loaded;
    const char *reason = gsl->solve(p, x, &st);
    if (st == STATUS_NOMEM)
        return error_set(st, "a fit of %zu rows", p->rows);
    if (st != STATUS_OK)
        return st;
    return reason ? error_set(STATUS_EXTERNAL, "GSL: %s", reason) : STATUS_OK;
}
