/* Rows of the dynamic program, between the places that a coarser one leaves. */
#include "partition/graph/chain.h"

#include <math.h>
#include <string.h>

#include "core/base/array.h"

/* Every so many places are those of the coarser chain, if it has so many for each stage; and how
 * far from where the coarser chain is cut, to either side. */
enum { COARSER = 4, FEWEST_EACH = 2, BAND = 2 * COARSER };

struct chain_tables {
    const struct chain *c;
    double limit_s;
    size_t *low, *high; /* [stages] the first place at which each may end, and the last */
    double *best[2];    /* [n + 1] of the stage before, and of this one */
    double *bytes;      /* [n + 1] that enter a stage that begins there and ends at the end */
    double *behind_s;   /* [n + 1] the least of the stage before that ends there or later */
    uint32_t **begin;   /* [stages] of [high - low + 1] where the stage that ends there begins */
    struct arena memory;
};

/* Where stages may end near the cut of the coarser chain. */
static void find_band(struct chain_tables *x, const uint32_t *begin)
{
    const struct chain *c = x->c;
    for (size_t s = 0; s + 1 < c->stages; s++) {
        size_t at = (size_t)begin[s + 1] * COARSER, last = c->n - (c->stages - 1 - s);
        x->low[s] = at > s + 1 + BAND ? at - BAND : s + 1;
        x->high[s] = at + BAND < last ? at + BAND : last;
    }
    x->low[c->stages - 1] = x->high[c->stages - 1] = c->n;
}

/* Where stages may end that compute no longer than the limit. */
static void find_reach(struct chain_tables *x)
{
    const struct chain *c = x->c;
    size_t at = 0;
    for (size_t s = 0; s < c->stages; s++) {
        const double *until_s = c->until_s[s];
        double from_s = until_s[at];
        while (at < c->n && until_s[at + 1] - from_s <= x->limit_s)
            at++;
        x->high[s] = at;
    }
    at = c->n;
    for (size_t s = c->stages; s-- > 0;) {
        const double *until_s = c->until_s[s];
        double to_s = until_s[at];
        x->low[s] = at > s ? at : s + 1; /* every stage has a place */
        while (at > 0 && to_s - until_s[at - 1] <= x->limit_s)
            at--;
    }
}

/* Stages that begin at first .. last and now reach from `end` on behind the next place. */
static void enter(struct chain_tables *x, size_t end, size_t first, size_t last)
{
    const struct chain *c = x->c;
    for (size_t k = c->read_start[end]; k < c->read_start[end + 1]; k++)
        for (size_t b = c->read[k].from > first ? c->read[k].from : first; b <= last; b++)
            x->bytes[b] += c->read[k].bytes;
}

/* As enter() for all ends from `first` to before `end`: differences, then their sums. */
static void enter_all(struct chain_tables *x, size_t end, size_t first, size_t last)
{
    const struct chain *c = x->c;
    memset(x->bytes + first, 0, (last + 2 - first) * sizeof *x->bytes);
    for (size_t e = first; e < end; e++)
        for (size_t k = c->read_start[e]; k < c->read_start[e + 1]; k++) {
            size_t from = c->read[k].from > first ? c->read[k].from : first;
            if (from > e || from > last)
                continue;
            x->bytes[from] += c->read[k].bytes;
            x->bytes[e < last ? e + 1 : last + 1] -= c->read[k].bytes;
        }
    for (size_t b = first; b < last; b++)
        x->bytes[b + 1] += x->bytes[b];
}

/* Slowest of stage s with the places b .. e and of those before it. */
static double slowest_s(const struct chain_tables *x, size_t s, size_t b, size_t e)
{
    const struct chain *c = x->c;
    const double *until_s = c->until_s[s];
    double load_s = until_s[e] - until_s[b] + c->latency_s[s] + c->byte_s[s] * x->bytes[b];
    return s > 0 && x->best[s % 2][b] > load_s ? x->best[s % 2][b] : load_s;
}

/* Where stage s begins best, from first to last, that ends at e; *begin: for a start, where it did
 * for the end before. The earlier it begins, the more it computes; before *begin places are tried
 * until that alone takes longer than the best, behind it until the stages before do. */
static double fill_end(const struct chain_tables *x, size_t s, size_t e, size_t first, size_t last,
                       uint32_t *begin)
{
    const struct chain *c = x->c;
    const double *until_s = c->until_s[s];
    size_t middle = *begin < first ? first : *begin > last ? last : *begin;
    double least_s = INFINITY;
    *begin = (uint32_t)first; /* of endless loads */
    for (size_t b = middle + 1; b-- > first;) {
        if (until_s[e] - until_s[b] + c->latency_s[s] > least_s)
            break;
        double load_s = slowest_s(x, s, b, e);
        if (load_s <= least_s && load_s < INFINITY) { /* of equal ones the leftmost */
            least_s = load_s;
            *begin = (uint32_t)b;
        }
    }
    for (size_t b = middle + 1; b <= last && x->behind_s[b] < least_s; b++) {
        double load_s = slowest_s(x, s, b, e);
        if (load_s < least_s) {
            least_s = load_s;
            *begin = (uint32_t)b;
        }
    }
    return least_s;
}

