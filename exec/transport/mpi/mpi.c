/* The MPI transport: opening and closing, posting and waiting, and barriers. */
#include "exec/transport/mpi/mpi.h"

#include <limits.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/rendezvous.h"

/* How far ahead the common start lies: everyone must have heard of it, and may be asleep. Simulated
 * time costs nothing. */
#ifdef EXEC_SMPI
static const double ahead_s = 1, ahead_per_rank_s = 0;
#else
static const double ahead_s = 1e-3, ahead_per_rank_s = 3e-5;
#endif

/* ---- open and close */

/* MPI numbers ranks by itself: they must be the numbers of the program. */
static enum status check_world(const struct mpi *t)
{
    int started = 0, level = 0, rank = 0, ranks = 0;
    MPI_Initialized(&started);
    if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return error_set(STATUS_EXTERNAL, "MPI_Init_thread failed; see the messages of MPI above");
    MPI_Query_thread(&level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#ifndef EXEC_SMPI /* which has one thread per rank and no threads in it */
    if (level < MPI_THREAD_FUNNELED)
        return error_set(STATUS_UNSUPPORTED, "this MPI library does not support threads");
#endif
    if ((uint32_t)rank != t->links.rank || (size_t)ranks != t->links.program->ranks)
        return error_set(STATUS_INVALID, "MPI started rank %d of %d, expected rank %u of %zu", rank,
                         ranks, t->links.rank, t->links.program->ranks);
    return mpi_error(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

static enum status mpi_init_links(struct mpi *t)
{
    PASS(ARRAY_NEW(t->link, t->links.n));
    for (size_t k = 0; k < t->links.n; k++) {
        t->link[k].end = &t->links.end[k];
        PASS(link_pool_init(t->link[k].end, &t->link[k].pool));
    }
    return STATUS_OK;
}

/* Counts and tags are ints. */
static enum status mpi_check_limits(const struct mpi *t)
{
    const struct program *p = t->links.program;
    int *most = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    size_t tags = found ? (size_t)*most : 32767; /* what the standard promises */
    for (size_t c = 0; c < p->channels; c++)
        if (p->groups + t->links.order[c].n > tags)
            return error_set(STATUS_UNSUPPORTED,
                             "%zu messages between two ranks and %zu process groups need more than "
                             "the %zu tags of MPI. Try --transport tcp",
                             t->links.order[c].n, p->groups, tags);
    for (size_t i = t->links.first; i < t->links.first + t->links.ops; i++)
        if (!op_computes(&p->op[i]) && p->op[i].bytes > INT_MAX)
            return error_set(
                STATUS_UNSUPPORTED,
                "message of %lld bytes is larger than MPI supports (%d), so the plan can be "
                "simulated, but not run or emulated over MPI. Try --transport tcp",
                (long long)p->op[i].bytes, INT_MAX);
    return STATUS_OK;
}

/* Take back the receives that nobody will serve; false: MPI may still touch memory. */
static bool cancel(struct mpi *t)
{
    bool all = true;
    for (size_t k = 0; k < t->active; k++) {
        int done = 0;
        MPI_Cancel(&t->request[k]);
        if (MPI_Test(&t->request[k], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            all = false;
    }
    return all;
}

/* Memory that MPI may still write to is left to the end of the process. */
static void close_mpi(void *self)
{
    struct mpi *t = self;
    if (!t)
        return;
    bool own_memory = cancel(t);
    for (size_t k = 0; own_memory && t->link && k < t->links.n; k++)
        link_pool_free(&t->link[k].pool);
    if (own_memory)
        free(t->chunk.data);
    free(t->link);
    arena_free(&t->memory);
    endpoints_free(&t->links);
    free(t);
}

static enum status init_requests(struct mpi *t)
{
    size_t n = t->links.ops + 2;
    PASS(ARENA_NEW(&t->memory, t->request, n));
    PASS(ARENA_NEW(&t->memory, t->owner, n));
    PASS(ARENA_NEW(&t->memory, t->done, n));
    return ARENA_NEW(&t->memory, t->status, n);
}

static enum status open_mpi(const struct program *p, uint32_t rank, const struct rendezvous *r,
                            void **self)
{
    enum status st;
    struct mpi *t;
    TRY(ARRAY_NEW(t, 1));
    t->one_clock = !r->clocks_differ;
    TRY(endpoints_init(p, rank, r, &t->links));
    TRY(check_world(t));
    TRY(init_requests(t));
    TRY(mpi_init_links(t));
    TRY(mpi_check_limits(t));
    MOVE(self, t);
out:
    close_mpi(t);
    return st;
}

/* ---- communication */

static struct mpi_link *mpi_link_of(struct mpi *t, uint32_t op)
{
    return &t->link[endpoints_end(&t->links, op)];
}

static enum status mpi_send_buffer(void *self, uint32_t op, void **data)
{
    struct mpi *t = self;
    PASS(endpoints_may_pack(&t->links, op));
    PASS(mpi_poll(t)); /* gives buffers back, and the network something to do */
    PASS(link_pool_make(&mpi_link_of(t, op)->pool, data));
    endpoints_op(&t->links, op)->buffer = *data;
    return STATUS_OK;
}

/* The position in the channel is the tag, which tells messages of one step apart. */
static enum status mpi_post_send(void *self, uint32_t op)
{
    struct mpi *t = self;
    const struct link_end *end = mpi_link_of(t, op)->end;
    struct link_op *o = endpoints_op(&t->links, op);
    size_t position = end->next;
    MPI_Request request;
    PASS(endpoints_post(&t->links, op));
    o->start_s = clock_now();
    enum status st = mpi_error(MPI_Isend(o->buffer, (int)t->links.program->op[op].bytes, MPI_BYTE,
                                         (int)end->peer, (int)(t->links.program->groups + position),
                                         MPI_COMM_WORLD, &request));
    if (st != STATUS_OK)
        return mpi_fail(t, st, op, end->peer);
    mpi_track(t, request, op);
    return mpi_poll(t);
}

static enum status mpi_collective(void *self, uint32_t op, enum element e, void *data, size_t n)
{
    struct mpi *t = self;
    PASS(endpoints_call(&t->links, op, e, data, n));
    PASS(mpi_collect_start(t));
    return mpi_poll(t);
}

/* Testing moves everything that is under way, not only this op. */
static enum status mpi_wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    struct mpi *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    double deadline_s = clock_now() + timeout_s, nap_s = 0;
    PASS(endpoints_may_wait(&t->links, op));
    PASS(mpi_poll(t));
    while (!o->complete) {
        if (clock_now() >= deadline_s)
            return endpoints_timed_out(&t->links, op, timeout_s);
        PASS(mpi_nap(t, &nap_s));
    }
    o->posted = false;
    if (data)
        *data = o->buffer;
    return STATUS_OK;
}

static void mpi_release(void *self, uint32_t op)
{
    struct mpi *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    struct mpi_link *l = mpi_link_of(t, op);
    link_pool_give(&l->pool, o->buffer);
    o->buffer = NULL;
    enum status st = mpi_post_receives(t, l);
    (void)st; /* kept, and reported by the next wait() */
}

/* ---- barrier */

static enum status mpi_next_step(struct mpi *t)
{
    PASS(endpoints_next_step(&t->links));
    for (size_t k = 0; k < t->links.n; k++) {
        t->link[k].next = 0;
        if (!t->links.end[k].outgoing) /* before the others hear of our arrival */
            PASS(mpi_post_receives(t, &t->link[k]));
    }
    return STATUS_OK;
}

/* The moment that rank 0 names; where clocks differ, every rank's own moment of hearing of it. */
static enum status mpi_barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct mpi *t = self;
    double deadline_s = clock_now() + timeout_s, moment_s = 0;
    MPI_Request request;
    TRY(mpi_next_step(t));
    TRY(mpi_error(MPI_Ibarrier(MPI_COMM_WORLD, &request)));
    TRY(mpi_finish(t, &request, deadline_s));
    if (t->links.rank == 0)
        moment_s = clock_now() + ahead_s + ahead_per_rank_s * (double)t->links.program->ranks;
    TRY(mpi_error(MPI_Ibcast(&moment_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request)));
    TRY(mpi_finish(t, &request, deadline_s));
    *start_s = t->one_clock ? moment_s : clock_now();
out:
    return st == STATUS_OK || st == STATUS_INVALID
               ? st
               : error_context(st, "rank %u: barrier of step %u", t->links.rank, t->links.step);
}

const struct transport transport_mpi = {
    .name = "mpi",
    .open = open_mpi,
    .close = close_mpi,
    .send_buffer = mpi_send_buffer,
    .send = mpi_post_send,
    .collective = mpi_collective,
    .wait = mpi_wait_op,
    .release = mpi_release,
    .times = endpoints_times,
    .barrier = mpi_barrier,
};
