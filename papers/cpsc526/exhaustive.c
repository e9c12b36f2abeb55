/* All splits by branch and bound, in the order in which the course project enumerates them.
 *
 * An op opens the next part, or waits to join one of the parts from some point on; when the
 * last part is open, the waiting ops choose. A partial split is left out when `bound` says
 * that no way to complete it is better than the best split known: that leaves out no
 * improvement, so the sequence of improvements is the project's own. */
#include "papers/cpsc526/exhaustive.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"

static const double default_limit_s = 120;
static const double exact = 0x1p53; /* whole numbers are, below */
static const double tiny = 1e-9;    /* improvements are larger, relative */

enum { CHECK_EVERY = 1024 }; /* steps between looks at the clock */

struct exhaustive_search {
    const struct cpsc526_problem *p;
    const struct objective_request *r;
    double begin_s, best, cheapest; /* cheapest pair of different labels */
    bool uniform, stopped, found;
    size_t steps;
    uint32_t *part; /* [n] p->k: not placed yet */
    double *weight; /* [k] of the placed ops */
    double *level;  /* [k] scratch */
    double
        *waiting; /* [k] weight of joiners that are not placed, by the first part they may join */
    double cut;   /* edges between placed ops of different parts */
    uint32_t *joiner; /* [n] ops that join a part that is opened later, in order */
    uint32_t *lowest; /* [n] first part that joiner i may join */
    size_t joiners;
    uint32_t *renamed; /* [k] label of part c */
    bool *used;        /* [k] labels */
    double *edges;     /* [k * k] between parts, each once per direction */
    uint32_t *label;   /* [n] of the best */
    struct arena memory;
};

static bool stops(struct exhaustive_search *s)
{
    if (!s->stopped && s->steps++ % CHECK_EVERY == 0)
        s->stopped = objective_must_stop(s->r, s->begin_s, default_limit_s);
    return s->stopped;
}

/* By more than rounding: sums of squares of parameter counts are large. */
static bool is_better(const struct exhaustive_search *s, double value)
{
    return value < s->best - tiny * fmax(1, s->best < INFINITY ? s->best : 1);
}

/* ---- placing ops */

/* Put an op into a part: its weight, and the edges to placed ops of other parts. */
static void exhaustive_assign(struct exhaustive_search *s, uint32_t op, uint32_t part)
{
    const struct cpsc526_problem *p = s->p;
    s->part[op] = part;
    s->weight[part] += p->weight[op];
    for (size_t e = p->start[op]; e < p->start[op + 1]; e++)
        s->cut += s->part[p->peer[e]] != p->k && s->part[p->peer[e]] != part;
}

static void exhaustive_undo(struct exhaustive_search *s, uint32_t op)
{
    const struct cpsc526_problem *p = s->p;
    for (size_t e = p->start[op]; e < p->start[op + 1]; e++)
        s->cut -= s->part[p->peer[e]] != p->k && s->part[p->peer[e]] != s->part[op];
    s->weight[s->part[op]] -= p->weight[op];
    s->part[op] = (uint32_t)p->k;
}

/* Pour `amount` of a liquid over level[n], lowest first. O(n^2), sorts level. */
static void pour(double *level, size_t n, double amount)
{
    double sum = 0, height;
    size_t filled = 0;
    for (size_t c = 1; c < n; c++) { /* insertion sort, ascending */
        double own = level[c];
        size_t at = c;
        for (; at > 0 && level[at - 1] > own; at--)
            level[at] = level[at - 1];
        level[at] = own;
    }
    do {
        sum += level[filled++];
        height = (sum + amount) / (double)filled;
    } while (filled < n && level[filled] < height);
    for (size_t c = 0; c < filled; c++)
        level[c] = height;
}

/* No way to go on gets below this: weights to be placed are poured over the parts that they may
 * join, the choosiest first (their parts are nested, so that this is the most even way), and the
 * edges cut so far have the price of the cheapest. */
static double exhaustive_bound(const struct exhaustive_search *s)
{
    const struct cpsc526_problem *p = s->p;
    double variance = 0;
    memcpy(s->level, s->weight, p->k * sizeof *s->level);
    for (size_t c = p->k; c-- > 0;)
        if (s->waiting[c] > 0)
            pour(s->level + c, p->k - c, s->waiting[c]);
    for (size_t c = 0; c < p->k; c++)
        variance += (s->level[c] - p->mean) * (s->level[c] - p->mean);
    return variance + fmax(s->cut * s->cheapest, p->cut_bound);
}

