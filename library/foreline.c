/* libforeline: study/ behind a stable header. Errors are read off core/base/error.h and handed
 * over. */
#include "library/foreline.h"

#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/executable.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/data/breakdown.h"
#include "host/folder.h"
#include "host/leftover.h"
#include "sim/engines.h"
#include "study/load.h"
#include "study/machine.h"
#include "study/paths.h"
#include "study/planning.h"
#include "study/prediction.h"
#include "study/settings.h"
#include "study/summary.h"

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
    char *file;             /* that file; NULL: there was none */
    char *json;             /* what was said when it was made; NULL: it was read */
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
        return error_set(STATUS_IO, "cannot find the folder of libforeline; set FORELINE_PREFIX");
    char *real = realpath(self.dli_fname, NULL);
    if (!real)
        return error_set(STATUS_IO,
                         "%s: no such file; set FORELINE_PREFIX to where foreline is installed",
                         self.dli_fname);
    *strrchr(real, '/') = '\0';
    int n = snprintf(path, sizeof path, "%s/" FORELINE_FROM_LIBRARY, real);
    free(real);
    if (n >= (int)sizeof path)
        return error_set(
            STATUS_IO, "path of the folder of libforeline is too long, expected at most %zu bytes",
            sizeof path - 1);
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
    enum status st = m ? load_named_model(name, m) : error_set(STATUS_NOMEM, "out of memory");
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
    enum status st = p ? load_named_platform(name, p) : error_set(STATUS_NOMEM, "out of memory");
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

/* ---- how far a call is */

static const double telling_s = 0.05;

/* What a simulation or a search ticks. */
struct foreline_watch {
    const struct foreline_options *options;
    double told_s, done;
    int stop;
};

/* Searches count what is scored, as they do not know of how many. */
static bool foreline_tick(void *context, size_t completed, size_t all)
{
    struct foreline_watch *w = context;
    double t = clock_now();
    w->done = all > 0 ? (double)completed : w->done + (double)completed;
    if (w->stop || t - w->told_s < telling_s)
        return !w->stop;
    w->told_s = t;
    w->stop = w->options->progress(w->options->context, w->done, (double)all);
    return !w->stop;
}

static struct foreline_watch foreline_watch(const struct foreline_options *o)
{
    static const struct foreline_options none = {0};
    return (struct foreline_watch){.options = o ? o : &none, .told_s = clock_now()};
}

/* foreline_leave(), for calls that can be stopped. */
static enum foreline_status foreline_leave_watched(locale_t before, enum status st,
                                                   const struct foreline_watch *watch,
                                                   struct foreline_error *error)
{
    enum foreline_status left = foreline_leave(before, st, error);
    if (left == FORELINE_OK || !watch->stop)
        return left;
    if (error)
        error->status = FORELINE_STOPPED;
    return FORELINE_STOPPED;
}

/* ---- plans */

/* Who takes a setting of this name: what only the command has (--json, --output) nobody. */
static taker_set foreline_taker(const char *name)
{
    bool own = !strcmp(name, "allow-oom") || !strcmp(name, "workers");
    return !strcmp(name, "seed") ? TAKES(KEY_POINT) : own ? TAKES(PLAN_AUTO) : TAKES(KEY_PLAN);
}

static enum status foreline_set_all(const struct foreline_options *o, struct arguments *a)
{
    for (size_t i = 0; i < o->settings; i++)
        PASS(arguments_set(a, foreline_taker(o->setting[i].name), o->setting[i].name,
                           o->setting[i].value));
    a->output = "foreline_plan_write()"; /* what a seed is of, maybe; nothing is written here */
    return plan_check_given(a);
}

