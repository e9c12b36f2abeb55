/* cost.h - predicted seconds of ops on devices, and the bytes that stages exchange.
 *
 * Time of an op: a measured profile of the model for the device type when there is one
 * (interpolated linearly between microbatch sizes, scaled proportionally outside); else the
 * device's measured rate for the op's kind and phase ("linear.forward"; interpolated in the log of
 * the work, constant outside); else the roofline
 *     launch + max(flop / flops, bytes / memory bandwidth)
 * with parameters read once per microbatch, unless the op only looks rows up in them (sparse).
 * Source: Williams, Waterman & Patterson, CACM 52 (2009).
 * Where the split names a framework and the device's kernels are known, the sum of the op's kernels
 * (core/cost/op_kernels.h) takes the roofline's place, and the host needs its time to issue them.
 */
#ifndef CORE_COST_COST_H
#define CORE_COST_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/data/model.h"
#include "core/data/topology.h"

struct framework;
struct plan;
struct plan_part;
struct plan_stage;
struct strategy;
struct strategy_stage;

struct op_cost {
    double forward_s, backward_s;           /* per microbatch, of the device */
    double forward_host_s, backward_host_s; /* of the host, meanwhile: issuing kernels */
    double again_s;                         /* of the forward that a backward makes again */
    double update_s;                        /* per iteration */
    bool extrapolated;                      /* a measured table was used outside its range */
};

/* What partitioners add up per op: the device's time, or the host's where that is longer; at least
 * the op's part of what the passes of a stage take (cost_pass_forward()). */
static inline double op_cost_forward(const struct op_cost *c)
{
    return c->forward_s > c->forward_host_s ? c->forward_s : c->forward_host_s;
}
static inline double op_cost_backward(const struct op_cost *c)
{
    return c->backward_s > c->backward_host_s ? c->backward_s : c->backward_host_s;
}

/* How an op is spread over the ranks of a stage and issued: what the knobs of a plan come to. The
 * first four are at least 1. */
struct cost_split {
    uint32_t shards;   /* devices that share each op, */
    uint32_t sequence; /* ... and those that share the tokens of ops which tensor parallelism leaves
                        * whole: the shards with sequence parallelism, else 1 */
    uint32_t experts;  /* replicas that experts are spread over */
    uint32_t context;  /* replicas that share every sequence: every op works on 1/c of the tokens */
    /* times its share of the rows the busiest rank of a group gets over which experts are spread; 0
     * is as good as 1 */
    double imbalance;
    const struct framework *framework; /* who issues kernels; NULL: foreline */
    uint32_t
        microbatches; /* of an iteration on a rank, over which casts of weights are spread; 0 is
                            * as good as 1 */
};

/* How the ops of a stage are spread over its ranks, and issued; borrows the framework. */
struct cost_split cost_split_by(const struct strategy *shared, const struct strategy_stage *own,
                                const struct framework *f, uint32_t microbatches);
struct cost_split cost_split_of(const struct plan *p, const struct plan_stage *s);
/* Are the op's experts spread over replicas? */
static inline bool cost_spreads(const struct cost_split *split, const struct model_op *op)
{
    return split->experts > 1 && op->exchange_bytes > 0;
}

/* Part of the op's work, activations and parameters that one rank has; `split` may be NULL. */
struct cost_part {
    double work;              /* of FLOP, traffic and time */
    double parameters, stash; /* of bytes */
    double load; /* of experts that are spread: rows of the busiest rank over the mean; a factor of
                  * work, too */
    bool replicated; /* every shard has the same parameters: gradients are the same too,
                               * or (sequence parallelism) summed in a message too small to count */
};
struct cost_part cost_part(const struct model_op *op, const struct cost_split *split);

/* Cost of op `op` for microbatches of `samples` on `type`; `optimizer` "adam" or "sgd". A profile
 * of the same tensor-parallel degree comes first; else its part of the whole op's time.
 * `split` may be NULL. */
struct op_cost cost_op(const struct model *m, const struct device_type *type, uint32_t op,
                       double samples, const char *optimizer, const struct cost_split *split);

/* Seconds of a pass over ops that the host issues one by one while the device works at those
 * before: a kernel begins when it is issued and the one before has ended. Add ops in the order of
 * the model. */
struct cost_pass {
    double device_s, host_s; /* of all ops so far */
    double pass_s;           /* of them all, together */
};
void cost_pass_forward(struct cost_pass *p, double device_s, double host_s);
void cost_pass_backward(struct cost_pass *p, double device_s,
                        double host_s); /* goes from last to first */
/* Seconds of the pass over those that the device works; 1 where the host issues fast enough. */
double cost_pass_stretch(const struct cost_pass *p);

/* Seconds of what is made again of the op in a backward, where the op as a whole is not. */
double cost_again(const struct model *m, const struct device_type *type, uint32_t op,
                  const struct plan_part *part, double samples, const struct cost_split *split);

/* Seconds of the update of so many bytes of parameters in the host's memory: the traffic of
 * gradients, state and parameters, at the part of the host's memory bandwidth that one device gets
 * (device_host_memory_Bps()). */
double cost_host_update(const struct model *m, const struct device_type *type,
                        const char *optimizer, double bytes);

/* Bytes per parameter byte. Gradients are kept like the weights; the optimizer's state is fp32, and
 * with 2-byte weights it has an fp32 copy of them: Adam 2 x 4 bytes per fp32 parameter, 12 per
 * 16-bit one. Source: Rajbhandari et al., ZeRO, SC 2020, section 3.1. A framework may keep wider
 * gradients, or some as wide as the numbers in which they are summed (reduce_bytes:
 * plan_reduce_bytes()); NULL: foreline. */
struct cost_memory {
    int64_t weights, gradients, state;
};
struct cost_memory cost_memory(const char *optimizer, int64_t element_bytes, int64_t reduce_bytes,
                               const struct framework *framework);

/* Bytes that the op and its consumers keep of it for a backward, of a sample: those of the model,
 * and what a framework makes of them; NULL: foreline. */
int64_t cost_stash(const struct model *m, const struct model_op *op,
                   const struct framework *framework);

/* Seconds to move `bytes` between two devices when nothing else does. */
double cost_transfer(const struct topology *t, uint32_t from, uint32_t to, double bytes);

#endif
