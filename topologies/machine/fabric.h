/* fabric.h - networks of named switches and nodes, for importers of such files. */
#ifndef TOPOLOGIES_MACHINE_FABRIC_H
#define TOPOLOGIES_MACHINE_FABRIC_H

#include "topologies/machine/machine.h"

/* Switches and nodes by name, and the lists of them that are being read. */
struct machine_fabric {
    struct machine *m;
    /* Of the list under way: what is above, and what the names are. */
    uint32_t above;
    enum machine_kind kind;
    const char *domain;
};

/* The part of a name, added when it is new. */
enum status fabric_part(struct machine_fabric *f, enum machine_kind kind, const char *name,
                        uint32_t *part) MUST_CHECK;
/* Each name of a list such as "leaf[1-4],x" goes below f->above (MACHINE_NONE: is only added), as
 * f->kind. STATUS_PARSE "path:line: what". */
enum status fabric_list(struct machine_fabric *f, size_t line, const char *list) MUST_CHECK;
/* Warn of switches that are below others without a line of their own. */
enum status fabric_check(struct machine_fabric *f) MUST_CHECK;

#endif
