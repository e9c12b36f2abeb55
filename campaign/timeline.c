/* One drawn course of a training. */
#include "campaign/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/random.h"

const struct recovery_policy recoveries[RECOVERIES] = {
    [RECOVER_SPARES] = {"spares"}, [RECOVER_SHRINK] = {"shrink"}, [RECOVER_HOT] = {"hot"}};

/* Where a course is at time t. */
struct follower {
    const struct campaign *c;
    struct course *o;
    uint64_t seed, slowed; /* slow-downs until now */
    double t, limit;
    double work, saved;    /* done, and what of it a complete checkpoint has */
    double to_save;        /* of work, until the next checkpoint */
    double writing, drain; /* work that a checkpoint being written has; seconds left, 0: none */
    double fails, slows, slow_found; /* times of the next events; INFINITY: none */
    double *repaired;                /* when nodes come back, [first .. last), ascending */
    size_t first, last, room;
    uint32_t failures;
    uint32_t spares, missing; /* free nodes; nodes that the job does without */
    double longer;            /* iterations for that, so many times */
};

/* Streams of random numbers: of failures the causes (whether they hang at odd places); times. */
enum { DRAWS_CAUSE, DRAWS_FAILURE, DRAWS_SLOW };

static double draw_time(uint64_t seed, unsigned stream, uint64_t i, double rate)
{
    return rate > 0 ? -log1p(-random_unit(random_key(seed, stream), i)) / rate : INFINITY;
}

double timeline_gap(uint64_t seed, uint64_t i, double rate)
{
    return draw_time(seed, DRAWS_FAILURE, i, rate);
}

double timeline_slow_gap(uint64_t seed, uint64_t i, double rate)
{
    return draw_time(seed, DRAWS_SLOW, i, rate);
}

bool timeline_hangs(uint64_t seed, uint64_t i, double share)
{
    return random_unit(random_key(seed, DRAWS_CAUSE), 2 * i + 1) < share;
}

static double rate_of_failures(const struct follower *f)
{
    return failures_rate(f->c->failures, f->c->pieces);
}

static double rate_of_slowness(const struct follower *f)
{
    return f->c->failures->slow_s > 0 ? f->c->devices / f->c->failures->slow_s : 0;
}

static size_t draw_cause(const struct follower *f)
{
    double at =
        random_unit(random_key(f->seed, DRAWS_CAUSE), 2 * f->failures) * rate_of_failures(f);
    size_t last = 0;
    for (size_t k = 0; k < CAUSES; k++) {
        if (!(f->c->failures->between_s[k] > 0) || !(f->c->pieces[k] > 0))
            continue;
        last = k;
        at -= f->c->pieces[k] / f->c->failures->between_s[k];
        if (at < 0)
            break;
    }
    return last;
}

/* ---- nodes */

static enum status send_to_repair(struct follower *f)
{
    if (f->last == f->room && f->first > 0) {
        f->last -= f->first;
        memmove(f->repaired, f->repaired + f->first, f->last * sizeof *f->repaired);
        f->first = 0;
    }
    PASS(ARRAY_RESERVE(f->repaired, f->last + 1, f->room));
    f->repaired[f->last++] = f->t + f->c->failures->repair_s;
    return STATUS_OK;
}

static double next_repair(const struct follower *f)
{
    return f->first < f->last ? f->repaired[f->first] : INFINITY;
}

static void take_repaired(struct follower *f)
{
    for (; next_repair(f) <= f->t; f->first++)
        f->spares++;
}

static enum status without_nodes(const struct follower *f, uint32_t lost, double *out)
{
    double n = f->c->replicas;
    if (f->c->shrunk)
        return f->c->shrunk(f->c->shrink, lost, out);
    *out = lost + 1 <= n ? n / (n - lost) : INFINITY;
    return STATUS_OK;
}

/* Another node for one that goes to repair; with none, fewer replicas, or a wait. */
static enum status replace_node(struct follower *f)
{
    PASS(send_to_repair(f));
    take_repaired(f);
    double longer = INFINITY;
    if (f->spares == 0 && f->c->recovery == RECOVER_SHRINK)
        PASS(without_nodes(f, f->missing + 1, &longer));
    if (!isinf(longer)) {
        f->missing++;
        f->longer = longer;
        return STATUS_OK;
    }
    if (f->spares == 0) { /* nothing fails while nothing runs */
        double wait = next_repair(f) - f->t;
        f->o->waiting_s += wait;
        f->t += wait;
        f->fails += wait;
        f->slows += wait;
        f->spares++;
        f->first++;
    }
    f->spares--;
    return STATUS_OK;
}

