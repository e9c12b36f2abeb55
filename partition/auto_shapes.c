/* The plans that `auto` tries. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/schedule.h"
#include "core/text.h"
#include "partition/auto_search.h"

enum {
    MOST_DEEP = 64, /* of a pipeline that is tried unless nothing else fits */
    MOST_CHUNKS = 4,
    DEEPER = 4 /* times the stages of a pipeline that fits: not tried */
};
static const double slack = 1.05; /* the quick evaluator is not the last word */

/* What a plan is made from, but for schedule and memory. */
struct shape {
    uint32_t teams, chunks, replicas, shards, microbatch_size;
    enum partition_placement placement;
    const struct partition_algorithm *algorithm;
    const char *role;
    double bound_s; /* no schedule can be faster */
};

struct shapes {
    size_t n, room;
    struct shape *shape; /* [n] */
};

/* Ways to save memory, the cheapest first. */
static const struct {
    enum plan_recompute recompute;
    uint32_t zero;
} savings[] = {{RECOMPUTE_NONE, 0},      {RECOMPUTE_NONE, 1}, {RECOMPUTE_SELECTIVE, 0},
               {RECOMPUTE_SELECTIVE, 1}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_FULL, 1}};

static bool wanted(size_t fixed, size_t value)
{
    return fixed == 0 || fixed == value;
}

static struct partition_request request_for(const struct search *s, const struct shape *shape)
{
    struct partition_request request = s->r->fixed;
    request.stages = (size_t)shape->teams * shape->chunks;
    request.chunks = shape->chunks;
    request.replicas = shape->replicas;
    request.tensor_parallel = shape->shards;
    request.microbatch_size = shape->microbatch_size;
    request.microbatches = (uint32_t)(s->r->samples / shape->microbatch_size);
    request.placement = shape->placement;
    request.order = s->order;
    if (!request.schedule || shape->chunks > 1)
        request.schedule = shape->chunks > 1 ? "interleaved" : "1f1b";
    return request;
}

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

/* As little saving as makes it fit, from savings[*first] on; *first becomes the one that did. When
 * nothing does, one plan stays to say by how much, unless there are others already. */
static enum status try_schedule(struct search *s, const struct shape *shape, const struct plan *cut,
                                const char *schedule, size_t *first)
{
    enum status st = STATUS_OK;
    bool fits = false, hopeless = false;
    size_t n = sizeof savings / sizeof *savings;
    if (s->r->memory_given || s->r->executable)
        return try_plan(s, shape, cut, schedule, s->r->fixed.recompute, s->r->fixed.zero, &fits);
    for (size_t k = *first; k < n && !fits; k++) {
        if (savings[k].zero > 0 && shape->replicas == 1)
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
    if (s->r->executable && (schedule->split || schedule->chunked))
        return false;
    if (shape->teams == 1)
        return strcmp(schedule->name, "1f1b") == 0; /* all the same */
    return schedule->searched && schedule->chunked == (shape->chunks > 1);
}

static double microbatches_of(const struct search *s, const struct shape *shape)
{
    return (double)(s->r->samples / shape->microbatch_size) / shape->replicas;
}

/* The best plan of a shape so far, without the time that its pipeline fills and drains. */
static double steady_s(const struct search *s, const struct shape *shape, size_t since)
{
    double least = INFINITY, mine = microbatches_of(s, shape);
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
    struct partition_request request = request_for(s, shape);
    TRY(partition_run(shape->algorithm, s->m, s->t, &request, &cut));
    if (schedule_wanted(s, s->usual, shape)) {
        TRY(try_schedule(s, shape, &cut, s->usual->name, saving));
        *promising = s->result.n > since && steady_s(s, shape, since) <= s->best_s;
    }
    for (size_t k = 0; k < schedules_n && *promising && !s->result.interrupted; k++) {
        if (&schedules[k] == s->usual || !schedule_wanted(s, &schedules[k], shape))
            continue;
        s->result.interrupted = tried++ > 0 && auto_must_stop(s);
        if (!s->result.interrupted)
            TRY(try_schedule(s, shape, &cut, schedules[k].name, saving));
    }
out:
    plan_free(&cut);
    return st;
}

static bool chunks_wanted(const struct search *s, const struct shape *shape, uint32_t chunks)
{
    size_t stages = (size_t)shape->teams * chunks;
    uint64_t mine = s->r->samples / shape->microbatch_size / shape->replicas;
    if (stages > s->m->n || !wanted(s->r->fixed.stages, stages))
        return false;
    if (s->r->fixed.chunks)
        return chunks == s->r->fixed.chunks;
    return chunks == 1 || (shape->teams > 1 && !s->r->executable && mine % shape->teams == 0);
}

static enum status try_shape(struct search *s, struct shape shape)
{
    enum status st = STATUS_OK;
    size_t saving = 0;
    bool promising = true;
    uint32_t most = s->r->fixed.chunks ? s->r->fixed.chunks : MOST_CHUNKS;
    for (uint32_t chunks = 1; chunks <= most && promising; chunks++) {
        bool power = (chunks & (chunks - 1)) == 0 || chunks == most;
        if (power && chunks_wanted(s, &shape, chunks))
            TRY(try_chunks(s, &shape, chunks, &saving, &promising));
    }
out:
    return st;
}

/* ---- shapes */

/* Seconds of all ops for one microbatch on the fastest type of device. */
static double work_s(const struct search *s, const struct shape *shape)
{
    struct partition_request r = request_for(s, shape);
    struct cost_split spread = partition_spread(&r);
    double least = INFINITY;
    for (size_t k = 0; k < s->t->types; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < s->m->n; i++) {
            struct op_cost c =
                cost_op(s->m, &s->t->type[k], i, shape->microbatch_size, r.optimizer, &spread);
            sum += c.forward_s + c.backward_s;
        }
        least = fmin(least, sum);
    }
    return least;
}

