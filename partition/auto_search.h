/* auto_search.h - what the parts of `auto` share: auto_shapes.c lists the shapes of plans by their
 * lower bounds, auto_try.c makes plans of them, auto_filters.c says which are not worth it, auto.c
 * keeps and ranks what comes out. Private. */
#ifndef PARTITION_AUTO_SEARCH_H
#define PARTITION_AUTO_SEARCH_H

#include "core/schedule.h"
#include "partition/auto.h"

enum {
    AUTO_DEEP = 64,  /* ranks of a pipeline that is tried unless nothing else fits */
    AUTO_CHUNKS = 4, /* stages on a device at most, unless asked for more */
};

/* What a plan is made from, but for schedule and memory. */
struct auto_shape {
    uint32_t depth; /* ranks of a pipeline */
    uint32_t chunks, replicas, shards, microbatch_size;
    enum partition_placement placement;
    const struct partition_algorithm *algorithm;
    const char *role;
    size_t most_stages; /* as the rule of whole tensors lets it have */
    double bound_s;     /* no schedule can be faster */
    bool first;         /* it was listed first: tried even if nothing fits, to say by how much */
};

struct auto_shapes {
    size_t n;
    struct auto_shape *shape; /* [n] */
};

/* Ways to save memory, the cheapest first. */
struct auto_saving {
    enum plan_recompute recompute;
    uint32_t zero;
};
enum { AUTO_SAVINGS = 6, AUTO_NONE = -1 };
extern const struct auto_saving auto_savings[AUTO_SAVINGS];

/* The plan that is about to be tried, and what others of its shape have shown. */
struct auto_trial {
    struct auto_shape shape;
    const struct schedule *schedule;
    struct plan *cut;    /* of the shape */
    int saving;          /* row of auto_savings */
    int fitting;         /* the row with which this schedule fits, AUTO_NONE: none yet */
    int usual_saving;    /* the last row that the usual schedule was tried with */
    size_t first_since;  /* the first candidate with these chunks; SIZE_MAX: none tried yet */
    bool nothing_fitted; /* of the other placement: no saving could make one microbatch fit */
};

struct auto_state {
    const struct model *m;
    const struct topology *t;
    const struct auto_request *r;
    const struct evaluator *e;
    const struct schedule *usual; /* tried first */
    uint32_t *order;              /* [t->n] */
    double begin_s;
    double best_s; /* of what fits, INFINITY at first */
    struct auto_result result;
};

extern const char auto_candidate_role[], auto_data_parallel_role[], auto_uniform_role[];

bool auto_must_stop(const struct auto_state *s);

/* What a command line leaves open, 0, is any value. */
static inline bool auto_wanted(size_t fixed, size_t value)
{
    return fixed == 0 || fixed == value;
}
/* Can the samples be trained in microbatches of this size by so many replicas? */
bool auto_divides(const struct auto_state *s, size_t size, size_t replicas);
/* Microbatches of one replica. */
double auto_microbatches(const struct auto_state *s, const struct auto_shape *shape);
/* What the shape's algorithm is asked for; its schedule fits the chunks. */
struct partition_request auto_request_for(const struct auto_state *s,
                                          const struct auto_shape *shape);

/* All shapes, the lowest bound first, very deep pipelines last, each with its first placement.
 * *out is to be freed. */
enum status auto_list_shapes(const struct auto_state *s, struct auto_shapes *out) MUST_CHECK;

/* Does a filter of that level leave the trial out? It is counted if so. */
enum status auto_leaves_out(struct auto_state *s, enum auto_level level, const struct auto_trial *t,
                            bool *out) MUST_CHECK;

/* Every shape in every schedule; then the baselines. Sets result.interrupted when told to stop. */
enum status auto_try_all(struct auto_state *s) MUST_CHECK;
enum status auto_try_baselines(struct auto_state *s) MUST_CHECK;

#endif
