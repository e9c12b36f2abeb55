/* All that calls hwloc, as a module: this machine with its PCI devices, as XML, which hwloc.c
 * reads. */
#include "topologies/machine/hwloc_module.h"

#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "core/base/provenance.h"

static int discover(char **xml, size_t *length, size_t *cores)
{
    hwloc_topology_t t;
    char *text = NULL;
    int size = 0, rc = -1;
    if (hwloc_topology_init(&t) != 0)
        return -1;
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(t) == 0 && hwloc_topology_export_xmlbuffer(t, &text, &size, 0) == 0) {
        size_t n = strlen(text);
        int count = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
        *cores = count > 0 ? (size_t)count : 1;
        if ((*xml = malloc(n + 1))) {
            memcpy(*xml, text, n + 1);
            *length = n;
            rc = 0;
        }
        hwloc_free_xmlbuffer(t, text);
    }
    hwloc_topology_destroy(t);
    return rc;
}

extern const struct hwloc_module hwloc_module;
__attribute__((visibility("default"))) const struct hwloc_module hwloc_module = {
    .module = {foreline_version},
    .discover = discover,
};
