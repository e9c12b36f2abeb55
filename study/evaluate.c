/* Predictions of plans: one function, whoever asks. All of an iteration is lowered and simulated,
 * or so much of it that its middle provably repeats (core/data/steady.h) and the rest follows. */
#include "study/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "core/data/steady.h"
#include "core/engine/flows.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "sim/engines.h"
#include "study/machine.h"
#include "study/point.h"
#include "study/pool.h"

enum {
    WORTHWHILE = 512, /* microbatches x stages from which on a short run is tried */
    FILLS = 3,        /* depths of the pipeline in the first of them: fill, steady, drain */
    SHORTER = 3,      /* times as long as the last of them is the whole, or that is simulated */
    GUESSED = 16384,  /* from which on searches need no proof of it */
    TRANSIENT = 2,    /* depths of the pipeline in the shorter of two that are only compared */
    LARGE = 257,      /* devices from which on ranks are folded, and told why they are not */
    LARGEST = 2048,   /* devices up to which quick scores see who shares links */
    LONG_RUN = 1000   /* microbatches from which on it is told why that was of no use */
};

/* ---- one program */

/* What has been simulated becomes a measurement; *s is taken apart. */
static enum status evaluation_measure(const struct program *p,
                                      const struct evaluation_context *context,
                                      struct simulation *s, struct measurement *m,
                                      struct timeline *timeline)
{
    if (context->options.faults)
        PASS(faults_outcome(context->options.faults, p, &s->timeline));
    PASS(measurement_from_timeline(p, &s->timeline, m));
    m->forward_only = p->forward_only;
    m->link = s->link;
    m->links = s->links;
    m->cpu_s = s->cpu_s;
    s->link = NULL;
    s->links = 0;
    measurement_sort_links(m);
    if (context->detailed)
        PASS(measurement_add_calls(m, p, &s->timeline));
    machine_measure(context->model, p, context->topology, m);
    if (timeline) {
        *timeline = s->timeline;
        s->timeline = (struct timeline){0};
    }
    return STATUS_OK;
}

enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline)
{
    struct simulation s = {0};
    enum status st = engine->run(p, context->topology, context->platform, &context->options, &s);
    if (st == STATUS_OK)
        st = evaluation_measure(p, context, &s, m, timeline);
    simulation_free(&s);
    return st;
}

void evaluate_reason(const struct measurement *m, char text[AUTO_REASON])
{
    double busy = 0, exposed = 0, idle = 0;
    char link[64] = "";
    for (size_t r = 0; r < m->ranks; r++) {
        busy += m->rank[r].busy_s;
        exposed += m->rank[r].exposed_comm_s;
        idle += m->rank[r].idle_s;
    }
    double total = busy + exposed + idle; /* of a run that of one step, not of the median */
    if (m->links > 0 && exposed > 0.02 * total)
        snprintf(link, sizeof link, " (%.40s busy %.0f %%)", m->link[0].name,
                 100 * m->link[0].busy_fraction);
    snprintf(text, AUTO_REASON, "compute %.0f %%, exposed communication %.0f %%%s, idle %.0f %%",
             100 * busy / total, 100 * exposed / total, link, 100 * idle / total);
}

/* ---- plans: whole, or by their steady middle */

/* What evaluate_plan() holds while it works. */
struct evaluation_run {
    const struct plan *plan;
    const struct evaluation_context *context;
    const struct engine *engine;
    struct measurement m;
    struct program program;
    struct timeline timeline;
    const char *reason; /* why there is no short cut; NULL: none was wanted */
    bool fold;          /* ranks of a stage that are alike are simulated once, until that fails: */
    char *ranks_reason; /* why; owned; NULL: it does not, or was not wanted */
    struct plan_classes classes; /* of replicas that were alike so far; n == 0: all */
};

/* What the last simulation gave; what was learned of the replicas stays. */
static void run_free(struct evaluation_run *run)
{
    measurement_free(&run->m);
    program_free(&run->program);
    timeline_free(&run->timeline);
}

