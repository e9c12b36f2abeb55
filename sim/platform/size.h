/* size.h - how much a platform file makes, before SimGrid makes it. */
#ifndef SIM_PLATFORM_SIZE_H
#define SIM_PLATFORM_SIZE_H

#include "sim/platform/fault.h"

/* Hosts of all <cluster>s and <cabinet>s, and devices of what is not one flat zone: SimGrid is
 * asked for the route of each pair. */
enum { MOST_ROUTED = 4096 };
/* Hosts, routers and zones in a zone with routing="Floyd" (n^3 time), and "Full" (n^2 memory). */
enum { MOST_FLOYD = 1024, MOST_FULL = 16384 };

/* Refuse what is beyond these and MOST_LINES (limit_platform()) of hosts and what is like them, of
 * links, of routes and of properties, each, and four times as many links of routes; more hosts than
 * there may be devices, more than 32 zones and 64 elements in each other, and tags of more than 4
 * MiB; and dragonflies that SimGrid gets lost in. What is malformed is left to SimGrid.
 * STATUS_PARSE as "path:line: what". */
enum status platform_check_size(const struct platform_text *p) MUST_CHECK;

#endif
