/* The points of a sweep: identified by hashes, computed in forked workers, each result put into the
 * database as it comes. */
#include "study/sweep.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/text.h"
#include "sim/engines.h"
#include "study/point.h"
#include "study/pool.h"
#include "study/rank.h"

static void points_free(struct sweep_points *p)
{
    free(p->number);
    free(p->hash);
    *p = (struct sweep_points){0};
}

void sweep_free(struct sweep *s)
{
    database_close(s->db);
    points_free(&s->all);
    points_free(&s->finalists);
    experiment_free(&s->e);
    *s = (struct sweep){0};
}

/* ---- which points there are */

/* Where the fault is: at the last setting of a group of keys, such as "platform" and
 * "platform.KEY", else in the file. */
static enum status at_line(const struct experiment *e, const struct point *p, const char *group,
                           enum status st)
{
    size_t line = 0, n = strlen(group);
    for (size_t i = 0; i < p->settings; i++) {
        const struct experiment_setting *s = p->setting[i];
        bool member = !strncmp(s->key, group, n) && (!s->key[n] || s->key[n] == '.');
        if (*group && (member || (!strcmp(group, "platform") && !strcmp(s->key, "devices"))))
            line = s->line > line ? s->line : line;
    }
    if (st == STATUS_NOMEM)
        return st;
    return line ? error_context(STATUS_PARSE, "%s:%zu", e->path, line)
                : error_context(STATUS_PARSE, "%s", e->path);
}

/* Is there such a model? Asked once for neighbours of the same. */
static enum status sweep_check_model(const struct experiment *e, const struct point *p,
                                     char **known)
{
    struct model m = {0};
    if (!p->a.model || (*known && !strcmp(*known, p->a.model)))
        return STATUS_OK;
    enum status st = load_model(p->a.model, &m);
    model_free(&m);
    if (st != STATUS_OK)
        return at_line(e, p, "model", st);
    free(*known);
    *known = NULL;
    return text_copy(p->a.model, known);
}

/* Make a point, which finds contradictions between its settings, see that its model and platform
 * exist, and hash all it depends on. So whatever is wrong with the file is told before anything is
 * computed. */
static enum status sweep_identify_points(const struct experiment *e, size_t number,
                                         const struct engine *engine, char **known,
                                         char hash[DIGEST_HEX])
{
    enum status st;
    struct point p = {0};
    if ((st = point_make(e, number, engine, &p)) != STATUS_OK)
        return at_line(e, &p, "", st);
    TRY(sweep_check_model(e, &p, known));
    if (p.a.plan_file && access(p.a.plan_file, R_OK) != 0) {
        st = error_set(STATUS_IO, "%s: %s", p.a.plan_file, strerror(errno));
        st = at_line(e, &p, "plan", st);
    } else if ((st = point_hash(&p, hash)) != STATUS_OK) {
        st = at_line(e, &p, "platform", st);
    }
out:
    point_free(&p);
    return st;
}

/* number[n] (NULL: the first n) on `engine` (NULL: that of their settings). */
static enum status identify_points(const struct experiment *e, const size_t *number, size_t n,
                                   const struct engine *engine, struct sweep_points *out)
{
    enum status st;
    char *known = NULL;
    struct sweep_points p = {.n = n};
    TRY(ARRAY_NEW(p.number, n));
    TRY(ARRAY_NEW(p.hash, n));
    for (size_t i = 0; i < n; i++) {
        p.number[i] = number ? number[i] : i;
        TRY(sweep_identify_points(e, p.number[i], engine, &known, p.hash[i]));
    }
    MOVE(out, p);
out:
    free(known);
    points_free(&p);
    return st;
}

enum status sweep_identify(struct sweep *s)
{
    return identify_points(&s->e, NULL, s->e.points, NULL, &s->all);
}

/* By the point's own settings: finalists are always predicted. */
static bool is_run(const struct experiment *e, size_t point)
{
    const char *engine = experiment_value(e, point, "engine");
    return engine && point_engine_runs(engine);
}

/* ---- computing them */

/* What workers and the parent share at the fork; afterwards each has its own copy, and only the
 * parent's counts go on. */
struct sweep_state {
    const struct sweep *s;
    const struct sweep_points *p;
    const struct engine *engine; /* NULL: that of each point's settings */
    const struct sweep_run *run;
    struct point_cache cache; /* of a worker */
    size_t total, done, status[POINT_STATUSES];
    double started_s, shown_s;
};

/* In a worker. A point that cannot be made now, although it was identified, is a failure and may
 * be tried again. */
static void sweep_run_point(void *context, size_t item, void *slot)
{
    struct sweep_state *s = context;
    struct point_result *r = slot;
    struct point p = {0};
    if (point_make(&s->s->e, s->p->number[item], s->engine, &p) == STATUS_OK) {
        point_evaluate(&p, &s->cache, r);
    } else {
        r->status = POINT_FAILED;
        snprintf(r->reason, sizeof r->reason, "%s", error_message());
    }
    point_free(&p);
}

/* In the parent: a result, or the message about a worker that died over the point, goes into the
 * database at once, so that a sweep that is killed loses only what was being computed. */
