/* Real runs with failures at drawn times. */
#include "study/run_failures.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign/timeline.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "exec/checkpoint.h"
#include "host/folder.h"
#include "host/process.h"

enum { FAILURES_MOST = 1000, REHEARSED = 5 /* checkpoints */ };

enum status run_failures_read(const char *text, struct run_failures *out)
{
    char copy[64], *word[3];
    snprintf(copy, sizeof copy, "%s", text);
    struct run_failures f;
    if (text_split(copy, ",", word, 3) != 2 || !text_count(word[0], UINT32_MAX, &f.seed) ||
        units_parse(UNIT_SECONDS, word[1], &f.between_s) != STATUS_OK || !(f.between_s > 0))
        return error_set(STATUS_USAGE,
                         "--inject-failures: got '%.40s', expected SEED,TIME such as 7,30s", text);
    *out = f;
    return STATUS_OK;
}

/* ---- a process that kills one rank at a moment */

struct killer {
    double at_s; /* INFINITY: never */
    uint64_t draw;
    pid_t pid;
};

/* launch_options.measuring */
static void killer_start(void *context, const int *held, size_t ranks)
{
    struct killer *k = context;
    if (isinf(k->at_s))
        return;
    k->pid = fork();
    if (k->pid != 0)
        return;
    clock_sleep_until(k->at_s);
    process_signal(held[k->draw % ranks], SIGKILL);
    _exit(0);
}

static void killer_stop(struct killer *k)
{
    if (k->pid <= 0)
        return;
    kill(k->pid, SIGKILL);
    waitpid(k->pid, NULL, 0);
    k->pid = 0;
}

/* Launch, and kill a rank when it is time. *failed: it ended by that. */
static enum status launch_part(const struct program *p, const struct model *model,
                               const struct launch_options *options, struct killer *killer,
                               bool *failed, struct measurement *m, struct timeline *t)
{
    struct launch_options o = *options;
    o.measuring = killer_start;
    o.measuring_context = killer;
    enum status st = launch_run(p, model, &o, m, t);
    *failed =
        st != STATUS_OK && error_signal() == 0 && killer->pid > 0 && clock_now() >= killer->at_s;
    killer_stop(killer);
    return *failed ? STATUS_OK : st;
}

/* ---- rehearsals */

static double sum(const double *value, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += value[i];
    return s;
}

/* What an iteration, a checkpoint and a start take: the steps of a run that ends. */
static enum status rehearse_whole(const struct program *p, const struct model *model,
                                  const struct launch_options *o, struct run_failures_report *r)
{
    struct measurement m = {0};
    struct timeline t = {0};
    struct killer nobody = {.at_s = INFINITY};
    bool failed;
    double begin = clock_now();
    enum status st = launch_part(p, model, o, &nobody, &failed, &m, &t);
    if (st == STATUS_OK) {
        double all_s = sum(m.iterations_s, m.iterations);
        r->iteration_s = m.iteration_s;
        r->save_s = fmax(0, all_s - (double)m.iterations * m.iteration_s) / REHEARSED;
        r->start_s = fmax(0, clock_now() - begin - all_s);
    }
    measurement_free(&m);
    timeline_free(&t);
    return st;
}

/* From a kill until all are gone. */
static enum status rehearse_failure(const struct program *p, const struct model *model,
                                    const struct launch_options *o, struct run_failures_report *r)
{
    struct measurement m = {0};
    struct timeline t = {0};
    bool failed;
    struct killer k = {.at_s = clock_now() + r->start_s + 2 * r->iteration_s};
    enum status st = launch_part(p, model, o, &k, &failed, &m, &t);
    r->detect_s = failed ? clock_now() - k.at_s : 0;
    measurement_free(&m);
    timeline_free(&t);
    return st;
}

static enum status rehearse(const struct program *p, const struct model *model,
                            const struct launch_options *options, struct run_failures_report *r)
{
    enum status st;
    char folder[FOLDER_TEMPORARY] = "", steps[FOLDER_FILE];
    struct launch_options o = *options;
    TRY(folder_temporary(folder));
    o.checkpoint = folder_file(folder, "steps", steps);
    o.resume = NULL;
    o.steps = REHEARSED * o.checkpoint_every;
    TRY(rehearse_whole(p, model, &o, r));
    folder_remove(folder);
    TRY(folder_temporary(folder));
    o.checkpoint = folder_file(folder, "steps", steps);
    st = rehearse_failure(p, model, &o, r);
out:
    folder_remove(folder);
    return st;
}

/* ---- the run */

