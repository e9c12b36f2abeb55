#include "exec/ring.h"
#include "core/clock.h"
#include "exec/transport/mpi/mpi.h"

static const struct mpi_collective *current(const struct mpi *t)
{
    return &t->collective[t->served % t->links.collectives];
}

uint32_t mpi_ring_op(const struct mpi *t)
{
    return current(t)->op;
}

uint32_t mpi_ring_peer(const struct mpi *t, bool previous)
{
    const struct link_ring *g = &t->links.ring[t->links.program->op[mpi_ring_op(t)].peer];
    return previous ? g->previous : g->next;
}

static enum status start_round(struct mpi *t)
{
    enum status st;
    const struct mpi_collective *c = current(t);
    uint32_t group = t->links.program->op[c->op].peer;
    const struct link_ring *g = &t->links.ring[group];
    struct ring_part give = ring_gives(c->n, g->ranks, g->me, t->round);
    struct ring_part take = ring_takes(c->n, g->ranks, g->me, t->round);
    float *to = ring_adds(g->ranks, t->round) ? t->chunk.data : c->data + take.first;
    MPI_Request in, out;
    int previous = (int)mpi_ring_peer(t, true), next = (int)mpi_ring_peer(t, false);

    TRY(mpi_error(
        MPI_Irecv(to, (int)take.n, MPI_FLOAT, previous, (int)group, MPI_COMM_WORLD, &in)));
    mpi_track(t, in, OWNER_RING);
    t->under_way++;
    TRY(mpi_error(MPI_Isend(c->data + give.first, (int)give.n, MPI_FLOAT, next, (int)group,
                            MPI_COMM_WORLD, &out)));
    mpi_track(t, out, OWNER_RING);
    t->under_way++;
out:
    return st == STATUS_OK ? st : mpi_fail(t, st, c->op, (uint32_t)next);
}

static void add(struct mpi *t)
{
    const struct mpi_collective *c = current(t);
    const struct link_ring *g = &t->links.ring[t->links.program->op[c->op].peer];
    struct ring_part take = ring_takes(c->n, g->ranks, g->me, t->round);
    if (!ring_adds(g->ranks, t->round))
        return;
    for (size_t i = 0; i < take.n; i++)
        c->data[take.first + i] += t->chunk.data[i];
}

static size_t members(const struct mpi *t)
{
    return t->links.ring[t->links.program->op[mpi_ring_op(t)].peer].ranks;
}

static bool has_rounds_left(const struct mpi *t)
{
    return t->round < ring_end(members(t), &t->links.program->op[mpi_ring_op(t)]);
}

static enum status begin(struct mpi *t)
{
    t->serving = true;
    t->round = ring_begin(members(t), &t->links.program->op[mpi_ring_op(t)]);
    t->begin_s = clock_now();
    return ring_grow(&t->chunk, current(t)->n, members(t));
}

static void finish(struct mpi *t)
{
    endpoints_complete(&t->links, mpi_ring_op(t), t->begin_s, clock_now());
    t->served++;
    t->serving = false;
}

enum status mpi_ring_start(struct mpi *t)
{
    while (t->served < t->calls && !t->serving) {
        enum status st = begin(t);
        if (st != STATUS_OK)
            return mpi_fail(t, st, mpi_ring_op(t), t->links.rank);
        if (has_rounds_left(t))
            return start_round(t);
        finish(t); /* a group of one */
    }
    return STATUS_OK;
}

enum status mpi_ring_advance(struct mpi *t)
{
    if (--t->under_way > 0)
        return STATUS_OK;
    add(t);
    t->round++;
    if (has_rounds_left(t))
        return start_round(t);
    finish(t);
    return mpi_ring_start(t);
}
