/* shortest.h - latency and bandwidth between the hosts of one flat zone, without asking
 * SimGrid for each route.
 *
 * A zone with routing="Dijkstra" or "DijkstraCache" routes along a path of fewest links. If all such
 * paths from one host to another have the same latency and bandwidth it does not matter which one
 * SimGrid takes; where they differ the pair is reported as unsure and must be asked for. So a
 * breadth-first search per host over the text's routes finds what n * (n - 1) routes would. */
#ifndef SIM_PLATFORM_SHORTEST_H
#define SIM_PLATFORM_SHORTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/platform/fault.h"

struct shortest;

enum { SHORTEST_UNSURE = UINT16_MAX, SHORTEST_VALUES = 2048 };

/* Read the routes of a loaded platform.
 *   device  [n] names of the hosts to go between
 * *out is NULL if the text is anything but one zone of that routing with hosts, routers, links and
 * routes, or has too many different links; that is no error. STATUS_NOMEM. */
enum status shortest_open(const struct platform_text *p, size_t n, char *const *device,
                          struct shortest **out) MUST_CHECK;

/* What lies between device `from` and the others.
 *   value  [n] numbers below SHORTEST_VALUES, equal for equal latency and bandwidth, or
 *          SHORTEST_UNSURE; the entry of `from` itself means nothing
 *
 * False if some host or router cannot be reached, or if values run out: nothing is known then.
 * O(links in all routes). */
bool shortest_from(struct shortest *w, size_t from, uint16_t *value) MUST_CHECK;

/* Latency and bandwidth that a number stands for. */
void shortest_value(const struct shortest *w, uint16_t value, double *latency_s,
                    double *bandwidth_Bps);

void shortest_free(struct shortest *w); /* accepts NULL */

#endif
