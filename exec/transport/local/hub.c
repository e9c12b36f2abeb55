#include <stdlib.h>
#include <time.h>

#include "exec/transport/local/local.h"

static void free_hub(struct local_hub *h)
{
    const struct local_memory *m = h->memory;
    for (size_t k = 0; k < h->buffers; k++) {
        m->release(h->buffer[k]->data);
        m->free_mark(h->buffer[k]->full);
        m->free_mark(h->buffer[k]->empty);
        free(h->buffer[k]);
    }
    for (size_t r = 0; h->rank && r < h->program->ranks; r++) {
        m->free_mark(h->rank[r].mark);
        free(h->rank[r].done);
    }
    free(h->rank);
    free(h->message);
    free(h->free);
    free(h->buffer);
    free(h);
}

static enum status init_ranks(struct local_hub *h)
{
    const struct program *p = h->program;
    pthread_condattr_t attr;
    for (size_t r = 0; r < p->ranks; r++) {
        h->rank[r].done = calloc(p->groups + 1, sizeof *h->rank[r].done);
        if (!h->rank[r].done)
            return error_set(STATUS_NOMEM, "%zu groups", p->groups);
    }
    if (pthread_condattr_init(&attr))
        return error_set(STATUS_NOMEM, "condition attributes");
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    for (size_t r = 0; r < p->ranks; r++)
        pthread_cond_init(&h->rank[r].changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&h->mutex, NULL);
    return STATUS_OK;
}

enum status local_share(const struct program *p, const struct local_memory *m, void **shared)
{
    enum status st = STATUS_OK;
    struct local_hub *h = calloc(1, sizeof *h);
    if (!h)
        return error_set(STATUS_NOMEM, "what %zu ranks share", p->ranks);
    h->program = p;
    h->memory = m;
    h->rank = calloc(p->ranks + 1, sizeof *h->rank);
    h->message = calloc(p->ops + 1, sizeof *h->message);
    h->free = calloc(p->channels + 1, sizeof *h->free);
    if (!h->rank || !h->message || !h->free) {
        st = error_set(STATUS_NOMEM, "what %zu ranks share", p->ranks);
        goto out;
    }
    TRY(init_ranks(h));
    *shared = h;
    h = NULL;
out:
    if (h)
        free_hub(h);
    return st;
}

void local_unshare(void *shared)
{
    struct local_hub *h = shared;
    if (!h)
        return;
    for (size_t r = 0; r < h->program->ranks; r++)
        pthread_cond_destroy(&h->rank[r].changed);
    pthread_mutex_destroy(&h->mutex);
    free_hub(h);
}

void local_wake(struct local_hub *h, uint32_t rank)
{
    pthread_cond_broadcast(&h->rank[rank].changed);
}

void local_leave(void *shared, uint32_t rank)
{
    struct local_hub *h = shared;
    pthread_mutex_lock(&h->mutex);
    h->rank[rank].left = true;
    for (uint32_t r = 0; r < h->program->ranks; r++)
        local_wake(h, r);
    while (h->rank[rank].readers > 0) /* as long as a copy takes; then its array may go */
        pthread_cond_wait(&h->rank[rank].changed, &h->mutex);
    h->rank[rank].call.active = false;
    pthread_mutex_unlock(&h->mutex);
}

uint32_t local_leaver(const struct local_hub *h, uint32_t group)
{
    const struct program *p = h->program;
    for (size_t i = p->group_start[group]; i < p->group_start[group + 1]; i++)
        if (h->rank[p->member[i]].left)
            return p->member[i];
    return PROGRAM_NONE;
}
