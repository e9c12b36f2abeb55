/* Streams that wait for ops, and ops that wake streams. */
#include "core/engine/replay.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"

/* ---- what is known */

/* The moment at which everything that op i depends on has ended, at least *when; false when that is
 * not known yet, and the stream will be called again. */
static bool replay_is_ready(struct replay *s, size_t i, uint32_t stream, double *when)
{
    const struct program *p = s->p;
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        uint32_t op = p->dep[d];
        double end = s->end[op];
        if (isnan(end)) {
            s->stream[stream].next_wait = s->waiting[op];
            s->waiting[op] = stream;
            return false;
        }
        *when = end > *when ? end : *when;
    }
    return true;
}

/* The times of an op are known: who waits for it may go on. */
static void replay_complete(struct replay *s, size_t i, double start, double end)
{
    s->start[i] = start;
    s->end[i] = end;
    s->completed++;
    for (uint32_t w = s->waiting[i]; w != PROGRAM_NONE; w = s->stream[w].next_wait)
        ready_put(&s->ready, w);
}

/* ---- streams */

/* A rank: one compute op after the other. */
static void replay_compute(struct replay *s, uint32_t rank)
{
    struct replay_stream *me = &s->stream[rank];
    for (; me->at != PROGRAM_NONE; me->at = s->next[me->at]) {
        double start = me->free_s;
        if (!replay_is_ready(s, me->at, rank, &start))
            return;
        me->free_s = start + s->p->op[me->at].seconds;
        replay_complete(s, me->at, start, me->free_s);
    }
}

/* The message at hand of a channel has left at `sent`; the receiver has it one latency later. */
static void arrive(struct replay *s, uint32_t channel, double start, double sent)
{
    struct replay_stream *me = &s->stream[s->p->ranks + channel];
    uint32_t i = me->at;
    me->free_s = sent;
    me->at = s->next[i];
    s->messages++;
    replay_complete(s, i, start, sent);
    replay_complete(s, s->p->op[i].match, start, sent + s->latency_s[channel]);
}

/* A channel: one message after the other, in the order of the sender's list. One that may meet
 * others starts by the clock. */
static void send(struct replay *s, uint32_t channel)
{
    uint32_t self = (uint32_t)s->p->ranks + channel;
    struct replay_stream *me = &s->stream[self];
    while (me->at != PROGRAM_NONE) {
        double start = me->free_s;
        if (!replay_is_ready(s, me->at, self, &start))
            return;
        if (s->p->captured && !replay_is_ready(s, s->p->op[me->at].match, self, &start))
            return;
        double bytes = (double)s->p->op[me->at].bytes;
        if (bytes > 0 && !(s->alone && s->alone[channel])) {
            s->start[me->at] = start;
            events_put(&s->events, start, self);
            return;
        }
        arrive(s, channel, start, bytes > 0 ? start + bytes / s->bound_Bps[channel] : start);
    }
}

/* The collective at hand of a group has ended for all members. */
static void replay_end_collective(struct replay *s, uint32_t group, double start, double end)
{
    struct replay_stream *me = &s->stream[s->p->ranks + s->p->channels + group];
    const struct program_op *o = &s->p->op[me->at];
    uint32_t first = me->at, i = first;
    s->messages += o->count * s->shapes->shaped[s->meeting[group].shape].shape.flows;
    me->free_s = end;
    me->at = s->next[first];
    s->meeting[group] = (struct replay_meeting){.member = me->at};
    do
        replay_complete(s, i, start, end);
    while ((i = s->p->op[i].match) != first);
}

/* A group: one collective after the other, each when all its members are ready. */
static void replay_enter_collective(struct replay *s, uint32_t group)
{
    const struct program *p = s->p;
    uint32_t self = (uint32_t)(p->ranks + p->channels) + group;
    struct replay_stream *me = &s->stream[self];
    struct replay_meeting *m = &s->meeting[group];
    while (me->at != PROGRAM_NONE) {
        do {
            if (!replay_is_ready(s, m->member, self, &m->ready_s))
                return;
        } while ((m->member = p->op[m->member].match) != me->at);
        double start = fmax(me->free_s, m->ready_s);
        const struct program_op *o = &p->op[me->at];
        m->shape = shapes_number(s->shapes, o);
        const struct collective_shape *shape = &s->shapes->shaped[m->shape].shape;
        if (shape->phases > 0 && !(s->alone && s->alone[p->channels + group])) {
            s->start[me->at] = start;
            events_put(&s->events, start, self);
            return;
        }
        replay_end_collective(s, group, start, start + o->count * shape->seconds);
    }
}

/* Which kind of stream it is follows from its number: ranks, channels, groups. */
static void replay_advance(struct replay *s, uint32_t stream)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    if (stream < ranks)
        replay_compute(s, stream);
    else if (stream < ranks + channels)
        send(s, (uint32_t)(stream - ranks));
    else
        replay_enter_collective(s, (uint32_t)(stream - ranks - channels));
}

/* ---- by the clock */

