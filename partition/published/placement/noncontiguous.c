/* Better than contiguous: annealing from the contiguous optimum and from random splits, on
 * units merged by what the best value so far rules out. Ends early where the value meets the
 * lower bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "partition/published/placement/anneal.h"
#include "partition/published/placement/bound.h"
#include "partition/published/placement/ideals.h"

static const double noncontiguous_limit_s = 20, contiguous_limit_s = 5;
static const double enough = 1e-9; /* relative gap at which the bound is reached */
/* Work is measured in steps of the inner loops, so that a result does not depend on the speed of
 * the machine; a step takes some nanoseconds, and time should be left over at the limit. */
static const double steps_per_s = 3e7, steps_per_choice = 400000;

struct best {
    double value;
    uint32_t *device; /* [nodes] */
    struct placement_bound bound;
};

/* Value and lower bound have met. */
static bool settled(const struct best *b)
{
    return b->value <= b->bound.value * (1 + enough);
}

/* One annealing run; units begin where their first node is. */
static enum status round_from(const struct placement_problem *p, struct placement_graph *g,
                              const struct placement_anneal *o, const struct objective_request *r,
                              struct best *best)
{
    double value = best->value;
    uint32_t *device;
    PASS(ARENA_NEW(&g->memory, device, g->n));
    for (size_t v = p->n; v-- > 0;)
        device[g->unit[v]] = best->device[v];
    PASS(placement_anneal(p, g, o, r, device, &value));
    if (value < best->value) {
        best->value = value;
        for (size_t v = 0; v < p->n; v++)
            best->device[v] = device[g->unit[v]];
    }
    return STATUS_OK;
}

/* Short hot rounds find which units belong together, the long cool one balances the devices. */
static const struct {
    double hot, cold, share;
    bool scatter;
} schedule[] = {
    {3, 1e-3, 0.05, false}, {30, 1e-3, 0.05, true},  {0.3, 1e-3, 0.05, false},
    {3, 1e-3, 0.05, true},  {30, 1e-3, 0.05, false}, {0.1, 3e-3, 0.75, false},
};
enum { ROUNDS = sizeof schedule / sizeof *schedule };

/* Work grows with the number of choices, within the time limit. */
static double steps_for(const struct placement_problem *p, const struct objective_request *r)
{
    double limit_s = objective_limit_s(r, noncontiguous_limit_s);
    double choices = (double)p->colours * (double)(p->accelerators + p->cpus);
    return fmin(steps_per_choice * choices, steps_per_s * limit_s);
}

/* Every round starts from the best split so far, on the units that are left when that is to be
 * beaten. */
static enum status improve(const struct placement_problem *p, const struct objective_request *r,
                           double begin_s, struct best *best, bool *interrupted)
{
    enum status st = STATUS_OK;
    struct placement_graph g = {0};
    double steps = steps_for(p, r);
    for (uint64_t i = 0; i < ROUNDS && !settled(best); i++) {
        struct placement_anneal o = {.hot = schedule[i].hot,
                                     .cold = schedule[i].cold,
                                     .steps = 1 + (uint64_t)(schedule[i].share * steps),
                                     .seed = r->seed * ROUNDS + i,
                                     .begin_s = begin_s,
                                     .default_limit_s = noncontiguous_limit_s,
                                     .scatter = schedule[i].scatter};
        *interrupted = objective_must_stop(r, begin_s, noncontiguous_limit_s);
        if (*interrupted)
            break;
        placement_graph_free(&g);
        TRY(placement_merge(p, best->value, &g));
        TRY(round_from(p, &g, &o, r, best));
        *interrupted = !settled(best) && objective_must_stop(r, begin_s, noncontiguous_limit_s);
    }
out:
    placement_graph_free(&g);
    return st;
}

/* Without a contiguous split: largest first into the first accelerator with room. What this
 * fails on may still have a split; the error says only that none was found. */
