/* Rounds of the ring.
 *
 * A reduce-scatter takes ranks - 1 rounds of 1/ranks of the array each, an all-gather as many, and
 * an all-reduce is one after the other: 0 .. ranks - 2, then ranks - 1 .. 2 ranks - 3. Chunks
 * travel along the ring: what a member takes in one round it gives in the next, so that every
 * element is summed on one member, in the order of the ring from the member after that one, and
 * copied to the others. With three members and chunks a, b, c:
 *
 *   round   member 0            member 1            member 2
 *   0       gives a, adds c     gives b, adds a     gives c, adds b
 *   1       gives c, adds b     gives a, adds c     gives b, adds a
 *   2       gives b, takes a    gives c, takes b    gives a, takes c
 *   3       gives a, takes c    gives b, takes a    gives c, takes b
 *
 * After round 1 member 0 has the sum of b, member 1 that of c, member 2 that of a: ring_owned(). A
 * broadcast goes along the ring without its last edge, from member 0 on, in as many chunks as there
 * are members: member m gives chunk c in round m + c. A reduce is the same backwards, from the last
 * member to member 0, each adding what it takes to its own. Source: Patarasuk & Yuan, "Bandwidth
 * optimal all-reduce algorithms for clusters of workstations", J. Parallel and Distributed
 * Computing 69 (2009). */
#include "exec/rounds.h"

static bool ring_round_serves(enum op_kind kind)
{
    return rounds_do(kind) && !rounds_direct.serves(kind);
}

static size_t ring_round_count(const struct rounds_call *c)
{
    bool once = c->kind == OP_REDUCESCATTER || c->kind == OP_ALLGATHER;
    return (once ? 1 : 2) * (c->ranks - 1);
}

/* `place`: how many members are before this one on the chain. */
static struct round at_chain(const struct rounds_call *c, size_t k)
{
    bool adds = c->kind == OP_REDUCE;
    size_t n = c->ranks, place = adds ? n - 1 - c->me : c->me;
    uint32_t me = (uint32_t)c->me, next = adds ? me - 1 : me + 1, last = adds ? me + 1 : me - 1;
    struct round r = {.to = ROUND_NOBODY, .from = ROUND_NOBODY, .adds = adds};
    if (place + 1 < n && k >= place && k < place + n) {
        r.to = next;
        r.give = ring_part(c->n, n, k - place);
    }
    if (place > 0 && k + 1 >= place && k + 1 < place + n) {
        r.from = last;
        r.take = ring_part(c->n, n, k + 1 - place);
    }
    return r;
}

static struct round ring_round_at(const struct rounds_call *c, size_t k)
{
    if (c->kind == OP_BROADCAST || c->kind == OP_REDUCE)
        return at_chain(c, k);
    size_t n = c->ranks, number = c->kind == OP_ALLGATHER ? k + n - 1 : k;
    return (struct round){.to = (uint32_t)((c->me + 1) % n),
                          .from = (uint32_t)((c->me + n - 1) % n),
                          .give = ring_part(c->n, n, (c->me + 2 * n - number) % n),
                          .take = ring_part(c->n, n, (c->me + 2 * n - number - 1) % n),
                          .adds = number + 1 < n};
}

const struct rounds_algorithm rounds_ring = {
    .name = "ring",
    .summary = "all collectives; chunks travel around a ring of ranks",
    .serves = ring_round_serves,
    .count = ring_round_count,
    .at = ring_round_at,
};
