/* sets.h - sets of numbered things as bits in words, and collections of different sets. */
#ifndef PARTITION_PUBLISHED_SETS_H
#define PARTITION_PUBLISHED_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

static inline bool set_has(const uint64_t *set, size_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}
static inline void set_add(uint64_t *set, size_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

/* Sets of `words` words each, in the order in which they came. {.words = w} is empty. */
struct sets {
    size_t n, words;
    uint64_t *set;  /* [n * words] */
    uint32_t *slot; /* [slots] open addressing: set + 1, 0 empty */
    size_t slots;   /* a power of two, at least twice n */
};

/* *index of the set, which is appended if it is new; `set` may not point into s. Expected
 * O(words). STATUS_NOMEM. */
enum status sets_put(struct sets *s, const uint64_t *set, uint32_t *index) MUST_CHECK;
void sets_free(struct sets *s); /* accepts {0}; leaves {0} */

#endif
