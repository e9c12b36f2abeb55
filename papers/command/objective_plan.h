/* objective_plan.h - what a published objective decided, as a plan that simulate and run take. */
#ifndef PAPERS_COMMAND_OBJECTIVE_PLAN_H
#define PAPERS_COMMAND_OBJECTIVE_PLAN_H

#include "core/data/plan.h"
#include "model/import.h"
#include "papers/common/objective.h"

/* Everything that a plan says besides what the objective decided; nothing may be NULL. */
struct objective_plan_request {
    const struct objective *objective;
    const struct objective_request *request;
    const struct objective_result *result;
    const struct model *model;            /* that the plan refers to */
    const struct import_members *members; /* nodes of the model's file; n 0: parts name ops */
    const struct topology *topology;      /* that the plan refers to */
    const char *model_name, *platform_name;
    const char *schedule, *optimizer; /* schedule NULL: the objective's, else 1f1b */
    uint32_t microbatches;            /* 0: the objective's, else 8 or one per replica */
    uint32_t microbatch_size;
    uint64_t seed;
};

/* Devices that the parts take together. */
size_t objective_devices(const struct objective_result *r);

/* Every part that has ops becomes a stage on its own devices: on the device that it names if the
 * topology has it, else on the first ones that are free, replicas x tensor_parallel of them. The
 * stages stand in the order of the parts where no tensor flows against it, else in a topological
 * order of the parts. Where parts need each other both ways, each is cut into chunks that take
 * turns with the other parts' (virtual stages, schedule interleaved). Ops that no part names (those
 * that an objective leaves out of its sums) join their first consumer.
 *   *rounded  out: stages that recompute everything for one op that does
 * O(ops log ops + edges). Returns STATUS_INFEASIBLE with the reason where a plan cannot say what
 * the parts do: nodes of one op in two parts, parts on CPUs, chunks that do not take turns, or more
 * devices than there are; STATUS_INVALID as plan_check(); STATUS_NOMEM. */
enum status objective_plan(const struct objective_plan_request *q, struct plan *out,
                           size_t *rounded) MUST_CHECK;

#endif
