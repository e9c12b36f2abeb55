/* `foreline plan --objective NAME`: published objectives on their own inputs, exactly.
 *
 * The steps: arguments become the request of papers/common/objective.h, where 0, and NAN for
 * memory, stand for what is not said; the objective scores a split or solves the problem; the
 * result is printed in the objective's own unit; with -o it becomes a plan of this project
 * (objective_plan.h). Which options an objective takes is in study/settings_table.c. */
#include "papers/command/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/units.h"
#include "papers/command/collective_times.h"
#include "papers/command/objective_cut.h"
#include "papers/command/objective_target.h"
#include "papers/common/objective.h"
#include "study/planning.h"
#include "study/point.h"
#include "study/warn.h"

enum { PLATFORM_NAME = 96 };

/* "4,4" or "1e9,25GiBps": the items of a list, at most OBJECTIVE_LEVELS. */
static enum status parse_list(const char *option, const char *text,
                              enum status (*parse)(const char *item, double *value),
                              double value[OBJECTIVE_LEVELS], size_t *n)
{
    char item[64];
    *n = 0;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (length == 0)
            return error_set(STATUS_USAGE, "--%s: value %zu of the list is empty", option, *n + 1);
        if (length >= sizeof item)
            return error_set(STATUS_USAGE,
                             "--%s: value %zu of the list has more than %zu characters", option,
                             *n + 1, sizeof item - 1);
        if (*n == OBJECTIVE_LEVELS)
            return error_set(STATUS_USAGE, "--%s: more than %d levels", option, OBJECTIVE_LEVELS);
        memcpy(item, text, length);
        item[length] = '\0';
        if (parse(item, &value[*n]) != STATUS_OK)
            return error_context(STATUS_USAGE, "--%s", option);
        (*n)++;
        text += length + (text[length] == ',');
    }
    return STATUS_OK;
}

static enum status objective_parse_count(const char *item, double *value)
{
    char *end;
    *value = strtod(item, &end);
    if (*end || !(*value >= 1 && *value <= 1e6) || *value != floor(*value))
        return error_set(STATUS_USAGE, "got '%s', expected a whole number from 1 to 1000000", item);
    return STATUS_OK;
}

/* Bytes per second, with or without unit. */
static enum status parse_bandwidth(const char *item, double *value)
{
    char *end;
    *value = strtod(item, &end);
    if (*end)
        return units_parse(UNIT_RATE, item, value);
    if (!(*value > 0 && isfinite(*value)))
        return error_set(STATUS_USAGE,
                         "got '%s', expected a bandwidth above 0, such as 1e9 or 25GiBps", item);
    return STATUS_OK;
}

/* Counts have the same syntax as bandwidths, "3,4", and go through the same list of reals. */
static enum status parse_counts(const char *option, const char *text, size_t *out, size_t *n)
{
    double value[OBJECTIVE_LEVELS];
    enum status st = parse_list(option, text, objective_parse_count, value, n);
    for (size_t i = 0; st == STATUS_OK && i < *n; i++)
        out[i] = (size_t)value[i];
    return st;
}

/* Levels are given by --machines, by --bandwidth or by both, which must agree in their number. */
static enum status make_request(const struct arguments *a, struct objective_request *r)
{
    const struct papers_arguments *o = &a->papers;
    size_t bandwidths = 0;
    *r = (struct objective_request){.spec = a->model,
                                    .devices = a->devices,
                                    .stages = a->stages,
                                    .memory_bytes = o->memory_bytes > 0 ? o->memory_bytes : NAN,
                                    .batch = a->batch,
                                    .microbatches = (uint32_t)a->microbatches,
                                    .microbatch_size = (uint32_t)a->microbatch_size,
                                    .time_limit_s = a->search.time_limit_s,
                                    .seed = a->seed,
                                    .said = *o,
                                    .noise = a->sim.noise,
                                    .samples = a->search.samples,
                                    .optimizer = a->optimizer,
                                    .collectives = collective_times};
    if (a->platform && arguments_given(a, "profile"))
        return error_set(STATUS_USAGE, "--profile and --platform cannot be combined");
    if (arguments_given(a, "samples") && !(a->sim.noise > 0))
        return error_set(STATUS_USAGE, "--samples needs --noise");
    PASS(parse_counts("machines", o->machines, r->machines, &r->levels));
    PASS(parse_counts("hierarchy", o->hierarchy, r->hierarchy, &r->hierarchy_levels));
    PASS(parse_list("bandwidth", o->bandwidth, parse_bandwidth, r->bandwidth_Bps, &bandwidths));
    if (r->levels && a->devices)
        return error_set(STATUS_USAGE, "--devices has no effect with --machines");
    if (a->devices && bandwidths == 1)
        r->machines[0] = a->devices;
    if (r->levels && bandwidths && bandwidths != r->levels)
        return error_set(
            STATUS_USAGE,
            "got %zu levels of --machines, but %zu levels of --bandwidth, expected the same number",
            r->levels, bandwidths);
    if (bandwidths)
        r->levels = bandwidths;
    return STATUS_OK;
}

