/* floor.h - what no prediction of an iteration may be below, whatever the engine. */
#ifndef CORE_ENGINE_FLOOR_H
#define CORE_ENGINE_FLOOR_H

#include "core/collective/collective.h"
#include "core/data/program.h"
#include "core/data/topology.h"

enum floor_cause {
    FLOOR_COMPUTE, /* all that the busiest rank computes */
    FLOOR_LINK,    /* all bytes through the fullest link, over its bandwidth */
    FLOOR_PATH,    /* the longest path of dependencies, each message on the narrowest link of its
                    * route alone */
    FLOOR_CAUSES
};
extern const char *const floor_cause_names[FLOOR_CAUSES]; /* "compute", "link", "path" */

struct floor {
    double seconds; /* the highest of: */
    double cause_s[FLOOR_CAUSES];
    enum floor_cause cause; /* which one that is */
    uint32_t rank, link;    /* the busiest rank; the fullest link of the topology */
};

/* The floors of a whole program with a flush; a topology that knows no links has no FLOOR_LINK, and
 * its tiers' bandwidths as those of routes.
 *   options  as the engine's; may be NULL
 * O(ops + flows * links of a route). STATUS_UNSUPPORTED: a folded or asynchronous program;
 * STATUS_INVALID, STATUS_NOMEM. */
enum status program_floor(const struct program *p, const struct topology *t,
                          const struct collective_options *options, struct floor *out) MUST_CHECK;

#endif
