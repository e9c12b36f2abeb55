/* Plans whose stages have different replicas: layers that compute much and have few parameters on
 * many devices, those with many parameters, whose gradients would take long to sum, on few.
 *
 * On small platforms all replicas are listed, on others those that dynamic programs find
 * (uneven_cost.h). The most promising are cut and scored, until the work for them is spent; the
 * best of these are improved by moving cuts and replicas between stages. All this comes after the
 * search of equal replicas, and can only beat it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "partition/uneven_cost.h"

enum {
    ALL_SLOTS = 8,       /* sets of shards up to which all replicas are listed */
    MOST_WORK = 4000000, /* ops of all quick evaluations: some seconds, */
    LARGE_WORK = 300000, /* ... on platforms of more devices than these: */
    LARGE = 64,          /* ranks of such plans are never folded */
    MOST_STARTS = 4,     /* plans of equal replicas to start from */
    MOST_CLIMBS = 5,     /* plans that are improved by moves, */
    MOST_MOVES = 60,     /* ... with so many evaluations each */
    OPS_OF_A_STEP = 6,   /* forward, backward and their messages */
};

/* Moves do not gain more, on large platforms and on others. */
static const double worth_moves = 1.1, worth_more_moves = 1.25;

/* ---- what is worth a look */

struct uneven_choice {
    struct auto_shape shape; /* its uneven is set when it is tried */
    double estimate_s;
    uint32_t replicas[UNEVEN_STAGES];
    size_t first[UNEVEN_STAGES];
};

struct choices {
    size_t n;
    struct uneven_choice *choice; /* [n] */
};

static bool all_equal(const uint32_t *replicas, size_t stages)
{
    for (size_t k = 1; k < stages; k++)
        if (replicas[k] != replicas[0])
            return false;
    return true;
}

/* Do stages that share weights have equally many replicas? These are summed from replica to
 * replica.
 */
static bool ties_agree(const struct model *m, size_t stages, const uint32_t *replicas,
                       const size_t *first)
{
    bool agree = true;
    for (size_t i = 0, k = 0; i < m->n; i++) {
        size_t home = 0;
        k += k + 1 < stages && first[k + 1] == i;
        while (home < k && first[home + 1] <= m->op[i].shares)
            home++;
        agree = agree && (m->op[i].shares == MODEL_NO_OP || replicas[home] == replicas[k]);
    }
    return agree;
}

/* Without flush every replica must have as many microbatches as the others of its stage. */
static bool is_possible(const struct uneven_family *f, const uint32_t *replicas, size_t stages)
{
    const struct auto_state *s = f->s;
    uint32_t microbatches = (uint32_t)f->microbatches;
    bool possible = !all_equal(replicas, stages) && auto_wanted(s->r->fixed.stages, stages) &&
                    auto_wanted(s->r->fixed.pipeline, stages);
    for (size_t k = 0; k < stages; k++)
        possible = possible && replicas[k] > 0 && replicas[k] <= microbatches &&
                   (!s->usual->asynchronous || microbatches % replicas[k] == 0);
    return possible;
}

/* The two cuts of these replicas, if they differ. */
static enum status uneven_add_choice(const struct uneven_family *f, const uint32_t *replicas,
                                     size_t stages, struct choices *all)
{
    struct uneven_choice c = {.shape = f->shape};
    if (!is_possible(f, replicas, stages))
        return STATUS_OK;
    memcpy(c.replicas, replicas, stages * sizeof *replicas);
    c.shape.pipeline = (uint32_t)stages;
    for (size_t k = 0; k < stages; k++)
        c.shape.replicas = replicas[k] > c.shape.replicas ? replicas[k] : c.shape.replicas;
    c.shape.bound_s = uneven_bound(f, stages, replicas);
    for (int load = 0; load < UNEVEN_LOADS; load++) {
        size_t before[UNEVEN_STAGES];
        memcpy(before, c.first, sizeof before);
        c.estimate_s = uneven_cut(f, (enum uneven_load)load, stages, replicas, c.first);
        if (isinf(c.estimate_s) || (load > 0 && !memcmp(before, c.first, sizeof before)) ||
            !ties_agree(f->s->m, stages, replicas, c.first))
            continue;
        PASS(ARRAY_ROOM(all->choice, all->n));
        all->choice[all->n++] = c;
    }
    return STATUS_OK;
}

