/* Collectives on a group's stream: NCCL's own in place, or rounds of sends and sums. */
#include "exec/device/cuda/context.h"
#include "exec/transport/nccl/nccl.h"

struct ring_part nccl_part(size_t n, size_t members, size_t me)
{
    size_t each = n / members;
    return (struct ring_part){me * each, each + (me + 1 == members ? n % members : 0)};
}

static ncclRedOp_t reduction_of(const struct rounds_call *c)
{
    static const ncclRedOp_t of[REDUCTIONS] = {ncclSum, ncclAvg, ncclMin, ncclMax};
    return of[c->reduction];
}

/* Everybody's part to member 0 or from there: messages of one group. */
static ncclResult_t call_rooted(const struct nccl_group *g, const struct rounds_call *c,
                                enum element type, void *data)
{
    ncclResult_t e = ncclGroupStart();
    for (size_t m = 1; nccl_fine(e) && m < c->ranks; m++) {
        const struct ring_part p = nccl_part(c->n, c->ranks, m);
        void *part = element_at(type, data, p.first);
        bool gives = c->kind == OP_GATHER ? c->me == m : c->me == 0;
        bool takes = c->kind == OP_GATHER ? c->me == 0 : c->me == m;
        int peer = c->me == 0 ? (int)m : 0;
        if (gives && p.n > 0)
            e = ncclSend(part, p.n, nccl_type(type), peer, *g->comm, g->stream);
        if (takes && p.n > 0)
            e = ncclRecv(part, p.n, nccl_type(type), peer, *g->comm, g->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return nccl_fine(e) ? ended : e;
}

/* Every member's part to each: the messages of all in one group. */
static ncclResult_t nccl_call_all(const struct nccl_group *g, const struct rounds_call *c,
                                  enum element type, void *data)
{
    size_t each = c->n / (2 * c->ranks);
    ncclResult_t e = ncclGroupStart();
    for (size_t m = 0; nccl_fine(e) && m < c->ranks; m++) {
        if (m == c->me)
            continue;
        e = ncclSend(element_at(type, data, m * each), each, nccl_type(type), (int)m, *g->comm,
                     g->stream);
        if (nccl_fine(e))
            e = ncclRecv(element_at(type, data, (c->ranks + m) * each), each, nccl_type(type),
                         (int)m, *g->comm, g->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return nccl_fine(e) ? ended : e;
}

/* Scattered and gathered are equal chunks; what is left over, fewer numbers than members, is
 * summed on all and spread by the last one, who owns it. */
static ncclResult_t call_own(const struct nccl_group *g, const struct rounds_call *c,
                             enum element type, void *data)
{
    size_t each = c->n / c->ranks, rest = c->n % c->ranks;
    void *mine = element_at(type, data, c->me * each);
    void *left = element_at(type, data, c->ranks * each);
    const ncclRedOp_t how = reduction_of(c);
    bool scatters = c->kind == OP_REDUCESCATTER;
    if (c->kind == OP_ALLREDUCE)
        return ncclAllReduce(data, data, c->n, nccl_type(type), how, *g->comm, g->stream);
    if (c->kind == OP_BROADCAST)
        return ncclBroadcast(data, data, c->n, nccl_type(type), 0, *g->comm, g->stream);
    if (c->kind == OP_REDUCE)
        return ncclReduce(data, data, c->n, nccl_type(type), how, 0, *g->comm, g->stream);
    if (c->kind == OP_GATHER || c->kind == OP_SCATTER)
        return call_rooted(g, c, type, data);
    if (c->kind == OP_ALLTOALL)
        return nccl_call_all(g, c, type, data);
    ncclResult_t e = ncclGroupStart();
    if (nccl_fine(e) && each > 0)
        e = scatters
                ? ncclReduceScatter(data, mine, each, nccl_type(type), how, *g->comm, g->stream)
                : ncclAllGather(mine, data, each, nccl_type(type), *g->comm, g->stream);
    if (nccl_fine(e) && rest > 0)
        e = scatters ? ncclAllReduce(left, left, rest, nccl_type(type), how, *g->comm, g->stream)
                     : ncclBroadcast(left, left, rest, nccl_type(type), (int)c->ranks - 1, *g->comm,
                                     g->stream);
    ncclResult_t ended = ncclGroupEnd();
    return nccl_fine(e) ? ended : e;
}

/* Numbers `at` .. at + most - 1 of a part. */
static struct ring_part piece(struct ring_part p, size_t at, size_t most)
{
    size_t left = p.n > at ? p.n - at : 0;
    return (struct ring_part){p.first + at, left < most ? left : most};
}

/* Give and take a piece of a round each. */
static enum status nccl_exchange(struct nccl *t, const struct nccl_group *g, const struct round *r,
                                 enum element type, void *data)
{
    void *taken = element_at(type, data, r->take.first);
    PASS(nccl_begin(t));
    ncclResult_t e = ncclGroupStart();
    if (nccl_fine(e) && r->give.n > 0)
        e = ncclSend(element_at(type, data, r->give.first), r->give.n, nccl_type(type), (int)r->to,
                     *g->comm, g->stream);
    if (nccl_fine(e) && r->take.n > 0)
        e = ncclRecv(r->adds ? g->chunk : taken, r->take.n, nccl_type(type), (int)r->from, *g->comm,
                     g->stream);
    ncclResult_t ended = ncclGroupEnd();
    PASS(nccl_end(t, *g->comm, nccl_fine(e) ? ended : e));
    if (!r->adds || r->take.n == 0)
        return STATUS_OK;
    return CUDA_ERROR("queue a sum", kernel_accumulate_on(g->stream, cuda_numbers(type), taken,
                                                          g->chunk, r->take.n));
}

static enum status call_rounds(struct nccl *t, const struct nccl_group *g,
                               const struct rounds_call *c, enum element type, void *data)
{
    size_t most = NCCL_CHUNK / element_bytes(type);
    if (c->reduction != REDUCTION_SUM)
        return error_set(
            STATUS_UNSUPPORTED,
            "reduction '%s' on GPUs supports only NCCL's own algorithms; drop --collective",
            op_reduction_names[c->reduction]);
    for (size_t k = 0; k < rounds_count(c); k++) {
        const struct round whole = rounds_at(c, k);
        for (size_t at = 0; at < whole.give.n || at < whole.take.n; at += most) {
            struct round r = whole;
            r.give = piece(whole.give, at, most);
            r.take = piece(whole.take, at, most);
            PASS(nccl_exchange(t, g, &r, type, data));
        }
    }
    return STATUS_OK;
}

enum status nccl_collect(struct nccl *t, uint32_t op, enum element e, void *data, size_t n)
{
    const struct nccl_group *g = &t->group[t->links.program->op[op].peer];
    const struct rounds_call c = endpoints_rounds(&t->links, op, n);
    if (c.ranks < 2 || n == 0)
        return STATUS_OK;
    if (t->links.algorithm)
        return call_rounds(t, g, &c, e, data);
    PASS(nccl_begin(t));
    return nccl_end(t, *g->comm, call_own(g, &c, e, data));
}
