/* Options of `foreline plan`, on its command line and as settings of points. */
#include "study/planning.h"

#include <string.h>

#include "core/error.h"
#include "core/schedule.h"
#include "core/text.h"
#include "partition/partition.h"
#include "study/option.h"

enum { MOST = 10000000 };

const struct plan_arguments plan_defaults = {
    .algorithm = "auto", .objective = "pipeline", .optimizer = "adam", .finalists = 12, .seed = 1};
struct plan_arguments plan_command_line = {
    .algorithm = "auto", .objective = "pipeline", .optimizer = "adam", .finalists = 12, .seed = 1};

const struct option_spec plan_options[] = {
    {OPTION_STRING, "model", &plan_command_line.model, "M",
     "zoo name with overrides, or model file"},
    {OPTION_STRING, "platform", &plan_command_line.platform, "P",
     "shipped name, or SimGrid XML file"},
    {OPTION_STRING, "algorithm", &plan_command_line.algorithm, "A",
     "auto, balanced, uniform, ..., or list"},
    {OPTION_STRING, "objective", &plan_command_line.objective, "O",
     "pipeline, or one of a published tool (docs/objectives): placement, pipedream, ..."},
    {OPTION_STRING, "score", &plan_command_line.score, "SPLIT",
     "print the objective of this split file"},
    {OPTION_SIZE, "stages", &plan_command_line.stages, "N",
     "pipeline stages (auto: searched; else all devices)"},
    {OPTION_STRING, "split-at", &plan_command_line.split_at, "OP,OP",
     "cut by hand: a stage begins at each of these ops of foreline model show"},
    {OPTION_SIZE, "replicas", &plan_command_line.replicas, "N",
     "data-parallel replicas of every stage (auto: searched; else 1)"},
    {OPTION_SIZE, "tensor-parallel", &plan_command_line.tensor_parallel, "N",
     "devices that share each op of a stage (auto: searched; else 1)"},
    {OPTION_FLAG, "sequence-parallel", &plan_command_line.sequence_parallel, NULL,
     "with --tensor-parallel: the ops it leaves whole work on parts of the tokens"},
    {OPTION_SIZE, "expert-parallel", &plan_command_line.expert_parallel, "N",
     "replicas over which experts are spread (else 1)"},
    {OPTION_SIZE, "chunks", &plan_command_line.chunks, "N",
     "stages on each device, for --schedule interleaved and breadth-first (auto: searched; else "
     "1)"},
    {OPTION_STRING, "recompute", &plan_command_line.recompute, "none|selective|full",
     "activations made again in the backward (auto: as memory needs; else none)"},
    {OPTION_SIZE, "zero", &plan_command_line.zero, "0|1|2|3",
     "shard optimizer state, gradients, parameters over replicas (auto: 0 or 1; else 0)"},
    {OPTION_BYTES, "bucket", &plan_command_line.bucket_bytes, "SIZE",
     "sum gradients in buckets of this size during the last backward; 0: after it"},
    {OPTION_FLAG, "executable", &plan_command_line.executable, NULL,
     "auto: only plans that foreline run can execute"},
    {OPTION_SIZE, "microbatches", &plan_command_line.microbatches, "N",
     "per iteration, over all replicas (auto: searched; else 8)"},
    {OPTION_SIZE, "microbatch-size", &plan_command_line.microbatch_size, "N",
     "samples per microbatch (auto: searched; else 1)"},
    {OPTION_SIZE, "batch", &plan_command_line.batch, "N",
     "auto: samples per iteration (default: microbatches x microbatch-size when both are given, "
     "else 8 per device)"},
    {OPTION_STRING, "schedule", &plan_command_line.schedule, "NAME",
     "order of microbatches: sequential, gpipe, 1f1b, interleaved, breadth-first, zb-h1, pipedream "
     "(auto: searched; else 1f1b)"},
    {OPTION_SIZE, "devices", &plan_command_line.devices, "N",
     "published objectives: devices (default: the file's)"},
    {OPTION_BYTES, "memory", &plan_command_line.memory_bytes, "SIZE",
     "published objectives: per device; 0: the file's"},
    {OPTION_STRING, "machines", &plan_command_line.machines, "N,N",
     "pipedream: per level, innermost first"},
    {OPTION_STRING, "bandwidth", &plan_command_line.bandwidth, "RATE,RATE",
     "pipedream, piper: per level, B/s or 25GiBps"},
    {OPTION_FLAG, "charge-activations", &plan_command_line.charge_activations, NULL,
     "pipedream: transfers take time"},
    {OPTION_FLAG, "straight", &plan_command_line.straight, NULL, "pipedream: no replicas"},
    {OPTION_STRING, "hierarchy", &plan_command_line.hierarchy, "K,K",
     "cpsc526: groups per level, outermost first"},
    {OPTION_FLAG, "compat-cpsc526", &plan_command_line.compat, NULL,
     "cpsc526: the project's own cost matrix"},
    {OPTION_STRING, "optimizer", &plan_command_line.optimizer, "adam|sgd",
     "state and time of the update"},
    {OPTION_SIZE, "finalists", &plan_command_line.finalists, "N",
     "auto: plans that SimGrid looks at"},
    {OPTION_SECONDS, "time-limit", &plan_command_line.time_limit_s, "TIME",
     "0: the algorithm's own (auto: 40 s for trying plans)"},
    {OPTION_SIZE, "seed", &plan_command_line.seed, "N", "seed of parameters and data"},
    {OPTION_STRING, "explain", &plan_command_line.explain, "PLAN",
     "where the time of this plan file goes, and what would have to change"},
    {OPTION_STRING, "output", &plan_command_line.output, "FILE", "write the plan (also -o)"},
    {OPTION_FLAG, "json", &plan_command_line.json, NULL, "print the result as JSON, SI units"},
    {.type = OPTION_END},
};

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
    const struct option_spec *row = plan_options;
    if (text_find("setting of plans", name, setting_name, sizeof settings / sizeof *settings, &i))
        return error_context(STATUS_USAGE, "plan");
    while (strcmp(row->name, name) != 0)
        row++;
    struct option_spec o = *row;
    o.value = (char *)arg + ((char *)row->value -
                             (char *)&plan_command_line); /* of *arg instead of the command */
    return option_set(&o, value);
}