/* ---- failures */

static void go_back_to(struct follower *f, double work, size_t cause)
{
    f->o->lost_s[cause] += f->work - work;
    f->work = work;
    f->drain = 0;
    f->to_save = f->c->every_s;
}

/* From a failure until the training goes on. Others may happen meanwhile, but not while all wait
 * for a repair. */
static enum status recover(struct follower *f)
{
    const struct failures *k = f->c->failures;
    f->t = f->fails;
    for (;;) {
        size_t cause = draw_cause(f);
        double down = timeline_hangs(f->seed, f->failures, k->hang) ? k->timeout_s : k->detect_s;
        take_repaired(f);
        bool joins = f->c->recovery == RECOVER_HOT && causes[cause].takes_node && f->spares > 0 &&
                     f->c->replicas > 1;
        f->o->failures[cause]++;
        if (++f->failures == COURSE_FAILURES_MOST)
            f->limit = f->t;
        go_back_to(f, joins ? f->work - fmod(f->work, f->c->iteration_s) : f->saved, cause);
        down += joins ? f->c->swap_s : k->restart_s + f->c->load_s;
        if (causes[cause].takes_node)
            PASS(replace_node(f));
        f->fails = f->t + timeline_gap(f->seed, f->failures, rate_of_failures(f));
        if (f->fails >= f->t + down || f->t >= f->limit) {
            f->o->down_s[cause] += down;
            f->t += down;
            return STATUS_OK;
        }
        f->o->down_s[cause] += f->fails - f->t;
        f->t = f->fails;
    }
}

/* Everything stands still, on purpose, for so long, which counts as *account. *whole: no failure
 * came between. */
static enum status stand_still(struct follower *f, double seconds, double *account, bool *whole)
{
    *whole = f->fails >= f->t + seconds;
    if (*whole) {
        *account += seconds;
        f->t += seconds;
        return STATUS_OK;
    }
    *account += f->fails - f->t;
    return recover(f);
}

/* Save, stop, and start with other nodes. */
static enum status restart_on_purpose(struct follower *f, double *account)
{
    bool whole;
    PASS(stand_still(f, f->c->block_s + f->c->drain_s, account, &whole));
    if (!whole)
        return STATUS_OK;
    f->saved = f->work;
    f->drain = 0;
    f->to_save = f->c->every_s;
    return stand_still(f, f->c->failures->restart_s + f->c->load_s, account, &whole);
}

/* ---- between failures */

/* How many times as long an iteration takes: by missing replicas, slow GPUs, and a checkpoint that
 * is being written. */
struct pace {
    double replicas, slow, drain;
};

static struct pace pace_of(const struct follower *f)
{
    return (struct pace){f->longer, isinf(f->slow_found) ? 1 : 1 + f->c->failures->slower,
                         f->drain > 0 ? 1 + f->c->interference : 1};
}

static double pace_whole(struct pace p)
{
    return p.replicas * p.slow * p.drain;
}

/* So much work is done, at this pace. */
static void do_work(struct follower *f, double work, struct pace p)
{
    f->t += work * pace_whole(p);
    f->work += work;
    f->to_save -= work;
    f->o->reduced_s += work * (p.replicas - 1);
    f->o->slow_s += work * p.replicas * (p.slow - 1);
    f->o->saving_s += work * p.replicas * p.slow * (p.drain - 1);
}

static double next_event(const struct follower *f)
{
    return fmin(fmin(f->fails, f->missing > 0 ? next_repair(f) : INFINITY),
                fmin(f->slows, f->slow_found));
}

