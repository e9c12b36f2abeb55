/* cells.h - one value for each place of a picture out of all rows of a table that are for it. Private.
 *
 * Rows of one place that agree in all settings are repeats: their median counts. Where settings
 * differ that the picture does not show, the median of them is nobody's value: the best counts, and
 * the picture names these settings. Settings are the columns before `status`, as sweeps export them,
 * but for `plan` (their names in one) and seeds; other tables have repeats only. */
#ifndef PLOTS_CELLS_H
#define PLOTS_CELLS_H

#include "plots/axis.h"

enum { CELLS_NOTE = 400, CELLS_SHOWN = 3 };

/*   shown  [CELLS_SHOWN] columns that the picture shows; SIZE_MAX: none
 *   y      what counts: of times and bytes the lowest is the best
 *   cell   [y->n] place of each row, < cells
 *   at     [cells] out: NAN where there is no row
 *   note   "highest over plan.stages, plan.microbatches; medians of up to 3 rows", "" where no place
 *          has several rows
 * STATUS_NOMEM. O(rows log rows * settings). */
enum status cells_gather(const struct table *t, const size_t shown[CELLS_SHOWN],
                         const struct axis *y, const size_t *cell, size_t cells, double *at,
                         char note[CELLS_NOTE]) MUST_CHECK;

#endif
