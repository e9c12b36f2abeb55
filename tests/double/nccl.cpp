/* Communicators of NCCL between processes and threads: made by all members or by none, of different
 * GPUs; aborted or destroyed. */
#include "tests/double/nccl.h"
#include "tests/double/log.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

using namespace dbl;

namespace
{

thread_local int depth;
thread_local std::vector<launch> group;
thread_local std::vector<ncclComm *> made, aborted;
thread_local std::string *last_words;

uint64_t machine_here()
{
    const char *told = getenv("NCCL_HOSTID");
    return told ? std::hash<std::string>()(told) : 0;
}

/* Two members on one GPU of one machine. */
bool has_twins(const ncclComm *c, int *a, int *b)
{
    std::vector<identity> who;
    for (int k = 0; k < c->wire.n; k++)
        who.push_back(k == c->wire.me ? c->wire.self : c->wire.member[(size_t)k].who);
    for (*a = 0; *a < c->wire.n; ++*a)
        for (*b = *a + 1; *b < c->wire.n; ++*b)
            if (who[(size_t)*a].gpu == who[(size_t)*b].gpu &&
                who[(size_t)*a].machine == who[(size_t)*b].machine)
                return true;
    return false;
}

ncclComm *new_comm(const std::string &name, int n, int me, const ncclConfig_t *config)
{
    ncclComm *c = new ncclComm();
    c->gpu = current_gpu();
    c->blocks = !config || config->blocking != 0;
    c->error = ncclSuccess;
    c->most_ctas = config && config->maxCTAs > 0 ? config->maxCTAs : 0;
    c->wire.name = name;
    c->wire.n = n;
    c->wire.me = me;
    c->wire.self = {me, c->gpu, rank_here(), machine_here()};
    return c;
}

/* Colours and keys of all members of the parent have come: who is in the new one? */
bool find_members(ncclComm *c)
{
    struct choice {
        int32_t color, key, rank;
    };
    std::vector<choice> mine;
    wire &w = c->parent->wire;
    std::lock_guard<std::mutex> l(c->parent->guard);
    wire_progress(&w);
    for (int k = 0; k < w.n; k++) {
        const frame *found = NULL;
        for (const frame &f : w.member[(size_t)k].inbox)
            if (f.kind == SPLIT && f.tag == c->split)
                found = &f;
        if (k == w.me)
            mine.push_back({c->color, c->key, k});
        else if (!found)
            return false;
        else {
            choice x;
            memcpy(&x, found->body.data(), sizeof x);
            mine.push_back(x);
        }
    }
    std::string ignored;
    for (int k = 0; k < w.n; k++)
        if (k != w.me)
            wire_take(&w, k, SPLIT, c->split, &ignored);
    mine.erase(std::remove_if(mine.begin(), mine.end(),
                              [&](const choice &x) { return x.color != c->color; }),
               mine.end());
    std::sort(mine.begin(), mine.end(), [](const choice &a, const choice &b) {
        return a.key != b.key ? a.key < b.key : a.rank < b.rank;
    });
    c->wire.n = (int)mine.size();
    for (size_t k = 0; k < mine.size(); k++)
        if (mine[k].rank == w.me)
            c->wire.me = (int)k;
    return true;
}

/* Until it is ready or has failed. */
ncclResult_t wait_for(ncclComm *c)
{
    ncclResult_t e;
    while ((e = comm_settle(c)) == ncclInProgress)
        usleep(100);
    return e;
}

ncclResult_t begin(ncclComm *c, ncclComm **out)
{
    *out = c;
    if (depth > 0) {
        made.push_back(c);
        return ncclSuccess;
    }
    return c->blocks ? wait_for(c) : ncclInProgress;
}

/* What is queued of it ends; then the device is idle, and its memory goes. In a group all end
 * first. */
void reclaim(const std::vector<ncclComm *> &all)
{
    for (ncclComm *c : all) {
        int gpu = current_gpu();
        set_current_gpu(c->gpu);
        device_wait("ncclCommAbort(), which frees memory,");
        set_current_gpu(gpu);
        std::lock_guard<std::mutex> l(c->guard);
        wire_close(&c->wire, true);
    }
    for (ncclComm *c : all)
        delete c;
}

} // namespace

namespace dbl
{

ncclResult_t comm_fail(ncclComm *c, ncclResult_t e, const std::string &reason)
{
    if (!last_words)
        last_words = new std::string;
    *last_words = reason;
    if (c && c->error == ncclSuccess) {
        c->error = e;
        c->reason = reason;
    }
    return e;
}

ncclResult_t comm_settle(ncclComm *c)
{
    int a, b;
    if (c->aborted)
        return ncclInternalError;
    if (c->parent) {
        if (!find_members(c))
            return ncclInProgress;
        c->parent = NULL;
    }
    std::lock_guard<std::mutex> l(c->guard);
    if (c->error != ncclSuccess)
        return c->error;
    if (c->is_ready)
        return ncclSuccess;
    if (c->wire.listener < 0 && !wire_open(&c->wire))
        return comm_fail(c, ncclSystemError, "the double's socket: rank or identity twice");
    if (!wire_progress(&c->wire))
        return ncclInProgress;
    if (has_twins(c, &a, &b))
        return comm_fail(c, ncclInvalidUsage,
                         "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " +
                             std::to_string(b) + " both on CUDA device");
    c->is_ready = true;
    log_line("#comm\t%d\t%s\t%d\t%d\t%s", rank_here(), comm_members(c).c_str(), c->blocks,
             c->most_ctas, c->split ? "split" : "init");
    return ncclSuccess;
}

ncclResult_t add_call(const call &c, cudaStream_t handle)
{
    call mine = c;
    ncclComm *comm = c.comm;
    if (!comm->is_ready || !comm->waiting.empty())
        complain("%s on a communicator whose last call has not returned ncclSuccess",
                 call_name(c.kind));
    mine.on = stream_of(handle);
    if (mine.on->gpu != comm->gpu)
        complain("%s on a stream of another GPU", call_name(c.kind));
    launch *of = NULL;
    for (launch &l : group)
        of = l.comm == comm ? &l : of;
    if (!of) {
        group.push_back(launch{comm, {}, {}, 0});
        of = &group.back();
    }
    if (!of->calls.empty() && of->calls[0].on != mine.on)
        complain("one group of calls on two streams of a communicator");
    of->calls.push_back(mine);
    if (depth > 0)
        return ncclSuccess;
    std::vector<launch> all;
    all.swap(group);
    return launch_all(all);
}

} // namespace dbl

