/* radical.h - the numbers of a <cluster>'s hosts: radical="0-9,12,20-29". */
#ifndef SIM_PLATFORM_RADICAL_H
#define SIM_PLATFORM_RADICAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/platform/xml_scan.h"

/* A number at *at, which moves past it and never past `end`; those above 2^32 - 1 are that. */
uint64_t radical_number(const char **at, const char *end);
/* How many numbers there are, 0 to 2^32 for each range. O(length). */
uint64_t radical_count(struct xml_span radical);
/* Whether this <cluster> or <cabinet> makes a host of that name: prefix, number, suffix. */
bool radical_makes(const struct xml_tag *cluster, const char *host);

#endif