/* All compositions of up to `left` more slots: bit i of `breaks` says that slot i + 1 is of another
 * stage than slot i. */
static enum status add_all(const struct uneven_family *f, size_t most, struct choices *all)
{
    for (size_t slots = 3; slots <= f->slots && slots <= ALL_SLOTS; slots++)
        for (uint32_t breaks = 1; breaks < 1u << (slots - 1); breaks++) {
            uint32_t replicas[ALL_SLOTS] = {1};
            size_t stages = 1;
            for (size_t i = 0; i + 1 < slots; i++) {
                stages += breaks >> i & 1;
                replicas[stages - 1]++;
            }
            if (stages <= most)
                PASS(uneven_add_choice(f, replicas, stages, all));
        }
    return STATUS_OK;
}

static enum status add_best(const struct uneven_family *f, size_t most, struct choices *all)
{
    for (int load = 0; load < UNEVEN_LOADS && most >= 2; load++) {
        uint32_t replicas[UNEVEN_STAGES + 1][UNEVEN_STAGES] = {{0}};
        PASS(uneven_replicas(f, (enum uneven_load)load, most, replicas));
        for (size_t stages = 2; stages <= most; stages++)
            PASS(uneven_add_choice(f, replicas[stages], stages, all));
    }
    return STATUS_OK;
}

static enum status add_family(const struct auto_state *s, const struct auto_shape *shape,
                              struct choices *all)
{
    enum status st = STATUS_OK;
    struct uneven_family f = {0};
    size_t slots = s->t->n / shape->tensor_parallel, most = UNEVEN_STAGES;
    most = shape->most_stages < most ? shape->most_stages : most;
    most = slots < most ? slots : most;
    if (slots < 3 || most < 2)
        return STATUS_OK;
    TRY(uneven_open(s, shape, &f));
    most = f.layers < most ? f.layers : most;
    if (uneven_bound(&f, 1, &(uint32_t){(uint32_t)slots}) > s->best_s)
        goto out;
    if (slots > ALL_SLOTS)
        TRY(add_best(&f, most, all));
    if (slots <= ALL_SLOTS || s->t->n <= AUTO_SMALL)
        TRY(add_all(&f, most, all));
out:
    uneven_free(&f);
    return st;
}

/* Does what is given leave room for different replicas? */
static bool is_wanted(const struct auto_state *s)
{
    const struct partition_request *fixed = &s->r->fixed;
    return !s->r->even && fixed->replicas == 0 && fixed->chunks <= 1 &&
           !strategy_groups_replicas(&fixed->shared, &fixed->own) &&
           !(auto_given(s, KNOB_BIT(zero)) && fixed->zero > 1) && !s->usual->chunked;
}

static enum status uneven_list(const struct auto_state *s, struct choices *all)
{
    struct auto_shapes families = {0};
    enum status st;
    TRY(auto_list_families(s, &families));
    for (size_t i = 0; i < families.n && !auto_must_stop(s); i++)
        if (families.shape[i].context_parallel == 1) /* replicas that share sequences are in step */
            TRY(add_family(s, &families.shape[i], all));
out:
    free(families.shape);
    return st;
}

/* ---- trying them */

