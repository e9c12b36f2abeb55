/* sample.h - small models, topologies and plans for tests. Everything aborts on failure: tests
 * only. */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"

/* Two doubles differ by at most `tolerance` (cmocka 1.1's own check is in single precision). */
#define assert_near(a, b, tolerance)                                                               \
    do {                                                                                           \
        double a_ = (a), b_ = (b);                                                                 \
        if (!(a_ - b_ <= (tolerance) && b_ - a_ <= (tolerance)))                                   \
            fail_msg("%s = %.17g, expected %.17g", #a, a_, b_);                                    \
    } while (0)

char *sample_text(const char *text); /* strdup */

/* A chain of n ops "op0", "op1", ... with measured times per sample, and sizes. */
struct model sample_chain(size_t n, double forward_s, double backward_s, int64_t parameter_bytes,
                          int64_t output_bytes);

/* Give a model these edges in place of its own. */
void sample_rewire(struct model *m, const struct model_edge *edge, size_t edges);
/* The op of that name. */
const struct model_op *sample_op(const struct model *m, const char *name);

/* n devices "h0", ... of one type, any two `latency_s` and `bandwidth_Bps` apart. */
struct topology sample_clique(size_t n, double latency_s, double bandwidth_Bps);

/* Write the platform file that goes with sample_clique(): each device on a full-duplex port of
 * `bandwidth_Bps` with half the latency, to a switch. Returns a path to unlink and free. */
char *sample_star_file(size_t n, double latency_s, double bandwidth_Bps);

/* Equal numbers of ops per stage; stage s, replica r on device r * stages + s; update is free. */
struct plan sample_plan(const struct model *m, size_t stages, uint32_t replicas,
                        uint32_t microbatches, const char *schedule);

#endif
