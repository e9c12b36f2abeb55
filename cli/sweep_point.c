#include "cli/sweep_point.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/option.h"
#include "cli/report.h"
#include "core/file.h"
#include "core/provenance.h"
#include "core/text.h"
#include "partition/partition.h"
#include "sim/engine.h"

enum { NO_LIMIT_S = 1000000000 };

/* ---- settings */

static const char *algorithm_name(size_t i)
{
    return i == 0 ? "auto" : collective_algorithms[i - 1].name;
}

static enum status set_collective(struct sweep_point *p, const char *value)
{
    size_t n = 1, i;
    while (algorithm_name(n))
        n++;
    if (text_find("collective algorithm", value, algorithm_name, n, &i) != STATUS_OK)
        return error_context(STATUS_USAGE, "collective");
    p->collective.algorithm = i > 0 ? algorithm_name(i) : NULL;
    return STATUS_OK;
}

static enum status set_engine(struct sweep_point *p, const char *value)
{
    return engine_find(value, &p->engine);
}

static enum status set_protocols(struct sweep_point *p, const char *value)
{
    const struct option_spec o = {OPTION_FLAG, "nccl-protocols", &p->collective.nccl_protocols,
                                  NULL, ""};
    return option_set(&o, value);
}

static enum status set_jitter(struct sweep_point *p, const char *value)
{
    return perturbation_parse_jitter(value, &p->perturbation.jitter);
}

static enum status set_slow(struct sweep_point *p, const char *value)
{
    return strcmp(value, "none") != 0 ? perturbation_add_slow(&p->perturbation, value) : STATUS_OK;
}

static enum status set_noise(struct sweep_point *p, const char *value)
{
    enum status st = perturbation_parse_jitter(value, &p->noise);
    if (st == STATUS_OK && p->noise >= 1)
        st = error_set(STATUS_USAGE, "'%s' leaves nothing, expected less than 100%%", value);
    return st;
}

static enum status set_seed(struct sweep_point *p, const char *value)
{
    size_t seed = 0;
    const struct option_spec o = {OPTION_SIZE, "seed", &seed, "N", ""};
    enum status st = option_set(&o, value);
    if (st == STATUS_OK)
        p->plan.seed = p->perturbation.seed = seed;
    return st;
}

static enum status set_plan(struct sweep_point *p, const char *value)
{
    p->plan_file = value;
    return STATUS_OK;
}

/* Part of a name, put together in sweep_point_make(). */
static enum status set_part(struct sweep_point *p, const char *value)
{
    (void)p;
    (void)value;
    return STATUS_OK;
}

static enum status set_devices(struct sweep_point *p, const char *value)
{
    size_t n = 0;
    const struct option_spec o = {OPTION_SIZE, "devices", &n, "N", ""};
    (void)p;
    enum status st = option_set(&o, value);
    return st == STATUS_OK && n == 0 ? error_set(STATUS_USAGE, "devices: expected at least 1") : st;
}

static const struct word {
    const char *name;
    enum status (*set)(struct sweep_point *p, const char *value);
} words[] = {
    {"model", set_part},      {"platform", set_part},
    {"devices", set_devices}, {"plan", set_plan},
    {"engine", set_engine},   {"collective", set_collective},
    {"jitter", set_jitter},   {"nccl-protocols", set_protocols},
    {"slow", set_slow},       {"noise", set_noise},
    {"seed", set_seed},       {"model.KEY", NULL},
    {"platform.KEY", NULL},   {"plan.OPTION", NULL},
};
enum { WORDS = sizeof words / sizeof *words };

static const char *word_name(size_t i)
{
    return words[i].name;
}

static bool begins(const char *key, const char *prefix)
{
    return !strncmp(key, prefix, strlen(prefix)) && key[strlen(prefix)];
}

static enum status set(struct sweep_point *p, const char *key, const char *value)
{
    size_t i;
    if (!strcmp(key, "plan.replicas") && !strcmp(value, "fill")) {
        p->fill = true;
        return STATUS_OK;
    }
    if (begins(key, "plan."))
        return plan_set(&p->plan, key + strlen("plan."), value);
    if (begins(key, "model.") || begins(key, "platform."))
        return STATUS_OK;
    if (text_find("setting", key, word_name, WORDS, &i) != STATUS_OK)
        return STATUS_USAGE;
    if (!words[i].set)
        return error_set(STATUS_USAGE, "no setting is called '%s'", key);
    enum status st = words[i].set(p, value);
    return st == STATUS_OK || st == STATUS_NOMEM ? st : error_context(STATUS_USAGE, "%s", key);
}

