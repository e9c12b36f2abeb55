/* replay.h - a program worked through on some network: what starts when, and what ends then.
 *
 * Ranks, channels and groups are streams: each works through its ops in the order of the list and
 * waits for what the next one depends on. What needs no clock - compute ops, and messages and
 * collectives that have their links to themselves - is known as soon as what it depends on is; the
 * others start by the clock, as flows, and somebody says when these end. Latencies are charged on
 * arrival. O(ops), besides the flows. */
#ifndef CORE_ENGINE_REPLAY_H
#define CORE_ENGINE_REPLAY_H

#include "core/base/ready.h"
#include "core/data/topology.h"
#include "core/engine/events.h"
#include "core/engine/shapes.h"

/* Something that does one op after the other: rank r, channel ranks + c, group ranks + channels
 * + g. */
struct replay_stream {
    uint32_t at;        /* op: of a group, its first member's; PROGRAM_NONE: at its end */
    uint32_t next_wait; /* stream that waits for the same op */
    double free_s;      /* end of the op before */
    size_t flying;      /* flows under way */
};

/* What else a group knows about the collective at hand. */
struct replay_meeting {
    uint32_t member; /* op of the member whose dependencies are looked at */
    double ready_s;  /* of the members before it */
    size_t shape, phase;
};

struct replay_flow {
    uint32_t stream; /* for replay_land() */
    bool is_message; /* of a channel, else flow number `flow` of shape number `shape` */
    uint32_t channel;
    size_t shape, flow;
    double bytes, now_s;
};

struct replay {
    /* Who opens it fills these; all are borrowed. */
    const struct shapes *shapes;
    const bool *alone;       /* [channels + groups] has its links to itself; NULL: nobody */
    const double *bound_Bps; /* [channels] of those that are alone */
    double *start, *end;     /* [ops] out; end NAN: not known yet */
    /* A flow begins, as so many that share its bytes: replay_land() will be called when each of
     * them ends; 0: another flow of the same phase stands for this one. Called by replay_begin();
     * must not call back. */
    size_t (*fly)(void *context, const struct replay_flow *flow);
    void *context;
    /* The rest is the replay's own. */
    const struct program *p;
    uint32_t *next;    /* [ops] in its stream; of a collective, for the group's first member */
    uint32_t *waiting; /* [ops] first stream that waits for the op's end */
    size_t streams;
    struct replay_stream *stream;   /* [streams] */
    struct replay_meeting *meeting; /* [groups] */
    double *latency_s;              /* [channels]; may be changed after opening */
    struct events events;           /* starts of messages and phases, by stream */
    struct ready ready;
    size_t messages, completed; /* transfers made; ops */
};

/* STATUS_NOMEM; replay_close() also after a failure. */
enum status replay_open(const struct program *p, const struct topology *t,
                        struct replay *s) MUST_CHECK;
/* Work out everything that is known without a clock. */
void replay_known(struct replay *s);
/* When the next flows begin; INFINITY: when others end, or never. */
static inline double replay_next(const struct replay *s)
{
    return events_next(&s->events);
}
/* What starts at replay_next() does so `now`. */
void replay_begin(struct replay *s, double now);
/* A flow has ended. */
void replay_land(struct replay *s, uint32_t stream, double now);
void replay_close(struct replay *s);

#endif
