/* simgrid_report.h - how a simulation comes back from the child it ran in. Private to the engine.
 *
 * The stream: header, start_s[ops], end_s[ops], then for each link its record and its name. */
#ifndef SIM_SIMGRID_PARSE_H
#define SIM_SIMGRID_PARSE_H

#include "sim/child.h"
#include "sim/engine.h"

struct simgrid_header {
    double cpu_s;
    uint64_t messages, links;
};

struct simgrid_link {
    double bytes, busy_fraction;
    uint64_t name_length;
};

/* STATUS_EXTERNAL when the stream is incomplete. */
enum status simgrid_parse(const struct child_output *output, size_t ops,
                          struct simulation *out) MUST_CHECK;

#endif
