/* Points of a validation and their files; measurement files of others. */
#include "study/validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "plots/figure.h"

/* ---- points and files */

enum status validate_add_point(struct validation *v, const char *name, const char *plan)
{
    PASS(ARRAY_ROOM(v->point, v->points));
    struct validate_point *p = &v->point[v->points++];
    PASS(text_copy(name, &p->name));
    return text_copy(plan, &p->plan);
}

enum status validate_add_file(struct validation *v, const char *path, struct measurement *m)
{
    PASS(ARRAY_ROOM(v->m, v->files));
    PASS(ARRAY_ROOM(v->file, v->files));
    PASS(text_copy(path, &v->file[v->files]));
    v->m[v->files++] = *m;
    *m = (struct measurement){0};
    return STATUS_OK;
}

enum status validate_fail(struct validate_point *p)
{
    return p->failure ? STATUS_OK : text_copy(error_message(), &p->failure);
}

void validation_free(struct validation *v)
{
    for (size_t i = 0; i < v->points; i++) {
        free(v->point[i].name);
        free(v->point[i].plan);
        free(v->point[i].failure);
    }
    for (size_t i = 0; i < v->files; i++) {
        measurement_free(&v->m[i]);
        free(v->file[i]);
    }
    free(v->point);
    free(v->m);
    free(v->file);
    *v = (struct validation){0};
}

/* ---- the folder */

enum status validate_path(const char *directory, const char *folder, const char *name,
                          const char *suffix, char path[VALIDATE_PATH])
{
    int n = snprintf(path, VALIDATE_PATH, "%s/%s%s%s%s", directory, folder, *folder ? "/" : "",
                     name, suffix);
    if (n < 0 || n >= VALIDATE_PATH)
        return error_set(STATUS_INVALID, "%.60s...: path longer than %d characters", directory,
                         VALIDATE_PATH);
    return STATUS_OK;
}

bool validate_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum status validate_create(const char *directory, const char *name, struct file_out *out)
{
    char path[VALIDATE_PATH];
    PASS(validate_path(directory, "", name, "", path));
    return file_create(path, out);
}

enum status validate_make_directory(const char *directory, const char *folder)
{
    char path[VALIDATE_PATH];
    PASS(validate_path(directory, "", folder, "", path));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

/* ---- measurement files of others */

/* The point of a measurement, added when it is new. Runs of one plan are one point, also when
 * their files name it by different paths: hashes decide. Names of points must be distinct, since
 * files are called after them: the second "x" is called "x-2". */
static enum status point_of(struct validation *v, const struct measurement *m, const char *file,
                            size_t *point)
{
    char name[VALIDATE_NAME], other[VALIDATE_NAME + 24];
    const char *plan = m->plan && *m->plan ? m->plan : file;
    for (size_t i = 0; i < v->files; i++) {
        if (!measurement_same_plan(&v->m[i], m))
            continue;
        for (*point = 0; *point < v->points; ++*point)
            if (v->m[i].plan && !strcmp(v->point[*point].plan, v->m[i].plan))
                return STATUS_OK;
    }
    style_plan_name(plan, name, sizeof name);
    snprintf(other, sizeof other, "%s", name);
    for (size_t i = 0, again = 2; i < v->points; i++) {
        if (strcmp(v->point[i].name, other) != 0)
            continue;
        snprintf(other, sizeof other, "%s-%zu", name, again++);
        i = (size_t)-1; /* look at all of them again */
    }
    PASS(validate_add_point(v, other, plan));
    *point = v->points - 1;
    return STATUS_OK;
}

/* The plan that a run names, if it is still the one that was run: a prediction of another plan
 * would be compared with it otherwise. */
static enum status load_named(const struct measurement *m, struct loaded_plan *out)
{
    enum status st;
    struct loaded_plan p = {0};
    if (!m->plan || !*m->plan)
        return error_set(
            STATUS_INVALID,
            "measurement does not name the plan file, so foreline cannot predict the run");
    TRY(load_plan_only(m->plan, &p));
    if (m->plan_sha256 && *m->plan_sha256 && strcmp(m->plan_sha256, p.sha256) != 0)
        st = error_set(STATUS_INVALID,
                       "%s is not the plan that was run: its SHA-256 is %.12s..., but the "
                       "measurement has %.12s...",
                       m->plan, p.sha256, m->plan_sha256);
    if (st == STATUS_OK)
        MOVE(out, p);
out:
    loaded_plan_free(&p);
    return st;
}

/* Predictions of a plan that others have run, made now by all engines. */
static enum status validate_predict_one(struct validation *v, size_t point,
                                        const struct loaded_plan *p, const char *directory,
                                        const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct measurement m = {0};
    char path[VALIDATE_PATH], suffix[32];
    for (size_t k = 0; k < VALIDATE_ENGINES; k++) {
        TRY(point_predict(p, v->point[point].plan, validate_engine(k), &m));
        snprintf(suffix, sizeof suffix, ".%s.json", validate_engine(k)->name);
        TRY(validate_path(directory ? directory : ".", "predicted", v->point[point].name, suffix,
                          path));
        if (directory)
            TRY(measurement_write(&m, path, by));
        TRY(validate_add_file(v, path, &m));
    }
out:
    measurement_free(&m);
    return st;
}

static enum status validate_read_file(struct validation *v, const char *path, const char *directory,
                                      const struct provenance *by)
{
    enum status st;
    struct measurement m = {0};
    struct loaded_plan p = {0};
    size_t point, known = v->points;
    char *plan = NULL;
    TRY(measurement_read(path, &m));
    if (m.plan) {
        TRY(path_find(m.plan, path, &plan));
        free(m.plan);
        m.plan = plan;
    }
    if (!m.engine || !*m.engine || engine_predicts(m.engine))
        FAIL(STATUS_INVALID, "%s: engine '%s' is a prediction, expected a measured run", path,
             m.engine ? m.engine : "");
    if (!(m.iteration_s > 0))
        FAIL(STATUS_INVALID, "%s: measured iteration time is %g s, expected more than 0 s", path,
             m.iteration_s);
    TRY(point_of(v, &m, path, &point));
    if (point == known) { /* new: the predictions are still to be made */
        if ((st = load_named(&m, &p)) == STATUS_OK)
            st = validate_predict_one(v, point, &p, directory, by);
        if (st != STATUS_OK && st != STATUS_NOMEM)
            st = validate_fail(&v->point[point]);
        TRY(st);
    }
    TRY(validate_add_file(v, path, &m));
out:
    loaded_plan_free(&p);
    measurement_free(&m);
    return st;
}

enum status validate_read_files(struct validation *v, const char *const *path, size_t n,
                                const char *directory, const struct provenance *by)
{
    if (directory) {
        PASS(validate_make_directory(directory, ""));
        PASS(validate_make_directory(directory, "predicted"));
    }
    for (size_t i = 0; i < n; i++)
        PASS(validate_read_file(v, path[i], directory, by));
    return STATUS_OK;
}
