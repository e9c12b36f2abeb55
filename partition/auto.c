/* auto - searches shapes, schedules and savings, keeps what was tried, and ranks the finalists. */
#include "partition/auto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "partition/auto_search.h"
#include "partition/device_order.h"

enum {
    MOST_WAVES = 4,
    MOST_SPARED = 12, /* plans for which less is made again before finalists are chosen */
    NEAR_WAVES = 2,   /* of what may become better than it is */
};

void auto_result_free(struct auto_result *r)
{
    for (size_t i = 0; r->candidate && i < r->n; i++) {
        plan_free(&r->candidate[i].plan);
        free(r->candidate[i].sampled_s);
    }
    free(r->candidate);
    free(r->cut);
    *r = (struct auto_result){0};
}

static bool auto_is_stopped(const struct auto_state *s)
{
    return s->r->stop && *s->r->stop;
}

bool auto_must_stop(const struct auto_state *s)
{
    return auto_is_stopped(s) ||
           (s->r->time_limit_s > 0 && clock_now() - s->begin_s > s->r->time_limit_s);
}

bool auto_is_spent(const struct auto_state *s)
{
    return (s->r->lowered > 0 && *s->lowered > s->r->lowered) || auto_must_stop(s);
}

int64_t auto_spare_bytes(const struct topology *t, const struct auto_request *r,
                         const struct evaluation *e)
{
    return e->headroom_bytes - (r->reserve_bytes ? r->reserve_bytes[t->type_of[e->device]] : 0);
}

/* ---- order of candidates */

/* To nine digits, so that what is equal but for rounding is equal. */
static double auto_rounded(double x)
{
    if (!(x > 0) || isinf(x))
        return x;
    double unit = pow(10, floor(log10(x)) - 8);
    return round(x / unit) * unit;
}

enum { MERITS = 13 };

static void merits(const struct auto_candidate *c, double out[MERITS])
{
    const struct plan *p = &c->plan;
    const struct evaluation *e = auto_evaluation(c);
    const double merit[MERITS] = {!c->fits,
                                  c->fits ? 0 : -(double)e->headroom_bytes,
                                  auto_rounded(e->iteration_s),
                                  (double)c->devices,
                                  (double)p->stages,
                                  p->microbatch_size,
                                  p->stage[0].tensor_parallel,
                                  p->stage[0].expert_parallel,
                                  p->stage[0].recompute,
                                  p->zero,
                                  p->zero_keep,
                                  p->zero_group,
                                  (double)p->bucket_bytes};
    memcpy(out, merit, sizeof merit);
}

int auto_by_merit(const void *a, const void *b)
{
    const struct auto_candidate *x = a, *y = b;
    double p[MERITS], q[MERITS];
    merits(x, p);
    merits(y, q);
    int order = auto_order(p, q, MERITS);
    order = order ? order : strcmp(x->plan.schedule, y->plan.schedule);
    if (order)
        return order;
    if (x->placement != y->placement)
        return x->placement < y->placement ? -1 : 1;
    if (x->plan.sequence_parallel != y->plan.sequence_parallel)
        return x->plan.sequence_parallel ? 1 : -1;
    return (x->baseline > y->baseline) - (x->baseline < y->baseline); /* NULL first */
}

/* ---- finalists */

/* Where replicas differ they make the shape, too. */
bool auto_same_shape(const struct auto_candidate *a, const struct auto_candidate *b)
{
    bool same = a->placement == b->placement && a->plan.stages == b->plan.stages &&
                !strategy_differs(STRATEGY_STAGE, strategy_divisions(), &a->plan.stage[0].own,
                                  &b->plan.stage[0].own);
    bool uneven = same && (auto_is_uneven(&a->plan) || auto_is_uneven(&b->plan));
    for (size_t k = 0; uneven && same && k < a->plan.stages; k++)
        same = a->plan.stage[k].replicas == b->plan.stage[k].replicas;
    return same;
}

/* Is there another candidate of the same stages and placement, and as good, among those from
 * `first` on? */
static bool shape_is_kept(const struct auto_result *r, size_t first, size_t kept,
                          const struct auto_candidate *c)
{
    for (size_t i = first; i < kept; i++)
        if (auto_same_shape(&r->candidate[i], c))
            return true;
    return false;
}

