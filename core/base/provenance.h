/* provenance.h - which version, command and seed made an output file. */
#ifndef CORE_BASE_PROVENANCE_H
#define CORE_BASE_PROVENANCE_H

#include <stdint.h>

struct provenance {
    const char *version; /* "foreline 0.1.0 (git abc1234)"; borrowed */
    const char *command; /* the command line as typed; borrowed */
    const char *host;    /* NULL for outputs that must not depend on the machine */
    uint64_t seed;
};

extern const char foreline_version[];

#endif
