/* Collectives of real runs: the table of algorithms, from rounds/algorithms.def, and the room that
 * their rounds need. */
#include "exec/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

static const struct rounds_algorithm *const table[] = {
#define ROUNDS(name) &rounds_##name,
#include "exec/rounds/algorithms.def"
#undef ROUNDS
};
enum { ALGORITHMS = sizeof table / sizeof *table };

const struct rounds_algorithm *rounds_algorithm(size_t i)
{
    return i < ALGORITHMS ? table[i] : NULL;
}

enum status rounds_find(const char *name, const char *transport,
                        const struct rounds_algorithm **out)
{
    char names[TEXT_LIST];
    bool automatic = !name || !strcmp(name, "auto"), own = transport && !strcmp(transport, "nccl");
    if (own && (automatic || !strcmp(name, transport))) {
        *out = NULL;
        return STATUS_OK;
    }
    for (size_t i = 0; i < ALGORITHMS; i++)
        if (automatic || !strcmp(name, table[i]->name)) {
            *out = table[i];
            return STATUS_OK;
        }
    return error_set(STATUS_UNSUPPORTED,
                     "unsupported collective algorithm '%s'; real runs support auto, %s%s", name,
                     text_list(table, ALGORITHMS, names),
                     own ? ", nccl (set NCCL_ALGO to override its choice)" : "");
}

static const struct rounds_algorithm *rounds_algorithm_of(const struct rounds_call *c)
{
    if (rounds_direct.serves(c->kind))
        return &rounds_direct;
    if (rounds_gathers(c))
        return &rounds_gathered;
    return c->algorithm && c->algorithm->serves(c->kind) ? c->algorithm : table[0];
}

size_t rounds_count(const struct rounds_call *c)
{
    return rounds_algorithm_of(c)->count(c);
}

struct round rounds_at(const struct rounds_call *c, size_t k)
{
    return rounds_algorithm_of(c)->at(c, k);
}

void rounds_end(const struct rounds_call *c, enum element e, void *data)
{
    element_end(e, c->reduction, data, c->n, c->ranks);
}

size_t rounds_largest(const struct rounds_call *c)
{
    size_t largest = rounds_gathers(c) ? c->ranks * c->n : 0;
    for (size_t k = 0; k < rounds_count(c); k++) {
        struct round r = rounds_at(c, k);
        largest = r.adds && r.take.n > largest ? r.take.n : largest;
    }
    return largest;
}

enum status rounds_grow(const struct rounds_call *c, enum element e, struct rounds_room *room)
{
    size_t need = rounds_largest(c) * element_bytes(e);
    if (need <= room->bytes && room->data)
        return STATUS_OK;
    free(room->data);
    room->bytes = 0;
    PASS(ARRAY_NEW(room->data, need));
    room->bytes = need;
    return STATUS_OK;
}