/* Its ranks are not alike, so that on a large platform e->thorough() takes no more than
 * e->shared(). */
static bool is_cheap(const struct auto_state *s, const struct auto_candidate *c)
{
    return s->e->shared && !c->quick.exact && c->devices > AUTO_RANKED;
}

static bool is_affordable(const struct auto_state *s, const struct auto_candidate *c)
{
    return s->r->effort == 0 || c->quick.effort <= s->effort || is_cheap(s, c);
}

/* On a grid the flows of a few large exchanges take minutes where ranks are not alike. */
static const double immense = 60;

static bool is_immense(const struct auto_state *s, const struct auto_candidate *c)
{
    return s->t->grid.dimensions > 0 && !c->quick.exact && s->r->effort > 0 &&
           c->quick.effort > immense * s->r->effort;
}

/* Take candidate[i] to `kept`, behind those that are taken already. */
static void auto_take_candidate(struct auto_state *s, size_t i, size_t kept)
{
    struct auto_candidate *all = s->result.candidate, c = all[i];
    memmove(&all[kept + 1], &all[kept], (i - kept) * sizeof c);
    all[kept] = c;
    s->effort -= is_cheap(s, &c) ? 0 : c.quick.effort;
}

/* Is there one from `first` on that fits, by a score that knows of shared links? */
static bool has_exact(const struct auto_result *r, size_t first)
{
    for (size_t i = first; i < r->n; i++)
        if (r->candidate[i].fits && !r->candidate[i].baseline && auto_knows_links(&r->candidate[i]))
            return true;
    return false;
}

/* What is so near to the best may become better yet (auto_improve()), on few devices first. */
static const double promising = 1.1, hopeful = 1.01;

static double worth(const struct auto_candidate *c, bool must, bool near)
{
    return c->devices <= AUTO_SMALL && (must || near) ? promising : must ? hopeful : 1;
}

/* Take to candidate[first ..] what is evaluated next, of those that follow: the best of each shape
 * first, for what the quick evaluator does not see hits the plans of one shape alike. Those that
 * the best verified one beats without contention are not worth it, nor those that do not fit when
 * others do. Returns how many. `must`: the first one costs what it costs, if its score knows of
 * shared links where any does: others promise what they may not keep. */
static size_t select_wave(struct auto_state *s, size_t first, double best_s, bool must, bool near)
{
    struct auto_result *out = &s->result;
    size_t kept = first, n = out->n;
    qsort(out->candidate + first, n - first, sizeof *out->candidate, auto_by_merit);
    bool fits = isfinite(best_s) || (n > first && out->candidate[first].fits);
    bool exact = has_exact(out, first);
    for (int round = 0; round < 2; round++)
        for (size_t i = kept; i < n && kept - first < s->r->finalists; i++) {
            const struct auto_candidate *c = &out->candidate[i];
            if ((!c->fits && fits) || c->baseline || is_immense(s, c) ||
                !(c->quick.iteration_s < worth(c, must, near) * best_s) ||
                !(is_affordable(s, c) || (must && kept == first && auto_knows_links(c) == exact)) ||
                (round == 0 && shape_is_kept(out, first, kept, c)))
                continue;
            auto_take_candidate(s, i, kept++);
        }
    return kept - first;
}

/* The same of the baselines: all that can be afforded, and all that may be better than the best. */
static size_t select_baselines(struct auto_state *s, size_t first, double best_s)
{
    struct auto_result *out = &s->result;
    size_t kept = first;
    for (size_t i = first; i < out->n; i++) {
        const struct auto_candidate *c = &out->candidate[i];
        if (c->baseline && (c->fits || isinf(best_s)) && !is_immense(s, c) &&
            ((is_affordable(s, c) && !is_cheap(s, c)) || c->quick.iteration_s < best_s))
            auto_take_candidate(s, i, kept++);
    }
    return kept - first;
}

