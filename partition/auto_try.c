/* The plans that `auto` makes of its shapes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "partition/auto_search.h"

enum { DEEPER = 4 };              /* times the stages of a pipeline that fits: not tried */
static const double slack = 1.05; /* the quick evaluator is not the last word */

/* Ways to save memory, the cheapest first. */
static const struct {
    enum plan_recompute recompute;
    uint32_t zero;
} savings[] = {{RECOMPUTE_NONE, 0},      {RECOMPUTE_NONE, 1}, {RECOMPUTE_SELECTIVE, 0},
               {RECOMPUTE_SELECTIVE, 1}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_FULL, 1}};

/* Score the plan with one schedule and one way to save memory. *fits: it does. */
static enum status try_plan(struct search *s, const struct shape *shape, const struct plan *cut,
                            const char *schedule, enum plan_recompute recompute, uint32_t zero,
                            bool *fits)
{
    enum status st;
    struct auto_candidate c = {.placement = shape->placement, .role = shape->role};
    TRY(plan_copy(cut, &c.plan));
    free(c.plan.schedule);
    c.plan.schedule = NULL;
    TRY(text_copy(schedule, &c.plan.schedule));
    c.plan.zero = zero;
    for (size_t k = 0; k < c.plan.stages; k++)
        c.plan.stage[k].recompute = recompute;
    TRY(s->e->quick(s->e->context, &c.plan, &c.quick));
    *fits = c.fits = c.quick.headroom_bytes >= 0;
    if (c.fits && c.quick.iteration_s < s->best_s)
        s->best_s = c.quick.iteration_s;
    s->result.tried++;
    s->result.too_big += !c.fits;
    TRY(auto_keep(s, &c));
out:
    auto_candidate_free(&c);
    return st;
}

/* ---- depths that memory does not ask for */

static uint32_t *shallowest(struct search *s, const struct shape *shape)
{
    uint32_t row = 0, column = 0;
    while (row + 1 < AUTO_SHARDS && (shape->shards >> row) > 1)
        row++;
    while (column + 1 < AUTO_SIZES && (shape->microbatch_size >> column) > 1)
        column++;
    return &s->shallowest[row][column];
}

/* The shape fits without making anything again. */
static void remember(struct search *s, const struct shape *shape)
{
    uint32_t *teams = shallowest(s, shape);
    if (*teams == 0 || shape->teams < *teams)
        *teams = shape->teams;
}

/* A much deeper pipeline than one that fits has nothing to win: it only fills for longer. */
static bool is_too_deep(struct search *s, const struct shape *shape)
{
    uint32_t teams = *shallowest(s, shape);
    return teams > 0 && shape->teams / DEEPER > teams;
}

/* ---- schedules and memory */

/* Can a plan with this saving not fit whatever its schedule? One microbatch of it is looked at. */
static enum status is_hopeless(const struct search *s, const struct plan *cut,
                               enum plan_recompute recompute, uint32_t zero, bool *out)
{
    struct evaluation e;
    struct plan p = *cut; /* borrows all but the stages' flags */
    enum plan_recompute keep = cut->stage[0].recompute;
    p.zero = zero;
    p.microbatches = cut->stage[0].replicas;
    for (size_t k = 0; k < p.stages; k++)
        p.stage[k].recompute = recompute;
    enum status st = s->e->quick(s->e->context, &p, &e);
    for (size_t k = 0; k < p.stages; k++)
        p.stage[k].recompute = keep;
    *out = st == STATUS_OK && e.headroom_bytes < 0;
    return st;
}

static bool is_split(const char *name)
{
    const struct schedule *schedule;
    return schedule_find(name, &schedule) == STATUS_OK && schedule->split;
}

/* As little saving as makes it fit, from savings[*first] on; *first becomes the one that did. When
 * nothing does, one plan stays to say by how much, unless there are others already. */
