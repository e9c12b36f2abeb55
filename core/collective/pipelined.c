/* The levels of `hierarchical`, through which chunks of the buffer follow one another: while one is
 * summed across nodes the next is summed inside. So its phases are one, as long as what is busiest
 * in all of them together, and what the first and last chunks leave idle. */
#include "core/collective/shapes.h"

const struct collective_algorithm collective_pipelined = {
    .name = "pipelined",
    .summary = "hierarchical in chunks: links inside and between nodes work at the same time",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true,
               [COLLECTIVE_ALLTOALL] = true,
               [COLLECTIVE_BROADCAST] = true},
    .equal_nodes = true,
    .chunks = collective_chunks,
    .shape = collective_levels,
};
