/* Piper's search: bisection over the time per sample, one question (pass.c) at a time.
 *
 * The first question, without a limit, gives a plan or the reason why there is none. Then
 * limits grow from the proved bound in doubling steps until a plan is found, and the bracket
 * between what is refuted and what is found is halved until the two are equal up to rounding.
 * A refusal says at which limit the answer may change first, and the bracket moves up to
 * there. */
#include "papers/piper/search.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/data/edges.h"

static const double SAME = 1e-9; /* relative distance of plan and bound that counts as proved */

/* ---- tables of a pass */

static void close_pass(struct piper_pass *s)
{
    lattice_walk_close(&s->walk);
    lattice_free(&s->lattice);
    knapsack_free(&s->knapsack);
    free(s->state);
    free(s->fresh);
    arena_free(&s->memory);
}

/* The ideals closed under successors; when there are too many, the suffixes of one topological
 * order. */
static enum status find_ideals(struct piper_pass *s, size_t limit, bool *all)
{
    const struct piper_input *in = s->in;
    size_t cyclic, n = in->nodes;
    uint32_t *position;
    struct model_edge *chain;
    bool complete;
    PASS(lattice_build(n, in->file.edge, in->edges, true, limit, &s->lattice, all));
    if (*all)
        return STATUS_OK;
    PASS(ARENA_NEW(&s->memory, position, n));
    PASS(ARENA_NEW(&s->memory, chain, n)); /* edge i: from the node at i to the one after it */
    PASS(edges_order(n, in->file.edge, in->edges, position, &cyclic));
    for (uint32_t v = 0; v < n; v++)
        chain[position[v]].from = v;
    for (size_t i = 0; i + 1 < n; i++)
        chain[i].to = chain[i + 1].from;
    return lattice_build(n, chain, n - 1, true, n + 1, &s->lattice, &complete);
}

/* Every column of the cheapest configuration for it; `fastest` columns are of the one with the
 * least time. */
static struct piper_sums node_sums(const struct piper_input *in, size_t v, size_t t)
{
    size_t first = in->config_start[v * in->degrees + t];
    size_t end = in->config_start[v * in->degrees + t + 1];
    struct piper_sums s = {.unable = first == end};
    for (size_t c = first; c < end; c++) {
        const struct piper_config *f = &in->config[c];
        if (c == first || f->time_s < s.time_s) {
            s.time_s = f->time_s;
            s.fastest_stash_bytes = f->stash_bytes;
            s.fastest_fixed_bytes = f->fixed_bytes;
        }
        bool once = c == first;
        s.parameter_bytes = once ? f->parameter_bytes : fmin(s.parameter_bytes, f->parameter_bytes);
        s.stash_bytes = once ? f->stash_bytes : fmin(s.stash_bytes, f->stash_bytes);
        s.fixed_bytes = once ? f->fixed_bytes : fmin(s.fixed_bytes, f->fixed_bytes);
    }
    return s;
}

static void piper_search_add(struct piper_sums *a, const struct piper_sums *b)
{
    a->time_s += b->time_s;
    a->parameter_bytes += b->parameter_bytes;
    a->stash_bytes += b->stash_bytes;
    a->fixed_bytes += b->fixed_bytes;
    a->fastest_stash_bytes += b->fastest_stash_bytes;
    a->fastest_fixed_bytes += b->fastest_fixed_bytes;
    a->unable += b->unable;
}

/* Each ideal from one that has a node less. `work` is the least device time whatever the
 * degree: t devices for a time. */
static void sum_ideals(struct piper_pass *s)
{
    const struct piper_input *in = s->in;
    const struct lattice *l = &s->lattice;
    for (size_t i = 1; i < l->ideals; i++) {
        size_t pair = l->below_start[i], below = l->below[pair], v = l->node[pair];
        double work = INFINITY;
        for (size_t t = 0; t < in->degrees; t++) {
            struct piper_sums one = node_sums(in, v, t), *sum = &s->sums[i * in->degrees + t];
            *sum = s->sums[below * in->degrees + t];
            piper_search_add(sum, &one);
            if (!one.unable)
                work = fmin(work, one.time_s * in->degree[t]);
        }
        s->work[i] = s->work[below] + work;
    }
}

