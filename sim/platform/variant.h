/* variant.h - a platform file with a few of its numbers changed: what if. */
#ifndef SIM_PLATFORM_VARIANT_H
#define SIM_PLATFORM_VARIANT_H

#include <stdio.h>

#include "sim/platform/fault.h"

/* Write the file with these changes, the rest as it is, byte for byte:
 *
 *   changes  separated by commas:
 *            NAME.bandwidth=25Gbps, NAME.latency=10us   of all links whose id, or whose tier, is
 *                                                       NAME or matches it as a glob ("r0*-nic")
 *            NAME.speed=80Tf                            of all hosts likewise, by their ids
 *            NAME.bandwidth=x0.9                        times what they have; likewise the others
 *            devices=16                                 only the first 16 devices of the file are
 *                                                       devices, the others only pass things on
 * Of two changes of the same number the later one holds. STATUS_INVALID, one line: no such form, a
 * malformed quantity, a bandwidth or speed of 0, a name that nothing has, fewer devices, devices of
 * a <cluster>; STATUS_NOMEM. O(tags * changes). */
enum status platform_vary(const struct platform_text *p, const char *changes, FILE *to) MUST_CHECK;

#endif
