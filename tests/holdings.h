/* holdings.h - who holds which sums: collectives executed step by step, with sets of contributions
 * for numbers. The slow truth that shapes are compared with. Aborts on failure. */
#ifndef TESTS_HOLDINGS_H
#define TESTS_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective/collective.h"

enum { HOLDINGS_MEMBERS = 64 };

struct holdings {
    size_t n, chunks;
    uint64_t *of;  /* [n * chunks] whose contributions are in what a member has of a chunk */
    double *bytes; /* [n * n] that went from one member to another */
};

/* Member m has its own contribution of every chunk (`reduced`), or only of the chunks that
 * owner[chunk] == m; owner NULL: of every chunk. */
struct holdings holdings_begin(size_t n, size_t chunks, const uint32_t *owner);
/* Send what `from` has of a chunk; `reduce`: added to what `to` has, which must have none of it. */
void holdings_send(struct holdings *h, uint32_t from, uint32_t to, size_t chunk, double bytes,
                   bool reduce);
/* Does a member have everybody's contributions to a chunk? */
bool holdings_complete(const struct holdings *h, uint32_t member, size_t chunk);
/* The flows of a shape carry what was sent between any two, to 1e-9 of the whole. */
void holdings_expect_flows(const struct holdings *h, const struct collective_shape *s);
void holdings_free(struct holdings *h);

#endif
