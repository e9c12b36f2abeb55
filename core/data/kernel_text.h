/* kernel_text.h - what is known of the kernels of a device type, and the same as a line of words,
 * "bf16=792Tf memory=0.88", in platform files (docs/reference/topologies.md). */
#ifndef CORE_DATA_KERNEL_TEXT_H
#define CORE_DATA_KERNEL_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/data_type.h"
#include "core/base/error.h"

/* Libraries of fused attention: Dao et al. 2022, Dao 2023, and the newest that the device's vendor
 * has (cuDNN, FlashAttention-3). */
enum flash { FLASH_1, FLASH_2, FLASH_VENDOR, FLASH_KINDS };

/* What is known of a device type's kernels; all zero: nothing. */
struct device_kernels {
    double product[DATA_TYPES]; /* FLOP/s of the best product measured; 0: device_flops() */
    double rows, depth;         /* a product of so many rows (columns; depth) has half of it */
    double memory;              /* share of the nominal bandwidth that long passes get */
    double shortest_s;          /* of the shortest kernel, from its start to the next one's */
    double flash[FLASH_KINDS];  /* share of the nominal 16-bit peak that long sequences attain */
    double flash_backward;      /* times that in the backward */
    double flash_tokens;        /* sequences of so many tokens attain half */
    double flash_narrow;        /* times that for heads below 128 channels; 0: as shipped */
    double units;  /* multiprocessors, which products' tiles fill; 0: products have no tiles */
    double wave;   /* share of a last wave's idle units that is lost; with units */
    double pace_s; /* of a step in depth, which no unit does faster; with units */
    double cache;  /* bytes: a product that moves so many finds half of them in the cache; "" */
};

/* Does the device say anything of its kernels? */
bool kernels_known(const struct device_kernels *k);
/* What such a line of words says, instead of what *k has. STATUS_INVALID or STATUS_PARSE, and *k as
 * it was: an unknown word, no value within bounds, or shares that are neither said nor there. */
enum status kernels_read(const char *text, struct device_kernels *k) MUST_CHECK;
/* The same words of everything, for kernels_read(). */
void kernels_put(const struct device_kernels *k, FILE *to);

#endif
