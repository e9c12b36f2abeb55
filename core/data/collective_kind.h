/* collective_kind.h - the kinds of collectives, their names and what their bandwidths mean. */
#ifndef CORE_DATA_COLLECTIVE_KIND_H
#define CORE_DATA_COLLECTIVE_KIND_H

#include <stddef.h>
#include <stdint.h>

enum collective_kind {
    COLLECTIVE_ALLREDUCE,
    COLLECTIVE_ALLGATHER,
    COLLECTIVE_REDUCESCATTER,
    COLLECTIVE_ALLTOALL,
    COLLECTIVE_BROADCAST, /* up to here what is measured: enum fabric_kind (fabric.h) */
    COLLECTIVE_REDUCE,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_KINDS
};
extern const char *const collective_kind_name[COLLECTIVE_KINDS]; /* "all-reduce", ... */

/* `bytes` of the collective on a tensor of so many bytes, which n members have a part of each or
 * all of them whole: of an all-to-all a part, of at least a byte where there is any. */
static inline int64_t collective_bytes(enum collective_kind kind, int64_t tensor, int64_t n)
{
    if (kind != COLLECTIVE_ALLTOALL || tensor == 0)
        return tensor;
    return tensor < n ? 1 : tensor / n;
}

/* busbw / algbw, where algbw = bytes / seconds; 1 for n == 1. Source: nccl-tests, PERFORMANCE.md */
double collective_bus_factor(enum collective_kind kind, size_t n);

#endif