/* Lower and simulate the plan as if it had so many microbatches. */
static enum status evaluation_simulate(struct evaluation_run *run, uint64_t microbatches)
{
    const struct evaluation_context *c = run->context;
    struct plan plan = *run->plan; /* borrows all */
    run_free(run);
    plan.microbatches = (uint32_t)microbatches;
    const struct plan_lower_options how = {.costs = c->costs};
    PASS(plan_lower_with(&plan, c->model, c->topology, &how, &run->program));
    if (c->forward_only)
        PASS(program_infer(&run->program, c->model));
    if (c->perturbation)
        PASS(perturb_program(c->perturbation, &run->program));
    if (c->change)
        c->change(c->change_how, &run->program);
    return evaluate_program(&run->program, c, run->engine, &run->m, &run->timeline);
}

/* The same, with few of its replicas and one of their shards. *folded: it could be. */
static enum status simulate_few(struct evaluation_run *run, uint64_t microbatches, bool *folded)
{
    enum status st;
    const struct evaluation_context *c = run->context;
    struct plan plan = *run->plan;
    struct simulation s = {0};
    const struct engine_folded what = {&plan,       c->model,  c->topology,   c->platform,
                                       &c->options, c->change, c->change_how, c->costs};
    run_free(run);
    plan.microbatches = (uint32_t)microbatches;
    TRY(engine_run_folded(run->engine, &what, &run->classes, &run->program, &s));
    *folded = run->program.folded;
    if (*folded)
        TRY(evaluation_measure(&run->program, c, &s, &run->m, &run->timeline));
out:
    simulation_free(&s);
    return st;
}

/* From now on all ranks are simulated. */
static enum status not_alike(struct evaluation_run *run, const char *reason)
{
    run->fold = false;
    return text_copy(reason, &run->ranks_reason);
}

/* The same, folded where that is wanted and the engine finds that the replicas are alike. */
static enum status simulate_as_wanted(struct evaluation_run *run, uint64_t microbatches)
{
    if (run->fold) {
        bool folded = false;
        enum status st = simulate_few(run, microbatches, &folded);
        if (folded || (st != STATUS_OK && (st != STATUS_UNSUPPORTED || run->context->only_alike)))
            return st;
        PASS(not_alike(run, st == STATUS_OK ? "replicas of a stage are unequal" : error_message()));
    }
    return evaluation_simulate(run, microbatches);
}

/* How many sets of devices the stages have. */
static uint64_t teams_of(const struct plan *p)
{
    return p->stages / plan_chunks(p);
}

static uint64_t evaluation_devices(const struct plan *p)
{
    uint64_t devices = 0, teams = teams_of(p);
    for (uint64_t t = 0; t < teams; t++)
        devices += p->stage[t].devices;
    return devices;
}

/* After how many microbatches lists repeat: with r_s streams of stage s microbatch b goes to
 * stream b mod r_s, and virtual stages take them in groups of as many as there are teams. */
static uint64_t evaluation_unit(const struct plan *p)
{
    uint64_t unit = teams_of(p) < p->stages ? teams_of(p) : 1;
    uint64_t cycle = 1;
    for (size_t s = 0; s < p->stages && cycle < p->microbatches; s++)
        cycle = common_multiple(cycle, plan_streams(&p->stage[s]));
    return unit * cycle;
}

/* Microbatches that the pipeline has in flight when it is full: warm-up, steady state and drain
 * take about as many each. */
static uint64_t evaluation_depth(const struct plan *p)
{
    uint64_t depth = 0, teams = teams_of(p);
    for (uint64_t t = 0; t < teams; t++)
        depth += plan_streams(&p->stage[t]);
    return depth;
}

/* Microbatches of the first short run, so many that all of them but units are left over. */
static uint64_t evaluation_first_of(const struct plan *p, uint64_t unit)
{
    uint64_t least = FILLS * evaluation_depth(p) + 2 * unit;
    return least + (p->microbatches + unit - least % unit) % unit;
}

/* Links carry as much more with every microbatch: from a second run, as short as can be. */
static enum status repeat_links(struct evaluation_run *run, uint64_t unit, uint32_t times)
{
    enum status st;
    struct evaluation_run shorter = {run->plan, run->context, run->engine, .fold = run->fold};
    TRY(simulate_as_wanted(&shorter, run->program.microbatches % unit + unit));
    double units = (double)(run->program.microbatches / unit - 1);
    measurement_repeat_links(&run->m, &shorter.m, times / units);
out:
    run_free(&shorter);
    free(shorter.classes.of);
    free(shorter.ranks_reason);
    return st;
}

