/* The plan of a point, and what a prediction or a run of it comes to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/compare.h"
#include "host/folder.h"
#include "sim/engines.h"
#include "study/campaign_job.h"
#include "study/captured.h"
#include "study/costs.h"
#include "study/expected.h"
#include "study/machine.h"
#include "study/point.h"
#include "study/summary.h"

/* ---- noise: what a planner believes that has measured badly */

/* Number i of a stream of factors, uniform in 1 - noise .. 1 + noise. Counter-based, so that the
 * factor of an op does not depend on how many ops come before it. */
static double off_by(double noise, uint64_t seed, uint64_t i)
{
    return 1 + noise * (2 * random_unit(seed, i) - 1);
}

/* What a planner believes that has measured badly: each op takes another time than it does,
 * forward and backward off by the same factor, and each tier and link of the network has another
 * bandwidth. Latencies and memory stay, which a planner knows from data sheets. */
static void disturb(double noise, uint64_t seed, struct model *m, struct topology *t)
{
    for (size_t i = 0; i < m->n; i++) {
        double factor = off_by(noise, seed, i);
        m->op[i].forward_flop *= factor;
        m->op[i].backward_flop *= factor;
        for (size_t k = 0; k < m->profiles; k++) {
            m->profile[k].forward_s[i] *= factor;
            m->profile[k].backward_s[i] *= factor;
        }
    }
    for (size_t i = 0; i < t->tiers; i++)
        t->tier[i].bandwidth_Bps *= off_by(noise, seed, m->n + i);
    for (size_t i = 0; i < t->links; i++)
        t->link[i].bandwidth_Bps *= off_by(noise, seed, m->n + t->tiers + i);
}

/* ---- evaluation */

/* Load unless it is the last one: points that differ in the plan alone follow each other, as plans
 * come last in most files. */
static enum status need_model(struct point_cache *c, const char *name)
{
    if (c->model_name && !strcmp(c->model_name, name))
        return STATUS_OK;
    free(c->model_name);
    c->model_name = NULL;
    model_free(&c->model);
    PASS(load_model(name, &c->model));
    return text_copy(name, &c->model_name);
}

static enum status need_platform(struct point_cache *c, const char *name)
{
    if (c->platform_name && !strcmp(c->platform_name, name))
        return STATUS_OK;
    free(c->platform_name);
    free(c->path);
    c->platform_name = c->path = NULL;
    topology_free(&c->topology);
    PASS(load_topology(name, &c->topology, &c->path));
    return text_copy(name, &c->platform_name);
}

void point_cache_free(struct point_cache *c)
{
    free(c->model_name);
    free(c->platform_name);
    free(c->path);
    model_free(&c->model);
    topology_free(&c->topology);
    *c = (struct point_cache){0};
}

/* As many replicas of everything as there are devices for: devices x chunks / (stages x shards). */
static void point_fill(const struct topology *t, struct arguments *a)
{
    size_t shards = a->tensor_parallel ? a->tensor_parallel : 1;
    size_t chunks = plan_request(a).chunks, stages = a->stages ? a->stages : 1;
    size_t replicas = t->n * (chunks ? chunks : 1) / (stages * shards);
    a->stages = stages;
    a->replicas = replicas ? (uint32_t)replicas : 1;
    a->chosen |= KNOB_BIT(replicas);
}

/* Plan with the engine that measures, so that a search optimises what is reported; what runs for
 * real is planned so that it can. Where noise is studied, all searches are analytic, those without
 * noise too: SimGrid would read the true platform from its file. */
static enum status point_make_plan(const struct point *p, const struct model *m,
                                   const struct topology *t, const char *path, struct plan *out)
{
    struct arguments a = p->a;
    struct evaluation_context context = {
        .model = m,
        .topology = t,
        .platform = path,
        .engine = arguments_given(&p->a, "noise") ? engine_quick() : p->engine, /* NULL: SimGrid */
        .options = {.collective = p->collective, .paths = p->paths}};
    if (p->fill || p->fill_experts) /* which follow from the others */
        PASS(plan_settle(&a));
    if (p->fill)
        point_fill(t, &a);
    if (p->fill_experts) {
        a.expert_parallel = a.replicas;
        a.chosen |= KNOB_BIT(expert_parallel);
    }
    if (p->engine || p->run.engine) /* predictions and runs of an experiment are of the same plan */
        a.framework = plan_choose_framework(&a, m, t).name;
    if (!p->engine) /* it is going to run */
        a.search.executable = true;
    return plan_make(&a, &context, out);
}

