/* plan - cut a model into pipeline stages and place them on the devices of a platform. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/evaluate.h"
#include "cli/load.h"
#include "cli/plan.h"
#include "core/cost.h"
#include "core/json.h"
#include "core/schedule.h"
#include "core/text.h"
#include "core/units.h"
#include "partition/partition.h"
#include "sim/engine.h"

enum { MOST = 10000000 };

const struct plan_arguments plan_defaults = {
    .algorithm = "auto", .objective = "pipeline", .optimizer = "adam", .finalists = 12, .seed = 1};
static struct plan_arguments a = {
    .algorithm = "auto", .objective = "pipeline", .optimizer = "adam", .finalists = 12, .seed = 1};

static const struct option_spec options[] = {
    {OPTION_STRING, "model", &a.model, "M", "zoo name with overrides, or model file"},
    {OPTION_STRING, "platform", &a.platform, "P", "shipped name, or SimGrid XML file"},
    {OPTION_STRING, "algorithm", &a.algorithm, "A", "auto, balanced, uniform, ..., or list"},
    {OPTION_STRING, "objective", &a.objective, "O",
     "pipeline, or one of a published tool (docs/objectives): placement, pipedream, ..."},
    {OPTION_STRING, "score", &a.score, "SPLIT", "print the objective of this split file"},
    {OPTION_SIZE, "stages", &a.stages, "N", "pipeline stages (auto: searched; else all devices)"},
    {OPTION_STRING, "split-at", &a.split_at, "OP,OP",
     "cut by hand: a stage begins at each of these ops of foreline model show"},
    {OPTION_SIZE, "replicas", &a.replicas, "N",
     "data-parallel replicas of every stage (auto: searched; else 1)"},
    {OPTION_SIZE, "tensor-parallel", &a.tensor_parallel, "N",
     "devices that share each op of a stage (auto: searched; else 1)"},
    {OPTION_FLAG, "sequence-parallel", &a.sequence_parallel, NULL,
     "with --tensor-parallel: the ops it leaves whole work on parts of the tokens"},
    {OPTION_SIZE, "expert-parallel", &a.expert_parallel, "N",
     "replicas over which experts are spread (else 1)"},
    {OPTION_SIZE, "chunks", &a.chunks, "N",
     "stages on each device, for --schedule interleaved and breadth-first (auto: searched; else "
     "1)"},
    {OPTION_STRING, "recompute", &a.recompute, "none|selective|full",
     "activations made again in the backward (auto: as memory needs; else none)"},
    {OPTION_SIZE, "zero", &a.zero, "0|1|2|3",
     "shard optimizer state, gradients, parameters over replicas (auto: 0 or 1; else 0)"},
    {OPTION_BYTES, "bucket", &a.bucket_bytes, "SIZE",
     "sum gradients in buckets of this size during the last backward; 0: after it"},
    {OPTION_FLAG, "executable", &a.executable, NULL,
     "auto: only plans that foreline run can execute"},
    {OPTION_SIZE, "microbatches", &a.microbatches, "N",
     "per iteration, over all replicas (auto: searched; else 8)"},
    {OPTION_SIZE, "microbatch-size", &a.microbatch_size, "N",
     "samples per microbatch (auto: searched; else 1)"},
    {OPTION_SIZE, "batch", &a.batch, "N",
     "auto: samples per iteration (default: microbatches x microbatch-size when both are given, "
     "else 8 per device)"},
    {OPTION_STRING, "schedule", &a.schedule, "NAME",
     "order of microbatches: sequential, gpipe, 1f1b, interleaved, breadth-first, zb-h1, pipedream "
     "(auto: searched; else 1f1b)"},
    {OPTION_SIZE, "devices", &a.devices, "N",
     "published objectives: devices (default: the file's)"},
    {OPTION_BYTES, "memory", &a.memory_bytes, "SIZE",
     "published objectives: per device; 0: the file's"},
    {OPTION_STRING, "machines", &a.machines, "N,N", "pipedream: per level, innermost first"},
    {OPTION_STRING, "bandwidth", &a.bandwidth, "RATE,RATE",
     "pipedream, piper: per level, B/s or 25GiBps"},
    {OPTION_FLAG, "charge-activations", &a.charge_activations, NULL,
     "pipedream: transfers take time"},
    {OPTION_FLAG, "straight", &a.straight, NULL, "pipedream: no replicas"},
    {OPTION_STRING, "hierarchy", &a.hierarchy, "K,K", "cpsc526: groups per level, outermost first"},
    {OPTION_FLAG, "compat-cpsc526", &a.compat, NULL, "cpsc526: the project's own cost matrix"},
    {OPTION_STRING, "optimizer", &a.optimizer, "adam|sgd", "state and time of the update"},
    {OPTION_SIZE, "finalists", &a.finalists, "N", "auto: plans that SimGrid looks at"},
    {OPTION_SECONDS, "time-limit", &a.time_limit_s, "TIME",
     "0: the algorithm's own (auto: 40 s for trying plans)"},
    {OPTION_SIZE, "seed", &a.seed, "N", "seed of parameters and data"},
    {OPTION_STRING, "explain", &a.explain, "PLAN",
     "where the time of this plan file goes, and what would have to change"},
    {OPTION_STRING, "output", &a.output, "FILE", "write the plan (also -o)"},
    {OPTION_FLAG, "json", &a.json, NULL, "print the result as JSON, SI units"},
    {.type = OPTION_END},
};

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static enum status list_algorithms(void)
{
    for (size_t i = 0; i < partition_algorithms_n; i++)
        printf("%-10s %s; %s\n", partition_algorithms[i]->name, partition_algorithms[i]->summary,
               partition_algorithms[i]->guarantee);
    printf(
        "%-10s %s; %s\n", "auto",
        "stages x replicas x shards x placement x microbatch size x schedule x memory, ranked on "
        "SimGrid",
        "best of what it tries, never worse than its baselines");
    plan_list_objectives();
    return STATUS_OK;
}

/* --split-at says the algorithm and the number of stages. */
static enum status apply_split(struct plan_arguments *arg)
{
    if (!arg->split_at)
        return STATUS_OK;
    if (strcmp(arg->algorithm, "auto") != 0 && strcmp(arg->algorithm, "manual") != 0)
        return error_set(STATUS_USAGE, "--split-at is a cut by hand, not by '%s'", arg->algorithm);
    if (arg->stages && arg->stages != partition_split_stages(arg->split_at))
        return error_set(STATUS_USAGE, "--split-at makes %zu stages, --stages says %zu",
                         partition_split_stages(arg->split_at), arg->stages);
    arg->algorithm = "manual";
    arg->stages = partition_split_stages(arg->split_at);
    return STATUS_OK;
}

