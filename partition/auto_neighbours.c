/* Local search from `auto`'s finalists: a neighbour differs in one knob, or in two where the first
 * alone needs too much memory, or, on few devices, in three where a division of sequences or
 * experts still does. It ends where no neighbour is faster. What shapes differ in besides
 * (stages, replicas, shards, placement) is enumerated and stays. */
#include <math.h>

#include "partition/auto_search.h"

/* Finalists within so much of the best are worth it; on few devices, where a search takes little,
 * also those that make all layers again because nothing else that was tried fits. */
static const double near_best = 1.05, near_best_again = 1.25;
/* And neighbours that are so much faster: not only by rounding. */
static const double worth_it = 1 - 1e-4;
/* Ops that one finalist's search may lower: as a part of what the whole search may. */
static const double part_of_work = 0.03;

struct neighbour_search {
    struct auto_state *s;
    struct auto_candidate *best;
    double until; /* ops lowered */
};

/* ---- moves: each changes a copy of the plan; false: there is no such neighbour */

static int64_t usual_bucket(const struct neighbour_search *c, const struct plan *p)
{
    const struct auto_shape shape = {.pipeline = (uint32_t)c->best->depth, .own = p->stage[0].own};
    return auto_usual_bucket(c->s, &shape);
}

/* ZeRO 0 to 3, or kept: twice the level, and 1. */
static bool move_zero(const struct neighbour_search *c, struct plan *p, int step)
{
    uint32_t zero = (uint32_t)step / 2;
    bool keep = step % 2 == 1 || (zero % 2 == 1 && c->s->r->fixed.zero_keep);
    if ((p->zero == zero && p->zero_keep == keep) || (keep && zero % 2 == 0))
        return false;
    p->zero = zero;
    p->zero_keep = keep;
    strategy_settle(&p->shared, &(struct strategy_stage){0});
    return !auto_given(c->s, KNOB_BIT(zero)) || zero == c->s->r->fixed.zero;
}

/* ... in buckets of the usual size (step + 0), or of a sixteenth of that (step + 8). */
static bool move_zero_buckets(const struct neighbour_search *c, struct plan *p, int step)
{
    int64_t bytes = usual_bucket(c, p) >> step / 8 * 4;
    bool other = p->bucket_bytes != bytes && bytes > 0;
    p->bucket_bytes = bytes;
    return other && p->stage[0].replicas > 1 && move_zero(c, p, step % 8);
}

/* Powers of two larger or smaller; of the usual size, where there were none. */
static bool move_bucket(const struct neighbour_search *c, struct plan *p, int step)
{
    bool other = step != 0 || p->bucket_bytes == 0;
    int64_t from = p->bucket_bytes > 0 ? p->bucket_bytes : usual_bucket(c, p);
    p->bucket_bytes = step > 0 ? from << step : from >> -step;
    return other && p->bucket_bytes > 0 && p->stage[0].replicas > 1;
}

static bool move_no_bucket(const struct neighbour_search *c, struct plan *p, int step)
{
    bool some = p->bucket_bytes > 0;
    (void)c;
    (void)step;
    p->bucket_bytes = 0;
    return some;
}

/* Modules that are made again for less than a layer, the cheapest first. */
static const enum plan_module cheap_modules[] = {MODULE_LAYERNORM, MODULE_MOE_ACT,
                                                 MODULE_MLA_UP_PROJ, MODULE_CORE_ATTN};

/* Nothing made again (0), so many of the modules that the model has (1 to 4), what remembers much
 * (5), all (6). */
static bool move_recompute(const struct neighbour_search *c, struct plan *p, int level)
{
    const struct plan_stage *now = &p->stage[0];
    const struct partition_request *fixed = &c->s->r->fixed;
    uint32_t set = 0, has = plan_modules_of(c->s->m);
    for (int k = 0; k < level && level < 5; k++)
        set |= has & 1u << cheap_modules[k];
    enum plan_recompute kind = level == 0   ? RECOMPUTE_NONE
                               : level == 6 ? RECOMPUTE_FULL
                                            : RECOMPUTE_SELECTIVE;
    bool open = !auto_given(c->s, KNOB_BIT(recompute)) ||
                (kind == fixed->recompute && kind == RECOMPUTE_SELECTIVE);
    bool named = fixed->recompute_modules != 0 && set != fixed->recompute_modules;
    bool empty = level > 0 && level < 5 && !(has & 1u << cheap_modules[level - 1]);
    if (!open || named || empty || fixed->recompute_layers > 0 ||
        (now->recompute == kind && now->recompute_modules == set))
        return false;
    for (size_t k = 0; k < p->stages; k++) {
        p->stage[k].recompute = kind;
        p->stage[k].recompute_modules = set;
        p->stage[k].recompute_layers = 0;
        p->stage[k].recompute_unit =
            kind == RECOMPUTE_FULL && fixed->recompute_unit > 0 ? fixed->recompute_unit : 1;
    }
    return true;
}