/* ---- labelings of a partition */

/* A new best split with labels renamed; the search may end at the proved bound. */
static void exhaustive_keep_best(struct exhaustive_search *s, double value)
{
    s->best = value;
    s->found = true;
    for (size_t i = 0; i < s->p->n; i++)
        s->label[i] = s->renamed[s->part[i]];
    if (s->r->better)
        s->r->better(s->r->context, value);
    s->stopped = s->stopped || cpsc526_is_optimal(s->p, value) || (s->r->stop && *s->r->stop);
}

/* Labels for parts c .. k - 1; `value` is what the labels before cost. */
static void rename_parts(struct exhaustive_search *s, size_t c, double value)
{
    const struct cpsc526_problem *p = s->p;
    if (!is_better(s, value) || stops(s))
        return;
    if (c == p->k) {
        exhaustive_keep_best(s, value);
        return;
    }
    for (uint32_t l = 0; l < p->k; l++) {
        if (s->used[l] || (s->uniform && l != c))
            continue;
        double more = 0;
        for (size_t b = 0; b < c; b++)
            more += s->edges[b * p->k + c] * p->cost[s->renamed[b] * p->k + l];
        s->renamed[c] = l;
        s->used[l] = true;
        rename_parts(s, c + 1, value + more);
        s->used[l] = false;
    }
}

/* A whole partition: count edges between parts once, then find the labels under which they
 * cost least. The balance does not depend on the labels. */
static void exhaustive_evaluate(struct exhaustive_search *s)
{
    const struct cpsc526_problem *p = s->p;
    double variance = 0;
    memset(s->edges, 0, p->k * p->k * sizeof *s->edges);
    for (size_t i = 0; i < p->n; i++)
        for (size_t e = p->start[i]; e < p->start[i + 1]; e++)
            s->edges[s->part[i] * p->k + s->part[p->peer[e]]]++;
    for (size_t c = 0; c < p->k; c++)
        variance += (s->weight[c] - p->mean) * (s->weight[c] - p->mean);
    rename_parts(s, 0, variance);
}

/* ---- partitions */

/* Joiners 0 .. n - 1 choose their parts; the first one varies fastest. */
static void exhaustive_join(struct exhaustive_search *s, size_t n)
{
    if (!is_better(s, exhaustive_bound(s)) || stops(s))
        return;
    if (n == 0) {
        exhaustive_evaluate(s);
        return;
    }
    uint32_t op = s->joiner[n - 1], lowest = s->lowest[n - 1];
    double before = s->waiting[lowest];
    s->waiting[lowest] = n > 1 && s->lowest[n - 2] == lowest ? before - s->p->weight[op] : 0;
    for (uint32_t part = lowest; part < s->p->k; part++) {
        exhaustive_assign(s, op, part);
        exhaustive_join(s, n - 1);
        exhaustive_undo(s, op);
    }
    s->waiting[lowest] = before;
}

/* Op `op` opens part `open` or joins one that is not opened yet, or an own later one. */
static void exhaustive_choose(struct exhaustive_search *s, uint32_t op, uint32_t open)
{
    const struct cpsc526_problem *p = s->p;
    if (p->n - op < p->k - open || stops(s))
        return;
    if (open + 1 == p->k) {
        for (size_t i = op; i < p->n; i++)
            exhaustive_assign(s, (uint32_t)i, open);
        exhaustive_join(s, s->joiners);
        for (size_t i = p->n; i-- > op;)
            exhaustive_undo(s, (uint32_t)i);
        return;
    }
    exhaustive_assign(s, op, open);
    exhaustive_choose(s, op + 1, open + 1);
    exhaustive_undo(s, op);
    s->joiner[s->joiners] = op;
    s->lowest[s->joiners++] = open;
    double before = s->waiting[open];
    s->waiting[open] += p->weight[op];
    exhaustive_choose(s, op + 1, open);
    s->waiting[open] = before;
    s->joiners--;
}

