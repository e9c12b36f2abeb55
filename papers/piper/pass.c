/* One question of Piper's search, "is there a plan whose stages all take at most limit_s?", by
 * dynamic programming over ideals (Tarnawski et al., NeurIPS 2021).
 *
 * For every ideal I (nodes that are closed under successors, so the last stages of a plan) the
 * front of states is the set of non-dominated pairs (replicas, devices) with which I can be
 * run in time. It grows from the fronts of the ideals below: the stage I - I' with d replicas
 * of t-way tensor parallelism goes before a state of I' if its time per sample,
 *
 *     (sum of node times + 4 (d - 1) weights / (N B) + edge bytes / B) / d,
 *
 * is within the limit and its memory, stash x ceil(replicas from here on / d) + fixed, within
 * the device's. Whether configurations of the nodes exist that meet both is a multiple-choice
 * knapsack (knapsack.h); sums of cheapest configurations decide most cases before. */
#include <math.h>

#include "core/base/array.h"
#include "papers/piper/search.h"

static const double SLACK = 1e-12;            /* relative, on bounds */
static const double DEFAULT_TIME_LIMIT = 600; /* seconds */

/* Sums over the stage top - below: both are ideals, one inside the other. */
static struct piper_sums minus(struct piper_sums a, const struct piper_sums *b)
{
    return (struct piper_sums){a.time_s - b->time_s,
                               a.parameter_bytes - b->parameter_bytes,
                               a.stash_bytes - b->stash_bytes,
                               a.fixed_bytes - b->fixed_bytes,
                               a.fastest_stash_bytes - b->fastest_stash_bytes,
                               a.fastest_fixed_bytes - b->fastest_fixed_bytes,
                               a.unable - b->unable};
}

/* The stage between two ideals at one degree. */
struct piper_span {
    uint32_t top, below, t;
    struct piper_sums sum;
    double edge_bytes;
};

/* Is node v in the stage between the two ideals? */
static bool piper_pass_is_inside(const struct piper_pass *s, uint32_t top, uint32_t below, size_t v)
{
    return lattice_has(&s->lattice, top, v) && !lattice_has(&s->lattice, below, v);
}

/* ---- choosing configurations */

/* Bytes by which the synchronisation of configuration c exceeds the least, over the edges of v that
 * leave the stage. */
static double extra_sync(const struct piper_pass *s, const struct piper_span *x, size_t v, size_t c)
{
    const struct piper_input *in = s->in;
    double bytes = 0;
    for (size_t i = in->in_start[v]; i < in->in_start[v + 1]; i++)
        if (!piper_pass_is_inside(s, x->top, x->below, in->edge[in->in[i]].from))
            bytes += in->config[c].forward_bytes[i - in->in_start[v]] -
                     s->forward[x->t * in->edges + in->in[i]];
    for (size_t i = in->out_start[v]; i < in->out_start[v + 1]; i++)
        if (!piper_pass_is_inside(s, x->top, x->below, in->edge[in->out[i]].to))
            bytes += in->config[c].backward_bytes[i - in->out_start[v]] -
                     s->backward[x->t * in->edges + in->out[i]];
    return 2 * bytes;
}

/* Append the configurations of node v as an item of the knapsack: cost in seconds of all
 * replicas together, its share of the all-reduce and of synchronisation included; size in
 * bytes with y microbatches in flight. */
static void add_item(struct piper_pass *s, const struct piper_span *x, size_t v, double sync,
                     double y)
{
    const struct piper_input *in = s->in;
    struct knapsack *k = &s->knapsack;
    size_t options = k->start[k->items], end = in->config_start[v * in->degrees + x->t + 1];
    for (size_t c = in->config_start[v * in->degrees + x->t]; c < end; c++) {
        const struct piper_config *f = &in->config[c];
        double extra = s->uniform ? 0 : extra_sync(s, x, v, c) / in->bandwidth_Bps;
        k->cost[options] = f->time_s + sync * f->parameter_bytes + extra;
        k->size[options++] = f->stash_bytes * y + f->fixed_bytes;
    }
    k->start[++k->items] = options;
}

