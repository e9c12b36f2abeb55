/* The plans that `auto` makes of its shapes: each schedule, and as little saving of memory as makes
 * it fit. What is left out is for the filters to say (auto_filters.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/text.h"
#include "partition/auto_search.h"

const struct auto_saving auto_savings[AUTO_SAVINGS] = {
    {RECOMPUTE_NONE, 0},      {RECOMPUTE_NONE, 1}, {RECOMPUTE_SELECTIVE, 0},
    {RECOMPUTE_SELECTIVE, 1}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_FULL, 1}};

/* Score the plan with its schedule and one way to save memory. *fits: it does. */
static enum status try_plan(struct auto_state *s, const struct auto_trial *t,
                            const struct auto_saving *saving, bool *fits)
{
    enum status st;
    struct auto_candidate c = {
        .placement = t->shape.placement, .depth = t->shape.depth, .role = t->shape.role};
    TRY(plan_copy(t->cut, &c.plan));
    free(c.plan.schedule);
    c.plan.schedule = NULL;
    TRY(text_copy(t->schedule->name, &c.plan.schedule));
    c.plan.zero = saving->zero;
    for (size_t k = 0; k < c.plan.stages; k++)
        c.plan.stage[k].recompute = saving->recompute;
    TRY(s->e->quick(s->e->context, &c.plan, &c.quick));
    *fits = c.fits = c.quick.headroom_bytes >= 0;
    if (c.fits)
        s->best_s = fmin(s->best_s, c.quick.iteration_s);
    s->result.tried++;
    s->result.too_big += !c.fits;
    TRY(ARRAY_ROOM(s->result.candidate, s->result.n));
    s->result.candidate[s->result.n++] = c;
    c.plan = (struct plan){0};
out:
    plan_free(&c.plan);
    return st;
}

static bool saving_wanted(const struct auto_state *s, const struct auto_trial *t,
                          const struct auto_saving *saving)
{
    return (saving->zero == 0 || t->shape.replicas > 1) &&
           !(s->r->executable && saving->recompute != RECOMPUTE_NONE && t->schedule->split);
}

/* The savings from the cheapest on. The filters end the row: what is lighter than the usual schedule
 * needed, what cannot fit at all, and what is more than enough. */
static enum status try_schedule(struct auto_state *s, struct auto_trial *t)
{
    bool fits = false, left_out = false, usual = t->schedule == s->usual;
    const struct auto_saving given = {s->r->fixed.recompute, s->r->fixed.zero};
    t->fitting = AUTO_NONE;
    if (t->first_since == SIZE_MAX)
        t->first_since = s->result.n;
    if (s->r->memory_given)
        return try_plan(s, t, &given, &fits);
    for (t->saving = 0; t->saving < AUTO_SAVINGS; t->saving++) {
        if (!saving_wanted(s, t, &auto_savings[t->saving]))
            continue;
        PASS(auto_leaves_out(s, AUTO_SAVING, t, &left_out));
        if (left_out)
            continue;
        if (usual && t->fitting == AUTO_NONE)
            t->usual_saving = t->saving;
        PASS(try_plan(s, t, &auto_savings[t->saving], &fits));
        if (fits && t->fitting == AUTO_NONE)
            t->fitting = t->saving;
    }
    return STATUS_OK;
}

static bool schedule_wanted(const struct auto_state *s, const struct schedule *schedule,
                            const struct auto_shape *shape)
{
    if (s->r->fixed.schedule)
        return strcmp(s->r->fixed.schedule, schedule->name) == 0 &&
               (shape->chunks == 1 || schedule->chunked);
    if (shape->depth == 1)
        return schedule == &schedule_one_f_one_b; /* all the same */
    return schedule->searched && schedule->chunked == (shape->chunks > 1);
}

/* The shape with so many chunks, in every schedule for them, the usual one first. It is cut when a
 * schedule asks for it. */
static enum status try_chunks(struct auto_state *s, struct auto_trial *t)
{
    enum status st = STATUS_OK;
    struct plan cut = {0};
    struct partition_request request = auto_request_for(s, &t->shape);
    t->cut = &cut;
    t->first_since = SIZE_MAX;
    for (size_t k = 0; k <= schedules_n && !s->result.interrupted; k++) {
        bool left_out = false;
        t->schedule = k == 0 ? s->usual : schedules[k - 1];
        if ((k > 0 && t->schedule == s->usual) || !schedule_wanted(s, t->schedule, &t->shape))
            continue;
        TRY(auto_leaves_out(s, AUTO_SCHEDULE, t, &left_out));
        s->result.interrupted = auto_must_stop(s);
        if (left_out || s->result.interrupted)
            continue;
        if (!cut.stage)
            TRY(partition_run(t->shape.algorithm, s->m, s->t, &request, &cut));
        TRY(try_schedule(s, t));
    }
out:
    plan_free(&cut);
    return st;
}