/* Make the measurement of all microbatches from that of a run whose middle recurs. */
static enum status evaluation_extend(struct evaluation_run *run, const struct steady *steady,
                                     uint64_t unit)
{
    uint32_t all = run->plan->microbatches;
    uint32_t times = (all - run->program.microbatches) / (uint32_t)unit;
    PASS(measurement_repeat(&run->m, &run->program, &run->timeline, steady, (uint32_t)unit, times));
    if (run->context->detailed)
        PASS(measurement_repeat_calls(&run->m, &run->program, &run->timeline, steady, times));
    if (run->context->no_links)
        measurement_drop_links(&run->m);
    else
        PASS(repeat_links(run, unit, times));
    machine_measure(run->context->model, &run->program, run->context->topology, &run->m);
    return STATUS_OK;
}

static bool has_no_flush(const struct plan *p)
{
    const struct schedule *schedule;
    return schedule_find(p->schedule, &schedule) == STATUS_OK && schedule->asynchronous;
}

/* How flows choose their paths; what is wrong with that shows in the run. */
static enum paths_policy policy_of(const struct evaluation_run *run)
{
    enum paths_policy policy = PATHS_IDEAL;
    const struct evaluation_context *c = run->context;
    return flows_policy(c->topology, &c->options.paths, &policy) == STATUS_OK ? policy
                                                                              : PATHS_IDEAL;
}

/* Why no short run can stand for the whole; NULL: one may. */
static const char *never_steady(const struct evaluation_run *run)
{
    const struct perturbation *by = run->context->perturbation;
    if (by && by->jitter > 0)
        return "jitter makes microbatches differ";
    if (paths_adapt(policy_of(run)))
        return "adaptive paths depend on all flows before";
    return has_no_flush(run->plan) ? "it has no flush" : NULL;
}

/* Simulate n microbatches; does their middle recur, every unit or every few of them? What limits
 * the pace may be a circuit of as many microbatches as are in flight: then that many units do.
 * *units: how many; 0: it does not. */
static enum status try_length(struct evaluation_run *run, uint64_t n, uint64_t unit, uint64_t first,
                              uint64_t last, struct steady *steady, uint64_t *units)
{
    enum status st;
    TRY(simulate_as_wanted(run, n));
    *units = 0;
    for (uint64_t k = first; k <= last && *units == 0; k++) {
        steady_free(steady);
        TRY(steady_find(&run->program, &run->timeline, (uint32_t)(k * unit),
                        run->engine->resolution_s, steady));
        *units = steady->found ? k : 0;
    }
out:
    return st;
}

/* Look for a short run whose middle recurs, each twice as long as the one before, since the
 * transient may be long. Together they are shorter than the whole. *found: run->m is of the
 * whole. */
static enum status by_steady_middle(struct evaluation_run *run, bool *found)
{
    enum status st = STATUS_OK;
    struct steady steady = {0};
    uint64_t all = run->plan->microbatches, unit = evaluation_unit(run->plan), units = 0;
    uint64_t n = evaluation_first_of(run->plan, unit);
    *found = false;
    run->reason = never_steady(run);
    if (!run->reason && SHORTER * n > all)
        run->reason =
            "the plan has too few microbatches for the periods of its replicas and stages";
    for (; !run->reason && !*found; n += (n / unit) * unit) {
        bool repeats = false;
        if (SHORTER * n > all) {
            run->reason = "the steady state does not repeat";
            break;
        }
        TRY(plan_lower_repeats(run->plan, (uint32_t)n, (uint32_t)unit, &repeats));
        if (!repeats)
            continue;
        TRY(try_length(run, n, unit, 1, teams_of(run->plan), &steady, &units));
        uint64_t over = units > 0 ? (all - n) % (units * unit) : 0;
        if (over > 0) /* the rest must be whole recurrences */
            TRY(try_length(run, n + over, unit, units, units, &steady, &units));
        *found = units > 0;
    }
    if (*found)
        TRY(evaluation_extend(run, &steady, units * unit));
out:
    steady_free(&steady);
    return st;
}

/* Two short runs, one of a unit more microbatches than the other: the whole is taken to go on as
 * they differ, for searches, which have the best of what they find proved. */
