/* The experiment of a validation: from options to YAML, and from its axes to points and their
 * names. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "partition/partition.h"
#include "plots/figure.h"
#include "sim/engines.h"
#include "study/validate.h"

static const char plan_prefix[] = "plan.";

/* ---- options -> experiment */

/* Options that are lists of constraints on plans, in the order of the axes. */
static const struct list {
    const char *option, *key; /* key: behind "plan." */
    size_t at;                /* in struct arguments */
} lists[] = {
    {"stages", "stages", offsetof(struct arguments, grid.stage_list)},
    {"replicas", "replicas", offsetof(struct arguments, grid.replica_list)},
    {"tensor-parallel", "tensor-parallel", offsetof(struct arguments, grid.tensor_list)},
    {"chunks", "chunks", offsetof(struct arguments, grid.chunk_list)},
    {"algorithm", "algorithm", offsetof(struct arguments, grid.algorithm_list)},
    {"schedules", "schedule", offsetof(struct arguments, grid.schedule_list)},
    {"microbatches", "microbatches", offsetof(struct arguments, grid.microbatch_list)},
    {"microbatch-size", "microbatch-size", offsetof(struct arguments, grid.size_list)},
};

/* Single quotes of YAML, in which nothing but the quote itself is special. */
static void validate_put_quoted(FILE *to, const char *text)
{
    putc('\'', to);
    for (; *text; text++)
        fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, to);
    putc('\'', to);
}

/* An axis of so many values, or a constant. */
static void put_many(FILE *to, const char *key, const char *const *value, size_t n)
{
    fprintf(to, "%s: ", key);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "[", to);
        validate_put_quoted(to, value[i]);
    }
    fputs("]\n", to);
}

/* "1,2,4" as an axis, each value checked as the option of `foreline plan` is. */
static enum status validate_put_list(FILE *to, const struct list *l, const char *text)
{
    enum status st = STATUS_OK;
    struct arguments any = {0};
    const struct partition_algorithm *algorithm;
    char *copy = NULL;
    TRY(text_copy(text, &copy));
    fprintf(to, "%s%s: [", plan_prefix, l->key);
    for (char *word = copy, *next; word; word = next) {
        next = strchr(word, ',');
        if (next)
            *next++ = '\0';
        st = setting_set(setting_find(l->key, TAKES(KEY_PLAN)), word, &any);
        if (st == STATUS_OK && !strcmp(l->key, "algorithm"))
            st = partition_find(word, &algorithm);
        if (st != STATUS_OK) {
            st = error_context(STATUS_USAGE, "--%s", l->option);
            goto out;
        }
        validate_put_quoted(to, word);
        fputs(next ? ", " : "]\n", to);
    }
out:
    free(copy);
    return st;
}

/* Constraints that were not given are left out, so that the planner's defaults hold. Seeds number
 * the repeats: the first one is that of the plan and of the order of runs. */
static enum status validate_put_experiment(FILE *to, const struct arguments *a,
                                           const char *const *plan, size_t plans)
{
    fputs("name: validation\n", to);
    if (plans > 0) {
        put_many(to, "plan", plan, plans);
    } else {
        put_many(to, "model", &a->model, 1);
        put_many(to, "platform", a->platforms.item, a->platforms.n);
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            const char *text = *(const char *const *)((const char *)a + lists[i].at);
            if (text)
                PASS(validate_put_list(to, &lists[i], text));
        }
        if (arguments_given(a, "optimizer"))
            put_many(to, "plan.optimizer", &a->optimizer, 1);
    }
    fprintf(to, "engine: [%s, %s, %s]\n", validate_engine(0)->name, validate_engine(1)->name,
            a->sim.engine);
    put_many(to, "device", &a->launch.device, 1);
    if (a->run.compute)
        put_many(to, "compute", &a->run.compute, 1);
    fprintf(to, "steps: %zu\nwarmup: %zu\nseed: [", a->launch.steps, a->launch.warmup);
    for (size_t i = 0; i < a->run.repeats; i++)
        fprintf(to, "%s%zu", i ? ", " : "", a->seed + i);
    fputs("]\n", to);
    return STATUS_OK;
}