/* Does the plan know its algorithm, and are its counts possible? */
static enum status check_plan(const struct sweep_point *p)
{
    const struct partition_algorithm *known;
    struct plan_arguments a = p->plan; /* the check may change it */
    struct partition_request request;
    if (strcmp(a.algorithm, "auto") != 0 && partition_find(a.algorithm, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "plan.algorithm (besides auto)");
    enum status st = plan_request(&a, &request);
    return st == STATUS_OK ? plan_check_arguments(&a) : st;
}

enum status sweep_point_check(void *context, const char *key, const char *value)
{
    struct sweep_point p = {.plan = plan_defaults};
    (void)context;
    enum status st = set(&p, key, value);
    if (st == STATUS_OK)
        st = check_plan(&p);
    perturbation_free(&p.perturbation);
    return st;
}

/* ---- names */

static const char *value_of(const struct experiment_setting *const *setting, size_t n,
                            const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(setting[i]->key, key))
            return setting[i]->value;
    return NULL;
}

static bool is_variant(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot &&
           (!strcmp(dot, ".bandwidth") || !strcmp(dot, ".latency") || !strcmp(dot, ".speed"));
}

/* base, then ":key=value" of the keys that begin with the prefix, then "@key=value" of variants. */
static enum status compose(const struct experiment_setting *const *setting, size_t n,
                           const char *prefix, const char *base, char **out)
{
    size_t length, skip = strlen(prefix);
    char before = strchr(base, ':') ? ',' : ':';
    FILE *to = open_memstream(out, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    fputs(base, to);
    for (size_t i = 0; i < n; i++)
        if (begins(setting[i]->key, prefix) && !is_variant(setting[i]->key)) {
            fprintf(to, "%c%s=%s", before, setting[i]->key + skip, setting[i]->value);
            before = ',';
        }
    before = strchr(base, '@') ? ',' : '@';
    for (size_t i = 0; i < n && !strcmp(prefix, "platform."); i++) {
        bool devices = !strcmp(setting[i]->key, "devices");
        bool change = begins(setting[i]->key, prefix) && is_variant(setting[i]->key);
        if (devices || change) {
            fprintf(to, "%c%s=%s", before, setting[i]->key + (change ? skip : 0),
                    setting[i]->value);
            before = ',';
        }
    }
    return fclose(to) == 0 ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

enum status sweep_point_make(const struct experiment_setting *const *setting, size_t n,
                             const struct engine *engine, struct sweep_point *out)
{
    enum status st = STATUS_OK;
    struct sweep_point p = {.plan = plan_defaults, .engine = &engine_analytic};
    const char *model = value_of(setting, n, "model"), *platform = value_of(setting, n, "platform");
    for (size_t i = 0; i < n; i++)
        TRY(set(&p, setting[i]->key, setting[i]->value));
    if (engine)
        p.engine = engine;
    if (!p.plan_file && (!model || !platform))
        st = error_set(STATUS_USAGE, "model and platform are needed, or plan");
    else if (p.plan_file && model)
        st = error_set(STATUS_USAGE, "plan: a plan file says its model itself");
    TRY(st);
    TRY(check_plan(&p));
    if (model)
        TRY(compose(setting, n, "model.", model, &p.model));
    if (platform)
        TRY(compose(setting, n, "platform.", platform, &p.platform));
    p.plan.model = p.model;
    p.plan.platform = p.platform;
    p.plan.json = true;
    if (p.plan.time_limit_s <= 0)
        p.plan.time_limit_s = NO_LIMIT_S; /* or results would depend on how busy the machine is */
    *out = p;
    p = (struct sweep_point){0};
out:
    sweep_point_free(&p);
    return st;
}

void sweep_point_free(struct sweep_point *p)
{
    perturbation_free(&p->perturbation);
    free(p->model);
    free(p->platform);
    *p = (struct sweep_point){0};
}

/* ---- identity */

static enum status put_file(const char *path, FILE *to)
{
    enum status st;
    char *text = NULL, hex[DIGEST_HEX];
    size_t length;
    TRY(file_read(path, &text, &length));
    digest_hex(text, length, hex);
    fprintf(to, "file %s\n", hex);
out:
    free(text);
    return st;
}

/* Contents of what is a file, for the settings say only its name. */
static enum status put_files(const struct sweep_point *p, FILE *to)
{
    enum status st = STATUS_OK;
    char *path = NULL;
    if (p->model && access(p->model, F_OK) == 0)
        TRY(put_file(p->model, to));
    if (p->plan_file)
        TRY(put_file(p->plan_file, to));
    if (p->platform) {
        TRY(load_platform(p->platform, &path));
        TRY(put_file(path, to));
    }
out:
    free(path);
    return st;
}

enum status sweep_point_hash(const struct experiment_setting *const *setting, size_t n,
                             const struct sweep_point *p, char hash[DIGEST_HEX])
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    fprintf(to, "%s\nengine=%s\n", foreline_version, p->engine->name);
    for (size_t i = 0; i < n; i++)
        if (strcmp(setting[i]->key, "engine") != 0)
            fprintf(to, "%s=%s\n", setting[i]->key, setting[i]->value);
    enum status st = put_files(p, to);
    if (fclose(to) != 0 && st == STATUS_OK)
        st = error_set(STATUS_NOMEM, "out of memory");
    if (st == STATUS_OK)
        digest_hex(text, length, hash);
    free(text);
    return st;
}

/* ---- noise: what a planner believes that has measured badly */

/* Uniform in 1 - noise .. 1 + noise. Source of the generator: Steele, Lea & Flood, SplitMix,
 * OOPSLA 2014. */
static double off_by(double noise, uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return 1 + noise * (2 * ((double)(z >> 11) * 0x1p-53) - 1);
}

static void disturb(double noise, uint64_t seed, struct model *m, struct topology *t)
{
    uint64_t state = seed;
    for (size_t i = 0; i < m->n; i++) {
        double factor = off_by(noise, &state);
        m->op[i].forward_flop *= factor;
        m->op[i].backward_flop *= factor;
        for (size_t k = 0; k < m->profiles; k++) {
            m->profile[k].forward_s[i] *= factor;
            m->profile[k].backward_s[i] *= factor;
        }
    }
    for (size_t i = 0; i < t->tiers; i++)
        t->tier[i].bandwidth_Bps *= off_by(noise, &state);
}

/* ---- evaluation */

/* Load unless it is the last one. */
static enum status need_model(struct sweep_cache *c, const char *name)
{
    enum status st;
    if (c->model_name && !strcmp(c->model_name, name))
        return STATUS_OK;
    free(c->model_name);
    c->model_name = NULL;
    model_free(&c->model);
    TRY(load_model(name, &c->model));
    TRY(text_copy(name, &c->model_name));
out:
    return st;
}

static enum status need_platform(struct sweep_cache *c, const char *name)
{
    enum status st;
    if (c->platform_name && !strcmp(c->platform_name, name))
        return STATUS_OK;
    free(c->platform_name);
    free(c->path);
    c->platform_name = c->path = NULL;
    topology_free(&c->topology);
    TRY(load_topology(name, &c->topology, &c->path));
    TRY(text_copy(name, &c->platform_name));
out:
    return st;
}

void sweep_cache_free(struct sweep_cache *c)
{
    free(c->model_name);
    free(c->platform_name);
    free(c->path);
    model_free(&c->model);
    topology_free(&c->topology);
    *c = (struct sweep_cache){0};
}

/* As many replicas of everything as there are devices for. */
static void fill(const struct topology *t, struct plan_arguments *a)
{
    size_t shards = a->tensor_parallel ? a->tensor_parallel : 1;
    size_t chunks = a->chunks ? a->chunks : 1, stages = a->stages ? a->stages : 1;
    size_t replicas = t->n * chunks / (stages * shards);
    a->stages = stages;
    a->replicas = replicas ? replicas : 1;
}

static enum status make_plan(const struct sweep_point *p, const struct model *m,
                             const struct topology *t, const char *path, struct plan *out)
{
    enum status st;
    struct plan_arguments a = p->plan;
    struct auto_result found = {0};
    struct evaluation_context context = {
        .model = m,
        .topology = t,
        .platform = path,
        .engine = p->noise > 0 ? &engine_analytic : p->engine, /* the file knows no noise */
        .options = {.collective = p->collective}};
    if (p->fill)
        fill(t, &a);
    TRY(plan_check_arguments(&a));
    if (strcmp(a.algorithm, "auto") != 0) {
        st = plan_by_algorithm(&a, m, t, out);
        goto out;
    }
    TRY(plan_search(&a, &context, NULL, &found));
    *out = found.candidate[0].plan;
    found.candidate[0].plan = (struct plan){0};
out:
    auto_result_free(&found);
    return st;
}

static enum status make_plan_in_noise(const struct sweep_point *p, const struct sweep_cache *c,
                                      struct plan *out)
{
    enum status st;
    struct model m = {0};
    struct topology t = {0};
    char *path = NULL;
    TRY(load_model(p->model, &m));
    TRY(load_topology(p->platform, &t, &path));
    disturb(p->noise, p->plan.seed, &m, &t);
    TRY(make_plan(p, &m, &t, c->path, out));
out:
    free(path);
    topology_free(&t);
    model_free(&m);
    return st;
}

static enum status read_plan(const struct sweep_point *p, struct sweep_cache *c, struct plan *out)
{
    enum status st;
    struct json_document d = {0};
    char *model = NULL, *platform = NULL;
    TRY(json_read(p->plan_file, plan_format, PLAN_VERSION, &d));
    TRY(plan_references(&d, &model, &platform));
    TRY(need_model(c, model));
    TRY(need_platform(c, p->platform ? p->platform : platform));
    TRY(plan_read(&d, &c->model, &c->topology, out));
out:
    free(model);
    free(platform);
    json_document_free(&d);
    return st;
}

static enum status obtain_plan(const struct sweep_point *p, struct sweep_cache *c, struct plan *out)
{
    enum status st;
    if (p->plan_file)
        return read_plan(p, c, out);
    TRY(need_model(c, p->model));
    TRY(need_platform(c, p->platform));
    st = p->noise > 0 ? make_plan_in_noise(p, c, out)
                      : make_plan(p, &c->model, &c->topology, c->path, out);
out:
    return st;
}

static void describe_plan(const struct plan *p, struct sweep_result *r)
{
    r->stages = (int64_t)p->stages;
    r->replicas = p->stage[0].replicas;
    r->tensor_parallel = p->stage[0].tensor_parallel;
    r->microbatches = p->microbatches;
    r->microbatch_size = p->microbatch_size;
    snprintf(r->algorithm, sizeof r->algorithm, "%s", p->algorithm ? p->algorithm : "");
    snprintf(r->schedule, sizeof r->schedule, "%s", p->schedule);
}

static void describe_run(const struct measurement *m, struct sweep_result *r)
{
    char reason[AUTO_REASON];
    double busy = 0, exposed = 0, idle = 0, total = (double)m->ranks * m->iteration_s;
    for (size_t i = 0; i < m->ranks; i++) {
        busy += m->rank[i].busy_s;
        exposed += m->rank[i].exposed_comm_s;
        idle += m->rank[i].idle_s;
    }
    r->iteration_s = m->iteration_s;
    r->samples_per_s = m->samples_per_s;
    r->tokens_per_s = m->tokens_per_s;
    r->compute_fraction = total > 0 ? busy / total : 0;
    r->exposed_fraction = total > 0 ? exposed / total : 0;
    r->bubble_fraction = total > 0 ? idle / total : 0;
    r->mfu = m->mfu;
    evaluate_reason(m, reason);
    snprintf(r->bottleneck, sizeof r->bottleneck, "%s", reason);
    size_t fullest = measurement_fullest(m);
    if (fullest < m->ranks) {
        r->peak_bytes = m->rank[fullest].peak_bytes;
        r->headroom_bytes = m->rank[fullest].memory_bytes - r->peak_bytes;
    }
    if (measurement_overfull(m) > 0) {
        r->status = SWEEP_TOO_BIG;
        report_lack(m, r->reason);
    }
}

static enum status predict(const struct sweep_point *p, struct sweep_cache *c,
                           struct sweep_result *r)
{
    enum status st;
    struct plan plan = {0};
    struct measurement m = {0};
    struct program program = {0};
    bool perturbed = p->perturbation.jitter > 0 || p->perturbation.n > 0;
    TRY(obtain_plan(p, c, &plan));
    describe_plan(&plan, r);
    const struct evaluation_context context = {.model = &c->model,
                                               .topology = &c->topology,
                                               .platform = c->path,
                                               .options = {.collective = p->collective},
                                               .perturbation = perturbed ? &p->perturbation : NULL};
    TRY(evaluate_plan(&plan, &context, p->engine, &m, &program));
    describe_run(&m, r);
out:
    program_free(&program);
    measurement_free(&m);
    plan_free(&plan);
    return st;
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

void sweep_point_evaluate(const struct sweep_point *p, struct sweep_cache *cache,
                          struct sweep_result *out)
{
    struct sweep_result r = {.status = SWEEP_OK};
    double begin = cpu_seconds();
    enum status st = predict(p, cache, &r);
    snprintf(r.engine, sizeof r.engine, "%s", p->engine->name);
    if (st != STATUS_OK) {
        bool hopeless = st == STATUS_INVALID || st == STATUS_INFEASIBLE || st == STATUS_USAGE ||
                        st == STATUS_PARSE || st == STATUS_UNSUPPORTED;
        r.status = hopeless ? SWEEP_IMPOSSIBLE : SWEEP_FAILED;
        snprintf(r.reason, sizeof r.reason, "%s", error_message());
    }
    r.cpu_s = cpu_seconds() - begin;
    *out = r;
}
