/* analytic - a replay of the program with fair shares of the links that can be contended.
 *
 * What can meet nobody on a full link (flows.h) takes its closed form: its end is known as soon as
 * what it depends on is, without a clock, so that a program without contention is its longest path.
 * The others start and end on a clock: whatever can be known without it is worked out first, then
 * the earliest start or end happens. Links are shared as SimGrid shares them (docs/decisions/0001),
 * latencies are charged on arrival.
 *
 * Ranks, channels and groups are streams: each works through its ops in the order of the list
 * and waits for what the next one depends on. O(ops) where nothing is contended; else what
 * sharing.h takes for each start and end. */
#include "sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/ready.h"
#include "core/text.h"
#include "sim/events.h"
#include "sim/flows.h"
#include "sim/pairs.h"

/* Something that does one op after the other: rank r, channel ranks + c, group ranks + channels
 * + g. */
struct stream {
    uint32_t at;        /* op: of a group, its first member's; PROGRAM_NONE: at its end */
    uint32_t next_wait; /* stream that waits for the same op */
    double free_s;      /* end of the op before */
};

/* What else a group knows about the collective at hand. */
struct meeting {
    uint32_t member; /* op of the member whose dependencies are looked at */
    double ready_s;  /* of the members before it */
    size_t shape;
    size_t phase, flying;
};

struct state {
    const struct program *p;
    const struct topology *t;
    double *start, *end; /* [ops] end NAN: not known yet */
    uint32_t *next;      /* [ops] in its stream; of a collective, for the group's first member */
    uint32_t *waiting;   /* [ops] first stream that waits for the op's end */
    size_t streams;
    struct stream *stream;   /* [streams] */
    struct meeting *meeting; /* [groups] */
    double *latency_s;       /* [channels] */
    struct shapes shapes;
    struct pair *pair;
    size_t pairs;
    struct flows flows;
    struct sharing *sharing;
    uint32_t *carried;    /* [slots] stream whose flow it carries */
    struct events events; /* starts of messages and phases, by stream */
    struct ready ready;
    size_t messages;
};

/* ---- what is known */

/* The moment at which everything that op i depends on has ended, at least *when; false when that is
 * not known yet, and the stream will be called again. */
static bool is_ready(struct state *s, size_t i, uint32_t stream, double *when)
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

static void complete(struct state *s, size_t i, double start, double end)
{
    s->start[i] = start;
    s->end[i] = end;
    for (uint32_t w = s->waiting[i]; w != PROGRAM_NONE; w = s->stream[w].next_wait)
        ready_put(&s->ready, w);
}

/* ---- streams */

/* A rank: one compute op after the other. */
static void compute(struct state *s, uint32_t rank)
{
    struct stream *me = &s->stream[rank];
    for (; me->at != PROGRAM_NONE; me->at = s->next[me->at]) {
        double start = me->free_s;
        if (!is_ready(s, me->at, rank, &start))
            return;
        me->free_s = start + s->p->op[me->at].seconds;
        complete(s, me->at, start, me->free_s);
    }
}

/* The message at hand of a channel has left at `sent`; the receiver has it one latency later. */
static void arrive(struct state *s, uint32_t channel, double start, double sent)
{
    struct stream *me = &s->stream[s->p->ranks + channel];
    uint32_t i = me->at;
    me->free_s = sent;
    me->at = s->next[i];
    s->messages++;
    complete(s, i, start, sent);
    complete(s, s->p->op[i].match, start, sent + s->latency_s[channel]);
}

/* A channel: one message after the other, in the order of the sender's list. One that may meet
 * others starts by the clock. */
static void send(struct state *s, uint32_t channel)
{
    uint32_t self = (uint32_t)s->p->ranks + channel;
    struct stream *me = &s->stream[self];
    while (me->at != PROGRAM_NONE) {
        double start = me->free_s;
        if (!is_ready(s, me->at, self, &start))
            return;
        double bytes = (double)s->p->op[me->at].bytes;
        if (!s->flows.alone[channel] && bytes > 0) {
            s->start[me->at] = start;
            events_put(&s->events, start, self);
            return;
        }
        arrive(s, channel, start, start + bytes / s->flows.bound_Bps[channel]);
    }
}

/* The collective at hand of a group has ended for all members. */
static void part(struct state *s, uint32_t group, double start, double end)
{
    struct stream *me = &s->stream[s->p->ranks + s->p->channels + group];
    const struct program_op *o = &s->p->op[me->at];
    uint32_t first = me->at, i = first;
    s->messages += o->count * s->shapes.shaped[s->meeting[group].shape].shape.flows;
    me->free_s = end;
    me->at = s->next[first];
    s->meeting[group] = (struct meeting){.member = me->at};
    do
        complete(s, i, start, end);
    while ((i = s->p->op[i].match) != first);
}

