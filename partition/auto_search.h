/* auto_search.h - what the parts of `auto` share: auto_shapes.c lists the shapes of plans by their
 * lower bounds, auto_try.c makes plans of them, auto_improve.c better ones of the best,
 * auto_filters.c says which are not worth it, auto_baselines.c what everybody would try, auto.c
 * keeps and ranks what comes out. Private. */
#ifndef PARTITION_AUTO_SEARCH_H
#define PARTITION_AUTO_SEARCH_H

#include "core/cost/cost.h"
#include "core/schedule/schedule.h"
#include "partition/auto.h"
#include "partition/auto_scores.h"

enum {
    AUTO_DEEP = 64,     /* ranks of a pipeline that is tried unless nothing else fits */
    AUTO_CHUNKS = 8,    /* stages on a device at most, unless asked for more */
    AUTO_FILL = 6,      /* part of the fill that no schedule saves without more chunks */
    AUTO_SMALL = 16,    /* devices of a platform on which all replicas and shards are tried */
    AUTO_ACROSS = 64,   /* ... on which shards may be on more than one node */
    AUTO_RANKED = 256,  /* ... on which e->thorough() verifies all that is shown */
    AUTO_UNEVEN = 256,  /* ... on which groups of microbatches may have a rest */
    AUTO_ZEROS = 4,     /* ZeRO 0 to 3 */
    AUTO_PART = 2048,   /* tokens of a part of a sequence that is divided, unless that is given */
    AUTO_CONTEXT = 64,  /* replicas that share a sequence, at most */
    AUTO_FULL = 32,     /* times the ranks of a pipeline whose fill matters little: microbatches */
    AUTO_STAGES = 1024, /* of a plan whose activations are counted before it is made */
    AUTO_CELLS = 1 << 22, /* ops * stages that are cut by `balanced`, as there are so many shapes */
    AUTO_BUCKETS = 8,     /* buckets of a stage's gradients, of the size that is tried first */
};

/* What a plan is made from, but for schedule and memory. */
struct auto_shape {
    uint32_t pipeline; /* its ranks */
    uint32_t chunks, microbatch_size;
    /* The knobs that are given, but for those that shapes differ in: replicas are those of every
     * stage, or the most of one; 0 of degrees is as good as 1. */
#include "core/strategy/strategy_plan.def"
#include "core/strategy/strategy_stage.def"
    const struct partition_uneven *uneven; /* NULL: all stages have as many replicas */
    enum partition_placement placement;
    const struct auto_baseline *baseline; /* that it is made for, or NULL */
    size_t most_stages;                   /* as layers and the rule of whole tensors let it have */
    double bound_s;                       /* no schedule can be faster, */
    double unhidden_s;                    /* that, if no collectives inside stages are hidden */
    double again_s[RECOMPUTE_KINDS];      /* ... but by so much slower if this is made again */
    double likely_s;                      /* a guess, with what must be made again to fit */
};

struct auto_shapes {
    size_t n;
    struct auto_shape *shape; /* [n] */
};

/* What else a plan may do: save memory, and hide the sums of gradients. */
struct auto_saving {
    enum plan_recompute recompute;
    uint32_t zero;
    bool buckets;
    bool keep;   /* plan.zero_keep */
    bool hybrid; /* plan.zero_group: auto_group() */
};
/* The cheapest first, by what they recompute, then by what they spread; what keeps parameters or
 * shares inside of nodes only after what needs less memory. */
enum { AUTO_SAVINGS = 39 };
extern const struct auto_saving auto_savings[AUTO_SAVINGS];

/* How much of the memory is spread over replicas: the more, the more is sent. Nothing, ZeRO 1, 2
 * inside of nodes, 2, 3 that keeps parameters inside of nodes, and over all, 3 inside of nodes,
 * 3. */
enum { AUTO_SPREADS = 8 };
static inline uint32_t auto_spread(const struct auto_saving *saving)
{
    uint32_t ways = saving->zero < 2 ? saving->zero : saving->zero == 2 ? 3 : saving->keep ? 5 : 7;
    return ways - saving->hybrid;
}

/* A bit for each way to save memory: with ZeRO 3 a bucket may be smaller than a layer. */
static inline uint32_t auto_memory_bit(const struct auto_saving *saving)
{
    bool smaller = saving->zero == 3 && saving->buckets;
    return 1u << (saving->recompute * (AUTO_SPREADS + 1) + auto_spread(saving) + smaller);
}