/* Have candidate[first ..+ n] evaluated as well as it gets. */
static enum status auto_evaluate_candidates(struct auto_state *s, size_t first, size_t n)
{
    enum status st = STATUS_OK;
    const struct plan **plan = NULL;
    struct evaluation *found = NULL;
    if (n == 0)
        return STATUS_OK;
    TRY(ARRAY_NEW(plan, n));
    TRY(ARRAY_NEW(found, n));
    for (size_t i = 0; i < n; i++)
        plan[i] = &s->result.candidate[first + i].plan;
    TRY(s->e->thorough(s->e->context, plan, n, found));
    for (size_t i = 0; i < n; i++) {
        struct auto_candidate *c = &s->result.candidate[first + i];
        if (auto_is_stopped(s) && !(found[i].iteration_s > 0))
            continue; /* given up */
        c->thorough = found[i];
        c->verified = true;
        c->fits = auto_spare_bytes(s->t, s->r, &c->thorough) >= 0;
    }
out:
    free(found);
    free(plan);
    return st;
}

/* The best iteration that is verified, of a plan that keeps what is given. */
static double best_verified(const struct auto_state *s, size_t n)
{
    double best_s = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const struct auto_candidate *c = &s->result.candidate[i];
        if (c->verified && c->fits && (!c->baseline || auto_keeps_given(s, &c->plan)))
            best_s = fmin(best_s, c->thorough.iteration_s);
    }
    return best_s;
}

/* Baselines that do not fit stay in the ranking, the best of each; of others that were not looked
 * at thoroughly the best few of other shapes, which are what one would run instead, or where
 * nothing fits the one that lacks least. */
static void auto_drop_rest(struct auto_state *s, size_t first, size_t verified)
{
    enum { MOST_OTHERS = 6 };
    size_t kept = verified, others = 0;
    for (size_t i = verified; i < s->result.n; i++) {
        struct auto_candidate *c = &s->result.candidate[i];
        bool no_winner = auto_rounded(c->quick.iteration_s) > auto_rounded(s->best_s);
        bool other = c->fits && !c->baseline && others < MOST_OTHERS && no_winner &&
                     !shape_is_kept(&s->result, first, kept, c);
        bool nearest = isinf(s->best_s) && !c->baseline && others == 0; /* they are in order */
        others += other || nearest;
        if ((c->baseline && (no_winner || !is_immense(s, c))) || nearest || other)
            s->result.candidate[kept++] = *c;
        else
            plan_free(&c->plan);
    }
    s->result.n = s->ranked = kept;
}

/* As quickly scored; what differs in replicas of stages is told apart by auto_uneven.c. */
static bool is_equal(const struct auto_candidate *a, const struct auto_candidate *b)
{
    struct auto_candidate x = *a, y = *b;
    x.verified = y.verified = false;
    return !auto_is_uneven(&a->plan) && !auto_is_uneven(&b->plan) && auto_by_merit(&x, &y) == 0;
}

/* Those of candidate[first ..+ n] that have become one that is before them go. Returns how many are
 * left. */
static size_t drop_equal(struct auto_state *s, size_t first, size_t n)
{
    struct auto_candidate *all = s->result.candidate;
    size_t kept = first;
    for (size_t i = first; i < first + n; i++) {
        bool equal = false;
        for (size_t k = s->ranked; k < kept && !equal; k++)
            equal = is_equal(&all[k], &all[i]);
        if (equal)
            plan_free(&all[i].plan);
        else
            all[kept++] = all[i];
    }
    memmove(&all[kept], &all[first + n], (s->result.n - first - n) * sizeof *all);
    s->result.n -= first + n - kept;
    return kept - first;
}

/* Plans near the best that make all layers again become better than it if less is enough: the best
 * plan of each of so many shapes. On a grid, where a score takes ten times as long, only fewer
 * layers are tried. */
static enum status spare_layers(struct auto_state *s, size_t first)
{
    struct auto_result *all = &s->result;
    size_t spared = 0;
    if (all->n > first)
        qsort(all->candidate + first, all->n - first, sizeof *all->candidate, auto_by_merit);
    for (size_t i = first; i < all->n && spared < MOST_SPARED; i++) {
        struct auto_candidate *c = &all->candidate[i];
        if (!c->fits || c->baseline || c->quick.iteration_s > promising * s->best_s ||
            c->plan.stage[0].recompute != RECOMPUTE_FULL || shape_is_kept(all, first, i, c))
            continue;
        PASS(s->t->grid.dimensions > 0 ? auto_try_layers(s, c) : auto_improve(s, c));
        spared++;
    }
    return STATUS_OK;
}

