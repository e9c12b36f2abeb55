/* intern.h - numbers for records of bytes: equal records get the same one, new ones the next.
 *
 *     struct interner squares = {.size = sizeof square};
 *     PASS(intern(&squares, &square, sizeof square, &index, NULL));
 *
 * Records are kept in the order in which they came, so that numbers do not depend on the hash
 * table. They are told apart by all of their bytes: structs with padding are no records. */
#ifndef CORE_BASE_INTERN_H
#define CORE_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct interner {
    size_t size;    /* of every record, bytes; 0: each has a length of its own */
    size_t n;       /* records */
    void *data;     /* [n * size], or [end[n - 1]]; moves as records come, may be taken over */
    size_t *end;    /* [n] where records with lengths end in data, bytes */
    uint32_t *slot; /* [slots] record + 1, 0: free */
    size_t slots, room;
    uint64_t key[2]; /* of the hash; nobody who writes a file can know it */
};

/* The number of a record of `bytes` bytes, which is s->size if that is not 0; *fresh, unless NULL:
 * it is new. The record may not lie in s->data. Expected O(bytes). STATUS_NOMEM. */
enum status intern(struct interner *s, const void *record, size_t bytes, uint32_t *number,
                   bool *fresh) MUST_CHECK;
/* Is it there already? Then its number. Expected O(bytes). */
bool interned(const struct interner *s, const void *record, size_t bytes, uint32_t *number);
/* Where record i begins in data, bytes; i == s->n: where the next one will. */
static inline size_t interned_at(const struct interner *s, size_t i)
{
    return s->size ? i * s->size : i ? s->end[i - 1] : 0;
}
void interner_free(struct interner *s); /* leaves it empty, of records of the same size */

#endif
