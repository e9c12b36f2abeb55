/* `foreline plan --explain plan.json`: where the time goes, and what would have to change. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/lower/lower.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/planning.h"
#include "study/remedy.h"

/* Tensors that leave a stage for later ones: each is sent once for every microbatch, to the stage
 * that reads it, so the bytes are what the links between two stages carry per microbatch. */
static enum status print_cuts(const struct loaded_plan *p, bool wide, FILE *out)
{
    enum status st = STATUS_OK;
    const struct model *m = &p->model;
    uint32_t *stage_of = NULL, *op = NULL;
    char name[256];
    size_t n;
    TRY(ARRAY_NEW(stage_of, m->n));
    for (uint32_t s = 0; s < p->plan.stages; s++)
        for (size_t k = 0; k < p->plan.stage[s].ops; k++)
            stage_of[p->plan.stage[s].op[k]] = s;
    fprintf(out, "\n%-12s %-12s %s\n", "from -> to", "bytes", "tensors, per microbatch");
    for (uint32_t from = 0; from < p->plan.stages; from++)
        for (uint32_t to = from + 1; to < p->plan.stages; to++) {
            double sum = 0;
            TRY(crossing_ops(m, stage_of, from, to, &op, &n));
            for (size_t k = 0; k < n; k++)
                sum += (double)m->op[op[k]].output_bytes * p->plan.microbatch_size;
            if (n > 0)
                fprintf(out, "%4u -> %-4u %-12s ", from, to, units_of(UNIT_BYTES, sum).text);
            for (size_t k = 0; k < n && k < 4; k++)
                fprintf(out, "%s%s", k ? ", " : "",
                        text_shorten(m->op[op[k]].name,
                                     wide    ? SIZE_MAX
                                     : n > 2 ? 15
                                             : 34,
                                     name, sizeof name));
            if (n > 0)
                fprintf(out, "%s\n", n > 4 ? ", ..." : "");
            free(op);
            op = NULL;
        }
out:
    free(op);
    free(stage_of);
    return st;
}

/* How the iteration and its what-ifs are simulated: all alike, so that they can be compared. */
enum extent {
    WHOLE,      /* every rank, on SimGrid */
    FOLDED,     /* ranks that are alike once, on SimGrid */
    UNCONTENDED /* every rank, by the analytic engine, as if every pair had its way to itself */
};

enum { MOST_MESSAGES = 1500000 }; /* of all simulations of WHOLE: 10 to 20 CPU seconds */

struct explanation {
    struct loaded_plan p;
    struct topology unlinked; /* every pair has its way to itself; borrows */
    struct program changed;   /* that of p with ops of its own */
    enum extent extent;
    size_t simulations, done;
    const struct simulation_watch *watch;
    FILE *out;
};

/* Simulate the plan's program, with one thing twice as good unless `how` is NULL. */
static enum status simulate_once(struct explanation *e, const struct remedy *how,
                                 struct measurement *m)
{
    const struct program *p = &e->p.program;
    struct evaluation_context context = {.model = &e->p.model,
                                         .topology = &e->p.topology,
                                         .platform = e->p.platform,
                                         .only_alike = true,
                                         .no_links = how != NULL,
                                         .fold_from = 1};
    if (e->watch)
        e->watch->tick(e->watch->context, e->done++, e->simulations);
    if (e->extent == FOLDED) {
        context.change = how ? remedy_apply : NULL;
        context.change_how = how;
        return evaluate_plan(&e->p.plan, &context, engine_judge(), m, NULL, NULL);
    }
    memcpy(e->changed.op, p->op, (p->ops + 1) * sizeof *p->op);
    if (how)
        remedy_apply(how, &e->changed);
    if (e->extent == UNCONTENDED)
        context.topology = &e->unlinked;
    return evaluate_program(&e->changed, &context,
                            e->extent == WHOLE ? engine_judge() : engine_quick(), m, NULL);
}

/* The change in iteration time says how much the plan is limited by something, as no sum of busy
 * times can where computation hides communication. */