/* Plan on copies of model and platform that are off. The plan is then evaluated on the true ones,
 * which stay in the cache. */
static enum status make_plan_in_noise(const struct point *p, const struct point_cache *c,
                                      struct plan *out)
{
    enum status st;
    struct model m = {0};
    struct topology t = {0};
    char *path = NULL;
    TRY(load_model(p->a.model, &m));
    TRY(load_topology(p->a.platform, &t, &path));
    disturb(p->a.sim.noise, p->a.seed, &m, &t);
    TRY(point_make_plan(p, &m, &t, c->path, out));
out:
    free(path);
    topology_free(&t);
    model_free(&m);
    return st;
}

/* A plan file names its model and platform relative to its own folder. */
static enum status point_read_plan(const struct point *p, struct point_cache *c, struct plan *out)
{
    enum status st;
    struct json_document d = {0};
    char *model = NULL, *platform = NULL;
    TRY(load_plan_names(p->a.plan_file, &(struct load_instead){.platform = p->a.platform}, &d,
                        &model, &platform));
    TRY(load_of_plan(need_model(c, model), "model", p->a.plan_file));
    st = need_platform(c, platform);
    TRY(p->a.platform ? st : load_of_plan(st, "platform", p->a.plan_file));
    TRY(plan_read(&d, &c->model, &c->topology, out));
    if (p->a.framework)
        TRY(plan_set_framework(out, p->a.framework));
out:
    free(model);
    free(platform);
    json_document_free(&d);
    return st;
}

static enum status obtain_plan(const struct point *p, struct point_cache *c, struct plan *out)
{
    if (p->a.plan_file)
        return point_read_plan(p, c, out);
    PASS(need_model(c, p->a.model));
    PASS(need_platform(c, p->a.platform));
    return p->a.sim.noise > 0 ? make_plan_in_noise(p, c, out)
                              : point_make_plan(p, &c->model, &c->topology, c->path, out);
}

/* Of stage 0, which stands for all, but for replicas: a table has one cell for them, the most of a
 * stage where they differ. */
static void describe_plan(const struct plan *p, struct point_result *r)
{
    r->stages = (int64_t)p->stages;
    for (size_t s = 0; s < p->stages; s++)
        r->replicas = p->stage[s].replicas > r->replicas ? p->stage[s].replicas : r->replicas;
    r->tensor_parallel = p->stage[0].tensor_parallel;
    r->microbatches = p->microbatches;
    r->microbatch_size = p->microbatch_size;
    snprintf(r->algorithm, sizeof r->algorithm, "%s", p->algorithm ? p->algorithm : "");
    snprintf(r->schedule, sizeof r->schedule, "%s", p->schedule);
    snprintf(r->framework, sizeof r->framework, "%s", p->framework ? p->framework : "");
}

/* The figures of a measurement that databases keep. Memory is that of the rank with the least
 * headroom, since the plan fails with that one. */
static void describe_run(const struct measurement *m, struct point_result *r)
{
    char reason[AUTO_REASON];
    r->iteration_s = m->iteration_s;
    r->samples_per_s = m->samples_per_s;
    r->tokens_per_s = m->tokens_per_s;
    r->time = breakdown_of(m);
    r->mfu = m->mfu;
    evaluate_reason(m, reason);
    snprintf(r->bottleneck, sizeof r->bottleneck, "%s", reason);
    size_t fullest = measurement_fullest(m);
    if (fullest < m->ranks) {
        const struct measured_rank *rank = &m->rank[fullest];
        r->peak_bytes = rank->peak_bytes;
        r->headroom_bytes = rank->memory_bytes - r->peak_bytes;
        r->weight_bytes = rank->weight_bytes;
        r->gradient_bytes = rank->gradient_bytes;
        r->state_bytes = rank->state_bytes;
        r->stash_bytes = rank->stash_bytes;
        r->scratch_bytes = rank->scratch_bytes;
    }
    if (measurement_overfull(m) > 0) {
        r->status = POINT_TOO_BIG;
        report_lack(m, r->reason);
    }
}

/* What a decision needs besides: devices to pay for, MFU as others count it, how sure all this
 * is. */