static enum status by_two_runs(struct evaluation_run *run, bool *found)
{
    enum status st = STATUS_OK;
    struct evaluation_run shorter = {run->plan, run->context, run->engine, .fold = run->fold};
    uint64_t all = run->plan->microbatches, unit = evaluation_unit(run->plan);
    uint64_t n = TRANSIENT * evaluation_depth(run->plan);
    n += (all + unit - n % unit) % unit;
    bool repeats = false;
    *found = false;
    if (never_steady(run) || 2 * n + unit >= all)
        return STATUS_OK;
    TRY(plan_lower_repeats(run->plan, (uint32_t)(n + unit), (uint32_t)unit, &repeats));
    if (!repeats)
        return STATUS_OK;
    TRY(simulate_as_wanted(&shorter, n));
    TRY(simulate_as_wanted(run, n + unit));
    *found = shorter.m.ranks == run->m.ranks && shorter.program.folded == run->program.folded;
    if (*found)
        TRY(measurement_go_on(&run->m, &shorter.m, &run->program, (uint32_t)unit,
                              (uint32_t)((all - n - unit) / unit)));
    if (*found)
        machine_measure(run->context->model, &run->program, run->context->topology, &run->m);
out:
    run_free(&shorter);
    free(shorter.classes.of);
    free(shorter.ranks_reason);
    return st;
}

/* Why all ranks of a plan are simulated although folding was wanted; NULL: they need not be. */
static const char *never_alike(const struct evaluation_run *run)
{
    if (run->context->perturbation || run->context->options.faults)
        return "single ranks or links are perturbed";
    if (!run->engine->folds)
        return "the engine does not support it";
    if (has_no_flush(run->plan))
        return "it has no flush";
    if (paths_are_apart(policy_of(run)))
        return paths_adapt(policy_of(run)) ? "each flow chooses a path of its own"
                                           : "each flow is hashed onto a path of its own";
    return run->context->topology->links > 0 || run->context->simulated_only
               ? NULL
               : "the platform's links are not known";
}

/* Are the ranks to be folded? Of large plans, when no times of single ops are asked for. */
static enum status decide_fold(struct evaluation_run *run, bool every_op)
{
    const struct evaluation_context *c = run->context;
    size_t least = c->fold_from > 0 ? c->fold_from : LARGE;
    if (c->whole || c->forward_only || every_op || evaluation_devices(run->plan) < least)
        return STATUS_OK;
    const char *reason = never_alike(run);
    run->fold = !reason;
    return reason ? text_copy(reason, &run->ranks_reason) : STATUS_OK;
}

/* Every rank of the plan gets a row, or it is told why all were simulated. */
static enum status evaluation_unfold(struct evaluation_run *run)
{
    if (run->context->simulated_only)
        return STATUS_OK;
    if (run->program.folded)
        return measurement_unfold(&run->m, &run->program, run->plan, run->context->topology);
    run->m.ranks_not_folded = run->ranks_reason;
    run->ranks_reason = NULL;
    return STATUS_OK;
}

enum status evaluate_plan(const struct plan *plan, const struct evaluation_context *context,
                          const struct engine *engine, struct measurement *out,
                          struct program *program, struct timeline *timeline)
{
    enum status st;
    struct evaluation_run run = {plan, context, engine, .reason = NULL};
    bool found = false;
    TRY(decide_fold(&run, timeline && !context->timeline_of_few));
    if (!context->whole && !engine->packets && !context->forward_only && !timeline &&
        !context->options.faults && plan->microbatches * plan->stages >= WORTHWHILE) {
        if (context->guess && plan->microbatches * plan->stages >= GUESSED)
            TRY(by_two_runs(&run, &found));
        if (!found)
            TRY(by_steady_middle(&run, &found));
    }
    if (!found)
        TRY(simulate_as_wanted(&run, plan->microbatches));
    if (run.reason && plan->microbatches >= LONG_RUN)
        TRY(text_copy(run.reason, &run.m.not_folded));
    if (!isfinite(run.m.iteration_s))
        FAIL(STATUS_INVALID, "iteration time is not finite (%g s)", run.m.iteration_s);
    TRY(evaluation_unfold(&run));
    MOVE(out, run.m);
    if (program)
        MOVE(program, run.program);
    if (timeline)
        MOVE(timeline, run.timeline);
out:
    run_free(&run);
    free(run.classes.of);
    free(run.ranks_reason);
    return st;
}

