/* Shapes by steps that were read from a file. */
#include <math.h>

#include "core/collective/shapes.h"

/* MSCCL's blocks take the next piece of a buffer when they have done all steps with one, of 512 KiB
 * of a chunk with the protocol Simple. Small chunks are not cut. */
static double file_chunks(double bytes)
{
    return ceil(larger(bytes / 524288, 1));
}

const struct collective_algorithm collective_file = {
    .name = "file",
    .summary = "the steps that an algorithm file lists",
    .chunks = file_chunks,
};

bool collective_follows(const struct steps_algorithm *steps, enum collective_kind kind,
                        int64_t bytes, size_t n)
{
    return steps && steps->kind == kind && steps->ranks == n && bytes >= steps->least_bytes &&
           (steps->most_bytes == 0 || bytes <= steps->most_bytes);
}

enum status collective_follow(const struct collective_group *g, const struct steps_algorithm *steps,
                              double bytes, struct collective_shape *out)
{
    double chunk = bytes / (double)steps->chunks;
    PASS(collective_shape_open(out, steps->phases, steps->phase_start[steps->phases]));
    for (size_t k = 0; k < steps->phases; k++) {
        double latency_s = 0;
        for (size_t f = steps->phase_start[k]; f < steps->phase_start[k + 1]; f++) {
            const struct steps_flow *flow = &steps->flow[f];
            collective_add(out, flow->from, flow->to, flow->chunks * chunk);
            latency_s = larger(latency_s, collective_tier(g, flow->from, flow->to)->latency_s);
        }
        collective_end_phase(out, latency_s);
    }
    return STATUS_OK;
}