static enum status predict(const struct launch_options *o, const struct run_failures *f,
                           struct run_failures_report *r)
{
    const struct failures failures = {.between_s[CAUSE_SOFTWARE] = f->between_s,
                                      .detect_s = r->detect_s,
                                      .restart_s = r->start_s};
    const struct campaign c = {.failures = &failures,
                               .pieces[CAUSE_SOFTWARE] = 1,
                               .replicas = 1,
                               .iteration_s = r->iteration_s,
                               .work_s = (double)o->steps * r->iteration_s,
                               .every_s = (double)o->checkpoint_every * r->iteration_s,
                               .block_s = r->save_s};
    struct course course;
    const double endless = 50;
    PASS(timeline_follow(&c, f->seed, endless * (c.work_s + r->start_s), &course));
    if (course.work_s < c.work_s)
        return error_set(STATUS_INFEASIBLE,
                         "--inject-failures: the run would not end: a failure every %s, but a "
                         "start takes %s and %u steps to a checkpoint take %s. Try a longer TIME "
                         "or a smaller --checkpoint-every",
                         units_of(UNIT_SECONDS, f->between_s).text,
                         units_of(UNIT_SECONDS, r->start_s).text, (unsigned)o->checkpoint_every,
                         units_of(UNIT_SECONDS, c.every_s + c.block_s).text);
    r->predicted_s = r->start_s + course.wall_s;
    return STATUS_OK;
}

/* Steps in the newest checkpoint. */
static size_t steps_saved(const char *dir)
{
    struct checkpoint c = {0};
    size_t steps = checkpoint_find(dir, &c) == STATUS_OK ? c.step : 0;
    checkpoint_free(&c);
    return steps;
}

/* The next part goes on from the newest checkpoint; one that was killed behind its last step from
 * the one before, for nobody has heard its result. `step` is of that checkpoint's folder. */
static enum status resume_from(const struct launch_options *options, size_t first, size_t end,
                               struct launch_options *next, char step[CHECKPOINT_PATH])
{
    size_t saved = steps_saved(options->checkpoint), every = options->checkpoint_every;
    if (saved == end) {
        saved = (end - 1) / every * every;
        next->checkpoint = NULL; /* what it would write is there */
        next->checkpoint_every = 0;
    }
    next->resume = options->resume;
    if (saved > first) {
        PASS(checkpoint_directory(options->checkpoint, saved, step));
        next->resume = step;
    }
    next->steps = end - (saved > first ? saved : first);
    return STATUS_OK;
}

enum status run_failures_run(const struct program *p, const struct model *model,
                             const struct launch_options *options, const struct run_failures *f,
                             struct run_failures_report *report, struct measurement *m,
                             struct timeline *t)
{
    struct run_failures_report r = {.steps = options->steps};
    struct launch_options o = *options;
    char step[CHECKPOINT_PATH];
    bool failed = true;
    PASS(rehearse(p, model, &o, &r));
    PASS(predict(&o, f, &r));
    const size_t first = o.resume ? steps_saved(o.resume) : 0, end = first + o.steps;
    double begin = clock_now(), fails = begin;
    while (failed) {
        if (r.failures == FAILURES_MOST)
            return error_set(
                STATUS_EXTERNAL,
                "--inject-failures: gave up after %d failures with %zu of %zu steps left",
                FAILURES_MOST, o.steps, end - first);
        fails += timeline_gap(f->seed, r.failures, 1 / f->between_s);
        struct killer k = {.at_s = fails, .draw = random_at(f->seed, r.failures)};
        PASS(launch_part(p, model, &o, &k, &failed, m, t));
        if (!failed)
            break;
        r.failures++;
        measurement_free(m);
        timeline_free(t);
        PASS(resume_from(options, first, end, &o, step));
    }
    r.wall_s = clock_now() - begin;
    *report = r;
    return STATUS_OK;
}

void run_failures_print(const struct run_failures *f, const struct run_failures_report *r,
                        FILE *out)
{
    double work_s = (double)r->steps * r->iteration_s;
    fprintf(
        out,
        "failures    %zu, drawn with seed %llu, one every %s on average\n"
        "wall time   %s for %zu steps, of which %.1f %% made progress; predicted %s (%+.1f %%)\n"
        "rehearsed   an iteration %s, a checkpoint %s, a start %s, a failure noticed in %s\n"
        "what follows is of the last part\n",
        r->failures, (unsigned long long)f->seed, units_of(UNIT_SECONDS, f->between_s).text,
        units_of(UNIT_SECONDS, r->wall_s).text, r->steps, 100 * work_s / r->wall_s,
        units_of(UNIT_SECONDS, r->predicted_s).text, 100 * (r->predicted_s / r->wall_s - 1),
        units_of(UNIT_SECONDS, r->iteration_s).text, units_of(UNIT_SECONDS, r->save_s).text,
        units_of(UNIT_SECONDS, r->start_s).text, units_of(UNIT_SECONDS, r->detect_s).text);
}
