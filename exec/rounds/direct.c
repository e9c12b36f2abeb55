/* Rounds between pairs. Of an all-to-all: in round k a member gives to the one k + 1 places on and
 * takes from the one as many places back, so that every pair meets once in each direction.
 *
 * The array is two halves of as many equal parts as there are members: part m of the first half
 * goes to member m, what comes from it is part m of the second half. The own part stays where it
 * is.
 *
 * Of a gather: in round k member k + 1 gives its own part, that of ring_own(), to member 0; of a
 * scatter it takes that part from there. */
#include "exec/rounds.h"

static bool direct_round_serves(enum op_kind kind)
{
    return kind == OP_ALLTOALL || kind == OP_GATHER || kind == OP_SCATTER;
}

static size_t direct_round_count(const struct rounds_call *c)
{
    return c->ranks - 1;
}

/* Between member 0 and member k + 1; the others rest. */
static struct round at_root(const struct rounds_call *c, size_t k)
{
    const struct ring_part part = ring_own(c->n, c->ranks, k + 1);
    struct round r = {.to = ROUND_NOBODY, .from = ROUND_NOBODY};
    bool root = c->me == 0, gives = root == (c->kind == OP_SCATTER);
    uint32_t peer = root ? (uint32_t)k + 1 : 0;
    if (!root && c->me != k + 1)
        return r;
    *(gives ? &r.to : &r.from) = peer;
    *(gives ? &r.give : &r.take) = part;
    return r;
}

static struct round direct_round_at(const struct rounds_call *c, size_t k)
{
    if (c->kind != OP_ALLTOALL)
        return at_root(c, k);
    size_t to = (c->me + k + 1) % c->ranks, from = (c->me + c->ranks - k - 1) % c->ranks;
    size_t part = c->n / (2 * c->ranks);
    return (struct round){.to = (uint32_t)to,
                          .from = (uint32_t)from,
                          .give = {to * part, part},
                          .take = {(c->ranks + from) * part, part}};
}

const struct rounds_algorithm rounds_direct = {
    .name = "direct",
    .summary = "all-to-all, gather and scatter by direct messages between pairs of ranks",
    .serves = direct_round_serves,
    .count = direct_round_count,
    .at = direct_round_at,
};
