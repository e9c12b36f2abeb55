/* storage.h - where checkpoints go, and how long writing and reading one takes. */
#ifndef CAMPAIGN_STORAGE_H
#define CAMPAIGN_STORAGE_H

#include <stdbool.h>

#include "core/base/error.h"

struct storage_kind;
struct storage {
    const struct storage_kind *kind;
    double rate_Bps; /* of all of it together; INFINITY: no limit but the nodes' */
    double node_Bps; /* to and from a node; INFINITY: no limit but the network's */
    double space;    /* bytes that it holds of one job, of all nodes together: two checkpoints, for
                      * one is written while the last counts; INFINITY: enough */
};

/* What a job writes and reads. */
struct storage_load {
    double total, most_node; /* bytes of a checkpoint: all, and of the node that has most */
    double load_total, load_most_node; /* that are read to go on: replicas read the same again */
    double network_s;      /* until each node has sent its part to its partner, or all to hosts */
    double network_load_s; /* until all have read again from hosts */
};

/* "shared:rate=2TBps,node=25GBps", "disk:node=5GBps", "peer", "host:rate=1TBps". STATUS_INVALID
 * with what there is. */
enum status storage_read(const char *text, struct storage *out) MUST_CHECK;
enum status storage_check(const char *text) MUST_CHECK;
/* Do nodes reach it over the links of the platform, from whose file it is? */
bool storage_on_links(const struct storage *s);
const char *storage_name(const struct storage *s);
/* Seconds. STATUS_INVALID: a checkpoint does not fit. */
enum status storage_times(const struct storage *s, const struct storage_load *l, double *save_s,
                          double *load_s) MUST_CHECK;

#endif
