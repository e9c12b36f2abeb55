/* ready.h - the queue of ranks whose next op may have become possible: first in, first out, each
 * rank in it at most once. */
#ifndef CORE_BASE_READY_H
#define CORE_BASE_READY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/array.h"

struct ready {
    uint32_t ranks, head, length;
    uint32_t *queue; /* [ranks] ring buffer */
    bool *queued;    /* [ranks] */
};

/* STATUS_NOMEM; ready_free() also after a failure. */
static inline enum status ready_init(struct ready *q, uint32_t ranks)
{
    *q = (struct ready){.ranks = ranks};
    PASS(ARRAY_NEW(q->queue, ranks));
    return ARRAY_NEW(q->queued, ranks);
}

static inline void ready_free(struct ready *q)
{
    free(q->queue);
    free(q->queued);
    *q = (struct ready){0};
}

/* Put a rank at the end of the queue, unless it waits there already. */
static inline void ready_put(struct ready *q, uint32_t rank)
{
    if (q->queued[rank])
        return;
    uint32_t end = q->head + q->length++;
    q->queued[rank] = true;
    q->queue[end < q->ranks ? end : end - q->ranks] = rank;
}

/* Take the first rank; false when there is none. */
static inline bool ready_take(struct ready *q, uint32_t *rank)
{
    if (q->length == 0)
        return false;
    *rank = q->queue[q->head];
    q->head = q->head + 1 < q->ranks ? q->head + 1 : 0;
    q->length--;
    q->queued[*rank] = false;
    return true;
}

#endif
