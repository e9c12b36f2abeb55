/* overlap.h - what halves that take turns and slices cost: a matrix product beside a copy of
 * memory, products beside collectives, products of ever smaller slices. */
#ifndef EXEC_CALIBRATE_OVERLAP_H
#define EXEC_CALIBRATE_OVERLAP_H

#include <stddef.h>

#include "core/base/error.h"
#include "exec/calibrate/trial.h"

/* Seconds, each the mean of `trials` after one warm-up. The copy is repeated until it takes about
 * as long as the product, so that perfect overlap halves the sum. */
struct overlap {
    size_t rows, copy_bytes, copies; /* of a square product; of an array; how often */
    double product_s, copy_s;        /* each alone */
    double sequential_s, overlapped_s;
};

/* rows >= 1, trials >= 1. STATUS_NOMEM: no memory, or no thread;
 * STATUS_IO: no OpenBLAS. */
enum status overlap_measure(size_t rows, size_t trials, struct overlap *out) MUST_CHECK;

/* Products of one thread, alone and while ranks do the collectives of shards, and these alone and
 * beside the products. */
struct interference {
    double product_s, product_beside_s;                                   /* mean of a product */
    double collective_s[TRIAL_SHARDS], collective_beside_s[TRIAL_SHARDS]; /* sum over the sizes */
    size_t products; /* beside the collectives */
};

/* Collectives as `o` has them, with o->whole. Errors of trial_run() and overlap_measure(). */
enum status overlap_interfere(size_t rows, const struct trial_options *o,
                              struct interference *out) MUST_CHECK;

/* FLOP/s of the two products of an expert, (rows, channels) with (channels, inner) and back, of
 * all rows and of a fourth, a sixteenth and a 64th of them: [OVERLAP_SLICES]. */
enum { OVERLAP_SLICES = 4 };
enum status overlap_slice(size_t rows, size_t channels, size_t inner, size_t trials,
                          double flops[OVERLAP_SLICES]) MUST_CHECK;

#endif
