/* Lower bounds for any split, contiguous or not, by refuting values T in a bisection.
 *
 * At T, first merge units that a transfer would make too expensive to part (placement_merge),
 * then ask in turn: does each unit fit somewhere; do all latencies fit all devices; can the
 * large units be packed by number. The first "no" refutes T. Merging depends on T, so each
 * question is asked of its own graph. */
#include "papers/placement/bound.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "papers/placement/anchor.h"

const char *const placement_reason_text[] = {
    [PLACEMENT_BOUND_UNIT] = "the largest unit alone",
    [PLACEMENT_BOUND_TOTAL] = "the sum of all latencies",
    [PLACEMENT_BOUND_COUNT] = "counting large units",
    [PLACEMENT_BOUND_DRAG] = "units with the neighbours that they pull along, transfers included",
    [PLACEMENT_BOUND_ALL] = "branch and bound over all splits",
};

static const double precision = 1e-10; /* relative, of the bisection and of sums */

static int by_accelerator(const void *a, const void *b)
{
    const struct placement_item *x = a, *y = b;
    return (x->amount > y->amount) - (x->amount < y->amount);
}

/* Latencies alone, the CPUs taking the best fraction of the units: Dantzig's bound. */
static bool total_fits(const struct placement_problem *p, struct placement_item *item, size_t n,
                       double limit)
{
    double total = 0;
    qsort(item, n, sizeof *item, placement_by_ratio);
    for (size_t i = 0; i < n; i++)
        total += item[i].amount;
    total = placement_leave_to_cpus(item, n, p->cpus, limit, total);
    return total <= limit * (double)p->accelerators * (1 + precision);
}

/* How many of the ascending items from `first` on fit into `room`. */
static size_t fitting(const double *sum, size_t first, size_t n, double room)
{
    size_t low = 0, high = n - first;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (sum[first + middle] - sum[first] <= room * (1 + precision))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Ascending units that only accelerators can take below the limit. For every threshold: of the
 * units from it upwards an accelerator takes no more than would fit if they were the smallest, and
 * fewer beside a certain other unit. Units above half the limit are on different accelerators. */
static bool counts_fit(const struct placement_problem *p, const struct placement_item *item,
                       size_t n, double *sum, double limit)
{
    size_t halves = 0, accelerators = p->accelerators;
    for (size_t i = 0; i < n; i++) {
        sum[i + 1] = sum[i] + item[i].amount;
        halves += 2 * item[i].amount > limit * (1 + precision);
    }
    if (halves > accelerators)
        return false;
    for (size_t first = 0; first < n; first++) {
        size_t large = n - first, each = fitting(sum, first, n, limit);
        size_t room = each * (accelerators - halves);
        for (size_t x = n - halves; x < n; x++) {
            size_t beside = fitting(sum, first, n, limit - item[x].amount) + (x >= first ? 1 : 0);
            room += beside < each ? beside : each;
        }
        if (room < large)
            return false;
        if (first == 0 || halves == accelerators)
            continue;
        size_t beside = fitting(sum, first, n, limit - item[first - 1].amount);
        if (first - 1 < n - halves && beside < each && room - each + beside < large)
            return false;
    }
    return true;
}

/* Is there a kind of device on which the unit alone stays below the limit? */
static bool unit_fits(const struct placement_problem *p, const struct placement_graph *g, size_t v,
                      double limit)
{
    return (p->cpus > 0 && g->cpu[v] < limit) ||
           (p->accelerators > 0 && g->supported[v] && g->size[v] <= p->memory_bytes &&
            g->accelerator[v] < limit);
}

/* Is there no split of a value below limit? false: not known. */
static enum status refute(const struct placement_problem *p, double limit, bool *refuted,
                          enum placement_reason *reason)
{
    enum status st;
    struct placement_graph g = {0};
    struct placement_item *item;
    double *sum;
    size_t large = 0;
    *refuted = true;
    *reason = PLACEMENT_BOUND_UNIT;
    TRY(placement_merge(p, limit, &g));
    TRY(ARENA_NEW(&g.memory, item, g.n));
    TRY(ARENA_NEW(&g.memory, sum, g.n + 1));
    for (size_t v = 0; v < g.n; v++)
        if (!unit_fits(p, &g, v, limit))
            goto out;
    for (size_t v = 0; v < g.n; v++)
        item[v] = (struct placement_item){g.cpu[v], g.accelerator[v]};
    *reason = PLACEMENT_BOUND_TOTAL;
    if (!total_fits(p, item, g.n, limit))
        goto out;
    for (size_t v = 0; v < g.n; v++)
        if (p->cpus == 0 || g.cpu[v] >= limit)
            item[large++] = (struct placement_item){g.cpu[v], g.accelerator[v]};
    qsort(item, large, sizeof *item, by_accelerator);
    *reason = PLACEMENT_BOUND_COUNT;
    *refuted = large > 0 && !counts_fit(p, item, large, sum, limit);
out:
    placement_graph_free(&g);
    return st;
}

/* The same question with transfers counted, for the units that merge below `known`. */
static enum status count_transfers(const struct placement_problem *p, double known,
                                   struct placement_bound *bound)
{
    enum status st;
    struct placement_graph g = {0};
    double value;
    TRY(placement_merge(p, known, &g));
    TRY(placement_anchor_bound(p, &g, bound->value, known, &value));
    if (value > bound->value)
        *bound = (struct placement_bound){value, PLACEMENT_BOUND_DRAG};
out:
    placement_graph_free(&g);
    return st;
}

/* Bisection between 0 and a value that is reached; the reason that refuted last is the one to
 * name. */
enum status placement_lower_bound(const struct placement_problem *p, double known,
                                  struct placement_bound *out)
{
    enum status st;
    struct placement_bound bound = {0, PLACEMENT_BOUND_UNIT};
    double low = 0, high = known;
    bool refuted;
    enum placement_reason reason;
    for (double limit = known; known > 0 && high - low > precision * known;
         limit = low + (high - low) / 2) {
        TRY(refute(p, limit, &refuted, &reason));
        if (refuted) {
            low = limit;
            bound = (struct placement_bound){limit, reason};
        } else {
            high = limit;
        }
    }
    st = STATUS_OK;
    if (known - bound.value > precision * known && isfinite(known))
        TRY(count_transfers(p, known, &bound));
    *out = bound;
out:
    return st;
}
