/* size.h - how much a platform file makes, before SimGrid makes it. */
#ifndef SIM_PLATFORM_SIZE_H
#define SIM_PLATFORM_SIZE_H

#include "sim/platform/fault.h"

/* Refuse what is beyond the limits cluster (of all of them), floyd, full and lines
 * (core/base/limit.h: hosts and what is like them, links, routes, properties, each, and four times
 * as many links of routes), more hosts than there may be devices, more than 32 zones and 64
 * elements in each other, and tags of more than 4 MiB; and dragonflies that SimGrid gets lost in.
 * What is malformed is left to SimGrid. STATUS_PARSE as "path:line: what". */
enum status platform_check_size(const struct platform_text *p) MUST_CHECK;

#endif
