/* ocs.h - the circuits of an optical network, as a search changes them. */
#ifndef TOPOLOGIES_OCS_H
#define TOPOLOGIES_OCS_H

#include "topologies/family.h"

struct ocs_circuits {
    size_t pods, ports; /* ports of each pod to circuits */
    size_t *n;          /* [pods * pods], symmetric: circuits between two pods; owned */
};

/* Of a description "ocs:...". *out must be {0}; free(out->n). STATUS_INVALID: it is of another
 * family, or wrong. */
enum status ocs_circuits(const char *spec, struct ocs_circuits *out) MUST_CHECK;
/* The description with these circuits, in its canonical form; malloc'd. STATUS_INVALID: a pod has
 * too few ports, or they do not join all pods; STATUS_UNSUPPORTED: too many for a description. */
enum status ocs_describe_circuits(const char *spec, const struct ocs_circuits *c,
                                  char **out) MUST_CHECK;

#endif
