/* selftest.h - does the CUDA device compute what the CPU device does, on this machine? */
#ifndef EXEC_DEVICE_CUDA_SELFTEST_H
#define EXEC_DEVICE_CUDA_SELFTEST_H

#include <stdio.h>

#include "core/error.h"
#include "exec/device/cuda/context.h"

enum { SELFTEST_SKIPPED = 77 };

/* One row of the table: `worst` is the largest difference, relative to the largest number of its
 * array; NAN fails. Returns whether it is within the limit. */
bool selftest_row(FILE *to, const char *name, double worst, double limit);

/* Every layer on random data against exec/device/cpu; a row each. */
enum status selftest_layers(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;
/* A small GPT trained on both devices, whole and with split backwards: losses; and on the GPU
 * twice: the same bits. */
enum status selftest_training(FILE *to, bool *good) MUST_CHECK;
/* Bandwidth of copies, matrix products per second, time of a launch: for information. */
enum status selftest_speed(struct cuda_context *c, FILE *to) MUST_CHECK;

/* The layers as a table, and unless that is all, training and speed. Exit status: 0 all within limits, 1
 * not, 77 no GPU. (Layers alone have every kernel, and are what compute-sanitizer has the time for.) */
int cuda_selftest(FILE *to, bool layers_only);

#endif