/* Can the stage run with d replicas, y microbatches in flight and `budget_s` seconds for all of its
 * replicas together? The solution is left in s->knapsack.option. */
static enum status piper_pass_choose(struct piper_pass *s, const struct piper_span *x, uint32_t d,
                                     double y, double budget_s, bool cheapest,
                                     enum knapsack_verdict *verdict, double *value)
{
    const struct piper_input *in = s->in;
    struct knapsack *k = &s->knapsack;
    const struct lattice *l = &s->lattice;
    double sync = 4 * ((double)d - 1) / ((double)in->batch * in->bandwidth_Bps);
    PASS(knapsack_reserve(k, in->nodes, in->configs));
    k->items = k->start[0] = 0;
    for (size_t w = 0; w < l->words; w++) {
        uint64_t left = l->set[x->top * l->words + w] & ~l->set[x->below * l->words + w];
        for (; left; left &= left - 1)
            add_item(s, x, 64 * w + (size_t)__builtin_ctzll(left), sync, y);
    }
    return knapsack_solve(k, s->memory_bytes, budget_s, cheapest, verdict, value);
}

/* ---- the states of one ideal */

/* Fewer replicas and devices behind are never worse: they leave more devices and fewer
 * microbatches in flight. */
static bool dominated(const struct piper_pass *s, uint32_t replicas, uint32_t devices)
{
    for (size_t i = 0; i < s->front; i++)
        if (s->fresh[i].replicas <= replicas && s->fresh[i].devices <= devices)
            return true;
    return false;
}

/* The new state, which nothing dominates, takes the place of those that it dominates. */
static enum status add_state(struct piper_pass *s, struct piper_state fresh)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->front; i++)
        if (s->fresh[i].replicas < fresh.replicas || s->fresh[i].devices < fresh.devices)
            s->fresh[kept++] = s->fresh[i];
    s->front = kept;
    PASS(ARRAY_RESERVE(s->fresh, s->front + 1, s->front_room));
    s->fresh[s->front++] = fresh;
    return STATUS_OK;
}

/* The front of an ideal is final: later ideals read it. */
static enum status store_front(struct piper_pass *s, size_t ideal)
{
    PASS(ARRAY_RESERVE(s->state, s->states + s->front, s->state_room));
    for (size_t i = 0; i < s->front; i++)
        s->state[s->states++] = s->fresh[i];
    s->front = 0;
    s->state_start[ideal + 1] = s->states;
    return STATUS_OK;
}

/* Something would be possible at until_s and not before: below the least of these times the
 * answer stays the same, which lets the bisection skip that far. */
static void blocked(struct piper_pass *s, double until_s)
{
    s->next_s = fmin(s->next_s, until_s);
}

/* Does the stage with d replicas in front of `from` keep to time and memory? */
static enum status piper_pass_fits(struct piper_pass *s, const struct piper_span *x,
                                   const struct piper_state *from, uint32_t d, bool *yes)
{
    const struct piper_input *in = s->in;
    enum knapsack_verdict verdict;
    double edge_s = x->edge_bytes / in->bandwidth_Bps,
           y = (double)((from->replicas + 2 * d - 1) / d);
    double sync = 4 * ((double)d - 1) / ((double)in->batch * in->bandwidth_Bps), value;
    double least_s = (x->sum.time_s + sync * x->sum.parameter_bytes + edge_s) / d;
    *yes = false;
    if (least_s > s->limit_s * (1 + SLACK)) {
        blocked(s, least_s);
        return STATUS_OK;
    }
    if (x->sum.stash_bytes * y + x->sum.fixed_bytes > s->memory_bytes * (1 + SLACK))
        return STATUS_OK;
    *yes = s->uniform &&
           x->sum.fastest_stash_bytes * y + x->sum.fastest_fixed_bytes <= s->memory_bytes;
    if (*yes)
        return STATUS_OK;
    PASS(piper_pass_choose(s, x, d, y, s->limit_s * d - edge_s, false, &verdict, &value));
    *yes = verdict == KNAPSACK_FITS;
    if (verdict == KNAPSACK_TOO_DEAR)
        blocked(s, (value + edge_s) / d);
    s->undecided |= verdict == KNAPSACK_UNDECIDED;
    return STATUS_OK;
}