static enum status exhaustive_allocate(struct exhaustive_search *s)
{
    size_t n = s->p->n, k = s->p->k;
    PASS(ARENA_NEW(&s->memory, s->part, n));
    PASS(ARENA_NEW(&s->memory, s->weight, k));
    PASS(ARENA_NEW(&s->memory, s->level, k));
    PASS(ARENA_NEW(&s->memory, s->waiting, k));
    PASS(ARENA_NEW(&s->memory, s->joiner, n));
    PASS(ARENA_NEW(&s->memory, s->lowest, n));
    PASS(ARENA_NEW(&s->memory, s->renamed, k));
    PASS(ARENA_NEW(&s->memory, s->used, k));
    PASS(ARENA_NEW(&s->memory, s->edges, k * k));
    PASS(ARENA_NEW(&s->memory, s->label, n));
    return STATUS_OK;
}

/* Cheapest pair of different labels, for the bound; where all pairs cost the same one labeling
 * is as good as any other. */
static void look_at_costs(struct exhaustive_search *s)
{
    size_t k = s->p->k;
    double dearest = 0;
    s->cheapest = k > 1 ? INFINITY : 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++)
            if (i != j) {
                s->cheapest = fmin(s->cheapest, s->p->cost[i * k + j]);
                dearest = fmax(dearest, s->p->cost[i * k + j]);
            }
    s->uniform = s->cheapest == dearest;
}

/* Without any time at all: the first partition of the order. */
static void first_partition(const struct cpsc526_problem *p, uint32_t *label)
{
    for (size_t i = 0; i < p->n; i++)
        label[i] = (uint32_t)(i < p->k ? i : p->k - 1);
}

/* Without a split found in time the first of the order is returned: there always is one. */
enum status cpsc526_enumerate(const struct cpsc526_problem *p, const struct objective_request *r,
                              uint32_t *label, bool *complete)
{
    enum status st = STATUS_OK;
    struct exhaustive_search s = {.p = p, .r = r, .begin_s = clock_now(), .best = INFINITY};
    if (p->n > CPSC526_MAX_EXHAUSTIVE)
        return error_set(STATUS_UNSUPPORTED,
                         "got %zu ops, --algorithm exhaustive supports at most %d", p->n,
                         CPSC526_MAX_EXHAUSTIVE);
    TRY(exhaustive_allocate(&s));
    look_at_costs(&s);
    for (size_t i = 0; i < p->n; i++)
        s.part[i] = (uint32_t)p->k;
    exhaustive_choose(&s, 0, 0);
    if (s.found)
        memcpy(label, s.label, p->n * sizeof *label);
    else
        first_partition(p, label);
    *complete = !s.stopped || cpsc526_is_optimal(p, s.best);
out:
    arena_free(&s.memory);
    return st;
}

/* S(n, k) = sum over i of (-1)^(k - i) i^n / (i! (k - i)!) loses digits; the triangle does not:
 * S(n, k) = k S(n - 1, k) + S(n - 1, k - 1). */
double cpsc526_partitions(size_t n, size_t k)
{
    double row[CPSC526_MAX_PARTS + 1] = {1};
    for (size_t i = 1; i <= n; i++) {
        for (size_t c = i < k ? i : k; c > 0; c--)
            row[c] = (double)c * row[c] + row[c - 1];
        row[0] = 0;
    }
    return row[k];
}

enum status cpsc526_exhaustive_solve(const struct objective_request *r,
                                     struct objective_result *out)
{
    enum status st = STATUS_OK;
    struct cpsc526_problem p = {0};
    char how[CPSC526_TEXT];
    bool complete;
    uint32_t *label;
    TRY(cpsc526_problem_build(r, &p));
    TRY(ARENA_NEW(&p.memory, label, p.n));
    TRY(cpsc526_enumerate(&p, r, label, &complete));
    double partitions = cpsc526_partitions(p.n, p.k);
    double labelings = partitions * tgamma((double)p.k + 1);
    int digits = labelings < exact ? 16 : 3;
    const char *seen = complete ? "all" : "as many as the time allowed";
    if (isfinite(labelings))
        snprintf(how, sizeof how, "%s of %.*g partitions, %.*g labelings", seen, digits, partitions,
                 digits, labelings);
    else
        snprintf(how, sizeof how, "%s of more than 1e308 labelings", seen);
    TRY(cpsc526_report(r, &p, label, how, out));
    out->interrupted = !complete;
    if (complete) {
        out->proved_optimal = true;
        out->lower_bound = out->value;
    }
out:
    cpsc526_problem_free(&p);
    return st;
}
