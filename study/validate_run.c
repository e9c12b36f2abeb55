/* Plans, predictions and measurements of a validation: each is a file that is made once, and is
 * there when it is complete. Predictions are made in forked workers, all of them before the first
 * run; runs one at a time, in a shuffled order. */
#define _DEFAULT_SOURCE /* getloadavg */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "study/pool.h"
#include "study/summary.h"
#include "study/validate.h"

enum { FAILURE = 512 };

/* File `k` of a point: the prediction by engine k, behind them the run number k - VALIDATE_ENGINES.
 */
static enum status file_path(const struct validate_job *job, const struct validate_point *p,
                             size_t k, char path[VALIDATE_PATH])
{
    char suffix[32];
    if (k < VALIDATE_ENGINES)
        snprintf(suffix, sizeof suffix, ".%s.json", validate_engine(k)->name);
    else
        snprintf(suffix, sizeof suffix, ".%zu.json", k - VALIDATE_ENGINES + 1);
    return validate_path(job->directory, k < VALIDATE_ENGINES ? "predicted" : "measured", p->name,
                         suffix, path);
}

/* Does the experiment ask for predictions by this engine? */
static bool is_asked(const struct validate_job *job, size_t engine)
{
    const struct experiment *e = &job->e;
    const struct experiment_axis *axis = &e->axis[experiment_find(e, "engine")];
    for (size_t i = 0; i < axis->n; i++)
        if (!strcmp(axis->choice[i].label, validate_engine(engine)->name))
            return true;
    return false;
}

/* ---- plans and predictions */

/* The plan is made with the engine that runs it left out of the search: SimGrid judges
 * candidates. */
static enum status validate_make_plan(const struct validate_job *job,
                                      const struct validate_point *p)
{
    enum status st;
    struct point point = {0};
    TRY(point_make(&job->e, p->number, NULL, &point));
    TRY(point_write_plan(&point, p->plan, job->by));
out:
    point_free(&point);
    return st;
}

/* Plan and predict a point, unless the files are there. */
static enum status validate_predict_before(const struct validate_job *job,
                                           const struct validate_point *p)
{
    enum status st = STATUS_OK;
    char path[VALIDATE_PATH];
    struct loaded_plan plan = {0};
    struct measurement m = {0};
    if (!experiment_value(&job->e, p->number, "plan") && !validate_exists(p->plan))
        TRY(validate_make_plan(job, p));
    TRY(load_plan_only(p->plan, &plan));
    for (size_t k = 0; k < VALIDATE_ENGINES; k++) {
        TRY(file_path(job, p, k, path));
        if (!is_asked(job, k) || validate_exists(path))
            continue;
        TRY(point_predict(&plan, p->plan, validate_engine(k), &m));
        TRY(measurement_write(&m, path, job->by));
        measurement_free(&m);
    }
out:
    measurement_free(&m);
    loaded_plan_free(&plan);
    return st;
}

/* What the workers of the pool of predictions are given. */
struct predictions {
    const struct validate_job *job;
    const struct validation *v;
};

/* In a worker. What is wrong with a point is its failure, which the parent keeps; a full disk or a
 * lack of memory is an error of the whole. */
static enum status predict_one(void *context, size_t i, void *slot)
{
    const struct predictions *p = context;
    enum status st = validate_predict_before(p->job, &p->v->point[i]);
    if (st == STATUS_OK || st == STATUS_NOMEM || st == STATUS_IO)
        return st;
    snprintf(slot, FAILURE, "%s", error_message());
    return STATUS_OK;
}

/* ---- predictions.tsv */

/* A line per prediction, as they are on disk. */
static enum status put_manifest(const struct validate_job *job, const struct validation *v,
                                FILE *out)
{
    char path[VALIDATE_PATH], hex[DIGEST_HEX];
    fprintf(out, "# plan\tengine\tpredicted_s\tsha256\n");
    for (size_t i = 0; i < v->points; i++)
        for (size_t k = 0; k < VALIDATE_ENGINES && !v->point[i].failure; k++) {
            struct measurement m = {0};
            if (!is_asked(job, k))
                continue;
            PASS(file_path(job, &v->point[i], k, path));
            PASS(digest_file(path, hex));
            PASS(measurement_read(path, &m));
            text_put_cell(out, v->point[i].name);
            fprintf(out, "\t%s\t%.9g\t%s\n", m.engine, m.iteration_s, hex);
            measurement_free(&m);
        }
    return STATUS_OK;
}

/* The first write: nothing may have been measured. */
static enum status write_manifest(const struct validate_job *job, const struct validation *v,
                                  const char *lines)
{
    char measured[VALIDATE_PATH], now[CLOCK_UTC];
    struct file_out f;
    for (size_t i = 0; i < v->points; i++)
        for (size_t r = 0; r < job->repeats; r++) {
            PASS(file_path(job, &v->point[i], VALIDATE_ENGINES + r, measured));
            if (validate_exists(measured))
                return error_set(
                    STATUS_INVALID,
                    "%s: measurement was made before the predictions; choose another -o DIR",
                    measured);
        }
    PASS(validate_create(job->directory, "predictions.tsv", &f));
    fprintf(f.stream, "# written %s, before the first measurement\n%s", clock_utc(NULL, now),
            lines);
    return file_commit(&f);
}

/* A second start must find the predictions that the first one wrote, byte by byte but for the line
 * that says when. */
static enum status check_manifest(const char *path, const char *lines)
{
    char *text = NULL;
    size_t length;
    enum status st = file_read(path, &text, &length);
    const char *old = st == STATUS_OK ? strchr(text, '\n') : NULL;
    if (st == STATUS_OK && (!old || strcmp(old + 1, lines) != 0))
        st = error_set(
            STATUS_INVALID,
            "%s: predictions were changed after the first measurement; choose another -o DIR",
            path);
    free(text);
    return st;
}

