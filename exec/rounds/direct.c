/* Rounds of an all-to-all: in round k a member gives to the one k + 1 places on and takes from the one
 * as many places back, so that every pair meets once in each direction.
 *
 * The array is two halves of as many equal parts as there are members: part m of the first half goes
 * to member m, what comes from it is part m of the second half. The own part stays where it is. */
#include "exec/rounds.h"

static bool serves(enum op_kind kind)
{
    return kind == OP_ALLTOALL;
}

static size_t count(const struct rounds_call *c)
{
    return c->ranks - 1;
}

static struct round at(const struct rounds_call *c, size_t k)
{
    size_t to = (c->me + k + 1) % c->ranks, from = (c->me + c->ranks - k - 1) % c->ranks;
    size_t part = c->n / (2 * c->ranks);
    return (struct round){.to = (uint32_t)to,
                          .from = (uint32_t)from,
                          .give = {to * part, part},
                          .take = {(c->ranks + from) * part, part}};
}

const struct rounds_algorithm rounds_direct = {
    .name = "direct",
    .summary = "all-to-all, in pairs",
    .serves = serves,
    .count = count,
    .at = at,
};
