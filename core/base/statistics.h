/* statistics.h - order statistics of samples. Quantiles are interpolated linearly between order
 * statistics (definition 7 of Hyndman & Fan, The American Statistician 50, 1996). */
#ifndef CORE_BASE_STATISTICS_H
#define CORE_BASE_STATISTICS_H

#include <stddef.h>

/* qsort() comparison of doubles, ascending. */
int by_value(const void *a, const void *b);

/* Quantile q in [0, 1] of ascending[n], n >= 1. O(1). */
double quantile_sorted(const double *ascending, size_t n, double q);

/* The k-th smallest of value[n], k < n, which is left partly ordered: nothing before index k is
 * larger than it, nothing behind smaller. O(n) on average, O(n log n) at worst. No NANs. */
double select_nth(double *value, size_t n, size_t k);

/* The quantile of value[n] in any order, and the median; NAN when n == 0 or when memory runs out,
 * since values are selected in a copy: as of sorted ones, to the last bit. O(n) on average. */
double quantile(const double *value, size_t n, double q);
double median(const double *value, size_t n);

#endif
