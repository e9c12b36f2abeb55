/* auto.h - search over plans: pipeline depth x replicas x tensor-parallel degree x placement x
 * microbatch size x schedule (with chunks) x recomputation and ZeRO where memory asks for them.
 *
 * Candidates are cut by `balanced`, scored by the caller's quick evaluator, and the best few, with
 * the baselines beside them, by its thorough one; partition never simulates by itself.
 *
 * The space: all devices that divide evenly, powers of two where there is a choice. What of it is
 * not tried is what a filter leaves out (auto_filters.c): each has a name and a reason, its count
 * is in the result, and it can be switched off. */
#ifndef PARTITION_AUTO_H
#define PARTITION_AUTO_H

#include "partition/partition.h"

enum { AUTO_REASON = 160, AUTO_MOST_FILTERS = 16 };

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
    uint32_t without;         /* filters that are switched off, bits 1 << row of auto_filters */
};

/* What a filter is asked about, coarse to fine: it is asked as soon as that much is chosen. */
enum auto_level {
    AUTO_SHAPE,    /* counts of stages, replicas and shards, microbatch size, placement */
    AUTO_SCHEDULE, /* and chunks and schedule */
    AUTO_SAVING,   /* and what saves memory: one plan */
    AUTO_LEVELS
};
extern const char *const auto_level_names[AUTO_LEVELS]; /* "shapes", "schedules", "plans" */

struct auto_state;
struct auto_trial;

/* Why a part of the space is left out. One row of the table makes a filter. */
struct auto_filter {
    const char *name, *reason; /* the reason completes "left out as" */
    enum auto_level level;
    enum status (*drops)(const struct auto_state *s, const struct auto_trial *t, bool *out);
};
extern const struct auto_filter auto_filters[];
extern const size_t auto_filters_n; /* <= AUTO_MOST_FILTERS */

struct auto_candidate {
    struct plan plan;
    enum partition_placement placement;
    size_t depth;     /* ranks of a pipeline: stages / chunks */
    const char *role; /* "candidate", "data-parallel baseline", "uniform pipeline baseline" */
    struct evaluation quick, thorough;
    bool verified; /* thorough is filled: of those that fit, or of all when none does */
    bool fits;     /* headroom >= 0 by the best evaluation there is */
};

struct auto_result {
    size_t tried;                       /* plans scored by the quick evaluator */
    size_t too_big;                     /* of those, plans that do not fit into memory */
    size_t left_out[AUTO_MOST_FILTERS]; /* [auto_filters_n] of the filter's level */
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

/* Shapes that any filter has left out. */
size_t auto_shapes_left_out(const struct auto_result *r);

#endif