/* ---- NCCL's functions */

extern "C" ncclResult_t ncclGetVersion(int *version)
{
    const char *told = getenv("DOUBLE_NCCL");
    *version = told && *told ? atoi(told) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    static std::atomic<int> number;
    memset(uniqueId, 0, sizeof *uniqueId);
    log_line("#id\t%d", rank_here());
    snprintf(uniqueId->internal, sizeof uniqueId->internal, "%d.%d.%lx", (int)getpid(), ++number,
             (unsigned long)(now_s() * 1e6) & 0xffffff);
    return ncclSuccess;
}

extern "C" const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress"};
    return result >= 0 && result < ncclNumResults ? text[result] : "unknown result code";
}

extern "C" const char *ncclGetLastError(ncclComm_t comm)
{
    return comm && !comm->reason.empty() ? comm->reason.c_str()
           : last_words                  ? last_words->c_str()
                                         : "";
}

extern "C" ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                               int rank, ncclConfig_t *config)
{
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return comm_fail(NULL, ncclInvalidArgument, "ranks of a communicator");
    if (config && (config->magic != 0xcafebeef || config->size == 0))
        return comm_fail(NULL, ncclInvalidArgument, "a configuration that is not initialized");
    if (in_step())
        complain("ncclCommInitRank() in a step");
    return begin(new_comm(commId.internal, nranks, rank, config), comm);
}

extern "C" ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                         int rank)
{
    return ncclCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

extern "C" ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                                      ncclConfig_t *config)
{
    if (!comm->is_ready)
        complain("ncclCommSplit() of a communicator that is not ready");
    if (in_step())
        complain("ncclCommSplit() in a step");
    uint32_t number;
    {
        std::lock_guard<std::mutex> l(comm->guard);
        int32_t choice[] = {color, key, comm->wire.me};
        number = ++comm->splits;
        for (int k = 0; k < comm->wire.n; k++)
            if (k != comm->wire.me)
                wire_send(&comm->wire, k, SPLIT, number, as_bytes(choice));
    }
    ncclComm *c =
        new_comm(comm->wire.name + ".s" + std::to_string(number) + "c" + std::to_string(color), 0,
                 0, config);
    if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT)
        c->blocks = comm->blocks;
    c->gpu = comm->gpu;
    c->wire.self.gpu = comm->gpu;
    c->parent = comm;
    c->color = color;
    c->key = key;
    c->split = number;
    if (color != NCCL_SPLIT_NOCOLOR)
        return begin(c, newcomm);
    *newcomm = NULL;
    while (!find_members(c))
        usleep(100);
    delete c;
    return ncclSuccess;
}

/* Where there is a network, NCCL tells of a peer that is gone; inside a machine it waits. */
static void look_for_the_dead(ncclComm *c)
{
    std::lock_guard<std::mutex> l(c->guard);
    wire_progress(&c->wire);
    for (int k = 0; k < c->wire.n; k++)
        if (c->wire.member[(size_t)k].is_gone)
            comm_fail(c, ncclRemoteError, "rank " + std::to_string(k) + " is gone");
}

extern "C" ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)
{
    if (has_fault("remote-error") && comm->is_ready)
        look_for_the_dead(comm);
    *asyncError = comm_settle(comm);
    if (*asyncError == ncclSuccess)
        *asyncError = launch_settle(comm);
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    comm->aborted = true;
    engine_nudge();
    if (depth > 0) {
        aborted.push_back(comm);
        return ncclSuccess;
    }
    reclaim({comm});
    return ncclSuccess;
}

/* What is queued of it is waited for. */
extern "C" ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    wait_until("ncclCommFinalize()", [=] { return comm->serving == comm->tickets; });
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    ncclCommFinalize(comm);
    reclaim({comm});
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->wire.n;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->gpu;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->wire.me;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

extern "C" ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        return comm_fail(NULL, ncclInvalidUsage, "ncclGroupEnd() without ncclGroupStart()");
    if (--depth > 0)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    std::vector<ncclComm *> fresh, ended;
    std::vector<launch> all;
    fresh.swap(made);
    ended.swap(aborted);
    all.swap(group);
    /* All together: one that waits for its peers must not keep the others from theirs. */
    for (bool any = true; any;) {
        any = false;
        for (ncclComm *c : fresh)
            if (c->blocks) {
                ncclResult_t e = comm_settle(c);
                any = any || e == ncclInProgress;
                result = e != ncclSuccess && e != ncclInProgress ? e : result;
            }
        if (any)
            usleep(100);
    }
    for (ncclComm *c : fresh)
        if (!c->blocks && result == ncclSuccess)
            result = ncclInProgress;
    if (!all.empty()) {
        ncclResult_t e = launch_all(all);
        result = result == ncclSuccess ? e : result;
    }
    reclaim(ended);
    return result;
}
