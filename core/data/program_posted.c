/* Captured programs in list order, with communication that is posted and waited for. */
#include "core/data/program_posted.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/ready.h"

struct posted_replay {
    const struct program *p;
    size_t *at;     /* [ranks] next op */
    bool *posted;   /* [ops] */
    bool *complete; /* [ops] */
    struct ready ready;
};

/* The first op that i depends on and that is not complete, PROGRAM_NONE: all are. */
static uint32_t posted_missing(const struct posted_replay *s, size_t i)
{
    for (uint32_t d = s->p->op[i].dep_start; d < s->p->op[i + 1].dep_start; d++)
        if (!s->complete[s->p->dep[d]])
            return s->p->dep[d];
    return PROGRAM_NONE;
}

/* An op is posted: when all of its other sides are, they are complete, and their ranks go on. */
static void posted_put(struct posted_replay *s, size_t i)
{
    const struct program *p = s->p;
    s->posted[i] = true;
    if (op_computes(&p->op[i])) {
        s->complete[i] = true;
        return;
    }
    for (size_t k = p->op[i].match; k != i; k = p->op[k].match)
        if (!s->posted[k])
            return;
    size_t k = i;
    do {
        s->complete[k] = true;
        ready_put(&s->ready, program_rank_of(p, k));
    } while ((k = p->op[k].match) != i);
}

static enum status posted_report(const struct posted_replay *s, uint32_t rank)
{
    char label[OP_LABEL];
    const struct program *p = s->p;
    const struct program_op *o = &p->op[posted_missing(s, s->at[rank])];
    size_t other = o->match;
    while (s->posted[other])
        other = p->op[other].match;
    uint32_t late = program_rank_of(p, other);
    return error_set(STATUS_INVALID,
                     "deadlock: rank %u (%s) waits for its %s, which rank %u (%s) never reaches",
                     rank, p->rank[rank].name, op_label(o, label), late, p->rank[late].name);
}

enum status program_replay_posted(const struct program *p)
{
    enum status st;
    struct posted_replay s = {.p = p};
    uint32_t rank;
    TRY(ready_init(&s.ready, (uint32_t)p->ranks));
    TRY(ARRAY_COPY(s.at, p->op_start, p->ranks));
    TRY(ARRAY_NEW(s.posted, p->ops + 1));
    TRY(ARRAY_NEW(s.complete, p->ops + 1));
    for (uint32_t r = 0; r < p->ranks; r++)
        ready_put(&s.ready, r);
    while (ready_take(&s.ready, &rank))
        while (s.at[rank] < p->op_start[rank + 1] && posted_missing(&s, s.at[rank]) == PROGRAM_NONE)
            posted_put(&s, s.at[rank]++);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (s.at[r] < p->op_start[r + 1])
            TRY(posted_report(&s, r));
out:
    free(s.complete);
    free(s.posted);
    free(s.at);
    ready_free(&s.ready);
    return st;
}