/* Put the stage in front of one state of the stages behind it. `rest_s`: device seconds that the
 * nodes before the stage need at least. */
static enum status put_before(struct piper_pass *s, const struct piper_span *x, uint32_t index,
                              double rest_s)
{
    const struct piper_state from = s->state[index];
    const struct piper_input *in = s->in;
    for (size_t i = 0; i < s->divisors; i++) {
        uint32_t d = s->divisor[i];
        size_t devices = from.devices + (size_t)d * in->degree[x->t];
        uint32_t replicas = from.replicas + d;
        bool yes;
        if (devices > in->devices || replicas > in->batch)
            break;
        double left = (double)(in->devices - devices);
        if (rest_s > left * s->limit_s * (1 + SLACK)) {
            blocked(s, left > 0 ? rest_s / left : INFINITY);
            break;
        }
        if (dominated(s, replicas, (uint32_t)devices))
            break;
        PASS(piper_pass_fits(s, x, &from, d, &yes));
        if (!yes)
            continue;
        PASS(add_state(
            s, (struct piper_state){replicas, (uint32_t)devices, x->below, index, {d, x->t}}));
        break;
    }
    return STATUS_OK;
}

/* ---- the stages in front of one ideal */

/* Bytes over the edges of the stage that ends before `below`, from those of the stage that ends
 * one node earlier. */
static void extend_edges(struct piper_pass *s, uint32_t top, uint32_t below)
{
    const struct piper_input *in = s->in;
    size_t n = in->degrees, v = s->walk.node[below];
    uint32_t via = s->walk.via[below];
    for (size_t t = 0; t < n; t++) {
        const double *forward = s->forward + t * in->edges, *backward = s->backward + t * in->edges;
        double bytes = s->edge_bytes[via * n + t];
        for (size_t i = in->in_start[v]; i < in->in_start[v + 1]; i++) {
            size_t e = in->in[i];
            bool within = piper_pass_is_inside(s, top, below, in->edge[e].from);
            bytes += within ? -2 * (in->edge[e].bytes + backward[e])
                            : 2 * (in->edge[e].bytes + forward[e]);
        }
        for (size_t i = in->out_start[v]; i < in->out_start[v + 1]; i++)
            bytes += 2 * (in->edge[in->out[i]].bytes + backward[in->out[i]]);
        s->edge_bytes[below * n + t] = bytes;
    }
}

/* Try the stage top \ below in all degrees; *worthwhile false when no larger stage can do. */
static enum status try_span(struct piper_pass *s, uint32_t top, uint32_t below, double rest_s,
                            bool *worthwhile)
{
    const struct piper_input *in = s->in;
    size_t n = in->degrees;
    double work = s->work[top] - s->work[below];
    *worthwhile = false;
    extend_edges(s, top, below);
    if (work > (double)in->devices * s->limit_s * (1 + SLACK)) {
        blocked(s, work / (double)in->devices);
        return STATUS_OK;
    }
    for (size_t t = 0; t < n; t++) {
        struct piper_span x = {top, below, (uint32_t)t,
                               minus(s->sums[top * n + t], &s->sums[below * n + t]),
                               s->edge_bytes[below * n + t]};
        if (x.sum.unable || x.sum.stash_bytes + x.sum.fixed_bytes > s->memory_bytes * (1 + SLACK))
            continue;
        *worthwhile = true;
        for (size_t i = s->state_start[below]; i < s->state_start[below + 1]; i++)
            PASS(put_before(s, &x, (uint32_t)i, rest_s));
    }
    return STATUS_OK;
}

