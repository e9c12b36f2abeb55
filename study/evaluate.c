/* Predictions of plans: by lowering and simulating all of an iteration, by its periodic middle, or
 * quickly for the ranking of a search. */
#include "study/evaluate.h"

#include <math.h>
#include <stdio.h>

#include "core/lower.h"
#include "core/text.h"
#include "study/pool.h"

enum { MOST_WHOLE = 300000 }; /* ops of a finalist */
enum { LONG_RUN = 1000 }; /* microbatches from which on folding is worth a warning if it fails */
static const double periodic = 1e-9;

/* ---- one program */

void evaluate_machine(const struct program *p, const struct topology *t, struct measurement *m)
{
    double possible = 0, samples = m->samples_per_s;
    for (size_t r = 0; r < p->ranks; r++) {
        possible += topology_type(t, p->rank[r].device)->flops;
        m->rank[r].memory_bytes = topology_type(t, p->rank[r].device)->memory_bytes;
    }
    if (p->folded || possible <= 0)
        return;
    m->flops = possible;
    m->mfu = p->sample_flop * samples / possible;
    m->hfu = (p->sample_flop + p->recompute_flop) * samples / possible;
}

enum status evaluate_program(const struct program *p, const struct evaluation_context *context,
                             const struct engine *engine, struct measurement *m,
                             struct timeline *timeline)
{
    enum status st;
    struct simulation s = {0};
    TRY(engine->run(p, context->topology, context->platform, &context->options, &s));
    if (context->options.faults)
        TRY(faults_outcome(context->options.faults, p, &s.timeline));
    TRY(measurement_from_timeline(p, &s.timeline, m));
    m->link = s.link;
    m->links = s.links;
    m->cpu_s = s.cpu_s;
    s.link = NULL;
    s.links = 0;
    measurement_sort_links(m);
    if (context->detailed)
        TRY(measurement_add_calls(m, p, &s.timeline));
    evaluate_machine(p, context->topology, m);
    if (timeline) {
        *timeline = s.timeline;
        s.timeline = (struct timeline){0};
    }
out:
    simulation_free(&s);
    return st;
}

void evaluate_reason(const struct measurement *m, char text[AUTO_REASON])
{
    double busy = 0, exposed = 0, idle = 0, total = (double)m->ranks * m->iteration_s;
    char link[64] = "";
    for (size_t r = 0; r < m->ranks; r++) {
        busy += m->rank[r].busy_s;
        exposed += m->rank[r].exposed_comm_s;
        idle += m->rank[r].idle_s;
    }
    if (m->links > 0 && exposed > 0.02 * total)
        snprintf(link, sizeof link, " (%.40s busy %.0f %%)", m->link[0].name,
                 100 * m->link[0].busy_fraction);
    snprintf(text, AUTO_REASON, "compute %.0f %%, exposed communication %.0f %%%s, idle %.0f %%",
             100 * busy / total, 100 * exposed / total, link, 100 * idle / total);
}

/* ---- plans of many microbatches, by their periodic middle */

static uint64_t teams_of(const struct plan *p)
{
    uint64_t teams = 1;
    while (teams < p->stages && p->stage[teams].device[0] != p->stage[0].device[0])
        teams++;
    return teams;
}

/* The period of a plan in microbatches: those that fill the pipeline, a multiple of those after
 * which all replicas of all stages stand as before.
 *
 * With r_s replicas of stage s, microbatch b goes to replica b mod r_s, so assignments repeat after
 * lcm(r_s) microbatches; the pipeline has as many of these in flight as it has ranks in a row. */
static uint64_t period(const struct plan *p)
{
    uint64_t cycle = 1;
    for (size_t s = 0; s < p->stages && cycle < p->microbatches; s++)
        cycle = common_multiple(cycle, p->stage[s].replicas);
    return cycle * teams_of(p);
}

struct run {
    const struct evaluation_context *context;
    const struct engine *engine;
    const struct plan *plan;
    bool folded;               /* only replica and shard 0 */
    struct timeline *timeline; /* of all ops; NULL: not asked for */
};

