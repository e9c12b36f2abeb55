#include "tests/holdings.h"

#include <math.h>
#include <stdlib.h>

#include "tests/cmocka.h"

struct holdings holdings_begin(size_t n, size_t chunks, const uint32_t *owner)
{
    struct holdings h = {.n = n, .chunks = chunks};
    assert_true(n <= HOLDINGS_MEMBERS);
    h.of = calloc(n * chunks, sizeof *h.of);
    h.bytes = calloc(n * n, sizeof *h.bytes);
    assert_true(h.of && h.bytes);
    for (size_t m = 0; m < n; m++)
        for (size_t c = 0; c < chunks; c++)
            if (!owner || owner[c] == m)
                h.of[m * chunks + c] = UINT64_C(1) << m;
    return h;
}

void holdings_send(struct holdings *h, uint32_t from, uint32_t to, size_t chunk, double bytes,
                   bool reduce)
{
    uint64_t sent = h->of[from * h->chunks + chunk], *held = &h->of[to * h->chunks + chunk];
    assert_true(from != to && sent != 0);
    if (reduce && (*held & sent))
        fail_msg("%u adds to chunk %zu of %u what is there already", from, chunk, to);
    *held = reduce ? *held | sent : sent;
    h->bytes[from * h->n + to] += bytes;
}

bool holdings_complete(const struct holdings *h, uint32_t member, size_t chunk)
{
    return h->of[member * h->chunks + chunk] == (~UINT64_C(0) >> (64 - h->n));
}

void holdings_expect_flows(const struct holdings *h, const struct collective_shape *s)
{
    double total = 0;
    for (size_t k = 0; k < h->n * h->n; k++)
        total += h->bytes[k];
    for (size_t f = 0; f < s->flows; f++)
        h->bytes[s->flow[f].from * h->n + s->flow[f].to] -= s->flow[f].bytes;
    for (size_t k = 0; k < h->n * h->n; k++)
        if (!(fabs(h->bytes[k]) <= 1e-9 * total))
            fail_msg("%zu to %zu: %g bytes more than the flows carry", k / h->n, k % h->n,
                     h->bytes[k]);
}

void holdings_free(struct holdings *h)
{
    free(h->of);
    free(h->bytes);
    *h = (struct holdings){0};
}
