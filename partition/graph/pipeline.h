/* pipeline.h - a plan's stages as a short program: what an iteration takes when units are moved
 * between stages and stages between devices. It is what a search asks thousands of times; engines
 * have the last word.
 *
 * Every pass takes the sum of its units on the stage's device. A tensor goes once to every stage
 * that reads it, from where it is made, over the link between the two, in one message per pair of
 * stages and microbatch; on a link messages go one after the other. Gradients go back the same
 * way, and those of tied weights between their stages at the end. */
#ifndef PARTITION_GRAPH_PIPELINE_H
#define PARTITION_GRAPH_PIPELINE_H

#include "core/engine/events.h"
#include "core/schedule/schedule.h"
#include "partition/graph/units.h"
#include "partition/graph/ways.h"

/* What is searched for: the stage of every unit, and the place of every team. */
struct graph_cut {
    uint32_t *stage; /* [units] no smaller than that of whose tensors it reads */
    uint32_t *place; /* [teams] all different */
};

struct pipeline {
    const struct units *u;
    const struct topology *t;
    size_t stages, teams, width; /* width: devices of a place */
    size_t places;
    uint32_t *device; /* [places][width] the plan's teams, then what is left over */
    struct ways ways;
    uint32_t *team_of;           /* [stages] */
    uint32_t microbatches;       /* of one pipeline: those whose steps are walked through, */
    double more;                 /* and others, which take as long as the slowest team computes */
    size_t steps, *step_n;       /* of all teams, [teams] of each */
    struct schedule_step **step; /* [teams][step_n], with stages as chunks */
    double replicas;
    double *room_bytes; /* [types] that a device may hold */
    /* The cut, and what follows from it. */
    struct graph_cut cut;
    size_t *units;                                   /* [stages] */
    double *forward_s, *backward_s, *update_s;       /* [types][stages] */
    double *held_bytes, *summed_bytes, *stash_bytes; /* [stages] */
    double *bytes; /* [stages][stages] that cross, of a microbatch */
    /* Scratch of pipeline_seconds(). */
    struct pipeline_wait *waiting;       /* [stages][microbatches][2] */
    struct pipeline_team *team;          /* [teams] */
    struct events running;               /* teams, by when what they do ends */
    double *link_free_s;                 /* [ways.links] */
    struct pipeline_message *message[2]; /* by sender, forwards and backwards */
    size_t *message_start[2];            /* [stages + 1] */
    struct pipeline_load *load;          /* [stages] */
    double walked;                       /* steps so far */
    uint32_t *mark, marks;               /* [stages] */
    struct arena memory;
};

/* Of a plan whose stages are units, each whole; the cut is the plan's.
 *   reserve_bytes  [t->types] of a device's memory that is to stay free; NULL: none
 * STATUS_UNSUPPORTED: a plan that this cannot say (stages with different replicas, schedules that
 * update asynchronously), STATUS_NOMEM. */
enum status pipeline_make(const struct plan *p, const struct units *u, const struct topology *t,
                          const int64_t *reserve_bytes, struct pipeline *out) MUST_CHECK;
void pipeline_free(struct pipeline *x); /* accepts {0}; leaves {0} */

/* Have another cut. O(units + readers). */
void pipeline_set(struct pipeline *x, const struct graph_cut *cut);
/* Move a unit, a team to another place, which is free or changes with it. O(readers), O(teams). */
void pipeline_move(struct pipeline *x, uint32_t unit, uint32_t stage);
void pipeline_place(struct pipeline *x, uint32_t team, uint32_t place);

/* Seconds of an iteration of the cut; more, where a device has too little memory, and a millionth
 * of the root of the squared loads, so that of equal cuts the most even one comes first. If they
 * are more than the limit, any number that is.
 * O(steps * stages that a stage sends to + stages^2). */
double pipeline_seconds(struct pipeline *x, double limit_s);

/* Bytes that cross between stages in the forward of a microbatch; and what the slowest team
 * computes over the mean of all, of the last cut whose seconds were asked for. */
double pipeline_crossing(const struct pipeline *x);
double pipeline_balance(const struct pipeline *x);

/* Arrays for a cut, in the arena; STATUS_NOMEM. And a copy into such. */
enum status graph_cut_new(const struct pipeline *x, struct arena *a,
                          struct graph_cut *out) MUST_CHECK;
void graph_cut_copy(const struct pipeline *x, const struct graph_cut *from, struct graph_cut *to);
/* The same plan with the cut. `out` is the caller's. */
enum status pipeline_plan(const struct pipeline *x, const struct graph_cut *cut,
                          const struct plan *p, struct plan *out) MUST_CHECK;

#endif
