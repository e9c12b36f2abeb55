/* The order of compute ops of every list, and whether it goes on in the same way with more
 * microbatches. */
#include "core/lower/lowering.h"

#include <stdlib.h>

#include "core/base/array.h"

/* Do all stages have equally many replicas, and these equally many microbatches? Those that share
 * sequences have the same ones. */
static bool is_even(const struct plan *p, uint32_t teams)
{
    for (uint32_t t = 1; t < teams; t++)
        if (p->stage[t].replicas != p->stage[0].replicas)
            return false;
    return p->microbatches % plan_streams(&p->stage[0]) == 0;
}

bool lowering_is_even(const struct lowering *l)
{
    return is_even(l->plan, l->shape.teams);
}

/* PipeDream's warm-up is floor((all ranks of this stage and later ones - 1) / its own), where a
 * plan does not say another. */
uint32_t lowering_depth(const struct plan *p, uint32_t teams, uint32_t team)
{
    uint32_t ahead = 0;
    for (uint32_t t = team; t < teams; t++)
        ahead += p->stage[t].replicas;
    return p->stage[team].depth > 0 ? p->stage[team].depth
                                    : (ahead - 1) / p->stage[team].replicas + 1;
}

struct schedule_place plan_lower_place(const struct plan *p, uint32_t teams, uint32_t team)
{
    bool even = is_even(p, teams);
    struct schedule_place at = {.teams = teams,
                                .team = team,
                                .chunks = (uint32_t)p->stages / teams,
                                .microbatches =
                                    p->microbatches / (even ? plan_streams(&p->stage[team]) : 1)};
    for (uint32_t t = team; t < teams; t++)
        at.depth += even ? 1 : p->stage[t].replicas;
    if (p->stage[team].depth > 0)
        at.depth = p->stage[team].depth * (even ? 1 : p->stage[team].replicas);
    return at;
}

static bool is_shifted(const struct schedule_step *a, const struct schedule_step *b, uint32_t by)
{
    return a->kind == b->kind && a->chunk == b->chunk && a->paired == b->paired &&
           b->microbatch - a->microbatch == by;
}

/* Does `more` repeat what `fewer` does in its middle? That is, are they the same from the start up
 * to some place, the same from some place to the end but for `added` microbatches, and do the
 * steps that only `more` has, and the recurrence before them, repeat every `unit` microbatches? */
static bool steps_continue(const struct schedule_step *fewer, size_t n,
                           const struct schedule_step *more, size_t m, uint32_t unit,
                           uint32_t added)
{
    size_t head = 0, tail = 0, recurrence = (m - n) / (added / unit);
    while (head < n && is_shifted(&fewer[head], &more[head], 0))
        head++;
    while (tail < n && is_shifted(&fewer[n - 1 - tail], &more[m - 1 - tail], added))
        tail++;
    if (head + tail < n + recurrence || head < recurrence)
        return false;
    for (size_t i = head; i < m - tail; i++)
        if (!is_shifted(&more[i - recurrence], &more[i], unit))
            return false;
    return true;
}

/* The steps of a team at once, or of one of its replicas when all have the same. */
static enum status steps_list(const struct plan *p, const struct schedule *schedule, uint32_t teams,
                              uint32_t team, struct schedule_step **out, size_t *n)
{
    const struct schedule_place at = plan_lower_place(p, teams, team);
    *n = schedule_steps(schedule, &at);
    PASS(ARRAY_NEW(*out, *n));
    *n = schedule->order(&at, *out);
    return STATUS_OK;
}

enum status plan_lower_repeats(const struct plan *p, uint32_t fewer, uint32_t unit, bool *out)
{
    enum status st;
    struct plan shorter = *p; /* borrows all */
    struct schedule_step *a = NULL, *b = NULL;
    const struct schedule *schedule;
    uint32_t *team_of = NULL;
    bool repeats = true;
    shorter.microbatches = fewer;
    TRY(schedule_find(p->schedule, &schedule));
    TRY(ARRAY_NEW(team_of, p->stages));
    uint32_t teams = plan_teams(p, team_of), added = p->microbatches - fewer;
    for (uint32_t t = 0; t < teams && repeats; t++) {
        uint32_t each = is_even(p, teams) ? plan_streams(&p->stage[t]) : 1; /* steps: a replica's */
        size_t n, m;
        TRY(steps_list(&shorter, schedule, teams, t, &a, &n));
        TRY(steps_list(p, schedule, teams, t, &b, &m));
        repeats = is_even(p, teams) == is_even(&shorter, teams) &&
                  steps_continue(a, n, b, m, unit / each, added / each);
        free(a);
        free(b);
        a = b = NULL;
    }
    *out = repeats;
out:
    free(a);
    free(b);
    free(team_of);
    return st;
}
