/* size.h - how many hosts a platform file makes, before SimGrid makes them. */
#ifndef SIM_PLATFORM_SIZE_H
#define SIM_PLATFORM_SIZE_H

#include "sim/platform/fault.h"

/* Refuse what is beyond the limits cluster, floyd and full (core/limit.h), more hosts than there may be devices, more than 32 zones and 64
 * elements in each other, and more elements than so many hosts have. What is malformed is left to SimGrid. STATUS_PARSE as "path:line: what". */
enum status platform_check_size(const struct platform_text *p) MUST_CHECK;

#endif