/* ---- for searches: the evaluator that partition/auto.h asks */

/* Whose memory is fullest, with what is to be kept free; who sums gradients and updates longest. */
static void judge_ranks(const struct evaluation_context *c, const struct program *p,
                        const struct measurement *m, struct evaluation *e)
{
    int64_t least = INT64_MAX;
    for (uint32_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *rank = &m->rank[r];
        uint32_t device = p->rank[r].device, type = c->topology->type_of[device];
        int64_t room = c->topology->type[type].memory_bytes - rank->peak_bytes,
                spare = room - (c->reserve_bytes ? c->reserve_bytes[type] : 0);
        if (spare < least) {
            least = spare;
            e->headroom_bytes = room;
            e->peak_bytes = rank->peak_bytes;
            e->device = device;
        }
        e->gradients_s =
            fmax(e->gradients_s, rank->update_s + rank->exposed_s[FOR_DATA] +
                                     rank->exposed_s[FOR_TIES] + rank->exposed_s[FOR_SHARDS]);
    }
}

double evaluate_effort(const struct program *p, const struct topology *t)
{
    double sum = 0, hops = 1;
    for (uint32_t d = 0; d < t->grid.dimensions; d++)
        hops += t->grid.length[d] / 4.0;
    for (size_t i = 0; i < p->ops; i++) {
        const struct program_op *o = &p->op[i];
        const size_t *start = op_is_collective(o) ? &p->device_start[o->peer] : NULL;
        double n = start ? (double)(start[1] - start[0]) : 0.5;
        bool each = o->kind == OP_ALLTOALL && hops > 1; /* grids share links in many ways */
        sum += each ? n * n * hops : 2 * n;
    }
    return sum;
}

/* Why the plan is refused, if it is. */
static enum status note_refusal(const struct evaluation_context *c, enum status st, const char *why)
{
    if (st != STATUS_OK)
        refusals_add(c->refused, why);
    return st;
}

static enum status check_launch(const struct evaluation_context *c, const struct plan *p)
{
    char why[EVALUATION_REFUSED] = "";
    return note_refusal(c, c->launches(p, c->model, c->topology, c->launched, why), why);
}

static enum status evaluation_run(const struct evaluation_context *context,
                                  const struct engine *engine, const struct plan *plan,
                                  struct evaluation *out)
{
    enum status st;
    struct evaluation_context c = *context;
    struct program program = {0};
    struct measurement m = {0};
    char why[EVALUATION_REFUSED] = "";
    c.simulated_only = true;
    c.fold_from = engine->quick ? 1 : 0; /* else as `simulate` does */
    TRY(evaluate_plan(plan, &c, engine, &m, &program, NULL));
    if (c.refused && !c.launches)
        TRY(note_refusal(&c, point_runs(c.device, c.model, plan, &program, why), why));
    struct evaluation e = {.iteration_s = m.iteration_s,
                           .samples_per_s = m.samples_per_s,
                           .bubble_fraction = m.bubble_fraction,
                           .engine = engine->name,
                           .exact = true};
    judge_ranks(&c, &program, &m, &e);
    evaluate_reason(&m, e.reason);
    double shards = (double)plan->stage[0].replicas * plan->stage[0].tensor_parallel;
    double copies = program.folded ? shards / program.copies.classes : 1;
    e.lowered = (double)program.ops;
    e.effort = evaluate_effort(&program, c.topology) * (engine->quick ? copies : 1);
    e.ops = (double)program.ops * copies * plan->microbatches / program.microbatches;
    *out = e;
out:
    measurement_free(&m);
    program_free(&program);
    return st;
}

/* As if nobody shared a link, in hardly more time than the plan takes; said not to be exact:
 * finalists are looked at thoroughly while one may be better than the best so far. */
static enum status score_unshared(const struct evaluation_context *context, const struct plan *p,
                                  struct evaluation *out)
{
    struct evaluation_context c = *context;
    struct topology unlinked = *c.topology;
    unlinked.links = 0;
    c.topology = &unlinked;
    c.options.paths.policy = PATHS_IDEAL;
    c.options.unproved = true;
    PASS(evaluation_run(&c, engine_quick(), p, out));
    out->exact = false;
    return STATUS_OK;
}

