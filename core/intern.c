/* Records found by their contents: a hash table with linear probing, at most half full. */
#include "core/intern.h"

#include <stdlib.h>
#include <string.h>

#include "core/array.h"

enum { FIRST_SLOTS = 64 }; /* a power of two */

/* 64 bits at a time, multiplied by the golden ratio as in Fibonacci hashing, and folded. */
static size_t hash(const void *record, size_t bytes)
{
    uint64_t h = bytes, word = 0;
    size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const char *)record + at, sizeof word);
        h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, (const char *)record + at, bytes - at);
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h ^ h >> 32);
}

/* Where the record is, or the free slot where it belongs. */
static uint32_t *find_slot(const struct interner *s, const void *record, size_t bytes)
{
    for (size_t at = hash(record, bytes) & (s->slots - 1);; at = (at + 1) & (s->slots - 1)) {
        uint32_t *slot = &s->slot[at];
        size_t i = *slot - (size_t)1, begin = *slot ? interned_at(s, i) : 0;
        if (!*slot || (interned_at(s, i + 1) - begin == bytes &&
                       !memcmp((const char *)s->data + begin, record, bytes)))
            return slot;
    }
}

/* Twice as many slots; all records find new ones. */
static enum status grow(struct interner *s)
{
    size_t slots = s->slots ? 2 * s->slots : FIRST_SLOTS;
    uint32_t *slot;
    PASS(ARRAY_NEW(slot, slots));
    free(s->slot);
    s->slot = slot;
    s->slots = slots;
    for (size_t i = 0; i < s->n; i++) {
        size_t begin = interned_at(s, i);
        *find_slot(s, (const char *)s->data + begin, interned_at(s, i + 1) - begin) =
            (uint32_t)i + 1;
    }
    return STATUS_OK;
}

enum status intern(struct interner *s, const void *record, size_t bytes, uint32_t *number,
                   bool *fresh)
{
    if (2 * s->n >= s->slots)
        PASS(grow(s));
    uint32_t *slot = find_slot(s, record, bytes);
    bool new = *slot == 0;
    if (new) {
        size_t begin = interned_at(s, s->n);
        char *data = s->data;
        PASS(ARRAY_RESERVE(data, begin + bytes + 1, s->room)); /* never NULL */
        s->data = data;
        if (!s->size) {
            PASS(ARRAY_ROOM(s->end, s->n));
            s->end[s->n] = begin + bytes;
        }
        memcpy(data + begin, record, bytes);
        *slot = (uint32_t)++s->n;
    }
    *number = *slot - 1;
    if (fresh)
        *fresh = new;
    return STATUS_OK;
}

bool interned(const struct interner *s, const void *record, size_t bytes, uint32_t *number)
{
    uint32_t slot = s->slots ? *find_slot(s, record, bytes) : 0;
    *number = slot - 1;
    return slot > 0;
}

void interner_free(struct interner *s)
{
    free(s->data);
    free(s->end);
    free(s->slot);
    *s = (struct interner){.size = s->size};
}
