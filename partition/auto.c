#include "partition/auto.h"

#include <stdlib.h>
#include <string.h>

#include "core/schedule.h"
#include "partition/objective.h"

/* A row of the search: everything that makes one plan. */
struct choice {
    size_t stages;
    uint32_t replicas, microbatch_size;
    const char *schedule, *role;
    const struct partition_algorithm *algorithm;
    enum partition_placement placement;
};

struct search {
    const struct model *m;
    const struct topology *t;
    const struct auto_request *r;
    const struct evaluator *e;
    const struct partition_algorithm *balanced, *uniform;
    double begin_s;
    size_t room;
    struct auto_result result;
};

static const char role_candidate[] = "candidate";
static const char role_data_parallel[] = "data-parallel baseline";
static const char role_uniform[] = "uniform pipeline baseline";

static void candidate_free(struct auto_candidate *c)
{
    plan_free(&c->plan);
}

void auto_result_free(struct auto_result *r)
{
    for (size_t i = 0; r->candidate && i < r->n; i++)
        candidate_free(&r->candidate[i]);
    free(r->candidate);
    *r = (struct auto_result){0};
}

static bool must_stop(const struct search *s)
{
    return (s->r->stop && *s->r->stop) ||
           (s->r->time_limit_s > 0 && objective_now() - s->begin_s > s->r->time_limit_s);
}

/* ---- order of candidates: what fits, then the shorter iteration, then fewer stages */

static const struct evaluation *best_evaluation(const struct auto_candidate *c)
{
    return c->verified ? &c->thorough : &c->quick;
}

static int by_merit(const void *a, const void *b)
{
    const struct auto_candidate *x = a, *y = b;
    double s = best_evaluation(x)->iteration_s, t = best_evaluation(y)->iteration_s;
    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if (s != t)
        return s < t ? -1 : 1;
    if (x->plan.stages != y->plan.stages)
        return x->plan.stages < y->plan.stages ? -1 : 1;
    if (x->plan.microbatch_size != y->plan.microbatch_size)
        return x->plan.microbatch_size < y->plan.microbatch_size ? -1 : 1;
    int schedule = strcmp(x->plan.schedule, y->plan.schedule);
    if (schedule != 0)
        return schedule;
    if (x->placement != y->placement)
        return x->placement < y->placement ? -1 : 1;
    return strcmp(x->role, y->role);
}

/* ---- making and scoring */

static enum status add(struct search *s, struct auto_candidate *c)
{
    struct auto_result *out = &s->result;
    if (out->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct auto_candidate *larger = realloc(out->candidate, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu candidates", room);
        out->candidate = larger;
        s->room = room;
    }
    out->candidate[out->n++] = *c;
    *c = (struct auto_candidate){0};
    return STATUS_OK;
}

static enum status try_choice(struct search *s, const struct choice *choice)
{
    enum status st;
    struct auto_candidate c = {.placement = choice->placement, .role = choice->role};
    struct partition_request request = s->r->fixed;
    request.stages = choice->stages;
    request.replicas = choice->replicas;
    request.microbatch_size = choice->microbatch_size;
    request.microbatches = (uint32_t)(s->r->samples / choice->microbatch_size);
    request.schedule = choice->schedule;
    request.placement = choice->placement;
    TRY(partition_run(choice->algorithm, s->m, s->t, &request, &c.plan));
    TRY(s->e->quick(s->e->context, &c.plan, &c.quick));
    c.fits = c.quick.headroom_bytes >= 0;
    s->result.tried++;
    s->result.too_big += !c.fits;
    TRY(add(s, &c));
out:
    candidate_free(&c);
    return st;
}

/* Can `samples` be trained in microbatches of this size by so many replicas? */
static bool divides(const struct search *s, size_t size, size_t replicas)
{
    size_t microbatches = s->r->samples / size;
    return s->r->samples % size == 0 && microbatches % replicas == 0 &&
           (!s->r->fixed.microbatches || s->r->fixed.microbatches == microbatches) &&
           (!s->r->fixed.microbatch_size || s->r->fixed.microbatch_size == size);
}

static bool wanted(size_t fixed, size_t value)
{
    return fixed == 0 || fixed == value;
}

/* Every schedule and placement of one shape. */
static enum status try_shape(struct search *s, size_t stages, size_t replicas, size_t size)
{
    enum status st = STATUS_OK;
    bool single = stages == 1 || replicas == 1; /* both placements are the same */
    for (size_t k = 0; k < schedules_n; k++) {
        if (s->r->fixed.schedule && strcmp(s->r->fixed.schedule, schedules[k].name) != 0)
            continue;
        for (int p = PLACE_PIPELINES; p <= (single ? PLACE_PIPELINES : PLACE_REPLICAS); p++) {
            if (must_stop(s)) {
                s->result.interrupted = true;
                return STATUS_OK;
            }
            struct choice c = {stages,
                               (uint32_t)replicas,
                               (uint32_t)size,
                               schedules[k].name,
                               stages == 1 ? role_data_parallel : role_candidate,
                               s->balanced,
                               (enum partition_placement)p};
            TRY(try_choice(s, &c));
        }
    }
out:
    return st;
}

/* Shapes that use as many devices as divide evenly; microbatch sizes in powers of two. */
static enum status try_all(struct search *s)
{
    enum status st = STATUS_OK;
    size_t most = s->t->n < s->m->n ? s->t->n : s->m->n;
    for (size_t stages = 1; stages <= most && !s->result.interrupted; stages++) {
        size_t replicas = s->t->n / stages;
        bool even = s->t->n % stages == 0 || s->r->fixed.stages == stages;
        if (!even || !wanted(s->r->fixed.stages, stages))
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
                TRY(try_shape(s, stages, replicas, size));
                tried = true;
            }
            if (tried)
                break; /* fewer replicas would leave devices idle */
        }
    }
