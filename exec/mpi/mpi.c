#include "exec/mpi/mpi.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/rendezvous.h"
#include "exec/ring.h"
#include "exec/tcp/socket.h"

/* How far ahead the common start lies: everyone must have heard of it, and may be asleep. Simulated
 * time costs nothing. */
#ifdef EXEC_SMPI
static const double ahead_s = 1, ahead_per_rank_s = 0;
#else
static const double ahead_s = 1e-3, ahead_per_rank_s = 3e-5;
#endif

/* ---- open and close */

static enum status check_world(const struct mpi *t)
{
    int started = 0, level = 0, rank = 0, ranks = 0;
    MPI_Initialized(&started);
    if (!started)
        return error_set(STATUS_INVALID, "MPI is not initialised: use foreline-worker-mpi");
    MPI_Query_thread(&level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#ifndef EXEC_SMPI /* which has one thread per rank and no threads in it */
    if (level < MPI_THREAD_FUNNELED)
        return error_set(STATUS_UNSUPPORTED, "this MPI allows no threads at all");
#endif
    if ((uint32_t)rank != t->rank || (size_t)ranks != t->program->ranks)
        return error_set(STATUS_INVALID, "MPI has this as rank %d of %d, expected %u of %zu", rank,
                         ranks, t->rank, t->program->ranks);
    return mpi_error(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

static enum status init_link(struct mpi *t, struct mpi_link *l, uint32_t channel)
{
    const struct program_channel *c = &t->program->channel[channel];
    const struct channel_order *order = &t->order[channel];
    *l = (struct mpi_link){.order = order, .outgoing = c->from == t->rank};
    l->peer = l->outgoing ? c->to : c->from;
    size_t room = l->outgoing ? order->n : order->window;
    l->pool = calloc(room + 1, sizeof *l->pool);
    l->memory = calloc(room + 1, sizeof *l->memory);
    if (!l->pool || !l->memory)
        return error_set(STATUS_NOMEM, "%zu buffers", room);
    for (; !l->outgoing && l->buffers < room; l->buffers++) {
        void *data = malloc(order->bytes + 1);
        if (!data)
            return error_set(STATUS_NOMEM, "%zu slots of %zu bytes", room, order->bytes);
        l->memory[l->buffers] = l->pool[l->free++] = data;
    }
    return STATUS_OK;
}

static enum status init_links(struct mpi *t)
{
    enum status st = STATUS_OK;
    const struct program *p = t->program;
    size_t n = 0;
    for (size_t c = 0; c < p->channels; c++)
        n += p->channel[c].from == t->rank || p->channel[c].to == t->rank;
    t->link_of = malloc((p->channels + 1) * sizeof *t->link_of);
    t->link = calloc(n + 1, sizeof *t->link);
    if (!t->link_of || !t->link)
        return error_set(STATUS_NOMEM, "%zu links", n);
    for (uint32_t c = 0; c < p->channels; c++) {
        t->link_of[c] = PROGRAM_NONE;
        if (p->channel[c].from != t->rank && p->channel[c].to != t->rank)
            continue;
        t->link_of[c] = (uint32_t)t->links;
        TRY(init_link(t, &t->link[t->links++], c));
    }
out:
    return st;
}

static enum status init_rings(struct mpi *t)
{
    const struct program *p = t->program;
    size_t largest = 0;
    t->ring = calloc(p->groups + 1, sizeof *t->ring);
    if (!t->ring)
        return error_set(STATUS_NOMEM, "%zu groups", p->groups);
    for (size_t g = 0; g < p->groups; g++) {
        size_t n = p->group_start[g + 1] - p->group_start[g];
        for (size_t i = 0; i < n; i++)
            if (p->member[p->group_start[g] + i] == t->rank)
                t->ring[g] = (struct mpi_ring){n, i};
    }
    for (size_t i = t->first; i < t->first + t->ops; i++) {
        if (!op_is_collective(&p->op[i]))
            continue;
        t->collectives++;
        size_t ranks = t->ring[p->op[i].peer].ranks;
        if (ranks == 0)
            return error_set(STATUS_INVALID, "rank %u is no member of group %u", t->rank,
                             p->op[i].peer);
        size_t n = (size_t)p->op[i].bytes / sizeof(float) / ranks + 1;
        largest = n > largest ? n : largest;
    }
    t->collective = calloc(t->collectives + 1, sizeof *t->collective);
    t->chunk = malloc((largest + 1) * sizeof *t->chunk);
    if (!t->collective || !t->chunk)
        return error_set(STATUS_NOMEM, "%zu collectives", t->collectives);
    return STATUS_OK;
}

/* Counts and tags are ints. */
static enum status check_limits(const struct mpi *t)
{
    const struct program *p = t->program;
    int *most = NULL, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    size_t tags = found ? (size_t)*most : 32767; /* what the standard promises */
    for (size_t c = 0; c < p->channels; c++)
        if (p->groups + t->order[c].n > tags)
            return error_set(STATUS_UNSUPPORTED, "%zu messages between two ranks: MPI has %zu tags",
                             t->order[c].n, tags);
    for (size_t i = t->first; i < t->first + t->ops; i++)
        if (!op_computes(&p->op[i]) && p->op[i].bytes > INT_MAX)
            return error_set(STATUS_UNSUPPORTED, "a message of %lld bytes: MPI takes %d",
                             (long long)p->op[i].bytes, INT_MAX);
    return STATUS_OK;
}

/* Do all ranks run under one kernel? Then they read one clock. */
static enum status compare_clocks(struct mpi *t, double deadline_s)
{
    enum status st;
    char text[64] = "";
    long word[4] = {0}, most[4];
    MPI_Request request;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f) {
        if (fread(text, 1, sizeof text - 1, f) > 0)
            memcpy(word, text, 2 * sizeof *word);
        fclose(f);
    }
    for (int k = 0; k < 2; k++) /* the largest and, negated, the smallest */
        word[2 + k] = -(word[k] = word[k] >> 1);
    TRY(mpi_error(MPI_Iallreduce(word, most, 4, MPI_LONG, MPI_MAX, MPI_COMM_WORLD, &request)));
    TRY(mpi_finish(t, &request, deadline_s));
    t->one_clock = most[0] == -most[2] && most[1] == -most[3];
out:
    return st == STATUS_OK ? st : error_context(st, "rank %u meets the others", t->rank);
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

static void close_mpi(void *self)
{
    struct mpi *t = self;
    if (!t)
        return;
    bool own_memory = cancel(t);
    for (size_t k = 0; k < t->links; k++) {
        for (size_t i = 0; own_memory && i < t->link[k].buffers; i++)
            free(t->link[k].memory[i]);
        free(t->link[k].memory);
        free(t->link[k].pool);
    }
    if (own_memory)
        free(t->chunk);
    free(t->link);
    free(t->link_of);
    free(t->ring);
    free(t->collective);
    free(t->request);
    free(t->owner);
    free(t->done);
    free(t->status);
    free(t->op);
    channel_orders_free(t->order, t->program->channels);
    free(t);
}

static enum status init_ops(struct mpi *t)
{
    size_t n = t->ops + 2; /* one request per op, two of a ring */
    t->op = calloc(t->ops + 1, sizeof *t->op);
    t->request = malloc(n * sizeof *t->request);
    t->owner = malloc(n * sizeof *t->owner);
    t->done = malloc(n * sizeof *t->done);
    t->status = malloc(n * sizeof *t->status);
    if (!t->op || !t->request || !t->owner || !t->done || !t->status)
        return error_set(STATUS_NOMEM, "%zu ops", t->ops);
    return STATUS_OK;
}

static enum status open_mpi(const struct program *p, uint32_t rank, const struct rendezvous *r,
                            void **self)
{
    enum status st = STATUS_OK;
    struct mpi *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "transport");
    t->program = p;
    t->rank = rank;
    t->first = p->op_start[rank];
    t->ops = p->op_start[rank + 1] - t->first;
    t->step = UINT32_MAX;
    TRY(check_world(t));
    TRY(init_ops(t));
    TRY(channel_orders(p, &t->order));
    TRY(init_links(t));
    TRY(init_rings(t));
    TRY(check_limits(t));
    TRY(compare_clocks(t, clock_now() + r->timeout_s));
    *self = t;
    t = NULL;
out:
    close_mpi(t);
    return st;
}

/* ---- communication */

static struct mpi_op *own(struct mpi *t, uint32_t op)
{
    return &t->op[op - t->first];
}

static struct mpi_link *link_of(struct mpi *t, uint32_t op)
{
    return &t->link[t->link_of[t->program->op[op].channel]];
}

static enum status misuse(const struct mpi *t, uint32_t op, const char *what)
{
    char label[OP_LABEL];
    return error_set(STATUS_INVALID, "rank %u: %s: %s", t->rank,
                     op_label(&t->program->op[op], label), what);
}

static enum status send_buffer(void *self, uint32_t op, void **data)
{
    enum status st;
    struct mpi *t = self;
    struct mpi_link *l = link_of(t, op);
    struct mpi_op *o = own(t, op);
    if (o->posted || o->complete || o->buffer)
        return misuse(t, op, "sent twice in a step");
    TRY(mpi_poll(t)); /* gives buffers back, and the network something to do */
    if (l->free == 0) {
        void *memory = malloc(l->order->bytes + 1);
        if (!memory)
            return error_set(STATUS_NOMEM, "%zu bytes to send", l->order->bytes);
        l->memory[l->buffers++] = l->pool[l->free++] = memory;
    }
    o->buffer = l->pool[--l->free];
    *data = o->buffer;
out:
    return st;
}

static enum status post_send(void *self, uint32_t op)
{
    enum status st;
    struct mpi *t = self;
    struct mpi_link *l = link_of(t, op);
    struct mpi_op *o = own(t, op);
    MPI_Request request;
    if (!o->buffer || o->posted)
        return misuse(t, op, "sent without a buffer");
    if (l->order->send[l->next] != op)
        return misuse(t, op, "sent out of order");
    o->start_s = clock_now();
    st = mpi_error(MPI_Isend(o->buffer, (int)t->program->op[op].bytes, MPI_BYTE, (int)l->peer,
                             (int)(t->program->groups + l->next), MPI_COMM_WORLD, &request));
    if (st != STATUS_OK)
        return mpi_fail(t, st, op, l->peer);
    l->next++;
    o->posted = true;
    mpi_track(t, request, op);
    return mpi_poll(t);
}

static enum status collective(void *self, uint32_t op, float *data, size_t n)
{
    struct mpi *t = self;
    struct mpi_op *o = own(t, op);
    const struct program_op *p = &t->program->op[op];
    if (!ring_does(p) || n != (size_t)p->bytes / sizeof *data)
        return misuse(t, op, "not an array of as many bytes as the program says");
    if (o->calls == p->count || o->posted)
        return misuse(t, op, "called too often, or before the last call was waited for");
    o->posted = true;
    o->complete = false;
    o->calls++;
    t->collective[t->calls++ % t->collectives] = (struct mpi_collective){op, data, n};
    enum status st = mpi_ring_start(t);
    return st == STATUS_OK ? mpi_poll(t) : st;
}

static enum status timed_out(const struct mpi *t, uint32_t op, double timeout_s)
{
    char label[OP_LABEL];
    const struct program_op *o = &t->program->op[op];
    return error_set(STATUS_EXTERNAL, "rank %u: %s with %s %u: nothing for %g s", t->rank,
                     op_label(o, label), op_is_collective(o) ? "group" : "rank", o->peer,
                     timeout_s);
}

static enum status wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum status st;
    struct mpi *t = self;
    struct mpi_op *o = own(t, op);
    double deadline_s = clock_now() + timeout_s, nap_s = 0;
    if (op_is_collective(&t->program->op[op]) && o->calls == 0)
        return misuse(t, op, "waited for, but not called");
    TRY(mpi_poll(t));
    while (!o->complete) {
        if (clock_now() >= deadline_s) {
            st = timed_out(t, op, timeout_s);
            goto out;
        }
        TRY(mpi_nap(t, &nap_s));
    }
    o->posted = false;
    if (data)
        *data = o->buffer;
out:
    return st;
}

static void release(void *self, uint32_t op)
{
    struct mpi *t = self;
    struct mpi_op *o = own(t, op);
    struct mpi_link *l = link_of(t, op);
    l->pool[l->free++] = o->buffer;
    o->buffer = NULL;
    enum status st = mpi_post_receives(t, l);
    (void)st; /* kept, and reported by the next wait() */
}

static void times(void *self, uint32_t op, double *start_s, double *end_s)
{
    *start_s = own(self, op)->start_s;
    *end_s = own(self, op)->end_s;
}

/* ---- barrier */

static enum status next_step(struct mpi *t)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < t->ops; i++) {
        struct mpi_op *o = &t->op[i];
        const struct program_op *p = &t->program->op[t->first + i];
        bool open = !o->complete || o->buffer || (op_is_collective(p) && o->calls < p->count);
        if (t->step != UINT32_MAX && !op_computes(p) && open)
            return misuse(t, (uint32_t)(t->first + i), "not complete or not released at barrier");
        *o = (struct mpi_op){0};
    }
    t->calls = t->served = 0;
    t->step++;
    for (size_t k = 0; k < t->links; k++) {
        t->link[k].next = 0;
        if (!t->link[k].outgoing) /* before the others hear of our arrival */
            TRY(mpi_post_receives(t, &t->link[k]));
    }
out:
    return st;
}

/* The moment that rank 0 names; where clocks differ, every rank's own moment of hearing of it. */
static enum status barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct mpi *t = self;
    double deadline_s = clock_now() + timeout_s, moment_s = 0;
    MPI_Request request;
    TRY(next_step(t));
    TRY(mpi_error(MPI_Ibarrier(MPI_COMM_WORLD, &request)));
    TRY(mpi_finish(t, &request, deadline_s));
    if (t->rank == 0)
        moment_s = clock_now() + ahead_s + ahead_per_rank_s * (double)t->program->ranks;
    TRY(mpi_error(MPI_Ibcast(&moment_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request)));
    TRY(mpi_finish(t, &request, deadline_s));
    *start_s = t->one_clock ? moment_s : clock_now();
out:
    if (st == STATUS_INVALID)
        return st;
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u: barrier of step %u", t->rank, t->step);
}

const struct transport transport_mpi = {
    .name = "mpi",
    .open = open_mpi,
    .close = close_mpi,
    .send_buffer = send_buffer,
    .send = post_send,
    .collective = collective,
    .wait = wait_op,
    .release = release,
    .times = times,
    .barrier = barrier,
};
