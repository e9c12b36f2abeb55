/* report.h - how a simulation is sent back from the child it ran in. Private to the engine. */
#ifndef SIM_SIMGRID_REPORT_H
#define SIM_SIMGRID_REPORT_H

#include <simgrid/host.h>

#include "core/data/program.h"
#include "core/engine/pairs.h"

struct simgrid_result {
    double *start_s, *end_s;       /* [ops] */
    sg_host_t *host;               /* [devices] */
    const struct pair_bytes *pair; /* [pairs] */
    size_t pairs, messages;
    double cpu_s;
};

/* Add the bytes of every pair to the links of its route, and write everything. */
enum status simgrid_report(const struct program *p, const struct simgrid_result *r,
                           int fd) MUST_CHECK;

#endif
