/* campaign_traffic.h - checkpoints on the links of a platform. */
#ifndef STUDY_CAMPAIGN_TRAFFIC_H
#define STUDY_CAMPAIGN_TRAFFIC_H

#include "core/data/topology.h"
#include "study/campaign_settings.h"

/* Devices of a job, in the order of their nodes. */
struct job_device {
    uint32_t node, device; /* order_by_pair() */
    uint32_t stage;        /* the first one that it runs */
    double bytes, held;    /* of a checkpoint that it writes; that it reads to go on */
};

/* Seconds of the busiest link until all have what is sent, all at once. */

/* Each device sends its part to one of the next node of the job. STATUS_NOMEM. */
enum status traffic_partners(const struct topology *t, const struct job_device *device, size_t n,
                             double *out) MUST_CHECK;
/* Each device writes equal parts to all hosts that store, and reads from them.
 *   platform  path of t's file
 * STATUS_UNSUPPORTED: the file is not one zone of shortest ways; STATUS_PARSE: no route;
 * STATUS_NOMEM. */
enum status traffic_stores(const struct topology *t, const char *platform,
                           const struct campaign_settings *s, const struct job_device *device,
                           size_t n, double out[2]) MUST_CHECK;

#endif
