/* Better than contiguous: from the contiguous optimum, or what fits, to what the search of search.h
 * finds with the work that there is. Ends early where the value meets the lower bound, or where
 * branch and bound has been through all splits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/placement/bound.h"
#include "papers/placement/branch.h"
#include "papers/placement/ideals.h"
#include "papers/placement/search.h"

static const double noncontiguous_limit_s = 20;
/* Of the work so much is for the contiguous split, at most, and never less than some steps. */
enum { CONTIGUOUS_PART = 4, CONTIGUOUS_LEAST = 20000000 };
/* Work is measured in steps, so that a result does not depend on the speed of the machine. This
 * many are done in a second by a core that is not slow: the time limit is reached before the work
 * is done only on slower or busier ones. */
static const double steps_per_s = 1.2e8, longest_s = 86400;

struct noncontiguous_best {
    struct placement_found found;
    struct placement_bound bound;
};

/* Largest first into the first accelerator with room; whether that works out.
 *   at  [g->n] out: device of each unit */
static enum status first_fit(const struct placement_problem *p, struct placement_graph *g,
                             uint32_t *at, bool *fits)
{
    double *room;
    bool *placed;
    PASS(ARENA_NEW(&g->memory, room, p->accelerators + 1));
    PASS(ARENA_NEW(&g->memory, placed, g->n));
    for (size_t d = 0; d < p->accelerators; d++)
        room[d] = p->memory_bytes;
    *fits = true;
    for (size_t i = 0; i < g->n && *fits; i++) {
        size_t v = g->n, d = 0;
        for (size_t u = 0; u < g->n; u++)
            if (!placed[u] && (v == g->n || g->size[u] > g->size[v]))
                v = u;
        while (d < p->accelerators && (!g->supported[v] || room[d] < g->size[v]))
            d++;
        *fits = d < p->accelerators + (p->cpus > 0);
        room[d] -= g->size[v];
        placed[v] = true;
        at[v] = (uint32_t)d;
    }
    return STATUS_OK;
}

/* The same by branch and bound, which may prove that nothing fits. */
static enum status search_fit(const struct placement_problem *p, struct placement_graph *g,
                              struct placement_work *w, uint32_t *at, bool *fits)
{
    struct placement_branch *b;
    uint32_t *unit;
    bool complete;
    double value = 1, most;
    PASS(placement_branch_new(p, g, &b));
    PASS(ARENA_NEW(&g->memory, unit, g->n));
    for (uint32_t v = 0; v < g->n; v++) {
        unit[v] = v;
        value += g->accelerator[v] + g->cpu[v];
    }
    for (size_t t = 0; t < g->nets; t++)
        value += 2 * g->net_cost[t];
    most = value; /* no device has a load of as much */
    placement_branch_solve(b, unit, g->n, w->most / 10, w, at, &value, &complete);
    *fits = value < most;
    return *fits || !complete
               ? STATUS_OK
               : error_set(STATUS_INFEASIBLE,
                           "%s: no split fits %zu accelerators of %.6g bytes and no CPU",
                           w->r->spec, p->accelerators, p->memory_bytes);
}

/* Without a contiguous split. What this fails on may still have a split where the search was not
 * complete; the error says only that none was found. */
static enum status any_fit(const struct placement_problem *p, struct placement_work *w,
                           struct noncontiguous_best *best)
{
    enum status st;
    struct placement_graph g = {0};
    uint32_t *at;
    bool fits;
    TRY(placement_merge(p, INFINITY, &g));
    TRY(ARENA_NEW(&g.memory, at, g.n));
    TRY(first_fit(p, &g, at, &fits));
    if (!fits && p->accelerators + p->cpus <= PLACEMENT_BRANCH_DEVICES)
        TRY(search_fit(p, &g, w, at, &fits));
    if (!fits)
        FAIL(STATUS_INFEASIBLE,
             "%s: no split was found that fits %zu accelerators of %.6g bytes and no CPU",
             w->r->spec, p->accelerators, p->memory_bytes);
    for (size_t v = 0; v < p->n; v++)
        best->found.device[v] = at[g.unit[v]];
out:
    placement_graph_free(&g);
    return st;
}

