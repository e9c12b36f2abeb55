#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
/* Real runs with failures at drawn times. */
#include "study/run_failures.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign/timeline.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "exec/checkpoint.h"
#include "host/folder.h"
#include "host/process.h"

enum { FAILURES_MOST = 1000, REHEARSED = 5 /* checkpoints */, REHEARSALS = 3 /* of failures */ };

/* Keys of campaign/failures.h that say how ranks are disturbed; the others are rehearsed. */
static enum status check_keys(const char *keys)
{
    static const char *const known[] = {"hang=", "slow=", "slower=", "slow-found="};
    for (const char *at = keys; at; at = strchr(at, ',')) {
        at += *at == ',';
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || text_begins(at, known[i]);
        if (!found)
            return error_set(STATUS_USAGE,
                             "--inject-failures: got '%.40s', expected hang=SHARE, slow=TIME, "
                             "slower=FACTOR or slow-found=TIME",
                             at);
    }
    return STATUS_OK;
}

enum status run_failures_read(const char *text, struct run_failures *out)
{
    char copy[256], rates[320], *keys, *word[3];
    snprintf(copy, sizeof copy, "%s", text);
    struct run_failures f = {0};
    if ((keys = strchr(copy, ':')))
        *keys++ = '\0';
    if (strlen(text) >= sizeof copy || text_split(copy, ",", word, 3) != 2 ||
        !text_count(word[0], UINT32_MAX, &f.seed) ||
        units_parse(UNIT_SECONDS, word[1], &f.between_s) != STATUS_OK || !(f.between_s > 0))
        return error_set(STATUS_USAGE,
                         "--inject-failures: got '%.40s', expected SEED,TIME such as 7,30s", text);
    PASS(check_keys(keys));
    snprintf(rates, sizeof rates, "none%s%s", keys ? ":" : "", keys ? keys : "");
    if (failures_read(rates, &f.rates) != STATUS_OK)
        return error_context(STATUS_USAGE, "--inject-failures");
    *out = f;
    return STATUS_OK;
}

/* ---- a process that disturbs ranks */

enum { PERIOD_MS = 10 /* in which a slow rank is stopped for a while */, LOOK_MS = 2 };

/* In memory that the launcher shares with its children; it outlives the parts of a run. */
struct disturber_shared {
    double slow_at_s, slow_until_s; /* when the next rank becomes slow; until when one is, or 0 */
    uint64_t slowed;                /* ranks that were slow */
    _Atomic int measuring;          /* a first step is over */
    _Atomic pid_t pid[];            /* [ranks] of those that are started here; 0: not yet */
};

struct disturber {
    const struct run_failures *what;
    struct disturber_shared *shared;
    size_t ranks;
    double fails_s; /* when a rank is killed, or stopped for ever; INFINITY: never */
    bool hangs, slows;
    uint64_t draw;      /* of the rank */
    double measuring_s; /* when the first step was over; 0: not yet */
    pid_t pid, launcher;
};

/* Only a child of the launcher's is ever signalled. */
static void signal_rank(const struct disturber *d, uint64_t draw, int number)
{
    pid_t pid = atomic_load(&d->shared->pid[draw % d->ranks]);
    int held = pid > 0 ? process_hold_child(d->launcher, pid) : -1;
    process_signal(held, number);
    if (held >= 0)
        close(held);
}

/* A rank that is stopped for a part of every period takes 1 + slower times as long. */
static void make_slow(const struct disturber *d)
{
    double now = clock_now(), slower = d->what->rates.slower;
    uint64_t draw = random_at(~d->what->seed, d->shared->slowed);
    signal_rank(d, draw, SIGSTOP);
    clock_sleep_until(now + PERIOD_MS * 1e-3 * slower / (1 + slower));
    signal_rank(d, draw, SIGCONT);
    clock_sleep_until(now + PERIOD_MS * 1e-3);
}