/* The plan that is about to be tried, and what others of its shape have shown. */
struct auto_trial {
    struct auto_shape shape;
    const struct schedule *schedule;
    struct plan *cut; /* of the shape */
    int saving;       /* row of auto_savings */
    uint32_t too_big; /* auto_memory_bit() of what the usual schedule of this cut is too big with */
    double least_s;   /* of the plans of this cut; INFINITY: none tried yet */
    bool stuck;       /* the last plan that was tried cannot run */
    size_t kept;      /* the candidate of this schedule, SIZE_MAX: none yet */
    bool begun;       /* a schedule of this cut was tried, with whatever outcome */
    /* Of this schedule, by recomputation: a bit for each auto_spread() that fits, and the iteration
     * without the sums of gradients, 0: not known. */
    uint32_t fits[RECOMPUTE_KINDS];
    double bare_s[RECOMPUTE_KINDS];
    /* Of this schedule, [depth][chunks]: microbatches of a chunk that a rank has between forward
     * and backward when it has most of all chunks; counted: they are known. */
    bool counted;
    uint16_t flight[AUTO_STAGES];
};

/* What an op adds to the least that a stage needs, with a kind of recomputation: the part of its
 * parameters, bytes of a microbatch that are kept, and that are made again. */
struct auto_op_bytes {
    double parameters, kept, again;
};
/* The same of all ops, for the split, microbatch size and modules that were asked for last: shapes
 * are tried one after the other. All else that it depends on, the search has in common. */
struct auto_least {
    struct cost_split split; /* without shards: nothing was asked for yet */
    uint32_t samples, modules;
    struct auto_op_bytes *op; /* [m->n] */
};

struct auto_state {
    const struct model *m;
    const struct topology *t;
    const struct auto_request *r;
    const struct evaluator *e;
    const struct schedule *usual; /* tried first */
    bool layers;                  /* stages begin at layers */
    bool scarce;          /* memory is, on a small platform: sequences are divided further */
    uint32_t *order;      /* [t->n] neighbours together */
    uint32_t *fast_order; /* [t->n] the same, but the fastest types first */
    /* What every plan with a kind of recomputation makes again, wherever it is cut: [m->n] */
    struct auto_again {
        uint32_t *unit;           /* plan_units() of layers; 0: some plan may not */
        bool *kept;               /* the output of an op in a unit stays */
        struct auto_least *least; /* the filters' own */
    } again[RECOMPUTE_KINDS];
    size_t node;             /* devices of a node */
    uint32_t experts;        /* of the layer that has the fewest, 1: no layer has any */
    double exchanged;        /* bytes per sample that go to experts */
    struct rule_model rules; /* what rules ask of the model */
    size_t most, least;      /* devices of the class that is tried: least < n <= most */
    double begin_s;
    double best_s;              /* of what fits, INFINITY at first */
    double bound_s;             /* of all shapes so far, the least */
    bool best_exact;            /* its score knows of shared links */
    double effort;              /* left */
    double *lowered;            /* ops so far; filters count too */
    struct auto_scores *scores; /* of plans that have been tried */
    size_t divisions;
    struct auto_division *division; /* [divisions] what shared links add (auto_sharing.c) */
    double uneven_work;             /* ops of plans with different replicas that were scored */
    size_t ranked; /* candidates of earlier classes, verified: the first ones of the result */
    struct auto_request offloads; /* the request, with the optimizer's state on the host */
    struct auto_result result;
};

/* Told to, or out of time. */
bool auto_must_stop(const struct auto_state *s);
/* A plan has been lowered to so many ops: it counts as them, and as two for every op that the model
 * has. */
static inline void auto_count(const struct auto_state *s, double lowered)
{
    *s->lowered += lowered + 2 * (double)s->m->n;
}

/* The same, or more ops lowered than are wanted: no more shapes are tried. */
bool auto_is_spent(const struct auto_state *s);

/* Is the knob given, KNOB_BIT()? */
static inline bool auto_given(const struct auto_state *s, uint64_t knob)
{
    return (s->r->fixed.chosen & knob) != 0;
}
/* What a command line leaves open, 0, is any value. */
static inline bool auto_wanted(size_t fixed, size_t value)
{
    return fixed == 0 || fixed == value;
}
/* Launchers number ranks with the replicas of a stage side by side. */
static inline enum partition_placement auto_first_placement(const struct auto_state *s)
{
    if (s->r->fixed.placement_chosen)
        return s->r->fixed.placement;
    return s->r->fixed.devices == DEVICES_FRAMEWORK ? PLACE_REPLICAS : PLACE_PIPELINES;
}
static inline enum partition_placement auto_last_placement(const struct auto_state *s)
{
    return s->r->fixed.placement_chosen ? s->r->fixed.placement : PLACE_REPLICAS;
}
/* Can the samples be trained in microbatches of this size by so many streams of replicas? */
bool auto_divides(const struct auto_state *s, size_t size, size_t streams);
/* May a device of the shape have so many stages? */
bool auto_chunks_wanted(const struct auto_state *s, const struct auto_shape *shape,
                        uint32_t chunks);
