/* libforeline: study/ behind a stable header. Errors are read off core/base/error.h and handed
 * over. */
#include "library/foreline.h"

#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/executable.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/data/breakdown.h"
#include "host/leftover.h"
#include "sim/engines.h"
#include "study/load.h"
#include "study/machine.h"
#include "study/planning.h"
#include "study/settings.h"

_Static_assert((int)FORELINE_NOMEM == (int)STATUS_NOMEM, "statuses are core/base/error.h's");
_Static_assert((int)FORELINE_USAGE == (int)STATUS_USAGE, "statuses are core/base/error.h's");

struct foreline_model {
    char *name;
    struct model model;
};

struct foreline_platform {
    char *name, *path;
    struct topology topology;
};

struct foreline_plan {
    struct plan plan;
    const struct model *model;
    const struct topology *topology;
    const char *platform;   /* path of the XML file */
    struct loaded_plan own; /* what a plan file brought; else {0} */
    uint64_t seed;
};

/* ---- around every call
 *
 * Calls run one after another, in the "C" locale of this thread: files have decimal points, and
 * names are compared as ASCII, whatever the program around us has set. */

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
static locale_t plain; /* made by the first call, under the lock; stays */

static locale_t foreline_enter(void)
{
    pthread_mutex_lock(&calls);
    if (!plain)
        plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return uselocale(plain);
}

/* Hand over the status and its message, which is this thread's. */
static enum foreline_status foreline_leave(locale_t before, enum status st,
                                           struct foreline_error *error)
{
    if (error) {
        error->status = (enum foreline_status)st;
        snprintf(error->message, sizeof error->message, "%s",
                 st == STATUS_OK ? "" : error_message());
    }
    uselocale(before);
    pthread_mutex_unlock(&calls);
    return (enum foreline_status)st;
}

const char *foreline_library_version(void)
{
    return foreline_version;
}

/* Modules are looked for from where the command would be, which is not this program; the
 * environment says limits. */
static enum status foreline_begin(void)
{
    Dl_info self;
    char path[EXECUTABLE_FOLDER];
    if (!dladdr((const void *)foreline_version, &self) || !self.dli_fname)
        return error_set(STATUS_IO, "where libforeline is cannot be found out");
    char *real = realpath(self.dli_fname, NULL);
    if (!real)
        return error_set(STATUS_IO, "%s: no such file", self.dli_fname);
    *strrchr(real, '/') = '\0';
    int n = snprintf(path, sizeof path, "%s/" FORELINE_FROM_LIBRARY, real);
    free(real);
    if (n >= (int)sizeof path)
        return error_set(STATUS_IO, "libforeline is in too deep a folder");
    executable_set_folder(path);
    leftover_watch_files();
    return limits_inherit();
}

/* ---- models and platforms */

static enum status load_named_model(const char *name, foreline_model *m)
{
    PASS(foreline_begin());
    PASS(text_copy(name, &m->name));
    return load_model(name, &m->model);
}

enum foreline_status foreline_model_load(const char *name, foreline_model **out,
                                         struct foreline_error *error)
{
    locale_t before = foreline_enter();
    foreline_model *m = calloc(1, sizeof *m);
    enum status st = m ? load_named_model(name, m) : error_set(STATUS_NOMEM, "no memory");
    if (st == STATUS_OK)
        *out = m;
    else
        foreline_model_free(m);
    return foreline_leave(before, st, error);
}

void foreline_model_free(foreline_model *m)
{
    if (!m)
        return;
    model_free(&m->model);
    free(m->name);
    free(m);
}

struct foreline_model_facts foreline_model_describe(const foreline_model *m)
{
    return (struct foreline_model_facts){.ops = m->model.n,
                                         .parameters = (double)model_parameters(&m->model),
                                         .tokens_per_sample = m->model.tokens_per_sample,
                                         .flop_per_sample = model_sample_flop(&m->model)};
}

static enum status load_named_platform(const char *name, foreline_platform *p)
{
    PASS(foreline_begin());
    PASS(text_copy(name, &p->name));
    return load_topology(name, &p->topology, &p->path);
}

enum foreline_status foreline_platform_load(const char *name, foreline_platform **out,
                                            struct foreline_error *error)
{
    locale_t before = foreline_enter();
    foreline_platform *p = calloc(1, sizeof *p);
    enum status st = p ? load_named_platform(name, p) : error_set(STATUS_NOMEM, "no memory");
    if (st == STATUS_OK)
        *out = p;
    else
        foreline_platform_free(p);
    return foreline_leave(before, st, error);
}

void foreline_platform_free(foreline_platform *p)
{
    if (!p)
        return;
    topology_free(&p->topology);
    free(p->path);
    free(p->name);
    free(p);
}

size_t foreline_platform_devices(const foreline_platform *p)
{
    return p->topology.n;
}

const char *foreline_platform_device(const foreline_platform *p, size_t i)
{
    return i < p->topology.n ? p->topology.device[i] : NULL;
}

/* ---- plans */

