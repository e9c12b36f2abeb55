/* balanced - contiguous stages of the model's order with the least slowest stage.
 *
 * A stage costs its forward and backward time on its device plus the transfer of what enters it,
 * forward and as gradients back; a tensor counts once per stage that reads it, wherever it comes
 * from. With B(s, j) the least slowest of the stages 0..s over the ops 0..j, and load(s, i, j) of
 * stage s with the ops i..j,
 *     B(0, j) = load(0, 0, j),   B(s, j) = min over i of max(B(s - 1, i - 1), load(s, i, j)),
 * i only where a stage may begin, at p of n places. Exact; O(stages * p^2 + p * edges) time, O(p^2)
 * memory. Ties go to the leftmost cut.
 * Source: chains-on-chains partitioning, Pinar & Aykanat, JPDC 64 (2004) 974-996: the dynamic
 * program of section 3.2, whose loads are sums of weights, with a term for what enters a part. */
#include "partition/partition.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/schedule/schedule.h"
#include "partition/chain_cost.h"

enum { MOST_OPS = 20000 }; /* places^2 doubles: 3.2 GB */

/* Stages begin and end at places: place[0] == 0, ..., place[places] == n. */
struct tables {
    size_t places;
    size_t *place;    /* [places + 1] ops */
    double *in_bytes; /* [places][places + 1] per sample, what enters the ops between two of them */
    double *best;     /* [stages][places + 1] B(s, j), j + 1 being the place */
    uint32_t *start;  /* [stages][places + 1] the place of the i that it was found with */
};

/* Row s of the tables. As i falls the load of stage s grows: its compute time never shrinks, so the
 * search ends where compute alone is worse than the best value so far. */
static void balanced_fill_row(const struct chain_cost *c, size_t s, struct tables *x)
{
    size_t row = x->places + 1;
    const double *until = chain_cost_until(c, s);
    for (size_t e = 1; e <= x->places; e++) {
        double value = INFINITY;
        size_t end = x->place[e];
        if (end <= s)
            continue; /* each stage before has an op */
        for (size_t b = s > 0 ? e : 1; b-- > 0 && x->place[b] >= s;) {
            size_t first = x->place[b];
            double load = chain_cost_load(c, s, first, end, x->in_bytes[b * row + e]);
            double before = s > 0 ? x->best[(s - 1) * row + b] : 0;
            double v = before > load ? before : load;
            if (v <= value) {
                value = v;
                x->start[s * row + e] = (uint32_t)b;
            }
            if (until[end] - until[first] > value)
                break;
        }
        x->best[s * row + e] = value;
    }
}

static enum status balanced_prepare(const struct partition_problem *p, const struct chain_cost *c,
                                    struct tables *x)
{
    size_t n = p->m->n, stages = p->r->stages;
    PASS(ARRAY_NEW(x->place, n + 1));
    for (size_t i = 0; i < n; i++)
        if (i == 0 || partition_may_begin(p, i))
            x->place[x->places++] = i;
    x->place[x->places] = n;
    size_t row = x->places + 1;
    PASS(ARRAY_NEW(x->in_bytes, x->places * row));
    PASS(ARRAY_NEW(x->best, stages * row));
    PASS(ARRAY_NEW(x->start, stages * row));
    for (size_t b = 0; b < x->places; b++) {
        double bytes = 0;
        for (size_t e = b + 1, j = x->place[b]; e <= x->places; e++) {
            for (; j < x->place[e]; j++)
                bytes += chain_cost_entering(c, x->place[b], j);
            x->in_bytes[b * row + e] = bytes;
        }
    }
    return STATUS_OK;
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
    TRY(balanced_prepare(p, &c, &x));
    for (size_t s = 0; s < stages; s++)
        balanced_fill_row(&c, s, &x);
    for (size_t s = stages, e = x.places; s-- > 0;) {
        e = x.start[s * (x.places + 1) + e];
        first[s] = x.place[e];
    }
    *objective_s = x.best[stages * (x.places + 1) - 1];
    even_out(&c, p, first);
out:
    free(x.start);
    free(x.best);
    free(x.in_bytes);
    free(x.place);
    chain_cost_free(&c);
    return st;
}

const struct partition_algorithm partition_balanced = {
    .name = "balanced",
    .summary = "least slowest stage, compute plus transfers",
    .guarantee = "exact for contiguous stages of the model's order (in a V: local search)",
    .cut = balanced_cut,
};