/* Microbatches of one stream of replicas. */
double auto_microbatches(const struct auto_state *s, const struct auto_shape *shape);
static inline size_t auto_devices(const struct auto_shape *shape)
{
    size_t replicas = shape->uneven ? 0 : (size_t)shape->pipeline * shape->replicas;
    for (uint32_t k = 0; shape->uneven && k < shape->pipeline; k++)
        replicas += shape->uneven->replicas[k];
    return replicas * shape->tensor_parallel;
}
/* What the shape's algorithm is asked for; its schedule fits the chunks. */
struct partition_request auto_request_for(const struct auto_state *s,
                                          const struct auto_shape *shape);

/* Is `shards` given, or may it be searched: can the model be divided into so many? */
bool auto_may_shard(const struct auto_state *s, uint32_t shards);

/* All shapes of the class, the shortest unhidden time first, very deep pipelines last, each with
 * its first placement. *out is to be freed. */
enum status auto_list_shapes(const struct auto_state *s, struct auto_shapes *out) MUST_CHECK;

/* The families of shapes: each number of shards, kind of sharding and microbatch size; the rest of
 * a shape is 0. *out is to be freed. */
enum status auto_list_families(const struct auto_state *s, struct auto_shapes *out) MUST_CHECK;

/* Neighbouring replicas of a stage that are on one node, where there are more nodes of them; else,
 * on small platforms, as few as divide them. 0: none. */
uint32_t auto_group(const struct auto_state *s, const struct auto_shape *shape);
/* Are there such groups, none that are given, and no experts that are spread over others? */
bool auto_may_group(const struct auto_state *s, const struct auto_shape *shape);
/* Bytes of a bucket of the shape's gradients that is tried first. */
int64_t auto_usual_bucket(const struct auto_state *s, const struct auto_shape *shape);
/* The trial's cut with its schedule and a saving; the copy is the caller's. */
enum status auto_make_plan(const struct auto_state *s, const struct auto_trial *t,
                           const struct auto_saving *saving, struct plan *out) MUST_CHECK;

/* Fill t->flight for the schedule. STATUS_NOMEM. */
enum status auto_count_flight(const struct auto_state *s, struct auto_trial *t) MUST_CHECK;
/* Does a filter of that level leave the trial out? It is counted if so. */
enum status auto_leaves_out(struct auto_state *s, enum auto_level level, const struct auto_trial *t,
                            bool *out) MUST_CHECK;

/* Does a baseline keep what is given? Then nothing slower can win. */
bool auto_keeps_given(const struct auto_state *s, const struct plan *p);
/* Score a candidate by the quick evaluator, and note what the search learns from it. One whose
 * stages have different replicas may be found to wait for itself in a circle: with buckets, whose
 * sums stand among the messages of the last backwards, which replicas come to at different times.
 * It, and what cannot be lowered (pairs of passes that share sequences, groups of replicas with
 * spread experts), gets an infinite iteration. */