/* The best verified one; NULL: there is none. */
static const struct auto_candidate *find_verified(const struct auto_state *s, size_t n,
                                                  double best_s)
{
    for (size_t i = 0; i < n; i++) {
        const struct auto_candidate *c = &s->result.candidate[i];
        if (c->verified && c->fits && !c->baseline && c->thorough.iteration_s <= best_s)
            return c;
    }
    return NULL;
}

/* The best plan with one rank more or less in the pipeline, as long as that is better: a search
 * of cuts and nodes makes its shape better than its score had told, and may do so with those beside
 * it. On few devices. */
static enum status try_depths(struct auto_state *s, size_t *done)
{
    enum status st = STATUS_OK;
    struct auto_candidate next = {0};
    if (s->r->fixed.pipeline > 0 || s->r->fixed.stages > 0)
        return STATUS_OK;
    for (int step = -1; step <= 1; step += 2)
        for (bool better = true; better && !auto_must_stop(s);) {
            double best_s = best_verified(s, *done);
            const struct auto_candidate *best = find_verified(s, *done, best_s);
            better = false;
            if (!best || best->devices > AUTO_SMALL || auto_is_uneven(&best->plan) ||
                best->plan.stages < 2 || best->depth + (size_t)step < 2)
                break;
            TRY(auto_try_depth(s, best, best->depth + (size_t)step, &next));
            if (next.plan.stages > 0 && next.fits && next.quick.iteration_s < best_s) {
                TRY(ARRAY_ROOM(s->result.candidate, s->result.n));
                s->result.candidate[s->result.n++] = next;
                next.plan = (struct plan){0};
                auto_take_candidate(s, s->result.n - 1, *done);
                TRY(auto_evaluate_candidates(s, *done, 1));
                better = best_verified(s, ++*done) < best_s;
            }
            plan_free(&next.plan);
            next.plan = (struct plan){0};
        }
out:
    plan_free(&next.plan);
    return st;
}

/* Evaluate the class's finalists, wave after wave while there is something left that may be better
 * than the best one so far; then the baselines. */
static enum status verify(struct auto_state *s)
{
    size_t first = s->ranked, done = first, n = 1;
    PASS(auto_try_graphs(s, done));
    PASS(spare_layers(s, done));
    double before_s = best_verified(s, done), best_s = before_s;
    bool must = true, exact = has_exact(&s->result, done);
    for (int wave = 0; wave < MOST_WAVES && n > 0 && (wave == 0 || !auto_is_stopped(s)); wave++) {
        n = select_wave(s, done, best_s, must, wave < NEAR_WAVES);
        for (size_t i = done; i < done + n; i++)
            PASS(auto_improve(s, &s->result.candidate[i]));
        n = drop_equal(s, done, n);
        PASS(auto_evaluate_candidates(s, done, n));
        for (size_t i = done; i < done + n; i++)
            must = must && auto_knows_links(&s->result.candidate[i]) != exact;
        done += n;
        best_s = best_verified(s, done);
    }
    if (best_s < before_s)
        PASS(try_depths(s, &done));
    best_s = best_verified(s, done);
    s->result.interrupted = s->result.interrupted || auto_is_stopped(s);
    n = auto_is_stopped(s) ? 0 : select_baselines(s, done, best_s);
    PASS(auto_evaluate_candidates(s, done, n));
    done += n;
    s->best_s = best_verified(s, done);
    s->best_exact = isfinite(s->best_s);
    auto_drop_rest(s, first, done);
    return STATUS_OK;
}

/* ---- the search */

/* The same order, but devices of faster types first. */
static enum status order_fast_first(struct auto_state *s)
{
    size_t n = 0;
    double below = INFINITY;
    PASS(ARRAY_NEW(s->fast_order, s->t->n));
    while (n < s->t->n) {
        double flops = 0;
        for (size_t k = 0; k < s->t->types; k++)
            if (s->t->type[k].flops < below)
                flops = fmax(flops, s->t->type[k].flops);
        for (size_t i = 0; i < s->t->n; i++) {
            double mine = topology_type(s->t, s->order[i])->flops;
            if (mine >= flops && mine < below)
                s->fast_order[n++] = s->order[i];
        }
        below = flops;
    }
    return STATUS_OK;
}