static enum status what_if(struct explanation *e, const struct remedy *how, double iteration_s)
{
    struct measurement m = {0};
    char words[REMEDY_WORDS];
    PASS(simulate_once(e, how, &m));
    fprintf(e->out, "  %-30s %11s  %+.1f %%\n", remedy_words(how, words),
            units_of(UNIT_SECONDS, m.iteration_s).text, 100 * (m.iteration_s / iteration_s - 1));
    measurement_free(&m);
    return STATUS_OK;
}

/* Can ranks be folded at all? What else they have to be for it only simulations know. */
static enum status choose_extent(struct explanation *e)
{
    struct program folded = {0};
    double messages = evaluate_effort(&e->p.program, &e->p.topology) * (double)e->simulations;
    if (messages <= MOST_MESSAGES)
        return STATUS_OK;
    PASS(plan_lower_folded(&e->p.plan, &e->p.model, &e->p.topology, NULL, &folded));
    e->extent = folded.folded ? FOLDED : UNCONTENDED;
    program_free(&folded);
    return STATUS_OK;
}

/* The iteration as it is: of a large plan folded where its ranks are alike, else without
 * contention. */
static enum status simulate_plan(struct explanation *e, struct measurement *m)
{
    PASS(choose_extent(e));
    enum status st = simulate_once(e, NULL, m);
    if (st != STATUS_UNSUPPORTED || e->extent != FOLDED)
        return st;
    e->extent = UNCONTENDED;
    return simulate_once(e, NULL, m);
}

static enum status explain_print_iteration(struct explanation *e, double *iteration_s)
{
    enum status st;
    struct measurement m = {0}, quick = {0};
    char text[AUTO_REASON];
    TRY(simulate_plan(e, &m));
    evaluate_reason(&m, text);
    *iteration_s = m.iteration_s;
    fprintf(e->out, "\niteration %s", units_of(UNIT_SECONDS, m.iteration_s).text);
    if (e->extent == UNCONTENDED) {
        fprintf(e->out,
                " without contention (%zu ranks that are not alike are too many for SimGrid; "
                "simulate --engine analytic has contention): %s\n",
                e->p.program.ranks, text);
        goto out;
    }
    const struct evaluation_context uncontended = {
        .model = &e->p.model, .topology = &e->unlinked, .platform = e->p.platform};
    TRY(evaluate_program(&e->p.program, &uncontended, engine_quick(), &quick, NULL));
    fprintf(e->out, " on SimGrid (%s without contention): %s\n",
            units_of(UNIT_SECONDS, quick.iteration_s).text, text);
out:
    measurement_free(&m);
    measurement_free(&quick);
    return st;
}

static enum status explain_change(struct explanation *e)
{
    const struct program *p = &e->p.program;
    struct remedy how[REMEDIES];
    size_t n = 0;
    double iteration_s;
    uint32_t slowest = remedy_slowest_stage(p);
    for (int kind = 0; kind < REMEDIES; kind++)
        if (remedy_applies(p, (enum remedy_kind)kind, e->p.plan.stages))
            how[n++] = (struct remedy){(enum remedy_kind)kind, slowest};
    e->simulations = n + 1;
    e->unlinked = e->p.topology;
    e->unlinked.links = 0;
    e->changed = *p;
    e->changed.op = NULL;
    PASS(ARRAY_NEW(e->changed.op, p->ops + 1));
    PASS(explain_print_iteration(e, &iteration_s));
    fprintf(e->out, "with one thing twice as fast\n");
    for (size_t k = 0; k < n; k++)
        PASS(what_if(e, &how[k], iteration_s));
    return STATUS_OK;
}

enum status plan_explain(const char *path, bool wide, const struct simulation_watch *watch,
                         FILE *out)
{
    enum status st;
    struct explanation e = {.watch = watch, .out = out};
    TRY(load_plan(path, &e.p));
    plan_print_stages(&e.p.plan, &e.p.model, &e.p.topology, wide, out);
    TRY(print_cuts(&e.p, wide, out));
    TRY(explain_change(&e));
out:
    free(e.changed.op);
    loaded_plan_free(&e.p);
    return st;
}
