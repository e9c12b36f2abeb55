/* cells.h - one value for each place of a picture out of all rows of a table that are for it.
 * Private.
 *
 * Rows of one place that agree in all settings are repeats: their median counts. Where settings
 * differ that the picture does not show, the median of them is nobody's value: the best counts, and
 * the picture names these settings. Settings are the columns before `status`, as sweeps export
 * them, but for `plan` (their names in one) and seeds; other tables have repeats only. */
#ifndef PLOTS_CELLS_H
#define PLOTS_CELLS_H

#include "plots/axis.h"

enum { CELLS_NOTE = 400, CELLS_SHOWN = 3 };

struct cells {
    const struct plot_table *t;
    const struct axis *y;      /* what counts: of times and bytes the lowest is the best */
    size_t shown[CELLS_SHOWN]; /* columns that the picture shows; SIZE_MAX: none */
    const size_t *cell;        /* [y->n] place of each row, < n */
    size_t n;
    double (*spread)[2];     /* [n] out: ends of an error bar, NAN for none; NULL: not wanted */
    enum plot_errors errors; /* what they are; ERRORS_KIND: ERRORS_RANGE */
};

/* Ends of the error bar of n values, or false where there is none. ERRORS_CI is the 95 % confidence
 * interval of the median: of order statistics, as the number of values below the median is binomial
 * (Hahn & Meeker, "Statistical intervals", 1991, section 5.2); fewer than 6 values have none.
 * O(n log n); `value` is sorted. */
enum { ERRORS_CI_LEAST = 6 };
bool errors_of(enum plot_errors errors, double *value, size_t n, double spread[2]);
/* What they are, for notes: "25 % to 75 % of repeats". */
const char *errors_words(enum plot_errors errors);

/* at     [n] out: NAN where there is no row
 *   note   "highest over plan.stages, plan.microbatches; medians of up to 3 rows", "" where no
 *          place has several rows; and what error bars are, where there are some
 * Of a single row, error bars from the lowest to the highest are one standard deviation to each
 * side, where a column has it: iteration_stddev_s or iteration_s_stddev for iteration_s.
 * STATUS_INVALID when error bars are asked for and no place has enough rows; STATUS_NOMEM.
 * O(rows log rows * settings). */
enum status cells_gather(const struct cells *c, double *at, char note[CELLS_NOTE]) MUST_CHECK;

#endif