enum status evaluate_once(const struct evaluation_context *context, const struct plan *plan,
                          struct evaluation *out)
{
    struct evaluation_context c = *context;
    c.only_alike = evaluation_devices(plan) >= LARGE;
    enum status st = evaluation_run(&c, engine_quick(), plan, out);
    return st == STATUS_UNSUPPORTED && c.only_alike ? score_unshared(context, plan, out) : st;
}

/* With contention where replicas are alike; to prove that takes too long for the largest plans.
 * Parallel paths are ideal: what collisions cost, finalists say. */
static enum status quick(void *context, const struct plan *p, struct evaluation *out)
{
    struct evaluation_context c = *(const struct evaluation_context *)context;
    if (c.scored)
        (void)c.scored->tick(c.scored->context, 1, 0);
    c.no_links = c.guess = true;
    c.options.paths.policy = PATHS_IDEAL;
    if (c.refused && c.launches)
        PASS(check_launch(&c, p));
    return evaluation_devices(p) > LARGEST ? score_unshared(&c, p, out) : evaluate_once(&c, p, out);
}

/* The same without contention, where quick() has it. */
static enum status rough(void *context, const struct plan *p, struct evaluation *out)
{
    struct evaluation_context c = *(const struct evaluation_context *)context;
    if (c.scored)
        (void)c.scored->tick(c.scored->context, 0, 0);
    c.no_links = c.guess = c.options.no_links = true;
    if (c.refused && c.launches)
        PASS(check_launch(&c, p));
    return score_unshared(&c, p, out);
}

/* With contention, whether replicas are alike or not. */
static enum status shared(void *context, const struct plan *p, struct evaluation *out)
{
    struct evaluation_context c = *(const struct evaluation_context *)context;
    c.no_links = c.guess = true;
    c.options.paths.policy = PATHS_IDEAL;
    c.refused = NULL;
    return evaluation_run(&c, engine_quick(), p, out);
}

struct finalists {
    const struct evaluation_context *context;
    const struct plan *const *plan;
};

const struct engine *evaluate_thorough_engine(const struct evaluation_context *context)
{
    return context->engine ? context->engine : engine_judge();
}

/* To simulate all ranks of a large plan takes SimGrid minutes: where they are not alike, the
 * analytic engine has the last word, which shares links in the same way. */
static enum status evaluate_finalist(void *context, size_t i, void *slot)
{
    const struct finalists *f = context;
    const struct engine *engine = evaluate_thorough_engine(f->context);
    struct evaluation_context c = *f->context;
    struct evaluation alike;
    c.only_alike = c.no_links = c.guess = true;
    if (!engine->quick && evaluation_devices(f->plan[i]) >= LARGE &&
        evaluation_run(&c, engine_quick(), f->plan[i], &alike) == STATUS_UNSUPPORTED)
        engine = engine_quick();
    return evaluation_run(f->context, engine, f->plan[i], slot);
}

static void finalists_tick(void *context)
{
    const struct simulation_watch *scored = ((const struct finalists *)context)->context->scored;
    if (scored)
        (void)scored->tick(scored->context, 0, 0);
}

static enum status thorough(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out)
{
    struct evaluation_context c = *(const struct evaluation_context *)context;
    struct finalists f = {&c, p};
    c.refused = NULL;
    PASS(engine_load(evaluate_thorough_engine(&c)));
    if (!c.stop)
        return pool_for(c.workers, n, sizeof *out, out, evaluate_finalist, &f);
    return pool_for_watched(&(struct pool_items){c.workers, n, sizeof *out, out, evaluate_finalist,
                                                 &f, finalists_tick, c.stop});
}

struct evaluator evaluator_make(struct evaluation_context *context)
{
    const struct topology *t = context->topology;
    bool links = t->n <= LARGEST && t->links > 0,
         dear = t->grid.dimensions > 0; /* each collective of each group: by all algorithms */
    return (struct evaluator){.context = context,
                              .quick = quick,
                              .rough = links ? rough : NULL,
                              .shared = links && !dear ? shared : NULL,
                              .thorough = thorough,
                              .costs = context->costs};
}
