#include "study/sweep_point.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/provenance.h"
#include "core/text.h"
#include "partition/partition.h"
#include "sim/engine.h"
#include "study/option.h"

enum { NO_LIMIT_S = 1000000000 };

/* ---- settings */

static enum status set_collective(struct sweep_point *p, const char *value)
{
    const struct collective_algorithm *algorithm;
    if (collective_find(value, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "collective");
    p->collective.algorithm = algorithm ? algorithm->name : NULL;
    return STATUS_OK;
}

/* The simulators, then what runs plans. */
static const char *engine_name(size_t i)
{
    return i < engines_n ? engines[i]->name : point_engines[i - engines_n];
}

bool sweep_engine_runs(const char *name)
{
    for (size_t i = 0; i < point_engines_n; i++)
        if (!strcmp(point_engines[i], name))
            return true;
    return false;
}

const char *sweep_point_engine(const struct sweep_point *p)
{
    return p->engine ? p->engine->name : p->run.engine;
}

static enum status set_engine(struct sweep_point *p, const char *value)
{
    size_t i;
    if (text_find("engine", value, engine_name, engines_n + point_engines_n, &i) != STATUS_OK)
        return STATUS_USAGE;
    p->engine = i < engines_n ? engines[i] : NULL;
    p->run.engine = i < engines_n ? NULL : engine_name(i);
    return STATUS_OK;
}

static enum status set_compute(struct sweep_point *p, const char *value)
{
    p->run.compute = value;
    if (strcmp(value, "real") != 0 && strcmp(value, "paced") != 0)
        return error_set(STATUS_USAGE, "'%s', expected real or paced", value);
    return STATUS_OK;
}

static enum status set_steps(struct sweep_point *p, const char *value)
{
    const struct option_spec o = {OPTION_SIZE, "steps", &p->run.steps, "N", ""};
    return option_set(&o, value);
}

static enum status set_warmup(struct sweep_point *p, const char *value)
{
    const struct option_spec o = {OPTION_SIZE, "warmup", &p->run.warmup, "N", ""};
    return option_set(&o, value);
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
    {"seed", set_seed},       {"compute", set_compute},
    {"steps", set_steps},     {"warmup", set_warmup},
    {"model.KEY", NULL},      {"platform.KEY", NULL},
    {"plan.OPTION", NULL},
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
    if (partition_find(a.algorithm, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "plan.algorithm");
    return plan_check_arguments(&a);
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

/* What is of simulations only, and what a run needs. */
static enum status check_run(const struct sweep_point *p)
{
    if (p->engine)
        return STATUS_OK;
    if (p->perturbation.jitter > 0 || p->perturbation.n > 0 || p->collective.algorithm ||
        p->collective.nccl_protocols)
        return error_set(STATUS_USAGE,
                         "engine %s runs plans: jitter, slow and collectives are of simulations",
                         p->run.engine);
    return point_check_run(&p->run);
}

enum status sweep_point_make(const struct experiment_setting *const *setting, size_t n,
                             const struct engine *engine, struct sweep_point *out)
{
    enum status st = STATUS_OK;
    struct sweep_point p = {.plan = plan_defaults,
                            .engine = &engine_analytic,
                            .run = {.device = "cpu", .steps = 10, .warmup = 2, .timeout_s = 30}};
    const char *model = value_of(setting, n, "model"), *platform = value_of(setting, n, "platform");
    for (size_t i = 0; i < n; i++)
        TRY(set(&p, setting[i]->key, setting[i]->value));
    if (engine)
        p.engine = engine;
    TRY(check_run(&p));
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
    fprintf(to, "%s\nengine=%s\n", foreline_version, sweep_point_engine(p));
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
