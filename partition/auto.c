/* auto - searches shapes, schedules and savings, keeps what was tried, and ranks the finalists. */
#include "partition/auto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "partition/auto_search.h"
#include "partition/device_order.h"

const char auto_candidate_role[] = "candidate";
const char auto_data_parallel_role[] = "data-parallel baseline";
const char auto_uniform_role[] = "uniform pipeline baseline";

void auto_result_free(struct auto_result *r)
{
    for (size_t i = 0; r->candidate && i < r->n; i++)
        plan_free(&r->candidate[i].plan);
    free(r->candidate);
    *r = (struct auto_result){0};
}

bool auto_must_stop(const struct auto_state *s)
{
    return (s->r->stop && *s->r->stop) ||
           (s->r->time_limit_s > 0 && clock_now() - s->begin_s > s->r->time_limit_s);
}

/* ---- order of candidates: what fits, then the shorter iteration, then fewer stages */

static const struct evaluation *best_evaluation(const struct auto_candidate *c)
{
    return c->verified ? &c->thorough : &c->quick;
}

enum { MERITS = 7 };

static void merits(const struct auto_candidate *c, double out[MERITS])
{
    const struct plan *p = &c->plan;
    const double merit[MERITS] = {!c->fits,
                                  best_evaluation(c)->iteration_s,
                                  (double)p->stages,
                                  p->microbatch_size,
                                  p->stage[0].tensor_parallel,
                                  p->stage[0].recompute,
                                  p->zero};
    memcpy(out, merit, sizeof merit);
}

static int by_merit(const void *a, const void *b)
{
    const struct auto_candidate *x = a, *y = b;
    double p[MERITS], q[MERITS];
    merits(x, p);
    merits(y, q);
    for (size_t k = 0; k < MERITS; k++)
        if (p[k] < q[k] || p[k] > q[k])
            return p[k] < q[k] ? -1 : 1;
    int schedule = strcmp(x->plan.schedule, y->plan.schedule);
    if (schedule != 0)
        return schedule;
    if (x->placement != y->placement)
        return x->placement < y->placement ? -1 : 1;
    return strcmp(x->role, y->role);
}

/* ---- finalists */

/* Has a kept candidate the same stages and placement? */
static bool shape_is_kept(const struct auto_result *r, size_t kept, const struct auto_candidate *c)
{
    for (size_t i = 0; i < kept; i++)
        if (r->candidate[i].role == c->role && r->candidate[i].placement == c->placement &&
            r->candidate[i].plan.stages == c->plan.stages &&
            r->candidate[i].plan.stage[0].tensor_parallel == c->plan.stage[0].tensor_parallel)
            return true;
    return false;
}

/* Keep the best of each baseline, and as finalists the best of each shape first: the quick
 * evaluator does not see contention, which hits the plans of one shape alike. */
static void select_finalists(struct auto_state *s)
{
    struct auto_result *out = &s->result;
    size_t kept = 0, finalists = 0, n = out->n;
    double effort = 0;
    qsort(out->candidate, n, sizeof *out->candidate, by_merit);
    for (int round = 0; round < 2; round++)
        for (size_t i = kept; i < n; i++) {
            struct auto_candidate c = out->candidate[i];
            bool known = shape_is_kept(out, kept, &c), baseline = c.role != auto_candidate_role;
            bool room = finalists < s->r->finalists && (finalists < 1 || s->r->effort == 0 ||
                                                        effort + c.quick.effort <= s->r->effort);
            bool keep = !(known && (baseline || round == 0)) && (baseline || room);
            if (!keep)
                continue;
            finalists += !baseline;
            effort += baseline ? 0 : c.quick.effort;
            memmove(&out->candidate[kept + 1], &out->candidate[kept], (i - kept) * sizeof c);
            out->candidate[kept++] = c;
        }
    for (size_t i = kept; i < n; i++)
        plan_free(&out->candidate[i].plan);
    out->n = kept;
}

/* Have the finalists evaluated as well as it gets, and rank them by that. */
static enum status verify(struct auto_state *s)
{
    enum status st = STATUS_OK;
    struct auto_result *out = &s->result;
    const struct plan **plan = NULL;
    struct evaluation *found = NULL;
    size_t n = 0;
    select_finalists(s);
    TRY(ARRAY_NEW(plan, out->n));
    TRY(ARRAY_NEW(found, out->n));
    /* They come first; the others are not worth it when there are any. */
    while (n < out->n && (out->candidate[n].fits || n == 0 || !out->candidate[0].fits))
        n++;
    for (size_t i = 0; i < n; i++)
        plan[i] = &out->candidate[i].plan;
    TRY(s->e->thorough(s->e->context, plan, n, found));
    for (size_t i = 0; i < n; i++) {
        struct auto_candidate *c = &out->candidate[i];
        c->thorough = found[i];
        c->verified = true;
        c->fits = c->thorough.headroom_bytes >= 0;
    }
    qsort(out->candidate, out->n, sizeof *out->candidate, by_merit);
out:
    free(found);
    free(plan);
    return st;
}

/* 1. Order the devices. 2. Try what the filters let through, by the quick evaluator. 3. Add the
 * baselines. 4. Choose finalists, evaluate them thoroughly and rank them. */
enum status auto_search(const struct model *m, const struct topology *t,
                        const struct auto_request *r, const struct evaluator *e,
                        struct auto_result *out)
{
    enum status st;
    struct auto_state s = {
        .m = m, .t = t, .r = r, .e = e, .begin_s = clock_now(), .best_s = INFINITY};

    TRY(ARRAY_NEW(s.order, t->n));
    TRY(device_order_find(t, s.order));
    TRY(auto_try_all(&s));
    if (s.result.n == 0)
        FAIL(STATUS_INFEASIBLE,
             "no plan trains %zu samples per iteration with the given stages, replicas and "
             "microbatches on %zu devices",
             r->samples, t->n);
    TRY(auto_try_baselines(&s));
    TRY(verify(&s));
    *out = s.result;
    s.result = (struct auto_result){0};
out:
    auto_result_free(&s.result);
    free(s.order);
    return st;
}

const struct partition_algorithm partition_auto = {
    .name = "auto",
    .summary = "stages x replicas x shards x placement x microbatch size x schedule x memory, "
               "ranked on SimGrid",
    .guarantee = "best of what it tries, never worse than its baselines",
    .takes = 1u << PARTITION_FINALISTS | 1u << PARTITION_TIME_LIMIT | 1u << PARTITION_EXECUTABLE,
};