static enum status done(void *context, size_t item, const void *slot)
{
    enum status st;
    struct sweep_state *s = context;
    const struct experiment_setting **setting = NULL;
    struct point_result lost = {.status = POINT_FAILED};
    const struct point_result *r = slot ? slot : &lost;
    size_t n;
    if (!slot)
        snprintf(lost.reason, sizeof lost.reason, "%s", error_message());
    TRY(experiment_settings(&s->s->e, s->p->number[item], &setting, &n));
    TRY(database_put(s->s->db, s->p->hash[item], setting, n, r));
    s->done++;
    s->status[r->status]++;
out:
    free(setting);
    return st;
}

/* "120 of 6000 points, 3 failed, 85/s, 69 s left", at most five times a second, after the first
 * second. */
static void sweep_print_progress(void *context)
{
    struct sweep_state *s = context;
    FILE *to = s->run->progress;
    double t = clock_now(), elapsed = t - s->started_s;
    if (s->run->watch)
        (void)s->run->watch->tick(s->run->watch->context, s->done, s->total);
    if (!to || elapsed < 1 || t - s->shown_s < 0.2)
        return;
    double rate = (double)s->done / elapsed;
    fprintf(to, "\r\033[K%zu of %zu points", s->done, s->total);
    for (size_t k = 1; k < POINT_STATUSES; k++)
        if (s->status[k] > 0)
            fprintf(to, ", %zu %s", s->status[k], point_status_names[k]);
    if (s->done > 0)
        fprintf(to, ", %.3g/s, %.0f s left", rate, (double)(s->total - s->done) / rate);
    fflush(to);
    s->shown_s = t;
}

struct hashed {
    const char *hash;
    size_t index;
    bool run;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    int order = strcmp(x->hash, y->hash);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Predictions, then runs; both by their numbers. */
static int by_turn(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    return x->run != y->run ? x->run - y->run : (x->index > y->index) - (x->index < y->index);
}

/* Indices into p->number of what is to be computed, of which the last *runs are runs. Points of
 * equal hash are one: sorting by hash brings them together, and the first by number is kept. Then
 * the shard's own points are looked up in the database. */
static enum status find_missing(const struct sweep_state *s, size_t **out, size_t *n, size_t *runs)
{
    enum status st;
    struct point_result r;
    bool found;
    struct hashed *all = NULL;
    size_t *item = NULL, items = 0;
    TRY(ARRAY_NEW(all, s->p->n));
    TRY(ARRAY_NEW(item, s->p->n));
    for (size_t i = 0; i < s->p->n; i++)
        all[i] = (struct hashed){s->p->hash[i], i, !s->engine && is_run(&s->s->e, s->p->number[i])};
    qsort(all, s->p->n, sizeof *all, by_hash);
    for (size_t i = 0; i < s->p->n; i++) { /* kept ones move to the front */
        if (items > 0 && !strcmp(all[i].hash, all[items - 1].hash))
            continue;
        all[items++] = all[i];
    }
    qsort(all, items, sizeof *all, by_turn);
    *n = *runs = 0;
    for (size_t i = 0; i < items; i++) {
        if (s->p->number[all[i].index] % s->run->shards != s->run->shard)
            continue;
        TRY(database_get(s->s->db, all[i].hash, &found, &r));
        if (found && !(s->run->retry && r.status == POINT_FAILED))
            continue;
        item[(*n)++] = all[i].index;
        *runs += all[i].run;
    }
    MOVE(out, item);
out:
    free(item);
    free(all);
    return st;
}

/* Two pools, one after the other: predictions on all cores, then runs, which nothing else may
 * disturb. An interruption leaves the runs out. */
static enum status sweep_compute_points(const struct sweep *s, const struct sweep_points *p,
                                        const struct engine *engine, const struct sweep_run *run,
                                        struct sweep_count *count)
{
    enum status st;
    size_t *item = NULL, n = 0, runs = 0;
    struct sweep_state state = {
        .s = s, .p = p, .engine = engine, .run = run, .started_s = clock_now()};
    struct pool_job job = {.workers = run->workers,
                           .size = sizeof(struct point_result),
                           .work = sweep_run_point,
                           .done = done,
                           .tick = sweep_print_progress,
                           .stop = run->stop,
                           .context = &state};
    TRY(find_missing(&state, &item, &n, &runs));
    state.total = n;
    if (n > runs)
        TRY(pool_run(&job, item, n - runs));
    job.workers = run->workers ? run->workers : 1;
    if (runs > 0 && state.done == n - runs)
        TRY(pool_run(&job, item + n - runs, runs));
    count->computed += state.done;
    count->missing = n - state.done;
out:
    point_cache_free(&state.cache);
    if (state.shown_s > 0)
        fputs("\r\033[K", run->progress);
    free(item);
    return st;
}

/* What shards have computed into "STEM.shard-I-of-N.db" beside "STEM.db". */
static enum status sweep_gather_results(const struct sweep *s, const char *path, FILE *notes)
{
    enum status st = STATUS_OK;
    glob_t found = {0};
    char pattern[4096];
    size_t stem = strlen(path);
    bool suffixed = stem > 3 && !strcmp(path + stem - 3, ".db");
    stem -= suffixed ? 3 : 0;
    int n = snprintf(pattern, sizeof pattern, "%.*s.shard-*-of-*%s", (int)stem, path,
                     suffixed ? ".db" : "");
    if (n < 0 || (size_t)n >= sizeof pattern || strpbrk(path, "*?[\\") ||
        glob(pattern, 0, NULL, &found) != 0)
        goto out;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *shard = found.gl_pathv[i], *tail = strrchr(shard, '.');
        size_t added;
        if (tail && strcmp(tail, ".db") != 0 && suffixed)
            continue;
        TRY(database_merge(s->db, shard, &added));
        if (added > 0)
            fprintf(notes, "%s: %zu points\n", shard, added);
    }
out:
    globfree(&found);
    return st;
}

