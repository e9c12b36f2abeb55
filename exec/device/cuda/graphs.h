/* graphs.h - the passes of a rank as CUDA graphs: one launch each instead of one per kernel,
 * product and copy.
 *
 * Before the first step the rank's list is gone through once without anybody else, and what every
 * pass (forward, backward, or its halves) queues on CUDA_STREAM is captured instead. A step then
 * runs the logic of the pass as ever, with nothing launched (queue.h), and launches the graph, if
 * the pass would have launched just that: other kernels, shapes or addresses are an error. Passes
 * of one kind over the same slot share a graph; those that copy tokens from a microbatch's own
 * place have their own. Nothing is captured, instantiated or allocated in a step. Updates are
 * launched as ever: their rates change from step to step. */
#ifndef EXEC_DEVICE_CUDA_GRAPHS_H
#define EXEC_DEVICE_CUDA_GRAPHS_H

#include "core/data/program.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/cuda/context.h"
#include "exec/device/cuda/queue.h"

struct cuda_graph {
    cudaGraphExec_t exec; /* NULL: the op is launched as ever */
    bool borrowed;        /* an earlier op's */
    uint32_t slot;        /* of the microbatch's stage */
    struct cuda_prints prints;
};

struct cuda_graphs {
    const struct program *program;
    size_t first, ops;        /* of the rank */
    struct cuda_graph *graph; /* [ops]; NULL: no graphs */
};

/* Capture the passes of a rank whose stages have been rehearsed, before any checkpoint is loaded.
 * STATUS_UNSUPPORTED says of what no graph can be made; to be closed even then. The program stays
 * alive until then. */
enum status cuda_graphs_open(const struct program *p, uint32_t rank, struct cuda_context *c,
                             struct stage_set *stages, struct cuda_graphs *out) MUST_CHECK;
void cuda_graphs_close(struct cuda_graphs *g); /* accepts {0}; leaves {0} */

/* A compute op: its graph if it has one. As device.h: compute. STATUS_INVALID: it is not what was
 * captured. */
enum status cuda_graphs_compute(const struct cuda_graphs *g, struct cuda_context *c,
                                struct stage_set *stages, uint32_t step,
                                const struct program_op *op,
                                const struct layer_reduction *reduction) MUST_CHECK;

#endif
