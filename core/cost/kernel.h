/* kernel.h - seconds of a kernel on a device: closed forms over a few constants of the device.
 *
 * Three kinds, M x N x K products in batches, fused ("flash") attention, and passes over memory:
 *
 *   product    t0 + max(2 b M N K / (peak e eff), bytes / (bandwidth share))
 *              eff = 1 / (1 + q (rows/M + rows/N + depth/K)), q = 1.2 for operands of 8 and 4 bits
 *              of a device whose `units` are known: tiles of the result over them, see kernel.c
 *              operands of 16 and 8 bits whose rows are no multiple of 16 bytes: half of peak e,
 *              in batches 0.7 of the peak of fp32
 *   attention  t0 + max(flop / (nominal flash[g] size), bytes / (bandwidth share))
 *              size = 1 / (1 + tokens/n), times 0.8 where heads have fewer than 128 channels
 *   pass       0.6 t0 per launch + max(flop / (peak e), bytes / (bandwidth share))
 *
 * An op of a model is a short list of kernels (core/cost/op_kernels.h). The constants' sources, and
 * what they were fitted on: docs/reference/kernels.md. */
#ifndef CORE_COST_KERNEL_H
#define CORE_COST_KERNEL_H

#include <stdbool.h>

#include "core/base/data_type.h"
#include "core/data/kernel_text.h"
#include "core/strategy/constants.h"

struct device_type;

enum kernel_kind { KERNEL_PRODUCT, KERNEL_ATTENTION, KERNEL_PASS, KERNEL_KINDS };

struct kernel {
    enum kernel_kind kind;
    enum data_type dtype; /* of operands; DATA_ANY is 16 bits */
    double launches;      /* equal ones in a row, of which this is the sum; a batch is one */
    double batch, m, n, k;
    double bytes;     /* moved; of a product 0: operands once and the result once */
    double flop;      /* of attention and passes */
    double tokens;    /* attention: of the sequence; k: channels of a head */
    enum flash flash; /* attention */
    bool backward;    /* attention: what is counted twice there is in flop already */
};

/* What data sheets let one guess, of a type whose nominal 16-bit or fp32 peak is known; else
 * nothing: `flops` is the best product of 16 bits, of the other types a usual share of their peaks
 * is attained; attention by whether the device has fp8 (Hopper and later) or not. */
struct device_kernels kernels_derive(const struct device_type *type);
/* What is known of the type, as if the constants were these instead of the shipped ones: shares of
 * attention, and products of a model whose numbers are `dtype`, in their place of the shares that
 * kernel_seconds() has. */
struct device_kernels kernels_vary(const struct device_type *type, enum data_type dtype,
                                   const struct constants *c);
/* Seconds of a kernel on a device whose kernels are known; increasing in every size where rows are
 * aligned. About 10 ns, by tiles 100. */
double kernel_seconds(const struct device_type *type, const struct kernel *kernel);
/* Bytes that a product of these operands moves at least. */
double kernel_product_bytes(const struct kernel *kernel);

#endif