static enum status foreline_choose(const struct arguments *a, struct evaluation_context *context,
                                   const volatile int *stop, struct auto_result *found,
                                   struct evaluation *e, struct plan *out)
{
    const struct topology *t = context->topology;
    PASS(paths_read(a, t, &context->options.paths));
    if (strcmp(a->algorithm, "auto") != 0) {
        PASS(plan_is_published(a) ? plan_of_objective(a, context->model, t, out)
                                  : plan_by_algorithm(a, context->model, t, out));
        return evaluate_once(context, out, e);
    }
    PASS(plan_search(a, context, stop, found));
    *e = *auto_evaluation(&found->candidate[0]);
    return found->candidate[0].fits || a->allow_oom ? plan_copy(&found->candidate[0].plan, out)
                                                    : plan_fails_to_fit(found, a, context, stop);
}

/* What `foreline plan --json` prints. */
static enum status foreline_tell(foreline_plan *plan, struct plan_outcome *outcome)
{
    size_t size;
    const struct provenance by = {
        .version = foreline_version, .command = "libforeline", .seed = plan->seed};
    PASS(machine_of_plan(&plan->plan, plan->model, plan->topology,
                         outcome->evaluation->samples_per_s, &outcome->machine));
    FILE *to = open_memstream(&plan->json, &size);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    plan_print_json(&plan->plan, plan->model, plan->topology, outcome, &by, to);
    return fclose(to) == 0 ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

static enum status foreline_find_plan(const foreline_model *m, const foreline_platform *p,
                                      struct foreline_watch *watch, foreline_plan *out)
{
    enum status st;
    struct arguments a = arguments_defaults(TAKES(PLAN_AUTO) | TAKES(PLAN_CUT));
    const struct simulation_watch scored = {foreline_tick, watch};
    struct evaluation_context context = {.model = &m->model,
                                         .topology = &p->topology,
                                         .platform = p->path,
                                         .scored = watch->options->progress ? &scored : NULL};
    struct auto_result found = {0};
    struct evaluation e = {0};
    a.model = m->name;
    a.platform = p->name;
    TRY(foreline_set_all(watch->options, &a));
    TRY(plan_is_published(&a) ? STATUS_OK : plan_settle(&a));
    TRY(plan_check_sums(&a, &m->model));
    out->model = &m->model;
    out->topology = &p->topology;
    out->platform = p->path;
    out->seed = a.seed;
    a.framework = plan_choose_framework(&a, &m->model, &p->topology).name;
    double begin = clock_cpu() + clock_children_cpu();
    TRY(foreline_choose(&a, &context, &watch->stop, &found, &e, &out->plan));
    struct plan_outcome outcome = {.evaluation = &e,
                                   .ranking = found.n > 0 ? &found : NULL,
                                   .a = &a,
                                   .cpu_s = clock_cpu() + clock_children_cpu() - begin};
    TRY(foreline_tell(out, &outcome));
out:
    auto_result_free(&found);
    return st;
}

enum foreline_status foreline_plan_find(const foreline_model *m, const foreline_platform *p,
                                        const struct foreline_options *options, foreline_plan **out,
                                        struct foreline_error *error)
{
    locale_t before = foreline_enter();
    struct foreline_watch watch = foreline_watch(options);
    foreline_plan *plan = calloc(1, sizeof *plan);
    enum status st =
        plan ? foreline_find_plan(m, p, &watch, plan) : error_set(STATUS_NOMEM, "out of memory");
    if (st == STATUS_OK)
        *out = plan;
    else
        foreline_plan_free(plan);
    return foreline_leave_watched(before, st, &watch, error);
}

enum foreline_status foreline_plan_make(const foreline_model *m, const foreline_platform *p,
                                        const struct foreline_setting *setting, size_t settings,
                                        foreline_plan **out, struct foreline_error *error)
{
    const struct foreline_options options = {.setting = setting, .settings = settings};
    return foreline_plan_find(m, p, &options, out, error);
}

const char *foreline_plan_json(const foreline_plan *plan)
{
    return plan->json;
}

static enum status foreline_read_plan(const char *path, foreline_plan *out)
{
    PASS(foreline_begin());
    PASS(text_copy(path, &out->file));
    PASS(load_plan_warn(path, NULL, &out->own));
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
    enum status st =
        plan ? foreline_read_plan(path, plan) : error_set(STATUS_NOMEM, "out of memory");
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
    free(plan->file);
    free(plan->json);
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

/* ---- simulations */

static enum status foreline_set_simulation(const struct foreline_options *o, struct arguments *a)
{
    const taker_set takers = TAKES(SIMULATE_JSON);
    a->json = true;
    for (size_t i = 0; i < o->settings; i++)
        PASS(arguments_set(a, takers, o->setting[i].name, o->setting[i].value));
    if (a->sim.export || a->limits)
        return error_set(STATUS_USAGE, "%s is supported only by the command foreline simulate",
                         a->sim.export ? "export" : "limit");
    return arguments_try_files(a);
}

static enum status foreline_print(const struct measurement *m, const struct provenance *by,
                                  char **json)
{
    size_t size;
    FILE *to = open_memstream(json, &size);
    if (!to)
        return error_set(STATUS_NOMEM, "out of memory");
    measurement_print(m, by, to);
    return fclose(to) == 0 ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

/* The plan with what the settings name instead; as the command reads it from a file. */
static enum status foreline_load_instead(const foreline_plan *plan, const struct load_instead *o,
                                         struct loaded_plan *out)
{
    const struct provenance by = {
        .version = foreline_version, .command = "libforeline", .seed = plan->seed};
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE];
    if (plan->file)
        return load_plan_instead(plan->file, o, NULL, out);
    PASS(folder_temporary(folder));
    enum status st = plan_write(&plan->plan, plan->model, plan->topology,
                                folder_file(folder, "plan.json", path), &by);
    if (st == STATUS_OK)
        st = load_plan_instead(path, o, NULL, out);
    folder_remove(folder);
    free(out->sha256); /* of a file that nobody has */
    out->sha256 = NULL;
    return st;
}

static enum status foreline_simulate_plan(const foreline_plan *plan, struct foreline_watch *watch,
                                          char **json)
{
    enum status st;
    char lack[REPORT_VERDICT];
    struct arguments a = arguments_defaults(TAKES(SIMULATE_JSON));
    struct prediction p = {0};
    const struct simulation_watch ticks = {foreline_tick, watch};
    struct provenance by = {.version = foreline_version, .command = "libforeline"};
    struct loaded_plan of = {.model = *plan->model, /* borrows all but its plan */
                             .topology = *plan->topology,
                             .platform = (char *)(uintptr_t)plan->platform,
                             .sha256 = plan->own.sha256};
    struct loaded_plan other = {0};
    TRY(plan_copy(&plan->plan, &of.plan));
    TRY(foreline_set_simulation(watch->options, &a));
    TRY(prediction_set(&a, TAKES(SIMULATE_JSON), &p));
    const struct load_instead instead = {a.model, a.platform, a.batch};
    bool is_other = a.model || a.platform || a.batch > 0;
    if (is_other)
        TRY(foreline_load_instead(plan, &instead, &other));
    TRY(prediction_begin(is_other ? &other : &of, &p));
    p.context.options.watch = watch->options->progress ? &ticks : NULL;
    TRY(prediction_evaluate(&p, p.engine, false));
    TRY(prediction_finish(&p, plan->file));
    by.seed = p.seed;
    const struct results r = {&p.program, &p.timeline, &p.m, &by};
    TRY(results_write(&r, &a, NULL));
    if (a.sim.fail_on_oom && measurement_overfull(&p.m) > 0)
        FAIL(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&p.m, lack));
    TRY(foreline_print(&p.m, &by, json));
out:
    prediction_free(&p);
    loaded_plan_free(&other);
    plan_free(&of.plan);
    return st;
}

enum foreline_status foreline_simulate(const foreline_plan *plan,
                                       const struct foreline_options *options, char **json,
                                       struct foreline_error *error)
{
    locale_t before = foreline_enter();
    struct foreline_watch watch = foreline_watch(options);
    enum status st = foreline_simulate_plan(plan, &watch, json);
    return foreline_leave_watched(before, st, &watch, error);
}

void foreline_text_free(char *text)
{
    free(text);
}