/* Seconds that the shards' sums of one microbatch take over the fastest links. */
static double sums_s(const struct search *s, const struct shape *shape)
{
    double bytes = 0, fastest = 0, t = shape->shards;
    for (uint32_t i = 0; i < s->m->n; i++) {
        if (s->m->op[i].tensor == TENSOR_ROW)
            bytes += (double)s->m->op[i].output_bytes;
        for (size_t k = s->m->in_start[i]; k < s->m->in_start[i + 1]; k++)
            if (s->m->op[i].tensor == TENSOR_COLUMN)
                bytes += (double)s->m->op[s->m->in[k]].output_bytes;
    }
    for (size_t k = 0; k < s->t->tiers; k++)
        fastest = fmax(fastest, s->t->tier[k].bandwidth_Bps);
    return t > 1 ? 2 * (t - 1) / t * bytes * shape->microbatch_size / fastest : 0;
}

/* Do weights, gradients and state fit when they are spread over everything they may be? */
static bool weights_fit(const struct search *s, const struct shape *shape)
{
    struct cost_memory factor = cost_memory(s->r->fixed.optimizer, s->m->element_bytes);
    double bytes = 0, room = 0, zero = s->r->executable ? 1 : shape->replicas;
    for (size_t i = 0; i < s->m->n; i++)
        bytes += (double)s->m->op[i].parameter_bytes;
    for (size_t k = 0; k < s->t->types; k++)
        room = fmax(room, (double)s->t->type[k].memory_bytes);
    if (s->r->memory_given && s->r->fixed.zero > 1)
        return true;
    return bytes / shape->teams / shape->shards *
               ((double)(factor.weights + factor.gradients) + (double)factor.state / zero) <=
           room;
}

