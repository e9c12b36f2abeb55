/* hosts.h - the hosts of a platform file, whoever has read them: SimGrid
 * (sim/simgrid/describe.c) or plain.c. */
#ifndef SIM_PLATFORM_HOSTS_H
#define SIM_PLATFORM_HOSTS_H

#include "core/data/topology.h"
#include "sim/platform/fault.h"

struct platform_host {
    const char *name;
    double flops; /* of a core */
    int cores;
    const void *of; /* what the reader knows it by */
    /* The value of a property of the host, and of the zone the file opens with; NULL: it has
     * none. */
    const char *(*property)(const void *of, const char *name);
    const char *(*usual)(const void *of, const char *name);
};

/* Which of the hosts are devices: all without the property device="none". They are moved to the
 * front, in their order, and named in t.
 *   host  [n]
 *   t     out: n and device; fit for topology_free() after an error, too
 * STATUS_PARSE as "path:line: what": a speed that makes no sense, no device or too many;
 * STATUS_NOMEM. */
enum status platform_find_devices(const struct platform_text *p, size_t n,
                                  struct platform_host *host, struct topology *t) MUST_CHECK;

#endif