enum status plan_request(const struct plan_arguments *arg, struct partition_request *out)
{
    size_t recompute = RECOMPUTE_NONE;
    while (arg->recompute && recompute < RECOMPUTE_KINDS &&
           strcmp(arg->recompute, plan_recompute_names[recompute]) != 0)
        recompute++;
    if (recompute == RECOMPUTE_KINDS)
        return error_set(STATUS_USAGE, "--recompute: there are none, selective, full, not '%s'",
                         arg->recompute);
    if (arg->zero > 3)
        return error_set(STATUS_USAGE, "--zero: there are 0, 1, 2, 3, not %zu", arg->zero);
    *out = (struct partition_request){.stages = arg->stages,
                                      .replicas = (uint32_t)arg->replicas,
                                      .tensor_parallel = (uint32_t)arg->tensor_parallel,
                                      .expert_parallel = (uint32_t)arg->expert_parallel,
                                      .chunks = (uint32_t)arg->chunks,
                                      .zero = (uint32_t)arg->zero,
                                      .bucket_bytes = (int64_t)arg->bucket_bytes,
                                      .sequence_parallel = arg->sequence_parallel,
                                      .recompute = (enum plan_recompute)recompute,
                                      .microbatches = (uint32_t)arg->microbatches,
                                      .microbatch_size = (uint32_t)arg->microbatch_size,
                                      .schedule = arg->schedule,
                                      .optimizer = arg->optimizer,
                                      .model = arg->model,
                                      .platform = arg->platform,
                                      .seed = arg->seed,
                                      .split_at = arg->split_at};
    return STATUS_OK;
}

