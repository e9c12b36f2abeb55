/* faults.h - links that fail or become slow during a simulation on SimGrid. */
#ifndef SIM_SIMGRID_FAULTS_H
#define SIM_SIMGRID_FAULTS_H

#include "core/data/faults.h"

#include <simgrid/forward.h>

/* Start an actor on `host` for each fault of a link; faults (which may be NULL) must outlive the
 * simulation. A link is one of that id, or both directions of it. STATUS_USAGE: there is none. */
enum status simgrid_faults_start(const struct faults *faults, sg_host_t host) MUST_CHECK;

#endif
