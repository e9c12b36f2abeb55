/* The plans that `auto` makes of its shapes: each schedule, with what saves memory and what hides
 * the sums of gradients. What is left out is for the filters to say (auto_filters.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/divisor.h"
#include "core/base/text.h"
#include "partition/auto_search.h"

/* With ZeRO 2 and 3 buckets are the units in which gradients are summed and parameters gathered;
 * without, a unit is a layer. */
#define SAVINGS(kind)                                                                              \
    {.recompute = kind}, {.recompute = kind, .zero = 1}, {.recompute = kind, .buckets = true},     \
        {.recompute = kind, .zero = 1, .buckets = true},                                           \
        {.recompute = kind, .zero = 1, .buckets = true, .keep = true},                             \
        {.recompute = kind, .zero = 2}, {.recompute = kind, .zero = 2, .buckets = true},           \
        {.recompute = kind, .zero = 3}, {.recompute = kind, .zero = 3, .buckets = true},           \
        {.recompute = kind, .zero = 2, .hybrid = true},                                            \
        {.recompute = kind, .zero = 3, .keep = true},                                              \
        {.recompute = kind, .zero = 3, .hybrid = true},                                            \
    {                                                                                              \
        .recompute = kind, .zero = 3, .keep = true, .hybrid = true                                 \
    }
const struct auto_saving auto_savings[AUTO_SAVINGS] = {
    SAVINGS(RECOMPUTE_NONE), SAVINGS(RECOMPUTE_SELECTIVE), SAVINGS(RECOMPUTE_FULL)};

/* What is so near to the best plan may be a finalist. */
static const double rough_slack = 1.05;

/* ---- one plan */

/* Buckets of about an eighth of a stage's gradients: small enough to hide most of them behind the
 * backward, large enough that their latencies do not matter. A power of two, for people. */
int64_t auto_usual_bucket(const struct auto_state *s, const struct auto_shape *shape)
{
    double all = 0;
    for (size_t i = 0; i < s->m->n; i++)
        all += (double)s->m->op[i].parameter_bytes;
    all /= (double)shape->pipeline * shape->tensor_parallel * AUTO_BUCKETS;
    return all > 1 ? (int64_t)1 << (int)ceil(log2(all)) : 1;
}

static bool given(const struct auto_state *s, const struct auto_saving *saving)
{
    const struct partition_request *fixed = &s->r->fixed;
    return (!auto_given(s, KNOB_BIT(recompute)) || saving->recompute == fixed->recompute) &&
           (!auto_given(s, KNOB_BIT(zero)) || saving->zero == fixed->zero) &&
           !(auto_given(s, KNOB_BIT(bucket_bytes)) && saving->buckets);
}

/* The least number of replicas that divides them, 0: none. */
static uint32_t least_group(uint32_t replicas)
{
    for (uint32_t group = 2; group <= replicas / 2; group++)
        if (replicas % group == 0)
            return group;
    return 0;
}

uint32_t auto_group(const struct auto_state *s, const struct auto_shape *shape)
{
    size_t apart =
        shape->tensor_parallel * (shape->placement == PLACE_PIPELINES ? shape->pipeline : 1);
    uint32_t group = (uint32_t)common_divisor(s->node / apart, shape->replicas);
    if (s->node % apart == 0 && group > 1 && group < shape->replicas)
        return group;
    return s->t->n <= AUTO_SMALL ? least_group(shape->replicas) : 0;
}

/* Are there groups to share over, which are not given, and no experts that are spread over
 * others? */
bool auto_may_group(const struct auto_state *s, const struct auto_shape *shape)
{
    return s->r->fixed.zero_group == 0 && s->r->fixed.expert_parallel <= 1 &&
           shape->expert_parallel <= 1 && auto_group(s, shape) > 0;
}

/* What the saving decides; bytes of buckets else are the request's. */
static void trial_apply_saving(const struct auto_state *s, const struct auto_shape *shape,
                               const struct auto_saving *saving, struct strategy *shared,
                               struct strategy_stage *own)
{
    const struct strategy *fixed = &s->r->fixed.shared;
    shared->zero = saving->zero;
    shared->zero_keep = saving->keep || fixed->zero_keep;
    shared->zero_group = saving->hybrid ? auto_group(s, shape) : fixed->zero_group;
    if (saving->buckets)
        shared->bucket_bytes = auto_usual_bucket(s, shape);
    own->recompute = saving->recompute;
    strategy_settle(shared, own);
}

