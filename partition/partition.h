/* partition.h - plan = f(model, topology, request): one algorithm per file, one row in the table.
 */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H

#include <stddef.h>
#include <stdint.h>

#include "core/cost.h"
#include "core/error.h"
#include "core/model.h"
#include "core/plan.h"
#include "core/topology.h"

/* Devices stand in an order in which neighbours sit close (place.h); what comes first in it: */
enum partition_placement {
    PLACE_PIPELINES, /* the stages of replica 0, then those of replica 1: neighbouring stages close
                      */
    PLACE_REPLICAS,  /* the replicas of stage 0, then those of stage 1: gradients are summed nearby
                      */
};

struct partition_request {
    size_t stages;     /* 1 <= stages <= model->n; a multiple of chunks */
    uint32_t replicas; /* of every stage, >= 1 */
    /* Devices needed: stages / chunks * replicas * tensor_parallel. 0 is as good as 1: */
    uint32_t tensor_parallel, expert_parallel;
    uint32_t chunks; /* stages on each set of devices: virtual stages */
    uint32_t zero;   /* as in struct plan, and so on: */
    int64_t bucket_bytes;
    bool sequence_parallel;
    enum plan_recompute recompute;
    uint32_t microbatches, microbatch_size;
    const char *schedule, *optimizer;
    const char *model, *platform; /* names for the plan file */
    uint64_t seed;
    enum partition_placement placement;
    const uint32_t *order; /* [t->n] from place_neighbours(); NULL: asked for here */
    const char *split_at;  /* manual: names of ops, separated by commas, at which stages begin, in
                              any order; else NULL */
};

struct partition_algorithm {
    const char *name, *summary;
    const char *guarantee; /* what the result is: "exact for ...", "heuristic" */
    /* Choose the first op of every stage in the model's order: first[stages], first[0] == 0,
     * increasing. device[stages] is where shard 0 of each stage of the first replica runs.
     * *objective_s: seconds per microbatch of the slowest stage, NAN when not computed. */
    enum status (*cut)(const struct model *m, const struct topology *t,
                       const struct partition_request *r, const uint32_t *device, size_t *first,
                       double *objective_s);
};

/* How the ops of a request are spread over the shards and replicas of a stage. */
struct cost_split partition_spread(const struct partition_request *r);

/* Stages that such a list of names makes: one more than it has names. */
size_t partition_split_stages(const char *list);

extern const struct partition_algorithm *const partition_algorithms[];
extern const size_t partition_algorithms_n;
enum status partition_find(const char *name, const struct partition_algorithm **out) MUST_CHECK;

/* Check the request and the graph, place, cut, and build the plan. STATUS_INVALID with the reason
 * (more stages than ops, more ranks than devices, ...), STATUS_NOMEM, STATUS_EXTERNAL (igraph). */
enum status partition_run(const struct partition_algorithm *a, const struct model *m,
                          const struct topology *t, const struct partition_request *r,
                          struct plan *out) MUST_CHECK;

#endif
