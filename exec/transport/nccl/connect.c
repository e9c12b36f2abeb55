/* Communicators: the world, its parts for channels and groups, connections, and their end. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/device/cuda/context.h"
#include "exec/transport/nccl/nccl.h"

/* ---- teams: channels, then groups, each with a communicator */

struct comm_members {
    size_t n;
    const uint32_t *member; /* [n] ranks */
    uint32_t pair[2];       /* of a channel */
};

static void find_team(const struct program *p, size_t k, struct comm_members *out)
{
    bool channel = k < p->channels;
    size_t g = k - p->channels;
    *out = (struct comm_members){.n = 2, .member = out->pair};
    if (channel) {
        out->pair[0] = p->channel[k].from;
        out->pair[1] = p->channel[k].to;
    } else {
        out->n = p->group_start[g + 1] - p->group_start[g];
        out->member = p->member + p->group_start[g];
    }
}

/* Where the rank keeps the communicator of a team that it is in. */
static ncclComm_t *comm_of(struct nccl *t, size_t team)
{
    const struct program *p = t->links.program;
    return team < p->channels ? t->link[t->links.of[team]].comm : t->group[team - p->channels].comm;
}

/* One ncclCommSplit for as many teams as have no member in common: a colour each. */
struct comm_split {
    bool *made;     /* [teams] */
    uint32_t *used; /* [ranks] number of the last split that the rank is in a team of */
    uint32_t number;
    int color, key;  /* of this rank */
    ncclComm_t *out; /* of this rank */
};

static bool choose_teams(struct nccl *t, size_t teams, struct comm_split *s)
{
    bool any = false;
    s->number++;
    s->color = NCCL_SPLIT_NOCOLOR;
    s->key = 0;
    for (size_t k = 0; k < teams; k++) {
        struct comm_members m;
        find_team(t->links.program, k, &m);
        bool busy = s->made[k] || m.n < 2;
        for (size_t i = 0; i < m.n && !busy; i++)
            busy = s->used[m.member[i]] == s->number;
        for (size_t i = 0; i < m.n && !busy; i++) {
            s->used[m.member[i]] = s->number;
            if (m.member[i] != t->links.rank)
                continue;
            s->color = (int)k;
            s->key = (int)i;
            s->out = comm_of(t, k);
        }
        s->made[k] = s->made[k] || !busy;
        any = any || !busy;
    }
    return any;
}

/* ---- making them */

/* Rank 0 makes the identity of the world. */
static enum status make_world(struct nccl *t)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    PASS(nccl_begin(t));
    PASS(nccl_end(t, NULL, t->links.rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess));
    PASS(star_spread(&t->star, &id, sizeof id, clock_now() + t->patience_s));
    nccl_set_patience(t, t->call_s);
    PASS(nccl_begin(t));
    ncclResult_t e = ncclCommInitRankConfig(&t->comm[0], (int)t->links.program->ranks, id,
                                            (int)t->links.rank, &config);
    return nccl_end(t, t->comm[0], e);
}

/* Nothing is shared (splitShare): NCCL orders the calls of communicators that share as if they were
 * one, and a receive would hold up the sum that it waits for. */
static enum status nccl_split_comm(struct nccl *t, const struct comm_split *s)
{
    ncclComm_t none = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.splitShare = 0;
    PASS(nccl_begin(t));
    ncclResult_t e = ncclCommSplit(t->comm[0], s->color, s->key,
                                   s->color == NCCL_SPLIT_NOCOLOR ? &none : s->out, &config);
    PASS(nccl_end(t, t->comm[0], e));
    if (s->color == NCCL_SPLIT_NOCOLOR)
        return STATUS_OK;
    PASS(nccl_begin(t));
    return nccl_end(t, *s->out, ncclInProgress); /* done at once, if it blocks */
}

/* Ranks make the same choices, so that all take part in every split. */
static enum status make_teams(struct nccl *t)
{
    enum status st;
    size_t teams = t->links.program->channels + t->links.program->groups;
    struct comm_split s = {0};
    TRY(ARRAY_NEW(s.made, teams));
    TRY(ARRAY_NEW(s.used, t->links.program->ranks));
    while (choose_teams(t, teams, &s))
        TRY(nccl_split_comm(t, &s));
out:
    free(s.made);
    free(s.used);
    return st;
}

