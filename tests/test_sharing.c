/* Fair shares against a slow reference: everything recomputed at every event, by raising all rates
 * together a bottleneck at a time. Random networks with weights, starts at random moments. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/engine/sharing.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { FLOWS = 24, LINKS = 10, HOPS = 4, STARTS = 120, SEEDS = 400 };

struct instance {
    struct sharing_network n;
    size_t start[FLOWS + 1];
    uint32_t link[FLOWS * HOPS];
    double weight[FLOWS * HOPS], bound[FLOWS], capacity[LINKS];
};

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

static size_t below(uint64_t *seed, size_t n)
{
    return (size_t)(uniform(seed) * (double)n);
}

/* Equal capacities and weights are frequent, as in real networks: ties are the hard case. */
static void make(struct instance *x, uint64_t *seed)
{
    size_t links = 1 + below(seed, LINKS), flows = 1 + below(seed, FLOWS);
    bool plain = below(seed, 2) == 0;
    for (size_t l = 0; l < links; l++)
        x->capacity[l] = plain ? 1 + (double)below(seed, 3) : 0.1 + uniform(seed);
    for (size_t f = 0; f < flows; f++) {
        size_t hops = below(seed, HOPS + 1), at = x->start[f];
        x->bound[f] = plain ? 1 + (double)below(seed, 2) : 0.05 + uniform(seed);
        for (size_t k = 0, l = below(seed, links); k < hops && l < links;
             k++, l += 1 + below(seed, 3)) {
            x->link[at] = (uint32_t)l;
            x->weight[at] = plain || below(seed, 2) == 0 ? 1 : 1 + (double)below(seed, 5);
            x->bound[f] = fmin(x->bound[f], x->capacity[l] / x->weight[at++]);
        }
        x->start[f + 1] = at;
    }
    x->n =
        (struct sharing_network){flows, links, x->start, x->link, x->weight, x->bound, x->capacity};
}

/* Max-min rates of the flows that fly, from the definition. */
static void reference_rates(const struct instance *x, const bool *flies, double *rate)
{
    bool fixed[FLOWS];
    for (size_t f = 0; f < x->n.flows; f++) {
        fixed[f] = !flies[f];
        rate[f] = 0;
    }
    for (;;) {
        double raise = INFINITY;
        bool any = false;
        for (size_t f = 0; f < x->n.flows; f++)
            if (!fixed[f]) {
                any = true;
                raise = fmin(raise, x->bound[f] - rate[f]);
            }
        if (!any)
            return;
        double used[LINKS] = {0}, open[LINKS] = {0};
        for (size_t f = 0; f < x->n.flows; f++)
            for (size_t e = x->start[f]; e < x->start[f + 1] && flies[f]; e++) {
                used[x->link[e]] += x->weight[e] * rate[f];
                open[x->link[e]] += fixed[f] ? 0 : x->weight[e];
            }
        for (size_t l = 0; l < x->n.links; l++)
            if (open[l] > 0)
                raise = fmin(raise, (x->capacity[l] - used[l]) / open[l]);
        for (size_t f = 0; f < x->n.flows; f++)
            rate[f] += fixed[f] ? 0 : raise;
        for (size_t f = 0; f < x->n.flows; f++) {
            if (fixed[f])
                continue;
            bool stop = rate[f] >= x->bound[f] * (1 - 1e-12);
            for (size_t e = x->start[f]; e < x->start[f + 1]; e++)
                stop = stop || used[x->link[e]] + open[x->link[e]] * raise >=
                                   x->capacity[x->link[e]] * (1 - 1e-12);
            fixed[f] = stop;
        }
    }
}

struct begin {
    uint32_t flow;
    double when, bytes, end; /* end: as the reference says */
};

/* Starts in order; a flow that still flies is not started again. */
static size_t run_reference(const struct instance *x, struct begin *all, size_t n)
{
    bool flies[FLOWS] = {false};
    double left[FLOWS] = {0}, rate[FLOWS], now = 0;
    size_t at[FLOWS] = {0}, next = 0, kept = 0;
    for (;;) {
        reference_rates(x, flies, rate);
        double when = next < n ? all[next].when : INFINITY;
        size_t first = SIZE_MAX;
        for (size_t f = 0; f < x->n.flows; f++)
            if (flies[f] && now + left[f] / rate[f] < when) {
                when = now + left[f] / rate[f];
                first = f;
            }
        if (!isfinite(when))
            return kept;
        for (size_t f = 0; f < x->n.flows; f++)
            left[f] -= flies[f] ? rate[f] * (when - now) : 0;
        now = when;
        if (first != SIZE_MAX) {
            flies[first] = false;
            all[at[first]].end = now;
        } else {
            struct begin b = all[next++];
            if (flies[b.flow])
                continue;
            at[b.flow] = kept;
            flies[b.flow] = true;
            left[b.flow] = b.bytes;
            all[kept++] = b;
        }
    }
}

static void ends_are_those_of_the_reference(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t random = seed;
        struct instance x = {0};
        struct begin all[STARTS];
        struct sharing *s;
        double when = 0, worst = 0, end[STARTS];
        size_t at[FLOWS], ended = 0;
        make(&x, &random);
        for (size_t k = 0; k < STARTS; k++) {
            when += below(&random, 3) == 0 ? uniform(&random) : 0; /* many at the same moment */
            all[k] = (struct begin){(uint32_t)below(&random, x.n.flows), when,
                                    0.01 + (double)below(&random, 4) / 4, 0};
        }
        size_t n = run_reference(&x, all, STARTS), next = 0;
        assert_int_equal(sharing_open(&x.n, &s), 0);
        while (ended < n) {
            double start = next < n ? all[next].when : INFINITY, first;
            uint32_t flow;
            /* ends first: a flow may begin again at the moment at which it ended */
            first = sharing_next(s);
            if (first <= start * (1 + 1e-12)) {
                double e;
                while (sharing_take(s, first, &flow, &e)) {
                    end[at[flow]] = e;
                    ended++;
                }
                continue;
            }
            at[all[next].flow] = next;
            sharing_start(s, all[next].flow, all[next].bytes, start);
            next++;
        }
        for (size_t k = 0; k < n; k++)
            worst = fmax(worst, fabs(end[k] - all[k].end) / all[k].end);
        if (worst > 1e-9)
            fail_msg("seed %llu: %g", (unsigned long long)seed, worst);
        sharing_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_are_those_of_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
