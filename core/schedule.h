/* schedule.h - pipeline schedules: the order of compute ops of a stage. A schedule is a
 * file core/schedule/NAME.c that defines schedule_NAME, and a line of core/schedule/schedules.def.
 *
 * A pipeline has `teams`: the ranks that share a list of stages. Most schedules give each team one
 * stage; with `chunks` > 1 team i has the stages i, i + teams, i + 2 teams, ... ("virtual stages"),
 * which one list orders together. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct schedule_step {
    uint8_t kind;        /* OP_FORWARD, OP_BACKWARD, or its two halves */
    uint32_t chunk;      /* which of the team's stages */
    uint32_t microbatch; /* 0 .. microbatches - 1 */
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
    bool split;        /* BACKWARD_INPUT and BACKWARD_WEIGHT instead of BACKWARD */
    bool asynchronous; /* every backward is followed by an update: no flush, stashed weights */
    bool searched;     /* `auto` tries it: same mathematics as the others, worth a try */
    bool usual;        /* of plans that name no schedule, with or without chunks */
    /* Fill steps[schedule_steps()]: every (chunk, microbatch) once forward and once backward (or
     * once in each half); the backwards of a chunk in ascending order, so that gradients add up in
     * the same order whatever the schedule. */
    void (*order)(const struct schedule_place *at, struct schedule_step *steps);
};

#define SCHEDULE(name) extern const struct schedule schedule_##name;
#include "core/schedule/schedules.def"
#undef SCHEDULE
extern const struct schedule *const schedules[]; /* [schedules_n] */
extern const size_t schedules_n;
const char *schedule_name(size_t i);

static inline size_t schedule_steps(const struct schedule *s, const struct schedule_place *at)
{
    return (s->split ? 3 : 2) * (size_t)at->chunks * at->microbatches;
}

/* The usual schedule's name, for stages in chunks or not. */
const char *schedule_usual(bool chunked);
/* STATUS_INVALID lists the known names. */
enum status schedule_find(const char *name, const struct schedule **out) MUST_CHECK;

#endif
