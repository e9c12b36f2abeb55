/* auto.h - search over plans: pipeline depth x replicas x tensor-parallel degree x placement x
 * microbatch size x schedule (with chunks) x recomputation and ZeRO where memory asks for them.
 *
 * Candidates are cut by `balanced`, scored by the caller's quick evaluator, and the best few, with
 * the baselines beside them, by its thorough one; partition never simulates by itself.
 *
 * Shapes are tried in the order of their lower bounds (work of a device plus a third of the fill)
 * until these exceed the best plan that fits. Not tried besides: other counts than powers of two
 * where there is a choice; other schedules of a shape whose 1f1b is slower than the best plan even
 * without its fill; pipelines more than four times as deep as one that fits; more memory saving
 * than the first step that fits: recomputation of what is cheap, then of all, each without and with
 * ZeRO 1. */
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
    double effort;            /* of evaluating it thoroughly, in any unit; 0: not known */
};

struct evaluator {
    void *context;
    /* Milliseconds; must not fail for a plan that partition_run() made. */
    enum status (*quick)(void *context, const struct plan *p, struct evaluation *out);
    /* As good as it gets, for all n at once, out[n] in the same order: may run in parallel. */
    enum status (*thorough)(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out);
};

/* 0 or NULL: searched. `samples` per iteration is what every candidate trains. */
struct auto_request {
    struct partition_request
        fixed; /* stages, replicas, microbatches, ..., schedule may be 0 or NULL */
    size_t samples;
    size_t finalists;         /* evaluated thoroughly, baselines apart; >= 1 */
    double effort;            /* that all finalists may have together, but for the first; 0: any */
    bool memory_given;        /* fixed.recompute and fixed.zero are what is wanted */
    bool executable;          /* only what exec/ can run: no recomputation with split backwards,
                               * no chunks when weights are tied */
    double time_limit_s;      /* wall clock for the quick part; 0: none */
    const volatile int *stop; /* non-zero: rank what there is; may be NULL */
};

struct auto_candidate {
    struct plan plan;
    enum partition_placement placement;
    const char *role; /* "candidate", "data-parallel baseline", "uniform pipeline baseline" */
    struct evaluation quick, thorough;
    bool verified; /* thorough is filled: of those that fit, or of all when none does */
    bool fits;     /* headroom >= 0 by the best evaluation there is */
};

struct auto_result {
    size_t tried;   /* plans scored by the quick evaluator */
    size_t too_big; /* of those, plans that do not fit into memory */
    size_t bounded; /* shapes not tried because of their lower bound of time or memory */
    bool interrupted;
    size_t n;
    struct auto_candidate *candidate; /* [n] finalists, best first; those that fit before others */
};

/* Deterministic unless interrupted. STATUS_INFEASIBLE when nothing can be placed at all;
 * a result whose best candidate does not fit is not an error. Ties go to fewer stages. */
enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out) MUST_CHECK;
void auto_result_free(struct auto_result *r); /* accepts {0}; leaves {0} */

#endif