/* A group: one collective after the other, each when all its members are ready. */
static void gather(struct state *s, uint32_t group)
{
    const struct program *p = s->p;
    uint32_t self = (uint32_t)(p->ranks + p->channels) + group;
    struct stream *me = &s->stream[self];
    struct meeting *m = &s->meeting[group];
    while (me->at != PROGRAM_NONE) {
        do {
            if (!is_ready(s, m->member, self, &m->ready_s))
                return;
        } while ((m->member = p->op[m->member].match) != me->at);
        double start = fmax(me->free_s, m->ready_s);
        const struct program_op *o = &p->op[me->at];
        m->shape = shapes_number(&s->shapes, o);
        const struct collective_shape *shape = &s->shapes.shaped[m->shape].shape;
        if (!s->flows.alone[p->channels + group] && shape->phases > 0) {
            s->start[me->at] = start;
            events_put(&s->events, start, self);
            return;
        }
        part(s, group, start, start + o->count * shape->seconds);
    }
}

static void advance(struct state *s, uint32_t stream)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    if (stream < ranks)
        compute(s, stream);
    else if (stream < ranks + channels)
        send(s, (uint32_t)(stream - ranks));
    else
        gather(s, (uint32_t)(stream - ranks - channels));
}

/* ---- by the clock */

static void fly(struct state *s, uint32_t slot, double bytes, double now, uint32_t stream)
{
    s->carried[slot] = stream;
    sharing_start(s->sharing, slot, bytes, now);
}

/* The next phase of a group's collective begins, or all are over. */
static void begin_phase(struct state *s, uint32_t group, double now)
{
    uint32_t self = (uint32_t)(s->p->ranks + s->p->channels) + group;
    struct meeting *m = &s->meeting[group];
    const struct collective_shape *shape = &s->shapes.shaped[m->shape].shape;
    const struct program_op *o = &s->p->op[s->stream[self].at];
    if (m->phase == shape->phases) {
        part(s, group, s->start[s->stream[self].at], now);
        ready_put(&s->ready, self);
        return;
    }
    const struct collective_phase *phase = &shape->phase[m->phase];
    m->flying = 0;
    for (size_t f = phase->flow_start; f < phase->flow_end; f++) {
        uint32_t slot = flows_slot(&s->flows, m->shape, f);
        if (slot == PROGRAM_NONE)
            continue;
        fly(s, slot, o->count * shape->flow[f].bytes, now, self);
        m->flying++;
    }
    if (m->flying == 0) {
        m->phase++;
        events_put(&s->events, now + o->count * phase->latency_s, self);
    }
}

/* A message or a phase starts. */
static void begin(struct state *s, uint32_t stream, double now)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    if (stream >= ranks + channels) {
        begin_phase(s, (uint32_t)(stream - ranks - channels), now);
        return;
    }
    fly(s, (uint32_t)(stream - ranks), (double)s->p->op[s->stream[stream].at].bytes, now, stream);
}

/* A flow has ended: a message, or one of a phase. */
static void land(struct state *s, uint32_t stream, double now)
{
    size_t ranks = s->p->ranks, channels = s->p->channels;
    if (stream < ranks + channels) {
        arrive(s, (uint32_t)(stream - ranks), s->start[s->stream[stream].at], now);
        ready_put(&s->ready, stream);
        return;
    }
    struct meeting *m = &s->meeting[stream - ranks - channels];
    if (--m->flying > 0)
        return;
    const struct program_op *o = &s->p->op[s->stream[stream].at];
    double latency_s = s->shapes.shaped[m->shape].shape.phase[m->phase++].latency_s;
    events_put(&s->events, now + o->count * latency_s, stream);
}

/* All that is known without the clock first; then whatever happens next, with everything that
 * happens at that moment. */
static void replay(struct state *s)
{
    uint32_t stream, slot;
    double when, end;
    for (uint32_t k = 0; k < s->streams; k++)
        ready_put(&s->ready, k);
    for (;;) {
        while (ready_take(&s->ready, &stream))
            advance(s, stream);
        double start = events_next(&s->events);
        when = fmin(start, sharing_next(s->sharing));
        if (!isfinite(when))
            break;
        while (start <= when) {
            begin(s, events_take(&s->events), start);
            start = events_next(&s->events);
        }
        while (sharing_take(s->sharing, when, &slot, &end))
            land(s, s->carried[slot], end);
    }
}

/* ---- the state */

/* Thread the ops of every stream, from the last one to the first. Receives belong to no stream, nor
 * do collectives but for their group's first member. */
static void thread_streams(struct state *s)
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