/* Measure the plan as if it had so many microbatches. *ops may be NULL. */
static enum status measure(const struct run *run, uint64_t microbatches, struct measurement *out,
                           struct program *keep)
{
    enum status st;
    struct plan plan = *run->plan; /* borrows all */
    struct program program = {0};
    plan.microbatches = (uint32_t)microbatches;
    if (run->folded && run->engine->folds)
        TRY(plan_lower_folded(&plan, run->context->model, run->context->topology, &program));
    else
        TRY(plan_lower(&plan, run->context->model, run->context->topology, &program));
    if (run->context->perturbation)
        TRY(perturb_program(run->context->perturbation, &program));
    TRY(evaluate_program(&program, run->context, run->engine, out, run->timeline));
    if (keep) {
        *keep = program;
        program = (struct program){0};
    }
out:
    program_free(&program);
    return st;
}

/* An estimate for rankings. If microbatches beyond the first periods each add the same time, then
 *
 *     T(n) = T(first + step) + ((n - first) / step - 1) * (T(first + step) - T(first)).
 *
 * The plan by two short iterations, each long enough to fill the pipeline, without looking whether
 * the rest is periodic: for ranking. *program: the last one simulated. */
static enum status measure_quickly(const struct run *run, struct measurement *out,
                                   struct program *program)
{
    enum status st;
    uint64_t full = period(run->plan), all = run->plan->microbatches;
    uint64_t cycle = full / teams_of(run->plan); /* without virtual stages a period has one */
    bool virtual = teams_of(run->plan) < run->plan->stages;
    uint64_t step = virtual ? full : (full / cycle + 3) / 4 * cycle;
    uint64_t least = virtual ? full : full + step, first = least + (all - least) % step;
    struct measurement shorter = {0};
    if (all <= 3 * full)
        return measure(run, all, out, program);
    TRY(measure(run, first, &shorter, NULL));
    TRY(measure(run, first + step, out, program));
    measurement_extrapolate(out, &shorter, (double)(all - first) / (double)step - 1);
    evaluate_machine(program, run->context->topology, out);
out:
    measurement_free(&shorter);
    return st;
}

enum status evaluate_whole(const struct plan *plan, const struct evaluation_context *context,
                           const struct engine *engine, struct measurement *out,
                           struct program *program, struct timeline *timeline)
{
    const struct run run = {
        .context = context, .engine = engine, .plan = plan, .timeline = timeline};
    return measure(&run, plan->microbatches, out, program);
}

/* Why a long run is not worth trying to fold; NULL: it is. The longest of the three iterations that
 * folding simulates has almost five periods: a run of six is as quick to simulate whole. */
static const char *unfoldable(const struct plan *plan, const struct evaluation_context *context)
{
    if (context->perturbation && context->perturbation->jitter > 0)
        return "with jitter no microbatch is like another";
    if (plan->microbatches <= 6 * period(plan))
        return "it is too short for the periods of its replicas and stages";
    return NULL;
}

/* The exact form of the same: iterations of 2, 3 and 4 periods and the rest of the division are
 * simulated whole. When T(3) - T(2) and T(4) - T(3) are the same to 1e-9, each period adds that
 * much and T(all) follows from T(4). Warm-up and drain are inside the simulated ones. */
