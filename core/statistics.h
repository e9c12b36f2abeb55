/* statistics.h - order statistics of samples. Quantiles are interpolated linearly between order
 * statistics (definition 7 of Hyndman & Fan, The American Statistician 50, 1996). */
#ifndef CORE_STATISTICS_H
#define CORE_STATISTICS_H

#include <stddef.h>

/* qsort() comparison of doubles, ascending. */
int by_value(const void *a, const void *b);

/* Quantile q in [0, 1] of ascending[n], n >= 1. O(1). */
double quantile_sorted(const double *ascending, size_t n, double q);

/* The same of value[n] in any order, and the median; NAN when n == 0 or when memory runs out, since
 * a copy is sorted. O(n log n). */
double quantile(const double *value, size_t n, double q);
double median(const double *value, size_t n);

#endif
