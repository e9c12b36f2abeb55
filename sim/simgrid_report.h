/* simgrid_report.h - how a simulation comes back from the child it ran in. Private to the engine.
 */
#ifndef SIM_SIMGRID_REPORT_H
#define SIM_SIMGRID_REPORT_H

#include <simgrid/host.h>

#include "sim/child.h"
#include "sim/engine.h"
#include "sim/pairs.h"

struct simgrid_result {
    const double *start_s, *end_s; /* [ops] */
    sg_host_t *host;               /* [devices] */
    const struct pair *pair;       /* [pairs] */
    size_t pairs, messages;
    double cpu_s;
};

/* In the child: add the bytes of every pair to the links of its route, and write everything. */
enum status simgrid_report(const struct program *p, const struct simgrid_result *r,
                           int fd) MUST_CHECK;
/* In the parent. STATUS_EXTERNAL when the stream is incomplete. */
enum status simgrid_parse(const struct child_output *output, size_t ops,
                          struct simulation *out) MUST_CHECK;

#endif