/* The contiguous optimum, or, if none fits the memory, what does.
 *   contiguous  out: its value; INFINITY: none fits; NAN: none was found in time */
static enum status noncontiguous_begin(const struct placement_problem *p, struct placement_work *w,
                                       struct noncontiguous_best *best, double *contiguous)
{
    enum status st;
    struct placement_contiguous c = {0};
    struct objective_result result = {0};
    struct placement_work start = *w;
    start.most = w->most / CONTIGUOUS_PART;
    start.most = start.most > CONTIGUOUS_LEAST ? start.most : CONTIGUOUS_LEAST;
    TRY(placement_contiguous_solve(p, &start, &c));
    w->spent = start.spent;
    w->late = start.late;
    *contiguous = c.interrupted && isinf(c.value) ? NAN : c.value;
    memcpy(best->found.device, c.device, p->n * sizeof *c.device);
    if (isinf(c.value))
        TRY(any_fit(p, w, best));
    TRY(placement_result(p, best->found.device, NULL, &result));
    best->found.value = result.value;
    TRY(placement_lower_bound(p, result.value, &best->bound));
    best->found.bound = best->bound.value;
out:
    objective_result_free(&result);
    placement_contiguous_free(&c);
    return st;
}

/* The work that a request allows: what it says, or what fits its time limit. Experiments that must
 * not depend on the clock give a limit without end: they get the default. */
static uint64_t work_for(const struct objective_request *r)
{
    double limit_s = objective_limit_s(r, noncontiguous_limit_s);
    if (r->said.work_limit > 0)
        return r->said.work_limit;
    return 1 + (uint64_t)(steps_per_s * (limit_s <= longest_s ? limit_s : noncontiguous_limit_s));
}

/* With a better split at hand more units cannot be parted: the bound may rise. */
static enum status tighten(const struct placement_problem *p, struct noncontiguous_best *best)
{
    struct placement_bound bound;
    if (best->found.exhausted)
        best->bound = (struct placement_bound){best->found.value, PLACEMENT_BOUND_ALL};
    if (placement_settled(&best->found))
        return STATUS_OK;
    PASS(placement_lower_bound(p, best->found.value, &bound));
    if (bound.value > best->bound.value)
        best->bound = bound;
    best->found.bound = best->bound.value;
    return STATUS_OK;
}

/* What proves the bound, how far it is, and what contiguous splits reach: INFINITY where none fits,
 * NAN where the search for one was cut short. */
static enum status noncontiguous_explain(double contiguous, const struct noncontiguous_best *best,
                                         struct objective_result *out)
{
    char than[40];
    strcpy(than, isnan(contiguous) ? "no contiguous split in time" : "no contiguous split fits");
    if (isfinite(contiguous))
        snprintf(than, sizeof than, "contiguous %.17g", contiguous);
    out->proved_optimal = placement_settled(&best->found);
    out->lower_bound = fmin(best->bound.value, out->value);
    return objective_set_note(
        out, "non-contiguous splits included; lower bound from %s; gap %.3g %%; %s",
        placement_reason_text[best->bound.reason],
        out->value > 0 ? 100 * (1 - out->lower_bound / out->value) : 0.0, than);
}

enum status placement_noncontiguous_solve(const struct objective_request *r,
                                          struct objective_result *out)
{
    enum status st;
    struct placement_problem p = {0};
    struct noncontiguous_best best = {0};
    double contiguous;
    struct placement_work work = {.r = r,
                                  .begin_s = clock_now(),
                                  .default_limit_s = 3 * noncontiguous_limit_s,
                                  .most = work_for(r),
                                  .random = r->seed};
    TRY(placement_read(r, &p));
    TRY(ARENA_NEW(&out->memory, best.found.device, p.n));
    TRY(noncontiguous_begin(&p, &work, &best, &contiguous));
    TRY(placement_search(&p, &work, &best.found));
    TRY(tighten(&p, &best));
    out->interrupted = work.late && !placement_settled(&best.found);
    TRY(placement_result(&p, best.found.device, NULL, out));
    TRY(noncontiguous_explain(contiguous, &best, out));
out:
    placement_free(&p);
    return st;
}
