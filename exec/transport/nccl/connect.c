/* Communicators of NCCL: made, connected, and waited for. */
#include <stdlib.h>
#include <time.h>

#include "core/array.h"
#include "core/clock.h"
#include "exec/device/cuda/context.h"
#include "exec/transport/nccl/nccl.h"

/* Messages are few and large: leave the multiprocessors to those who compute. */
enum { MOST_CTAS = 4 };

/* Communicators do not block: a call may go on in the background, where only polling finds
 * errors. */
enum status nccl_settle(ncclComm_t comm, ncclResult_t first, double deadline_s)
{
    const struct timespec nap = {.tv_nsec = 20000};
    ncclResult_t state = first;
    while (state == ncclInProgress || state == ncclSuccess) {
        ncclResult_t asked = comm ? ncclCommGetAsyncError(comm, &state) : ncclSuccess;
        if (asked != ncclSuccess)
            state = asked;
        if (state == ncclSuccess)
            return STATUS_OK;
        if (state == ncclInProgress && clock_now() >= deadline_s)
            return error_set(STATUS_EXTERNAL, "NCCL: no answer in time");
        if (state == ncclInProgress)
            nanosleep(&nap, NULL);
    }
    return error_set(state == ncclRemoteError ? STATUS_IO : STATUS_EXTERNAL, "NCCL: %s: %s",
                     ncclGetErrorString(state), ncclGetLastError(comm));
}

static enum status join(ncclUniqueId id, size_t ranks, size_t me, int ctas, double deadline_s,
                        ncclComm_t *out)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (ctas > 0)
        config.maxCTAs = ctas;
    ncclResult_t e = ncclCommInitRankConfig(out, (int)ranks, id, (int)me, &config);
    return nccl_settle(*out, e, deadline_s);
}

enum status nccl_exchange(struct nccl *t, size_t group, const struct round *r, const float *data,
                          float *take, double deadline_s)
{
    ncclComm_t comm = t->group[group];
    ncclResult_t e = ncclGroupStart();
    if (e == ncclSuccess && r->give.n > 0)
        e = ncclSend(data + r->give.first, r->give.n, ncclFloat, (int)r->to, comm, t->sums);
    if ((e == ncclSuccess || e == ncclInProgress) && r->take.n > 0)
        e = ncclRecv(take, r->take.n, ncclFloat, (int)r->from, comm, t->sums);
    ncclResult_t ended = ncclGroupEnd();
    if (e == ncclSuccess || e == ncclInProgress)
        e = ended;
    return nccl_settle(comm, e, deadline_s);
}

/* The first message of a stream has arrived. */
static enum status drain(cudaStream_t stream, double deadline_s)
{
    const struct timespec nap = {.tv_nsec = 50000};
    cudaError_t e;
    while ((e = cudaStreamQuery(stream)) == cudaErrorNotReady && clock_now() < deadline_s)
        nanosleep(&nap, NULL);
    if (e == cudaErrorNotReady)
        return error_set(STATUS_EXTERNAL, "NCCL: the first message does not arrive");
    return CUDA_ERROR("first message", e);
}

/* One byte each way makes NCCL set the connection up now and not during the first step. */
static enum status connect_link(struct nccl_link *l, ncclUniqueId id, double deadline_s)
{
    enum status st;
    ncclResult_t e;
    TRY(join(id, 2, l->end->outgoing ? 0 : 1, MOST_CTAS, deadline_s, &l->comm));
    e = l->end->outgoing ? ncclSend(l->memory, 1, ncclInt8, 1, l->comm, l->stream)
                         : ncclRecv(l->memory, 1, ncclInt8, 0, l->comm, l->stream);
    TRY(nccl_settle(l->comm, e, deadline_s));
    TRY(drain(l->stream, deadline_s));
out:
    return st == STATUS_OK ? st : error_context(st, "connection with rank %u", l->end->peer);
}

/* The first messages go around the ring: connections to others are made when they are needed. */
static enum status connect_group(struct nccl *t, size_t g, ncclUniqueId id, double deadline_s)
{
    enum status st = STATUS_OK;
    const struct link_group *group = &t->links.group[g];
    if (group->ranks < 2)
        return STATUS_OK;
    const struct round first = {.to = (uint32_t)((group->me + 1) % group->ranks),
                                .from = (uint32_t)((group->me + group->ranks - 1) % group->ranks),
                                .give = {0, 1},
                                .take = {1, 1}};
    TRY(join(id, group->ranks, group->me, 0, deadline_s, &t->group[g]));
    TRY(nccl_exchange(t, g, &first, t->chunk, t->chunk + 1, deadline_s));
    TRY(drain(t->sums, deadline_s));
out:
    return st == STATUS_OK ? st : error_context(st, "group %zu of %zu ranks", g, group->ranks);
}

/* Rank 0 makes the identities of all communicators. */
static enum status share_identities(struct nccl *t, size_t n, ncclUniqueId *id, double deadline_s)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; t->links.rank == 0 && i < n; i++) {
        ncclResult_t e = ncclGetUniqueId(&id[i]);
        if (e != ncclSuccess) {
            st = error_set(STATUS_EXTERNAL, "NCCL: %s: %s", ncclGetErrorString(e),
                           ncclGetLastError(NULL));
            goto out;
        }
    }
    TRY(star_spread(&t->star, id, n * sizeof *id, deadline_s));
out:
    return st;
}

/* All ranks go through channels and groups in the same order, so that none waits in a circle. */
enum status nccl_connect(struct nccl *t, double deadline_s)
{
    enum status st;
    const struct program *p = t->links.program;
    size_t n = p->channels + p->groups;
    ncclUniqueId *id = NULL;
    TRY(ARRAY_NEW(id, n));
    TRY(share_identities(t, n, id, deadline_s));
    for (size_t c = 0; c < p->channels; c++)
        if (t->links.of[c] != PROGRAM_NONE)
            TRY(connect_link(&t->link[t->links.of[c]], id[c], deadline_s));
    for (size_t g = 0; g < p->groups; g++)
        TRY(connect_group(t, g, id[p->channels + g], deadline_s));
out:
    free(id);
    return st == STATUS_OK ? st : error_context(st, "rank %u", t->links.rank);
}
