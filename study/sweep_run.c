/* Points of a sweep in forked workers, each result put into the database as it comes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "study/pool.h"
#include "study/sweep.h"
#include "study/sweep_point.h"

/* ---- which points there are */

static const struct experiment_setting *setting_of(const struct experiment_setting *const *setting,
                                                   size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(setting[i]->key, key))
            return setting[i];
    return NULL;
}

/* Where the fault is: at the setting, or else in the file. */
static enum status at_line(const struct experiment *e, const struct experiment_setting *s,
                           enum status st)
{
    if (st == STATUS_NOMEM)
        return st;
    return s ? error_context(STATUS_PARSE, "%s:%zu", e->path, s->line)
             : error_context(STATUS_PARSE, "%s", e->path);
}

/* The last setting of a group of keys: "platform" and "platform.KEY". */
static const struct experiment_setting *last_of(const struct experiment_setting *const *setting,
                                                size_t n, const char *group)
{
    const struct experiment_setting *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *key = setting[i]->key;
        bool member = !strncmp(key, group, strlen(group)) &&
                      (!key[strlen(group)] || key[strlen(group)] == '.');
        if ((member || (!strcmp(group, "platform") && !strcmp(key, "devices"))) &&
            (!last || setting[i]->line > last->line))
            last = setting[i];
    }
    return last;
}

/* Is there such a model? Asked once for neighbours of the same. */
static enum status check_model(const struct experiment *e,
                               const struct experiment_setting *const *setting, size_t n,
                               const struct sweep_point *p, char **known)
{
    struct model m = {0};
    if (!p->model || (*known && !strcmp(*known, p->model)))
        return STATUS_OK;
    enum status st = load_model(p->model, &m);
    model_free(&m);
    if (st != STATUS_OK)
        return at_line(e, last_of(setting, n, "model"), st);
    free(*known);
    *known = strdup(p->model);
    return *known ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

static enum status identify(struct sweep_points *p, size_t i, char **known)
{
    enum status st;
    const struct experiment_setting **setting = NULL;
    struct sweep_point point = {0};
    size_t n;
    TRY(experiment_settings(p->e, p->number[i], &setting, &n));
    st = sweep_point_make(setting, n, p->engine, &point);
    if (st != STATUS_OK) {
        st = at_line(p->e, NULL, st);
        goto out;
    }
    TRY(check_model(p->e, setting, n, &point, known));
    if (point.plan_file && access(point.plan_file, R_OK) != 0) {
        st = at_line(p->e, setting_of(setting, n, "plan"),
                     error_set(STATUS_IO, "%s: %s", point.plan_file, strerror(errno)));
        goto out;
    }
    st = sweep_point_hash(setting, n, &point, p->hash[i]);
    if (st != STATUS_OK)
        st = at_line(p->e, last_of(setting, n, "platform"), st);
out:
    sweep_point_free(&point);
    free(setting);
    return st;
}

enum status sweep_points_some(const struct experiment *e, const size_t *number, size_t n,
                              const struct engine *engine, struct sweep_points *out)
{
    enum status st = STATUS_OK;
    char *known = NULL;
    struct sweep_points p = {.e = e, .engine = engine, .n = n};
    p.number = malloc((n + 1) * sizeof *p.number);
    p.hash = malloc((n + 1) * sizeof *p.hash);
    if (!p.number || !p.hash) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        p.number[i] = number ? number[i] : i;
        TRY(identify(&p, i, &known));
    }
    *out = p;
    p = (struct sweep_points){0};
out:
    free(known);
    sweep_points_free(&p);
    return st;
}

enum status sweep_points_all(const struct experiment *e, struct sweep_points *out)
{
    return sweep_points_some(e, NULL, e->points, NULL, out);
}

void sweep_points_free(struct sweep_points *p)
{
    free(p->number);
    free(p->hash);
    *p = (struct sweep_points){0};
}

/* ---- computing them */

struct state {
    const struct sweep_points *p;
    const struct sweep_run *run;
    struct sweep_cache cache; /* of a worker */
    size_t total, done, status[POINT_STATUSES];
    double started_s, shown_s;
};

