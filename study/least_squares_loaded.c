/* Least squares, by the module. */
#include "study/least_squares.h"

enum status least_squares_solve(const struct least_squares *p, double *x)
{
    const void *found;
    PASS(module_load(LEAST_SQUARES_MODULE, "least_squares_module", &found));
    const struct least_squares_module *m = found;
    enum status st = m->solve(p, x);
    return st == STATUS_OK ? st
                           : error_set(st, "%s", m->message()); /* it has a message of its own */
}