static bool in_range(size_t value, size_t most)
{
    return value <= most;
}

enum status plan_check_arguments(struct plan_arguments *arg)
{
    const struct schedule *known;
    if (strcmp(arg->optimizer, "adam") != 0 && strcmp(arg->optimizer, "sgd") != 0)
        return error_set(STATUS_USAGE, "--optimizer: there are adam, sgd, not '%s'",
                         arg->optimizer);
    if (arg->schedule && schedule_find(arg->schedule, &known) != STATUS_OK)
        return error_context(STATUS_USAGE, "--schedule");
    if (!in_range(arg->replicas, MOST) || !in_range(arg->tensor_parallel, MOST) ||
        !in_range(arg->expert_parallel, MOST) || !in_range(arg->chunks, MOST) ||
        !in_range(arg->microbatches, MOST) || !in_range(arg->microbatch_size, MOST) ||
        !in_range(arg->batch, MOST))
        return error_set(STATUS_USAGE, "counts of replicas, shards, chunks, microbatches and "
                                       "samples may be at most 10 million");
    if (arg->microbatches && arg->replicas > arg->microbatches)
        return error_set(STATUS_USAGE, "%zu replicas need at least as many microbatches, not %zu",
                         arg->replicas, arg->microbatches);
    return apply_split(arg);
}

static enum status check_options(int argc)
{
    if (argc > 0)
        return error_set(STATUS_USAGE, "plan takes no operands, only options");
    if (!a.model || !a.platform)
        return error_set(STATUS_USAGE, "--model and --platform are needed");
    return plan_check_arguments(&a);
}

/* The options that say something about a plan, and not about the command. */
static const char *const settings[] = {
    "algorithm",         "stages",          "split-at",     "replicas",  "tensor-parallel",
    "sequence-parallel", "chunks",          "recompute",    "zero",      "bucket",
    "expert-parallel",   "executable",      "schedule",     "optimizer", "finalists",
    "time-limit",        "microbatch-size", "microbatches", "batch",
};

static const char *setting_name(size_t i)
{
    return settings[i];
}

enum status plan_set(struct plan_arguments *arg, const char *name, const char *value)
{
    size_t i;
    const struct option_spec *row = options;
    if (text_find("setting of plans", name, setting_name, sizeof settings / sizeof *settings, &i))
        return error_context(STATUS_USAGE, "plan");
    while (strcmp(row->name, name) != 0)
        row++;
    struct option_spec o = *row;
    o.value = (char *)arg + ((char *)row->value - (char *)&a); /* of *arg instead of the command */
    return option_set(&o, value);
}

static void print_json(const struct plan *p, const struct model *m, const struct topology *t,
                       double cpu_s)
{
    struct json_writer w = {.stream = stdout};
    struct provenance by = command_provenance(a.seed);
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
        return error_context(STATUS_USAGE, "--algorithm (besides auto)");
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
    if (!strcmp(a.algorithm, "list"))
        return list_algorithms();
    if (strcmp(a.objective, "pipeline") != 0)
        return plan_by_objective(&a);
    if (a.explain)
        return plan_explain(a.explain);
    TRY(check_options(argc));
    TRY(load_model(a.model, &m));
    TRY(load_topology(a.platform, &t, &path));
    double begin = cpu_seconds();
    if (!strcmp(a.algorithm, "auto"))
        TRY(plan_by_search(&a, &m, &t, path, &p));
    else
        TRY(plan_by_algorithm(&a, &m, &t, &p));
    double cpu_s = cpu_seconds() - begin;
    TRY(predict(&p, &m, &t));
    struct provenance by = command_provenance(a.seed);
    if (a.output)
        TRY(plan_write(&p, &m, &t, a.output, &by));
    if (a.json)
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
    .options = options,
    .run = plan,
};