enum status auto_make_plan(const struct auto_state *s, const struct auto_trial *t,
                           const struct auto_saving *saving, struct plan *out)
{
    PASS(plan_copy(t->cut, out));
    free(out->schedule);
    out->schedule = NULL;
    PASS(text_copy(t->schedule->name, &out->schedule));
    for (size_t k = 0; k < out->stages; k++)
        trial_apply_saving(s, &t->shape, saving, &out->shared, &out->stage[k].own);
    return STATUS_OK;
}

bool auto_keeps_given(const struct auto_state *s, const struct plan *p)
{
    const struct partition_request *fixed = &s->r->fixed;
    return auto_wanted(fixed->stages, p->stages) &&
           auto_wanted(fixed->pipeline, p->stages / plan_chunks(p)) && fixed->chunks <= 1 &&
           !partition_breaks(fixed, p);
}

static enum status score_by(const struct auto_state *s, struct auto_candidate *c,
                            struct auto_scored *scored, enum auto_scorer by)
{
    struct auto_score *score = &scored->by[by];
    if (!score->known) {
        const struct evaluator *e = s->e;
        score->status =
            (by == AUTO_ROUGH ? e->rough : e->quick)(e->context, &c->plan, &score->found);
        score->known = score->status == STATUS_OK || score->status == STATUS_INVALID ||
                       score->status == STATUS_UNSUPPORTED;
        if (score->status == STATUS_OK)
            auto_count(s, score->found.lowered);
    }
    c->quick = score->found;
    return score->status;
}

/* What is slower than the best plan even without sharing links need not be looked at again. */
static enum status score(const struct auto_state *s, struct auto_candidate *c,
                         struct auto_scored *scored)
{
    if (s->e->rough && isfinite(s->best_s) && s->t->n > AUTO_SMALL && !c->baseline) {
        PASS(score_by(s, c, scored, AUTO_ROUGH));
        if (c->quick.iteration_s > rough_slack * s->best_s)
            return STATUS_OK;
    }
    return score_by(s, c, scored, AUTO_QUICK);
}

/* Scores that know of no shared links are optimistic: they count until there is a better one. */
static void note_best(struct auto_state *s, const struct auto_candidate *c)
{
    bool knows = auto_knows_links(c);
    if (knows && !s->best_exact)
        s->best_s = INFINITY;
    s->best_exact = s->best_exact || knows;
    if (knows == s->best_exact)
        s->best_s = fmin(s->best_s, c->quick.iteration_s);
    if (s->r->best_s)
        *s->r->best_s = s->best_s;
}

enum status auto_score(struct auto_state *s, struct auto_candidate *c)
{
    struct auto_scored *scored;
    PASS(auto_scores_at(s->scores, &c->plan, &scored));
    enum status st = score(s, c, scored);
    bool new = !scored->counted;
    scored->counted = true;
    if (st == STATUS_INVALID || st == STATUS_UNSUPPORTED) {
        s->result.uneven_stuck += new &&auto_is_uneven(&c->plan);
        c->fits = false;
        c->quick = (struct evaluation){.iteration_s = INFINITY, .headroom_bytes = INT64_MIN};
        return STATUS_OK;
    }
    PASS(st);
    c->fits = auto_spare_bytes(s->t, s->r, &c->quick) >= 0;
    if (c->fits)
        PASS(auto_add_sharing(s, c));
    if (c->fits && (!c->baseline || auto_keeps_given(s, &c->plan)))
        note_best(s, c);
    s->result.tried += new;
    s->result.uneven += new &&auto_is_uneven(&c->plan);
    s->result.too_big += new && !c->fits;
    s->result.offloaded += new && (c->plan.offload & OFFLOAD_OPTIMIZER) != 0;
    return STATUS_OK;
}

enum status auto_try_plan(struct auto_state *s, struct auto_trial *t,
                          const struct auto_saving *saving, bool *fits)
{
    enum status st;
    struct auto_result *all = &s->result;
    struct auto_candidate c = {.placement = t->shape.placement,
                               .depth = t->shape.pipeline,
                               .devices = auto_devices(&t->shape),
                               .baseline = t->shape.baseline};
    TRY(auto_make_plan(s, t, saving, &c.plan));
    TRY(auto_score(s, &c));
    *fits = c.fits;
    t->stuck = isinf(c.quick.iteration_s);
    if (t->stuck)
        goto out;
    double bare_s = c.quick.iteration_s - c.quick.gradients_s;
    /* what a rank waits for in every pass, those behind it wait for, too; beyond few devices it
     * takes twice as long to know better */
    if (saving->zero < 2 || t->shape.pipeline == 1 || s->t->n > AUTO_SMALL)
        t->bare_s[saving->recompute] = fmax(t->bare_s[saving->recompute], bare_s);
    t->least_s = fmin(t->least_s, c.quick.iteration_s);
    if (t->kept == SIZE_MAX) {
        TRY(ARRAY_ROOM(all->candidate, all->n));
        t->kept = all->n++;
        all->candidate[t->kept] = c;
        c.plan = (struct plan){0};
    } else {
        auto_take_better(&c, &all->candidate[t->kept]);
    }
out:
    plan_free(&c.plan);
    return st;
}

