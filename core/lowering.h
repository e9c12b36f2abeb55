/* lowering.h - the parts of plan_lower() (core/lower.h): what they share while it runs. Private. */
#ifndef CORE_LOWERING_H
#define CORE_LOWERING_H

#include "core/lower.h"
#include "core/schedule.h"

/* What goes from one stage to another for every microbatch. */
struct edge {
    uint32_t from, to; /* stages, from < to */
    int64_t bytes;     /* per microbatch */
};

/* The growing list of one rank; dependencies are positions in the same list. */
struct list {
    size_t n, room, deps, dep_room;
    struct program_op *op;
    uint32_t *dep;
    size_t step, steps; /* progress in the schedule */
    struct schedule_step *schedule;
    bool queued;
};

struct lowering {
    const struct plan *plan;
    const struct model *model;
    const struct topology *topology;
    uint32_t *stage_of; /* [model->n] */
    size_t edges;
    struct edge *edge;            /* [edges] sorted by (from, to) */
    size_t *in_start, *out_start; /* [stages + 1] */
    uint32_t *in;                 /* [edges] edge ids by destination stage */
    uint32_t *first_rank;         /* [stages + 1] */
    uint32_t *queue;              /* [ranks] ranks that may go on */
    size_t head, length;
    struct list *list; /* [ranks] */
    /* Position + 1 in the receiver's list of the RECV of edge e and microbatch m. */
    uint32_t *arrived, *returned; /* [edges * microbatches] activations, gradients */
};

struct stage_cost {
    double forward_s, backward_s, update_s;
    int64_t stash_bytes, static_bytes;
};

/* Groups: one per stage with replicas, then one per (owner of tied weights, replica). */
struct grouping {
    size_t groups, members, room;
    size_t *start;    /* [groups + 1] */
    uint32_t *member; /* [members] */
    uint32_t *tag;    /* [groups] owner op or PROGRAM_NONE */
    int64_t *bytes;   /* [groups] */
};

/* lower_stages.c: fill everything up to first_rank, allocate the rest. */
enum status lowering_prepare(struct lowering *l) MUST_CHECK;
void lowering_free(struct lowering *l);
struct stage_cost lowering_cost(const struct lowering *l, uint32_t stage, uint32_t device);
size_t lowering_ranks(const struct lowering *l);
uint32_t lowering_stage_of(const struct lowering *l, uint32_t rank); /* O(log stages) */

/* lower_replay.c: compute ops and messages of every rank; cost [ranks]. */
enum status lowering_replay(struct lowering *l, const struct stage_cost *cost) MUST_CHECK;
/* Append to a list; *position (may be NULL) is where. The op appended last depends on another. */
enum status list_append(struct list *list, const struct program_op *op,
                        uint32_t *position) MUST_CHECK;
enum status list_depend(struct list *list, uint32_t position) MUST_CHECK;

/* lower_finish.c: groups, all-reduces and updates. */
enum status lowering_finish(struct lowering *l, const struct stage_cost *cost,
                            struct grouping *g) MUST_CHECK;
void grouping_free(struct grouping *g);

#endif
