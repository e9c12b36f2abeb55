/* Settings of a point: one by one for an experiment that is read, and all of a point together. */
#include "study/point.h"

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

static const char *algorithm_name(size_t i)
{
    return i == 0 ? "auto" : collective_algorithms[i - 1].name;
}

static enum status set_collective(struct point *p, const char *value)
{
    size_t n = 1, i;
    while (algorithm_name(n))
        n++;
    if (text_find("collective algorithm", value, algorithm_name, n, &i) != STATUS_OK)
        return error_context(STATUS_USAGE, "collective");
    p->collective.algorithm = i > 0 ? algorithm_name(i) : NULL;
    return STATUS_OK;
}

/* The simulators, then what runs plans. */
static const char *engine_name(size_t i)
{
    return i < engines_n ? engines[i]->name : point_engines[i - engines_n];
}

bool point_engine_runs(const char *name)
{
    for (size_t i = 0; i < point_engines_n; i++)
        if (!strcmp(point_engines[i], name))
            return true;
    return false;
}

const char *point_engine(const struct point *p)
{
    return p->engine ? p->engine->name : p->run.engine;
}

static enum status set_engine(struct point *p, const char *value)
{
    size_t i;
    if (text_find("engine", value, engine_name, engines_n + point_engines_n, &i) != STATUS_OK)
        return STATUS_USAGE;
    p->engine = i < engines_n ? engines[i] : NULL;
    p->run.engine = i < engines_n ? NULL : engine_name(i);
    return STATUS_OK;
}

static enum status set_compute(struct point *p, const char *value)
{
    p->run.compute = value;
    if (strcmp(value, "real") != 0 && strcmp(value, "paced") != 0)
        return error_set(STATUS_USAGE, "'%s', expected real or paced", value);
    return STATUS_OK;
}

static enum status set_device(struct point *p, const char *value)
{
    p->run.device = value;
    return strcmp(value, "cpu") && strcmp(value, "cuda")
               ? error_set(STATUS_USAGE, "'%s', expected cpu or cuda", value)
               : STATUS_OK;
}

static enum status set_steps(struct point *p, const char *value)
{
    const struct option_spec o = {OPTION_SIZE, "steps", &p->run.steps, "N", ""};
    return option_set(&o, value);
}

static enum status set_warmup(struct point *p, const char *value)
{
    const struct option_spec o = {OPTION_SIZE, "warmup", &p->run.warmup, "N", ""};
    return option_set(&o, value);
}

static enum status set_protocols(struct point *p, const char *value)
{
    const struct option_spec o = {OPTION_FLAG, "nccl-protocols", &p->collective.nccl_protocols,
                                  NULL, ""};
    return option_set(&o, value);
}

static enum status set_jitter(struct point *p, const char *value)
{
    return perturbation_parse_jitter(value, &p->perturbation.jitter);
}

static enum status set_slow(struct point *p, const char *value)
{
    return strcmp(value, "none") != 0 ? perturbation_add_slow(&p->perturbation, value) : STATUS_OK;
}

static enum status set_noise(struct point *p, const char *value)
{
    enum status st = perturbation_parse_jitter(value, &p->noise);
    if (st == STATUS_OK && p->noise >= 1)
        st = error_set(STATUS_USAGE, "'%s' leaves nothing, expected less than 100%%", value);
    return st;
}

static enum status set_seed(struct point *p, const char *value)
{
    size_t seed = 0;
    const struct option_spec o = {OPTION_SIZE, "seed", &seed, "N", ""};
    enum status st = option_set(&o, value);
    if (st == STATUS_OK)
        p->plan.seed = p->perturbation.seed = seed;
    return st;
}

static enum status set_plan(struct point *p, const char *value)
{
    p->plan_file = value;
    return STATUS_OK;
}

/* Part of a name, put together in point_make(). */
static enum status set_part(struct point *p, const char *value)
{
    (void)p;
    (void)value;
    return STATUS_OK;
}

static enum status set_devices(struct point *p, const char *value)
{
    size_t n = 0;
    const struct option_spec o = {OPTION_SIZE, "devices", &n, "N", ""};
    (void)p;
    enum status st = option_set(&o, value);
    return st == STATUS_OK && n == 0 ? error_set(STATUS_USAGE, "devices: expected at least 1") : st;
}