/* The document of `foreline plan --json` (plan_print.c), with what exact algorithms can say more: a
 * lower bound, whether the value is proved optimal, and a note on the search space. */
static void objective_print_json(const struct objective *o, const struct objective_result *r,
                                 const struct provenance *by)
{
    struct json_writer w = {.stream = stdout};
    json_put_header(&w, "foreline-planning", 1, by);
    json_put_string(&w, "algorithm", r->algorithm);
    json_put_string(&w, "objective", o->name);
    json_put_string(&w, "unit", o->unit);
    json_put_real(&w, "objective_value", r->value);
    json_put_real(&w, "lower_bound", r->lower_bound);
    json_put_bool(&w, "proved_optimal", r->proved_optimal);
    json_put_bool(&w, "interrupted", r->interrupted);
    json_put_real(&w, "cpu_s", r->cpu_s);
    if (r->note)
        json_put_string(&w, "note", r->note);
    json_open_array(&w, "stages", false);
    for (size_t i = 0; i < r->parts; i++) {
        const struct objective_part *p = &r->part[i];
        json_open_object(&w, NULL, false);
        json_open_array(&w, "ops", true);
        for (size_t k = 0; k < p->ops; k++)
            json_put_string(&w, NULL, p->op[k]);
        json_close(&w);
        if (o->show) {
            json_open_array(&w, "forms", true);
            for (size_t k = 0; k < p->ops; k++)
                json_put_string(&w, NULL, p->configuration[k]);
            json_close(&w);
        }
        json_open_array(&w, "devices", true);
        if (p->device)
            json_put_string(&w, NULL, p->device);
        json_close(&w);
        json_put_integer(&w, "replicas", p->replicas);
        json_put_integer(&w, "tensor_parallel", p->tensor_parallel);
        json_put_bool(&w, "recompute", p->recompute);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

/* Value, bound and gap, then a row per part with what distinguishes it. */
static enum status print_result(const struct objective *o, const struct objective_request *q,
                                const struct objective_result *r)
{
    printf("objective    %s by %s: %.12g %s%s\n", o->name, r->algorithm, r->value, o->unit,
           r->interrupted      ? " (interrupted: best so far)"
           : r->proved_optimal ? " (proved optimal)"
                               : "");
    if (!isnan(r->lower_bound))
        printf("lower bound  %.12g %s, gap %.3g %%\n", r->lower_bound, o->unit, objective_gap(r));
    printf("CPU time     %.3g s\n", r->cpu_s);
    if (r->note)
        printf("note         %s\n", r->note);
    if (o->show) {
        putchar('\n');
        return o->show(q, r, OBJECTIVE_TEXT, NULL, stdout);
    }
    printf("\n%-5s %-10s %6s %9s %7s  %s\n", "part", "device", "ops", "replicas", "tensor",
           "first");
    for (size_t i = 0; i < r->parts; i++) {
        const struct objective_part *p = &r->part[i];
        printf("%-5zu %-10s %6zu %9u %7u  %s%s\n", i, p->device ? p->device : "-", p->ops,
               p->replicas, p->tensor_parallel, p->ops ? p->op[0] : "-",
               p->recompute ? " (recompute)" : "");
    }
    return q->model && r->parts > 1 ? objective_print_cut(q->model, r, stdout) : STATUS_OK;
}

/* What the objective decided, as a->strategy: JSON, or by its ending a drawing or a text. */
static enum status write_strategy(const struct arguments *a, const struct objective *o,
                                  const struct objective_request *q,
                                  const struct objective_result *r, const struct provenance *by)
{
    enum status st;
    struct file_out out = {0};
    const char *ending = strrchr(a->papers.strategy, '.');
    enum objective_look look = ending && !strcmp(ending, ".dot")   ? OBJECTIVE_DOT
                               : ending && !strcmp(ending, ".txt") ? OBJECTIVE_TEXT
                                                                   : OBJECTIVE_JSON;
    TRY(file_create(a->papers.strategy, &out));
    TRY(o->show(q, r, look, by, out.stream));
    TRY(file_commit(&out));
out:
    file_discard(&out);
    return st;
}

/* ---- values as they were found */

struct series {
    struct file_out out;
    double begin_s;
    bool comma;
};

static void series_add(void *context, double value)
{
    const struct series *s = context;
    fprintf(s->out.stream, "%.6f%c%.17g\n", clock_now() - s->begin_s, s->comma ? ',' : '\t', value);
}

/* In the project's form where the name ends in .csv; else a table that `plot` takes. */
static enum status series_begin(const struct arguments *a, const struct provenance *by,
                                struct series *s, struct objective_request *r)
{
    const char *ending = strrchr(a->papers.series, '.');
    s->comma = ending && strcmp(ending, ".csv") == 0;
    s->begin_s = clock_now();
    PASS(file_create(a->papers.series, &s->out));
    if (s->comma)
        fputs("Time (seconds),Best Metric\n", s->out.stream);
    else
        fprintf(s->out.stream, "# %s\n# %s\n# seed %llu\ntime_s\tbest\n", by->version, by->command,
                (unsigned long long)a->seed);
    r->better = series_add;
    r->context = s;
    return STATUS_OK;
}

static const char *chosen_algorithm(const struct arguments *a)
{
    return strcmp(a->algorithm, "auto") != 0 ? a->algorithm : NULL;
}

enum status objective_of_point(const struct arguments *a, const struct model *m,
                               const struct topology *t, struct plan *out)
{
    enum status st;
    size_t rounded;
    struct objective_request r;
    struct objective_result result = {0};
    struct objective_plan_request q = {.request = &r,
                                       .result = &result,
                                       .model = m,
                                       .members = &(struct import_members){0},
                                       .topology = t,
                                       .model_name = a->model,
                                       .platform_name = a->platform,
                                       .optimizer = a->optimizer,
                                       .seed = a->seed};
    PASS(objective_find(papers_objective_of(a->algorithm)->name, &q.objective));
    PASS(make_request(a, &r));
    r.model = m;
    r.topology = t;
    r.noise = 0; /* is in the model and the topology */
    TRY(objective_solve(q.objective, a->algorithm, &r, &result));
    TRY(objective_plan(&q, out, &rounded));
out:
    objective_result_free(&result);
    return st;
}

/* A platform for a plan that says none: one node with as many GPUs as the parts take. */
static enum status default_platform(const struct objective_request *r, size_t devices,
                                    char name[PLATFORM_NAME])
{
    if (r->levels > 1)
        return error_set(STATUS_USAGE, "-o with %zu levels of machines needs --platform P",
                         r->levels);
    int used = snprintf(name, PLATFORM_NAME, "node:gpus=%zu", devices > 2 ? devices : 2);
    if (r->bandwidth_Bps[0] > 0)
        snprintf(name + used, (size_t)(PLATFORM_NAME - used), ",nvlink=%.17gBps",
                 r->bandwidth_Bps[0]);
    return STATUS_OK;
}

/* Once nothing is refused any more. */
static void say_default(const char *name)
{
    fprintf(stderr, "no --platform given, so the plan is for %s\n", name);
}

/* Strategies that `run` has no numerics for, which it paces. */
static void warn_of_run(const struct plan *p, const struct model *m)
{
    const struct model_op *op = p->steps > 0 ? point_without_numerics(m, p) : NULL;
    if (op)
        fprintf(stderr,
                "warning: foreline run cannot compute op '%s' of kind '%s', so it uses --compute "
                "paced (%s)\n",
                op->name, op->kind, error_message());
}

/* The plan of `result` as a->output. */
static enum status objective_write_plan(const struct arguments *a, const struct objective *o,
                                        const struct objective_request *r,
                                        const struct objective_result *result,
                                        const struct provenance *by)
{
    enum status st;
    struct objective_target x = {0};
    struct plan p = {0};
    char name[PLATFORM_NAME];
    size_t rounded;
    if (!a->platform)
        TRY(default_platform(r, objective_devices(result), name));
    TRY(objective_target_open(a, o, r, a->platform ? a->platform : name, &x));
    x.q.result = result;
    if (!o->plan)
        warn_of_platform(&x.m, &x.t, stderr);
    TRY(objective_plan(&x.q, &p, &rounded));
    if (!a->platform)
        say_default(name);
    if (rounded)
        fprintf(stderr,
                "%s: %zu stages recompute all of their ops, although the objective counts only "
                "some as recomputed\n",
                a->output, rounded);
    warn_of_run(&p, &x.m);
    TRY(plan_write(&p, &x.m, &x.t, a->output, by));
out:
    plan_free(&p);
    objective_target_close(&x);
    if (st != STATUS_OK)
        return error_context(st, "%s", a->output);
    return st;
}

static enum status objective_score_split(const struct arguments *a, const struct objective *o,
                                         const struct objective_request *r)
{
    double value;
    if (!o->score)
        return error_set(STATUS_UNSUPPORTED,
                         "objective '%s' cannot score a given split; drop --score", o->name);
    PASS(o->score(r, a->papers.score, &value));
    printf("%.12g\n", value);
    return STATUS_OK;
}

static enum status objective_solve_graph(const struct arguments *a, const struct objective *o,
                                         struct objective_request *r, const struct provenance *by)
{
    enum status st;
    struct objective_result result = {0};
    struct series series = {0};
    struct objective_target target = {0};
    const struct objective_algorithm *algorithm;
    bool prints = arguments_prose(a) == stdout; /* else the plan goes there */
    TRY(objective_find_algorithm(o, chosen_algorithm(a), &algorithm));
    if (algorithm->on_devices) {
        TRY(objective_target_open(a, o, r, a->platform, &target));
        r->simulate = objective_simulate;
        r->simulator = &target.q;
    }
    if (a->papers.series)
        TRY(series_begin(a, by, &series, r));
    TRY(objective_solve(o, chosen_algorithm(a), r, &result));
    if (prints && a->json)
        objective_print_json(o, &result, by);
    else if (prints)
        TRY(print_result(o, r, &result));
    if (a->output)
        TRY(objective_write_plan(a, o, r, &result, by));
    if (a->papers.series)
        TRY(file_commit(&series.out));
    if (a->papers.strategy)
        TRY(write_strategy(a, o, r, &result, by));
out:
    file_discard(&series.out);
    objective_result_free(&result);
    objective_target_close(&target);
    return st;
}

/* A file of a model of HiDup is one that was profiled: its name says which. */
static enum status read_measured(const struct arguments *a, const struct objective *o,
                                 struct model *m, struct objective_request *r)
{
    if (strcmp(o->name, "hidup") != 0 || !strpbrk(a->model, "./"))
        return STATUS_OK;
    PASS(load_model(a->model, m));
    r->spec = m->name;
    r->model = m;
    return STATUS_OK;
}

/* The platform of the arguments, or, where an algorithm needs one and none is said, the default
 * one, whose name the arguments then get; *t stays {0} where there is neither. */
static enum status objective_read_platform(struct arguments *a, const struct objective_request *r,
                                           char name[PLATFORM_NAME], struct topology *t)
{
    enum status st;
    char *path = NULL;
    if (!a->platform && !a->papers.score && papers_on_devices(a->objective, chosen_algorithm(a))) {
        PASS(default_platform(r, r->stages, name));
        a->platform = name;
    }
    st = a->platform ? load_topology(a->platform, t, &path) : STATUS_OK;
    free(path);
    return st;
}

/* Models come as the objective wants them: read by itself, with every node of a graph file as an
 * op, or as the rest of the program sees them. */
enum status objective_command(const struct arguments *given, const struct provenance *by,
                              const volatile int *stop)
{
    struct arguments with = *given, *a = &with; /* borrows */
    enum status st;
    const struct objective *o;
    struct objective_request request;
    struct model m = {0};
    struct topology t = {0};
    char name[PLATFORM_NAME];
    if (objective_find(a->objective, &o) != STATUS_OK)
        return error_context(STATUS_USAGE, "--objective takes 'pipeline' or a published objective");
    if (!a->model)
        return error_set(STATUS_USAGE, "--model M is missing");
    if (a->output && o->plan && !a->platform)
        return error_set(STATUS_USAGE, "-o: a plan of objective %s needs --platform P", o->name);
    TRY(make_request(a, &request));
    if (!o->own_format) {
        TRY((o->nodes_apart ? load_model_apart : load_model)(a->model, &m));
        request.model = &m;
    }
    TRY(read_measured(a, o, &m, &request));
    TRY(objective_read_platform(a, &request, name, &t));
    request.topology = a->platform ? &t : NULL;
    request.stop = stop;
    TRY(a->papers.score ? objective_score_split(a, o, &request)
                        : objective_solve_graph(a, o, &request, by));
    if (a->platform == name)
        say_default(name);
    if (o->plan && a->platform)
        warn_of_platform(&m, &t, stderr);
out:
    topology_free(&t);
    model_free(&m);
    return st;
}
