/* cost_profile.h - what a model's measured profiles say of an op. Private to costs and lowering. */
#ifndef CORE_COST_COST_PROFILE_H
#define CORE_COST_COST_PROFILE_H

#include "core/cost/cost.h"

/* Seconds of the op by the profiles of the device type: those of the same tensor-parallel degree,
 * else its part of the whole op's. The nearest measured sizes below and above `samples`, linear
 * between, proportional to the size outside. out->update_s stays as it is unless it was measured.
 * False: there is no profile for the device. O(profiles). */
bool profile_cost(const struct model *m, const struct device_type *type, uint32_t op,
                  double samples, const struct cost_split *split, struct op_cost *out);

/* Are the sums of that many shards in the times that profile_cost() finds? */
bool profile_has_sums(const struct model *m, const struct device_type *type,
                      uint32_t tensor_parallel);

#endif