/* Pass whole periods, from one checkpoint to the next, in which nothing else happens. */
static void pass_periods(struct follower *f)
{
    const struct campaign *c = f->c;
    struct pace p = pace_of(f), alone = p;
    alone.drain = 1;
    double beside = f->drain / pace_whole(p); /* work while a checkpoint is written */
    if (f->to_save != c->every_s || f->drain != c->drain_s || beside > c->every_s)
        return;
    double period = c->block_s + f->drain + (c->every_s - beside) * pace_whole(alone);
    double n =
        fmin(floor((next_event(f) - f->t) / period), floor((c->work_s - f->work) / c->every_s) - 1);
    if (!(n >= 1))
        return;
    double t = f->t;
    do_work(f, n * beside, p);
    do_work(f, n * (c->every_s - beside), alone);
    f->o->saving_s += n * c->block_s;
    f->t = t + n * period;
    f->to_save = c->every_s;
    f->writing = f->work;
    f->saved = c->drain_s > 0 ? f->work - c->every_s : f->work;
}

/* Train until the next event. Checkpoints are dealt with here, all else by deal_with(). */
static enum status go_on(struct follower *f)
{
    const struct campaign *c = f->c;
    bool whole;
    pass_periods(f);
    struct pace p = pace_of(f);
    double pace = pace_whole(p), left = c->work_s - f->work, work = left;
    if (f->drain > 0)
        work = fmin(work, f->drain / pace);
    else
        work = fmin(work, f->to_save);
    if (f->t + work * pace > next_event(f)) {
        work = fmax(0, (next_event(f) - f->t) / pace);
        do_work(f, work, p);
        f->drain = fmax(0, f->drain - work * pace);
        f->t = fmax(f->t, next_event(f)); /* it may have come while all stood still */
        return STATUS_OK;
    }
    do_work(f, work, p);
    if (work == left)
        f->work = c->work_s;
    if (f->drain > 0) {
        f->drain = work * pace == f->drain ? 0 : fmax(0, f->drain - work * pace);
        if (f->drain < 1e-9 * c->drain_s) {
            f->drain = 0;
            f->saved = f->writing;
        }
        return STATUS_OK;
    }
    if (f->to_save > 0)
        return STATUS_OK;
    PASS(stand_still(f, c->block_s, &f->o->saving_s, &whole));
    if (!whole)
        return STATUS_OK;
    f->to_save = c->every_s;
    f->drain = c->drain_s;
    f->writing = f->work;
    if (!(c->drain_s > 0))
        f->saved = f->work;
    return STATUS_OK;
}

/* What is due at time t, except checkpoints. */
static enum status deal_with(struct follower *f)
{
    if (f->fails <= f->t)
        return recover(f);
    if (f->slow_found <= f->t) {
        f->slow_found = INFINITY;
        f->slows = f->t + timeline_slow_gap(f->seed, ++f->slowed, rate_of_slowness(f));
        if (f->c->slow_passes)
            return STATUS_OK;
        PASS(replace_node(f));
        return restart_on_purpose(f, &f->o->slow_s);
    }
    if (f->slows <= f->t) {
        f->slows = INFINITY;
        f->slow_found = f->t + f->c->failures->slow_found_s;
    }
    take_repaired(f);
    uint32_t back = f->missing < f->spares ? f->missing : f->spares;
    double longer = f->longer;
    if (back > 0)
        PASS(without_nodes(f, f->missing - back, &longer));
    if (longer >= f->longer)
        return STATUS_OK;
    f->missing -= back;
    f->spares -= back;
    f->longer = longer;
    return restart_on_purpose(f, &f->o->waiting_s);
}

static enum status follow(struct follower *f)
{
    for (bool whole = false; !whole && f->t < f->limit;) {
        while (f->work < f->c->work_s && f->t < f->limit) {
            PASS(go_on(f));
            PASS(deal_with(f));
        }
        if (f->work < f->c->work_s)
            break;
        PASS(stand_still(f, f->c->block_s + f->c->drain_s, &f->o->saving_s, &whole));
    }
    return STATUS_OK;
}

enum status timeline_follow(const struct campaign *c, uint64_t seed, double limit_s,
                            struct course *out)
{
    struct follower f = {.c = c,
                         .o = out,
                         .seed = seed,
                         .to_save = c->every_s,
                         .spares = c->spares,
                         .longer = 1,
                         .limit = limit_s};
    *out = (struct course){0};
    f.slow_found = INFINITY;
    f.fails = timeline_gap(seed, 0, rate_of_failures(&f));
    f.slows = timeline_slow_gap(seed, 0, rate_of_slowness(&f));
    enum status st = follow(&f);
    out->wall_s = f.t;
    out->work_s = f.work;
    free(f.repaired);
    return st;
}