static void work(void *context, size_t item, void *slot)
{
    struct state *s = context;
    struct point_result *r = slot;
    const struct experiment_setting **setting = NULL;
    struct sweep_point point = {0};
    size_t n;
    enum status st = experiment_settings(s->p->e, s->p->number[item], &setting, &n);
    if (st == STATUS_OK)
        st = sweep_point_make(setting, n, s->p->engine, &point);
    if (st == STATUS_OK) {
        sweep_point_evaluate(&point, &s->cache, r);
    } else {
        r->status = POINT_FAILED;
        snprintf(r->reason, sizeof r->reason, "%s", error_message());
    }
    sweep_point_free(&point);
    free(setting);
}

static enum status done(void *context, size_t item, const void *slot)
{
    enum status st;
    struct state *s = context;
    const struct experiment_setting **setting = NULL;
    struct point_result lost = {.status = POINT_FAILED};
    const struct point_result *r = slot ? slot : &lost;
    size_t n;
    if (!slot)
        snprintf(lost.reason, sizeof lost.reason, "%s", error_message());
    TRY(experiment_settings(s->p->e, s->p->number[item], &setting, &n));
    TRY(database_put(s->run->db, s->p->hash[item], setting, n, r));
    s->done++;
    s->status[r->status]++;
out:
    free(setting);
    return st;
}

static void tick(void *context)
{
    struct state *s = context;
    double t = clock_now(), elapsed = t - s->started_s;
    if (!isatty(STDERR_FILENO) || elapsed < 1 || t - s->shown_s < 0.2)
        return;
    double rate = (double)s->done / elapsed;
    fprintf(stderr, "\r\033[K%zu of %zu points", s->done, s->total);
    for (size_t k = 1; k < POINT_STATUSES; k++)
        if (s->status[k] > 0)
            fprintf(stderr, ", %zu %s", s->status[k], point_status_names[k]);
    if (s->done > 0)
        fprintf(stderr, ", %.3g/s, %.0f s left", rate, (double)(s->total - s->done) / rate);
    fflush(stderr);
    s->shown_s = t;
}

struct hashed {
    const char *hash;
    size_t index;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    int order = strcmp(x->hash, y->hash);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Indices into p->number of what is to be computed, ascending; the same settings only once. */
static enum status missing_points(const struct sweep_points *p, const struct sweep_run *run,
                                  size_t **out, size_t *n)
{
    enum status st = STATUS_OK;
    struct point_result r;
    bool found;
    struct hashed *all = malloc((p->n + 1) * sizeof *all);
    size_t *item = malloc((p->n + 1) * sizeof *item), items = 0;
    if (!all || !item) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < p->n; i++)
        all[i] = (struct hashed){p->hash[i], i};
    qsort(all, p->n, sizeof *all, by_hash);
    for (size_t i = 0; i < p->n; i++) {
        if (i > 0 && !strcmp(all[i].hash, all[i - 1].hash))
            continue;
        if (p->number[all[i].index] % run->shards != run->shard)
            continue;
        TRY(database_get(run->db, all[i].hash, &found, &r));
        if (!found || (run->retry && r.status == POINT_FAILED))
            item[items++] = all[i].index;
    }
    qsort(item, items, sizeof *item, by_index);
    *out = item;
    *n = items;
    item = NULL;
out:
    free(item);
    free(all);
    return st;
}

enum status sweep_compute(const struct sweep_points *p, const struct sweep_run *run,
                          size_t *computed, size_t *missing)
{
    enum status st;
    size_t *item = NULL, n = 0;
    struct state s = {.p = p, .run = run, .started_s = clock_now()};
    const struct pool_job job = {.workers = run->workers,
                                 .size = sizeof(struct point_result),
                                 .work = work,
                                 .done = done,
                                 .tick = tick,
                                 .stop = run->stop,
                                 .context = &s};
    TRY(missing_points(p, run, &item, &n));
    s.total = n;
    if (n > 0)
        TRY(pool_run(&job, item, n));
    *computed = s.done;
    *missing = n - s.done;
out:
    if (s.shown_s > 0)
        fputs("\r\033[K", stderr);
    free(item);
    return st;
}
