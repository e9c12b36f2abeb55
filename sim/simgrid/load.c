/* Loads a platform into SimGrid, the same way for a description and for a simulation. */
#include "sim/simgrid/load.h"

#include <simgrid/engine.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void simgrid_load(const char *path, const char *model, uint64_t seed)
{
    char name[64], number[64];
    bool plain = !strcmp(model, "CM02");
    snprintf(name, sizeof name, "--cfg=network/model:%s", model);
    snprintf(number, sizeof number, "--cfg=ns3/seed:%d", 1 + (int)(seed % INT32_MAX)); /* not 0 */
    char *argv[] = {
        (char[]){"foreline"},
        (char[]){"--log=root.fmt:@@%m%n"}, /* child.h: the first such line is the reason */
        (char[]){"--log=root.thres:error"},
        name,
        number,
        (char[]){"--cfg=tracing:no"},             /* what the user says wins over the file */
        (char[]){"--cfg=contexts/guard-size:0"},  /* many actors: pages are scarce */
        (char[]){"--cfg=contexts/stack-size:32"}, /* KiB; SimGrid clears them all */
        plain ? (char[]){"--cfg=network/crosstraffic:0"} : NULL,
        (char[]){"--cfg=network/TCP-gamma:0"},
        NULL};
    int argc = 0;
    while (argv[argc])
        argc++;
    simgrid_init(&argc, argv);
    simgrid_load_platform(path);
    if (plain)
        apply_factors();
}
