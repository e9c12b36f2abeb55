/* plain.h - describes a plain platform file without SimGrid: one flat zone with shortest-way
 * routing. */
#ifndef SIM_PLATFORM_PLAIN_H
#define SIM_PLATFORM_PLAIN_H

#include <stdbool.h>

#include "core/data/topology.h"
#include "sim/platform/fault.h"

/* The topology of a text that SimGrid 3.32 reads just the same, equal to the one that it describes;
 * without a name and without nodes. That is: one <zone> with routing="Dijkstra" or "DijkstraCache",
 * with its properties, then hosts, routers and links, then routes, and comments; each in the
 * simplest form, every id once, numbers with the usual units, no entities. All platforms that
 * foreline generates or comes with are so.
 *   fits  out: false, and nothing else is set, for all that is different or faulty: SimGrid reads
 *         it, or says what is wrong
 * More than 1e8 devices times links do not fit, so that this takes seconds at most: it has no
 * deadline.
 * O(text log text + devices * links). STATUS_NOMEM. */
enum status plain_describe(const struct platform_text *p, bool *fits,
                           struct topology *out) MUST_CHECK;

#endif
