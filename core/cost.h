/* cost.h - predicted seconds of ops on devices, and the bytes that stages exchange.
 *
 * Time of an op: a measured profile of the model for the device type when there is one
 * (interpolated linearly between microbatch sizes, scaled proportionally outside); else the
 * device's measured rate for the op's kind and phase ("linear.forward"; interpolated in the log of
 * the work, constant outside); else the roofline
 *     launch + max(flop / flops, bytes / memory bandwidth)
 * with parameters read once per microbatch, unless the op only looks rows up in them (sparse).
 * Source: Williams, Waterman & Patterson, CACM 52 (2009).
 */
#ifndef CORE_COST_H
#define CORE_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model.h"
#include "core/topology.h"

struct op_cost {
    double forward_s, backward_s; /* per microbatch */
    double update_s;              /* per iteration */
    bool extrapolated;            /* a measured table was used outside its range */
};

/* Cost of op `op` for microbatches of `samples` on `type`; `optimizer` "adam" or "sgd". */
struct op_cost cost_op(const struct model *m, const struct device_type *type, uint32_t op,
                       double samples, const char *optimizer);

/* Bytes per parameter byte that weights, gradients and optimizer state take: adam 4, sgd 2. */
int64_t cost_static_factor(const char *optimizer);

/* Seconds to move `bytes` between two devices when nothing else does. */
double cost_transfer(const struct topology *t, uint32_t from, uint32_t to, double bytes);

#endif
