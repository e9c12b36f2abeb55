/* The thread of collectives: rounds of exec/rounds.h in one memory. */
#include <math.h>

#include "core/base/clock.h"
#include "exec/transport/local/local.h"

/* Note why a collective failed, and wake the rank; the first reason counts. The mutex is held. */
static void local_collect_fail(struct local *t, uint32_t op, uint32_t peer, enum status st)
{
    endpoints_fail(&t->links, st, op, peer);
    local_wake(t->hub, t->links.rank);
}

static struct rounds_call local_rounds(const struct local *t, const struct local_call *own)
{
    return endpoints_rounds(&t->links, own->op, own->n);
}

static uint32_t local_rank_of(const struct local *t, const struct local_call *own, uint32_t member)
{
    return t->links.group[t->hub->program->op[own->op].peer].member[member];
}

/* Wait until `is_true`; false: stop, with a failure noted unless the rank itself stops. The mutex
 * is held. */
static bool wait_until(struct local *t, const struct local_call *own,
                       bool (*is_true)(const struct local *t, const struct local_call *own))
{
    struct local_hub *h = t->hub;
    uint32_t group = h->program->op[own->op].peer;
    while (!t->stopping && !is_true(t, own)) {
        uint32_t gone = local_leaver(h, group);
        if (gone != PROGRAM_NONE) {
            enum status st = error_set(STATUS_IO, "rank %u has exited", gone);
            local_collect_fail(t, own->op, gone, st);
            return false;
        }
        if (!local_sleep(h, t->links.rank, own->deadline_s)) {
            enum status st = error_set(
                STATUS_EXTERNAL,
                "timeout: no data from the peer within the time limit; raise it with --timeout");
            local_collect_fail(t, own->op, local_rank_of(t, own, 0), st);
            return false;
        }
    }
    return !t->stopping;
}

/* Has the giver what I take next? */
static bool local_is_given(const struct local *t, const struct local_call *own)
{
    const struct program *p = t->hub->program;
    const struct rounds_call rounds = local_rounds(t, own);
    uint32_t from = local_rank_of(t, own, rounds_at(&rounds, own->round).from);
    const struct local_call *c = &t->hub->rank[from].call;
    return c->active && p->op[c->op].peer == p->op[own->op].peer && c->number == own->number &&
           c->round >= own->round;
}

/* Have all that I give to taken everything? */
static bool is_taken(const struct local *t, const struct local_call *own)
{
    uint32_t group = t->hub->program->op[own->op].peer;
    const struct rounds_call rounds = local_rounds(t, own);
    for (size_t k = 0; k < rounds_count(&rounds); k++) {
        uint32_t to = rounds_at(&rounds, k).to;
        if (to != ROUND_NOBODY &&
            t->hub->rank[local_rank_of(t, own, to)].done[group] <= own->number)
            return false;
    }
    return true;
}

/* Those members of a group look again that the rank ever gives to, or takes from. The mutex is
 * held. */
static void wake_partners(struct local *t, uint32_t group, const bool *partner)
{
    const struct link_group *g = &t->links.group[group];
    for (size_t k = 0; k < g->ranks; k++)
        if (partner[g->first + k])
            local_wake(t->hub, g->member[k]);
}

/* Take a part from the giver's array, which it leaves in place meanwhile. */
static enum status local_take_part(struct local *t, const struct local_call *own,
                                   const struct round *r, const struct local_rank *from, void *data)
{
    const struct local_memory *m = t->hub->memory;
    enum element e = own->element;
    struct rounds_call giver = local_rounds(t, own);
    giver.me = r->from;
    void *to = element_at(e, data, r->take.first);
    const void *given = element_at(e, from->call.data, rounds_at(&giver, own->round).give.first);
    if (from->call.n != own->n || from->call.element != e)
        return error_set(
            STATUS_INVALID,
            "the peer sends %zu elements of %zu bytes, expected %zu elements of %zu bytes",
            from->call.n, element_bytes(from->call.element), own->n, element_bytes(e));
    PASS(m->follow(from->mark));
    PASS(r->adds ? m->reduce(e, giver.reduction, to, given, r->take.n)
                 : m->copy(to, given, r->take.n * element_bytes(e)));
    return m->record(t->hub->rank[t->links.rank].mark);
}