static int by_estimate(const void *a, const void *b)
{
    const struct uneven_choice *x = a, *y = b;
    const double p[] = {x->estimate_s,     x->shape.tensor_parallel,
                        x->shape.pipeline, x->shape.microbatch_size,
                        x->shape.replicas, x->shape.sequence_parallel};
    const double q[] = {y->estimate_s,     y->shape.tensor_parallel,
                        y->shape.pipeline, y->shape.microbatch_size,
                        y->shape.replicas, y->shape.sequence_parallel};
    int order = auto_order(p, q, sizeof p / sizeof *p);
    order = order ? order : memcmp(x->replicas, y->replicas, sizeof x->replicas);
    return order ? order : memcmp(x->first, y->first, sizeof x->first);
}

static bool have_divisor(const uint32_t *replicas, size_t stages)
{
    for (uint32_t d = 2; d <= replicas[0]; d++) {
        bool all = true;
        for (size_t k = 0; k < stages; k++)
            all = all && replicas[k] % d == 0;
        if (all)
            return true;
    }
    return false;
}

static double work_of(const struct auto_state *s, const struct auto_shape *shape)
{
    return (double)(s->r->samples / shape->microbatch_size) * shape->pipeline *
           shape->tensor_parallel * OPS_OF_A_STEP;
}

static bool is_spent(const struct auto_state *s)
{
    return s->uneven_work > (s->t->n > LARGE ? LARGE_WORK : MOST_WORK);
}

/* In both placements, where they differ. */
static enum status try(struct auto_state *s, struct uneven_choice *c)
{
    const struct partition_uneven uneven = {c->replicas, c->first};
    struct auto_trial t = {.shape = c->shape};
    bool both = have_divisor(c->replicas, c->shape.pipeline);
    size_t tried = s->result.tried;
    t.shape.uneven = &uneven;
    int first = both ? (int)auto_first_placement(s) : PLACE_REPLICAS, last = auto_last_placement(s);
    for (int p = first; p <= last; p++) {
        bool left_out = false;
        t.shape.placement = (enum partition_placement)p;
        PASS(auto_leaves_out(s, AUTO_SHAPE, &t, &left_out));
        if (!left_out)
            PASS(auto_try_cut(s, &t));
    }
    s->uneven_work += (double)(s->result.tried - tried) * work_of(s, &c->shape);
    return STATUS_OK;
}

/* ---- moves */

/* Where a plan's stages begin, and their replicas. */
struct uneven_position {
    uint32_t replicas[UNEVEN_STAGES];
    size_t first[UNEVEN_STAGES];
};

struct climb {
    struct auto_state *s;
    struct auto_candidate *best;
    struct auto_shape shape;
    size_t stages, moves;
    const size_t *begins; /* of partition_begins() */
};

/* The plan of a position in the schedule, and with the savings, of the best one so far; it takes
 * its place if it is better. */
static enum status try_plan(struct climb *c, const struct uneven_position *at, uint32_t zero,
                            bool *better)
{
    enum status st;
    struct auto_state *s = c->s;
    const struct partition_uneven uneven = {at->replicas, at->first};
    const struct plan *old = &c->best->plan;
    struct auto_candidate next = *c->best;
    next.plan = (struct plan){0};
    c->shape.uneven = &uneven;
    struct partition_request r = auto_request_for(s, &c->shape);
    r.schedule = old->schedule;
    r.zero = zero;
    r.bucket_bytes = old->bucket_bytes;
    r.recompute = old->stage[0].recompute;
    next.devices = auto_devices(&c->shape);
    c->moves++;
    s->uneven_work += work_of(s, &c->shape);
    TRY(partition_run(&partition_uneven, s->m, s->t, &r, &next.plan));
    TRY(auto_score(s, &next));
    *better = auto_take_better(&next, c->best) || *better;
out:
    plan_free(&next.plan);
    return st;
}

/* With ZeRO 1 and without it, where the schedule lets that be. */
static enum status try_position(struct climb *c, const struct uneven_position *at, bool *better)
{
    uint32_t zero = c->best->plan.zero;
    const struct schedule *schedule;
    PASS(schedule_find(c->best->plan.schedule, &schedule));
    if (!ties_agree(c->s->m, c->stages, at->replicas, at->first))
        return STATUS_OK;
    PASS(try_plan(c, at, zero, better));
    return auto_given(c->s, KNOB_BIT(zero)) || schedule->asynchronous
               ? STATUS_OK
               : try_plan(c, at, !zero, better);
}

