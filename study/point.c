/* Settings of a point: one by one for an experiment that is read, and all of a point together. */
#include "study/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "partition/partition.h"
#include "sim/engines.h"
#include "study/captured.h"
#include "study/paths.h"

enum { NO_LIMIT_S = 1000000000 };
static const taker_set keys = TAKES(KEY_POINT) | TAKES(KEY_PLAN) | TAKES(KEY_CAPTURE);

/* ---- settings */

bool point_engine_runs(const char *name)
{
    for (size_t i = 0; i < point_engines_n; i++)
        if (!strcmp(point_engines[i]->name, name))
            return true;
    return false;
}

/* "model.layers" begins with "model.", "model." itself does not. */
static bool point_begins(const char *key, const char *prefix)
{
    return !strncmp(key, prefix, strlen(prefix)) && key[strlen(prefix)];
}

/* Parts of names are put together in compose(). */
static enum status point_set_key(struct point *p, const char *key, const char *value)
{
    enum status st;
    struct framework framework;
    if (point_begins(key, "model.") || point_begins(key, "platform."))
        return STATUS_OK;
    if (!strcmp(key, "plan.replicas") && !strcmp(value, "fill")) {
        p->fill = true;
        return STATUS_OK;
    }
    if (!strcmp(key, "plan.expert-parallel") && !strcmp(value, "fill")) {
        p->fill_experts = true;
        return STATUS_OK;
    }
    PASS(arguments_set(&p->a, keys, key, value));
    if (p->a.framework && framework_parse(p->a.framework, &framework) != STATUS_OK)
        return error_context(STATUS_USAGE, "framework");
    if (!strcmp(key, "noise") && p->a.sim.noise >= 1)
        return error_set(STATUS_USAGE, "noise: got '%s', expected less than 100%%", value);
    if (!strcmp(key, "slow") && strcmp(value, "none") != 0 &&
        (st = perturbation_add_slow(&p->perturbation, value)) != STATUS_OK)
        return st == STATUS_NOMEM ? st : error_context(STATUS_USAGE, "slow");
    return STATUS_OK;
}

