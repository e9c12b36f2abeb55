/* auto.h - search over plans: pipeline ranks x replicas x tensor-parallel degree (with and without
 * sequence parallelism and overlap) x context and expert parallelism x placement x microbatch size
 * x schedule (with chunks) x recomputation x ZeRO 0 to 3 x gradient buckets, on all devices or on
 * fewer; then with replicas that differ between stages (auto_uneven.c). What is tried of each knob,
 * or why nothing, says its row of core/strategy/strategy.def.
 *
 * Candidates are cut by `balanced`, scored by the caller's quick evaluator, and the best few, with
 * the baselines beside them, by its thorough one; partition never simulates by itself.
 *
 * Fewer devices: the space is walked in classes, plans of more than half of the devices first, then
 * of more than a quarter, ... The finalists of a class are evaluated thoroughly before the next one
 * begins, which must beat them: contention that the quick evaluator underrates makes larger plans
 * slower than it says, and what is compared with smaller ones is the truth.
 *
 * When little fits, so that the best plan is far from the bound of all shapes, the space is walked
 * once more with the optimizer's state in the host's memory.
 *
 * What of the space is not tried is what a filter leaves out (auto_filters.c): each has a name and
 * a reason, its count is in the result, and it can be switched off. */
#ifndef PARTITION_AUTO_H
#define PARTITION_AUTO_H

#include "core/data/rules.h"
#include "partition/partition.h"

enum {
    AUTO_REASON = 160,
    AUTO_MOST_FILTERS = 16,
    AUTO_SHOWN = 5, /* first candidates, baselines apart, that are verified where effort is left */
};

/* What a prediction says about a plan. */
struct evaluation {
    double iteration_s, samples_per_s, bubble_fraction;
    double gradients_s;     /* of the iteration, what sums of gradients, ZeRO's collectives and the
                               * update take at most where nothing hides them */
    int64_t peak_bytes;     /* of the rank with the least headroom, reserve counted */
    int64_t headroom_bytes; /* its device's memory minus that; negative: does not fit */
    uint32_t device;        /* of that rank */
    char reason[AUTO_REASON]; /* what limits it, in words */
    double effort;            /* of evaluating it thoroughly, at most, in any unit; what it was, if
                               * it was so; 0: not known */
    double lowered;           /* ops that were lowered for it; 0: not known */
    double ops;               /* of the whole iteration and every rank; 0: not known */
    const char *engine;       /* that said so; NULL: not known */
    bool exact;               /* all of the iteration was simulated, or what was not is known */
};

struct evaluator {
    void *context;
    /* Milliseconds. STATUS_UNSUPPORTED, STATUS_INVALID: the plan is left out, as it cannot be
     * executed. */
    enum status (*quick)(void *context, const struct plan *p, struct evaluation *out);
    /* The same as if nobody shared a link, in hardly more time than making the plan: no slower
     * than quick(). NULL: there is nothing quicker. */
    enum status (*rough)(void *context, const struct plan *p, struct evaluation *out);
    /* What a plan whose quick() is not exact takes with all that share links, on ideal paths as
     * quick() says: tenths of a second. Fails as quick(). NULL: only thorough() says so. */
    enum status (*shared)(void *context, const struct plan *p, struct evaluation *out);
    /* As good as it gets, for all n at once, out[n] in the same order: may run in parallel. After
     * auto_request.stop it may leave some zero. */
    enum status (*thorough)(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out);
    struct op_costs *costs; /* of the model, which filters use, too; NULL: none */
};

/* 0 or NULL: searched, unless it is a knob that `fixed.chosen` says. `samples` per iteration is
 * what every candidate trains. */
struct auto_request {
    struct partition_request
        fixed; /* stages, replicas, microbatches, ..., schedule may be 0 or NULL */
    size_t samples;
    size_t finalists;             /* evaluated thoroughly at a time, baselines apart; >= 1 */
    double effort;                /* that all finalists may have together, but for the first of a
                                   * class; 0: any */
    const int64_t *reserve_bytes; /* [t->types] a plan fits with so much headroom; NULL: 0 */
    bool executable;     /* only what exec/ can run: what its rules refuse (core/data/rules.def)
                                   * is not tried; what else it refuses is for the evaluator to
                                   * say: quick() is STATUS_UNSUPPORTED */
    double lowered;      /* budget of the quick part: ops that it may lower. A count, not seconds,
                          * so that the result is the same on every machine; 0: no limit */
    double time_limit_s; /* wall clock for the quick part; 0: none */
    const volatile int *stop; /* non-zero: rank what there is; may be NULL */
    double *best_s;   /* out, while it searches: the best score yet that fits; may be NULL */
    bool only_fits;   /* no finalists: the first plan that fits, if there is one */
    bool even;        /* every stage has the same replicas */
    bool in_order;    /* stages are intervals of the model's order, on the usual devices */
    uint32_t without; /* filters that are switched off, bits 1 << row of auto_filters */
};

