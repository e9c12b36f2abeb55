/* Loads a platform into SimGrid, the same way for a description and for a simulation. */
#include "sim/simgrid/load.h"

#include <simgrid/engine.h>
#include <simgrid/link.h>
#include <stdlib.h>
#include <xbt/config.h>

/* A flow's progress is its share of the links times the first factor, so links that are as much
 * narrower give the same times, and its latency is the route's times the second. */
static void apply_factors(void)
{
    double bandwidth = sg_cfg_get_double("network/bandwidth-factor");
    double latency = sg_cfg_get_double("network/latency-factor");
    if (bandwidth >= 1 && bandwidth <= 1 && latency >= 1 && latency <= 1)
        return;
    sg_link_t *link = sg_link_list();
    for (size_t k = 0; k < sg_link_count(); k++) {
        sg_link_set_bandwidth(link[k], sg_link_get_bandwidth(link[k]) * bandwidth);
        sg_link_set_latency(link[k], sg_link_get_latency(link[k]) * latency);
    }
    free(link);
    sg_cfg_set_double("network/bandwidth-factor", 1);
    sg_cfg_set_double("network/latency-factor", 1);
}

void simgrid_load(const char *path)
{
    char *argv[] = {
        (char[]){"foreline"},
        (char[]){"--log=root.fmt:@@%m%n"}, /* child.h: the first such line is the reason */
        (char[]){"--log=root.thres:error"},
        (char[]){"--cfg=network/model:CM02"},
        (char[]){"--cfg=network/crosstraffic:0"},
        (char[]){"--cfg=network/TCP-gamma:0"},
        (char[]){"--cfg=tracing:no"},             /* what the user says wins over the file */
        (char[]){"--cfg=contexts/guard-size:0"},  /* many actors: pages are scarce */
        (char[]){"--cfg=contexts/stack-size:32"}, /* KiB; SimGrid clears them all */
        NULL};
    int argc = (int)(sizeof argv / sizeof *argv) - 1;
    simgrid_init(&argc, argv);
    simgrid_load_platform(path);
    apply_factors();
}