enum status validate_predict(const struct validate_job *job, struct validation *v)
{
    enum status st;
    struct predictions p = {job, v};
    struct file_text t = {0};
    char path[VALIDATE_PATH], (*failure)[FAILURE] = NULL;
    TRY(ARRAY_NEW(failure, v->points));
    for (size_t e = 0; e < VALIDATE_ENGINES; e++)
        TRY(engine_load(validate_engine(e)));
    TRY(pool_for(0, v->points, sizeof *failure, failure, predict_one, &p));
    for (size_t i = 0; i < v->points; i++)
        if (*failure[i])
            TRY(text_copy(failure[i], &v->point[i].failure));
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, put_manifest(job, v, t.stream)));
    TRY(validate_path(job->directory, "", "predictions", ".tsv", path));
    TRY(validate_exists(path) ? check_manifest(path, t.text) : write_manifest(job, v, t.text));
out:
    free(t.text);
    free(failure);
    return st;
}

/* ---- measurements */

/* Does a real run not fit, as the prediction says that knows most? Then the point fails. */
static enum status validate_check_memory(const struct validate_job *job, struct validate_point *p)
{
    enum status st;
    char path[VALIDATE_PATH], lack[REPORT_VERDICT];
    struct measurement m = {0};
    struct point_run run;
    TRY(point_run_of(&job->e, p->number, &run));
    bool real =
        !strcmp(run.engine, "tcp") || !strcmp(run.engine, "mpi") || !strcmp(run.engine, "nccl");
    if (!real || (run.compute && !strcmp(run.compute, "paced")))
        return STATUS_OK;
    TRY(file_path(job, p, is_asked(job, VALIDATE_ENGINES - 1) ? VALIDATE_ENGINES - 1 : 0, path));
    TRY(measurement_read(path, &m));
    if (measurement_overfull(&m) > 0) {
        error_set(STATUS_INFEASIBLE,
                  "the plan was not run, because it does not fit into memory: %s",
                  report_lack(&m, lack));
        st = validate_fail(p);
    }
out:
    measurement_free(&m);
    return st;
}

/* Fisher and Yates' shuffle. */
static void shuffle(size_t *order, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(random_at(key, i) % i), other = order[k];
        order[k] = order[i - 1];
        order[i - 1] = other;
    }
}

static bool is_interrupted(const struct validate_job *job)
{
    return job->interrupted && *job->interrupted;
}

/* One run of a point, `number` in the order of all, unless it is there. It has a line in runs.tsv,
 * also when it fails. */
static enum status measure_point(const struct validate_job *job, struct validate_point *p,
                                 size_t repeat, size_t number)
{
    enum status st;
    char path[VALIDATE_PATH], began[CLOCK_UTC], result[FAILURE];
    double load = 0;
    struct point_run run;
    struct measurement m = {0};
    TRY(file_path(job, p, VALIDATE_ENGINES + repeat, path));
    if (validate_exists(path))
        goto out;
    TRY(point_run_of(&job->e, p->number, &run));
    run.launch.timeout_s = job->timeout_s;
    run.interrupted = job->interrupted;
    run.by = job->by;
    clock_utc(NULL, began);
    if (getloadavg(&load, 1) != 1)
        load = 0;
    st = point_measure(p->plan, &run, path);
    if (st == STATUS_NOMEM)
        goto out;
    if (st != STATUS_OK && is_interrupted(job))
        return STATUS_OK; /* it did not fail, it was not done */
    if (st != STATUS_OK) {
        snprintf(result, sizeof result, "failed: %s", error_message());
        TRY(validate_fail(p));
    } else {
        TRY(measurement_read(path, &m));
        snprintf(result, sizeof result, "%.6g s", m.iteration_s);
    }
    TRY(validate_log(job->directory, "%s\t%zu\t%s%s\t%zu\t%.2f\t%s", began, number,
                     text_guard(p->name), p->name, repeat + 1, load, result));
    if (job->progress)
        fprintf(job->progress, "run %zu, %s: %s\n", number, p->name, result);
out:
    measurement_free(&m);
    return st;
}

enum status validate_measure(const struct validate_job *job, struct validation *v)
{
    enum status st;
    char path[VALIDATE_PATH];
    size_t *order = NULL;
    TRY(validate_path(job->directory, "", "predictions", ".tsv", path));
    if (!validate_exists(path))
        return error_set(STATUS_INVALID,
                         "%s: file is missing, so nothing is run; start again with another -o DIR",
                         path);
    TRY(ARRAY_NEW(order, v->points));
    for (size_t i = 0; i < v->points; i++)
        if (!v->point[i].failure)
            TRY(validate_check_memory(job, &v->point[i]));
    for (size_t r = 0, run = 1; r < job->repeats; r++) {
        shuffle(order, v->points, random_key(job->seed, r));
        for (size_t i = 0; i < v->points; i++, run++) {
            if (is_interrupted(job))
                goto out;
            if (!v->point[order[i]].failure)
                TRY(measure_point(job, &v->point[order[i]], r, run));
        }
    }
out:
    free(order);
    return st;
}

/* ---- all files */

enum status validate_collect(const struct validate_job *job, struct validation *v)
{
    enum status st = STATUS_OK;
    char path[VALIDATE_PATH];
    struct measurement m = {0};
    for (size_t i = 0; i < v->points; i++)
        for (size_t k = 0; k < VALIDATE_ENGINES + job->repeats; k++) {
            TRY(file_path(job, &v->point[i], k, path));
            if (!validate_exists(path))
                continue;
            TRY(measurement_read(path, &m));
            TRY(validate_add_file(v, path, &m));
        }
out:
    measurement_free(&m);
    return st;
}
