/* Lists found by their contents: a hash table with linear probing, at most half full. */
#include "sim/simgrid/intern.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"

enum { FIRST_SLOTS = 256 }; /* a power of two */

struct interned {
    size_t first, length;
    uint64_t hash;
};

/* Multiplied and folded, word by word. */
static uint64_t hash_of(size_t length, const uint32_t *word)
{
    uint64_t h = length;
    for (size_t i = 0; i < length; i++) {
        h = (h ^ word[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    return h;
}

/* Where the list is, or the free slot where it belongs. */
static uint32_t *find_slot(const struct interner *s, uint64_t hash, size_t length,
                           const uint32_t *word)
{
    for (size_t at = (size_t)hash & (s->slots - 1);; at = (at + 1) & (s->slots - 1)) {
        uint32_t *slot = &s->slot[at];
        const struct interned *list = *slot ? &s->list[*slot - 1] : NULL;
        if (!list || (list->hash == hash && list->length == length &&
                      !memcmp(s->word + list->first, word, length * sizeof *word)))
            return slot;
    }
}

/* Twice as many slots; all lists find new ones. */
static enum status grow(struct interner *s)
{
    size_t slots = s->slots ? 2 * s->slots : FIRST_SLOTS;
    uint32_t *slot;
    PASS(ARRAY_NEW(slot, slots));
    for (size_t i = 0; i < s->n; i++) {
        size_t at = (size_t)s->list[i].hash & (slots - 1);
        while (slot[at] != 0)
            at = (at + 1) & (slots - 1);
        slot[at] = (uint32_t)i + 1;
    }
    free(s->slot);
    s->slot = slot;
    s->slots = slots;
    return STATUS_OK;
}

enum status intern(struct interner *s, size_t length, const uint32_t *word, uint32_t *number,
                   bool *fresh)
{
    if (2 * s->n >= s->slots)
        PASS(grow(s));
    uint64_t hash = hash_of(length, word);
    uint32_t *slot = find_slot(s, hash, length, word);
    *fresh = *slot == 0;
    if (*fresh) {
        struct interned list = {s->words, length, hash};
        for (size_t i = 0; i < length; i++) {
            PASS(ARRAY_ROOM(s->word, s->words));
            s->word[s->words++] = word[i];
        }
        PASS(ARRAY_ROOM(s->list, s->n));
        s->list[s->n++] = list;
        *slot = (uint32_t)s->n;
    }
    *number = *slot - 1;
    return STATUS_OK;
}

void interner_free(struct interner *s)
{
    free(s->list);
    free(s->word);
    free(s->slot);
    *s = (struct interner){0};
}