static enum status prepare(struct state *s, const struct simulation_options *options)
{
    const struct program *p = s->p;
    s->streams = p->ranks + p->channels + p->groups;
    PASS(shapes_make(p, s->t, options ? &options->collective : NULL, &s->shapes));
    PASS(pairs_of(p, &s->shapes, &s->pair, &s->pairs));
    PASS(flows_make(p, s->t, &s->shapes, &s->flows));
    PASS(sharing_open(&s->flows.network, &s->sharing));
    if (s->t->links > 0)
        flows_time_shapes(&s->flows, p, s->sharing, &s->shapes);
    PASS(ARRAY_NEW(s->next, p->ops + 1));
    PASS(ARRAY_NEW(s->waiting, p->ops + 1));
    PASS(ARRAY_NEW(s->stream, s->streams + 1));
    PASS(ARRAY_NEW(s->meeting, p->groups + 1));
    PASS(ARRAY_NEW(s->latency_s, p->channels + 1));
    PASS(ARRAY_NEW(s->carried, s->flows.slots + 1));
    PASS(events_init(&s->events, s->streams));
    PASS(ready_init(&s->ready, (uint32_t)s->streams));
    for (size_t c = 0; c < p->channels; c++)
        s->latency_s[c] = topology_between(s->t, p->rank[p->channel[c].from].device,
                                           p->rank[p->channel[c].to].device)
                              ->latency_s;
    for (size_t i = 0; i < p->ops; i++) {
        s->end[i] = NAN;
        s->waiting[i] = PROGRAM_NONE;
    }
    thread_streams(s);
    return STATUS_OK;
}

static void add_link(struct simulation *out, double iteration_s, char *name, double bytes,
                     double Bps)
{
    double busy = iteration_s > 0 ? bytes / Bps / iteration_s : 0;
    out->link[out->links++] = (struct measured_link){name, bytes, busy};
}

/* Directed pairs of devices stand for links where the topology knows none. */
static enum status report_pairs(const struct state *s, double iteration_s, struct simulation *out)
{
    const struct topology *t = s->t;
    PASS(ARRAY_NEW(out->link, s->pairs + 1));
    for (size_t k = 0; k < s->pairs; k++) {
        const struct pair *pair = &s->pair[k];
        const char *a = t->device[pair->from], *b = t->device[pair->to];
        size_t length = strlen(a) + strlen(b) + 3;
        char *name;
        PASS(ARRAY_NEW(name, length));
        snprintf(name, length, "%s->%s", a, b);
        add_link(out, iteration_s, name, pair->bytes,
                 topology_between(t, pair->from, pair->to)->bandwidth_Bps);
    }
    return STATUS_OK;
}

/* The links that carried something. */
static enum status report_links(const struct state *s, struct simulation *out)
{
    const struct topology *t = s->t;
    const double *bytes = s->flows.link_bytes;
    double iteration_s = 0;
    for (size_t i = 0; i < s->p->ops; i++)
        iteration_s = fmax(iteration_s, s->end[i]);
    if (t->links == 0)
        return report_pairs(s, iteration_s, out);
    PASS(ARRAY_NEW(out->link, t->links));
    for (size_t l = 0; l < t->links; l++) {
        char *name;
        if (bytes[l] <= 0)
            continue;
        PASS(text_copy(t->link[l].name, &name));
        add_link(out, iteration_s, name, bytes[l], t->link[l].bandwidth_Bps);
    }
    return STATUS_OK;
}

static void release(struct state *s)
{
    shapes_free(&s->shapes);
    flows_free(&s->flows);
    sharing_close(s->sharing);
    events_free(&s->events);
    ready_free(&s->ready);
    free(s->pair);
    free(s->next);
    free(s->waiting);
    free(s->stream);
    free(s->meeting);
    free(s->latency_s);
    free(s->carried);
}

/* A checked program always comes to its end. */
static enum status run(const struct program *p, const struct topology *t, const char *platform,
                       const struct simulation_options *options, struct simulation *out)
{
    enum status st;
    struct simulation result = {0};
    struct state s = {.p = p, .t = t};
    double begin_s = clock_cpu();

    (void)platform;
    if (options && faults_of_links(options->faults))
        FAIL(STATUS_UNSUPPORTED,
             "the analytic engine knows no links that could fail or become slow");
    TRY(timeline_init(&result.timeline, p->ops));
    s.start = result.timeline.start_s;
    s.end = result.timeline.end_s;
    TRY(prepare(&s, options));
    replay(&s);
    result.cpu_s = clock_cpu() - begin_s;
    result.messages = s.messages;
    TRY(report_links(&s, &result));
    *out = result;
    result = (struct simulation){0};
out:
    simulation_free(&result);
    release(&s);
    return st;
}

const struct engine engine_analytic = {
    .name = "analytic",
    .summary = "longest path, with fair shares of links that are contended; microseconds",
    .folds = false, /* not yet: the copies of what is left out share links too */
    .run = run,
};