/* Devices at the fastest tier from the first one, itself included. */
static size_t node_size(const struct topology *t)
{
    size_t n = 1;
    const struct topology_tier *best = NULL;
    for (uint32_t d = 1; d < t->n; d++) {
        const struct topology_tier *tier = topology_between(t, 0, d);
        if (!best || tier->bandwidth_Bps > best->bandwidth_Bps) {
            best = tier;
            n = 1;
        }
        n += tier->bandwidth_Bps == best->bandwidth_Bps;
    }
    return n;
}

/* Cuts divide units and keep more outputs; larger units keep fewer, and have more ops than single
 * layers. Which layers are the first ones of their stages, nobody knows before. */
static enum status find_again(struct auto_state *s)
{
    enum status st = STATUS_OK;
    const struct partition_request *fixed = &s->r->fixed;
    struct plan_stage whole = {.ops = s->m->n};
    TRY(ARRAY_NEW(whole.op, whole.ops));
    for (uint32_t i = 0; i < whole.ops; i++)
        whole.op[i] = i;
    for (int kind = 0; kind < RECOMPUTE_KINDS; kind++) {
        struct auto_again *again = &s->again[kind];
        TRY(ARRAY_NEW(again->unit, whole.ops));
        TRY(ARRAY_NEW(again->kept, whole.ops));
        TRY(ARRAY_NEW(again->least, 1));
        TRY(ARRAY_NEW(again->least->op, whole.ops));
        whole.recompute = (enum plan_recompute)kind;
        whole.recompute_modules = kind == RECOMPUTE_SELECTIVE ? fixed->recompute_modules : 0;
        plan_units(&whole, s->m, again->unit, again->kept);
        for (size_t i = 0; i < whole.ops && kind == RECOMPUTE_FULL; i++)
            again->kept[i] = again->kept[i] && fixed->recompute_unit < 2;
    }
out:
    free(whole.op);
    return st;
}

static void find_experts(struct auto_state *s)
{
    s->experts = 0;
    for (size_t i = 0; i < s->m->n; i++) {
        const struct model_op *op = &s->m->op[i];
        int64_t n = op->exchange_bytes > 0 ? model_attribute(op, "experts", 1) : 0;
        if (n > 0 && (s->experts == 0 || n < s->experts))
            s->experts = (uint32_t)n;
        s->exchanged += (double)op->exchange_bytes;
    }
    s->experts = s->experts > 0 ? s->experts : 1;
    s->rules = rule_model_of(s->m);
}

static enum status auto_prepare(struct auto_state *s)
{
    const struct partition_request *fixed = &s->r->fixed;
    s->usual = &schedule_one_f_one_b;
    if (fixed->schedule)
        PASS(schedule_find(fixed->schedule, &s->usual));
    PASS(ARRAY_NEW(s->order, s->t->n));
    PASS(device_order_find(s->t, fixed->devices, s->order));
    PASS(order_fast_first(s));
    PASS(find_again(s));
    s->node = node_size(s->t);
    find_experts(s);
    /* who asks for more stages than there are layers means ops */
    s->layers =
        fixed->layers && fixed->stages <= partition_most_stages(s->m, fixed->tensor_parallel, true);
    return STATUS_OK;
}

/* 1. For each class of numbers of devices, the largest first: try what the filters let through, by
 * the quick evaluator; choose finalists, in the first class with the baselines, and evaluate them
 * thoroughly. */
static enum status search_classes(struct auto_state *s, bool baselines)
{
    for (s->most = s->t->n; s->most > 0 && !s->result.interrupted; s->most = s->least) {
        s->least = s->most / 2;
        PASS(auto_try_class(s));
        /* Last: they must not delay the first plan. */
        if (s->most == s->t->n && baselines && !auto_is_stopped(s))
            PASS(auto_try_baselines(s));
        if (s->result.n > s->ranked)
            PASS(verify(s));
    }
    return STATUS_OK;
}

/* The optimizer's state takes so much of all devices' memory, */
static const double much = 0.05;
/* and the best plan so many times the bound of all shapes. */
static const double far = 1.5;