static enum status describe_price(const struct plan *p, const struct point_cache *c,
                                  struct point_result *r)
{
    struct training_machine machine;
    struct expected expected;
    PASS(machine_of_plan(p, &c->model, &c->topology, r->samples_per_s, &machine));
    r->plan_devices = (int64_t)machine.devices;
    double counted = model_sample_flop(&c->model);
    if (counted > 0) {
        r->mfu_causal = r->mfu * model_convention_flop(&c->model, MODEL_CAUSAL) / counted;
        r->mfu_square = r->mfu * model_convention_flop(&c->model, MODEL_SQUARE) / counted;
    }
    if (engine_predicts(r->engine) && expected_find(p, &c->model, &c->topology, &expected)) {
        r->expected_error = expected.median;
        r->expected_nine_in_ten = expected.nine_in_ten;
    }
    return STATUS_OK;
}

/* Run a plan by way of files in a folder of its own, as a worker reads its plan from a file. */
static enum status point_run_real(const struct point *p, const struct point_cache *c,
                                  const struct plan *plan, struct measurement *out)
{
    enum status st;
    const struct provenance by = {
        .version = foreline_version, .command = "foreline sweep", .seed = p->a.seed};
    struct point_run how = p->run;
    char dir[FOLDER_TEMPORARY], plan_path[FOLDER_FILE], path[FOLDER_FILE];
    PASS(folder_temporary(dir));
    folder_file(dir, "plan.json", plan_path);
    folder_file(dir, "run.json", path);
    how.by = &by;
    TRY(plan_write(plan, &c->model, &c->topology, plan_path, &by));
    TRY(point_measure(plan_path, &how, path));
    TRY(measurement_read(path, out));
out:
    folder_remove(dir);
    return st;
}

enum status point_write_plan(const struct point *p, const char *path, const struct provenance *by)
{
    enum status st;
    struct point_cache c = {0};
    struct plan plan = {0};
    TRY(obtain_plan(p, &c, &plan));
    TRY(plan_write(&plan, &c.model, &c.topology, path, by));
out:
    plan_free(&plan);
    point_cache_free(&c);
    return st;
}

enum status point_plan(const struct arguments *a, const char *path, const struct provenance *by)
{
    const struct point p = {.a = *a};
    return point_write_plan(&p, path, by);
}

enum status point_plan_alone(const char *model, size_t samples, const char *path,
                             const struct provenance *by)
{
    struct arguments a = arguments_defaults(TAKES(KEY_POINT) | TAKES(KEY_PLAN));
    a.algorithm = "spmd";
    a.papers.overlap = "none";
    a.model = model;
    a.platform = "laptop@devices=1";
    a.batch = samples;
    return point_plan(&a, path, by);
}

static enum status point_measure_run(const struct point *p, struct point_cache *c,
                                     const struct plan *plan, struct measurement *out)
{
    bool perturbed = p->perturbation.jitter > 0 || p->perturbation.n > 0;
    const struct evaluation_context context = {
        .model = &c->model,
        .topology = &c->topology,
        .platform = c->path,
        .options = {.collective = p->collective, .paths = p->paths},
        .perturbation = perturbed ? &p->perturbation : NULL};
    return p->engine ? evaluate_plan(plan, &context, p->engine, out, NULL, NULL)
                     : point_run_real(p, c, plan, out);
}

/* The training, where it is asked for, of iterations that were predicted or run. */
static enum status point_train(const struct point *p, const struct point_cache *c,
                               const struct plan *plan, struct point_result *r)
{
    enum status st;
    const struct evaluation_context on = {.model = &c->model,
                                          .topology = &c->topology,
                                          .platform = c->path,
                                          .options = {.paths = p->paths}};
    struct campaign_settings s = {0};
    struct campaign_job j = {0};
    struct campaign_forecast f;
    if (!(p->a.train_tokens > 0))
        return STATUS_OK;
    TRY(campaign_settings_read(&p->a, c->path, &s));
    s.a.sim.engine = NULL; /* the quick one, for all but the iteration */
    TRY(campaign_job_make(&s, plan, &on, r->iteration_s, &j));
    TRY(campaign_forecast(&j.c, p->a.seed, 0.01, &f));
    if (isinf(f.p50_s))
        FAIL(STATUS_INFEASIBLE,
             "the training does not end: with failures and checkpoints it takes more than %g times "
             "its compute time",
             CAMPAIGN_TOO_LONG);
    r->days = f.p50_s / DAY_S;
    r->effective = f.mean.work_s / f.mean.wall_s;
out:
    campaign_job_free(&j);
    campaign_settings_free(&s);
    return st;
}

/* What a plan that was made in noise costs: its time over that of the best plan known, which is
 * what the same search makes without noise, or the plan itself if that search was beaten. */
