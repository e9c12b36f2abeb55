/* Young's and Daly's formulas. */
#include "campaign/closed_form.h"

#include <math.h>

double closed_form_time(double work, double every, double save, double recover, double between)
{
    if (isinf(between))
        return work * (1 + save / every);
    return between * exp(recover / between) * expm1((every + save) / between) * work / every;
}

/* The derivative is zero where (1 - x) e^(x + s) = 1, of x = every / between, s = save / between:
 * the left side falls from e^s at 0 to 0 at 1. */
double closed_form_best(double save, double between)
{
    double low = 0, high = 1, s = save / between;
    if (isinf(between))
        return INFINITY;
    while (high - low > 1e-15 * high) {
        double x = (low + high) / 2;
        if (x <= low || x >= high)
            break;
        if (log1p(-x) + x + s > 0)
            low = x;
        else
            high = x;
    }
    return high * between;
}

double closed_form_young(double save, double between)
{
    return isinf(between) ? INFINITY : sqrt(2 * save * between);
}

double closed_form_daly(double save, double between)
{
    double x = save / (2 * between);
    if (isinf(between) || save >= 2 * between)
        return between;
    return sqrt(2 * save * between) * (1 + sqrt(x) / 3 + x / 9) - save;
}
