/* What communicators do: a call is a kernel that waits on its stream until all that take part are
 * at theirs. Sums are made chunk by chunk in the order of NCCL's ring, every addition rounded to
 * the type: other bits than foreline's ring beyond two members, and the same ones on all. */
#include "tests/double/log.h"
#include "tests/double/nccl.h"

#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace dbl
{

const char *call_name(call_kind k)
{
    static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                        "Reduce",    "Send",          "Recv"};
    return names[k];
}

namespace
{

size_t size_of(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclBfloat16:
    case ncclFloat16:
        return 2;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
        return 4;
    default:
        return 8;
    }
}

const char *type_name(ncclDataType_t t)
{
    return t == ncclFloat32    ? "float32"
           : t == ncclBfloat16 ? "bfloat16"
           : t == ncclFloat16  ? "float16"
           : t == ncclInt8     ? "int8"
                               : "other";
}

/* ---- sums */

template <typename T> void add_all(std::vector<const T *> from, size_t n, ncclRedOp_t op, T *to)
{
    for (size_t i = 0; i < n; i++) {
        T total = from[0][i];
        for (size_t k = 1; k < from.size(); k++) {
            T x = from[k][i];
            total = op == ncclSum   ? T((float)total + (float)x)
                    : op == ncclMax ? ((float)x > (float)total ? x : total)
                                    : ((float)x < (float)total ? x : total);
        }
        to[i] = total;
    }
}

/* Of `from` [R] arrays: those of chunk `c`, which is complete at member c, begin with member
 * c + 1. */
template <typename T>
void reduce_chunk(const std::vector<std::string> &from, size_t first, size_t n, size_t c,
                  ncclRedOp_t op, char *to)
{
    std::vector<const T *> order;
    for (size_t k = 0; k < from.size(); k++)
        order.push_back((const T *)from[(c + 1 + k) % from.size()].data() + first);
    add_all<T>(order, n, op, (T *)to);
}

void reduce(ncclDataType_t type, const std::vector<std::string> &from, size_t first, size_t n,
            size_t c, ncclRedOp_t op, char *to)
{
    if (type == ncclFloat32)
        reduce_chunk<float>(from, first, n, c, op, to);
    else if (type == ncclBfloat16)
        reduce_chunk<__nv_bfloat16>(from, first, n, c, op, to);
    else
        reduce_chunk<__half>(from, first, n, c, op, to);
}

/* ---- what members tell each other */

struct part_header {
    int32_t kind, type, op, root;
    uint64_t n;
};

part_header header_of(const call &c)
{
    return {c.kind, c.type, c.op, c.kind == BROADCAST || c.kind == REDUCE ? c.peer : 0, c.n};
}

uint32_t key_of(const call &c)
{
    bool pair = c.kind == SEND || c.kind == RECV;
    return pair ? (uint32_t)(c.kind == SEND ? 1 : 2) << 16 | (uint32_t)c.peer : 0;
}

size_t bytes_of(const call &c)
{
    return c.n * size_of(c.type);
}

/* Numbers that a call reads, of type. */
size_t reads(const call &c)
{
    size_t r = (size_t)c.comm->wire.n;
    bool root = c.peer == c.comm->wire.me;
    return c.kind == REDUCESCATTER ? bytes_of(c) * r
           : c.kind == BROADCAST   ? (root ? bytes_of(c) : 0)
                                   : bytes_of(c);
}

size_t writes(const call &c)
{
    size_t r = (size_t)c.comm->wire.n;
    return c.kind == ALLGATHER                             ? bytes_of(c) * r
           : c.kind == REDUCE && c.peer != c.comm->wire.me ? 0
                                                           : bytes_of(c);
}

/* What peer `k` needs of this member's array. */
std::string part_for(const call &c, size_t k)
{
    bool to_root = c.kind == REDUCE && (int)k != c.peer;
    if (c.kind == REDUCESCATTER)
        return c.mine.substr(k * bytes_of(c), bytes_of(c));
    return to_root ? std::string() : c.mine;
}

