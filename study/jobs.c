/* Jobs: loaded, simulated alone and together, iterations counted while all of them run. */
#include "study/jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/pattern.h"
#include "study/settings.h"

enum { ROUNDS = 16, PIECES = 64, MOST_OPS = 20000000 };

/* Rounding of sums of many times; how much longer jobs run when too few iterations counted. */
static const double rounding = 1e-9, longer = 1.25;

/* ---- loading */

/* The file's name without folder and .json; with its number behind when an earlier job has it. */
static enum status job_set_name(struct jobs *js, size_t k)
{
    const char *slash = strrchr(js->job[k].path, '/');
    const char *base = slash ? slash + 1 : js->job[k].path;
    size_t length = strlen(base), room = length + sizeof ".18446744073709551615";
    char *name;
    if (length > 5 && !strcmp(base + length - 5, ".json"))
        length -= 5;
    PASS(ARRAY_NEW(name, room));
    snprintf(name, room, "%.*s", (int)length, base);
    for (size_t i = 0; i < k; i++)
        if (!strcmp(js->job[i].name, name))
            snprintf(name, room, "%.*s.%zu", (int)length, base, k + 1);
    js->job[k].name = name;
    return STATUS_OK;
}

static enum status job_load(struct jobs *js, size_t k, const char *path)
{
    struct job *job = &js->job[k];
    job->path = path;
    PASS(load_plan(path, &job->p));
    PASS(job_set_name(js, k));
    if (strcmp(job->p.platform, js->job[0].p.platform) != 0)
        return error_set(STATUS_INVALID,
                         "jobs must share one platform, but %s uses %s and %s uses %s",
                         js->job[0].path, js->job[0].p.plan.platform, path, job->p.plan.platform);
    if (job->p.program.asynchronous)
        return error_set(
            STATUS_UNSUPPORTED,
            "%s: schedule %s has no pipeline flush, so the plan cannot run beside other jobs", path,
            job->p.plan.schedule);
    return STATUS_OK;
}

/* "B=3s" */
static enum status job_take_start(struct jobs *js, const char *text)
{
    const char *equals = strrchr(text, '=');
    char names[TEXT_LIST] = "";
    for (size_t k = 0; k < js->n; k++) {
        const char *name = js->job[k].name;
        text_list_add(names, sizeof names, name);
        if (!equals || strlen(name) != (size_t)(equals - text) ||
            strncmp(text, name, strlen(name)) != 0)
            continue;
        if (units_parse(UNIT_SECONDS, equals + 1, &js->job[k].start_s) != STATUS_OK)
            return error_context(STATUS_USAGE, "--start %s", text);
        return STATUS_OK;
    }
    return error_set(STATUS_USAGE, "--start: got %s, expected JOB=TIME; jobs: %s", text, names);
}

enum status jobs_load(char *const *path, size_t n, const struct text_list *starts, struct jobs *out)
{
    enum status st;
    struct jobs js = {.n = n};
    TRY(ARRAY_NEW(js.job, n));
    for (size_t k = 0; k < n; k++)
        TRY(job_load(&js, k, path[k]));
    for (size_t k = 0; k < starts->n; k++)
        TRY(job_take_start(&js, starts->item[k]));
    js.topology = &js.job[0].p.topology;
    js.platform = js.job[0].p.platform;
    MOVE(out, js);
out:
    jobs_free(&js);
    return st;
}

void jobs_free(struct jobs *js)
{
    for (size_t k = 0; js->job && k < js->n; k++) {
        loaded_plan_free(&js->job[k].p);
        free(js->job[k].name);
        free(js->job[k].iteration_s);
        free(js->job[k].emulated_alone_s);
        free(js->job[k].emulated_together_s);
    }
    for (size_t k = 0; k < js->links; k++) {
        free(js->link[k].bytes);
        free(js->link[k].pair_s);
    }
    free(js->link);
    free(js->flow);
    free(js->job);
    program_joined_free(&js->joined);
    program_free(&js->traffic);
    timeline_free(&js->timeline);
    *js = (struct jobs){0};
}

enum status jobs_check(const struct jobs *js)
{
    uint32_t *owner = NULL;
    PASS(ARRAY_NEW(owner, js->topology->n));
    for (uint32_t k = 0; k < js->n; k++) {
        const struct program *p = &js->job[k].p.program;
        for (size_t r = 0; r < p->ranks; r++) {
            uint32_t *of = &owner[p->rank[r].device];
            if (*of > 0) {
                const char *other = js->job[*of - 1].name;
                free(owner);
                return error_set(STATUS_INVALID,
                                 "jobs %s and %s both run on device %s. Try --place packed", other,
                                 js->job[k].name, p->rank[r].name);
            }
            *of = k + 1;
        }
    }
    free(owner);
    return STATUS_OK;
}