/* Does memory, and not work, decide how long the best plan takes? */
static bool memory_is_short(const struct auto_state *s)
{
    double state = 0, room = 0;
    const struct cost_memory held = partition_memory(&s->r->fixed, s->m);
    for (size_t i = 0; i < s->m->n; i++)
        state += (double)held.state * (double)s->m->op[i].parameter_bytes;
    for (uint32_t d = 0; d < s->t->n; d++)
        room += (double)topology_type(s->t, d)->memory_bytes;
    return state > much * room && s->best_s > far * s->bound_s;
}

/* Little fits: the same again with the optimizer's state in the host's memory. */
static enum status search_offloaded(struct auto_state *s)
{
    if (auto_given(s, KNOB_BIT(offload)) || s->r->executable || s->result.interrupted ||
        !memory_is_short(s))
        return STATUS_OK;
    s->offloads = *s->r;
    s->offloads.fixed.offload = OFFLOAD_OPTIMIZER;
    s->r = &s->offloads;
    s->scarce = s->t->n <= AUTO_SMALL;
    enum status st = search_classes(s, false);
    s->scarce = false;
    return st;
}

/* Of the effort of all finalists, what the first few may take once more. */
static const double shown_share = 0.25;

/* The next of the first AUTO_SHOWN that fit which is not verified; on a large platform only of
 * those for which that is cheap: other scores know of shared links and are as good. n: none. */
static size_t next_unverified(const struct auto_state *s)
{
    const struct auto_result *r = &s->result;
    size_t i = 0, shown = 0;
    for (; i < r->n && shown < AUTO_SHOWN; i++) {
        const struct auto_candidate *c = &r->candidate[i];
        if (!c->baseline && c->fits && !c->verified && (is_cheap(s, c) || s->t->n <= AUTO_RANKED))
            return i;
        shown += !c->baseline;
    }
    return r->n;
}

/* Rank all, the first few of which are verified, so that their figures can be compared. What that
 * takes of its effort is known by the best one: ranks that are alike may have been folded. */
static enum status auto_rank(struct auto_state *s)
{
    struct auto_result *out = &s->result;
    double left = shown_share * s->r->effort;
    for (size_t i = 0; i < out->n;) {
        qsort(out->candidate, out->n, sizeof *out->candidate, auto_by_merit);
        i = next_unverified(s);
        const struct auto_candidate *best = out->candidate;
        if (i == out->n || auto_must_stop(s) || !best->verified)
            break;
        if (!is_cheap(s, &out->candidate[i]))
            left -= out->candidate[i].quick.effort * best->thorough.effort / best->quick.effort;
        if (s->r->effort > 0 && !(left >= 0))
            break;
        PASS(auto_evaluate_candidates(s, i, 1));
    }
    return STATUS_OK;
}

static enum status auto_search_all(struct auto_state *s)
{
    PASS(search_classes(s, true));
    PASS(auto_try_uneven(s));
    if (s->result.n > s->ranked)
        PASS(verify(s));
    const struct auto_request *given = s->r;
    PASS(search_offloaded(s));
    s->r = given;
    if (!auto_must_stop(s) && isinf(s->best_s)) {
        PASS(auto_try_nearest(s));
        if (s->result.n > s->ranked)
            PASS(verify(s));
    }
    return auto_rank(s);
}

/* Baselines alone are no answer: they need not keep what is given. */
static bool found_any(const struct auto_result *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (!r->candidate[i].baseline)
            return true;
    return false;
}