static const struct word {
    const char *name;
    enum status (*set)(struct point *p, const char *value);
} words[] = {
    {"model", set_part},      {"platform", set_part},
    {"devices", set_devices}, {"plan", set_plan},
    {"engine", set_engine},   {"collective", set_collective},
    {"jitter", set_jitter},   {"nccl-protocols", set_protocols},
    {"slow", set_slow},       {"noise", set_noise},
    {"seed", set_seed},       {"compute", set_compute},
    {"steps", set_steps},     {"warmup", set_warmup},
    {"device", set_device},   {"model.KEY", NULL},
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

static enum status set(struct point *p, const char *key, const char *value)
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
static enum status check_plan(const struct point *p)
{
    const struct partition_algorithm *known;
    struct plan_arguments a = p->plan; /* the check may change it */
    struct partition_request request;
    if (strcmp(a.algorithm, "auto") != 0 && partition_find(a.algorithm, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "plan.algorithm (besides auto)");
    enum status st = plan_request(&a, &request);
    return st == STATUS_OK ? plan_check_arguments(&a) : st;
}

enum status point_check(void *context, const char *key, const char *value)
{
    struct point p = {.plan = plan_defaults};
    (void)context;
    enum status st = set(&p, key, value);
    if (st == STATUS_OK)
        st = check_plan(&p);
    perturbation_free(&p.perturbation);
    return st;
}

/* ---- names */

static bool is_variant(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot &&
           (!strcmp(dot, ".bandwidth") || !strcmp(dot, ".latency") || !strcmp(dot, ".speed"));
}

/* base, then ":key=value" of the keys that begin with the prefix, then "@key=value" of variants. */
static enum status compose(struct point *p, const char *prefix, const char *base, const char **out)
{
    size_t length, skip = strlen(prefix);
    char before = strchr(base, ':') ? ',' : ':', *text = NULL;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    fputs(base, to);
    for (size_t i = 0; i < p->settings; i++) {
        const struct experiment_setting *s = p->setting[i];
        if (begins(s->key, prefix) && !is_variant(s->key)) {
            fprintf(to, "%c%s=%s", before, s->key + skip, s->value);
            before = ',';
        }
    }
    before = strchr(base, '@') ? ',' : '@';
    for (size_t i = 0; i < p->settings && !strcmp(prefix, "platform."); i++) {
        const struct experiment_setting *s = p->setting[i];
        bool change = begins(s->key, prefix) && is_variant(s->key);
        if (change || !strcmp(s->key, "devices")) {
            fprintf(to, "%c%s=%s", before, s->key + (change ? skip : 0), s->value);
            before = ',';
        }
    }
    bool full = fclose(to) != 0;
    *out = full ? NULL : arena_text(&p->texts, text);
    free(text);
    return *out ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* What is of simulations only, and what a run needs. */
static enum status check_run(const struct point *p)
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

static enum status set_all(struct point *p, const struct experiment *e, size_t number)
{
    enum status st;
    const char *model = experiment_value(e, number, "model"),
               *platform = experiment_value(e, number, "platform");
    TRY(experiment_settings(e, number, &p->setting, &p->settings));
    for (size_t i = 0; i < p->settings; i++)
        TRY(set(p, p->setting[i]->key, p->setting[i]->value));
    if (!p->plan_file && (!model || !platform))
        return error_set(STATUS_USAGE, "model and platform are needed, or plan");
    if (p->plan_file && model)
        return error_set(STATUS_USAGE, "plan: a plan file says its model itself");
    if (model)
        TRY(compose(p, "model.", model, &p->model));
    if (platform)
        TRY(compose(p, "platform.", platform, &p->platform));
out:
    return st;
}

enum status point_make(const struct experiment *e, size_t number, const struct engine *engine,
                       struct point *out)
{
    enum status st;
    struct point p = {.plan = plan_defaults,
                      .engine = &engine_analytic,
                      .run = {.device = "cpu", .steps = 10, .warmup = 2, .timeout_s = 30}};
    TRY(set_all(&p, e, number));
    if (engine)
        p.engine = engine;
    TRY(check_run(&p));
    TRY(check_plan(&p));
    p.plan.model = p.model;
    p.plan.platform = p.platform;
    p.plan.json = true;
    if (p.plan.time_limit_s <= 0)
        p.plan.time_limit_s = NO_LIMIT_S; /* or results would depend on how busy the machine is */
    *out = p;
    p = (struct point){0};
out:
    point_free(&p);
    return st;
}

void point_free(struct point *p)
{
    perturbation_free(&p->perturbation);
    free(p->setting);
    arena_free(&p->texts);
    *p = (struct point){0};
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
static enum status put_files(const struct point *p, FILE *to)
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

enum status point_hash(const struct point *p, char hash[DIGEST_HEX])
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    fprintf(to, "%s\nengine=%s\n", foreline_version, point_engine(p));
    for (size_t i = 0; i < p->settings; i++)
        if (strcmp(p->setting[i]->key, "engine") != 0)
            fprintf(to, "%s=%s\n", p->setting[i]->key, p->setting[i]->value);
    enum status st = put_files(p, to);
    if (fclose(to) != 0 && st == STATUS_OK)
        st = error_set(STATUS_NOMEM, "out of memory");
    if (st == STATUS_OK)
        digest_hex(text, length, hash);
    free(text);
    return st;
}
