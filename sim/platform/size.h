/* size.h - how many hosts a platform file makes, before SimGrid makes them. */
#ifndef SIM_PLATFORM_SIZE_H
#define SIM_PLATFORM_SIZE_H

#include "sim/platform/fault.h"

/* Refuse more hosts than there may be devices, and more than 65,536 in one <cluster> or <cabinet>,
 * whose few characters would take gigabytes; zones of more than 1,024 points with
 * routing="Floyd", which takes n^3 time (20,000 hosts: days), or of 16,384 with "Full" (n^2 memory);
 * and more than 32 zones in each other. What is malformed is left to SimGrid. STATUS_PARSE as
 * "path:line: what". */
enum status platform_check_size(const struct platform_text *p) MUST_CHECK;

#endif
