/* balanced - contiguous stages of the model's order with the least slowest stage.
 *
 * A stage costs its forward and backward time on its device plus the transfer of what enters it,
 * forward and as gradients back; a tensor counts once per stage that reads it, wherever it comes
 * from. With B(s, j) the least slowest of the stages 0..s over the ops 0..j, and load(s, i, j) of
 * stage s with the ops i..j,
 *     B(0, j) = load(0, 0, j),   B(s, j) = min over i of max(B(s - 1, i - 1), load(s, i, j)),
 * i only where a stage may begin. Exact; O(stages * n^2 + n * edges) time, O(n^2) memory. Ties go
 * to the leftmost cut.
 * Source: chains-on-chains partitioning, Pinar & Aykanat, JPDC 64 (2004) 974-996: the dynamic
 * program of section 3.2, whose loads are sums of weights, with a term for what enters a part. */
#include "partition/partition.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/schedule/schedule.h"
#include "partition/chain_cost.h"

enum { MOST_OPS = 20000 }; /* n^2 doubles: 3.2 GB */

struct tables {
    double *in_bytes; /* [n][n] per sample, what enters ops i..j */
    double *best;     /* [stages][n] B(s, j) */
    uint32_t *start;  /* [stages][n] the i that it was found with */
};

/* Row s of the tables. As i falls the load of stage s grows: its compute time never shrinks, so the
 * search ends where compute alone is worse than the best value so far. */
static void balanced_fill_row(const struct partition_problem *p, const struct chain_cost *c,
                              size_t s, struct tables *x)
{
    size_t n = p->m->n;
    const double *until = chain_cost_until(c, s);
    for (size_t j = s; j < n; j++) {
        double value = INFINITY;
        if (j + 1 < n && !partition_may_begin(p, j + 1))
            continue; /* nothing can follow, so nobody asks */
        for (size_t i = s > 0 ? j : 0; i + 1 > s; i--) {
            if (partition_may_begin(p, i)) {
                double load = chain_cost_load(c, s, i, j + 1, x->in_bytes[i * n + j]);
                double before = s > 0 ? x->best[(s - 1) * n + i - 1] : 0;
                double v = before > load ? before : load;
                if (v <= value) {
                    value = v;
                    x->start[s * n + j] = (uint32_t)i;
                }
            }
            if (i == 0 || until[j + 1] - until[i] > value)
                break;
        }
        x->best[s * n + j] = value;
    }
}

/* ---- stages in a V */

/* Seconds of the two stages of a rank, the s-th and the s-th from the end. */
static double rank_s(const struct chain_cost *c, const struct partition_problem *p,
                     const size_t *first, size_t s)
{
    size_t stages = p->r->stages, pair[2] = {s, stages - 1 - s};
    double sum_s = 0;
    for (size_t k = 0; k < 2; k++) {
        size_t end = pair[k] + 1 < stages ? first[pair[k] + 1] : p->m->n;
        const double *until = chain_cost_until(c, pair[k]);
        sum_s += until[end] - until[first[pair[k]]];
    }
    return sum_s;
}

/* Of the ranks that hold stages s - 1 and s: what a move of the cut between them changes. */
static double balanced_squares(const struct chain_cost *c, const struct partition_problem *p,
                               const size_t *first, size_t s)
{
    size_t stages = p->r->stages, a = s - 1 < stages - s ? s - 1 : stages - s,
           b = s < stages - 1 - s ? s : stages - 1 - s;
    double x = rank_s(c, p, first, a), y = rank_s(c, p, first, b);
    return x * x + (a == b ? 0 : y * y);
}

/* Move the cut before stage s to a neighbouring place, if the two ranks are then more alike. */
static bool balanced_move(const struct chain_cost *c, const struct partition_problem *p,
                          size_t *first, size_t s, int by)
{
    size_t from = first[s], low = first[s - 1],
           high = s + 1 < p->r->stages ? first[s + 1] : p->m->n, to = from;
    double before = balanced_squares(c, p, first, s);
    do
        to = by > 0 ? to + 1 : to - 1;
    while (to > low && to < high && !partition_may_begin(p, to));
    if (to <= low || to >= high)
        return false;
    first[s] = to;
    if (balanced_squares(c, p, first, s) < before * (1 - 1e-12))
        return true;
    first[s] = from;
    return false;
}

/* With two stages a rank is as slow as both together. From the cut of least slowest stages on, cuts
 * move to neighbouring places as long as the sum of the squares of the ranks' seconds falls, which
 * ends: there are finitely many cuts. Of compute alone. Heuristic. */
static void even_out(const struct chain_cost *c, const struct partition_problem *p, size_t *first)
{
    const struct schedule *schedule;
    if (schedule_find(p->r->schedule, &schedule) != STATUS_OK || !schedule->vee)
        return;
    for (bool any = true; any;) {
        any = false;
        for (size_t s = 1; s < p->r->stages; s++)
            any = balanced_move(c, p, first, s, 1) || balanced_move(c, p, first, s, -1) || any;
    }
}

static enum status balanced_cut(const struct partition_problem *p, size_t *first,
                                double *objective_s)
{
    enum status st;
    size_t n = p->m->n, stages = p->r->stages;
    struct chain_cost c = {0};
    struct tables x = {0};

    if (n > MOST_OPS)
        return error_set(STATUS_UNSUPPORTED,
                         "balanced: %zu ops, at most %d are possible; hierarchical takes more", n,
                         MOST_OPS);
    TRY(chain_cost_begin(p, &c));
    TRY(ARRAY_NEW(x.in_bytes, n * n));
    TRY(ARRAY_NEW(x.best, stages * n));
    TRY(ARRAY_NEW(x.start, stages * n));
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n && partition_may_begin(p, i); j++)
            x.in_bytes[i * n + j] =
                (j > i ? x.in_bytes[i * n + j - 1] : 0) + chain_cost_entering(&c, i, j);
    for (size_t s = 0; s < stages; s++)
        balanced_fill_row(p, &c, s, &x);
    for (size_t s = stages, j = n - 1; s-- > 0; j = first[s] - 1)
        first[s] = x.start[s * n + j];
    *objective_s = x.best[stages * n - 1];
    even_out(&c, p, first);
out:
    free(x.start);
    free(x.best);
    free(x.in_bytes);
    chain_cost_free(&c);
    return st;
}

const struct partition_algorithm partition_balanced = {
    .name = "balanced",
    .summary = "least slowest stage, compute plus transfers",
    .guarantee = "exact for contiguous stages of the model's order (in a V: local search)",
    .cut = balanced_cut,
};