static enum status foreline_set_all(const struct foreline_setting *setting, size_t settings,
                                    struct arguments *a)
{
    for (size_t i = 0; i < settings; i++) {
        bool seed = strcmp(setting[i].name, "seed") == 0;
        PASS(arguments_set(a, seed ? TAKES(KEY_POINT) : TAKES(KEY_PLAN), setting[i].name,
                           setting[i].value));
    }
    a->output = "foreline_plan_write()"; /* what a seed is of, maybe; nothing is written here */
    return plan_check_given(a);
}

static enum status foreline_make_plan(const foreline_model *m, const foreline_platform *p,
                                      const struct foreline_setting *setting, size_t settings,
                                      foreline_plan *out)
{
    struct arguments a = arguments_defaults(TAKES(PLAN_AUTO) | TAKES(PLAN_CUT));
    struct evaluation_context context = {
        .model = &m->model, .topology = &p->topology, .platform = p->path};
    a.model = m->name;
    a.platform = p->name;
    PASS(foreline_set_all(setting, settings, &a));
    PASS(plan_check_sums(&a, &m->model));
    out->model = &m->model;
    out->topology = &p->topology;
    out->platform = p->path;
    out->seed = a.seed;
    return plan_make(&a, &context, &out->plan);
}

enum foreline_status foreline_plan_make(const foreline_model *m, const foreline_platform *p,
                                        const struct foreline_setting *setting, size_t settings,
                                        foreline_plan **out, struct foreline_error *error)
{
    locale_t before = foreline_enter();
    foreline_plan *plan = calloc(1, sizeof *plan);
    enum status st = plan ? foreline_make_plan(m, p, setting, settings, plan)
                          : error_set(STATUS_NOMEM, "no memory");
    if (st == STATUS_OK)
        *out = plan;
    else
        foreline_plan_free(plan);
    return foreline_leave(before, st, error);
}

static enum status foreline_read_plan(const char *path, foreline_plan *out)
{
    PASS(foreline_begin());
    PASS(load_plan_only(path, &out->own));
    out->model = &out->own.model;
    out->topology = &out->own.topology;
    out->platform = out->own.platform;
    return plan_copy(&out->own.plan, &out->plan);
}

enum foreline_status foreline_plan_read(const char *path, foreline_plan **out,
                                        struct foreline_error *error)
{
    locale_t before = foreline_enter();
    foreline_plan *plan = calloc(1, sizeof *plan);
    enum status st = plan ? foreline_read_plan(path, plan) : error_set(STATUS_NOMEM, "no memory");
    if (st == STATUS_OK)
        *out = plan;
    else
        foreline_plan_free(plan);
    return foreline_leave(before, st, error);
}

enum foreline_status foreline_plan_write(const foreline_plan *plan, const char *path,
                                         struct foreline_error *error)
{
    const struct provenance by = {
        .version = foreline_version, .command = "libforeline", .seed = plan->seed};
    locale_t before = foreline_enter();
    return foreline_leave(before, plan_write(&plan->plan, plan->model, plan->topology, path, &by),
                          error);
}

void foreline_plan_free(foreline_plan *plan)
{
    if (!plan)
        return;
    plan_free(&plan->plan);
    loaded_plan_free(&plan->own);
    free(plan);
}

/* ---- predictions */

static void foreline_take_prediction(const struct measurement *m, struct foreline_prediction *out)
{
    struct breakdown time = breakdown_of(m);
    double all = breakdown_sum(&time);
    size_t fullest = measurement_fullest(m);
    *out = (struct foreline_prediction){.iteration_s = m->iteration_s,
                                        .samples_per_s = m->samples_per_s,
                                        .tokens_per_s = m->tokens_per_s,
                                        .mfu = m->mfu,
                                        .fits = measurement_overfull(m) == 0};
    if (all > 0) {
        out->busy = (time.compute_s + time.optimizer_s) / all;
        out->idle = time.bubble_s / all;
        out->exposed = 1 - out->busy - out->idle;
    }
    if (fullest < m->ranks) {
        out->peak_bytes = m->rank[fullest].peak_bytes;
        out->memory_bytes = m->rank[fullest].memory_bytes;
    }
}

static enum status foreline_predict_plan(const foreline_plan *plan, const char *engine,
                                         struct foreline_prediction *out)
{
    const struct engine *by;
    struct measurement m = {0};
    const struct evaluation_context context = {
        .model = plan->model, .topology = plan->topology, .platform = plan->platform};
    PASS(engine_find(engine ? engine : engine_judge()->name, &by));
    enum status st = evaluate_plan(&plan->plan, &context, by, &m, NULL, NULL);
    if (st == STATUS_OK)
        foreline_take_prediction(&m, out);
    measurement_free(&m);
    return st;
}

enum foreline_status foreline_predict(const foreline_plan *plan, const char *engine,
                                      struct foreline_prediction *out, struct foreline_error *error)
{
    locale_t before = foreline_enter();
    return foreline_leave(before, foreline_predict_plan(plan, engine, out), error);
}
