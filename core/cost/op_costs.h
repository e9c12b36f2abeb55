/* op_costs.h - costs of a model's ops that are remembered, for who asks for those of many plans.
 *
 * Ops that are alike, as those of a model's layers are, cost the same, and so does an op that is
 * asked for again: cost_op() is called once for all of them. Not for several threads at a time. */
#ifndef CORE_COST_OP_COSTS_H
#define CORE_COST_OP_COSTS_H

#include "core/cost/cost.h"

struct op_costs;

/* Of that model, which must not change meanwhile. *out is to be closed. O(ops * kinds of them).
 * STATUS_NOMEM. */
enum status op_costs_open(const struct model *m, struct op_costs **out) MUST_CHECK;
void op_costs_close(struct op_costs *c); /* accepts NULL */

/* What the ops of a stage are asked for with; as cost_op() has it. */
struct op_costs_key {
    const struct device_type *type;
    double samples;
    const char *optimizer;
    struct cost_split split;
};
/* For the ops of one stage: begin, then ask for each. `c` may be NULL: nothing is remembered. What
 * op_costs_of() returns is what cost_op() does. Keys are copied; types are told apart by where they
 * are. */
void op_costs_begin(struct op_costs *c, const struct op_costs_key *key);
struct op_cost op_costs_of(struct op_costs *c, const struct model *m,
                           const struct op_costs_key *key, uint32_t op);
/* Does what ops cost depend on split.microbatches? */
bool op_costs_casts(const struct op_costs *c);
/* What is remembered beside them: nothing at first; `drop` releases what is kept when the costs are
 * closed. */
struct op_costs_beside {
    void *kept;
    void (*drop)(void *kept);
};
struct op_costs_beside *op_costs_beside(struct op_costs *c);
/* The first op that costs what `op` does; for tests. */
uint32_t op_costs_like(const struct op_costs *c, uint32_t op);

#endif