static enum status try_schedule(struct search *s, const struct shape *shape, const struct plan *cut,
                                const char *schedule, size_t *first)
{
    enum status st = STATUS_OK;
    bool fits = false, hopeless = false;
    size_t n = sizeof savings / sizeof *savings;
    if (s->r->memory_given)
        return try_plan(s, shape, cut, schedule, s->r->fixed.recompute, s->r->fixed.zero, &fits);
    for (size_t k = *first; k < n && !fits; k++) {
        if (savings[k].zero > 0 && shape->replicas == 1)
            continue;
        if (s->r->executable && savings[k].recompute != RECOMPUTE_NONE && is_split(schedule))
            continue;
        TRY(is_hopeless(s, cut, savings[k].recompute, savings[k].zero, &hopeless));
        if (hopeless && (k + 1 < n || isfinite(s->best_s) || s->result.n > 0)) {
            s->result.bounded += k + 1 == n;
            continue;
        }
        *first = k;
        TRY(try_plan(s, shape, cut, schedule, savings[k].recompute, savings[k].zero, &fits));
        if (fits && savings[k].recompute == RECOMPUTE_NONE)
            remember(s, shape);
        if (fits && savings[k].zero == 0 && shape->replicas > 1) /* a shorter update may pay */
            TRY(try_plan(s, shape, cut, schedule, savings[k].recompute, 1, &fits));
    }
out:
    return st;
}

static bool schedule_wanted(const struct search *s, const struct schedule *schedule,
                            const struct shape *shape)
{
    if (s->r->fixed.schedule)
        return strcmp(s->r->fixed.schedule, schedule->name) == 0 &&
               (shape->chunks == 1 || schedule->chunked);
    if (shape->teams == 1)
        return strcmp(schedule->name, "1f1b") == 0; /* all the same */
    return schedule->searched && schedule->chunked == (shape->chunks > 1);
}

/* The best plan of a shape so far, without the time that its pipeline fills and drains. */
static double steady_s(const struct search *s, const struct shape *shape, size_t since)
{
    double least = INFINITY, mine = auto_microbatches(s, shape);
    for (size_t i = since; i < s->result.n; i++)
        least = fmin(least, s->result.candidate[i].quick.iteration_s);
    return least * mine / (mine + shape->teams - 1);
}

/* The shape with so many chunks, in every schedule for them: first the usual one, the others only
 * if a shorter fill could make them win. *promising: it could. */
