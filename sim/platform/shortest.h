/* shortest.h - latency and bandwidth between the devices of one flat zone, without asking SimGrid
 * for each route. */
#ifndef SIM_PLATFORM_SHORTEST_H
#define SIM_PLATFORM_SHORTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/platform/flat.h"

struct shortest;

enum { SHORTEST_VALUES = 2048 };

/* The zone must outlive it. *out is NULL if there are too many different routes in the text; that
 * is no error. STATUS_NOMEM. */
enum status shortest_open(const struct flat_zone *zone, struct shortest **out) MUST_CHECK;

/* What lies between device `from` and the others.
 *   value  [n] numbers below SHORTEST_VALUES, equal for equal latency and bandwidth; the entry of
 *          `from` itself means nothing
 *
 * False if a device cannot be reached, or if values run out: nothing is known then. O(edges). */
bool shortest_from(struct shortest *w, size_t n, size_t from, uint16_t *value) MUST_CHECK;

/* The search behind the last values. */
const struct route_search *shortest_search(const struct shortest *w);

void shortest_free(struct shortest *w); /* accepts NULL */

#endif