/* Stage k begins at the next place before or behind where it does. */
static bool move_cut(const struct climb *c, size_t k, bool back, struct uneven_position *at)
{
    size_t n = c->s->m->n, end = k + 1 < c->stages ? at->first[k + 1] : n;
    size_t i = at->first[k];
    do
        i = back ? i - 1 : i + 1;
    while (i > at->first[k - 1] && i < end && c->begins[i + 1] == c->begins[i]);
    at->first[k] = i;
    return i > at->first[k - 1] && i < end;
}

/* One replica less of stage `from`, one more of stage `to`; c->stages: of none. */
static bool move_replica(const struct climb *c, size_t from, size_t to, struct uneven_position *at)
{
    const struct auto_state *s = c->s;
    uint32_t all = 0, microbatches = c->best->plan.microbatches;
    if (from == to || (from < c->stages && at->replicas[from] == 1))
        return false;
    if (from < c->stages)
        at->replicas[from]--;
    if (to < c->stages)
        at->replicas[to]++;
    for (size_t k = 0; k < c->stages; k++)
        all += at->replicas[k];
    return (to == c->stages || at->replicas[to] <= microbatches) && !s->usual->asynchronous &&
           (size_t)all * c->shape.tensor_parallel <= s->t->n && !all_equal(at->replicas, c->stages);
}

static struct uneven_position position_of(const struct plan *p)
{
    struct uneven_position at = {{0}, {0}};
    for (size_t k = 0; k < p->stages; k++) {
        at.replicas[k] = p->stage[k].replicas;
        at.first[k] = p->stage[k].op[0];
    }
    return at;
}

static bool may_go_on(const struct climb *c)
{
    bool large = c->s->t->n > LARGE; /* elsewhere moves come on top */
    return c->moves < MOST_MOVES && !(large && is_spent(c->s)) && !auto_must_stop(c->s);
}

/* Every move from the best so far; the first that is better is taken. */
static enum status uneven_step(struct climb *c, bool *better)
{
    for (size_t k = 1; k < c->stages; k++)
        for (int back = 0; back < 2 && may_go_on(c); back++) {
            struct uneven_position at = position_of(&c->best->plan);
            if (!move_cut(c, k, back, &at))
                continue;
            PASS(try_position(c, &at, better));
            at = position_of(&c->best->plan); /* and with the next cut */
            if (k + 1 < c->stages && move_cut(c, back ? k : k + 1, back, &at) &&
                move_cut(c, back ? k + 1 : k, back, &at))
                PASS(try_position(c, &at, better));
        }
    for (size_t from = 0; from <= c->stages; from++)
        for (size_t to = 0; to <= c->stages && may_go_on(c); to++) {
            struct uneven_position at = position_of(&c->best->plan);
            if (move_replica(c, from, to, &at))
                PASS(try_position(c, &at, better));
        }
    return STATUS_OK;
}

static enum status uneven_climb(struct auto_state *s, struct auto_candidate *best)
{
    enum status st;
    size_t *begins = NULL;
    const struct plan *p = &best->plan;
    struct climb c = {.s = s, .best = best, .stages = p->stages};
    bool better = best->fits;
    c.shape = (struct auto_shape){.pipeline = (uint32_t)p->stages,
                                  .chunks = 1,
                                  .shared = s->r->fixed.shared,
                                  .own = s->r->fixed.own,
                                  .microbatch_size = p->microbatch_size,
                                  .placement = best->placement};
    c.shape.tensor_parallel = p->stage[0].tensor_parallel;
    c.shape.replicas = 1;
    c.shape.sequence_parallel = p->sequence_parallel;
    c.shape.tensor_overlap = p->tensor_overlap;
    TRY(ARRAY_NEW(begins, s->m->n + 1));
    partition_begins(s->m, c.shape.tensor_parallel, s->layers, begins);
    c.begins = begins;
    while (better && may_go_on(&c)) {
        better = false;
        TRY(uneven_step(&c, &better));
    }
out:
    free(begins);
    return st;
}