/* The stages that `top` can begin with, growing along the walk over the ideals below it. A stage
 * that is too large for every degree ends the walk there: larger ones are too. */
static enum status piper_pass_visit(struct piper_pass *s, uint32_t top)
{
    const struct piper_input *in = s->in;
    double rest_s = s->work[s->lattice.ideals - 1] - s->work[top];
    uint32_t below;
    if (rest_s > (double)in->devices * s->limit_s * (1 + SLACK)) {
        blocked(s, rest_s / (double)in->devices);
        return STATUS_OK;
    }
    for (size_t t = 0; t < in->degrees; t++)
        s->edge_bytes[top * in->degrees + t] = 0;
    lattice_begin(&s->walk, top);
    while (lattice_next(&s->walk, &below)) {
        bool worthwhile;
        PASS(try_span(s, top, below, rest_s, &worthwhile));
        if (worthwhile)
            lattice_descend(&s->walk, below);
    }
    return STATUS_OK;
}

/* Ideals in order of size: every ideal below another one has its front when that one is
 * visited. The last ideal is everything. */
enum status piper_pass_run(struct piper_pass *s, double limit_s, bool *feasible)
{
    size_t last = s->lattice.ideals - 1;
    s->limit_s = limit_s;
    s->next_s = INFINITY;
    s->undecided = s->interrupted = false;
    s->states = s->front = 0;
    PASS(add_state(s, (struct piper_state){0}));
    PASS(store_front(s, 0));
    for (uint32_t i = 1; i <= last; i++) {
        s->interrupted = objective_must_stop(s->r, s->begin_s, DEFAULT_TIME_LIMIT);
        if (s->interrupted)
            break;
        PASS(piper_pass_visit(s, i));
        PASS(store_front(s, i));
    }
    *feasible = !s->interrupted && s->state_start[last + 1] > s->state_start[last];
    return STATUS_OK;
}

/* ---- the plan */

/* The cheapest configurations of one stage of the plan, which the search itself did not need
 * to know. */
static enum status choose_stage(struct piper_pass *s, uint32_t top, const struct piper_state *state,
                                uint32_t index, struct piper_plan *p)
{
    const struct piper_input *in = s->in;
    uint32_t d = state->stage.replicas;
    struct piper_span x = {.top = top, .below = state->behind, .t = state->stage.degree};
    enum knapsack_verdict verdict;
    double value, y = (double)((state->replicas + d - 1) / d);
    PASS(piper_pass_choose(s, &x, d, y, INFINITY, true, &verdict, &value));
    for (size_t v = 0, item = 0; v < in->nodes; v++) {
        if (!piper_pass_is_inside(s, top, state->behind, v))
            continue;
        uint32_t chosen = s->knapsack.option[item] - (uint32_t)s->knapsack.start[item];
        p->stage_of[v] = index;
        p->config[v] = in->config_start[v * in->degrees + x.t] + chosen;
        item++;
    }
    p->stage[index] = state->stage;
    return STATUS_OK;
}

/* From everything down to nothing, first stage first. */
enum status piper_pass_plan(struct piper_pass *s, struct piper_plan *out)
{
    enum status st;
    const struct piper_input *in = s->in;
    struct piper_plan p = {0};
    uint32_t top = (uint32_t)s->lattice.ideals - 1, index = (uint32_t)s->state_start[top];
    TRY(ARENA_NEW(&p.memory, p.stage, in->nodes));
    TRY(ARENA_NEW(&p.memory, p.stage_of, in->nodes));
    TRY(ARENA_NEW(&p.memory, p.config, in->nodes));
    while (top) {
        const struct piper_state *state = &s->state[index];
        TRY(choose_stage(s, top, state, (uint32_t)p.stages, &p));
        p.stages++;
        top = state->behind;
        index = state->from;
    }
    MOVE(out, p);
    st = STATUS_OK;
out:
    piper_plan_free(&p);
    return st;
}
