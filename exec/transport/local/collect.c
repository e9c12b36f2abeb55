/* The collectives of exec/ring.h in one memory. */
#include <stdio.h>

#include "core/clock.h"
#include "exec/ring.h"
#include "exec/transport/local/local.h"

/* Note why a collective failed, and wake the rank; the first reason counts. The mutex is held. */
static void fail(struct local *t, uint32_t op, uint32_t peer, enum status st)
{
    char label[OP_LABEL];
    if (t->failure == STATUS_OK) {
        t->failure = st;
        snprintf(t->reason, sizeof t->reason, "rank %u: %s with rank %u: %.300s", t->links.rank,
                 op_label(&t->hub->program->op[op], label), peer, error_message());
    }
    local_wake(t->hub, t->links.rank);
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
            enum status st = error_set(STATUS_IO, "it has ended");
            fail(t, own->op, gone, st);
            return false;
        }
        pthread_cond_wait(&h->rank[t->links.rank].changed, &h->mutex);
    }
    return !t->stopping;
}

static const struct link_ring *ring_of(const struct local *t, const struct local_call *own)
{
    return &t->links.ring[t->hub->program->op[own->op].peer];
}

/* Has the previous member what I take next? */
static bool is_given(const struct local *t, const struct local_call *own)
{
    const struct program *p = t->hub->program;
    const struct local_call *c = &t->hub->rank[ring_of(t, own)->previous].call;
    return c->active && p->op[c->op].peer == p->op[own->op].peer && c->number == own->number &&
           c->round >= own->round;
}

/* Has the next member taken everything? */
static bool is_taken(const struct local *t, const struct local_call *own)
{
    uint32_t group = t->hub->program->op[own->op].peer;
    return t->hub->rank[ring_of(t, own)->next].done[group] > own->number;
}

/* Take a chunk from the previous member's array, which it leaves in place meanwhile. */
static enum status take(struct local *t, const struct local_call *own, float *data)
{
    enum status st = STATUS_OK;
    const struct link_ring *g = ring_of(t, own);
    const struct local_rank *from = &t->hub->rank[g->previous];
    const struct local_memory *m = t->hub->memory;
    struct ring_part part = ring_takes(own->n, g->ranks, g->me, own->round);
    if (from->call.n != own->n)
        return error_set(STATUS_INVALID, "%zu floats, not %zu", from->call.n, own->n);
    TRY(m->follow(from->mark));
    if (ring_adds(g->ranks, own->round))
        TRY(m->add(data + part.first, from->call.data + part.first, part.n));
    else
        TRY(m->copy(data + part.first, from->call.data + part.first, part.n));
    TRY(m->record(t->hub->rank[t->links.rank].mark));
out:
    return st;
}

/* All rounds; false: the collector must end. The mutex is held, but not while data moves. */
static bool do_rounds(struct local *t, float *data)
{
    struct local_hub *h = t->hub;
    struct local_rank *self = &h->rank[t->links.rank];
    struct local_call *c = &self->call;
    const struct link_ring *g = ring_of(t, c);
    const struct program_op *op = &h->program->op[c->op];
    while (c->round < ring_end(g->ranks, op)) {
        if (!wait_until(t, c, is_given))
            return false;
        h->rank[g->previous].readers++;
        pthread_mutex_unlock(&h->mutex);
        enum status st = take(t, c, data);
        pthread_mutex_lock(&h->mutex);
        h->rank[g->previous].readers--;
        local_wake(h, g->previous);
        if (st != STATUS_OK) {
            fail(t, c->op, g->previous, st);
            return false;
        }
        c->round++;
        local_wake(h, g->next);
    }
    self->done[op->peer]++;
    local_wake(h, g->previous);
    return g->ranks < 2 || wait_until(t, c, is_taken);
}

/* One call from beginning to end. The mutex is held. */
static bool serve(struct local *t, const struct local_request *r)
{
    struct local_hub *h = t->hub;
    const struct local_memory *m = h->memory;
    struct local_rank *self = &h->rank[t->links.rank];
    const struct program_op *op = &h->program->op[r->op];
    const struct link_ring *g = &t->links.ring[op->peer];
    enum status st;
    double start_s = clock_now();
    TRY(m->follow(t->mark[r->op - t->links.first]));
    TRY(m->record(self->mark));
    self->call = (struct local_call){.active = true,
                                     .op = r->op,
                                     .data = r->data,
                                     .n = r->n,
                                     .number = t->calls[op->peer]++,
                                     .round = ring_begin(g->ranks, op)};
    local_wake(h, g->next);
    if (!do_rounds(t, r->data))
        return false;
    TRY(m->follow(h->rank[g->next].mark));
    TRY(m->record(t->mark[r->op - t->links.first]));
    self->call.active = false;
    t->served++;
    endpoints_complete(&t->links, r->op, start_s, clock_now());
    local_wake(h, t->links.rank);
out:
    if (st != STATUS_OK)
        fail(t, r->op, t->links.rank, st);
    return st == STATUS_OK;
}

void *local_collector(void *local)
{
    struct local *t = local;
    struct local_hub *h = t->hub;
    enum status st = h->memory->enter(t->place);
    pthread_mutex_lock(&h->mutex);
    if (st != STATUS_OK)
        fail(t, (uint32_t)t->links.first, t->links.rank, st);
    while (st == STATUS_OK && !t->stopping) {
        if (t->served == t->requests) {
            pthread_cond_wait(&h->rank[t->links.rank].changed, &h->mutex);
            continue;
        }
        struct local_request r = t->request[t->served % t->links.collectives];
        if (!serve(t, &r))
            break;
    }
    pthread_mutex_unlock(&h->mutex);
    return NULL;
}