enum status validate_compose(const struct arguments *a, const char *const *plan, size_t plans,
                             struct experiment *out)
{
    enum status st;
    struct file_text t;
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, validate_put_experiment(t.stream, a, plan, plans)));
    st = experiment_parse("options", t.text, t.length, NULL, out);
    if (st == STATUS_PARSE)
        st = error_context(STATUS_USAGE, "cannot combine the given options to an experiment");
out:
    free(t.text);
    return st;
}

bool validate_is_experiment(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".yml") || !strcmp(dot, ".yaml"));
}

/* ---- experiment -> points */

/* The choice of the axis of engines that runs plans, of which there must be one, besides at least
 * one that predicts. */
static enum status find_runner(const struct experiment *e, size_t axis, size_t *runner)
{
    size_t runs = 0, n = axis < e->axes ? e->axis[axis].n : 0;
    for (size_t i = 0; i < n; i++)
        if (point_engine_runs(e->axis[axis].choice[i].label)) {
            *runner = i;
            runs++;
        }
    if (runs != 1 || n < 2)
        return error_set(STATUS_USAGE,
                         "%s: engine: expected one engine that runs plans (such as tcp) and at "
                         "least one that predicts (such as analytic)",
                         e->path);
    return STATUS_OK;
}

/* What stands before a value in a name. */
static const char *prefix_of(const char *key)
{
    static const char *const known[][2] = {{"plan.stages", "s"},
                                           {"plan.replicas", "r"},
                                           {"plan.microbatches", "m"},
                                           {"plan.microbatch-size", "b"},
                                           {"plan.tensor-parallel", "t"},
                                           {"plan.chunks", "c"},
                                           {"plan.zero", "z"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i][0], key))
            return known[i][1];
    return "";
}

void validate_point_name(const struct experiment *e, size_t number, char name[VALIDATE_POINT_NAME])
{
    const char *plan = experiment_value(e, number, "plan");
    size_t n = 0;
    if (plan) {
        style_plan_name(plan, name, VALIDATE_NAME);
        return;
    }
    snprintf(name, VALIDATE_POINT_NAME, "plan");
    for (size_t a = 0; a < e->axes && n < VALIDATE_POINT_NAME; a++) {
        const char *key = e->axis[a].name, *value = experiment_label(e, number, a),
                   *slash = strrchr(value, '/');
        if (e->axis[a].n < 2 || !strcmp(key, "engine") || !strcmp(key, "seed"))
            continue;
        value = slash ? slash + 1 : value;
        n += (size_t)snprintf(name + n, VALIDATE_POINT_NAME - n, "%s%s%.*s", n ? "-" : "",
                              prefix_of(key), (int)strcspn(value, "."), value);
    }
}

/* Names are those of files, so that two points may not share one. */
static enum status experiment_point_add(const struct validate_job *job, size_t number,
                                        struct validation *v)
{
    char name[VALIDATE_POINT_NAME], path[VALIDATE_PATH];
    const char *plan = experiment_value(&job->e, number, "plan");
    validate_point_name(&job->e, number, name);
    for (size_t k = 0; k < v->points; k++)
        if (!strcmp(v->point[k].name, name))
            return error_set(STATUS_USAGE,
                             "two points of the experiment would write the same plan file, '%s'",
                             name);
    if (!plan)
        PASS(validate_path(job->directory, "plans", name, ".json", path));
    PASS(validate_add_point(v, name, plan ? plan : path));
    v->point[v->points - 1].number = number;
    return STATUS_OK;
}

/* A point is a plan: the first of the experiment's points that the running engine is asked for,
 * seeds and other engines apart. */
enum status validate_make_points(struct validate_job *job, struct validation *v)
{
    const struct experiment *e = &job->e;
    size_t engine = experiment_find(e, "engine"), seed = experiment_find(e, "seed"), runner = 0;
    PASS(find_runner(e, engine, &runner));
    for (size_t i = 0; i < e->points; i++)
        if (experiment_choice(e, i, engine) == runner &&
            (seed == e->axes || experiment_choice(e, i, seed) == 0))
            PASS(experiment_point_add(job, i, v));
    job->repeats = seed < e->axes ? e->axis[seed].n : 1;
    job->seed = seed < e->axes ? strtoull(e->axis[seed].choice[0].label, NULL, 10) : 1;
    return point_run_of(e, v->point[0].number, &job->run);
}
