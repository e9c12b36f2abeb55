/* plan - cut a model into pipeline stages and place them on the devices of a platform. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "core/clock.h"
#include "core/cost.h"
#include "core/json.h"
#include "core/schedule.h"
#include "core/text.h"
#include "core/units.h"
#include "partition/partition.h"
#include "sim/engine.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/planning.h"

static struct plan_arguments *const a = &plan_command_line;

static enum status list_algorithms(void)
{
    for (size_t i = 0; i < partition_algorithms_n; i++)
        printf("%-10s %s; %s\n", partition_algorithms[i]->name, partition_algorithms[i]->summary,
               partition_algorithms[i]->guarantee);
    plan_list_objectives();
    return STATUS_OK;
}

static enum status check_options(int argc)
{
    if (argc > 0)
        return error_set(STATUS_USAGE, "plan takes no operands, only options");
    if (!a->model || !a->platform)
        return error_set(STATUS_USAGE, "--model and --platform are needed");
    return plan_check_arguments(a);
}

static void print_json(const struct plan *p, const struct model *m, const struct topology *t,
                       double cpu_s)
{
    struct json_writer w = {.stream = stdout};
    struct provenance by = command_provenance(a->seed);
    json_put_header(&w, "foreline-planning", 1, &by);
    json_put_string(&w, "algorithm", p->algorithm);
    json_put_string(&w, "objective", "pipeline");
    json_put_real(&w, "objective_value", p->objective_s);
    json_put_real(&w, "lower_bound", NAN);
    json_put_bool(&w, "proved_optimal", false);
    json_put_real(&w, "cpu_s", cpu_s);
    json_open_array(&w, "stages", false);
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        json_open_object(&w, NULL, false);
        json_open_array(&w, "ops", true);
        for (size_t k = 0; k < stage->ops; k++)
            json_put_string(&w, NULL, m->op[stage->op[k]].name);
        json_close(&w);
        json_open_array(&w, "devices", true);
        for (size_t k = 0; k < stage->devices; k++)
            json_put_string(&w, NULL, t->device[stage->device[k]]);
        json_close(&w);
        json_put_integer(&w, "replicas", stage->replicas);
        json_put_integer(&w, "tensor_parallel", stage->tensor_parallel);
        json_put_bool(&w, "recompute", stage->recompute != RECOMPUTE_NONE);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

/* One line per stage: ops, seconds per microbatch, parameters, what it sends on, devices. */
void plan_print_stages(const struct plan *p, const struct model *m, const struct topology *t)
{
    printf("%-5s %5s  %-22s %-22s %10s %10s %12s  %s\n", "stage", "ops", "first", "last", "forward",
           "backward", "parameters", "devices");
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        const struct device_type *type = topology_type(t, stage->device[0]);
        char forward[UNITS_TEXT], backward[UNITS_TEXT], size[UNITS_TEXT];
        double forward_s = 0, backward_s = 0, bytes = 0;
        for (size_t k = 0; k < stage->ops; k++) {
            const struct cost_split split = {stage->tensor_parallel, stage->expert_parallel,
                                             p->sequence_parallel && stage->tensor_parallel > 1};
            struct op_cost c =
                cost_op(m, type, stage->op[k], p->microbatch_size, p->optimizer, &split);
            forward_s += c.forward_s;
            backward_s += c.backward_s;
            bytes += (double)m->op[stage->op[k]].parameter_bytes;
        }
        printf("%-5zu %5zu  %-22s %-22s %10s %10s %12s  ", s, stage->ops, m->op[stage->op[0]].name,
               m->op[stage->op[stage->ops - 1]].name, units_print(UNIT_SECONDS, forward_s, forward),
               units_print(UNIT_SECONDS, backward_s, backward),
               units_print(UNIT_BYTES, bytes, size));
        for (size_t k = 0; k < stage->devices && k < 4; k++)
            printf("%s%s", k ? "," : "", t->device[stage->device[k]]);
        printf("%s\n", stage->devices > 4 ? ",..." : "");
    }
}

/* A first prediction, on stderr: milliseconds, and it proves that the plan can run. */
static enum status predict(const struct plan *p, const struct model *m, const struct topology *t)
{
    char text[UNITS_TEXT];
    struct evaluation e;
    struct evaluation_context context = {.model = m, .topology = t};
    struct evaluator evaluator = evaluator_make(&context);
    enum status st = evaluator.quick(evaluator.context, p, &e);
    if (st == STATUS_OK)
        fprintf(stderr,
                "%s: %zu stage%s, %u microbatches of %u; analytic engine: %s per iteration, "
                "%.4g samples/s, bubble %.1f %%\n",
                p->algorithm, p->stages, p->stages == 1 ? "" : "s", p->microbatches,
                p->microbatch_size, units_print(UNIT_SECONDS, e.iteration_s, text), e.samples_per_s,
                100 * e.bubble_fraction);
    return st;
}

enum status plan_by_algorithm(const struct plan_arguments *arg, const struct model *m,
                              const struct topology *t, struct plan *out)
{
    const struct partition_algorithm *algorithm;
    struct partition_request request;
    enum status st = plan_request(arg, &request);
    if (st != STATUS_OK)
        return st;
    size_t shards = arg->tensor_parallel ? arg->tensor_parallel : 1,
           chunks = arg->chunks ? arg->chunks : 1;
    request.replicas = request.replicas ? request.replicas : 1;
    size_t most = t->n / request.replicas / shards * chunks;
    most = most < m->n ? most : m->n / chunks * chunks;
    if (!request.stages)
        request.stages = most ? most : 1;
    if (!request.microbatches)
        request.microbatches = request.replicas > 8 ? request.replicas : 8;
    if (!request.microbatch_size)
        request.microbatch_size = 1;
    if (!request.schedule)
        request.schedule = chunks > 1 ? "interleaved" : "1f1b";
    if (partition_find(arg->algorithm, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--algorithm");
    return partition_run(algorithm, m, t, &request, out);
}

static enum status plan(int argc, char **argv)
{
    enum status st;
    struct model m = {0};
    struct topology t = {0};
    struct plan p = {0};
    char *path = NULL;

    (void)argv;
    if (!strcmp(a->algorithm, "list"))
        return list_algorithms();
    if (strcmp(a->objective, "pipeline") != 0)
        return plan_by_objective(a);
    if (a->explain)
        return plan_explain(a->explain);
    TRY(check_options(argc));
    TRY(load_model(a->model, &m));
    TRY(load_topology(a->platform, &t, &path));
    double begin = clock_cpu();
    if (!strcmp(a->algorithm, "auto"))
        TRY(plan_by_search(a, &m, &t, path, &p));
    else
        TRY(plan_by_algorithm(a, &m, &t, &p));
    double cpu_s = clock_cpu() - begin;
    TRY(predict(&p, &m, &t));
    struct provenance by = command_provenance(a->seed);
    if (a->output)
        TRY(plan_write(&p, &m, &t, a->output, &by));
    if (a->json)
        print_json(&p, &m, &t, cpu_s);
    else
        plan_print_stages(&p, &m, &t);
out:
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
    free(path);
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
    .options = plan_options,
    .run = plan,
};
