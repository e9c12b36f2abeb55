/* Collections of different sets, found again by hashing. */
#include "partition/published/sets.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"

static size_t hash(const uint64_t *set, size_t words)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < words; i++) {
        h = (h ^ set[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (size_t)h;
}

/* Slot of the set, or the free one where it belongs. */
static size_t find_slot(const struct sets *s, const uint64_t *set)
{
    size_t at = hash(set, s->words) & (s->slots - 1);
    while (s->slot[at] &&
           memcmp(s->set + (s->slot[at] - 1) * s->words, set, s->words * sizeof *set) != 0)
        at = (at + 1) & (s->slots - 1);
    return at;
}

/* Room for as many sets again. */
static enum status grow(struct sets *s)
{
    size_t slots = s->n ? 8 * s->n : 4;
    uint32_t *slot;
    PASS(array_grow(s->set, s->n, s->words * sizeof *s->set, (void *)&s->set));
    PASS(ARRAY_NEW(slot, slots));
    free(s->slot);
    s->slot = slot;
    s->slots = slots;
    for (size_t i = 0; i < s->n; i++)
        slot[find_slot(s, s->set + i * s->words)] = (uint32_t)i + 1;
    return STATUS_OK;
}

enum status sets_put(struct sets *s, const uint64_t *set, uint32_t *index)
{
    if (array_is_full(s->n))
        PASS(grow(s));
    size_t at = find_slot(s, set);
    if (!s->slot[at]) {
        memcpy(s->set + s->n * s->words, set, s->words * sizeof *set);
        s->slot[at] = (uint32_t)++s->n;
    }
    *index = s->slot[at] - 1;
    return STATUS_OK;
}

void sets_free(struct sets *s)
{
    free(s->set);
    free(s->slot);
    *s = (struct sets){0};
}