/* ---- one schedule */

/* The rule that keeps foreline run from executing the saving in the trial; NULL: it can. */
static const struct rule *not_run(const struct auto_state *s, const struct auto_trial *t,
                                  const struct auto_saving *saving)
{
    struct strategy shared = t->shape.shared;
    struct strategy_stage own = strategy_at_least_usual(&t->shape.own);
    trial_apply_saving(s, &t->shape, saving, &shared, &own);
    const struct rule_view v = {
        .open = KNOB_BIT(stages) | KNOB_BIT(layers),
        .shared = &shared,
        .n = 1,
        .own = (const char *)&own,
        .facts = {.schedule = t->schedule, .chunks = t->shape.chunks, .model = &s->rules}};
    return rules_broken(&v, RULE_NOT_RUN | RULE_NOT_COMPUTED, NULL);
}

/* Is the saving one for the trial: what is given, executable, and not without effect? */
bool auto_saving_wanted(struct auto_state *s, const struct auto_trial *t,
                        const struct auto_saving *saving)
{
    bool replicas = t->shape.replicas > 1, whole = !t->schedule->split;
    bool zero = saving->zero == 0 || (replicas && !t->schedule->asynchronous);
    if (auto_given(s, KNOB_BIT(zero)) && s->r->fixed.zero > 0)
        zero = true; /* is kept even where there is nobody to share with */
    if ((saving->keep && s->r->fixed.zero_keep) ||
        (saving->hybrid && !auto_may_group(s, &t->shape)))
        return false;
    if (t->shape.uneven && saving->zero > 1)
        return false; /* sums in the middle of the iteration need replicas that are in step */
    if (!given(s, saving) || !zero ||
        (saving->buckets && (!replicas || !whole || t->schedule->asynchronous)))
        return false;
    const struct rule *broken = s->r->executable ? not_run(s, t, saving) : NULL;
    s->result.not_run = broken ? broken : s->result.not_run;
    return !broken;
}

static void trial_note_outcome(struct auto_trial *t, const struct auto_saving *saving, bool usual,
                               bool fits)
{
    if (fits)
        t->fits[saving->recompute] |= 1u << auto_spread(saving);
    if (!fits && usual)
        t->too_big |= auto_memory_bit(saving);
}

/* The savings from the cheapest on. The filters leave out what is lighter than the usual schedule
 * needed, what cannot fit at all, what is more than enough, and what cannot be faster. */
static enum status try_schedule(struct auto_state *s, struct auto_trial *t)
{
    bool fits = false, left_out = false;
    t->kept = SIZE_MAX;
    t->begun = true;
    PASS(auto_count_flight(s, t));
    for (size_t k = 0; k < RECOMPUTE_KINDS; k++) {
        t->fits[k] = 0;
        t->bare_s[k] = 0;
    }
    for (t->saving = 0; t->saving < AUTO_SAVINGS; t->saving++) {
        const struct auto_saving *saving = &auto_savings[t->saving];
        if (!auto_saving_wanted(s, t, saving))
            continue;
        PASS(auto_leaves_out(s, AUTO_SAVING, t, &left_out));
        if (left_out)
            continue;
        PASS(auto_try_plan(s, t, saving, &fits));
        if (!t->stuck)
            trial_note_outcome(t, saving, t->schedule == s->usual, fits);
    }
    return STATUS_OK;
}

/* ---- schedules and chunks */

bool auto_schedule_wanted(const struct auto_state *s, const struct schedule *schedule,
                          const struct auto_shape *shape)
{
    if (s->r->fixed.schedule)
        return strcmp(s->r->fixed.schedule, schedule->name) == 0 &&
               schedule_allows(schedule, shape->chunks);
    if (shape->pipeline == 1)
        return schedule == &schedule_one_f_one_b; /* all the same */
    bool hides = schedule->hides && shape->expert_parallel > 1 &&
                 (!schedule->crossed || shape->replicas % 2 == 0);
    return (schedule->searched || hides) && schedule->chunked == (shape->chunks > 1) &&
           schedule_allows(schedule, shape->chunks);
}

