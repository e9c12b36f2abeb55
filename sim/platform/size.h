/* size.h - how many hosts a platform file makes, before SimGrid makes them. */
#ifndef SIM_PLATFORM_SIZE_H
#define SIM_PLATFORM_SIZE_H

#include <stdint.h>

#include "sim/platform/fault.h"

/* What a file of few characters may ask SimGrid for. */
struct platform_limits {
    uint64_t cluster; /* 65,536 hosts of one <cluster> or <cabinet>: they take memory */
    uint64_t floyd;   /* 1,024 points of a zone with routing="Floyd": n^3 time (20,000: days) */
    uint64_t full;    /* 16,384 points of a zone with routing="Full": n^2 memory, 2 GiB */
    uint64_t seconds; /* 600 for finding the routes */
};
/* Those numbers, or what $FORELINE_PLATFORM_LIMITS says, "floyd=4096,seconds=3600". STATUS_USAGE
 * where it says something else. */
enum status platform_limits(struct platform_limits *out) MUST_CHECK;

/* Refuse what is beyond the limits, more hosts than there may be devices, and more than 32 zones in
 * each other. What is malformed is left to SimGrid. STATUS_PARSE as "path:line: what". */
enum status platform_check_size(const struct platform_text *p,
                                const struct platform_limits *most) MUST_CHECK;

#endif
