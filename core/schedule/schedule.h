/* schedule.h - pipeline schedules: the order of compute ops of a stage. A schedule is a
 * file core/schedule/NAME.c that defines schedule_NAME, and a line of core/schedule/schedules.def.
 *
 * A pipeline has `teams`, the pipeline ranks of options and documents: the ranks that hold the same
 * stages. Most schedules give each team one
 * stage; with `chunks` > 1 ("virtual stages") each has several, which one list orders together: in
 * a loop team i has the stages i, i + teams, i + 2 teams, ..., in a V i and 2 teams - 1 - i, so
 * that the first and the last stage meet on one team and the turn needs no message. */
#ifndef CORE_SCHEDULE_SCHEDULE_H
#define CORE_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct schedule_step {
    uint8_t kind;        /* OP_FORWARD, OP_BACKWARD, or its two halves */
    uint32_t chunk;      /* which of the team's stages */
    uint32_t microbatch; /* 0 .. microbatches - 1 */
    bool paired; /* begins together with the next step: collectives of either run beside the compute
                  * of both, and what they send leaves when all of it is done. A forward before a
                  * whole backward of another chunk */
};

/* Where a list stands in the pipeline. */
struct schedule_place {
    uint32_t teams, team; /* team < teams */
    uint32_t chunks;      /* stages of every team */
    uint32_t microbatches;
    uint32_t depth; /* microbatches that may be between the team's forward and its backward when
                     * all later stages are kept busy: replicas of this stage and the later ones,
                     * in units of what one list of steps orders; >= 1 */
};

struct schedule {
    const char *name, *summary;
    bool chunked;      /* allows chunks > 1 */
    bool vee;          /* stages are placed in a V, two on every team; else in a loop */
    bool crossed;      /* at the turn of the V a microbatch moves on to the replica beside its own:
                        * k to k ^ 1 */
    bool split;        /* BACKWARD_INPUT and BACKWARD_WEIGHT; BACKWARD may be among them */
    bool asynchronous; /* every backward is followed by an update: no flush, stashed weights, */
    bool gathers;      /* but only after as many as a replica has in flight (lowering_depth()), and
                        * after the last ones of an iteration */
    bool searched;     /* `auto` tries it: same mathematics as the others, worth a try */
    bool hides;        /* collectives inside stages: `auto` tries it where experts are spread */
    bool usual;        /* of plans that name no schedule, with or without chunks */
    /* Fill steps[schedule_steps()], or fewer, and return how many: every (chunk, microbatch) once
     * forward and once backward (or once in each half); the backwards of a chunk in ascending
     * order, so that gradients add up in the same order whatever the schedule. */
    size_t (*order)(const struct schedule_place *at, struct schedule_step *steps);
};

#define SCHEDULE(name) extern const struct schedule schedule_##name;
#include "core/schedule/schedules.def"
#undef SCHEDULE
extern const struct schedule *const schedules[]; /* [schedules_n] */
extern const size_t schedules_n;
const char *schedule_name(size_t i); /* NULL from schedules_n on */

/* Most steps of a list. */
static inline size_t schedule_steps(const struct schedule *s, const struct schedule_place *at)
{
    return (s->split ? 3 : 2) * (size_t)at->chunks * at->microbatches;
}

/* Where stages are: team and chunk of stage s, and stage of a team's chunk. */
static inline uint32_t schedule_team(const struct schedule *s, uint32_t teams, uint32_t stage)
{
    return s->vee && stage / teams % 2 == 1 ? teams - 1 - stage % teams : stage % teams;
}
static inline uint32_t schedule_stage(const struct schedule *s, uint32_t teams, uint32_t team,
                                      uint32_t chunk)
{
    return chunk * teams + (s->vee && chunk % 2 == 1 ? teams - 1 - team : team);
}
/* May every team have so many stages? */
static inline bool schedule_allows(const struct schedule *s, size_t chunks)
{
    return s->vee ? chunks == 2 : chunks == 1 || s->chunked;
}

/* The usual schedule's name, for stages in chunks or not. */
const char *schedule_usual(bool chunked);
/* STATUS_INVALID lists the known names. */
enum status schedule_find(const char *name, const struct schedule **out) MUST_CHECK;

#endif
