/* rounds.h - the collectives of real runs as rounds: in each a member gives a part of its array to
 * one member and takes a part from another, or does one of the two, or nothing.
 *
 * Every transport executes these rounds and adds what arrives in their order. So the sums have the
 * same bits on all transports, and a new algorithm, a file exec/rounds/NAME.c that defines
 * rounds_NAME and a line of rounds/algorithms.def, is for all of them at once. A row's name is that
 * of core/collective/collective.h's algorithm that it executes. Rounds have global numbers: what a
 * member gives in round k is taken in round k, and depends on earlier rounds only. Between two
 * members they are in order. */
#ifndef EXEC_ROUNDS_H
#define EXEC_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"
#include "exec/element.h"
#include "exec/ring.h"

enum { ROUND_NOBODY = UINT32_MAX };

/* One member's part of a round. */
struct round {
    uint32_t to, from;           /* members of the group; ROUND_NOBODY */
    struct ring_part give, take; /* of the array; n is 0 without a partner */
    bool adds; /* what arrives is added (or what op.reduction says), else it replaces */
};

/* A collective as seen by one member. */
struct rounds_call {
    const struct rounds_algorithm *algorithm; /* NULL: the ring */
    enum op_kind kind;                        /* one that rounds_do() */
    size_t ranks, me;                         /* members, own position */
    size_t n;                                 /* elements of the array */
    size_t gathers; /* all-reduces of so many elements, of all members together, are gathered: the
                     * transport has room for that; 0: none */
    enum op_reduction reduction;
};

/* A way to do collectives; kinds that it does not serve go around the ring. */
struct rounds_algorithm {
    const char *name, *summary;
    bool (*serves)(enum op_kind kind);
    size_t (*count)(const struct rounds_call *c);
    struct round (*at)(const struct rounds_call *c, size_t k);
};

#define ROUNDS(name) extern const struct rounds_algorithm rounds_##name;
#include "exec/rounds/algorithms.def"
#undef ROUNDS
/* Row i of the table; NULL: there are no more. */
const struct rounds_algorithm *rounds_algorithm(size_t i);

/* The algorithm of that name; "auto" and NULL are the ring. On a transport with collectives of its
 * own (NULL: none of these) they and its name are those: *out NULL. STATUS_UNSUPPORTED names those
 * that real runs can do. */
enum status rounds_find(const char *name, const char *transport,
                        const struct rounds_algorithm **out) MUST_CHECK;

/* The only one that serves ALLTOALL, GATHER and SCATTER, which the table's do not. */
extern const struct rounds_algorithm rounds_direct;

/* That of small all-reduces, in place of the ring, to the same bits. */
extern const struct rounds_algorithm rounds_gathered;
bool rounds_gathers(const struct rounds_call *c);
/* The array that the rounds are on: data [n] or, where they gather, the room of rounds_grow() with
 * the own numbers in it; and behind the rounds, when nobody takes from that any more, its sums in
 * data. */
struct rounds_room;
void *rounds_array(const struct rounds_call *c, enum element e, void *data,
                   struct rounds_room *room);
void rounds_add_gathered(const struct rounds_call *c, enum element e, void *array, void *data);

/* Is this a collective of real runs? */
static inline bool rounds_do(enum op_kind kind)
{
    return kind >= OP_ALLREDUCE && kind < OP_COPY;
}

/* Elements of the array of a collective of so many bytes, as programs count them: what an
 * all-to-all brings has a half of its own. */
static inline size_t rounds_numbers(const struct program_op *op, enum element e)
{
    return (op->kind == OP_ALLTOALL ? 2 : 1) * ((size_t)op->bytes / element_bytes(e));
}

/* How many rounds there are, and the member's part of round k. O(log ranks). */
size_t rounds_count(const struct rounds_call *c);
struct round rounds_at(const struct rounds_call *c, size_t k);

/* Where a part that has come is kept until it is added. */
struct rounds_room {
    char *data; /* [bytes] owned */
    size_t bytes;
};
/* After the last round: what is left to do with the array, whose parts nobody takes any more. */
void rounds_end(const struct rounds_call *c, enum element e, void *data);
/* Room for the largest part that is added, or for what is gathered; what was there is lost.
 * STATUS_NOMEM. O(rounds). */
enum status rounds_grow(const struct rounds_call *c, enum element e,
                        struct rounds_room *room) MUST_CHECK;
/* Elements of that. */
size_t rounds_largest(const struct rounds_call *c);

#endif
