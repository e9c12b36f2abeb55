/* queue.h - whether what a thread computes is launched. Everything that goes to CUDA_STREAM in a
 * pass (kernels, products, copies) asks here first, so that a pass whose launches are in a graph
 * (graphs.h) can be gone through again without them: the stage's logic runs as ever, and what it
 * would have launched is compared with what the graph has. For C and CUDA. */
#ifndef EXEC_DEVICE_CUDA_QUEUE_H
#define EXEC_DEVICE_CUDA_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_queueing {
    QUEUE_PLAIN,   /* as ever, outside of cuda_queue_begin() and cuda_queue_end() */
    QUEUE_NOTED,   /* launched and noted */
    QUEUE_SKIPPED, /* noted only */
};

/* What a pass launches, told from other passes by names, grids, and arguments that are numbers or
 * addresses (of structures, not their insides). */
struct cuda_prints {
    size_t launches;
    uint64_t print; /* FNV-1a over all of them, in order */
};

/* Of the calling thread, until cuda_queue_end(). */
void cuda_queue_begin(enum cuda_queueing how);
struct cuda_prints cuda_queue_end(void);
/* Shall it be launched? */
bool cuda_queues(const char *name, const uint64_t *value, size_t values);

#ifdef __cplusplus
}
#endif

#endif
