/* What `plan` promises: the figures of its table, and that its first plan is the best. */
#include "tests/promise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "core/engine/floor.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/planning.h"

static void demand(enum status st, const char *what)
{
    if (st == STATUS_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, error_message());
    abort();
}

/* ---- floors */

/* Programs without flush have none. */
static struct floor floor_of(const struct program *program, const struct promise_case *c)
{
    struct floor f = {0};
    if (!program->asynchronous)
        demand(program_floor(program, &c->topology, NULL, &f), c->platform_name);
    return f;
}

double promise_floor(const struct promise_case *c, double iteration_s, char cause[32])
{
    struct program program = {0};
    demand(plan_lower(&c->plan, &c->model, &c->topology, &program), c->platform_name);
    struct floor f = floor_of(&program, c);
    if (cause)
        snprintf(cause, 32, "%s", floor_cause_names[f.cause]);
    program_free(&program);
    return f.seconds > 0 ? iteration_s / f.seconds : INFINITY;
}

/* ---- one plan */

double promise_written(const struct promise_case *c, const struct engine *engine,
                       const struct perturbation *perturbation)
{
    const struct provenance by = {.version = "test", .command = "promise"};
    struct loaded_plan l = {0};
    struct measurement m = {0};
    char path[] = "/tmp/foreline-promise-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        abort();
    close(fd);
    demand(plan_write(&c->plan, &c->model, &c->topology, path, &by), path);
    demand(load_plan_only(path, &l), path);
    const struct evaluation_context context = {.model = &l.model,
                                               .topology = &l.topology,
                                               .platform = l.platform,
                                               .detailed = true,
                                               .perturbation = perturbation};
    demand(evaluate_plan(&l.plan, &context, engine, &m, NULL, NULL), path);
    double iteration_s = m.iteration_s;
    measurement_free(&m);
    loaded_plan_free(&l);
    unlink(path);
    return iteration_s;
}

static double simulate(const struct promise_case *c, const struct engine *engine,
                       int64_t *headroom_bytes)
{
    const struct evaluation_context context = {
        .model = &c->model, .topology = &c->topology, .platform = c->path, .no_links = true};
    struct measurement m = {0};
    demand(evaluate_plan(&c->plan, &context, engine, &m, NULL, NULL), c->platform_name);
    double iteration_s = m.iteration_s;
    size_t fullest = measurement_fullest(&m);
    if (headroom_bytes)
        *headroom_bytes = m.rank[fullest].memory_bytes - m.rank[fullest].peak_bytes;
    measurement_free(&m);
    return iteration_s;
}

/* ---- a grid by brute force */

struct grid {
    const struct arguments *a;
    struct promise_case *c;
    size_t batch, tried;
    int64_t reserve_bytes;
    double best_s;
    char best[PROMISE_TEXT];
};

/* The analytic engine is this near to SimGrid, at most: tests/test_promise.c, which asserts it. */
static const double quick_error = 0.01;

/* Nothing is simulated whose floor, which is below every prediction (asserted beside this), is too
 * late already, and SimGrid, which takes a process, only where the plan may be better by the
 * analytic engine. */
static void try_plan(struct grid *g, const struct partition_request *q)
{
    const struct partition_algorithm *a;
    struct program program = {0};
    int64_t headroom_bytes;
    demand(partition_find("balanced", &a), "balanced");
    plan_free(&g->c->plan);
    if (partition_run(a, &g->c->model, &g->c->topology, q, &g->c->plan) != STATUS_OK ||
        plan_lower(&g->c->plan, &g->c->model, &g->c->topology, &program) != STATUS_OK)
        return;
    double floor_s = floor_of(&program, g->c).seconds;
    program_free(&program);
    g->tried++;
    if (floor_s > (1 + quick_error) * g->best_s)
        return;
    double quick_s = simulate(g->c, &engine_analytic, &headroom_bytes);
    if (headroom_bytes < g->reserve_bytes || quick_s > (1 + quick_error) * g->best_s)
        return;
    double true_s = simulate(g->c, &engine_simgrid, NULL);
    if (true_s < g->best_s) {
        g->best_s = true_s;
        promise_text(g->c, g->best);
    }
}

/* Over all replicas and over groups of any size, ZeRO 1 and 3 with parameters kept or not. */
static void try_shared(struct grid *g, struct partition_request q)
{
    for (int keep = 0; keep <= (q.zero % 2 == 1); keep++)
        for (uint32_t group = 1; group < q.replicas || group == 1; group++) {
            q.zero_keep = keep;
            q.zero_group = group > 1 ? group : 0;
            if (group == 1 || (q.zero > 0 && q.replicas % group == 0))
                try_plan(g, &q);
        }
}

static void try_savings(struct grid *g, struct partition_request q)
{
    for (q.zero = 0; q.zero <= (q.replicas > 1 ? 3 : 0); q.zero++)
        for (int k = 0; k < 4; k++) {
            q.sequence_parallel = k & 1;
            q.bucket_bytes = k & 2 ? 25 << 20 : 0;
            if ((q.sequence_parallel && q.tensor_parallel == 1) ||
                (q.bucket_bytes && q.replicas == 1))
                continue;
            try_shared(g, q);
        }
}

static void try_schedules(struct grid *g, struct partition_request q)
{
    for (size_t s = 0; s < schedules_n; s++) {
        if (!schedules[s]->searched)
            continue;
        q.schedule = schedules[s]->name;
        uint32_t teams = (uint32_t)q.stages;
        for (q.chunks = 1; q.chunks <= (schedules[s]->chunked && teams > 1 ? 2 : 1); q.chunks++) {
            q.stages = teams * q.chunks;
            if (schedule_allows(schedules[s], q.chunks))
                try_savings(g, q);
        }
        q.stages = teams;
    }
}