/* ---- connections */

/* To and from those members that rounds need. */
static ncclResult_t queue_first_rounds(const struct nccl *t, const struct nccl_group *own,
                                       const struct link_group *seat)
{
    ncclResult_t e = ncclSuccess;
    for (size_t k = 0; k < seat->ranks && nccl_fine(e); k++) {
        if (t->links.gives[seat->first + k])
            e = ncclSend(own->chunk, 1, ncclInt8, (int)k, *own->comm, own->stream);
        if (nccl_fine(e) && t->links.takes[seat->first + k])
            e = ncclRecv(own->chunk + 1 + k, 1, ncclInt8, (int)k, *own->comm, own->stream);
    }
    return e;
}

/* A byte along every channel, and a number in every group. */
static ncclResult_t queue_first_calls(struct nccl *t)
{
    ncclResult_t e = ncclSuccess;
    for (const struct nccl_link *l = t->link; l < t->link + t->links.n && nccl_fine(e); l++)
        e = l->end->outgoing ? ncclSend(l->memory, 1, ncclInt8, 1, *l->comm, l->stream)
                             : ncclRecv(l->memory, 1, ncclInt8, 0, *l->comm, l->stream);
    for (size_t g = 0; g < t->links.program->groups && nccl_fine(e); g++) {
        const struct nccl_group *own = &t->group[g];
        if (!*own->comm)
            continue;
        e = t->links.algorithm ? queue_first_rounds(t, own, &t->links.group[g])
                               : ncclAllReduce(own->chunk, own->chunk, 1, ncclFloat, ncclSum,
                                               *own->comm, own->stream);
    }
    return e;
}

/* Connections are made when they are first used, which takes memory and both ends' time: now, all
 * at once, and not in a step. (Those of other algorithms than the first sum's are made when
 * communicators are: NCCL_RUNTIME_CONNECT, exec/worker_main_cuda.c.) */
static enum status connect_all(struct nccl *t)
{
    PASS(nccl_begin(t));
    ncclResult_t e = ncclGroupStart();
    if (nccl_fine(e))
        e = queue_first_calls(t);
    ncclResult_t ended = ncclGroupEnd();
    PASS(nccl_end(t, t->comm[0], nccl_fine(e) ? ended : e));
    for (size_t k = 1; k < t->comms && ended == ncclInProgress; k++) {
        PASS(nccl_begin(t));
        PASS(nccl_end(t, t->comm[k], t->comm[k] ? ncclInProgress : ncclSuccess));
    }
    for (size_t k = 0; k < t->links.n; k++)
        PASS(nccl_drain(t, t->link[k].stream));
    for (size_t g = 0; g < t->links.program->groups; g++)
        if (t->group[g].stream)
            PASS(nccl_drain(t, t->group[g].stream));
    return STATUS_OK;
}

/* What says "rank R: ..." is of others. */
enum status nccl_connect(struct nccl *t)
{
    enum status st;
    TRY(make_world(t));
    TRY(make_teams(t));
    TRY(connect_all(t));
    atomic_store(&t->connected, true);
out:
    return st == STATUS_OK || !strncmp(error_message(), "rank ", 5)
               ? st
               : error_context(st, "creating NCCL communicators");
}

/* ---- the end */

/* In one group: a communicator's end waits until the kernels of the GPU are over, those of the
 * others as well. They and blocked calls are told at the call already; what is aborted is freed at
 * the end of the group, when no call uses it any more. One that is made meanwhile is found then. */
static void tell_all(struct nccl *t)
{
    for (size_t k = 0; k < t->comms; k++) {
        if (!t->comm[k] || t->told[k])
            continue;
        t->told[k] = true;
        ncclCommAbort(t->comm[k]);
    }
}

void nccl_abort(struct nccl *t)
{
    if (t->aborted || !t->comm)
        return;
    ncclGroupStart();
    tell_all(t);
    pthread_mutex_lock(&t->calls);
    tell_all(t);
    t->aborted = true;
    ncclGroupEnd();
    pthread_mutex_unlock(&t->calls);
}
