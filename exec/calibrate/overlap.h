/* overlap.h - a matrix product and a copy of memory, one after the other and beside each other. */
#ifndef EXEC_CALIBRATE_OVERLAP_H
#define EXEC_CALIBRATE_OVERLAP_H

#include <stddef.h>

#include "core/error.h"

/* Seconds, each the mean of `trials` after one warm-up. The copy is repeated until it takes about as
 * long as the product, so that perfect overlap halves the sum. */
struct overlap {
    size_t rows, copy_bytes, copies; /* of a square product; of an array; how often */
    double product_s, copy_s;        /* each alone */
    double sequential_s, overlapped_s;
};

/* rows >= 1, trials >= 1. STATUS_NOMEM: no memory, or no thread;
 * STATUS_IO: no OpenBLAS. */
enum status overlap_measure(size_t rows, size_t trials, struct overlap *out) MUST_CHECK;

#endif
