/* nccl.h - the double's communicators: nccl.cpp makes them, nccl_calls.cpp queues and does what is
 * asked of them. */
#ifndef DOUBLE_NCCL_INSIDE_H
#define DOUBLE_NCCL_INSIDE_H

#include <atomic>
#include <map>
#include <set>

#include "tests/double/double.h"
#include "tests/double/include/nccl.h"
#include "tests/double/wire.h"

namespace dbl
{

enum call_kind { ALLREDUCE, REDUCESCATTER, ALLGATHER, BROADCAST, REDUCE, SEND, RECV };

struct call {
    ncclComm *comm;
    call_kind kind;
    char *from, *to;
    size_t n;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* or root */
    stream *on;
    uint32_t tag; /* number among the communicator's of this kind and peer */
    int phase;
    std::string mine;
};

/* Calls of one group on one communicator: one kernel. */
struct launch {
    ncclComm *comm;
    std::vector<call> calls;
    std::vector<std::pair<int, uint32_t>> greetings; /* peers and tags of CONNECT still to come */
    int looks; /* of a communicator that does not block, until this is queued */
};

const char *call_name(call_kind k);

} // namespace dbl

struct ncclComm {
    std::mutex guard; /* of all below */
    dbl::wire wire;
    int gpu;
    bool blocks, is_ready, leaves_group;
    std::atomic<bool> aborted{false};
    ncclResult_t error;
    std::string reason;
    /* Split: the communicator that it came from, until the members are known. */
    ncclComm *parent;
    int color, key;
    int most_ctas;                     /* 0: not said */
    uint32_t splits, split;            /* made of it; its number */
    std::map<uint32_t, uint32_t> tags; /* by kind and peer: calls so far */
    std::set<uint32_t> connected;      /* the same, after the first */
    std::deque<dbl::launch> waiting;   /* of one that does not block */
    uint64_t tickets, serving;         /* launches happen one after the other */
};

namespace dbl
{

/* One more look at a communicator that is being made: ncclInProgress, or what came of it. */
ncclResult_t comm_settle(ncclComm *c);
std::string comm_members(const ncclComm *c); /* global ranks */
ncclResult_t comm_fail(ncclComm *c, ncclResult_t e, const std::string &reason);
/* Those of the group that has ended: queued, or (ncclInProgress) will be. */
ncclResult_t launch_all(std::vector<launch> &all);
/* One more look at what waits in `c`. */
ncclResult_t launch_settle(ncclComm *c);
ncclResult_t add_call(const call &c, cudaStream_t stream);

} // namespace dbl

#endif
