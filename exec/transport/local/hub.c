/* What the ranks of the local transport share, and who has left. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "exec/condition.h"
#include "exec/spin.h"
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
    for (size_t r = 0; h->rank && r < h->program->ranks; r++)
        m->free_mark(h->rank[r].mark);
    arena_free(&h->arrays);
    free(h->buffer);
    free(h);
}

/* No condition is left behind when the next cannot be made. */
static enum status init_ranks(struct local_hub *h)
{
    enum status st = STATUS_OK;
    size_t made = 0;
    for (size_t r = 0; r < h->program->ranks; r++)
        TRY(ARENA_NEW(&h->arrays, h->rank[r].done, h->program->groups));
    for (; made < h->program->ranks; made++)
        TRY(condition_init(&h->rank[made].changed));
    pthread_mutex_init(&h->mutex, NULL);
out:
    while (st != STATUS_OK && made > 0)
        pthread_cond_destroy(&h->rank[--made].changed);
    return st;
}

enum status local_share(const struct program *p, const struct local_memory *m, void **shared)
{
    enum status st;
    struct local_hub *h;
    TRY(ARRAY_NEW(h, 1));
    h->program = p;
    h->memory = m;
    h->spins = spin_allowed(p->ranks);
    TRY(ARENA_NEW(&h->arrays, h->rank, p->ranks));
    TRY(ARENA_NEW(&h->arrays, h->message, p->ops));
    TRY(ARENA_NEW(&h->arrays, h->free, p->channels));
    TRY(init_ranks(h));
    MOVE(shared, h);
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

void local_lock(struct local_hub *h)
{
    enum { TRIES = 200 };
    for (int k = 0; k < TRIES && h->spins; k++) {
        if (pthread_mutex_trylock(&h->mutex) == 0)
            return;
        spin_pause();
    }
    pthread_mutex_lock(&h->mutex);
}

bool local_sleep(struct local_hub *h, uint32_t rank, double deadline_s)
{
    enum { LOOKS = 2000 };
    struct local_rank *r = &h->rank[rank];
    unsigned seen = atomic_load_explicit(&r->changes, memory_order_relaxed);
    struct spin spin = spin_begin(h->spins, LOOKS);
    pthread_mutex_unlock(&h->mutex);
    while (atomic_load_explicit(&r->changes, memory_order_relaxed) == seen && spin_again(&spin))
        ;
    local_lock(h);
    if (atomic_load_explicit(&r->changes, memory_order_relaxed) != seen)
        return true;
    return isinf(deadline_s) ? !pthread_cond_wait(&r->changed, &h->mutex)
                             : condition_wait(&r->changed, &h->mutex, deadline_s);
}

void local_wake(struct local_hub *h, uint32_t rank)
{
    atomic_fetch_add_explicit(&h->rank[rank].changes, 1, memory_order_relaxed);
    pthread_cond_broadcast(&h->rank[rank].changed);
}

void local_wake_all(struct local_hub *h)
{
    for (uint32_t r = 0; r < h->program->ranks; r++)
        local_wake(h, r);
}

void local_leave(void *shared, uint32_t rank)
{
    struct local_hub *h = shared;
    local_lock(h);
    h->rank[rank].left = true;
    local_wake_all(h);
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