static void fill_row(struct chain_tables *x, size_t s)
{
    const struct chain *c = x->c;
    const double *until_s = c->until_s[s], *before_s = x->best[s % 2];
    size_t first = s > 0 ? x->low[s - 1] : 0, last = s > 0 ? x->high[s - 1] : 0;
    uint32_t begin = 0;
    enter_all(x, x->low[s], first, last);
    x->behind_s[last] = s > 0 ? before_s[last] : 0;
    for (size_t b = last; b-- > first;)
        x->behind_s[b] = before_s[b] < x->behind_s[b + 1] ? before_s[b] : x->behind_s[b + 1];
    for (size_t e = x->low[s]; e <= x->high[s]; e++) {
        while (first < e && until_s[e] - until_s[first] > x->limit_s)
            first++;
        size_t to = last < e ? last : e - 1;
        if (first > to) { /* no place is within the limit */
            x->best[1 - s % 2][e] = INFINITY;
            x->begin[s][e - x->low[s]] = (uint32_t)(first < last ? first : last);
        } else {
            x->best[1 - s % 2][e] = fill_end(x, s, e, first, to, &begin);
            x->begin[s][e - x->low[s]] = begin;
        }
        if (e < c->n)
            enter(x, e, first, last < e ? last : e);
    }
}

/* The best cut whose stages end between low and high. */
static enum status fill_rows(struct chain_tables *x, uint32_t *begin, double *objective_s)
{
    const struct chain *c = x->c;
    PASS(ARENA_NEW(&x->memory, x->begin, c->stages));
    PASS(ARENA_NEW(&x->memory, x->best[0], c->n + 1));
    PASS(ARENA_NEW(&x->memory, x->best[1], c->n + 1));
    PASS(ARENA_NEW(&x->memory, x->bytes, c->n + 2));
    PASS(ARENA_NEW(&x->memory, x->behind_s, c->n + 1));
    for (size_t s = 0; s < c->stages; s++) {
        PASS(ARENA_NEW(&x->memory, x->begin[s], x->high[s] - x->low[s] + 1));
        fill_row(x, s);
    }
    *objective_s = x->best[c->stages % 2][c->n];
    for (size_t s = c->stages, e = c->n; s-- > 0;)
        begin[s] = (uint32_t)(e = x->begin[s][e - x->low[s]]);
    return STATUS_OK;
}

/* The chain with every COARSER-th place only. */
static enum status coarsen(const struct chain *c, struct arena *a, struct chain *out)
{
    size_t n = (c->n + COARSER - 1) / COARSER, reads = 0;
    double *until_s = NULL;
    *out = (struct chain){n, c->stages, NULL, c->latency_s, c->byte_s, NULL, NULL};
    PASS(ARENA_NEW(a, out->until_s, c->stages));
    PASS(ARENA_NEW(a, out->read_start, n + 1));
    PASS(ARENA_NEW(a, out->read, c->read_start[c->n]));
    for (size_t s = 0; s < c->stages; s++) {
        if (s == 0 || c->until_s[s] != c->until_s[s - 1]) {
            PASS(ARENA_NEW(a, until_s, n + 1));
            for (size_t k = 0; k < n; k++)
                until_s[k] = c->until_s[s][k * COARSER];
            until_s[n] = c->until_s[s][c->n];
        }
        out->until_s[s] = until_s;
    }
    for (size_t e = 0; e < c->n; e++) {
        for (size_t k = c->read_start[e]; k < c->read_start[e + 1]; k++) {
            uint32_t from = (c->read[k].from + COARSER - 1) / COARSER;
            if (from <= e / COARSER)
                out->read[reads++] = (struct chain_read){from, c->read[k].bytes};
        }
        out->read_start[e / COARSER + 1] = reads;
    }
    return STATUS_OK;
}

enum status chain_cut(const struct chain *c, uint32_t *begin, double *objective_s)
{
    enum status st;
    struct chain_tables x = {.c = c, .limit_s = INFINITY};
    struct chain coarse;
    TRY(ARENA_NEW(&x.memory, x.low, c->stages));
    TRY(ARENA_NEW(&x.memory, x.high, c->stages));
    if (c->n >= COARSER * FEWEST_EACH * c->stages) {
        TRY(coarsen(c, &x.memory, &coarse));
        TRY(chain_cut(&coarse, begin, objective_s));
        find_band(&x, begin);
        TRY(fill_rows(&x, begin, &x.limit_s));
        x.limit_s = isfinite(x.limit_s) ? x.limit_s : INFINITY;
    }
    find_reach(&x);
    TRY(fill_rows(&x, begin, objective_s));
out:
    arena_free(&x.memory);
    return st;
}