/* The best few of each group by the first engine, looked at by SimGrid. Ranking needs all points,
 * so that shards leave it to the call that takes them in. */
static enum status compute_finalists(struct sweep *s, const struct sweep_run *run,
                                     struct sweep_count *count)
{
    enum status st;
    struct ranking ranking = {0};
    size_t *number = NULL, n = 0;
    TRY(rank_points(s, false, &ranking));
    TRY(rank_finalists(&ranking, &number, &n));
    TRY(identify_points(&s->e, number, n, engine_judge(), &s->finalists));
    s->has_finalists = true;
    TRY(database_add_members(s->db, s->id, true, n, number,
                             (const char(*)[DIGEST_HEX])s->finalists.hash));
    TRY(sweep_compute_points(s, &s->finalists, engine_judge(), run, count));
out:
    free(number);
    ranking_free(&ranking);
    return st;
}

enum status sweep_compute(struct sweep *s, const char *path, const struct provenance *by,
                          const struct sweep_run *run, struct sweep_count *out)
{
    int64_t strangers;
    *out = (struct sweep_count){0};
    PASS(database_open(path, &s->db));
    PASS(database_strangers(s->db, &s->e, &strangers));
    if (strangers > 0 && !run->add)
        return error_set(STATUS_USAGE,
                         "%s: database holds only other experiments, none called '%s'; add this "
                         "experiment with --add",
                         path, s->e.name);
    PASS(database_begin(s->db, &s->e, by, &s->id));
    PASS(database_add_members(s->db, s->id, false, s->all.n, s->all.number,
                              (const char(*)[DIGEST_HEX])s->all.hash));
    if (run->shards == 1)
        PASS(sweep_gather_results(s, path, run->notes));
    PASS(sweep_compute_points(s, &s->all, NULL, run, out));
    if (run->shards == 1 && out->missing == 0 && s->e.finalists > 0)
        PASS(compute_finalists(s, run, out));
    return STATUS_OK;
}

/* ---- reading them */

enum status sweep_open(const char *path, struct sweep *out)
{
    enum status st;
    struct sweep s = {0};
    TRY(database_open_to_read(path, &s.db));
    TRY(database_experiment(s.db, &s.e, &s.id));
    TRY(database_members(s.db, s.id, false, &s.e, &s.all.n, &s.all.number, &s.all.hash));
    TRY(database_members(s.db, s.id, true, &s.e, &s.finalists.n, &s.finalists.number,
                         &s.finalists.hash));
    s.has_finalists = s.finalists.n > 0;
    if (s.all.n != s.e.points)
        FAIL(STATUS_IO, "%s: database lists %zu of the experiment's %zu points", path, s.all.n,
             s.e.points);
    MOVE(out, s);
out:
    sweep_free(&s);
    return st;
}

/* All points are stored in the order of their numbers, so that a number is its own index;
 * finalists are searched for. */
enum status sweep_get(const struct sweep *s, size_t point, bool finalist, bool *found,
                      struct point_result *out)
{
    const struct sweep_points *p = finalist ? &s->finalists : &s->all;
    *found = false;
    if (point < p->n && p->number[point] == point) /* all of them */
        return database_get(s->db, p->hash[point], found, out);
    for (size_t i = 0; i < p->n; i++)
        if (p->number[i] == point)
            return database_get(s->db, p->hash[i], found, out);
    return STATUS_OK;
}

enum status sweep_get_best(const struct sweep *s, size_t point, bool *found,
                           struct point_result *out)
{
    enum status st = sweep_get(s, point, true, found, out);
    return st != STATUS_OK || *found ? st : sweep_get(s, point, false, found, out);
}

enum status sweep_count(const struct sweep *s, size_t count[POINT_STATUSES], size_t *missing,
                        char reason[RESULT_REASON])
{
    const struct sweep_points *const points[] = {&s->all, &s->finalists};
    *missing = 0;
    if (reason)
        reason[0] = '\0';
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < points[k]->n; i++) {
            struct point_result r;
            bool found;
            PASS(database_get(s->db, points[k]->hash[i], &found, &r));
            if (found)
                count[r.status]++;
            else
                ++*missing;
            if (found && r.status != POINT_OK && reason && !*reason)
                snprintf(reason, RESULT_REASON, "%s", r.reason);
        }
    return STATUS_OK;
}
