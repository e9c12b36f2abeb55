/* Records found by their contents: a hash table with linear probing, at most half full. */
#include "core/base/intern.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/base/array.h"

enum { FIRST_SLOTS = 64 }; /* a power of two */

/* A key of this process, which no file can know: names that were chosen to collide would take the
 * square of their number. The kernel puts it there for every program that it starts. */
static void read_key(uint64_t key[2])
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(key, random, 2 * sizeof *key);
}

static inline uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void intern_mix(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

/* SipHash-1-3. Source: Aumasson & Bernstein, INDOCRYPT 2012, with one round a word and three at the
 * end. */
static size_t hash(const uint64_t key[2], const void *record, size_t bytes)
{
    uint64_t word = 0,
             v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    size_t at = 0;
    for (; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&word, (const char *)record + at, sizeof word);
        v[3] ^= word;
        intern_mix(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, (const char *)record + at, bytes - at);
    word |= (uint64_t)bytes << 56;
    v[3] ^= word;
    intern_mix(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int k = 0; k < 3; k++)
        intern_mix(v);
    return (size_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

/* Where the record is, or the free slot where it belongs. */
static uint32_t *find_slot(const struct interner *s, const void *record, size_t bytes)
{
    for (size_t at = hash(s->key, record, bytes) & (s->slots - 1);;
         at = (at + 1) & (s->slots - 1)) {
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
    if (!s->slot)
        read_key(s->key);
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
