/* speeds.h - a measured matrix of speeds between devices. Private to papers/cpsc526/
 * and its tests. */
#ifndef PAPERS_CPSC526_SPEEDS_H
#define PAPERS_CPSC526_SPEEDS_H

#include <stddef.h>

#include "core/base/error.h"

struct cpsc526_speeds {
    size_t k;
    double *speed; /* [k * k] from row to column, any unit; malloc'd */
};

/* NumPy's .npy (square, float32 or float64), lines of numbers (blanks, tabs or commas between), or
 * what `calibrate --matrix` writes, of which the bandwidth counts. *out must be {0}; free
 * out->speed. STATUS_PARSE: no square, more than CPSC526_MAX_PARTS rows, or a speed that is
 * negative or not finite. */
enum status cpsc526_speeds_read(const char *path, struct cpsc526_speeds *out) MUST_CHECK;
/* The same for bytes in memory, which end with a NUL. */
enum status cpsc526_speeds_parse(const char *path, const char *text, size_t length,
                                 struct cpsc526_speeds *out) MUST_CHECK;

#endif
