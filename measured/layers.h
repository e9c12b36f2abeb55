/* layers.h - which layer of a model a kernel is of: the ranges that a program marked on its threads
 * (record_function, NVTX, modules), or its ops in their order; a kernel of the backward is of the
 * layer whose forward op made autograd's node. Private. */
#ifndef MEASURED_LAYERS_H
#define MEASURED_LAYERS_H

#include "measured/launches.h"

/* An op of the host that has a sequence number: of the forward the number of the node that it
 * makes, of autograd's engine that of the node that runs. */
struct layer_op {
    int64_t number, thread, start_ns, end_ns;
    uint32_t path; /* of a forward op, once it is found */
};

struct layer_ops {
    size_t n;
    struct layer_op *op; /* [n] */
};

struct layers {
    struct layer_ops forward, node;
    struct launch_parts range; /* meaning: name */
};

/* Does a range of this name mark a part of the model? Steps, optimizers, loaders and what is
 * communicated are none. */
bool layers_marks(const char *name);

enum status layers_add_range(struct layers *l, int64_t thread, int64_t start_ns, int64_t end_ns,
                             uint32_t name) MUST_CHECK;
/* An op of the host called `name`; number < 0: it has none. Forward ops without one say nothing. */
enum status layers_add_op(struct layers *l, const char *name, const struct layer_op *op) MUST_CHECK;

/* Set layer and again of span[n] whose launch is known, as run->layers says; path for messages. To
 * be called behind launches_find(), which leaves the ops and launches sorted. step[steps]:
 * LAYERS_OPS counts ops of a name anew in each. O((n + ops + ranges + launches) log).
 * STATUS_INVALID, STATUS_NOMEM. */
enum status layers_find(struct layers *l, struct launches *launches, struct measured_run *run,
                        const char *path, const struct run_step *step, size_t steps,
                        struct span *span, size_t n) MUST_CHECK;
void layers_free(struct layers *l); /* accepts {0}; leaves {0} */

#endif