/* ---- simulating */

static enum status jobs_simulate(const struct jobs *js, const struct program *p,
                                 struct timeline *timeline)
{
    struct simulation s = {0};
    PASS(js->engine->run(p, js->topology, js->platform, &js->options, &s));
    timeline_free(timeline);
    MOVE(timeline, s.timeline);
    simulation_free(&s);
    return STATUS_OK;
}

enum status jobs_alone(struct jobs *js)
{
    struct timeline t = {0};
    for (size_t k = 0; k < js->n; k++) {
        struct job *job = &js->job[k];
        PASS(jobs_simulate(js, &job->p.program, &t));
        job->alone_s = 0;
        for (size_t i = 0; i < t.n; i++)
            job->alone_s = fmax(job->alone_s, t.end_s[i]);
        timeline_free(&t);
        if (!(job->alone_s > 0 && isfinite(job->alone_s)))
            return error_set(
                STATUS_INVALID,
                "%s: simulated iteration time is %g s, expected a finite number above 0", job->path,
                job->alone_s);
    }
    return STATUS_OK;
}

double jobs_count(const double *begin_s, const double *end_s, size_t n, double from, double to,
                  double *iteration_s, size_t *counted)
{
    double sum = 0;
    size_t c = 0;
    for (size_t k = 0; k < n; k++)
        if (begin_s[k] >= from - rounding && end_s[k] <= to + rounding) {
            iteration_s[c++] = end_s[k] - begin_s[k];
            sum += end_s[k] - begin_s[k];
        }
    *counted = c;
    return c > 0 ? sum / (double)c : NAN;
}

/* When iteration k of a job begins and ends. */
static double jobs_begin(const struct jobs *js, size_t job, size_t k)
{
    return js->timeline.end_s[program_joined_begin(&js->joined, job, k)];
}

static double jobs_end(const struct jobs *js, size_t job, size_t k)
{
    double end_s = 0;
    for (size_t i = 0; i < js->job[job].p.program.ops; i++)
        end_s = fmax(end_s, js->timeline.end_s[program_joined_op(&js->joined, job, k, i)]);
    return end_s;
}

/* One message of the traffic's flows per period. */
static enum status jobs_make_traffic(struct jobs *js, double period_s)
{
    enum status st;
    struct pattern x = {.ranks = (uint32_t)js->topology->n, .n = js->flows};
    uint32_t *recv = NULL;
    TRY(ARRAY_NEW(x.flow, x.n));
    TRY(ARRAY_NEW(recv, x.n));
    for (size_t f = 0; f < x.n; f++)
        x.flow[f] = (struct pattern_flow){js->flow[f].from, js->flow[f].to,
                                          (int64_t)fmax(1, round(js->flow[f].Bps * period_s))};
    program_free(&js->traffic);
    TRY(pattern_program(&x, js->topology, recv, &js->traffic));
    js->traffic.attained = js->job[0].p.program.attained;
out:
    free(recv);
    pattern_free(&x);
    return st;
}

/* Of every job so many iterations; traffic until `until`. */
static enum status jobs_simulate_together(struct jobs *js, double period_s, double until)
{
    enum status st;
    struct program_part *part = NULL;
    size_t n = js->n + (js->flows > 0);
    double ops = 0;
    TRY(ARRAY_NEW(part, n));
    for (size_t k = 0; k < js->n; k++)
        part[k] = (struct program_part){&js->job[k].p.program, js->job[k].iterations,
                                        js->job[k].start_s, 0};
    if (js->flows > 0)
        part[js->n] = (struct program_part){
            &js->traffic, (size_t)fmin(ceil(until / period_s), MOST_OPS), 0, period_s};
    for (size_t k = 0; k < n; k++)
        ops += (double)part[k].iterations * (double)part[k].program->ops;
    if (ops >= MOST_OPS)
        FAIL(STATUS_INFEASIBLE,
             "the jobs have %.3g ops together, expected at most %d. Try --iterations %zu, earlier "
             "starts, or jobs with similar iteration times",
             ops, MOST_OPS, 1 + js->iterations / 4);
    program_joined_free(&js->joined);
    TRY(program_join(part, n, &js->joined));
    TRY(jobs_simulate(js, &js->joined.program, &js->timeline));
out:
    free(part);
    return st;
}