/* The next phase of a group's collective begins, or all are over. */
static void begin_phase(struct replay *s, uint32_t group, double now)
{
    uint32_t self = (uint32_t)(s->p->ranks + s->p->channels) + group;
    struct replay_meeting *m = &s->meeting[group];
    const struct collective_shape *shape = &s->shapes->shaped[m->shape].shape;
    const struct program_op *o = &s->p->op[s->stream[self].at];
    if (m->phase == shape->phases) {
        replay_end_collective(s, group, s->start[s->stream[self].at], now);
        ready_put(&s->ready, self);
        return;
    }
    const struct collective_phase *phase = &shape->phase[m->phase];
    size_t *flying = &s->stream[self].flying;
    *flying = 0;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++)
        *flying +=
            s->fly(s->context, &(struct replay_flow){.stream = self,
                                                     .shape = m->shape,
                                                     .flow = f,
                                                     .bytes = o->count * shape->flow[f].bytes,
                                                     .now_s = now});
    if (*flying == 0) {
        m->phase++;
        events_put(&s->events, now + o->count * phase->latency_s, self);
    }
}

/* The earliest of what waits to begin: a message, or the next phase of a collective. Its stream is
 * called again when it has landed. */
void replay_begin(struct replay *s, double now)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    uint32_t stream = events_take(&s->events);
    if (stream >= ranks + channels) {
        begin_phase(s, (uint32_t)(stream - ranks - channels), now);
        return;
    }
    s->stream[stream].flying = s->fly(
        s->context, &(struct replay_flow){.stream = stream,
                                          .channel = (uint32_t)(stream - ranks),
                                          .is_message = true,
                                          .bytes = (double)s->p->op[s->stream[stream].at].bytes,
                                          .now_s = now});
}

/* The last flow of a phase lets its latency pass; a message lets its receiver go on. */
void replay_land(struct replay *s, uint32_t stream, double now)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    if (--s->stream[stream].flying > 0)
        return;
    if (stream < ranks + channels) {
        arrive(s, (uint32_t)(stream - ranks), s->start[s->stream[stream].at], now);
        ready_put(&s->ready, stream);
        return;
    }
    struct replay_meeting *m = &s->meeting[stream - ranks - channels];
    const struct program_op *o = &s->p->op[s->stream[stream].at];
    double latency_s = s->shapes->shaped[m->shape].shape.phase[m->phase++].latency_s;
    events_put(&s->events, now + o->count * latency_s, stream);
}

/* Work out all that needs no clock, until every stream waits for something under way. */
void replay_known(struct replay *s)
{
    uint32_t stream;
    while (ready_take(&s->ready, &stream))
        replay_advance(s, stream);
}

/* ---- the state */

/* Thread the ops of every stream, from the last one to the first. Receives belong to no stream, nor
 * do collectives but for their group's first member. */
static void thread_streams(struct replay *s)
{
    const struct program *p = s->p;
    for (size_t k = 0; k < s->streams; k++)
        s->stream[k].at = PROGRAM_NONE;
    for (uint32_t r = (uint32_t)p->ranks; r-- > 0;)
        for (size_t i = p->op_start[r + 1]; i-- > p->op_start[r];) {
            const struct program_op *o = &p->op[i];
            size_t stream = r;
            if (o->kind == OP_RECV ||
                (op_is_collective(o) && p->member[p->group_start[o->peer]] != r))
                continue;
            if (o->kind == OP_SEND)
                stream = p->ranks + o->channel;
            else if (op_is_collective(o))
                stream = p->ranks + p->channels + o->peer;
            s->next[i] = s->stream[stream].at;
            s->stream[stream].at = (uint32_t)i;
        }
    for (size_t g = 0; g < p->groups; g++)
        s->meeting[g].member = s->stream[p->ranks + p->channels + g].at;
}

enum status replay_open(const struct program *p, const struct topology *t, struct replay *s)
{
    s->p = p;
    s->streams = p->ranks + p->channels + p->groups;
    PASS(ARRAY_NEW(s->next, p->ops + 1));
    PASS(ARRAY_NEW(s->waiting, p->ops + 1));
    PASS(ARRAY_NEW(s->stream, s->streams + 1));
    PASS(ARRAY_NEW(s->meeting, p->groups + 1));
    PASS(ARRAY_NEW(s->latency_s, p->channels + 1));
    PASS(events_init(&s->events, s->streams));
    PASS(ready_init(&s->ready, (uint32_t)s->streams));
    for (size_t c = 0; c < p->channels; c++)
        s->latency_s[c] = topology_between(t, p->rank[p->channel[c].from].device,
                                           p->rank[p->channel[c].to].device)
                              ->latency_s;
    for (size_t i = 0; i < p->ops; i++) {
        s->end[i] = NAN;
        s->waiting[i] = PROGRAM_NONE;
    }
    thread_streams(s);
    for (uint32_t k = 0; k < s->streams; k++)
        ready_put(&s->ready, k);
    return STATUS_OK;
}

void replay_close(struct replay *s)
{
    events_free(&s->events);
    ready_free(&s->ready);
    free(s->next);
    free(s->waiting);
    free(s->stream);
    free(s->meeting);
    free(s->latency_s);
}