/* Does the plan know its algorithm, and are its counts possible? */
static enum status check_plan(const struct point *p)
{
    const struct partition_algorithm *known;
    struct arguments a = p->a; /* the check may change it */
    if (plan_is_published(&a))
        return STATUS_OK;
    if (partition_find(a.algorithm, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "plan.algorithm");
    return plan_settle(&a);
}

/* One setting at a time, with defaults for the rest: what contradicts other settings shows in
 * point_make(). */
enum status point_check(void *context, const char *key, const char *value)
{
    enum status st;
    struct point p = {.a = arguments_defaults(keys)};
    (void)context;
    TRY(point_set_key(&p, key, value));
    TRY(check_plan(&p));
out:
    perturbation_free(&p.perturbation);
    return st;
}

/* ---- names */

/* Changes of links and hosts of any platform stand behind "@", parameters of generated ones behind
 * ":". */
static bool is_variant(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot &&
           (!strcmp(dot, ".bandwidth") || !strcmp(dot, ".latency") || !strcmp(dot, ".speed"));
}

/* base, then ":key=value" of the keys that begin with the prefix, then "@key=value" of variants. */
static enum status compose(struct point *p, const char *prefix, const char *base, const char **out)
{
    enum status st;
    struct file_text t;
    size_t skip = strlen(prefix);
    char before = strchr(base, ':') ? ',' : ':';
    TRY(file_text_open(&t));
    fputs(base, t.stream);
    for (size_t i = 0; i < p->settings; i++) {
        const struct experiment_setting *s = p->setting[i];
        if (point_begins(s->key, prefix) && !is_variant(s->key)) {
            fprintf(t.stream, "%c%s=%s", before, s->key + skip, s->value);
            before = ',';
        }
    }
    before = strchr(base, '@') ? ',' : '@';
    for (size_t i = 0; i < p->settings && !strcmp(prefix, "platform."); i++) {
        const struct experiment_setting *s = p->setting[i];
        bool change = point_begins(s->key, prefix) && is_variant(s->key);
        if (change || !strcmp(s->key, "devices")) {
            fprintf(t.stream, "%c%s=%s", before, s->key + (change ? skip : 0), s->value);
            before = ',';
        }
    }
    TRY(file_text_close(&t, STATUS_OK));
    *out = arena_text(&p->texts, t.text);
    st = *out ? STATUS_OK : STATUS_NOMEM;
out:
    free(t.text);
    return st;
}

enum status point_platform(const struct experiment *e, const struct experiment_setting **setting,
                           size_t n, struct arena *texts, const char **out)
{
    struct point p = {.texts = *texts, .setting = setting, .settings = n};
    enum status st = error_set(STATUS_USAGE, "platform is missing");
    for (size_t i = 0; i < n; i++) {
        const char *base;
        if (strcmp(setting[i]->key, "platform") != 0)
            continue;
        st = setting_seen("platform", setting[i]->value, e->path, &p.texts, &base);
        if (st == STATUS_OK)
            st = compose(&p, "platform.", base, out);
    }
    *texts = p.texts;
    return st;
}

/* ---- a whole point */

/* A captured script has neither model nor plan. */
static enum status check_captured(const struct arguments *a)
{
    if (!a->platform || a->model || a->plan_file || a->train_tokens > 0)
        return error_set(STATUS_USAGE, "key 'capture' needs the key 'platform', and takes no key "
                                       "'model', 'plan' or 'train-tokens'");
    if (a->capture.script && a->capture.folder)
        return error_set(STATUS_USAGE,
                         "keys 'capture' (a folder) and 'capture.script' cannot be combined");
    if (a->capture.script && a->capture.world_size == 0)
        return error_set(STATUS_USAGE, "key 'capture.script' needs the key 'capture.world-size'");
    return STATUS_OK;
}

/* All settings, in the order of their keys; then what only all of them say together. */
static enum status point_set_all(struct point *p, const struct experiment *e, size_t number)
{
    PASS(experiment_settings(e, number, &p->setting, &p->settings));
    for (size_t i = 0; i < p->settings; i++) {
        const char *key = p->setting[i]->key, *value;
        PASS(setting_seen(key, p->setting[i]->value, e->path, &p->texts, &value));
        PASS(point_set_key(p, key, value));
    }
    if (captured_asked(&p->a)) {
        PASS(check_captured(&p->a));
        return compose(p, "platform.", p->a.platform, &p->a.platform);
    }
    if (!p->a.plan_file && (!p->a.model || !p->a.platform))
        return error_set(STATUS_USAGE, "expected the keys 'model' and 'platform', or the key "
                                       "'plan', or the keys 'capture' and 'platform'");
    for (size_t i = 0; i < settings_table_n && !(p->a.train_tokens > 0); i++) {
        const struct setting *s = &settings_table[i];
        if ((s->takers & TAKES(KEY_POINT)) && (s->takers & TAKES(PLAN_CAMPAIGN)) &&
            !(s->takers & TAKES(PLAN_AUTO)) && arguments_given(&p->a, s->name))
            return error_set(STATUS_USAGE, "key '%s' has no effect without 'train-tokens'",
                             s->name);
    }
    if (p->a.plan_file && p->a.model)
        return error_set(STATUS_USAGE, "keys 'model' and 'plan' cannot be combined: the plan file "
                                       "names its model; drop 'model'");
    if (p->a.model)
        PASS(compose(p, "model.", p->a.model, &p->a.model));
    if (p->a.platform)
        PASS(compose(p, "platform.", p->a.platform, &p->a.platform));
    return check_plan(p);
}

/* What of the settings is about runs. */
static struct point_run run_of(const struct arguments *a)
{
    return (struct point_run){
        .engine = a->sim.engine, .compute = a->run.compute, .launch = a->launch};
}

/* Only the settings about runs, so that it works also for points whose plans are impossible. */
enum status point_run_of(const struct experiment *e, size_t number, struct point_run *out)
{
    static const char *const names[] = {"engine", "device", "compute", "steps", "warmup"};
    struct arguments a = arguments_defaults(keys);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = experiment_value(e, number, names[i]);
        if (value)
            PASS(arguments_set(&a, keys, names[i], value));
    }
    *out = run_of(&a);
    return STATUS_OK;
}