static void try_grid(struct grid *g)
{
    struct partition_request q = plan_request(g->a); /* cuts at layers too, where plan makes them */
    uint32_t devices = (uint32_t)g->c->topology.n;
    for (q.stages = 1; q.stages <= devices; q.stages++)
        for (q.replicas = 1; q.replicas * q.stages <= devices; q.replicas++)
            for (q.tensor_parallel = 1; q.tensor_parallel * q.replicas * q.stages <= devices;
                 q.tensor_parallel *= 2)
                for (uint32_t size = 1; size <= g->batch; size *= 2) {
                    q.microbatch_size = size;
                    q.microbatches = (uint32_t)g->batch / size;
                    if (g->batch % size || q.microbatches % q.replicas)
                        continue;
                    for (int k = 0; k < (q.replicas > 1 && q.stages > 1 ? 2 : 1); k++) {
                        q.placement = k ? PLACE_REPLICAS : PLACE_PIPELINES;
                        try_schedules(g, q);
                    }
                }
}

/* ---- the search */

/* The engine that a row of the table names. */
static const struct engine *engine_of(const struct evaluation *e)
{
    const struct engine *engine = &engine_simgrid;
    demand(engine_find(e->engine, &engine), "engine");
    return engine;
}

static void check_candidates(struct promise_search *p, struct promise_case *c,
                             struct auto_result *found)
{
    double best_baseline = INFINITY;
    for (size_t k = 0; k < found->n; k++) {
        struct auto_candidate *candidate = &found->candidate[k];
        const struct evaluation *e = auto_evaluation(candidate);
        c->plan = candidate->plan;
        double said_s = promise_written(c, engine_of(e), NULL);
        double quick_s = simulate(c, &engine_analytic, NULL);
        p->table_error = fmax(p->table_error, fabs(e->iteration_s / said_s - 1));
        p->table_error = fmax(p->table_error, fabs(candidate->quick.iteration_s / quick_s - 1));
        p->least_true = fmin(p->least_true, promise_floor(c, said_s, NULL));
        p->least_floor = fmin(p->least_floor, promise_floor(c, quick_s, NULL));
        if (candidate->baseline && candidate->fits)
            best_baseline = fmin(best_baseline, said_s);
        if (k == 0) {
            p->winner_s = said_s;
            promise_text(c, p->winner);
        }
        c->plan = (struct plan){0};
    }
    p->over_baseline = p->winner_s / best_baseline - 1;
}

static void search(struct promise_search *p, struct promise_case *c)
{
    struct arguments a = arguments_defaults(TAKES(PLAN_AUTO));
    a.search.time_limit_s = 3600; /* a slow machine finds the same */
    struct auto_result found = {0};
    struct evaluation_context context = {
        .model = &c->model, .topology = &c->topology, .platform = c->path};
    a.model = p->model;
    a.platform = p->platform;
    a.batch = p->batch;
    demand(plan_settle(&a), "arguments");
    demand(plan_search(&a, &context, NULL, &found), p->platform);
    p->candidates = found.n;
    p->infeasible = !found.candidate[0].fits;
    check_candidates(p, c, &found);
    auto_result_free(&found);
    if (p->infeasible || c->topology.n > 8)
        return;
    struct grid g = {.a = &a, .c = c, .batch = p->batch, .best_s = INFINITY};
    demand(plan_reserve(&a, &c->topology.type[0], &g.reserve_bytes), "reserve");
    g.best_s = p->winner_s * 1.000001;
    try_grid(&g);
    p->grid = g.tried;
    p->over_grid = p->winner_s / g.best_s - 1;
    snprintf(p->grid_best, sizeof p->grid_best, "%s", g.best);
}

struct promise_search promise_search(struct promise_random *r, uint32_t family, size_t most)
{
    struct promise_search p = {

        .least_floor = INFINITY,
        .least_true = INFINITY,
        .over_baseline = -INFINITY,
        .over_grid = -INFINITY};
    struct promise_case c = {0};
    promise_model(r, p.model);
    do {
        topology_free(&c.topology);
        free(c.path);
        promise_platform(r, family, p.platform);
        demand(load_topology(p.platform, &c.topology, &c.path), p.platform);
    } while (c.topology.n > most);
    demand(load_model(p.model, &c.model), p.model);
    snprintf(c.model_name, sizeof c.model_name, "%s", p.model);
    snprintf(c.platform_name, sizeof c.platform_name, "%s", p.platform);
    c.plan = (struct plan){0};
    p.devices = c.topology.n;
    p.batch = c.topology.n << promise_below(r, 4);
    search(&p, &c);
    promise_case_free(&c);
    return p;
}

/* ---- the quick engine */

void promise_quick(struct promise_random *r, uint32_t family, size_t n, char name[PROMISE_TEXT],
                   double *quick_s, double *true_s)
{
    struct promise_case c;
    promise_case(r, family, 64, &c);
    snprintf(name, PROMISE_TEXT, "%s on %s", c.model_name, c.platform_name);
    for (size_t k = 0; k < n; k++) {
        promise_plan(r, 64, &c);
        quick_s[k] = simulate(&c, &engine_analytic, NULL);
        true_s[k] = simulate(&c, &engine_simgrid, NULL);
    }
    promise_case_free(&c);
}
