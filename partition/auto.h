/* auto.h - search over plans: pipeline depth x replicas x placement x microbatch size x schedule.
 *
 * Candidates are cut by `balanced`, scored by the caller's quick evaluator, and the best few, with
 * the baselines beside them, by its thorough one; partition never simulates by itself. */
#ifndef PARTITION_AUTO_H
#define PARTITION_AUTO_H

#include "partition/partition.h"

enum { AUTO_REASON = 160 };

/* What a prediction says about a plan. */
struct evaluation {
    double iteration_s, samples_per_s, bubble_fraction;
    int64_t peak_bytes;       /* of the rank with the least headroom */
    int64_t headroom_bytes;   /* its device's memory minus that; negative: does not fit */
    char reason[AUTO_REASON]; /* what limits it, in words */
};

struct evaluator {
    void *context;
    /* Milliseconds; must not fail for a plan that partition_run() made. */
    enum status (*quick)(void *context, const struct plan *p, struct evaluation *out);
    /* As good as it gets. */
    enum status (*thorough)(void *context, const struct plan *p, struct evaluation *out);
};

/* 0 or NULL: searched. `samples` per iteration is what every candidate trains. */
struct auto_request {
    struct partition_request
        fixed; /* stages, replicas, microbatches, ..., schedule may be 0 or NULL */
    size_t samples;
    size_t finalists;         /* evaluated thoroughly, baselines apart; >= 1 */
    double time_limit_s;      /* wall clock for the quick part; 0: none */
    const volatile int *stop; /* non-zero: rank what there is; may be NULL */
};

struct auto_candidate {
    struct plan plan;
    enum partition_placement placement;
    const char *role; /* "candidate", "data-parallel baseline", "uniform pipeline baseline" */
    struct evaluation quick, thorough;
    bool verified; /* thorough is filled */
    bool fits;     /* headroom >= 0 by the best evaluation there is */
};

struct auto_result {
    size_t tried;   /* plans scored by the quick evaluator */
    size_t too_big; /* of those, plans that do not fit into memory */
    bool interrupted;
    size_t n;
    struct auto_candidate
        *candidate; /* [n] verified ones, best first; those that fit before others */
};

/* Deterministic unless interrupted. STATUS_INFEASIBLE when nothing can be placed at all;
 * a result whose best candidate does not fit is not an error. Ties go to fewer stages. */
enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out) MUST_CHECK;
void auto_result_free(struct auto_result *r); /* accepts {0}; leaves {0} */

#endif
