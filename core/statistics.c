/* Quantiles by sorting. */
#include "core/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Linear between the two nearest ranks, type 7 of Hyndman & Fan, American Statistician 50
 * (1996). */
double quantile_sorted(const double *ascending, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t below = (size_t)at;
    double share = at - (double)below;
    if (below + 1 >= n || share <= 0)
        return ascending[below];
    return (1 - share) * ascending[below] + share * ascending[below + 1];
}

double quantile(const double *value, size_t n, double q)
{
    double *sorted = n ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted)
        return NAN;
    memcpy(sorted, value, n * sizeof *value);
    qsort(sorted, n, sizeof *sorted, by_value);
    double found = quantile_sorted(sorted, n, q);
    free(sorted);
    return found;
}

double median(const double *value, size_t n)
{
    return quantile(value, n, 0.5);
}