static bool has_ties(const struct model *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->op[i].shares != MODEL_NO_OP)
            return true;
    return false;
}

static bool chunks_wanted(const struct auto_state *s, const struct auto_shape *shape,
                          uint32_t chunks)
{
    size_t stages = (size_t)shape->depth * chunks;
    uint64_t mine = s->r->samples / shape->microbatch_size / shape->replicas;
    if (stages > shape->most_stages || !auto_wanted(s->r->fixed.stages, stages))
        return false;
    if (s->r->fixed.chunks)
        return chunks == s->r->fixed.chunks;
    return chunks == 1 || ((chunks & (chunks - 1)) == 0 && shape->depth > 1 &&
                           mine % shape->depth == 0 && !(s->r->executable && has_ties(s->m)));
}

/* In both placements, where they differ. */
static enum status try_shape(struct auto_state *s, const struct auto_shape *shape)
{
    struct auto_trial t = {.shape = *shape};
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : AUTO_CHUNKS;
    int last = shape->depth == 1 || shape->replicas == 1 ? PLACE_PIPELINES : PLACE_REPLICAS;
    for (int p = PLACE_PIPELINES; p <= last && !s->result.interrupted; p++) {
        bool left_out = false;
        size_t before = s->result.n;
        t.shape.placement = (enum partition_placement)p;
        PASS(auto_leaves_out(s, AUTO_SHAPE, &t, &left_out));
        for (uint32_t chunks = 1; chunks <= most && !left_out; chunks++) {
            t.shape.chunks = chunks;
            if (chunks_wanted(s, shape, chunks))
                PASS(try_chunks(s, &t));
        }
        t.nothing_fitted = !left_out && s->result.n == before;
    }
    return STATUS_OK;
}

/* Best bound first, so that the filters that compare with the best plan leave out most. */
enum status auto_try_all(struct auto_state *s)
{
    enum status st;
    struct auto_shapes all = {0};
    s->usual = &schedule_one_f_one_b;
    if (s->r->fixed.schedule)
        TRY(schedule_find(s->r->fixed.schedule, &s->usual));
    TRY(auto_list_shapes(s, &all));
    for (size_t i = 0; i < all.n && !s->result.interrupted; i++) {
        s->result.interrupted = auto_must_stop(s);
        if (!s->result.interrupted)
            TRY(try_shape(s, &all.shape[i]));
    }
out:
    free(all.shape);
    return st;
}

/* ---- baselines */

/* A uniform pipeline in every microbatch size; verify() keeps the best one. *tried: there was one. */
static enum status try_baseline(struct auto_state *s, size_t depth, size_t replicas,
                                const char *role, bool *tried)
{
    enum status st = STATUS_OK;
    struct plan cut = {0};
    const struct auto_saving given = {s->r->fixed.recompute, s->r->fixed.zero};
    for (size_t size = 1; size <= s->r->samples; size *= 2) {
        struct auto_trial t = {.cut = &cut,
                               .shape = {.depth = (uint32_t)depth,
                                         .chunks = 1,
                                         .replicas = (uint32_t)replicas,
                                         .shards = 1,
                                         .microbatch_size = (uint32_t)size,
                                         .role = role}};
        struct partition_request request = auto_request_for(s, &t.shape);
        bool fits;
        TRY(schedule_find(request.schedule, &t.schedule));
        if (!auto_divides(s, size, replicas))
            continue;
        st = partition_run(&partition_uniform, s->m, s->t, &request, &cut);
        if (st == STATUS_INVALID) /* a schedule that needs chunks */
            continue;
        TRY(st);
        TRY(try_plan(s, &t, &given, &fits));
        plan_free(&cut);
        *tried = true;
    }
    st = STATUS_OK;
out:
    plan_free(&cut);
    return st;
}

/* The deepest pipeline that anybody would try: a stage for each device, or with replicas. */
static size_t deepest(const struct auto_state *s)
{
    size_t most = s->t->n < s->m->n ? s->t->n : s->m->n,
           depth = most < AUTO_DEEP ? most : AUTO_DEEP;
    while (most > AUTO_DEEP && depth > 1 && s->t->n % depth != 0)
        depth--;
    return depth;
}

static bool has_role(const struct auto_result *r, const char *role)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->candidate[i].role == role)
            return true;
    return false;
}

/* The two plans that everybody would try first, where they can be made. */
enum status auto_try_baselines(struct auto_state *s)
{
    size_t depth = deepest(s);
    bool tried = has_role(&s->result, auto_data_parallel_role);
    for (size_t replicas = s->t->n; replicas > 0 && !tried; replicas--)
        PASS(try_baseline(s, 1, replicas, auto_data_parallel_role, &tried));
    tried = false;
    for (size_t replicas = depth < AUTO_DEEP ? 1 : s->t->n / depth;
         depth > 1 && replicas > 0 && !tried; replicas--)
        PASS(try_baseline(s, depth, replicas, auto_uniform_role, &tried));
    return STATUS_OK;
}