void give_parts(op &o, call &c)
{
    wire &w = c.comm->wire;
    if (reads(c) > 0) {
        touch(o, c.from, reads(c), false);
        c.mine.assign(c.from, reads(c));
    }
    for (int k = 0; k < w.n; k++)
        if (k != w.me)
            wire_send(&w, k, PART, c.tag, as_bytes(header_of(c)) + part_for(c, (size_t)k));
}

/* The parts of all members, if they have come, this one's included. */
bool take_parts(call &c, std::vector<std::string> &parts)
{
    wire &w = c.comm->wire;
    for (int k = 0; k < w.n; k++) {
        bool there = k == w.me;
        for (const frame &f : w.member[(size_t)k].inbox)
            there = there || (f.kind == PART && f.tag == c.tag);
        if (!there)
            return false;
    }
    part_header mine = header_of(c), other;
    for (int k = 0; k < w.n; k++) {
        std::string body = k == w.me ? as_bytes(mine) + part_for(c, (size_t)k) : "";
        if (k != w.me)
            wire_take(&w, k, PART, c.tag, &body);
        memcpy(&other, body.data(), sizeof other);
        if (memcmp(&mine, &other, sizeof mine) != 0)
            complain("member %d calls %s of %zu %s, member %d %s of %zu %s", w.me,
                     call_name(c.kind), c.n, type_name(c.type), k, call_name((call_kind)other.kind),
                     (size_t)other.n, type_name((ncclDataType_t)other.type));
        parts.push_back(body.substr(sizeof other));
    }
    return true;
}

void finish_collective(op &o, call &c, const std::vector<std::string> &parts)
{
    size_t r = parts.size(), me = (size_t)c.comm->wire.me;
    if (writes(c) == 0)
        return;
    touch(o, c.to, writes(c), true);
    if (c.kind == ALLGATHER)
        for (size_t k = 0; k < r; k++)
            memcpy(c.to + k * bytes_of(c), parts[k].data(), bytes_of(c));
    else if (c.kind == BROADCAST)
        memcpy(c.to, parts[(size_t)c.peer].data(), bytes_of(c));
    else if (c.kind == REDUCESCATTER)
        reduce(c.type, parts, 0, c.n, me, c.op, c.to);
    else
        for (size_t k = 0; k < r; k++) {
            size_t first = c.n * k / r, end = c.n * (k + 1) / r;
            reduce(c.type, parts, first, end - first, k, c.op, c.to + first * size_of(c.type));
        }
}

/* ---- one look at a call; true: it is complete */

bool step_send(op &o, call &c)
{
    wire &w = c.comm->wire;
    std::string credit;
    if (c.phase == 0) {
        if (!wire_take(&w, c.peer, CREDIT, c.tag, &credit))
            return false;
        uint64_t wanted;
        memcpy(&wanted, credit.data(), sizeof wanted);
        if (wanted != bytes_of(c))
            complain("member %d sends %zu bytes to member %d, which receives %zu", w.me,
                     bytes_of(c), c.peer, (size_t)wanted);
        touch(o, c.from, bytes_of(c), false);
        wire_send(&w, c.peer, DATA, c.tag, std::string(c.from, bytes_of(c)));
        c.phase = 1;
    }
    return wire_is_flushed(&w);
}

bool step_receive(op &o, call &c)
{
    wire &w = c.comm->wire;
    std::string body;
    if (c.phase == 0) {
        wire_send(&w, c.peer, CREDIT, c.tag, as_bytes((uint64_t)bytes_of(c)));
        c.phase = 1;
    }
    if (!wire_take(&w, c.peer, DATA, c.tag, &body))
        return false;
    touch(o, c.to, bytes_of(c), true);
    memcpy(c.to, body.data(), body.size());
    return true;
}

