/* partition.h - plan = f(model, topology, request): one algorithm per file, one line in the table
 * algorithms.def.
 *
 * An algorithm chooses with which ops the stages begin, in the model's order; those that cut graphs
 * then choose any stages and devices. partition_run() checks the request, orders the devices, says
 * where stages may begin, checks what was chosen and builds the plan.
 *
 * The rule of whole tensors: stages exchange whole tensors. With tensor parallelism a stage must
 * therefore not begin between an op whose output is divided over the shards and an op that reads
 * it; executors refuse such plans. */
#ifndef PARTITION_PARTITION_H
#define PARTITION_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/cost/cost.h"
#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "partition/device_order.h"

/* Devices stand in an order in which neighbours are near (device_order.h); what comes first in it:
 */
enum partition_placement {
    PLACE_PIPELINES, /* stages of replica 0, then those of replica 1: activations stay local */
    PLACE_REPLICAS,  /* replicas of stage 0, then those of stage 1: gradients are summed locally */
};

/* Stages whose replicas differ, and where they begin: what a search has chosen by itself. */
struct partition_uneven {
    const uint32_t *replicas; /* [stages] each >= 1 */
    const size_t *first;      /* [stages] as cut() chooses them */
};

struct partition_request {
    size_t stages;   /* 1 <= stages <= model->n; a multiple of chunks */
    size_t pipeline; /* `auto`: ranks of a pipeline, each with chunks stages; 0: any number */
    /* Of every stage, and what was asked for. Devices needed: stages / chunks * replicas *
     * tensor_parallel. 0 of a degree is as good as 1; of replicas it is not. */
#include "core/strategy/strategy_plan.def"
#include "core/strategy/strategy_stage.def"
    uint64_t chosen;
    const struct partition_uneven *uneven; /* instead, without chunks; NULL: every stage has them */
    const char *framework;                 /* as plan_set_framework() takes it; NULL: foreline */
    struct framework issue;                /* and what it says: framework_of() */
    uint32_t chunks;                       /* stages on each set of devices: virtual stages */
    uint32_t microbatches, microbatch_size;
    const char *schedule, *optimizer;
    const char *model, *platform; /* names for the plan file */
    uint64_t seed;
    enum partition_placement placement;
    bool placement_chosen; /* `auto` tries no other */
    enum device_placement devices;
    const uint32_t *order; /* [t->n] from device_order_find(); NULL: asked for here */
    bool layers;           /* stages begin where layers do (model_begins_layer()), else at any op */
    const char *split_at;  /* manual: names of ops, separated by commas, at which stages begin, in
                              any order; else NULL */
    size_t layers_per_stage; /* manual: instead; the last stage has the rest. 0: layers / stages */
    struct op_costs
        *costs; /* of the model, for who asks often (core/cost/op_costs.h); NULL: none */
};

/* What an algorithm is asked: a request that was checked, and what follows from it. */
struct partition_problem {
    const struct model *m;
    const struct topology *t;
    const struct partition_request *r;
    const uint32_t *device; /* [r->stages] of shard 0 of each stage of the first replica */
    const size_t *begins;   /* [m->n + 1] how many of the ops before op i a stage may begin with;
                             * begins[m->n] >= r->stages */
};

/* May a stage begin with op i < m->n? The first may begin with op 0 only. */
static inline bool partition_may_begin(const struct partition_problem *p, size_t i)
{
    return p->begins[i + 1] > p->begins[i];
}

/* Can n stages share the ops first .. end - 1, when one begins with op `first`? */
static inline bool partition_holds(const struct partition_problem *p, size_t first, size_t end,
                                   size_t n)
{
    return p->begins[end] - p->begins[first] >= n;
}

/* Options of the command line that only some algorithms take. All take what is spread and trained
 * how: stages, replicas, shards, chunks, recomputation, ZeRO, microbatches, schedule, ... */