out:
    return st;
}

/* A baseline in every microbatch size; verify() keeps the best one. *tried: there was one. */
static enum status try_baseline(struct search *s, size_t stages, size_t replicas, const char *role,
                                bool *tried)
{
    enum status st = STATUS_OK;
    for (size_t size = 1; size <= s->r->samples; size *= 2) {
        if (!divides(s, size, replicas))
            continue;
        struct choice c = {stages,         (uint32_t)replicas,
                           (uint32_t)size, s->r->fixed.schedule ? s->r->fixed.schedule : "1f1b",
                           role,           s->uniform,
                           PLACE_PIPELINES};
        TRY(try_choice(s, &c));
        *tried = true;
    }
out:
    return st;
}

/* The two plans that everybody would try first, where they can be made. */
static enum status try_baselines(struct search *s)
{
    enum status st = STATUS_OK;
    size_t most = s->t->n < s->m->n ? s->t->n : s->m->n;
    bool tried = wanted(s->r->fixed.stages, 1); /* then it is among the candidates already */
    for (size_t replicas = s->t->n; replicas > 0 && !tried; replicas--)
        TRY(try_baseline(s, 1, replicas, role_data_parallel, &tried));
    if (most > 1)
        TRY(try_baseline(s, most, 1, role_uniform, &tried));
out:
    return st;
}

/* Has a kept candidate the same stages and placement? */
static bool shape_is_kept(const struct auto_result *r, size_t kept, const struct auto_candidate *c)
{
    for (size_t i = 0; i < kept; i++)
        if (r->candidate[i].role == c->role && r->candidate[i].placement == c->placement &&
            r->candidate[i].plan.stages == c->plan.stages)
            return true;
    return false;
}

/* Keep the best of each baseline, and as finalists the best of each shape first: the quick
 * evaluator does not see contention, which hits the plans of one shape alike. */
static void select_finalists(struct search *s)
{
    struct auto_result *out = &s->result;
    size_t kept = 0, finalists = 0, n = out->n;
    qsort(out->candidate, n, sizeof *out->candidate, by_merit);
    for (int round = 0; round < 2; round++)
        for (size_t i = kept; i < n; i++) {
            struct auto_candidate c = out->candidate[i];
            bool known = shape_is_kept(out, kept, &c), baseline = c.role != role_candidate;
            bool keep =
                !(known && (baseline || round == 0)) && (baseline || finalists < s->r->finalists);
            if (!keep)
                continue;
            finalists += !baseline;
            memmove(&out->candidate[kept + 1], &out->candidate[kept], (i - kept) * sizeof c);
            out->candidate[kept++] = c;
        }
    for (size_t i = kept; i < n; i++)
        candidate_free(&out->candidate[i]);
    out->n = kept;
}

static enum status verify(struct search *s)
{
    enum status st = STATUS_OK;
    struct auto_result *out = &s->result;
    select_finalists(s);
    for (size_t i = 0; i < out->n; i++) {
        struct auto_candidate *c = &out->candidate[i];
        TRY(s->e->thorough(s->e->context, &c->plan, &c->thorough));
        c->verified = true;
        c->fits = c->thorough.headroom_bytes >= 0;
    }
    qsort(out->candidate, out->n, sizeof *out->candidate, by_merit);
out:
    return st;
}

enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out)
{
    enum status st;
    struct search s = {.m = m, .t = t, .r = r, .e = e, .begin_s = objective_now()};

    TRY(partition_find("balanced", &s.balanced));
    TRY(partition_find("uniform", &s.uniform));
    TRY(try_all(&s));
    if (s.result.n == 0) {
        st = error_set(
            STATUS_INFEASIBLE,
            "no plan trains %zu samples per iteration with the given stages, replicas and "
            "microbatches on %zu devices",
            r->samples, t->n);
        goto out;
    }
    TRY(try_baselines(&s));
    TRY(verify(&s));
    *out = s.result;
    s.result = (struct auto_result){0};
out:
    auto_result_free(&s.result);
    return st;
}
