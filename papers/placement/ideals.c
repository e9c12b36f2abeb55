/* The contiguous optimum. A chain search costs less the lower its limit, so the value is
 * approached from below: limits grow by a constant factor from a first guess until a chain is
 * found, first along four topological orders, then among all ideals. */
#include "papers/placement/ideals.h"

#include <math.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/placement/bound.h"

enum { ORDERS = 4 };
static const double ideals_limit_s = 60;
static const double growth = 1.15; /* of the value that a chain is looked for at */

/* Everything on one device costs no more than this. */
static double largest_value(const struct placement_graph *g)
{
    double cpu = 0, accelerator = 0;
    for (size_t v = 0; v < g->n; v++) {
        cpu += g->cpu[v];
        accelerator += g->accelerator[v];
    }
    for (size_t t = 0; t < g->nets; t++)
        accelerator += g->net_cost[t];
    return fmax(cpu, accelerator);
}

/* Equal shares, or the largest unit: where the search for a first value begins. */
static double first_guess(const struct placement_problem *p, const struct placement_graph *g)
{
    double total = 0, largest = 0;
    for (size_t v = 0; v < g->n; v++) {
        total += g->accelerator[v];
        largest = fmax(largest, fmin(g->accelerator[v], g->cpu[v]));
    }
    return fmax(largest, total / (double)(p->accelerators + p->cpus));
}

struct attempt {
    const struct placement_problem *p;
    struct placement_work *w;
    struct placement_graph g;
    struct placement_chain best;
};

/* The best chain of f, if it is better than what is known; the limit grows until there is one. */
static enum status placement_ideals_improve(struct attempt *a, const struct placement_family *f,
                                            double guess)
{
    enum status st;
    struct placement_chain c = {0};
    double most = largest_value(&a->g);
    for (double limit = guess;; limit = growth * limit) {
        limit = limit < most && limit > 0 ? limit : INFINITY;
        placement_chain_free(&c);
        TRY(placement_chain_solve(a->p, &a->g, f, fmin(limit, a->best.value), a->w, &c));
        if (c.interrupted || isfinite(c.value) || limit >= a->best.value || isinf(limit))
            break;
    }
    a->best.interrupted = c.interrupted;
    a->best.reduced = c.reduced;
    if (c.value < a->best.value) {
        placement_chain_free(&a->best);
        a->best = c;
        c = (struct placement_chain){0};
    }
out:
    placement_chain_free(&c);
    return st;
}

/* Depth first keeps branches together, breadth first layers; in either direction of time. */
static enum status improve_by_orders(struct attempt *a)
{
    enum status st;
    struct placement_family f = {0};
    for (int order = 0; order < ORDERS; order++) {
        double guess = order == 0 ? first_guess(a->p, &a->g) : a->best.value;
        TRY(placement_family_chain(&a->g, order % 2 == 0, order >= 2, &f));
        TRY(placement_ideals_improve(a, &f, guess));
        placement_family_free(&f);
    }
out:
    placement_family_free(&f);
    return st;
}

/* All ideals if they are few enough, with the value along the orders as the limit. */
static enum status placement_ideals_search(struct attempt *a, struct placement_contiguous *out)
{
    enum status st;
    struct placement_family f = {0};
    bool complete = false;
    TRY(placement_family_all(&a->g, FAMILY_LIMIT, &complete, &f));
    out->ideals = complete ? f.n : 0;
    if (complete && f.n == a->g.n + 1) { /* there is only one topological order */
        TRY(placement_ideals_improve(a, &f, first_guess(a->p, &a->g)));
    } else {
        TRY(improve_by_orders(a));
        if (complete)
            TRY(placement_ideals_improve(a, &f, a->best.value));
    }
    out->optimal = complete && !a->best.interrupted && !a->best.reduced;
    out->interrupted = a->best.interrupted;
    out->value = a->best.value;
    out->units = a->g.n;
out:
    placement_family_free(&f);
    return st;
}

/* Devices of units become devices of nodes. */
enum status placement_contiguous_solve(const struct placement_problem *p, struct placement_work *w,
                                       struct placement_contiguous *c)
{
    enum status st;
    struct attempt a = {p, w, .best = {.value = INFINITY}};
    *c = (struct placement_contiguous){.value = INFINITY};
    TRY(placement_contract(p, &a.g));
    TRY(placement_ideals_search(&a, c));
    TRY(ARENA_NEW(&c->memory, c->device, p->n));
    TRY(ARENA_NEW(&c->memory, c->order, p->accelerators + p->cpus));
    if (isfinite(c->value)) {
        for (size_t v = 0; v < p->n; v++)
            c->device[v] = a.best.device[a.g.unit[v]];
        memcpy(c->order, a.best.order, (p->accelerators + p->cpus) * sizeof *c->order);
    }
out:
    placement_chain_free(&a.best);
    placement_graph_free(&a.g);
    return st;
}

void placement_contiguous_free(struct placement_contiguous *c)
{
    arena_free(&c->memory);
    *c = (struct placement_contiguous){0};
}

/* An exact answer is its own bound among contiguous splits; else the bound is for any split. */
static enum status placement_ideals_explain(const struct placement_problem *p,
                                            const struct placement_contiguous *c,
                                            struct objective_result *out)
{
    struct placement_bound bound;
    const char *cpus = p->cpus > 1 ? "; every CPU counts as a separate device" : "";
    out->proved_optimal = c->optimal;
    out->interrupted = c->interrupted;
    out->lower_bound = out->value;
    if (c->optimal)
        return objective_set_note(out,
                                  "optimal among contiguous splits of %zu nodes in %zu groups "
                                  "(searched all %zu down-sets, sets with all predecessors)%s",
                                  p->n, c->units, c->ideals, cpus);
    PASS(placement_lower_bound(p, out->value, &bound));
    out->lower_bound = bound.value;
    return objective_set_note(
        out,
        "best of the contiguous splits that were searched: prefixes of four topological orders of "
        "%zu units, because %s; it may miss the optimum; lower bound from %s%s",
        c->units,
        c->interrupted   ? "the search was stopped"
        : c->ideals == 0 ? "there are more than 100000 down-sets (sets with all predecessors)"
                         : "the search table has no room for so many devices",
        placement_reason_text[bound.reason], cpus);
}

enum status placement_ideals_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct placement_problem p = {0};
    struct placement_contiguous c = {0};
    struct placement_work w = {.r = r,
                               .begin_s = clock_now(),
                               .default_limit_s = ideals_limit_s,
                               .most = r->said.work_limit > 0 ? r->said.work_limit : UINT64_MAX};
    TRY(placement_read(r, &p));
    TRY(placement_contiguous_solve(&p, &w, &c));
    if (isinf(c.value))
        FAIL(STATUS_INFEASIBLE,
             c.interrupted ? "%s: stopped before a contiguous split was found that fits "
                             "%zu accelerators of %.6g bytes and %zu CPUs"
                           : "%s: no contiguous split fits %zu accelerators of %.6g "
                             "bytes and %zu CPUs",
             r->spec, p.accelerators, p.memory_bytes, p.cpus);
    TRY(placement_result(&p, c.device, c.order, out));
    TRY(placement_ideals_explain(&p, &c, out));
out:
    placement_contiguous_free(&c);
    placement_free(&p);
    return st;
}
