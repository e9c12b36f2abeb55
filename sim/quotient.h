/* quotient.h - a network of flows as a SimGrid platform: that of a folded
 * program, or of one whose flows are hashed onto parallel links. Private to simgrid.c. */
#ifndef SIM_QUOTIENT_H
#define SIM_QUOTIENT_H

#include <stdio.h>

#include "core/engine/sharing.h"

/* A route for each flow of the network, between two of as many hosts "0", "1", ... as that takes.
 * The weights of a link are divided by their common divisor, and so is its bandwidth; a flow takes
 * what is left as often as it stands on the flow's route, which is how SimGrid counts. The bound is
 * a link that everybody gets all of. STATUS_UNSUPPORTED: weights that make routes too long. */
enum status quotient_write(const struct sharing_network *n, FILE *to) MUST_CHECK;
/* How many hosts it has. */
uint32_t quotient_hosts(size_t flows);
/* Hosts of a flow. */
struct quotient_ends {
    uint32_t from, to;
};
struct quotient_ends quotient_ends(size_t flows, uint32_t flow);

#endif
