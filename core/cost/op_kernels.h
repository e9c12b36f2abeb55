/* op_kernels.h - which kernels an op of a model launches under a framework, forward or backward.
 *
 * By kind of the op: products of linear layers (two in the backward: gradients of the input and of
 * the weights), attention fused or not, passes of element-wise layers, experts, routers, losses;
 * ops of other kinds are one pass over what they move, or what their FLOP take. Shapes are those of
 * a rank: struct cost_split divides rows, columns, heads and experts as core/cost/cost.h says. */
#ifndef CORE_COST_OP_KERNELS_H
#define CORE_COST_OP_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "core/cost/cost.h"
#include "core/cost/kernel.h"

struct framework;
struct model;
struct model_op;

enum { OP_KERNELS_MOST = 12 };

struct op_kernels {
    size_t n;
    struct kernel kernel[OP_KERNELS_MOST]; /* [n] */
    double issued;                         /* by the host: more than are listed, small ones too */
};

/* Of op `op` for microbatches of `samples`; the split says the framework, which must go by
 * kernels. */
void op_kernels(const struct model *m, uint32_t op, double samples, const struct cost_split *split,
                bool backward, struct op_kernels *out);

/* Is the op a list of kernels of its shape, and not one pass for want of a better word? */
bool op_kernels_shaped(const struct model_op *op);

/* Seconds of the device for them, one after another, and of the host. */
double op_kernels_seconds(const struct device_type *type, const struct op_kernels *k);
double op_kernels_host(const struct framework *f, const struct op_kernels *k);

#endif
