/* systems.h - real machines as descriptions of families, by name. */
#ifndef TOPOLOGIES_SYSTEMS_H
#define TOPOLOGIES_SYSTEMS_H

#include <stddef.h>

struct named_system {
    const char *name, *spec, *summary;
};

/* Sources of the figures in systems.c and docs/reference/platforms.md. */
extern const struct named_system systems[];
extern const size_t systems_n;

#endif
