/* sets.h - sets of numbered things as bits in words. */
#ifndef PAPERS_COMMON_SETS_H
#define PAPERS_COMMON_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool set_has(const uint64_t *set, size_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}
static inline void set_add(uint64_t *set, size_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}

#endif