static enum status search_once(const struct model *m, const struct topology *t,
                               const struct auto_request *r, const struct evaluator *e,
                               struct auto_result *out)
{
    enum status st;
    double lowered = 0;
    struct auto_state s = {.m = m,
                           .t = t,
                           .r = r,
                           .e = e,
                           .begin_s = clock_now(),
                           .best_s = INFINITY,
                           .bound_s = INFINITY,
                           .effort = r->effort,
                           .lowered = &lowered};
    TRY(auto_scores_open(&s.scores));
    TRY(auto_prepare(&s));
    TRY(r->only_fits ? auto_try_nearest(&s) : auto_search_all(&s));
    out->not_run = s.result.not_run;
    out->interrupted = s.result.interrupted;
    s.result.spent = out->spent = r->lowered > 0 && lowered > r->lowered;
    if (!found_any(&s.result))
        FAIL(STATUS_INFEASIBLE,
             "no plan trains %zu samples per iteration with the given --stages, --replicas and "
             "--microbatches on %zu devices",
             r->samples, t->n);
    *out = s.result;
    s.result = (struct auto_result){0};
out:
    auto_result_free(&s.result);
    auto_scores_close(s.scores);
    free(s.order);
    free(s.fast_order);
    free(s.division);
    for (int kind = 0; kind < RECOMPUTE_KINDS; kind++) {
        free(s.again[kind].unit);
        free(s.again[kind].kept);
        if (s.again[kind].least)
            free(s.again[kind].least->op);
        free(s.again[kind].least);
    }
    return st;
}

/* May stages begin at ops, and at layers instead? */
static bool has_both(const struct model *m, const struct partition_request *fixed)
{
    uint32_t shards = fixed->tensor_parallel;
    size_t layers = partition_most_stages(m, shards, true);
    return !fixed->layers && layers > 1 && layers >= fixed->stages &&
           layers != partition_most_stages(m, shards, false);
}

static bool is_known(const struct auto_result *r, const struct auto_candidate *c)
{
    bool known = false;
    for (size_t k = 0; k < r->n && !known; k++) {
        const struct auto_candidate *other = &r->candidate[k];
        known = c->baseline ? other->baseline == c->baseline : is_equal(other, c);
    }
    return known;
}

/* Move the new candidates and the cuts of *more into *all, and rank them. */
static enum status take_result(struct auto_result *all, struct auto_result *more)
{
    for (size_t i = 0; i < more->n; i++) {
        if (is_known(all, &more->candidate[i]))
            continue;
        PASS(ARRAY_ROOM(all->candidate, all->n));
        all->candidate[all->n++] = more->candidate[i];
        more->candidate[i] = (struct auto_candidate){0};
    }
    for (size_t i = 0; i < more->cuts; i++) {
        PASS(ARRAY_ROOM(all->cut, all->cuts));
        all->cut[all->cuts++] = more->cut[i];
    }
    qsort(all->candidate, all->n, sizeof *all->candidate, auto_by_merit);
    all->tried += more->tried;
    all->too_big += more->too_big;
    all->offloaded += more->offloaded;
    all->uneven += more->uneven;
    all->uneven_stuck += more->uneven_stuck;
    all->uneven_left += more->uneven_left;
    for (size_t i = 0; i < auto_filters_n; i++)
        all->left_out[i] += more->left_out[i];
    all->interrupted = all->interrupted || more->interrupted;
    all->spent = all->spent || more->spent;
    return STATUS_OK;
}

/* Who asks for ops takes layers, too, where those are the better places: a search that has more
 * places does not look at all of them. Two searches, so that neither leaves the other less. */
enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out)
{
    enum status st;
    struct auto_request by_layers = *r;
    struct auto_result more = {0};
    double begin_s = clock_now();
    by_layers.fixed.layers = true;
    st = search_once(m, t, r, e, out);
    if (st == STATUS_INFEASIBLE && has_both(m, &r->fixed))
        return search_once(m, t, &by_layers, e, out);
    TRY(st);
    if (r->time_limit_s > 0)
        by_layers.time_limit_s = r->time_limit_s - (clock_now() - begin_s);
    if (by_layers.time_limit_s < 0 || (r->stop && *r->stop) || r->only_fits ||
        !has_both(m, &r->fixed))
        return STATUS_OK;
    TRY(search_once(m, t, &by_layers, e, &more));
    TRY(take_result(out, &more));
out:
    auto_result_free(&more);
    return st;
}

const struct partition_algorithm partition_auto = {
    .name = "auto",
    .summary = "stages x replicas x shards x placement x microbatch size x schedule x memory, "
               "on all devices or fewer, ranked by simulation",
    .guarantee = "best of what it tries, never worse than its baselines",
    .takes = 1u << PARTITION_FINALISTS | 1u << PARTITION_TIME_LIMIT | 1u << PARTITION_EXECUTABLE |
             1u << PARTITION_LAUNCHABLE | 1u << PARTITION_RESERVE,
};