static enum status cost_of_noise(const struct point *p, struct point_cache *c,
                                 struct point_result *r)
{
    enum status st = STATUS_OK;
    struct plan quiet = {0};
    struct measurement m = {0};
    r->relative_time = 1;
    if (p->a.sim.noise <= 0)
        return STATUS_OK;
    TRY(point_make_plan(p, &c->model, &c->topology, c->path, &quiet));
    TRY(point_measure_run(p, c, &quiet, &m));
    r->relative_time = r->iteration_s / fmin(r->iteration_s, m.iteration_s);
out:
    measurement_free(&m);
    plan_free(&quiet);
    return st;
}

static enum status point_price(const struct point *p, const struct point_cache *c,
                               struct point_result *r)
{
    enum status st;
    struct prices prices = {0};
    struct inventory parts = {0};
    TRY(prices_read(p->a.measure.prices, &prices));
    TRY(costs_find(c->path, &prices, &parts));
    r->cost = parts.cost;
out:
    inventory_free(&parts);
    prices_free(&prices);
    return st;
}

static enum status point_predict_plan(const struct point *p, struct point_cache *c,
                                      struct point_result *r)
{
    enum status st;
    struct plan plan = {0};
    struct measurement m = {0};
    TRY(obtain_plan(p, c, &plan));
    describe_plan(&plan, r);
    TRY(point_measure_run(p, c, &plan, &m));
    describe_run(&m, r);
    TRY(describe_price(&plan, c, r));
    if (p->a.measure.prices)
        TRY(point_price(p, c, r));
    TRY(point_train(p, c, &plan, r));
    TRY(result_check(r));
    if (p->engine && !p->a.plan_file && arguments_given(&p->a, "noise"))
        TRY(cost_of_noise(p, c, r));
out:
    measurement_free(&m);
    plan_free(&plan);
    return st;
}

/* The script instead of a plan: captured, unless that has been done, and simulated. */
static enum status point_predict_captured(const struct point *p, struct point_cache *cache,
                                          struct point_result *r)
{
    enum status st;
    char folder[CAPTURED_FOLDER];
    struct captured c = {0};
    struct program program = {0};
    struct measurement m = {0};
    TRY(need_platform(cache, p->a.platform));
    TRY(captured_find(&p->a, folder));
    TRY(captured_load(folder, &p->a, &cache->topology, &c, &program));
    program.seed = p->a.seed;
    if (p->perturbation.jitter > 0 || p->perturbation.n > 0)
        TRY(perturb_program(&p->perturbation, &program));
    const struct evaluation_context on = {
        .model = &c.model,
        .topology = &cache->topology,
        .platform = cache->path,
        .options = {.collective = p->collective, .paths = p->paths}};
    TRY(evaluate_program(&program, &on, p->engine, &m, NULL));
    m.captured = true;
    r->plan_devices = (int64_t)c.capture.ranks;
    describe_run(&m, r);
    TRY(result_check(r));
out:
    measurement_free(&m);
    program_free(&program);
    captured_free(&c);
    return st;
}

/* Invalid, infeasible, unsupported: there is no such plan, now or later, and the reason is a
 * result. Everything else (a worker died, a full disk) is a failure that --retry tries again. */
void point_evaluate(const struct point *p, struct point_cache *cache, struct point_result *out)
{
    struct point_result r = {.status = POINT_OK};
    double begin = clock_cpu() + clock_children_cpu();
    snprintf(r.engine, sizeof r.engine, "%s", point_engine(p));
    enum status st = captured_asked(&p->a) ? point_predict_captured(p, cache, &r)
                                           : point_predict_plan(p, cache, &r);
    if (st != STATUS_OK) {
        bool hopeless = st == STATUS_INVALID || st == STATUS_INFEASIBLE || st == STATUS_USAGE ||
                        st == STATUS_PARSE || st == STATUS_UNSUPPORTED;
        r.status = hopeless ? POINT_IMPOSSIBLE : POINT_FAILED;
        snprintf(r.reason, sizeof r.reason, "%s", error_message());
        if (result_check(&r) != STATUS_OK) { /* what is known by then is nothing to keep */
            struct point_result none = {.status = r.status};
            memcpy(none.reason, r.reason, sizeof none.reason);
            memcpy(none.engine, r.engine, sizeof none.engine);
            r = none;
        }
    }
    r.cpu_s = clock_cpu() + clock_children_cpu() - begin;
    *out = r;
}