/* May stages begin where the plan's do? It may be one of a search by ops. */
static bool keeps_layers(const struct auto_state *s, const struct plan *p)
{
    for (size_t k = 0; s->layers && k < p->stages; k++)
        if (!model_begins_layer(s->m, p->stage[k].op[0]))
            return false;
    return true;
}

/* Plans of equal replicas and consecutive ops that are verified, as places to start from. */
static enum status add_starts(struct auto_state *s)
{
    struct auto_result *all = &s->result;
    for (size_t i = 0, n = 0; i < s->ranked && n < MOST_STARTS; i++) {
        struct auto_candidate c = all->candidate[i];
        size_t depth = c.plan.stages;
        if (!c.fits || depth < 2 || depth > UNEVEN_STAGES || depth != c.depth || c.plan.zero > 1 ||
            c.baseline || plan_streams(&c.plan.stage[0]) < c.plan.stage[0].replicas ||
            !plan_in_order(&c.plan) || !keeps_layers(s, &c.plan))
            continue;
        c.verified = false;
        c.plan = (struct plan){0};
        PASS(ARRAY_ROOM(all->candidate, all->n));
        PASS(plan_copy(&all->candidate[i].plan, &c.plan));
        all->candidate[all->n++] = c;
        n++;
    }
    return STATUS_OK;
}

/* Have two climbs ended at one plan? */
static bool uneven_is_same(const struct auto_candidate *a, const struct auto_candidate *b)
{
    if (auto_by_merit(a, b) != 0)
        return false; /* equal stages among much else */
    struct uneven_position p = position_of(&a->plan), q = position_of(&b->plan);
    return !memcmp(&p, &q, sizeof p);
}

/* The best of those that were tried and of those that were there, by moves. */
static enum status uneven_improve(struct auto_state *s)
{
    struct auto_result *all = &s->result;
    size_t kept = s->ranked;
    if (!s->usual->asynchronous)
        PASS(add_starts(s));
    if (all->n > s->ranked)
        qsort(all->candidate + s->ranked, all->n - s->ranked, sizeof *all->candidate,
              auto_by_merit);
    for (size_t i = s->ranked; i < all->n && i < s->ranked + MOST_CLIMBS; i++)
        if (all->candidate[i].quick.iteration_s <
            (s->t->n > LARGE ? worth_moves : worth_more_moves) * s->best_s)
            PASS(uneven_climb(s, &all->candidate[i]));
    for (size_t i = s->ranked; i < all->n; i++) {
        struct auto_candidate *c = &all->candidate[i];
        /* what is equal is verified, or was worse than one that is */
        bool again = !auto_is_uneven(&c->plan);
        for (size_t k = s->ranked; k < kept && !again; k++)
            again = uneven_is_same(&all->candidate[k], c);
        if (again)
            plan_free(&c->plan);
        else
            all->candidate[kept++] = *c;
    }
    all->n = kept;
    return STATUS_OK;
}

enum status auto_try_uneven(struct auto_state *s)
{
    enum status st = STATUS_OK;
    struct choices all = {0};
    if (!is_wanted(s) || s->result.interrupted)
        return STATUS_OK;
    TRY(uneven_list(s, &all));
    if (all.n > 0)
        qsort(all.choice, all.n, sizeof *all.choice, by_estimate);
    for (size_t i = 0; i < all.n && !s->result.interrupted; i++) {
        s->result.interrupted = auto_must_stop(s);
        if (is_spent(s))
            s->result.uneven_left++;
        else if (!s->result.interrupted)
            TRY(try(s, &all.choice[i]));
    }
    TRY(uneven_improve(s));
out:
    free(all.choice);
    return st;
}