static enum status cut_shape(const struct auto_state *s, const struct auto_shape *shape,
                             const struct partition_request *r, struct plan *out)
{
    bool large = s->m->n > AUTO_CELLS / r->stages;
    return partition_run(large           ? &partition_hierarchical
                         : shape->uneven ? &partition_uneven
                                         : &partition_balanced,
                         s->m, s->t, r, out);
}

/* The shape is cut when a schedule asks for it, and anew when that wants its stages elsewhere. */
enum status auto_cut_for(const struct auto_state *s, struct auto_trial *t, struct plan *cut)
{
    struct partition_request request = auto_request_for(s, &t->shape);
    const struct schedule *made = NULL;
    if (cut->stage)
        PASS(schedule_find(cut->schedule, &made));
    if (made && made->vee == t->schedule->vee)
        return STATUS_OK;
    plan_free(cut);
    t->begun = false;
    t->least_s = INFINITY;
    if (t->shape.chunks > 1)
        request.schedule = t->schedule->name;
    return cut_shape(s, &t->shape, &request, cut);
}

/* With the usual schedule first. */
enum status auto_try_cut(struct auto_state *s, struct auto_trial *t)
{
    enum status st = STATUS_OK;
    struct plan cut = {0};
    t->cut = &cut;
    t->least_s = INFINITY;
    t->too_big = 0;
    t->begun = false;
    t->schedule = s->usual;
    if (t->shape.uneven) /* is made by a cut already */
        TRY(auto_cut_for(s, t, &cut));
    for (size_t k = 0; k <= schedules_n && !s->result.interrupted; k++) {
        bool left_out = false;
        t->schedule = k == 0 ? s->usual : schedules[k - 1];
        if ((k > 0 && t->schedule == s->usual) || !auto_schedule_wanted(s, t->schedule, &t->shape))
            continue;
        TRY(auto_cut_for(s, t, &cut));
        TRY(auto_leaves_out(s, AUTO_SCHEDULE, t, &left_out));
        s->result.interrupted = auto_is_spent(s);
        if (left_out || s->result.interrupted)
            continue;
        TRY(try_schedule(s, t));
    }
out:
    plan_free(&cut);
    return st;
}

/* May every rank have so many stages? The number is given, or a power of two. Microbatches that are
 * no multiple of the ranks leave a gap in the last group of them: on more than AUTO_UNEVEN devices
 * such plans are not tried. */
bool auto_chunks_wanted(const struct auto_state *s, const struct auto_shape *shape, uint32_t chunks)
{
    size_t stages = (size_t)shape->pipeline * chunks;
    if (stages > shape->most_stages || !auto_wanted(s->r->fixed.stages, stages))
        return false;
    if (!auto_wanted(s->r->fixed.chunks, chunks))
        return false;
    bool may = s->r->fixed.chunks || (chunks & (chunks - 1)) == 0;
    bool even = s->t->n <= AUTO_UNEVEN || s->r->fixed.chunks ||
                (uint64_t)auto_microbatches(s, shape) % shape->pipeline == 0;
    return chunks == 1 || (may && shape->pipeline > 1 && even);
}

/* In both placements, where they differ. */
static enum status try_shape(struct auto_state *s, const struct auto_shape *shape)
{
    struct auto_trial t = {.shape = *shape};
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : AUTO_CHUNKS;
    bool alike = shape->pipeline == 1 || shape->replicas == 1;
    int last = alike ? PLACE_PIPELINES : (int)auto_last_placement(s);
    int first = alike ? PLACE_PIPELINES : (int)auto_first_placement(s);
    for (int p = first; p <= last && !s->result.interrupted; p++) {
        bool left_out = false;
        t.shape.placement = (enum partition_placement)p;
        PASS(auto_leaves_out(s, AUTO_SHAPE, &t, &left_out));
        for (uint32_t chunks = 1; chunks <= most && !left_out; chunks++) {
            t.shape.chunks = chunks;
            if (auto_chunks_wanted(s, shape, chunks))
                PASS(auto_try_cut(s, &t));
        }
    }
    return STATUS_OK;
}

/* The most promising first, so that the filters that compare with the best plan leave out most. */
enum status auto_try_class(struct auto_state *s)
{
    enum status st;
    struct auto_shapes all = {0};
    TRY(auto_list_shapes(s, &all));
    for (size_t i = 0; i < all.n; i++)
        s->bound_s = fmin(s->bound_s, all.shape[i].bound_s);
    for (size_t i = 0; i < all.n && !s->result.interrupted; i++) {
        s->result.interrupted = auto_is_spent(s);
        if (!s->result.interrupted)
            TRY(try_shape(s, &all.shape[i]));
    }
out:
    free(all.shape);
    return st;
}
