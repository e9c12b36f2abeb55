/* `foreline plan --explain plan.json`: where the time goes, and what would have to change. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/array.h"
#include "core/lower.h"
#include "core/text.h"
#include "core/units.h"
#include "study/evaluate.h"
#include "study/planning.h"

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

/* The slowest stage per microbatch of one replica. */
static uint32_t slowest_stage(const struct program *p)
{
    uint32_t slowest = 0;
    double most = -1;
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_BACKWARD && p->op[i].seconds > most) {
            most = p->op[i].seconds;
            slowest = p->op[i].stage;
        }
    return slowest;
}

/* What is made twice as good: compute, of the slowest stage or of all, or what is communicated for a purpose. Bytes
 * are halved: the same as twice the bandwidth without latency. */
enum change {
    FASTER_STAGE,
    FASTER_COMPUTE,
    FASTER_MESSAGES,
    CHANGES = FASTER_MESSAGES + OP_PURPOSES
};

static bool is_for(const struct program_op *o, enum change change)
{
    return change >= FASTER_MESSAGES && !op_computes(o) && o->kind != OP_UPDATE && o->bytes > 0 &&
           o->purpose == (uint8_t)(change - FASTER_MESSAGES);
}

static void apply(struct program *p, enum change change, uint32_t stage)
{
    for (size_t i = 0; i < p->ops; i++) {
        struct program_op *o = &p->op[i];
        if (op_computes(o) &&
            (change == FASTER_COMPUTE || (change == FASTER_STAGE && o->stage == stage)))
            o->seconds /= 2;
        if (is_for(o, change))
            o->bytes /= 2;
    }
}

/* Is there anything to be made better? One stage is all stages. */
static bool applies(const struct program *p, enum change change, size_t stages)
{
    bool any = change == FASTER_COMPUTE || (change == FASTER_STAGE && stages > 1);
    for (size_t i = 0; i < p->ops && !any; i++)
        any = is_for(&p->op[i], change);
    return any;
}

/* Simulate the program with one thing twice as good: the change in iteration time says how much the
 * plan is limited by it, as no sum of busy times can where computation hides communication. */
static enum status what_if(const struct loaded_plan *p, enum change change, uint32_t stage,
                           double iteration_s, FILE *out)
{
    static const char *const words[CHANGES] = {
        [FASTER_COMPUTE] = "all stages computed twice as fast",
        [FASTER_MESSAGES + FOR_PIPELINE] = "activations moved twice as fast",
        [FASTER_MESSAGES + FOR_DATA] = "gradients were summed twice as fast",
        [FASTER_MESSAGES + FOR_TIES] = "tied weights were summed twice as fast",
        [FASTER_MESSAGES + FOR_SHARDS] = "ZeRO's shards moved twice as fast",
        [FASTER_MESSAGES + FOR_TENSOR] = "tensor shards met twice as fast",
        [FASTER_MESSAGES + FOR_EXPERTS] = "tokens met experts twice as fast",
        [FASTER_MESSAGES + FOR_CONTEXT] = "parts of sequences met twice as fast",
        [FASTER_MESSAGES + FOR_HOST] = "the host was reached twice as fast",
        [FASTER_MESSAGES + FOR_NORM] = "the gradients' norm was summed twice as fast"};
    enum status st;
    struct program program = {0};
    struct measurement m = {0};
    char what[64];
    TRY(plan_lower(&p->plan, &p->model, &p->topology, &program));
    apply(&program, change, stage);
    const struct evaluation_context context = {
        .model = &p->model, .topology = &p->topology, .platform = p->platform};
    TRY(evaluate_program(&program, &context, &engine_simgrid, &m, NULL));
    snprintf(what, sizeof what, "stage %u computed twice as fast", stage);
    fprintf(out, "  if %-40s %11s  %+.1f %%\n", words[change] ? words[change] : what,
            units_of(UNIT_SECONDS, m.iteration_s).text, 100 * (m.iteration_s / iteration_s - 1));
out:
    measurement_free(&m);
    program_free(&program);
    return st;
}

enum status plan_explain(const char *path, bool wide, FILE *out)
{
    enum status st;
    struct loaded_plan p = {0};
    struct measurement quick = {0}, thorough = {0};
    char text[AUTO_REASON];
    TRY(load_plan(path, &p));
    plan_print_stages(&p.plan, &p.model, &p.topology, wide, out);
    TRY(print_cuts(&p, wide, out));
    const struct evaluation_context context = {
        .model = &p.model, .topology = &p.topology, .platform = p.platform};
    struct topology unlinked = p.topology; /* every pair has its way to itself */
    unlinked.links = 0;
    const struct evaluation_context uncontended = {
        .model = &p.model, .topology = &unlinked, .platform = p.platform};
    TRY(evaluate_program(&p.program, &uncontended, &engine_analytic, &quick, NULL));
    TRY(evaluate_program(&p.program, &context, &engine_simgrid, &thorough, NULL));
    evaluate_reason(&thorough, text);
    fprintf(out, "\niteration %s", units_of(UNIT_SECONDS, thorough.iteration_s).text);
    fprintf(out, " on SimGrid (%s without contention): %s\n",
            units_of(UNIT_SECONDS, quick.iteration_s).text, text);
    uint32_t slowest = slowest_stage(&p.program);
    for (int change = 0; change < CHANGES; change++)
        if (applies(&p.program, (enum change)change, p.plan.stages))
            TRY(what_if(&p, (enum change)change, slowest, thorough.iteration_s, out));
out:
    measurement_free(&quick);
    measurement_free(&thorough);
    loaded_plan_free(&p);
    return st;
}