bool step_collective(op &o, call &c)
{
    std::vector<std::string> parts;
    if (c.phase == 0) {
        give_parts(o, c);
        c.phase = 1;
    }
    if (c.phase == 1) {
        if (!take_parts(c, parts))
            return false;
        finish_collective(o, c, parts);
        c.phase = 2;
    }
    return wire_is_flushed(&c.comm->wire);
}

bool step_call(op &o, call &c)
{
    enum { DONE = 9 };
    if (c.phase == DONE)
        return true;
    bool done = c.n == 0         ? true
                : c.kind == SEND ? step_send(o, c)
                : c.kind == RECV ? step_receive(o, c)
                                 : step_collective(o, c);
    if (done)
        c.phase = DONE;
    return done;
}

/* Launches of a communicator happen in the order in which they were made, on whatever streams. */
bool step_launch(op &o, launch &l, uint64_t ticket)
{
    ncclComm *c = l.comm;
    if (c->serving != ticket)
        return false;
    std::lock_guard<std::mutex> guard(c->guard);
    bool all = true;
    if (!c->aborted) {
        wire_progress(&c->wire);
        for (call &x : l.calls)
            all = step_call(o, x) && all;
        if (!all) {
            for (const peer_end &m : c->wire.member)
                if (m.fd >= 0 && !m.is_gone)
                    watch(m.fd);
            return false;
        }
    }
    c->serving++;
    return true;
}

/* ---- the log */

int global_rank(const ncclComm *c, int member)
{
    const identity &i = member == c->wire.me ? c->wire.self : c->wire.member[(size_t)member].who;
    return i.global;
}

void log_call(const call &c)
{
    log_line("%d\t%ld\t%s\t%s\t%d\t%zu\t%s\t%s/%d", rank_here(), step_now(),
             comm_members(c.comm).c_str(), call_name(c.kind),
             c.kind < BROADCAST ? -1 : global_rank(c.comm, c.peer), c.n, type_name(c.type),
             c.on->name.c_str(), c.on->priority);
}

/* ---- queueing */

void queue(launch &l)
{
    if (l.calls[0].on->into)
        complain("%s in a capture, which the double has not", call_name(l.calls[0].kind));
    launch *mine = new launch(l);
    uint64_t ticket = l.comm->tickets++;
    bool mixed = false;
    for (const call &c : l.calls) {
        log_call(c);
        mixed = mixed || c.kind != l.calls[0].kind;
    }
    put(l.calls[0].on, mixed ? "SendRecv" : call_name(l.calls[0].kind), [=](op &o) {
        if (!step_launch(o, *mine, ticket))
            return false;
        delete mine;
        return true;
    });
}

/* Those of collectives, when the communicator is made. */
bool connects_at_once()
{
    static const bool is = [] {
        const char *told = getenv("NCCL_RUNTIME_CONNECT");
        return told && *told == '0';
    }();
    return is;
}

/* Connections are made with the first call of a kind with a peer, and the peer must make its own:
 * who waits is the caller of one that blocks. */
void greet(launch &l)
{
    ncclComm *c = l.comm;
    std::lock_guard<std::mutex> guard(c->guard);
    for (call &x : l.calls) {
        uint32_t key = key_of(x);
        x.tag = c->tags[key]++;
        if (x.n == 0 || (key == 0 && connects_at_once()) || !c->connected.insert(key).second)
            continue;
        for (int k = 0; k < c->wire.n; k++) {
            if (k == c->wire.me || (key > 0 && k != x.peer))
                continue;
            uint32_t mine = key >> 16, theirs = mine == 0 ? 0 : 3 - mine;
            wire_send(&c->wire, k, CONNECT, mine, "");
            l.greetings.push_back({k, theirs});
        }
    }
}

bool is_greeted(launch &l)
{
    std::string ignored;
    std::lock_guard<std::mutex> guard(l.comm->guard);
    wire_progress(&l.comm->wire);
    for (size_t k = l.greetings.size(); k-- > 0;)
        if (wire_take(&l.comm->wire, l.greetings[k].first, CONNECT, l.greetings[k].second,
                      &ignored))
            l.greetings.erase(l.greetings.begin() + (ptrdiff_t)k);
    return l.greetings.empty() || l.comm->aborted;
}

