/* Requests in flight: tested together, never spun on. */
#include "exec/transport/mpi/mpi.h"

#include <limits.h>
#include <math.h>

#include "core/base/clock.h"

#ifdef EXEC_SMPI
static const bool simulated = true;
#else
static const bool simulated = false;
#endif

/* Sleeps while waiting: short ones first, because most waits are short; longer ones then, because
 * ranks may be more than cores (EXECUTION.md 4.3: 0.2 ms costs a quarter of the CPU time of 0.02).
 */
static const double first_nap_s = 1e-5, longest_nap_s = 2e-4;

enum status mpi_error(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return STATUS_OK;
    MPI_Error_string(code, text, &length);
    return error_set(STATUS_IO, "%.*s", length, text);
}

enum status mpi_fail(struct mpi *t, enum status st, uint32_t op, uint32_t peer)
{
    endpoints_fail(&t->links, st, op, peer);
    return endpoints_failure(&t->links);
}

void mpi_track(struct mpi *t, MPI_Request request, uint32_t owner)
{
    t->request[t->active] = request;
    t->owner[t->active++] = owner;
}

/* ---- receives */

/* As many as there are slots, ahead of the ops that wait for them: a message that finds its receive
 * posted is not copied twice. */
enum status mpi_post_receives(struct mpi *t, struct mpi_link *l)
{
    for (; l->next < l->end->order->n && l->pool.free > 0; l->next++) {
        uint32_t op = l->end->order->recv[l->next];
        struct link_op *o = endpoints_op(&t->links, op);
        MPI_Request request;
        o->buffer = link_pool_take(&l->pool);
        int tag = (int)(t->links.program->groups + l->next);
        enum status st =
            mpi_error(MPI_Irecv(o->buffer, (int)t->links.program->op[op].bytes, MPI_BYTE,
                                (int)l->end->peer, tag, MPI_COMM_WORLD, &request));
        if (st != STATUS_OK)
            return mpi_fail(t, st, op, l->end->peer);
        o->posted = true;
        mpi_track(t, request, op);
    }
    return STATUS_OK;
}

/* ---- completion */

static enum status mpi_check_length(const MPI_Status *s, int64_t bytes)
{
    int count;
    MPI_Get_count(s, MPI_BYTE, &count);
    if (count != bytes)
        return error_set(STATUS_IO, "got a message of %d bytes, expected %lld bytes", count,
                         (long long)bytes);
    return STATUS_OK;
}

static enum status complete_op(struct mpi *t, uint32_t op, const MPI_Status *s)
{
    struct link_op *o = endpoints_op(&t->links, op);
    double now_s = clock_now();
    const struct program_op *q = &t->links.program->op[op];
    struct mpi_link *l = &t->link[endpoints_end(&t->links, op)];
    /* MPI does not say when the first byte came */
    endpoints_complete(&t->links, op, q->kind == OP_RECV ? now_s : o->start_s, now_s);
    if (q->kind == OP_RECV) {
        enum status st = mpi_check_length(s, q->bytes);
        if (st != STATUS_OK)
            return mpi_fail(t, st, op, l->end->peer);
    } else {
        link_pool_give(&l->pool, o->buffer);
        o->buffer = NULL;
    }
    return STATUS_OK;
}

/* Which request it was that MPI reports an error of; the one whose status says so. */
static enum status blame(struct mpi *t, int code, int done)
{
    size_t k = 0;
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < done; i++)
        if (t->status[i].MPI_ERROR != MPI_SUCCESS && t->status[i].MPI_ERROR != MPI_ERR_PENDING) {
            k = (size_t)t->done[i];
            code = t->status[i].MPI_ERROR;
        }
    bool round = t->owner[k] == OWNER_ROUND;
    uint32_t op = round ? mpi_collect_op(t) : t->owner[k];
    return mpi_fail(t, mpi_error(code), op,
                    round ? mpi_collect_peer(t) : t->links.program->op[op].peer);
}

/* Requests that are not done move together; new ones follow behind. */
static void compact(struct mpi *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->active; i++)
        if (t->request[i] != MPI_REQUEST_NULL) {
            t->request[kept] = t->request[i];
            t->owner[kept++] = t->owner[i];
        }
    t->active = kept;
}

/* Ops first, then the rounds of the collective, which post new requests into the same list. */
static enum status mpi_collect_messages(struct mpi *t, bool block)
{
    int n = 0;
    PASS(endpoints_failure(&t->links));
    if (t->active == 0)
        return STATUS_OK;
    int code = block ? MPI_Waitsome((int)t->active, t->request, &n, t->done, t->status)
                     : MPI_Testsome((int)t->active, t->request, &n, t->done, t->status);
    if (code != MPI_SUCCESS)
        return blame(t, code, n == MPI_UNDEFINED ? 0 : n);
    if (n == MPI_UNDEFINED || n == 0)
        return STATUS_OK;
    size_t parts = 0;
    for (int i = 0; i < n; i++) {
        uint32_t owner = t->owner[t->done[i]];
        if (owner == OWNER_ROUND)
            parts++;
        else
            PASS(complete_op(t, owner, &t->status[i]));
    }
    compact(t);
    for (; parts > 0; parts--)
        PASS(mpi_collect_advance(t));
    return STATUS_OK;
}

enum status mpi_poll(struct mpi *t)
{
    return mpi_collect_messages(t, false);
}

enum status mpi_nap(struct mpi *t, double *nap_s)
{
    if (simulated && t->active > 0)
        return mpi_collect_messages(t, true);
    *nap_s = fmin(fmax(2 * *nap_s, first_nap_s), longest_nap_s);
    clock_sleep_until(clock_now() + *nap_s);
    return mpi_collect_messages(t, false);
}

/* Whatever else is under way goes on meanwhile. */
enum status mpi_finish(struct mpi *t, MPI_Request *request, double deadline_s)
{
    double nap_s = 0;
    int done = 0;
    if (simulated)
        return mpi_error(MPI_Wait(request, MPI_STATUS_IGNORE));
    for (;;) {
        PASS(mpi_error(MPI_Test(request, &done, MPI_STATUS_IGNORE)));
        if (done)
            return STATUS_OK;
        if (clock_now() > deadline_s)
            return error_set(STATUS_EXTERNAL, "timeout: no answer");
        PASS(mpi_nap(t, &nap_s));
    }
}
