/* hwloc_module.h - what lib/foreline/hwloc.so exports. */
#ifndef TOPOLOGIES_MACHINE_HWLOC_MODULE_H
#define TOPOLOGIES_MACHINE_HWLOC_MODULE_H

#include <stddef.h>

#include "core/base/module.h"

struct hwloc_module {
    struct module module;
    /* This machine as hwloc's XML, malloc'd, and its cores. 0: it worked. */
    int (*discover)(char **xml, size_t *length, size_t *cores);
};

#endif