enum status evaluate_plan(const struct plan *plan, const struct evaluation_context *context,
                          const struct engine *engine, struct measurement *out,
                          struct program *program)
{
    enum status st = STATUS_OK;
    const struct run run = {.context = context, .engine = engine, .plan = plan};
    uint64_t unit = period(plan), all = plan->microbatches, rest = all % unit;
    struct measurement m[3] = {{0}, {0}, {0}};
    struct program last = {0};
    const char *reason = all < LONG_RUN ? NULL : unfoldable(plan, context);
    if (all < LONG_RUN || reason)
        goto whole;
    for (uint64_t k = 0; k < 3; k++)
        TRY(measure(&run, rest + (k + 2) * unit, &m[k], k == 2 ? &last : NULL));
    double step = m[1].iteration_s - m[0].iteration_s;
    if (last.asynchronous)
        reason = "it has no flush";
    else if (fabs(m[2].iteration_s - m[1].iteration_s - step) > periodic * m[2].iteration_s)
        reason = "its middle is not periodic";
    if (reason)
        goto whole;
    measurement_extrapolate(&m[2], &m[1], (double)(all - rest) / (double)unit - 4);
    evaluate_machine(&last, context->topology, &m[2]);
    m[2].microbatches = plan->microbatches;
    *out = m[2];
    m[2] = (struct measurement){0};
    if (program) {
        *program = last;
        last = (struct program){0};
    }
    goto out;
whole:
    TRY(measure(&run, all, out, program));
    if (reason)
        TRY(text_copy(reason, &out->not_folded));
out:
    program_free(&last);
    for (size_t k = 0; k < 3; k++)
        measurement_free(&m[k]);
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

/* Ops, a collective counting for the messages that one of its members sends around a ring. */
static double effort_of(const struct program *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->ops; i++) {
        const struct program_op *o = &p->op[i];
        const size_t *start = op_is_collective(o) ? &p->device_start[o->peer] : NULL;
        sum += start ? 2 * (double)(start[1] - start[0]) : 1;
    }
    return sum;
}

/* Finalists are simulated whole where that takes seconds: a period of links that are shared is not
 * proved to be one. A stage has about six ops per microbatch and shard. */
static bool simulates_whole(const struct run *run)
{
    const struct plan *p = run->plan;
    double ops = 6.0 * (double)p->stages * p->microbatches * p->stage[0].tensor_parallel;
    return run->engine != &engine_analytic && ops <= MOST_WHOLE;
}

static enum status evaluate(const struct run *run, struct evaluation *out)
{
    enum status st;
    const struct evaluation_context *c = run->context;
    struct program program = {0};
    struct measurement m = {0};
    bool whole = simulates_whole(run);
    if (whole)
        TRY(measure(run, run->plan->microbatches, &m, &program));
    else
        TRY(measure_quickly(run, &m, &program));
    struct evaluation e = {.iteration_s = m.iteration_s,
                           .samples_per_s = m.samples_per_s,
                           .bubble_fraction = m.bubble_fraction,
                           .engine = run->engine->name,
                           .exact = whole || run->plan->microbatches <= 3 * period(run->plan)};
    judge_ranks(c, &program, &m, &e);
    evaluate_reason(&m, e.reason);
    const struct plan_stage *first = &run->plan->stage[0];
    e.effort = effort_of(&program) *
               (program.folded ? (double)first->replicas * first->tensor_parallel : 1);
    *out = e;
out:
    measurement_free(&m);
    program_free(&program);
    return st;
}

/* Are all devices of each stage of one type? Else one replica does not speak for all. */
static bool uniform(const struct plan *p, const struct topology *t)
{
    for (size_t s = 0; s < p->stages; s++)
        for (size_t k = 1; k < p->stage[s].devices; k++)
            if (t->type_of[p->stage[s].device[k]] != t->type_of[p->stage[s].device[0]])
                return false;
    return true;
}

static enum status quick(void *context, const struct plan *p, struct evaluation *out)
{
    const struct evaluation_context *c = context;
    return evaluate(&(struct run){c, &engine_analytic, p, uniform(p, c->topology), NULL}, out);
}

struct finalists {
    const struct evaluation_context *context;
    const struct plan *const *plan;
};

static enum status evaluate_finalist(void *context, size_t i, void *slot)
{
    const struct finalists *f = context;
    const struct engine *engine = f->context->engine ? f->context->engine : &engine_simgrid;
    return evaluate(&(struct run){f->context, engine, f->plan[i], engine->folds, NULL}, slot);
}

static enum status thorough(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out)
{
    struct finalists f = {context, p};
    return pool_for(n, sizeof *out, out, evaluate_finalist, &f);
}

struct evaluator evaluator_make(struct evaluation_context *context)
{
    return (struct evaluator){.context = context, .quick = quick, .thorough = thorough};
}