/* The taking half of a round; false: the collector must end. The mutex is held, but not while data
 * moves. */
static bool local_take_round(struct local *t, struct local_call *c, const struct round *r,
                             void *data)
{
    struct local_hub *h = t->hub;
    uint32_t from = local_rank_of(t, c, r->from);
    if (!wait_until(t, c, local_is_given))
        return false;
    h->rank[from].readers++;
    pthread_mutex_unlock(&h->mutex);
    enum status st = local_take_part(t, c, r, &h->rank[from], data);
    local_lock(h);
    if (--h->rank[from].readers == 0 && h->rank[from].left)
        local_wake(h, from); /* which waits for that, and only then */
    if (st != STATUS_OK)
        local_collect_fail(t, c->op, from, st);
    return st == STATUS_OK;
}

/* All rounds; false: the collector must end. The mutex is held, but not while data moves. */
static bool do_rounds(struct local *t, void *data)
{
    struct local_hub *h = t->hub;
    struct local_rank *self = &h->rank[t->links.rank];
    struct local_call *c = &self->call;
    const struct rounds_call rounds = local_rounds(t, c);
    uint32_t group = h->program->op[c->op].peer;
    while (c->round < rounds_count(&rounds)) {
        struct round r = rounds_at(&rounds, c->round);
        if (r.from != ROUND_NOBODY && !local_take_round(t, c, &r, data))
            return false;
        c->round++;
        wake_partners(t, group, t->links.gives);
    }
    self->done[group]++;
    wake_partners(t, group, t->links.takes);
    return wait_until(t, c, is_taken);
}

/* What is queued next comes after all that others have taken from this rank's array. */
static enum status follow_takers(struct local *t, const struct local_call *c)
{
    const struct link_group *g = &t->links.group[t->hub->program->op[c->op].peer];
    for (size_t k = 0; k < g->ranks; k++)
        if (t->links.gives[g->first + k])
            PASS(t->hub->memory->follow(t->hub->rank[g->member[k]].mark));
    return STATUS_OK;
}

bool local_serve(struct local *t, const struct link_call *r, bool queued, double deadline_s)
{
    struct local_hub *h = t->hub;
    const struct local_memory *m = h->memory;
    struct local_rank *self = &h->rank[t->links.rank];
    uint32_t group = h->program->op[r->op].peer;
    enum status st;
    double start_s = clock_now();
    TRY(m->follow(t->mark[r->op - t->links.first]));
    if (endpoints_op(&t->links, r->op)->calls == 1)
        TRY(m->record(t->begin[r->op - t->links.first]));
    TRY(m->record(self->mark));
    self->call = (struct local_call){.active = true,
                                     .op = r->op,
                                     .element = r->element,
                                     .data = r->data,
                                     .n = r->n,
                                     .deadline_s = deadline_s,
                                     .number = t->calls[group]++};
    wake_partners(t, group, t->links.gives);
    if (!do_rounds(t, r->data))
        return false;
    const struct rounds_call rounds = local_rounds(t, &self->call);
    pthread_mutex_unlock(&h->mutex);
    st = m->end(&rounds, r->element, r->data);
    local_lock(h);
    TRY(st);
    TRY(follow_takers(t, &self->call));
    TRY(m->record(t->mark[r->op - t->links.first]));
    self->call.active = false;
    t->links.served += queued;
    endpoints_complete(&t->links, r->op, start_s, clock_now());
    local_wake(h, t->links.rank);
out:
    if (st != STATUS_OK)
        local_collect_fail(t, r->op, t->links.rank, st);
    return st == STATUS_OK;
}

/* Between calls the thread sleeps on a condition of its own: what happens to the rank then wakes
 * the rank alone. */
void *local_collector(void *local)
{
    struct local *t = local;
    struct local_hub *h = t->hub;
    enum status st = h->memory->enter(t->memory);
    local_lock(h);
    if (st != STATUS_OK)
        local_collect_fail(t, (uint32_t)t->links.first, t->links.rank, st);
    while (st == STATUS_OK && !t->stopping) {
        const struct link_call *next = endpoints_next_call(&t->links);
        if (!next) {
            pthread_cond_wait(&t->asked, &h->mutex);
            continue;
        }
        struct link_call c = *next;
        if (!local_serve(t, &c, true, (double)INFINITY))
            break;
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}
