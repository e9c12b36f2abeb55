/* auto_search.h - what the parts of `auto` share: auto_shapes.c lists the shapes of plans by their
 * lower bounds, auto_try.c makes plans of them, auto.c keeps and ranks what comes out. Private. */
#ifndef PARTITION_AUTO_SEARCH_H
#define PARTITION_AUTO_SEARCH_H

#include "core/schedule.h"
#include "partition/auto.h"

enum {
    AUTO_SHARDS = 8, /* powers of two that are told apart */
    AUTO_SIZES = 24,
    AUTO_DEEP = 64,  /* stages of a pipeline that is tried unless nothing else fits */
    AUTO_CHUNKS = 4, /* stages on a device at most, unless asked for more */
};

/* What a plan is made from, but for schedule and memory. */
struct shape {
    uint32_t teams, chunks, replicas, shards, microbatch_size;
    enum partition_placement placement;
    const struct partition_algorithm *algorithm;
    const char *role;
    double bound_s; /* no schedule can be faster */
};

struct shapes {
    size_t n, room;
    struct shape *shape; /* [n] */
};

struct search {
    const struct model *m;
    const struct topology *t;
    const struct auto_request *r;
    const struct evaluator *e;
    const struct partition_algorithm *balanced, *uniform;
    const struct schedule *usual; /* tried first */
    uint32_t *order;              /* [t->n] */
    double begin_s;
    double best_s;                                /* of what fits, INFINITY at first */
    uint32_t shallowest[AUTO_SHARDS][AUTO_SIZES]; /* stages of a pipeline that fits as it is, by
                                                   * log2 of shards and microbatch size; 0: none */
    struct shape before;                          /* the shape tried last: */
    size_t before_saving;                         /* where its ways to save memory ended */
    bool before_hopeless;                         /* none of them could make it fit */
    size_t room;
    struct auto_result result;
};

extern const char auto_candidate_role[], auto_data_parallel_role[], auto_uniform_role[];

/* Keep a candidate: *c is taken over and becomes {0}. */
enum status auto_keep(struct search *s, struct auto_candidate *c) MUST_CHECK;
void auto_candidate_free(struct auto_candidate *c); /* accepts {0} */
bool auto_must_stop(const struct search *s);

/* What a command line leaves open, 0, is any value. */
static inline bool auto_wanted(size_t fixed, size_t value)
{
    return fixed == 0 || fixed == value;
}
/* Can the samples be trained in microbatches of this size by so many replicas? */
bool auto_divides(const struct search *s, size_t size, size_t replicas);
/* Microbatches of one replica. */
double auto_microbatches(const struct search *s, const struct shape *shape);
/* What `balanced` is asked for; its schedule fits the chunks. */
struct partition_request auto_request_for(const struct search *s, const struct shape *shape);

/* All shapes that may be worth a plan, the lowest bound first, very deep pipelines last; those
 * whose weights cannot fit are counted in result.bounded, but for one. *out is to be freed. */
enum status auto_list_shapes(struct search *s, struct shapes *out) MUST_CHECK;

/* Every shape in every schedule; then the baselines. Sets result.interrupted when told to stop. */
enum status auto_try_all(struct search *s) MUST_CHECK;
enum status auto_try_baselines(struct search *s) MUST_CHECK;

#endif
