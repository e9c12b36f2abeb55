/* pattern.h - flows that start together: named patterns of them, and what an engine says of each
 * flow. */
#ifndef SIM_PATTERN_H
#define SIM_PATTERN_H

#include "core/data/topology.h"
#include "core/engine/engine.h"

struct pattern_flow {
    uint32_t from, to; /* ranks, different */
    int64_t bytes;     /* > 0 */
};

/* Flows of one pair go one after the other, in this order; all else at once. */
struct pattern {
    uint32_t ranks;
    size_t n;
    struct pattern_flow *flow; /* [n] owned */
};

const char *pattern_name(size_t i); /* "single", "ring", ...; NULL behind the last */
/* Pattern number i:
 *   single      rank 0 to the last one
 *   ring        each to the next
 *   tree        each to its parent in a binary tree
 *   all-to-all  each to every other, a share of `bytes`
 *   incast      all to rank 0
 *   short       each SHORT_FLOWS flows to ranks drawn by `seed`, a share of `bytes`
 * `bytes` is what a rank sends. STATUS_INVALID: fewer than 2 ranks or more than 1,024, more ranks
 * or SHORT_FLOWS than bytes; STATUS_NOMEM. */
enum { PATTERN_SHORT_FLOWS = 32 };
enum status pattern_make(size_t i, uint32_t ranks, int64_t bytes, uint64_t seed,
                         struct pattern *out) MUST_CHECK;
/* A line "FROM TO BYTES" for each flow; empty lines and those from # on are left out. STATUS_PARSE
 * "path:line: what". */
enum status pattern_read(const char *path, struct pattern *out) MUST_CHECK;
/* What the rank sends that sends most. STATUS_NOMEM. */
enum status pattern_most_bytes(const struct pattern *p, int64_t *out) MUST_CHECK;
void pattern_free(struct pattern *p); /* accepts {0}; leaves {0} */

/* A program of its messages, all of which may go at once. Rank r is the topology's device r.
 *   recv  [n] out: the op that receives each flow
 * STATUS_NOMEM. */
enum status pattern_program(const struct pattern *p, const struct topology *t, uint32_t *recv,
                            struct program *out) MUST_CHECK;
/* Rank r is the topology's device r.
 *   platform, options  as of engine.run(); end_s  [n] out: when each flow has ended
 * STATUS_INVALID: more ranks than devices; else as engine.run() fails. */
enum status pattern_simulate(const struct pattern *p, const struct topology *t,
                             const char *platform, const struct engine *engine,
                             const struct simulation_options *options, double *end_s) MUST_CHECK;

#endif