enum status auto_score(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* Does its score know of shared links? */
static inline bool auto_knows_links(const struct auto_candidate *c)
{
    return c->quick.exact || c->slowed;
}
/* A score that knows of no shared links gets what they add, if the candidate may be the best. */
enum status auto_add_sharing(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* Score the trial's cut with its schedule and a saving, and keep it if it is the best of t->kept so
 * far. *fits: it does. */
enum status auto_try_plan(struct auto_state *s, struct auto_trial *t,
                          const struct auto_saving *saving, bool *fits) MUST_CHECK;

/* The shape as it is in every schedule for its chunks. */
enum status auto_try_cut(struct auto_state *s, struct auto_trial *t) MUST_CHECK;
/* Shapes whose stages have different replicas (auto_uneven.c), which must beat what is verified. */
enum status auto_try_uneven(struct auto_state *s) MUST_CHECK;
/* Every shape of the class in every schedule. Sets result.interrupted when told to stop. */
enum status auto_try_class(struct auto_state *s) MUST_CHECK;
/* Bytes per parameter byte that a device has, */
struct cost_memory auto_on_device(const struct auto_state *s);
/* ... with weights, gradients and state spread over so many ranks by ZeRO; 2 is 3 that keeps
 * parameters, too. */
double auto_held_times(const struct cost_memory *f, uint32_t zero, double ranks);
/* Can every sequence be divided over so many replicas? */
bool auto_can_divide(const struct auto_state *s, uint32_t context);
/* A finalist near the best becomes the best that is found by changing one knob after the other
 * (auto_neighbours.c). */
enum status auto_try_neighbours(struct auto_state *s, struct auto_candidate *best) MUST_CHECK;
/* Give the candidate's plan the k-th neighbour's degree of context or expert parallelism; false:
 * there is no such plan. */
enum { AUTO_DIVISIONS = 6 };
bool auto_divide_otherwise(struct auto_state *s, struct auto_candidate *c, size_t k);
/* The candidate with what shares by ZeRO 2 or 3 (on small platforms: all levels) over groups of
 * replicas of other sizes, with parameters kept or not; fewer layers made again, if that fits;
 * buckets of other sizes; and on small platforms microbatches of other sizes: the best takes its
 * place. */
enum status auto_improve(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* The candidate's strategy on so many ranks in the pipeline, improved; out->plan.stages is 0 where
 * there is none. The caller frees out->plan. */
enum status auto_try_depth(struct auto_state *s, const struct auto_candidate *like, size_t depth,
                           struct auto_candidate *out) MUST_CHECK;
/* The candidate with as few layers made again as fit, if it makes all again. */
enum status auto_try_layers(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* Where the model is no chain, or devices differ: the best candidates of each shape from number
 * `first` on get stages that are parts of a graph (auto_graph.c); */
enum status auto_try_graphs(struct auto_state *s, size_t first) MUST_CHECK;
/* ... and a finalist those of a longer search. */
enum status auto_search_graph(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* Are they of the same stages, degrees and placement? */
bool auto_same_shape(const struct auto_candidate *a, const struct auto_candidate *b);
/* With DEVICES_OPTIMISED: nodes change places, and with nodes that have no work, as long as the
 * candidate becomes better and a tenth of the search's work is not spent (auto_nodes.c). */
enum status auto_swap_nodes(struct auto_state *s, struct auto_candidate *c) MUST_CHECK;
/* Bytes of weights, gradients and state that some rank of the shape has at least. */
double auto_weight_bytes(const struct auto_state *s, const struct auto_shape *shape);
/* Bytes of a device of the type, without the reserve. */
double auto_room(const struct auto_state *s, size_t type);
/* Bytes that the fullest rank of the trial's cut and saving needs beyond its room, at least: by
 * what ranks keep; and by a shorter iteration of a plan, -INFINITY where that is not known. */
double auto_least_lack(const struct auto_state *s, const struct auto_trial *t);
enum status auto_peak_lack(const struct auto_state *s, const struct auto_trial *t,
                           const struct auto_saving *saving, double *lack) MUST_CHECK;
/* Is the saving one for the trial, and the schedule one for the shape? The trial's shape cut for
 * its schedule, if *cut is not that already. */
bool auto_saving_wanted(struct auto_state *s, const struct auto_trial *t,
                        const struct auto_saving *saving);
bool auto_schedule_wanted(const struct auto_state *s, const struct schedule *schedule,
                          const struct auto_shape *shape);
enum status auto_cut_for(const struct auto_state *s, struct auto_trial *t,
                         struct plan *cut) MUST_CHECK;
/* When nothing fits: the plan that lacks least becomes a candidate, of all shapes, schedules and
 * savings, with the optimizer's state on the device and on the host. It is found by branch and
 * bound (auto_nearest.c), within a part of the search's work. With r->only_fits: the first that
 * fits, if any. */
enum status auto_try_nearest(struct auto_state *s) MUST_CHECK;
enum status auto_try_baselines(struct auto_state *s) MUST_CHECK;

/* Which list of numbers comes first: < 0, 0 or > 0. */
static inline int auto_order(const double *p, const double *q, size_t n)
{
    size_t k = 0;
    while (k < n && !(p[k] < q[k] || p[k] > q[k]))
        k++;
    return k == n ? 0 : p[k] < q[k] ? -1 : 1;
}
/* Order of candidates, for qsort(): what fits, then the shorter iteration, then fewer devices,
 * fewer stages, ...; of those that do not fit, what lacks least. */
int auto_by_merit(const void *a, const void *b);

/* If c is better the two change places; returns whether it was. */
static inline bool auto_take_better(struct auto_candidate *c, struct auto_candidate *best)
{
    struct auto_candidate worse = *best;
    if (auto_by_merit(c, best) >= 0)
        return false;
    *best = *c;
    *c = worse;
    return true;
}

#endif
