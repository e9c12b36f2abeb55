/* emulate_traffic.h - background traffic on an emulated network: the messages that are simulated,
 * as streams of bytes between namespaces. */
#ifndef STUDY_EMULATE_TRAFFIC_H
#define STUDY_EMULATE_TRAFFIC_H

#include <sys/types.h>

#include "exec/netns/netns.h"
#include "study/jobs.h"

struct emulated_traffic {
    const struct jobs *js; /* its flows, and the period of their messages as it was simulated */
    const struct netns_inside *inside;
    const uint32_t *rank_of; /* [devices] rank of the network that is on it */
    double begin_s;          /* clock, of the first messages */
    pid_t *pid;              /* [n] processes */
    size_t n;
};

/* Start a receiver and a sender for each flow; emulated_traffic_end() also after a failure.
 * STATUS_UNSUPPORTED: too many flows; STATUS_IO, STATUS_NOMEM. */
enum status emulated_traffic_start(struct emulated_traffic *t) MUST_CHECK;
/* End them; returns the run's status, or STATUS_EXTERNAL where one had ended by itself. */
enum status emulated_traffic_end(struct emulated_traffic *t, enum status st) MUST_CHECK;

#endif
