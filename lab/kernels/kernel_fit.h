/* kernel_fit.h - constants of core/cost/kernel.h and core/cost/fabric.h fitted to measured
 * kernels. */
#ifndef LAB_KERNELS_KERNEL_FIT_H
#define LAB_KERNELS_KERNEL_FIT_H

#include <stdio.h>

#include "lab/kernels/kernel_rows.h"

enum { KERNEL_FIT_CONSTANTS = 8, KERNEL_FIT_ROWS_PER_CONSTANT = 5, KERNEL_FIT_FOLDS = 5 };

/* Constants of one kind of rows, by name. */
struct kernel_constants {
    enum row_kind kind;
    size_t n;
    const char *name[KERNEL_FIT_CONSTANTS];
    double value[KERNEL_FIT_CONSTANTS]; /* > 0 */
};

/* Errors |predicted / measured - 1|. */
struct fit_error {
    size_t rows;
    double median, p95;
    double crossed;  /* median where rows of the same shape were not fitted, in five parts */
    double own;      /* the same with constants of this GPU alone; NAN: not asked for */
    double left_out; /* median where none of the GPU's rows was fitted; NAN: there is one GPU */
};

struct kernel_fit {
    struct kernel_constants constants;
    struct fit_error all;
    struct fit_error *gpu; /* [gpus_n] rows 0: none */
};

/* Least squares of log(predicted / measured), less of a square beyond 5 % (pseudo-Huber), by GSL's
 * trust regions (Levenberg & Marquardt), from what data sheets let one guess. Products: `product`
 * times what the catalogue says is attained, rows, depth, wave, pace, memory, shortest, with the
 * catalogue's units. Attention: flash3, flash_tokens, flash_narrow, memory, shortest. Passes:
 * memory, shortest. Collectives: those of struct fabric_model of which there are rows.
 *   apart  one fit per GPU left out, too
 * STATUS_INVALID: fewer than 5 rows per constant; STATUS_EXTERNAL: GSL; STATUS_NOMEM. */
enum status kernel_fit(const struct kernel_rows *rows, bool apart,
                       struct kernel_fit *out) MUST_CHECK;
/* Seconds of a row by constants. */
double kernel_fit_seconds(const struct kernel_constants *c, const struct kernel_row *row);
/* Only rows of this GPU; the others are dropped. */
void kernel_rows_keep(struct kernel_rows *rows, const struct gpu *gpu);
/* The constants as words of a property, for rows of one GPU (products: absolute); *property its
 * name. Those that were not fitted, and memory and shortest beside attention's, are what `known`
 * has (NULL: the catalogue). */
void kernel_fit_put(const struct kernel_fit *f, const struct kernel_row *first,
                    const struct device_kernels *known, char **property, FILE *to);
/* Median error of collectives of at least `least` bytes by curves: points of every other size of
 * each group make the curve, the errors are of the rest. NAN: no group has three sizes. */
enum status kernel_fit_curves(const struct kernel_rows *rows, double least, size_t *tested,
                              double *error) MUST_CHECK;
void kernel_fit_free(struct kernel_fit *f);

#endif
