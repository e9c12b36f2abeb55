/* events.h - moments at which streams go on, earliest first; a stream is in it at most once. */
#ifndef CORE_ENGINE_EVENTS_H
#define CORE_ENGINE_EVENTS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/array.h"

struct replay_event {
    double when_s;
    uint32_t stream;
};

/* A binary heap. */
struct events {
    size_t n;
    struct replay_event *event; /* [streams] */
};

static inline enum status events_init(struct events *q, size_t streams)
{
    return ARRAY_NEW(q->event, streams + 1);
}

static inline void events_free(struct events *q)
{
    free(q->event);
    *q = (struct events){0};
}

/* Ties go to the lower number, so that results repeat. */
static inline int event_before(const struct replay_event *a, const struct replay_event *b)
{
    return a->when_s < b->when_s || (a->when_s <= b->when_s && a->stream < b->stream);
}

static inline void events_put(struct events *q, double when_s, uint32_t stream)
{
    struct replay_event new = {when_s, stream};
    size_t at = q->n++;
    for (; at > 0 && event_before(&new, &q->event[(at - 1) / 2]); at = (at - 1) / 2)
        q->event[at] = q->event[(at - 1) / 2];
    q->event[at] = new;
}

/* When the first one is; INFINITY: there is none. */
static inline double events_next(const struct events *q)
{
    return q->n > 0 ? q->event[0].when_s : INFINITY;
}

/* Take the first one out. */
static inline uint32_t events_take(struct events *q)
{
    uint32_t stream = q->event[0].stream;
    struct replay_event last = q->event[--q->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < q->n && event_before(&q->event[child + 1], &q->event[child]))
            child++;
        if (child >= q->n || !event_before(&q->event[child], &last))
            break;
        q->event[at] = q->event[child];
        at = child;
    }
    q->event[at] = last;
    return stream;
}

#endif