/* Least synchronisation per edge and degree, over the configurations of the node at either
 * end. s->uniform says that all configurations of every node agree in it and in their
 * parameters, so that the fastest ones decide without a knapsack. */
static void sum_edges(struct piper_pass *s)
{
    const struct piper_input *in = s->in;
    s->uniform = true;
    for (size_t v = 0; v < in->nodes; v++)
        for (size_t t = 0; t < in->degrees; t++) {
            size_t first = in->config_start[v * in->degrees + t];
            for (size_t c = first; c < in->config_start[v * in->degrees + t + 1]; c++) {
                const struct piper_config *f = &in->config[c];
                bool same = f->parameter_bytes == in->config[first].parameter_bytes;
                for (size_t i = in->in_start[v]; i < in->in_start[v + 1]; i++) {
                    double *least = &s->forward[t * in->edges + in->in[i]];
                    double bytes = f->forward_bytes[i - in->in_start[v]];
                    same &= c == first || bytes == *least;
                    *least = c == first ? bytes : fmin(*least, bytes);
                }
                for (size_t i = in->out_start[v]; i < in->out_start[v + 1]; i++) {
                    double *least = &s->backward[t * in->edges + in->out[i]];
                    double bytes = f->backward_bytes[i - in->out_start[v]];
                    same &= c == first || bytes == *least;
                    *least = c == first ? bytes : fmin(*least, bytes);
                }
                s->uniform &= same;
            }
        }
}

/* Tables that do not depend on the limit are made once for all questions. Replica counts have
 * to divide the batch. */
static enum status open_pass(const struct piper_input *in, const struct objective_request *r,
                             const struct piper_limits *limits, bool *all_ideals,
                             struct piper_pass *s)
{
    *s = (struct piper_pass){
        .in = in, .r = r, .begin_s = clock_now(), .memory_bytes = in->memory_bytes};
    s->knapsack.state_limit = limits->states;
    PASS(find_ideals(s, limits->ideals, all_ideals));
    size_t n = s->lattice.ideals * in->degrees, edges = in->edges * in->degrees + 1;
    size_t most = in->devices < in->batch ? in->devices : in->batch;
    PASS(lattice_walk_open(&s->lattice, &s->walk));
    PASS(ARENA_NEW(&s->memory, s->sums, n));
    PASS(ARENA_NEW(&s->memory, s->edge_bytes, n));
    PASS(ARENA_NEW(&s->memory, s->work, s->lattice.ideals));
    PASS(ARENA_NEW(&s->memory, s->state_start, s->lattice.ideals + 1));
    PASS(ARENA_NEW(&s->memory, s->forward, edges));
    PASS(ARENA_NEW(&s->memory, s->backward, edges));
    PASS(ARENA_NEW(&s->memory, s->divisor, most + 1));
    for (uint32_t d = 1; d <= most; d++)
        if (in->batch % d == 0)
            s->divisor[s->divisors++] = d;
    sum_ideals(s);
    sum_edges(s);
    return STATUS_OK;
}

/* ---- the questions */

struct bracket {
    double low_s, proved_s; /* nothing found below; nothing exists below */
    double high_s;          /* the best plan's time */
};

/* Ask for limit_s and narrow the bracket; the better plan goes to *best. */
static enum status piper_search_ask(struct piper_pass *s, double limit_s, struct bracket *b,
                                    struct piper_plan *best, size_t *passes)
{
    enum status st;
    struct piper_plan plan = {0};
    bool feasible;
    double value;
    TRY(piper_pass_run(s, limit_s, &feasible));
    ++*passes;
    if (s->interrupted)
        goto out;
    if (!feasible) {
        b->low_s = fmax(limit_s, fmin(s->next_s, b->high_s));
        if (!s->undecided)
            b->proved_s = fmax(b->proved_s, b->low_s);
        goto out;
    }
    TRY(piper_pass_plan(s, &plan));
    TRY(piper_evaluate(s->in, &plan, &value));
    if (value < b->high_s) {
        b->high_s = value;
        piper_plan_free(best);
        MOVE(best, plan);
    }
    if (value > limit_s * (1 + SAME)) /* more than rounding: do not ask for ever */
        b->low_s = b->high_s;
out:
    piper_plan_free(&plan);
    return st;
}