/* What a filter is asked about, coarse to fine: it is asked as soon as that much is chosen. */
enum auto_level {
    AUTO_SHAPE,    /* counts of stages, replicas and shards, microbatch size, placement */
    AUTO_SCHEDULE, /* and chunks and schedule */
    AUTO_SAVING,   /* and recomputation, ZeRO and buckets: one plan */
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

/* What a practitioner would try first: made by rules of thumb, or as others have published it for
 * the model; never searched. */
struct auto_baseline {
    const char *name, *summary;
    /* Of published plans: of which model, NULL: a rule of thumb for any; on so many devices (it is
     * tried on half to twice as many); its degrees. */
    const char *model;
    size_t devices;
    uint32_t tensor, pipeline, chunks, context, expert, microbatch_size;
    bool all_shards; /* as many shards as a node has devices */
    bool stages;     /* a pipeline: as deep as memory asks for, or without shards as can be */
    bool experts;    /* spread over as many replicas as they and the replicas divide */
    bool buckets;    /* gradients are summed in buckets of 25 MiB, as PyTorch's DDP does */
    uint32_t zero;
};
extern const struct auto_baseline auto_baselines[];
extern const size_t auto_baselines_n;

/* A plan that the search has scored, and what is known of it: a candidate while plans are scored by
 * the quick evaluator; those of a result are finalists and baselines, which the thorough one has
 * seen if they are `verified`, and the best few of other shapes, of which it has seen the first
 * AUTO_SHOWN, and which are slower than the best by their score. */
struct auto_candidate {
    struct plan plan;
    enum partition_placement placement;
    size_t depth;   /* pipeline ranks: stages / chunks; not the knob `depth`, which counts
                   * microbatches */
    size_t devices; /* that it uses */
    const struct auto_baseline *baseline; /* NULL: found by the search */
    struct evaluation quick, thorough;
    bool slowed;   /* quick is not exact, but has what links added to a plan of its division
                    * (auto_sharing.c) */
    bool verified; /* thorough is filled: of those that fit, or of all when none does */
    bool fits;     /* headroom >= reserve by the best evaluation there is */
    double
        *sampled_s; /* iterations in noise, filled by whoever ranks the result by it; owned; NULL:
                        * not sampled */
    /* Of a whole training with failures, likewise; 0: not known. */
    double training_s, effective; /* median; share of it in iterations that count */
    uint32_t spares;              /* nodes */
};

/* A cut of the model's graph that the quick evaluator has scored (auto_graph.c). */
struct auto_cut {
    const char *proposer; /* whose proposal the search began with */
    uint32_t stages, replicas, tensor_parallel;
    double bytes;      /* that cross between stages, of a microbatch */
    double balance;    /* what the slowest rank computes, over the mean */
    double estimate_s; /* of an iteration, by which the search went */
    double iteration_s;
    bool fits;
};

struct auto_result {
    size_t tried;     /* plans scored by the quick evaluator, each once */
    size_t too_big;   /* of those, plans that do not fit into memory */
    size_t offloaded; /* of those, plans with the optimizer's state in the host's memory, which are
                          * tried when little else fits */
    size_t uneven;    /* of those, plans whose stages have different replicas; */
    size_t uneven_stuck; /* more such plans, which cannot run; */
    size_t uneven_left;  /* shapes of such that the work for them did not suffice for */
    size_t left_out[AUTO_MOST_FILTERS]; /* [auto_filters_n] of the filter's level */
    size_t cuts;
    struct auto_cut *cut;       /* [cuts] in the order in which they were scored */
    const struct rule *not_run; /* executable: the last rule that left out a plan; NULL: none */
    bool interrupted; /* not all was tried: stopped, the time is over, or, if `spent`, the work */
    bool spent;
    size_t n;
    struct auto_candidate *candidate; /* [n] best first; those that fit before others */
};

/* Deterministic unless interrupted. STATUS_INFEASIBLE when nothing can be placed at all;
 * a result whose best candidate does not fit is not an error: then the first one lacks least. Of
 * equal iterations (9 digits) the plan of fewer devices comes first, then that of fewer stages. */
enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out) MUST_CHECK;
void auto_result_free(struct auto_result *r); /* accepts {0}; leaves {0} */

/* Do the stages have different replicas? */
static inline bool auto_is_uneven(const struct plan *p)
{
    bool uneven = false;
    for (size_t s = 1; s < p->stages; s++)
        uneven = uneven || p->stage[s].replicas != p->stage[0].replicas;
    return uneven;
}

/* The best evaluation that there is of a candidate. */
static inline const struct evaluation *auto_evaluation(const struct auto_candidate *c)
{
    return c->verified ? &c->thorough : &c->quick;
}
/* Headroom beyond the reserve of the tightest rank; negative: what it lacks. */
int64_t auto_spare_bytes(const struct topology *t, const struct auto_request *r,
                         const struct evaluation *e);
/* Shapes that any filter has left out. */
size_t auto_shapes_left_out(const struct auto_result *r);

#endif
