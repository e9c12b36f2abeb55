/* Collectives over MPI: rounds of exec/rounds.h, each started when the one before is complete. */
#include "core/base/clock.h"
#include "exec/transport/mpi/mpi.h"

uint32_t mpi_collect_op(const struct mpi *t)
{
    return endpoints_next_call(&t->links)->op;
}

static struct rounds_call mpi_rounds(const struct mpi *t)
{
    const struct link_call *c = endpoints_next_call(&t->links);
    return endpoints_rounds(&t->links, c->op, c->n);
}

static struct round current(const struct mpi *t)
{
    const struct rounds_call c = mpi_rounds(t);
    return rounds_at(&c, t->round);
}

static uint32_t mpi_rank_of(const struct mpi *t, uint32_t member)
{
    return t->links.group[t->links.program->op[mpi_collect_op(t)].peer].member[member];
}

uint32_t mpi_collect_peer(const struct mpi *t)
{
    struct round r = current(t);
    return mpi_rank_of(t, r.from != ROUND_NOBODY ? r.from : r.to);
}

/* Post what the round gives and takes; nothing is under way in a round that does neither. */
static enum status start_round(struct mpi *t)
{
    enum status st = STATUS_OK;
    const struct link_call *c = endpoints_next_call(&t->links);
    const struct round r = current(t);
    int tag = (int)t->links.program->op[c->op].peer;
    MPI_Datatype type = element_bytes(c->element) == 2 ? MPI_UINT16_T : MPI_FLOAT;
    MPI_Request request;
    if (r.from != ROUND_NOBODY) {
        void *to = r.adds ? t->chunk.data : element_at(c->element, c->data, r.take.first);
        TRY(mpi_error(MPI_Irecv(to, (int)r.take.n, type, (int)mpi_rank_of(t, r.from), tag,
                                MPI_COMM_WORLD, &request)));
        mpi_track(t, request, OWNER_ROUND);
        t->under_way++;
    }
    if (r.to != ROUND_NOBODY) {
        TRY(mpi_error(MPI_Isend(element_at(c->element, c->data, r.give.first), (int)r.give.n, type,
                                (int)mpi_rank_of(t, r.to), tag, MPI_COMM_WORLD, &request)));
        mpi_track(t, request, OWNER_ROUND);
        t->under_way++;
    }
out:
    return st == STATUS_OK ? st : mpi_fail(t, st, c->op, mpi_collect_peer(t));
}

/* What has come is added; then the next round that has something to do, until there is none. */
static enum status run_rounds(struct mpi *t)
{
    const struct rounds_call c = mpi_rounds(t);
    for (; t->under_way == 0 && t->round < rounds_count(&c); t->round += t->under_way == 0)
        PASS(start_round(t));
    if (t->under_way == 0) {
        const struct link_call *call = endpoints_next_call(&t->links);
        rounds_end(&c, call->element, call->data);
        endpoints_complete(&t->links, mpi_collect_op(t), t->begin_s, clock_now());
        t->links.served++;
        t->serving = false;
    }
    return STATUS_OK;
}

/* Calls run one after the other, as on all transports; the next one waits in the queue. */
enum status mpi_collect_start(struct mpi *t)
{
    while (endpoints_next_call(&t->links) && !t->serving) {
        const struct rounds_call c = mpi_rounds(t);
        enum status st = rounds_grow(&c, endpoints_next_call(&t->links)->element, &t->chunk);
        if (st != STATUS_OK)
            return mpi_fail(t, st, mpi_collect_op(t), t->links.rank);
        t->serving = true;
        t->round = 0;
        t->begin_s = clock_now();
        PASS(run_rounds(t));
    }
    return STATUS_OK;
}

/* Both halves of a round are complete before anything is added: what is given must not change
 * while it is on its way. */
enum status mpi_collect_advance(struct mpi *t)
{
    const struct link_call *c = endpoints_next_call(&t->links);
    struct round r = current(t);
    if (--t->under_way > 0)
        return STATUS_OK;
    if (r.adds)
        element_reduce(c->element, t->links.program->op[c->op].reduction,
                       element_at(c->element, c->data, r.take.first), t->chunk.data, r.take.n);
    t->round++;
    PASS(run_rounds(t));
    return mpi_collect_start(t);
}