static enum status try_chunks(struct search *s, struct shape *shape, uint32_t chunks,
                              size_t *saving, bool *promising)
{
    enum status st = STATUS_OK;
    struct plan cut = {0};
    size_t since = s->result.n, tried = 0;
    shape->chunks = chunks;
    struct partition_request request = auto_request_for(s, shape);
    TRY(partition_run(shape->algorithm, s->m, s->t, &request, &cut));
    if (schedule_wanted(s, s->usual, shape)) {
        TRY(try_schedule(s, shape, &cut, s->usual->name, saving));
        *promising = s->result.n > since && steady_s(s, shape, since) <= s->best_s;
    }
    for (size_t k = 0; k < schedules_n && *promising && !s->result.interrupted; k++) {
        if (schedules[k] == s->usual || !schedule_wanted(s, schedules[k], shape))
            continue;
        size_t own = *saving; /* others keep more activations */
        s->result.interrupted = tried++ > 0 && auto_must_stop(s);
        if (!s->result.interrupted)
            TRY(try_schedule(s, shape, &cut, schedules[k]->name, &own));
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

static bool chunks_wanted(const struct search *s, const struct shape *shape, uint32_t chunks)
{
    size_t stages = (size_t)shape->teams * chunks;
    uint64_t mine = s->r->samples / shape->microbatch_size / shape->replicas;
    if (stages > s->m->n || !auto_wanted(s->r->fixed.stages, stages))
        return false;
    if (s->r->fixed.chunks)
        return chunks == s->r->fixed.chunks;
    return chunks == 1 ||
           (shape->teams > 1 && mine % shape->teams == 0 && !(s->r->executable && has_ties(s->m)));
}

/* Has the other placement of the same shape, which needs as much memory, been tried before? */
static bool is_twin(const struct shape *a, const struct shape *b)
{
    return a->teams == b->teams && a->shards == b->shards && a->replicas == b->replicas &&
           a->microbatch_size == b->microbatch_size;
}

static enum status try_shape(struct search *s, struct shape shape)
{
    enum status st = STATUS_OK;
    bool promising = true, twin = is_twin(&s->before, &shape);
    size_t saving = twin ? s->before_saving : 0, since = s->result.n;
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : AUTO_CHUNKS;
    if (twin && s->before_hopeless) {
        s->result.bounded++;
        return STATUS_OK;
    }
    for (uint32_t chunks = 1; chunks <= most && promising; chunks++) {
        bool power = (chunks & (chunks - 1)) == 0 || chunks == most;
        if (power && chunks_wanted(s, &shape, chunks))
            TRY(try_chunks(s, &shape, chunks, &saving, &promising));
    }
    s->before = shape;
    s->before_saving = saving;
    s->before_hopeless = s->result.n == since;
out:
    return st;
}

/* Best bound first, until no bound is below the best plan that fits. */
enum status auto_try_all(struct search *s)
{
    enum status st;
    struct shapes all = {0};
    const char *usual = s->r->fixed.schedule ? s->r->fixed.schedule : "1f1b";
    TRY(schedule_find(usual, &s->usual));
    TRY(auto_list_shapes(s, &all));
    for (size_t i = 0; i < all.n && !s->result.interrupted; i++) {
        if (all.shape[i].bound_s > slack * s->best_s ||
            (all.shape[i].teams > AUTO_DEEP && isfinite(s->best_s))) {
            s->result.bounded++;
            continue;
        }
        s->result.interrupted = auto_must_stop(s);
        if (is_too_deep(s, &all.shape[i]))
            s->result.bounded++;
        else if (!s->result.interrupted)
            TRY(try_shape(s, all.shape[i]));
    }
out:
    free(all.shape);
    return st;
}

/* A baseline in every microbatch size; verify() keeps the best one. *tried: there was one. */
static enum status try_baseline(struct search *s, size_t teams, size_t replicas, const char *role,
                                bool *tried)
{
    enum status st = STATUS_OK;
    double best_s = s->best_s;
    s->best_s = INFINITY; /* baselines are shown, however bad */
    for (size_t size = 1; size <= s->r->samples; size *= 2) {
        if (!auto_divides(s, size, replicas))
            continue;
        struct shape shape = {.teams = (uint32_t)teams,
                              .chunks = 1,
                              .replicas = (uint32_t)replicas,
                              .shards = 1,
                              .microbatch_size = (uint32_t)size,
                              .placement = PLACE_PIPELINES,
                              .algorithm = s->uniform,
                              .role = role};
        struct plan cut = {0};
        struct partition_request request = auto_request_for(s, &shape);
        const struct schedule *schedule;
        bool fits;
        TRY(schedule_find(request.schedule, &schedule));
        if (partition_run(s->uniform, s->m, s->t, &request, &cut) != STATUS_OK)
            continue; /* a schedule that needs chunks */
        st = try_plan(s, &shape, &cut, schedule->name, s->r->fixed.recompute, s->r->fixed.zero,
                      &fits);
        plan_free(&cut);
        TRY(st);
        *tried = true;
    }
out:
    s->best_s = best_s;
    return st;
}

/* The deepest pipeline that anybody would try: a stage for each device, or with replicas. */
static size_t deep(const struct search *s)
{
    size_t most = s->t->n < s->m->n ? s->t->n : s->m->n,
           teams = most < AUTO_DEEP ? most : AUTO_DEEP;
    if (most > AUTO_DEEP)
        while (teams > 1 && s->t->n % teams != 0)
            teams--;
    return teams;
}

static bool has_role(const struct auto_result *r, const char *role)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->candidate[i].role == role)
            return true;
    return false;
}

/* The two plans that everybody would try first, where they can be made. */
enum status auto_try_baselines(struct search *s)
{
    enum status st = STATUS_OK;
    size_t teams = deep(s);
    bool tried = has_role(&s->result, auto_data_parallel_role);
    for (size_t replicas = s->t->n; replicas > 0 && !tried; replicas--)
        TRY(try_baseline(s, 1, replicas, auto_data_parallel_role, &tried));
    tried = false;
    for (size_t replicas = teams < AUTO_DEEP ? 1 : s->t->n / teams;
         teams > 1 && replicas > 0 && !tried; replicas--)
        TRY(try_baseline(s, teams, replicas, auto_uniform_role, &tried));
out:
    return st;
}