/* Some of the time until the next failure. */
static void pass_time(const struct disturber *d)
{
    struct disturber_shared *s = d->shared;
    double now = clock_now();
    if (!d->slows || !atomic_load(&s->measuring)) {
        clock_sleep_until(fmin(d->fails_s, d->slows ? now + LOOK_MS * 1e-3 : INFINITY));
        return;
    }
    if (s->slow_until_s > 0 && now >= s->slow_until_s) {
        s->slow_until_s = 0;
        s->slow_at_s =
            now + timeline_slow_gap(d->what->seed, ++s->slowed, 1 / d->what->rates.slow_s);
    }
    if (s->slow_until_s == 0 && now >= s->slow_at_s)
        s->slow_until_s = now + d->what->rates.slow_found_s;
    if (s->slow_until_s > 0)
        make_slow(d);
    else
        clock_sleep_until(fmin(s->slow_at_s, d->fails_s));
}

/* A rank that fails while it is being started fails as soon as it is there. */
static void disturber_work(const struct disturber *d)
{
    while (clock_now() < d->fails_s)
        pass_time(d);
    while (atomic_load(&d->shared->pid[d->draw % d->ranks]) == 0)
        clock_sleep_until(clock_now() + LOOK_MS * 1e-3);
    signal_rank(d, d->draw, d->hangs ? SIGSTOP : SIGKILL);
}

/* launch_options.enter: in a process that becomes a rank. */
static bool disturber_note_rank(const void *context, uint32_t rank)
{
    const struct disturber *d = context;
    atomic_store(&d->shared->pid[rank], getpid());
    return true;
}

/* launch_options.measuring */
static void disturber_note_step(void *context, const int *held, size_t ranks)
{
    struct disturber *d = context;
    (void)held;
    (void)ranks;
    d->measuring_s = clock_now();
    atomic_store(&d->shared->measuring, 1);
}

static enum status disturber_start(struct disturber *d)
{
    d->launcher = getpid();
    d->measuring_s = 0;
    atomic_store(&d->shared->measuring, 0);
    for (size_t r = 0; r < d->ranks; r++)
        atomic_store(&d->shared->pid[r], 0);
    if (isinf(d->fails_s) && !d->slows)
        return STATUS_OK;
    d->pid = fork();
    if (d->pid < 0)
        return error_set(STATUS_IO, "cannot start a process: %s", strerror(errno));
    if (d->pid > 0)
        return STATUS_OK;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == d->launcher)
        disturber_work(d);
    _exit(0);
}

static void disturber_stop(struct disturber *d)
{
    if (d->pid <= 0)
        return;
    kill(d->pid, SIGKILL);
    waitpid(d->pid, NULL, 0);
    d->pid = 0;
}

