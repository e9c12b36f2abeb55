/* plan - cut a model into pipeline stages and place them on the devices of a platform. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "core/clock.h"
#include "core/units.h"
#include "study/planning.h"

/* A first prediction, on stderr: milliseconds, and it proves that the plan can run. */
static enum status predict(const struct plan *p, const struct model *m, const struct topology *t)
{
    struct evaluation e;
    struct evaluation_context context = {.model = m, .topology = t};
    struct evaluator evaluator = evaluator_make(&context);
    enum status st = evaluator.quick(evaluator.context, p, &e);
    if (st == STATUS_OK)
        fprintf(stderr,
                "%s: %zu stage%s, %u microbatches of %u; analytic engine: %s per iteration, "
                "%.4g samples/s, bubble %.1f %%\n",
                p->algorithm, p->stages, p->stages == 1 ? "" : "s", p->microbatches,
                p->microbatch_size, units_of(UNIT_SECONDS, e.iteration_s).text, e.samples_per_s,
                100 * e.bubble_fraction);
    return st;
}

static enum status search(const struct arguments *a, const struct model *m,
                          const struct topology *t, const char *platform, struct plan *out)
{
    enum status st;
    struct auto_result result = {0};
    struct evaluation_context context = {.model = m, .topology = t, .platform = platform};
    TRY(plan_search(a, &context, interrupt_catch(), &result));
    if (!a->json)
        plan_print_ranking(&result, a, &context, arguments_prose(a));
    if (!result.candidate[0].fits)
        fprintf(stderr, "warning: no plan fits into memory; this one needs least time\n");
    plan_take_best(&result, out);
out:
    interrupt_release();
    auto_result_free(&result);
    return st;
}

static enum status make(struct invocation *in)
{
    enum status st;
    struct arguments *a = &in->a;
    struct model m = {0};
    struct topology t = {0};
    struct plan p = {0};
    char *path = NULL;
    if (!a->model || !a->platform)
        return error_set(STATUS_USAGE, "--model and --platform are needed");
    in->by.seed = a->seed;
    TRY(plan_settle(a));
    TRY(load_model(a->model, &m));
    TRY(load_topology(a->platform, &t, &path));
    double begin = clock_cpu();
    if (!strcmp(a->algorithm, "auto"))
        TRY(search(a, &m, &t, path, &p));
    else
        TRY(plan_by_algorithm(a, &m, &t, &p));
    double cpu_s = clock_cpu() - begin;
    TRY(predict(&p, &m, &t));
    if (a->output)
        TRY(plan_write(&p, &m, &t, a->output, &in->by));
    if (a->json)
        plan_print_json(&p, &m, &t, cpu_s, &in->by, arguments_prose(a));
    else
        plan_print_stages(&p, &m, &t, arguments_prose(a));
out:
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
    free(path);
    return st;
}

static enum status plan(struct invocation *in)
{
    const struct arguments *a = &in->a;
    uint64_t way = plan_takers(a);
    if (in->operands > 0)
        return error_set(STATUS_USAGE, "plan takes no operands, only options");
    PASS(plan_check_given(a));
    if (way == TAKES(PLAN_EXPLAIN))
        return plan_explain(a->explain, stdout);
    if (way == TAKES(PLAN_AUTO) || way == TAKES(PLAN_CUT))
        return make(in);
    if (way == TAKES(PLAN_LIST)) {
        plan_print_algorithms(stdout);
        return STATUS_OK;
    }
    enum status st = plan_by_objective(a, &in->by, interrupt_catch());
    interrupt_release();
    return st;
}

const struct command command_plan = {
    .name = "plan",
    .synopsis = "--model M --platform P [-o FILE] | --explain PLAN",
    .summary = "cut a model into stages over the devices of a platform",
    .details =
        "By default searches pipeline depth, replicas, tensor-parallel degree, placement,\n"
        "microbatch size, schedule, and recomputation and ZeRO where memory asks for them:\n"
        "every plan is scored on the analytic engine, the best few and two baselines (all\n"
        "data-parallel, uniform pipeline) on SimGrid; prints the ranking with where the time\n"
        "goes. Options that are given are kept. Ctrl-C ranks what has been tried so far.\n"
        "Prints the stages with their predicted forward and backward time per microbatch\n"
        "and writes a plan file that simulate and run take. Stage neighbours are placed\n"
        "close to each other: inside a node before across nodes.\n"
        "One iteration trains microbatches x microbatch-size samples, whatever the number\n"
        "of replicas, so that plans with different replicas can be compared.\n"
        "--algorithm list prints the algorithms with what they guarantee.",
    .run = plan,
};