static enum status first_fit(const struct placement_problem *p, const struct objective_request *r,
                             struct best *best)
{
    enum status st;
    struct placement_graph g = {0};
    double *room;
    bool *placed;
    TRY(placement_merge(p, INFINITY, &g));
    TRY(ARENA_NEW(&g.memory, room, p->accelerators + 1));
    TRY(ARENA_NEW(&g.memory, placed, g.n));
    for (size_t d = 0; d < p->accelerators; d++)
        room[d] = p->memory_bytes;
    for (size_t i = 0; i < g.n; i++) {
        size_t v = g.n, d = 0;
        for (size_t u = 0; u < g.n; u++)
            if (!placed[u] && (v == g.n || g.size[u] > g.size[v]))
                v = u;
        while (d < p->accelerators && (!g.supported[v] || room[d] < g.size[v]))
            d++;
        if (d == p->accelerators)
            FAIL(STATUS_INFEASIBLE,
                 "%s: no split was found that fits %zu accelerators of %.6g bytes and no "
                 "CPU",
                 r->spec, p->accelerators, p->memory_bytes);
        room[d] -= g.size[v];
        placed[v] = true;
        for (size_t u = 0; u < p->n; u++)
            if (g.unit[u] == v)
                best->device[u] = (uint32_t)d;
    }
out:
    placement_graph_free(&g);
    return st;
}

/* The contiguous optimum, or, if none fits the memory, a first fit. */
static enum status begin(const struct placement_problem *p, const struct objective_request *r,
                         double begin_s, struct best *best, double *contiguous)
{
    enum status st;
    struct placement_contiguous c = {0};
    struct objective_result found = {0};
    TRY(placement_contiguous_solve(p, r, begin_s, contiguous_limit_s, &c));
    *contiguous = c.value;
    memcpy(best->device, c.device, p->n * sizeof *c.device);
    if (isinf(c.value))
        TRY(first_fit(p, r, best));
    TRY(placement_result(p, best->device, NULL, &found));
    best->value = found.value;
    TRY(placement_lower_bound(p, best->value, &best->bound));
out:
    objective_result_free(&found);
    placement_contiguous_free(&c);
    return st;
}

/* With a better split at hand more units cannot be parted: the bound may rise. */
static enum status tighten(const struct placement_problem *p, struct best *best)
{
    struct placement_bound bound;
    if (settled(best))
        return STATUS_OK;
    PASS(placement_lower_bound(p, best->value, &bound));
    if (bound.value > best->bound.value)
        best->bound = bound;
    return STATUS_OK;
}

/* What proves the bound, how far it is, and what contiguous splits reach. */
static enum status explain(double contiguous, const struct best *best, struct objective_result *out)
{
    char than[40] = "no contiguous split fits";
    if (isfinite(contiguous))
        snprintf(than, sizeof than, "contiguous %.17g", contiguous);
    out->proved_optimal = settled(best);
    out->lower_bound = fmin(best->bound.value, out->value);
    return objective_set_note(out, "any split; bound proved by %s; gap %.3g %%; %s",
                              placement_reason_text[best->bound.reason],
                              out->value > 0 ? 100 * (1 - out->lower_bound / out->value) : 0.0,
                              than);
}

static enum status solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct placement_problem p = {0};
    struct best best = {0};
    double begin_s = clock_now(), contiguous;
    TRY(placement_read(r, &p));
    TRY(ARENA_NEW(&out->memory, best.device, p.n));
    TRY(begin(&p, r, begin_s, &best, &contiguous));
    TRY(improve(&p, r, begin_s, &best, &out->interrupted));
    TRY(tighten(&p, &best));
    TRY(placement_result(&p, best.device, NULL, out));
    TRY(explain(contiguous, &best, out));
out:
    placement_free(&p);
    return st;
}

const struct objective_algorithm placement_noncontiguous = {
    "noncontiguous", "simulated annealing from the contiguous optimum, and a lower bound",
    "never worse than ideals; optimal where value and lower bound meet", solve};