/* Launch, and disturb ranks when it is time. *failed: it ended by that. */
static enum status launch_part(const struct program *p, const struct model *model,
                               const struct launch_options *options, struct disturber *d,
                               bool *failed, struct measurement *m, struct timeline *t)
{
    struct launch_options o = *options;
    o.measuring = disturber_note_step;
    o.measuring_context = d;
    o.enter = disturber_note_rank;
    o.enter_context = d;
    PASS(disturber_start(d));
    enum status st = launch_run(p, model, &o, m, t);
    *failed = st != STATUS_OK && error_signal() == 0 && clock_now() >= d->fails_s;
    disturber_stop(d);
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

/* A short run before the run: what it trains, how, and the report that its times go to. */
struct rehearsal {
    const struct program *program;
    const struct model *model;
    struct disturber disturber; /* that disturbs nothing */
    struct launch_options o;
    struct run_failures_report *r;
};

/* Run once. `m` NULL: the disturber must end it. *begun: seconds until its first step was over;
 * *ended: the moment at which all ranks were gone. */
static enum status rehearse_part(const struct rehearsal *h, struct disturber *d,
                                 struct measurement *m, double *begun, double *ended)
{
    struct measurement own = {0};
    struct timeline t = {0};
    bool failed;
    double begin = clock_now();
    enum status st = launch_part(h->program, h->model, &h->o, d, &failed, m ? m : &own, &t);
    *ended = clock_now();
    *begun = d->measuring_s - begin;
    if (st == STATUS_OK && !m && !failed)
        st = error_set(STATUS_EXTERNAL, "--inject-failures: a rehearsal ended before its failure. "
                                        "Try a larger --checkpoint-every");
    measurement_free(&own);
    timeline_free(&t);
    return st;
}

/* What an iteration and a checkpoint take: the steps of a run that ends. */
static enum status rehearse_whole(const struct rehearsal *h)
{
    struct measurement m = {0};
    struct disturber nobody = h->disturber;
    double begun, ended;
    enum status st = rehearse_part(h, &nobody, &m, &begun, &ended);
    if (st == STATUS_OK) {
        h->r->iteration_s = m.iteration_s;
        h->r->save_s =
            fmax(0, sum(m.iterations_s, m.iterations) - (double)m.iterations * m.iteration_s) /
            REHEARSED;
        h->r->start_s = fmax(0, begun - m.iteration_s);
    }
    measurement_free(&m);
    return st;
}

/* The time that a start from a checkpoint takes, and that from a failure until all ranks are gone:
 * medians. */
static enum status rehearse_failures(const struct rehearsal *h, bool hangs, size_t times,
                                     double *noticed)
{
    double start[REHEARSALS], down[REHEARSALS], begun, ended;
    for (size_t i = 0; i < times; i++) {
        struct disturber d = h->disturber;
        d.fails_s = clock_now() + h->r->start_s + 3 * h->r->iteration_s;
        d.hangs = hangs;
        PASS(rehearse_part(h, &d, NULL, &begun, &ended));
        start[i] = fmax(0, begun - h->r->iteration_s);
        down[i] = ended - d.fails_s;
    }
    h->r->start_s = median(start, times);
    *noticed = median(down, times);
    return STATUS_OK;
}

/* How many times as long iterations take with a slow rank, minus 1. */
static enum status rehearse_slow(const struct rehearsal *h)
{
    struct measurement m = {0};
    struct disturber d = h->disturber;
    double begun, ended;
    d.slows = true;
    d.shared->slow_until_s = INFINITY;
    enum status st = rehearse_part(h, &d, &m, &begun, &ended);
    if (st == STATUS_OK)
        h->r->slower = fmax(0, m.iteration_s / h->r->iteration_s - 1);
    measurement_free(&m);
    return st;
}

static enum status rehearse(struct rehearsal *h)
{
    enum status st;
    char folder[FOLDER_TEMPORARY] = "", more[FOLDER_TEMPORARY] = "";
    char steps[FOLDER_FILE], others[FOLDER_FILE];
    const struct failures *rates = &h->disturber.what->rates;
    TRY(folder_temporary(folder));
    TRY(folder_temporary(more));
    h->o.checkpoint = folder_file(folder, "steps", steps);
    h->o.resume = NULL;
    h->o.steps = REHEARSED * h->o.checkpoint_every;
    TRY(rehearse_whole(h));
    h->o.resume = h->o.checkpoint;
    h->o.checkpoint = folder_file(more, "steps", others);
    TRY(rehearse_failures(h, false, REHEARSALS, &h->r->detect_s));
    if (rates->hang > 0)
        TRY(rehearse_failures(h, true, 1, &h->r->hang_s));
    h->o.checkpoint = NULL;
    h->o.checkpoint_every = 0;
    if (rates->slow_s > 0)
        TRY(rehearse_slow(h));
out:
    folder_remove(folder);
    folder_remove(more);
    return st;
}

/* ---- the run */

static enum status predict(const struct launch_options *o, const struct run_failures *f,
                           struct run_failures_report *r)
{
    const struct failures failures = {.between_s[CAUSE_SOFTWARE] = f->between_s,
                                      .detect_s = r->detect_s,
                                      .hang = f->rates.hang,
                                      .timeout_s = r->hang_s,
                                      .restart_s = r->start_s,
                                      .slow_s = f->rates.slow_s,
                                      .slower = r->slower,
                                      .slow_found_s = f->rates.slow_found_s};
    const struct campaign c = {.failures = &failures,
                               .pieces[CAUSE_SOFTWARE] = 1,
                               .devices = 1,
                               .replicas = 1,
                               .iteration_s = r->iteration_s,
                               .work_s = (double)o->steps * r->iteration_s,
                               .every_s = (double)o->checkpoint_every * r->iteration_s,
                               .block_s = r->save_s,
                               .slow_passes = true};
    struct course course;
    const double endless = 50;
    PASS(timeline_follow(&c, f->seed, endless * (c.work_s + r->start_s), &course));
    if (course.work_s < c.work_s)
        return error_set(STATUS_INFEASIBLE,
                         "--inject-failures: the run would not end: a failure comes every %s, but "
                         "a start takes %s and the %u steps to a checkpoint take %s. Try a longer "
                         "TIME or a smaller --checkpoint-every",
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

/* Parts of a run, each from the newest checkpoint, until all steps are done. */
static enum status run_parts(const struct program *p, const struct model *model,
                             const struct launch_options *options, struct disturber *d,
                             struct run_failures_report *r, struct measurement *m,
                             struct timeline *t)
{
    const struct run_failures *f = d->what;
    struct launch_options o = *options;
    char step[CHECKPOINT_PATH];
    const size_t first = o.resume ? steps_saved(o.resume) : 0, end = first + o.steps;
    double begin = clock_now();
    d->shared->slow_until_s = 0;
    d->shared->slow_at_s =
        begin + timeline_slow_gap(f->seed, 0, f->rates.slow_s > 0 ? 1 / f->rates.slow_s : 0);
    d->slows = f->rates.slow_s > 0;
    d->fails_s = begin;
    for (bool failed = true;;) {
        if (r->failures == FAILURES_MOST)
            return error_set(
                STATUS_EXTERNAL,
                "--inject-failures: gave up after %d failures with %zu of %zu steps left",
                FAILURES_MOST, o.steps, end - first);
        d->fails_s += timeline_gap(f->seed, r->failures, 1 / f->between_s);
        d->hangs = timeline_hangs(f->seed, r->failures, f->rates.hang);
        d->draw = random_at(f->seed, r->failures);
        PASS(launch_part(p, model, &o, d, &failed, m, t));
        if (!failed)
            break;
        r->failures++;
        r->hangs += d->hangs;
        measurement_free(m);
        timeline_free(t);
        PASS(resume_from(options, first, end, &o, step));
    }
    r->slowed = d->shared->slowed + (d->shared->slow_until_s > 0);
    r->wall_s = clock_now() - begin;
    return STATUS_OK;
}

enum status run_failures_run(const struct program *p, const struct model *model,
                             const struct launch_options *options, const struct run_failures *f,
                             struct run_failures_report *report, struct measurement *m,
                             struct timeline *t)
{
    enum status st;
    struct run_failures_report r = {.steps = options->steps};
    const size_t bytes = sizeof(struct disturber_shared) + p->ranks * sizeof(_Atomic pid_t);
    struct disturber_shared *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_NOMEM, "out of memory for %zu ranks", p->ranks);
    const bool one = options->transport && !strcmp(options->transport, "local"); /* process */
    struct disturber d = {
        .what = f, .shared = shared, .ranks = one ? 1 : p->ranks, .fails_s = INFINITY};
    struct rehearsal rehearsal = {p, model, d, *options, &r};
    TRY(rehearse(&rehearsal));
    TRY(predict(options, f, &r));
    TRY(run_parts(p, model, options, &d, &r, m, t));
    *report = r;
out:
    munmap(shared, bytes);
    return st;
}

void run_failures_print(const struct run_failures *f, const struct run_failures_report *r,
                        FILE *out)
{
    double work_s = (double)r->steps * r->iteration_s;
    fprintf(out, "failures    %zu, drawn with seed %llu, one every %s on average", r->failures,
            (unsigned long long)f->seed, units_of(UNIT_SECONDS, f->between_s).text);
    if (f->rates.hang > 0)
        fprintf(out, "; %zu hung", r->hangs);
    if (f->rates.slow_s > 0)
        fprintf(out, "; a rank was slow %zu times", r->slowed);
    fprintf(
        out,
        "\nwall time   %s for %zu steps, of which %.1f %% made progress; predicted %s (%+.1f %%)\n"
        "rehearsed   an iteration %s, a checkpoint %s, a start %s, a failure noticed in %s",
        units_of(UNIT_SECONDS, r->wall_s).text, r->steps, 100 * work_s / r->wall_s,
        units_of(UNIT_SECONDS, r->predicted_s).text, 100 * (r->predicted_s / r->wall_s - 1),
        units_of(UNIT_SECONDS, r->iteration_s).text, units_of(UNIT_SECONDS, r->save_s).text,
        units_of(UNIT_SECONDS, r->start_s).text, units_of(UNIT_SECONDS, r->detect_s).text);
    if (f->rates.hang > 0)
        fprintf(out, ", a hang in %s", units_of(UNIT_SECONDS, r->hang_s).text);
    if (f->rates.slow_s > 0)
        fprintf(out, "; iterations with a slow rank %.2f times as long", 1 + r->slower);
    fputs("\nwhat follows is of the last part\n", out);
}