/* Twice or half as many; 0: that is none, or not another. */
static uint32_t scaled(uint32_t n, int step)
{
    return step > 0 ? n * 2 : step < 0 && n % 2 == 0 ? n / 2 : 0;
}

static bool move_size(const struct neighbour_search *c, struct plan *p, int step)
{
    uint32_t size = scaled(p->microbatch_size, step);
    if (size == 0 || !auto_divides(c->s, size, plan_streams(&p->stage[0])))
        return false;
    p->microbatch_size = size;
    p->microbatches = (uint32_t)(c->s->r->samples / size);
    return true;
}

/* Sequences divided by twice or half as many replicas, */
static bool move_context(const struct neighbour_search *c, struct plan *p, int step)
{
    uint32_t context = scaled(p->stage[0].context_parallel, step);
    if (context == 0 || p->stage[0].replicas % context != 0 || !auto_can_divide(c->s, context))
        return false;
    for (size_t k = 0; k < p->stages; k++)
        p->stage[k].context_parallel = context;
    return auto_divides(c->s, p->microbatch_size, plan_streams(&p->stage[0]));
}

/* ... with as many tokens in a microbatch of a rank as before. */
static bool move_tokens(const struct neighbour_search *c, struct plan *p, int step)
{
    uint32_t size = scaled(p->microbatch_size, step);
    if (size == 0 || c->s->r->samples % size != 0 ||
        !auto_wanted(c->s->r->fixed.microbatch_size, size))
        return false;
    p->microbatch_size = size;
    p->microbatches = (uint32_t)(c->s->r->samples / size);
    return move_context(c, p, step);
}

/* Instead of layers sequences divided over the same devices (step 1), or the other way round. */
static bool move_shards(const struct neighbour_search *c, struct plan *p, int step)
{
    const struct plan_stage *now = &p->stage[0];
    struct strategy_stage own = now->own;
    own.tensor_parallel = scaled(now->tensor_parallel, -step);
    own.context_parallel = scaled(now->context_parallel, step);
    own.replicas = scaled(now->replicas, step);
    if (own.tensor_parallel == 0 || own.context_parallel == 0 || own.replicas == 0 ||
        own.replicas % (own.context_parallel * own.expert_parallel) != 0 ||
        !auto_wanted(c->s->r->fixed.replicas, own.replicas) ||
        !auto_may_shard(c->s, own.tensor_parallel) || !auto_can_divide(c->s, own.context_parallel))
        return false;
    for (size_t k = 0; k < p->stages; k++) {
        p->stage[k].tensor_parallel = own.tensor_parallel;
        p->stage[k].context_parallel = own.context_parallel;
        p->stage[k].replicas = own.replicas;
    }
    strategy_settle(&p->shared, &own);
    return true;
}

static bool move_experts(const struct neighbour_search *c, struct plan *p, int step)
{
    uint32_t spread = scaled(p->stage[0].expert_parallel, step);
    if (spread == 0 || c->s->experts % spread != 0 || p->stage[0].replicas % spread != 0)
        return false;
    for (size_t k = 0; k < p->stages; k++)
        p->stage[k].expert_parallel = spread;
    return true;
}

/* Into the host's memory: the optimizer's state (1), activations (2), both (3), or nothing. */
static bool move_offload(const struct neighbour_search *c, struct plan *p, int step)
{
    bool other = p->offload != (enum plan_offload)step;
    (void)c;
    p->offload = (enum plan_offload)step;
    return other;
}

static const struct move {
    uint64_t knob; /* none of which must be given; 0: the function asks */
    bool (*change)(const struct neighbour_search *c, struct plan *p, int step);
    int first, last;                       /* steps */
    enum { CHANGES, DIVIDES, SAVES } kind; /* SAVES: memory, and no time: beside another one */
} moves[] = {
    {0, move_recompute, 0, 6, CHANGES},
    {0, move_zero, 0, 7, CHANGES},
    {KNOB_BIT(bucket_bytes), move_zero_buckets, 0, 15, CHANGES},
    {KNOB_BIT(bucket_bytes), move_bucket, -3, 1, CHANGES},
    {KNOB_BIT(bucket_bytes), move_no_bucket, 0, 0, CHANGES},
    {0, move_size, -1, 1, CHANGES},
    {KNOB_BIT(context_parallel), move_context, -1, 1, DIVIDES},
    {KNOB_BIT(context_parallel), move_tokens, -1, 1, DIVIDES},
    {KNOB_BIT(tensor_parallel) | KNOB_BIT(context_parallel), move_shards, -1, 1, CHANGES},
    {KNOB_BIT(expert_parallel), move_experts, -1, 1, DIVIDES},
    {KNOB_BIT(offload), move_offload, 0, OFFLOAD_KINDS - 1, SAVES},
};
enum { MOVES = sizeof moves / sizeof *moves };

