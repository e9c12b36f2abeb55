/* intern.h - numbers for lists of numbers: equal lists get the same one. */
#ifndef SIM_SIMGRID_INTERN_H
#define SIM_SIMGRID_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct interner {
    size_t n, words, slots;
    struct interned *list; /* [n] */
    uint32_t *word;        /* [words] the lists one after the other */
    uint32_t *slot;        /* [slots] list + 1, 0: free */
};

/* The number of a list of `length` words: the next one, s->n - 1 then, when it is *fresh.
 * STATUS_NOMEM. */
enum status intern(struct interner *s, size_t length, const uint32_t *word, uint32_t *number,
                   bool *fresh) MUST_CHECK;
void interner_free(struct interner *s); /* accepts {0}; leaves {0} */

#endif