/* Ends when nothing is left between the bounds, or the time is up. */
static enum status piper_search_bisect(struct piper_pass *s, struct bracket *b,
                                       struct piper_plan *best, size_t *passes)
{
    /* First upwards from the bound in growing steps: the best plan is usually near it. */
    for (double excess = 1.0 / 128; b->low_s > 0; excess *= 2) {
        double limit_s = b->proved_s * (1 + excess), high_s = b->high_s;
        if (limit_s >= high_s)
            break;
        if (limit_s <= b->low_s)
            continue;
        PASS(piper_search_ask(s, limit_s, b, best, passes));
        if (s->interrupted || b->high_s < high_s)
            break;
    }
    while (!s->interrupted && b->low_s < b->high_s * (1 - SAME))
        PASS(piper_search_ask(s, (b->low_s + b->high_s) / 2, b, best, passes));
    return STATUS_OK;
}

/* No plan fits: say why. The memory that would do is found to one per cent. */
static enum status piper_search_explain(struct piper_pass *s)
{
    const struct piper_input *in = s->in;
    const double gib = 1 << 30;
    double low = in->memory_bytes, high = fmax(2 * low, 1);
    bool feasible;
    s->memory_bytes = INFINITY;
    PASS(piper_pass_run(s, INFINITY, &feasible));
    if (s->interrupted)
        return error_set(STATUS_INFEASIBLE,
                         "%s: timeout: no plan was found in time; raise --time-limit", in->path);
    if (!feasible)
        return error_set(
            STATUS_INFEASIBLE,
            "%s: no plan exists for %zu devices and %zu microbatches, even with unlimited memory",
            in->path, in->devices, in->batch);
    for (feasible = false; !feasible; high *= feasible ? 1 : 2) {
        s->memory_bytes = high;
        PASS(piper_pass_run(s, INFINITY, &feasible));
        if (s->interrupted)
            break;
        low = feasible ? low : high;
    }
    while (!s->interrupted && high > low * 1.01 + 1) {
        s->memory_bytes = (low + high) / 2;
        PASS(piper_pass_run(s, INFINITY, &feasible));
        *(feasible ? &high : &low) = s->memory_bytes;
    }
    if (s->interrupted)
        return error_set(STATUS_INFEASIBLE, "%s: no plan fits %.4g GiB per device on %zu devices",
                         in->path, in->memory_bytes / gib, in->devices);
    return error_set(
        STATUS_INFEASIBLE,
        "%s: no plan fits %.4g GiB per device on %zu devices; %.4g GiB would be enough", in->path,
        in->memory_bytes / gib, in->devices, high / gib);
}

/* No plan can be faster than all work spread evenly over all devices: the first lower bound. */
enum status piper_search(const struct piper_input *in, const struct objective_request *r,
                         const struct piper_limits *limits, struct piper_plan *plan,
                         struct piper_outcome *outcome)
{
    enum status st;
    struct piper_pass s = {0};
    struct piper_plan best = {0};
    struct piper_outcome o = {0};
    TRY(open_pass(in, r, limits, &o.all_ideals, &s));
    double least_s = s.work[s.lattice.ideals - 1] / (double)in->devices;
    struct bracket b = {least_s, least_s, INFINITY};
    TRY(piper_search_ask(&s, INFINITY, &b, &best, &o.passes));
    if (!best.stage) {
        st = s.interrupted
                 ? error_set(STATUS_INFEASIBLE,
                             "%s: timeout: no plan was found in time; raise --time-limit", in->path)
                 : piper_search_explain(&s);
        goto out;
    }
    TRY(piper_search_bisect(&s, &b, &best, &o.passes));
    o.value = b.high_s;
    o.lower_bound = fmin(b.proved_s, b.high_s);
    o.interrupted = s.interrupted;
    o.ideals = s.lattice.ideals;
    *outcome = o;
    MOVE(plan, best);
out:
    close_pass(&s);
    piper_plan_free(&best);
    return st;
}
