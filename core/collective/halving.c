/* Recursive halving and doubling: in each step every member exchanges with one partner, first with
 * its neighbour half of what it has, then with the member 2 places on half of that, and so on; an
 * all-gather the same backwards. Each step is a phase: log2 n of them, of which the nearest carries
 * most. Where the members are no power of two the first ones stand in pairs: one gives the other
 * what it has, and gets back its result.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19 (2005) 49-66; nearest first: there, for networks
 * where far is slow. */
#include "core/collective/shapes.h"

/* `count` members, a power of two, take part in the steps. Each of the first `pairs` of them acts
 * for one more member, too: it has two pieces, its own and that member's; in an all-reduce only the
 * members that take part have a piece. */
struct halving {
    const struct collective_group *g;
    size_t count, pairs;
    size_t doubled; /* the first so many have two pieces */
    double share;   /* bytes of one member's piece */
};

/* The k-th that takes part, and the one that it stands for. */
static uint32_t halving_member(const struct halving *h, size_t k)
{
    return h->g->order[k < h->pairs ? 2 * k + 1 : k + h->pairs];
}
static uint32_t halving_other(const struct halving *h, size_t k)
{
    return h->g->order[2 * k];
}

static double halving_add(const struct halving *h, uint32_t from, uint32_t to, double bytes,
                          double latency_s, struct collective_shape *out)
{
    collective_add(out, from, to, bytes);
    return larger(latency_s, collective_tier(h->g, from, to)->latency_s);
}

/* Pieces that place k is still responsible for after the steps of distance 1, 2, ..., low / 2:
 * those of the places that equal k in all bits below `low`. */
static double pieces_like(const struct halving *h, size_t k, size_t low)
{
    size_t first = k % low, all = (h->count - 1 - first) / low + 1;
    size_t more = h->doubled > first ? (h->doubled - 1 - first) / low + 1 : 0;
    return (double)(all + more);
}

/* The step between places `apart` from each other: each sends what its partner goes on with (or,
 * gathering, what it has itself). */
static void halving_step(const struct halving *h, size_t apart, bool gather,
                         struct collective_shape *out)
{
    double latency_s = 0;
    for (size_t k = 0; k < h->count; k++) {
        size_t partner = k ^ apart;
        double pieces = pieces_like(h, gather ? k : partner, 2 * apart);
        latency_s = halving_add(h, halving_member(h, k), halving_member(h, partner),
                                pieces * h->share, latency_s, out);
    }
    collective_end_phase(out, latency_s);
}

/* Between the two of each pair. */
static void halving_pairs(const struct halving *h, bool back, double bytes,
                          struct collective_shape *out)
{
    double latency_s = 0;
    for (size_t k = 0; k < h->pairs; k++) {
        uint32_t member = halving_member(h, k), other = halving_other(h, k);
        latency_s =
            halving_add(h, back ? member : other, back ? other : member, bytes, latency_s, out);
    }
    if (h->pairs > 0)
        collective_end_phase(out, latency_s);
}

static enum status halving_shape(const struct collective_group *g, enum collective_kind kind,
                                 double bytes, size_t channels, struct collective_shape *out)
{
    struct halving h = {.g = g, .count = 1};
    bool reduces = kind != COLLECTIVE_ALLGATHER, gathers = kind != COLLECTIVE_REDUCESCATTER;
    size_t steps = 0;
    (void)channels;
    for (; 2 * h.count <= g->n; h.count *= 2)
        steps++;
    h.pairs = g->n - h.count;
    h.doubled = reduces && gathers ? 0 : h.pairs;
    h.share = bytes / (double)(h.count + h.doubled);
    PASS(collective_shape_open(out, 2 * steps + 2, 2 * steps * h.count + 2 * h.pairs));
    halving_pairs(&h, false, reduces ? bytes : h.share, out);
    for (size_t apart = 1; reduces && apart < h.count; apart *= 2)
        halving_step(&h, apart, false, out);
    for (size_t apart = h.count / 2; gathers && apart > 0; apart /= 2)
        halving_step(&h, apart, true, out);
    halving_pairs(&h, true,
                  kind == COLLECTIVE_ALLREDUCE ? bytes
                  : gathers                    ? bytes - h.share
                                               : h.share,
                  out);
    return STATUS_OK;
}

const struct collective_algorithm collective_halving = {
    .name = "halving",
    .summary = "recursive halving and doubling: log2(n) exchanges, each with one partner",
    .serves = {[COLLECTIVE_ALLREDUCE] = true,
               [COLLECTIVE_ALLGATHER] = true,
               [COLLECTIVE_REDUCESCATTER] = true},
    .shape = halving_shape,
};