enum partition_option {
    PARTITION_SPLIT_AT,
    PARTITION_LAYERS_PER_STAGE,
    PARTITION_FINALISTS,
    PARTITION_TIME_LIMIT,
    PARTITION_EXECUTABLE,
    PARTITION_LAUNCHABLE,
    PARTITION_RESERVE,
    PARTITION_OPTIONS
};

/* Replicas of a stage. */
static inline uint32_t partition_replicas(const struct partition_request *r, size_t stage)
{
    return r->uneven ? r->uneven->replicas[stage] : r->replicas;
}

struct partition_algorithm {
    const char *name, *summary;
    const char *guarantee; /* what the result is: "exact for ...", "heuristic" */
    uint32_t takes;        /* bits 1 << enum partition_option */
    bool needs_metis;      /* cut() is STATUS_UNSUPPORTED in a build without METIS */
    /* Choose the first op of every stage in the model's order:
     *   first        [r->stages] out: first[0] == 0, increasing, partition_may_begin() of each
     *   objective_s  out: seconds per microbatch of the slowest stage, NAN when not computed
     * NULL: a search over requests (auto.h), which partition_run() refuses. */
    enum status (*cut)(const struct partition_problem *p, size_t *first, double *objective_s);
    /* Change the plan of that cut: which ops its stages have, and on which devices. NULL: it
     * stays. STATUS_UNSUPPORTED: the plan is none whose graph can be cut. */
    enum status (*recut)(const struct partition_problem *p, struct plan *plan);
};

#define ALGORITHM(name) extern const struct partition_algorithm partition_##name;
#include "partition/algorithms.def"
#undef ALGORITHM
/* Where r->uneven says: not in the table, for searches only. */
extern const struct partition_algorithm partition_uneven;

extern const struct partition_algorithm *const partition_algorithms[];
extern const size_t partition_algorithms_n;
enum status partition_find(const char *name, const struct partition_algorithm **out) MUST_CHECK;

/* Is the command line's --OPTION for this algorithm? STATUS_USAGE with those that take it; options
 * that are not in enum partition_option are for all. */
enum status partition_check_option(const struct partition_algorithm *a,
                                   const char *option) MUST_CHECK;

/* The first knob that was chosen, or a degree that is not 1, and is something else in the plan;
 * NULL: all are kept. */
const struct strategy_knob *partition_breaks(const struct partition_request *r,
                                             const struct plan *p);
/* How the ops of a request are spread over the shards and replicas of a stage. */
struct cost_split partition_spread(const struct partition_request *r);
/* What its plans keep of a parameter. */
struct cost_memory partition_memory(const struct partition_request *r, const struct model *m);

/* Stages that such a list of names makes: one more than it has names. */
size_t partition_split_stages(const char *list);

/* Can the ops be divided over so many shards? STATUS_INVALID names the first that cannot. O(n). */
enum status partition_check_shards(const struct model *m, uint32_t tensor_parallel) MUST_CHECK;

/* Where stages may begin, as struct partition_problem has it: begins[m->n + 1], or NULL; returns
 * begins[m->n]. O(n). */
size_t partition_begins(const struct model *m, uint32_t tensor_parallel, bool layers,
                        size_t *begins);

/* Into how many stages they can be cut then, at layers or anywhere. O(n). */
size_t partition_most_stages(const struct model *m, uint32_t tensor_parallel, bool layers);

/* first[r->stages]: stages of as equally many ops as the rule of whole tensors lets them have. */
void partition_evenly(const struct partition_problem *p, size_t *first);

/* Check the request, order the devices, cut, check the cut, and build the plan. STATUS_INVALID with
 * the reason (more stages than ops, more ranks than devices, a stage that would begin inside a
 * divided tensor), STATUS_NOMEM, and what cut() returns. */
enum status partition_run(const struct partition_algorithm *a, const struct model *m,
                          const struct topology *t, const struct partition_request *r,
                          struct plan *out) MUST_CHECK;

#endif