/* What of the traffic has been sent while all jobs run. */
static double jobs_traffic_sent(const struct jobs *js)
{
    double bytes = 0;
    const struct timeline *t = &js->timeline;
    for (size_t k = 0; js->flows > 0 && k < js->joined.part[js->n].iterations; k++)
        for (size_t i = 0; i < js->traffic.ops; i++) {
            size_t op = program_joined_op(&js->joined, js->n, k, i);
            double from = t->start_s[op], to = t->end_s[op];
            double inside_s = fmin(to, js->to_s) - fmax(from, js->from_s);
            if (js->traffic.op[i].kind == OP_SEND && to > from && inside_s > 0)
                bytes += (double)js->traffic.op[i].bytes * inside_s / (to - from);
        }
    return bytes / (js->to_s - js->from_s);
}

/* Iterations of a job that are in the window, and the mean of all that were simulated. */
static enum status job_count(struct jobs *js, size_t k, double *mean_s)
{
    enum status st;
    struct job *job = &js->job[k];
    double *begin_s = NULL, *end_s = NULL;
    TRY(ARRAY_NEW(begin_s, job->iterations));
    TRY(ARRAY_NEW(end_s, job->iterations));
    for (size_t i = 0; i < job->iterations; i++) {
        begin_s[i] = jobs_begin(js, k, i);
        end_s[i] = jobs_end(js, k, i);
    }
    free(job->iteration_s);
    TRY(ARRAY_NEW(job->iteration_s, job->iterations));
    job->together_s = jobs_count(begin_s, end_s, job->iterations, js->from_s, js->to_s,
                                 job->iteration_s, &job->counted);
    *mean_s = (end_s[job->iterations - 1] - begin_s[0]) / (double)job->iterations;
out:
    free(begin_s);
    free(end_s);
    return st;
}

/* All jobs run from the last start to the first end. *next_s: where that must be so that enough
 * iterations are counted of each; *enough: they are. */
static enum status jobs_measure(struct jobs *js, double period_s, double *mean_s, double *next_s,
                                bool *enough)
{
    js->from_s = 0;
    js->to_s = js->flows > 0 ? (double)js->joined.part[js->n].iterations * period_s : INFINITY;
    for (size_t k = 0; k < js->n; k++) {
        js->from_s = fmax(js->from_s, jobs_begin(js, k, 0));
        js->to_s = fmin(js->to_s, jobs_end(js, k, js->job[k].iterations - 1));
    }
    *enough = true;
    *next_s = 0;
    for (size_t k = 0; k < js->n; k++) {
        PASS(job_count(js, k, &mean_s[k]));
        *enough &= js->job[k].counted >= js->iterations;
        *next_s = fmax(*next_s, js->from_s + ((double)js->iterations + 1) * mean_s[k]);
    }
    return STATUS_OK;
}

enum status jobs_run(struct jobs *js)
{
    enum status st;
    double until = 0, next_s, period_s = INFINITY, *mean_s = NULL;
    bool enough = false;
    TRY(ARRAY_NEW(mean_s, js->n));
    for (size_t k = 0; k < js->n; k++) {
        mean_s[k] = js->job[k].alone_s;
        js->job[k].iterations = 1;
        until = fmax(until, js->job[k].start_s + (double)js->iterations * mean_s[k]);
        period_s = fmin(period_s, mean_s[k] / PIECES);
    }
    if (js->flows > 0)
        TRY(jobs_make_traffic(js, period_s));
    for (int round = 0; !enough; round++) {
        if (round == ROUNDS)
            FAIL(STATUS_INFEASIBLE,
                 "the jobs do not overlap for %zu iterations of each. Try more --iterations or "
                 "earlier --start",
                 js->iterations);
        for (size_t k = 0; k < js->n; k++) {
            double n = ceil((until - js->job[k].start_s) / mean_s[k] - 1e-6) + (round > 0);
            n = fmin(n, MOST_OPS); /* more are refused */
            js->job[k].iterations = (size_t)fmax(n, (double)js->job[k].iterations);
        }
        TRY(jobs_simulate_together(js, period_s, until * (round > 0 ? 1.1 : 1)));
        TRY(jobs_measure(js, period_s, mean_s, &next_s, &enough));
        until = fmax(next_s, longer * until); /* means are also of times when some have ended */
    }
    js->sent_Bps = jobs_traffic_sent(js);
out:
    free(mean_s);
    return st;
}