/* What simulates the point, with which options; or what runs it, which knows no such options. */
static enum status choose_engine(struct point *p, const struct engine *engine)
{
    const struct arguments *a = &p->a;
    const struct simulation_arguments *s = &a->sim;
    bool automatic = !s->collective || !strcmp(s->collective, "auto");
    p->engine = engine;
    p->collective = (struct collective_options){.algorithm = automatic ? NULL : s->collective,
                                                .nccl_protocols = s->nccl_protocols};
    p->paths = paths_of(a);
    p->perturbation.jitter = s->jitter;
    p->perturbation.seed = arguments_given(a, "seed") ? a->seed : 0;
    if (!engine && !point_engine_runs(s->engine))
        return engine_find(s->engine, &p->engine);
    if (engine)
        return STATUS_OK;
    if (captured_asked(a))
        return error_set(STATUS_USAGE,
                         "engine %s runs plans, and a capture has none; to run a script: foreline "
                         "validate --ranks N -- python3 SCRIPT",
                         s->engine);
    p->run = run_of(a);
    p->run.launch.timeout_s = limit_wait(30); /* a rank's silence */
    if (s->jitter > 0 || p->perturbation.n > 0 || !automatic || s->nccl_protocols || s->paths ||
        s->queue_pairs > 1)
        return error_set(STATUS_USAGE,
                         "engine %s runs plans for real: jitter, slow, collectives and paths need "
                         "a simulation engine",
                         s->engine);
    return point_check_run(&p->run);
}

const char *point_engine(const struct point *p)
{
    return p->engine ? p->engine->name : p->run.engine;
}

enum status point_make(const struct experiment *e, size_t number, const struct engine *engine,
                       struct point *out)
{
    enum status st;
    struct point p = {.a = arguments_defaults(keys)};
    TRY(point_set_all(&p, e, number));
    TRY(choose_engine(&p, engine));
    if (p.a.search.time_limit_s <= 0)
        p.a.search.time_limit_s = NO_LIMIT_S; /* or results depend on how busy the machine is */
    MOVE(out, p);
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

static enum status point_put_file(const char *path, FILE *to)
{
    char hex[DIGEST_HEX];
    PASS(digest_file(path, hex));
    fprintf(to, "file %s\n", hex);
    return STATUS_OK;
}

/* Contents of what is a file, as the settings and plans say only its name, and files change. A
 * platform counts as the XML that it stands for, so that a change of a generator shows too. */
static enum status put_files(const struct point *p, FILE *to)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    char *named_model = NULL, *named_platform = NULL, *path = NULL;
    const char *model = p->a.model, *platform = p->a.platform;
    if (p->a.plan_file) {
        TRY(point_put_file(p->a.plan_file, to));
        TRY(load_plan_names(p->a.plan_file, &(struct load_instead){.platform = platform}, &d,
                            &named_model, &named_platform));
        model = named_model;
        platform = named_platform;
    }
    if (captured_asked(&p->a))
        TRY(captured_put_identity(&p->a, to));
    if (model && access(model, F_OK) == 0)
        TRY(point_put_file(model, to));
    if (platform) {
        st = load_platform(platform, &path);
        TRY(platform == named_platform ? load_of_plan(st, "platform", p->a.plan_file) : st);
        TRY(point_put_file(path, to));
    }
out:
    json_document_free(&d);
    free(named_model);
    free(named_platform);
    free(path);
    return st;
}

/* The engine is the one that is used: finalists differ from the points that they come from in
 * nothing else. */
enum status point_hash(const struct point *p, char hash[DIGEST_HEX])
{
    enum status st;
    struct file_text t;
    TRY(file_text_open(&t));
    fprintf(t.stream, "%s\nengine=%s\n", foreline_version, point_engine(p));
    for (size_t i = 0; i < p->settings; i++)
        if (strcmp(p->setting[i]->key, "engine") != 0)
            fprintf(t.stream, "%s=%s\n", p->setting[i]->key, p->setting[i]->value);
    TRY(file_text_close(&t, put_files(p, t.stream)));
    digest_hex(t.text, t.length, hash);
out:
    free(t.text);
    return st;
}
