/* Quantiles by selection. */
#include "core/base/statistics.h"

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

static void statistics_swap(double *a, double *b)
{
    double x = *a;
    *a = *b;
    *b = x;
}

/* The middle one of three, so that sorted input is cut in half. */
static double pivot_of(const double *v, size_t low, size_t high)
{
    double a = v[low], b = v[low + (high - low) / 2], c = v[high];
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

/* Hoare's FIND (CACM 4, 1961); what is not cut down in 64 rounds is sorted. */
double select_nth(double *value, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;
    for (int round = 0; low < high; round++) {
        if (round == 64) {
            qsort(value + low, high - low + 1, sizeof *value, by_value);
            break;
        }
        double pivot = pivot_of(value, low, high);
        size_t i = low, j = high;
        for (;;) {
            while (value[i] < pivot)
                i++;
            while (pivot < value[j])
                j--;
            if (i >= j)
                break;
            statistics_swap(&value[i++], &value[j--]);
        }
        /* value[low .. i - 1] <= pivot <= value[i .. high], or i == j is the pivot itself */
        if (k < i)
            high = i - 1;
        else if (i == j && k == i)
            break;
        else
            low = i + (i == j);
    }
    return value[k];
}

double quantile(const double *value, size_t n, double q)
{
    double *copy = n ? malloc(n * sizeof *copy) : NULL;
    if (!copy)
        return NAN;
    memcpy(copy, value, n * sizeof *value);
    double at = q * (double)(n - 1);
    size_t below = (size_t)at;
    double share = at - (double)below, found = select_nth(copy, n, below);
    if (below + 1 < n && share > 0)
        found = (1 - share) * found + share * select_nth(copy + below + 1, n - below - 1, 0);
    free(copy);
    return found;
}

double median(const double *value, size_t n)
{
    return quantile(value, n, 0.5);
}
