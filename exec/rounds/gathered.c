/* Rounds of small all-reduces: everybody's array to all, in rounds that double what everybody has,
 * and then each adds them by itself.
 *
 * The rounds are on an array of as many blocks as there are members, of which the first is the own
 * one and block j becomes that of the member j places on: in round k a member takes the first 2^k
 * blocks of the one 2^k places on and puts them behind its own. ceil(log2 ranks) rounds instead of
 * 2 (ranks - 1), of more bytes. Blocks are added in the order of the ring, so that sums have the
 * same bits as its own. Source: Bruck, Ho, Kipnis, Upfal & Weathersby, "Efficient algorithms for
 * all-to-all communications in multiport message-passing systems", IEEE Trans. Parallel and
 * Distributed Systems 8 (1997). */
#include "exec/rounds.h"

#include <string.h>

static bool gathered_serves(enum op_kind kind)
{
    return kind == OP_ALLREDUCE;
}

static size_t gathered_count(const struct rounds_call *c)
{
    size_t rounds = 0;
    while ((size_t)1 << rounds < c->ranks)
        rounds++;
    return rounds;
}

static struct round gathered_at(const struct rounds_call *c, size_t k)
{
    size_t far = (size_t)1 << k, blocks = c->ranks - far < far ? c->ranks - far : far;
    return (struct round){.to = (uint32_t)((c->me + c->ranks - far) % c->ranks),
                          .from = (uint32_t)((c->me + far) % c->ranks),
                          .give = {0, blocks * c->n},
                          .take = {far * c->n, blocks * c->n}};
}

const struct rounds_algorithm rounds_gathered = {
    .name = "gathered",
    .summary = "small all-reduces: every rank gets the arrays of all ranks and adds them",
    .serves = gathered_serves,
    .count = gathered_count,
    .at = gathered_at,
};

bool rounds_gathers(const struct rounds_call *c)
{
    return c->kind == OP_ALLREDUCE && c->gathers > 0 && c->ranks > 1 &&
           c->n <= c->gathers / c->ranks && (!c->algorithm || c->algorithm == &rounds_ring);
}

void *rounds_array(const struct rounds_call *c, enum element e, void *data,
                   struct rounds_room *room)
{
    if (!rounds_gathers(c))
        return data;
    memcpy(room->data, data, c->n * element_bytes(e));
    return room->data;
}

void rounds_add_gathered(const struct rounds_call *c, enum element e, void *array, void *data)
{
    for (size_t chunk = 0; chunk < c->ranks && rounds_gathers(c); chunk++) {
        const struct ring_part part = ring_part(c->n, c->ranks, chunk);
        const char *sum = NULL;
        for (size_t k = 0; k < c->ranks; k++) {
            size_t block = (chunk + k + c->ranks - c->me) % c->ranks;
            char *own = element_at(e, array, block * c->n + part.first);
            if (sum)
                element_reduce(e, c->reduction, own, sum, part.n);
            sum = own;
        }
        memcpy(element_at(e, data, part.first), sum, part.n * element_bytes(e));
    }
}