/* ---- the search */

static bool is_spent(const struct neighbour_search *c)
{
    return auto_must_stop(c->s) || *c->s->lowered > c->until;
}

enum { TOGETHER = 3 };
struct choice {
    const struct move *move; /* NULL: none */
    int step;
};

static bool apply(const struct neighbour_search *c, struct choice choice, struct plan *p)
{
    const struct move *m = choice.move;
    return !m || ((m->knob == 0 || !auto_given(c->s, m->knob)) && m->change(c, p, choice.step));
}

/* Is there such a plan, one that does what it says, and one that can be run if it has to be? */
static bool is_sound(const struct auto_state *s, const struct plan *p)
{
    const struct rule_view v = rule_view_of_plan(p, &s->rules);
    unsigned run = s->r->executable ? RULE_NOT_RUN | RULE_NOT_COMPUTED : 0;
    return !rules_broken(&v, RULES_OF_OPTIONS | run, NULL);
}

bool auto_divide_otherwise(struct auto_state *s, struct auto_candidate *c, size_t k)
{
    const struct neighbour_search search = {.s = s, .best = c};
    size_t i = 0;
    for (size_t left = k / 2; moves[i].kind != DIVIDES || left > 0; i++)
        left -= moves[i].kind == DIVIDES;
    return apply(&search, (struct choice){&moves[i], k % 2 ? 1 : -1}, &c->plan) &&
           is_sound(s, &c->plan);
}

/* The best plan after all choices takes its place if it is faster, then *better. *small: it fits,
 * or there is no such plan. */
static enum status try_together(struct neighbour_search *c, const struct choice all[TOGETHER],
                                bool *small, bool *better)
{
    enum status st;
    struct auto_candidate next = *c->best;
    next.plan = (struct plan){0};
    *small = true;
    TRY(plan_copy(&c->best->plan, &next.plan));
    for (int k = 0; k < TOGETHER; k++)
        if (!apply(c, all[k], &next.plan))
            goto out;
    if (!is_sound(c->s, &next.plan))
        goto out;
    TRY(auto_score(c->s, &next));
    *small = next.fits;
    if (next.fits && next.quick.iteration_s < worth_it * c->best->quick.iteration_s) {
        struct auto_candidate slower = *c->best;
        *c->best = next;
        next = slower;
        *better = true;
    }
out:
    plan_free(&next.plan);
    return st;
}

/* A choice, and where that needs too much memory, with each other one of `kinds`; with divisions
 * that do not suffice, what only saves memory is a third one. */
static enum status try_with_others(struct neighbour_search *c, struct choice all[TOGETHER], int at,
                                   unsigned kinds, bool *better)
{
    bool small;
    PASS(try_together(c, all, &small, better));
    for (size_t k = 0; k < MOVES && !small && at < TOGETHER; k++)
        for (int step = moves[k].first;
             kinds >> moves[k].kind & 1 && step <= moves[k].last && !is_spent(c); step++) {
            bool third = moves[k].kind == DIVIDES && c->best->devices <= AUTO_SMALL;
            all[at] = (struct choice){&moves[k], step};
            PASS(try_with_others(c, all, at + 1, third ? 1u << SAVES : 0, better));
            all[at] = (struct choice){0};
        }
    return STATUS_OK;
}

static enum status try_choice(struct neighbour_search *c, struct choice first, bool *better)
{
    struct choice all[TOGETHER] = {first};
    if (first.move->kind == SAVES && c->best->plan.offload == OFFLOAD_NONE)
        return STATUS_OK;
    return try_with_others(c, all, 1, 1u << CHANGES | 1u << DIVIDES | 1u << SAVES, better);
}

static bool is_near(const struct auto_state *s, const struct auto_candidate *c)
{
    bool again = c->devices <= AUTO_SMALL && c->plan.stage[0].recompute == RECOMPUTE_FULL;
    return c->quick.iteration_s <= (again ? near_best_again : near_best) * s->best_s;
}

enum status auto_try_neighbours(struct auto_state *s, struct auto_candidate *best)
{
    struct neighbour_search c = {.s = s, .best = best, .until = INFINITY};
    if (best->baseline || !best->fits || auto_is_uneven(&best->plan) || !is_near(s, best))
        return STATUS_OK;
    if (s->r->lowered > 0)
        c.until = *s->lowered + part_of_work * s->r->lowered;
    for (bool better = true; better && !is_spent(&c);) {
        better = false;
        for (size_t i = 0; i < MOVES; i++)
            for (int step = moves[i].first; step <= moves[i].last && !is_spent(&c); step++)
                PASS(try_choice(&c, (struct choice){&moves[i], step}, &better));
    }
    return STATUS_OK;
}
