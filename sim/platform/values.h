/* values.h - latency and bandwidth along ways, as small numbers that can be added. */
#ifndef SIM_PLATFORM_VALUES_H
#define SIM_PLATFORM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/platform/flat.h"

struct values;

enum { VALUES_MOST = 2048 };

/* The zone must outlive it. *out is NULL if there are too many different routes in the text; that
 * is no error. STATUS_NOMEM. */
enum status values_open(const struct flat_zone *zone, struct values **out) MUST_CHECK;
/* The kind of an edge: links, latency and bandwidth. */
uint32_t values_kind(const struct values *w, uint32_t edge);
/* What lies between the source of a search and all that it has reached: [vertices] numbers below
 * VALUES_MOST, equal for equal latency and bandwidth, 0: nothing; unreached vertices' mean nothing.
 * They are the values' own. NULL when there are too many. */
const uint16_t *values_along(struct values *w, const struct route_search *s) MUST_CHECK;
/* One way after another; false when there are too many values. */
bool values_add(struct values *w, uint16_t a, uint16_t b, uint16_t *sum) MUST_CHECK;
/* How many there are by now. */
size_t values_count(const struct values *w);
void values_free(struct values *w); /* accepts NULL */

#endif
