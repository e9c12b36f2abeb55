/* load.h - starts SimGrid with foreline's network model and loads a platform. */
#ifndef SIM_SIMGRID_LOAD_H
#define SIM_SIMGRID_LOAD_H

#include <simgrid/host.h>

#include "sim/platform/hosts.h"

/* With a model of sim/network_models.h. "CM02": with nothing added
 * (docs/explanation/prediction.md), no cross-traffic, no TCP window, and factors that the file's
 * <config> has are put into its links, so that whoever asks a link or a route gets what a flow
 * gets. Others are as SimGrid has them. `seed` is of ns-3. Once per process, which dies of a faulty
 * file (child.h). */
void simgrid_load(const char *path, const char *model, uint64_t seed);

/* SimGrid's host behind what describe.c says of it. */
static inline sg_host_t loaded_host(const struct platform_host *host)
{
    return sg_host_by_name(host->name);
}

#endif