static enum status add_shape(struct search *s, struct shapes *all, struct shape shape,
                             double seconds)
{
    /* work of a device, and the least fill: zb-h1's third, or that of the most chunks */
    double fill = (double)(shape.teams - 1) / MOST_CHUNKS;
    shape.bound_s = (microbatches_of(s, &shape) + fill) * seconds / shape.teams;
    if (!weights_fit(s, &shape) && all->n > 0) {
        s->result.bounded++;
        return STATUS_OK;
    }
    if (all->n == all->room) {
        size_t room = 2 * all->room + 64;
        struct shape *larger = realloc(all->shape, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu shapes", room);
        all->shape = larger;
        all->room = room;
    }
    all->shape[all->n++] = shape;
    return STATUS_OK;
}

/* Can `samples` be trained in microbatches of this size by so many replicas? */
static bool divides(const struct search *s, size_t size, size_t replicas)
{
    size_t microbatches = s->r->samples / size;
    return s->r->samples % size == 0 && microbatches % replicas == 0 &&
           (!s->r->fixed.microbatches || s->r->fixed.microbatches == microbatches) &&
           (!s->r->fixed.microbatch_size || s->r->fixed.microbatch_size == size);
}

/* Both placements. */
static enum status add_shapes(struct search *s, struct shapes *all, struct shape shape)
{
    enum status st = STATUS_OK;
    bool single = shape.teams == 1 || shape.replicas == 1; /* both placements are the same */
    double seconds = work_s(s, &shape) + sums_s(s, &shape);
    shape.algorithm = s->balanced;
    shape.role =
        shape.teams == 1 && shape.shards == 1 ? auto_data_parallel_role : auto_candidate_role;
    for (int p = PLACE_PIPELINES; p <= (single ? PLACE_PIPELINES : PLACE_REPLICAS); p++) {
        shape.placement = (enum partition_placement)p;
        TRY(add_shape(s, all, shape, seconds));
    }
out:
    return st;
}

/* Shapes of `shards` that use as many devices as divide evenly; microbatch sizes in powers of 2. */
static enum status add_shards(struct search *s, struct shapes *all, uint32_t shards)
{
    enum status st = STATUS_OK;
    size_t slots = s->t->n / shards, most = slots < s->m->n ? slots : s->m->n;
    size_t fixed = s->r->fixed.stages, chunks = s->r->fixed.chunks ? s->r->fixed.chunks : 1;
    for (size_t teams = 1; teams <= most && !s->result.interrupted; teams++) {
        size_t replicas = slots / teams;
        bool even = slots % teams == 0 || (fixed && fixed / chunks == teams);
        bool may = fixed == 0 || (fixed % teams == 0 && (chunks == 1 || fixed / chunks == teams));
        if (!even || !may)
            continue;
        for (; replicas > 0 && !s->result.interrupted; replicas--) {
            if (!wanted(s->r->fixed.replicas, replicas))
                continue;
            bool tried = false;
            for (size_t size = 1; size <= s->r->samples; size++) {
                bool power = (size & (size - 1)) == 0 || s->r->fixed.microbatch_size == size ||
                             s->r->fixed.microbatches > 0;
                if (!power || !divides(s, size, replicas))
                    continue;
                TRY(add_shapes(s, all,
                               (struct shape){.teams = (uint32_t)teams,
                                              .replicas = (uint32_t)replicas,
                                              .shards = shards,
                                              .microbatch_size = (uint32_t)size}));
                tried = true;
            }
            if (tried)
                break; /* fewer replicas would leave devices idle */
        }
    }
out:
    return st;
}

/* Does the model say how its ops are split, and does the degree divide all heads? */
static bool splits_into(const struct model *m, uint32_t shards)
{
    bool any = false;
    for (size_t i = 0; i < m->n; i++) {
        any = any || m->op[i].tensor != TENSOR_WHOLE;
        if (model_attribute(&m->op[i], "heads", shards) % shards != 0)
            return false;
    }
    return any || shards == 1;
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

/* Tensor parallelism stays inside a node, where its sums are cheap. */
static enum status add_all(struct search *s, struct shapes *all)
{
    enum status st = STATUS_OK;
    uint32_t fixed = s->r->fixed.tensor_parallel;
    size_t node = node_size(s->t);
    if (fixed)
        return fixed <= s->t->n ? add_shards(s, all, fixed) : STATUS_OK;
    for (uint32_t shards = 1; shards <= node; shards *= 2)
        if (shards == 1 ||
            (!s->r->executable && s->t->n % shards == 0 && splits_into(s->m, shards)))
            TRY(add_shards(s, all, shards));
out:
    return st;
}

/* Very deep pipelines last: only memory may ask for them. */
static int by_bound(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;
    if ((x->teams > MOST_DEEP) != (y->teams > MOST_DEEP))
        return x->teams > MOST_DEEP ? 1 : -1;
    if (x->bound_s != y->bound_s)
        return x->bound_s < y->bound_s ? -1 : 1;
    const uint32_t p[] = {x->shards, x->teams, x->microbatch_size, x->placement};
    const uint32_t q[] = {y->shards, y->teams, y->microbatch_size, y->placement};
    for (size_t k = 0; k < sizeof p / sizeof *p; k++)
        if (p[k] != q[k])
            return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Best bound first, until no bound is below the best plan that fits. */
enum status auto_try_all(struct search *s)
{
    enum status st;
    struct shapes all = {0};
    const char *usual = s->r->fixed.schedule ? s->r->fixed.schedule : "1f1b";
    TRY(schedule_find(usual, &s->usual));
    TRY(add_all(s, &all));
    if (all.n > 0)
        qsort(all.shape, all.n, sizeof *all.shape, by_bound);
    for (size_t i = 0; i < all.n && !s->result.interrupted; i++) {
        if (all.shape[i].bound_s > slack * s->best_s ||
            (all.shape[i].teams > MOST_DEEP && isfinite(s->best_s))) {
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
        if (!divides(s, size, replicas))
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
        struct partition_request request = request_for(s, &shape);
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
           teams = most < MOST_DEEP ? most : MOST_DEEP;
    if (most > MOST_DEEP)
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
    for (size_t replicas = teams < MOST_DEEP ? 1 : s->t->n / teams;
         teams > 1 && replicas > 0 && !tried; replicas--)
        TRY(try_baseline(s, teams, replicas, auto_uniform_role, &tried));
out:
    return st;
}