bool is_bad(const call &c)
{
    bool sums = c.kind == ALLREDUCE || c.kind == REDUCESCATTER || c.kind == REDUCE;
    return (sums && c.type != ncclFloat32 && c.type != ncclBfloat16 && c.type != ncclFloat16) ||
           (sums && c.op != ncclSum && c.op != ncclMax && c.op != ncclMin) || c.peer < 0 ||
           c.peer >= c.comm->wire.n;
}

/* In place or apart, nothing between. */
bool overlaps(const call &c)
{
    size_t me = (size_t)c.comm->wire.me;
    const char *in_place = c.kind == ALLGATHER       ? c.to + me * bytes_of(c)
                           : c.kind == REDUCESCATTER ? c.to - me * bytes_of(c)
                                                     : c.to;
    if (c.kind >= SEND || c.n == 0 || c.from == in_place)
        return false;
    return c.from < c.to + writes(c) && c.to < c.from + reads(c);
}

} // namespace

std::string comm_members(const ncclComm *c)
{
    std::string members;
    for (int k = 0; k < c->wire.n; k++)
        members += (k > 0 ? "," : "") + std::to_string(global_rank(c, k));
    return members;
}

ncclResult_t launch_all(std::vector<launch> &all)
{
    bool later = false;
    for (launch &l : all)
        for (const call &c : l.calls) {
            if (is_bad(c))
                return comm_fail(l.comm, ncclInvalidArgument,
                                 std::string(call_name(c.kind)) + ": type, operation or peer");
            if (overlaps(c))
                complain("%s into part of what it reads", call_name(c.kind));
            if (strikes("nccl-error"))
                return comm_fail(l.comm, ncclSystemError, "injected");
            if (strikes("kill"))
                kill_here();
        }
    for (launch &l : all)
        greet(l);
    for (launch &l : all) {
        if (!l.comm->blocks) {
            l.looks = is_seeded() ? (int)(random32() % 4) : 1;
            l.comm->waiting.push_back(l);
            later = true;
            continue;
        }
        double begin_s = now_s();
        for (bool told = false; !is_greeted(l); usleep(50))
            if (!told && now_s() - begin_s > 5) {
                told = true;
                remark("%s has blocked the host for 5 s: a first call waits for its peer",
                       call_name(l.calls[0].kind));
            }
        queue(l);
    }
    return later ? ncclInProgress : ncclSuccess;
}

ncclResult_t launch_settle(ncclComm *c)
{
    while (!c->waiting.empty()) {
        launch &l = c->waiting.front();
        if (l.looks-- > 0 || !is_greeted(l))
            return ncclInProgress;
        queue(l);
        c->waiting.pop_front();
    }
    return ncclSuccess;
}

} // namespace dbl

using namespace dbl;

static ncclResult_t collective(call_kind kind, const void *from, void *to, size_t n,
                               ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
    return add_call(
        call{comm, kind, (char *)(uintptr_t)from, (char *)to, n, type, op, root, NULL, 0, 0, ""},
        stream);
}

extern "C" ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return collective(ALLREDUCE, sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
}

extern "C" ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                          ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                          cudaStream_t stream)
{
    return collective(REDUCESCATTER, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream);
}

extern "C" ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                      ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALLGATHER, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm, stream);
}

extern "C" ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                      ncclDataType_t datatype, int root, ncclComm_t comm,
                                      cudaStream_t stream)
{
    return collective(BROADCAST, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
}

extern "C" ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, int root,
                                   ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

extern "C" ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype,
                                 int peer, ncclComm_t comm, cudaStream_t stream)
{
    return collective(SEND, sendbuff, NULL, count, datatype, ncclSum, peer, comm, stream);
}

extern "C" ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                                 ncclComm_t comm, cudaStream_t stream)
{
    return collective(RECV, NULL, recvbuff, count, datatype, ncclSum, peer, comm, stream);
}
