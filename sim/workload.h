/* workload.h - two workloads that other simulators have published times and speeds of, made in
 * memory: model, plan and, unless there is a platform, one switch of equal ports.
 * What they are and who was measured on them: docs/explanation/prediction.md. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdio.h>

#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/program.h"
#include "core/data/topology.h"

/* Rank i of the program is on device i; plan_lower() makes the program. */
struct workload {
    struct model model;
    struct topology topology;
    struct plan plan;
};

/* Every message takes latency_s + bytes / bandwidth_Bps; compute takes what the workload says, the
 * optimizer's update nothing. */
enum { WORKLOAD_MICROBATCHES = 64, WORKLOAD_STAGES = 16 };
extern const double workload_latency_s, workload_bandwidth_Bps;
extern const int64_t workload_gradient_bytes, workload_activation_bytes;

struct workload_kind {
    const char *name, *summary;
    size_t multiple; /* ranks must be a multiple of it, and not 0 */
    size_t stages;
    uint32_t microbatches; /* of each replica */
    double forward_s, backward_s;
};

/* STATUS_INVALID lists the known names. */
enum status workload_find(const char *name, const struct workload_kind **out) MUST_CHECK;

/* For `ranks` devices of `platform` (its first ones; moved into the workload and {0} afterwards),
 * or of one switch when it is {0}. On a platform an update takes what its devices need for it.
 * STATUS_INVALID: ranks not a multiple, none, or more than devices; STATUS_NOMEM. */
enum status workload_make(const struct workload_kind *kind, size_t ranks, struct topology *platform,
                          struct workload *out) MUST_CHECK;
void workload_free(struct workload *w); /* accepts {0}; leaves {0} */

/* The switch as a SimGrid platform: hosts d0, d1, ..., a full-duplex port each. */
void workload_write_platform(size_t ranks, FILE *to);

#endif
