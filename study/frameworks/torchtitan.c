/* torchtitan: TOML, and the keyword arguments of its newer registries in Python. Names and
 * defaults: torchtitan/config/job_config.py and torchtitan/distributed; stages:
 * torchtitan/distributed/ pipeline_parallel.py. Ranks: pipeline slowest, then replicas, shards,
 * context, tensor parallelism. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file.h"
#include "study/frameworks/nested.h"
#include "study/frameworks/words.h"

static const char *const reshard[] = {"default", "always", "never", NULL};
/* Keys and values are gathered, or passed on from rank to rank. */
static const char *const rotations[] = {
    [EXCHANGE_RING] = "alltoall", [EXCHANGE_ALLGATHER] = "allgather", NULL};
enum { RESHARD_DEFAULT, RESHARD_ALWAYS, RESHARD_NEVER };
enum { USUAL_LESS = 1, USUAL_LOCAL = 8 }; /* layers of the ends; samples */

/* Its names of schedules, and whether a rank has several stages. */
static const struct {
    const char *theirs, *ours;
    int64_t chunks;
} schedules_of[] = {{"1F1B", "1f1b", 1},
                    {"GPipe", "gpipe", 1},
                    {"Interleaved1F1B", "interleaved", 2},
                    {"LoopedBFS", "breadth-first", 2},
                    {"ZBVZeroBubble", "zb-v", 2},
                    {"DualPipeV", "dualpipe-v", 2}};
enum { SCHEDULES = sizeof schedules_of / sizeof *schedules_of };

static const struct setup_row rows[] = {
    ROW_TEXT("model", "name", words.hub),
    ROW_TEXT("model", "flavor", words.flavor),
    ROW_TEXT("model", "converters", words.converters),
    ROW_TEXT("optimizer", "name", words.optimizer_name),
    ROW_NUMBER("training", "local_batch_size", words.local_batch, USUAL_LOCAL),
    ALSO_NUMBER("training.batch_size", words.local_batch),
    ALSO_NUMBER("num_tokens_per_microbatch_per_dp_rank", words.microbatch_tokens),
    ALSO_NUMBER("num_pp_microbatches", accumulation),
    ROW_NUMBER("training", "global_batch_size", batch, -1),
    ROW_NUMBER("training", "seq_len", tokens, 2048),
    ALSO_NUMBER("max_context_length", tokens),
    ROW_TEXT("training", "mixed_precision_param", words.precision),
    ROW_NUMBER("parallelism", "data_parallel_replicate_degree", words.replicate, 1),
    ROW_NUMBER("parallelism", "data_parallel_shard_degree", words.shard, -1),
    ROW_WORD("parallelism", "fsdp_reshard_after_forward", words.reshard, reshard, 0),
    ROW_NUMBER("parallelism", "tensor_parallel_degree", tensor_parallel, 1),
    ROW_ON("parallelism", "enable_sequence_parallel", sequence_parallel),
    ROW_FLAG("parallelism", "enable_async_tensor_parallel", tensor_overlap),
    ROW_NUMBER("parallelism", "context_parallel_degree", context_parallel, 1),
    ROW_WORD("parallelism", "context_parallel_rotate_method", context_exchange, rotations,
             EXCHANGE_ALLGATHER),
    ROW_NUMBER("parallelism", "pipeline_parallel_degree", pipeline, 1),
    ROW_TEXT("parallelism", "pipeline_parallel_schedule", schedule),
    ROW_NUMBER("parallelism", "pipeline_parallel_microbatch_size", microbatch_size, 1),
    ROW_NUMBER("parallelism", "pipeline_parallel_layers_per_stage", words.chunk_layers, 0),
    ROW_NUMBER("parallelism", "pipeline_parallel_first_stage_less_layers", words.first_layers,
               USUAL_LESS),
    ROW_NUMBER("parallelism", "pipeline_parallel_last_stage_less_layers", words.last_layers,
               USUAL_LESS),
    ROW_TEXT("parallelism", "module_fqns_per_model_part", words.layout),
    ROW_NUMBER("parallelism", "expert_parallel_degree", expert_parallel, 1),
    ROW_NUMBER("parallelism", "expert_tensor_parallel_degree", expert_tensor, 0),
    ROW_WORD("activation_checkpoint", "mode", words.granularity, words_granularities, 0),
    ALSO_TEXT("activation_checkpoint", words.recomputed),
    ALSO_TEXT("converters", words.converters),
    ALSO_TEXT("hf_assets_path", words.weights),
    ALSO_TEXT("model_spec", words.flavor),

    ALSO_FLAG("enable_cpu_offload", words.to_host),
};

/* All Python, as no other framework here is configured in it. */
static bool torchtitan_recognises(const struct keys *k)
{
    return k->format == KEYS_PYTHON ||
           (k->format == KEYS_TOML &&
            (keys_has(k, "parallelism.tensor_parallel_degree") ||
             keys_has(k, "parallelism.data_parallel_shard_degree") ||
             keys_has(k, "training.local_batch_size") || keys_has(k, "model.flavor")));
}

/* ---- reading */

/* In Python the family is in the function's name: "deepseek_v3_16b_hybridep" of flavour "16B". */
static void family_of_function(struct setup *s, const char *flavor, char *out, size_t room)
{
    const char *name = keys_said(s->keys, "config");
    size_t n = strlen(flavor);
    for (const char *at = name; n > 0 && *at; at++)
        if (!strncasecmp(at, flavor, n) && at > name)
            snprintf(out, room, "%.*s", (int)(at - name - 1), name);
}

/* By name and flavour, "llama3" and "8B", or by the folder of the weights. */
static enum status torchtitan_find_model(struct setup *s)
{
    char name[160], family[64] = "?";
    const char *flavor = s->words.flavor ? s->words.flavor : "";
    if (s->words.hub)
        snprintf(family, sizeof family, "%s", s->words.hub);
    else
        family_of_function(s, flavor, family, sizeof family);
    snprintf(name, sizeof name, "%s-%.60s", family, flavor);
    s->model = setup_model_of(s, name);
    if (!s->model && s->words.weights)
        s->model = setup_model_of(s, s->words.weights);
    s->words.hub = NULL;
    s->words.flavor = NULL;
    s->unknown = arena_text(&s->keys->memory, name);
    return s->unknown ? STATUS_OK : STATUS_NOMEM;
}

/* Schedules of several stages on a rank have two there unless layers per stage are given. */
static enum status find_schedule(struct setup *s)
{
    const char *theirs = s->schedule ? s->schedule : "1F1B";
    int64_t chunks = 0;
    s->schedule = NULL;
    for (size_t i = 0; i < SCHEDULES; i++)
        if (!strcasecmp(schedules_of[i].theirs, theirs)) {
            s->schedule = schedules_of[i].ours;
            chunks = schedules_of[i].chunks;
        }
    if (chunks == 0)
        return error_set(STATUS_UNSUPPORTED, "%s: pipeline_parallel_schedule %s is not known here",
                         s->keys->path, theirs);
    s->chunks = s->pipeline > 1 ? chunks : 1;
    if (s->pipeline <= 1)
        s->schedule = NULL;
    return STATUS_OK;
}

/* Layers of parts "tok_embeddings,layers.0],[layers.1,..." */
static enum status torchtitan_read_parts(struct setup *s)
{
    struct file_text f = {0};
    PASS(file_text_open(&f));
    fputc('E', f.stream);
    for (const char *at = s->words.layout; *at; at++)
        if (!strncmp(at, "layers.", 7))
            fputc('t', f.stream);
        else if (*at == ']' && at[1] == ',')
            fputc('|', f.stream);
    s->words.first_layers = s->words.last_layers = 0;
    return keys_keep(s->keys, &f, &s->words.layout);
}

/* A local batch is of one rank and one step: with a pipeline it is divided into microbatches,
 * without one it is a microbatch. The newer registries say tokens of a microbatch. */
static enum status read_batch(struct setup *s)
{
    if (s->words.microbatch_tokens > 0 && s->tokens > 0)
        s->words.local_batch = s->words.microbatch_tokens / s->tokens;
    s->batch = s->batch > 0 ? s->batch : 0;
    if (s->pipeline <= 1) {
        s->microbatch_size = s->words.local_batch;
        s->accumulation = 1;
    } else if (s->words.microbatch_tokens == 0) {
        s->accumulation = s->microbatch_size > 0 ? s->words.local_batch / s->microbatch_size : 0;
        if (s->accumulation * s->microbatch_size != s->words.local_batch)
            return error_set(STATUS_INVALID,
                             "%s: a local batch of %" PRId64 " is no multiple of microbatches of "
                             "%" PRId64,
                             s->keys->path, s->words.local_batch, s->microbatch_size);
    } else {
        s->microbatch_size = s->words.local_batch;
    }
    return STATUS_OK;
}

/* Sums of gradients have 32 bits. */
static enum status read_sums(struct setup *s)
{
    s->words.precision =
        s->words.precision ? s->words.precision : "bfloat16"; /* the framework's own default */
    PASS(setup_read_dtype(s, DATA_bf16));
    return setup_read_sums(s, true);
}

/* Types of products: float8 is known here, others are said. */
static enum status read_converters(struct setup *s)
{
    s->words.fp8 = words_have(s->words.converters, "loat8");
    if (!s->words.fp8 && words_have(s->words.converters, "Converter"))
        return setup_add_note(s, NOTE_LOST, "converters: %.80s", s->words.converters);
    return STATUS_OK;
}

/* Shards of -1 are all that is left. Weights are kept after the forward by default where there is a
 * pipeline. Sequence parallelism comes with tensor parallelism unless it is switched off. */
static enum status torchtitan_after(struct setup *s)
{
    PASS(torchtitan_find_model(s));
    PASS(find_schedule(s));
    if (s->words.layout && *s->words.layout)
        PASS(torchtitan_read_parts(s));
    PASS(read_batch(s));
    PASS(read_converters(s));
    PASS(read_sums(s));
    s->words.count_embedding = s->words.first_layers > 0 && s->pipeline > 1;
    s->words.count_head = s->words.last_layers > 0 && s->pipeline > 1;
    s->words.first_layers = s->words.last_layers = 0;
    s->words.uneven = 1;
    s->sequence_parallel = s->sequence_parallel && s->tensor_parallel > 1;
    if (s->words.recomputed) /* Python: FullAC.Config */
        s->words.granularity = strstr(s->words.recomputed, "Full")     ? RECOMPUTE_FULL
                               : strstr(s->words.recomputed, "Select") ? RECOMPUTE_SELECTIVE
                                                                       : s->words.granularity;
    else if (!keys_has(s->keys, "activation_checkpoint.mode"))
        s->words.granularity = RECOMPUTE_SELECTIVE;
    s->recompute = s->words.granularity;
    if (s->recompute == RECOMPUTE_SELECTIVE)
        PASS(setup_add_note(s, NOTE_LOST,
                            "activation_checkpoint selective keeps outputs of "
                            "products; here what an op keeps besides its output is "
                            "made again"));
    if (s->words.shard > 0 && s->words.replicate > 0) /* all degrees are said */
        s->devices = setup_times(
            setup_times(setup_times(s->tensor_parallel, s->pipeline), s->context_parallel),
            setup_times(s->words.shard, s->words.replicate));
    s->zero = s->words.shard == 1 && s->context_parallel <= 1 ? 0 : 3;
    s->zero_keep = s->words.reshard == RESHARD_NEVER ||
                   (s->words.reshard == RESHARD_DEFAULT && s->pipeline > 1);
    s->optimizer = s->words.optimizer_name && !strcasecmp(s->words.optimizer_name, "SGD");
    s->offload = s->words.to_host ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    if (s->words.to_host)
        PASS(setup_add_note(s, NOTE_LOST,
                            "enable_cpu_offload: shards of parameters stay on the device, the "
                            "optimizer's state is on the host"));
    return STATUS_OK;
}

/* ---- writing */

/* Names of what each stage has, where the rule of equal stages does not say it. */
static enum status write_parts(struct setup *s)
{
    struct file_text f = {0};
    int64_t layer = 0;
    PASS(file_text_open(&f));
    fputc('[', f.stream);
    for (size_t k = 0; k < s->stages; k++) {
        fprintf(f.stream, "%s[", k ? ", " : "");
        if (k == 0)
            fprintf(f.stream, "\"tok_embeddings\"%s", s->cut[0] || s->stages == 1 ? ", " : "");
        for (int64_t i = 0; i < s->cut[k]; i++)
            fprintf(f.stream, "%s\"layers.%" PRId64 "\"", i ? ", " : "", layer++);
        if (k + 1 == s->stages)
            fprintf(f.stream, "%s\"norm\", \"output\"", s->cut[k] ? ", " : "");
        fputc(']', f.stream);
    }
    fputc(']', f.stream);
    return keys_keep(s->keys, &f, &s->words.layout);
}

/* Of one stage there is nothing to schedule. */
static enum status name_schedule(struct setup *s)
{
    const char *ours = s->schedule;
    s->schedule = NULL;
    if (s->stages == 1)
        return STATUS_OK;
    for (size_t i = 0; i < SCHEDULES; i++)
        if (!strcmp(schedules_of[i].ours, ours) && (s->chunks > 1) == (schedules_of[i].chunks > 1))
            s->schedule = schedules_of[i].theirs;
    return s->schedule
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "the schedule %s of %" PRId64 " stages on each device", ours, s->chunks);
}

/* Published models whose flavors it has: the part of the name that is the family, and the rest. */
static enum status torchtitan_name_model(struct setup *s)
{
    static const char *const families[][2] = {
        {"llama3-", "llama3"}, {"qwen3-", "qwen3"}, {"deepseek-v3", "deepseek_v3"}};
    const char *rest = NULL;
    s->words.hub = s->words.flavor = NULL;
    for (size_t i = 0; s->model && i < sizeof families / sizeof *families; i++)
        if (!strncmp(s->model, families[i][0], strlen(families[i][0]))) {
            rest = s->model + strlen(families[i][0]);
            s->words.hub = families[i][1];
        }
    if (!rest)
        return setup_add_note(s, NOTE_LOST,
                              "sizes of the model: torchtitan has models by name and "
                              "flavor; give them yourself");
    char *flavor = arena_text(&s->keys->memory, *rest ? rest : "671B");
    if (!flavor)
        return STATUS_NOMEM;
    for (char *at = flavor; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    s->words.flavor = flavor;
    return STATUS_OK;
}

/* It shards parameters or nothing, sums gradients in fp32 and recomputes layer by layer. */
static enum status torchtitan_before(struct setup *s)
{
    int64_t streams = strategy_streams(&s->own);
    PASS(name_schedule(s));
    PASS(torchtitan_name_model(s));
    PASS(words_check_order(s));
    if (s->zero == 1 || s->zero == 2)
        return error_set(STATUS_UNSUPPORTED, "ZeRO %u: it shards all or nothing", s->zero);
    if (s->zero == 0 && s->context_parallel > 1)
        return error_set(STATUS_UNSUPPORTED, "context parallelism without shards of parameters");
    if (s->context_parallel > 1 && s->context_exchange == EXCHANGE_ALLTOALL)
        return error_set(STATUS_UNSUPPORTED, "context parallelism by heads");
    if (s->a.capacity > 0)
        return error_set(STATUS_UNSUPPORTED, "a capacity of experts");
    s->context_exchange = s->context_parallel > 1 ? s->context_exchange : EXCHANGE_ALLGATHER;
    if (setup_reduce_bits(s) != 32 && s->tensor_parallel == 1 && s->replicas > 1)
        return error_set(STATUS_UNSUPPORTED, "sums of gradients of %" PRId64 " bits",
                         setup_reduce_bits(s));
    if (setup_reduce_bits(s) != s->bits && s->tensor_parallel > 1)
        return error_set(STATUS_UNSUPPORTED, "sums of tensor parallelism of %" PRId64 " bits",
                         setup_reduce_bits(s));
    s->words.replicate = s->zero == 0        ? streams
                         : s->zero_group > 0 ? s->replicas / s->zero_group
                                             : 1;
    s->words.shard = streams / s->words.replicate;
    s->words.reshard = s->zero < 3                         ? RESHARD_DEFAULT
                       : s->zero_keep == (s->pipeline > 1) ? RESHARD_DEFAULT
                       : s->zero_keep                      ? RESHARD_NEVER
                                                           : RESHARD_ALWAYS;
    s->words.local_batch =
        s->pipeline > 1 ? s->accumulation * s->microbatch_size : s->microbatch_size;
    if (s->pipeline > 1 || s->accumulation == 1)
        s->batch = -1;
    s->microbatch_size = s->pipeline > 1 ? s->microbatch_size : 1;
    s->words.first_layers = s->words.last_layers = USUAL_LESS;
    if (s->stages > 1)
        PASS(write_parts(s));
    s->sequence_parallel = s->sequence_parallel || s->tensor_parallel == 1;
    s->words.precision = s->bits == 32 ? "float32" : NULL;
    s->words.converters = s->dtype == DATA_fp8 ? "[\"float8\"]" : NULL;
    if (s->dtype == DATA_fp16)
        return error_set(STATUS_UNSUPPORTED, "numbers of fp16");
    s->words.optimizer_name = s->optimizer ? "SGD" : "AdamW";
    s->words.granularity = s->recompute;
    s->tokens = s->tokens > 0 ? s->tokens : 2048;
    return STATUS_OK;
}

/* The usual recomputation is selective, so none has to be said. */
static void write_toml(const struct setup *s, const char *title, FILE *out)
{
    struct nested n = {.out = out, .style = NESTED_TOML};
    fprintf(out, "# %s\n", title);
    setup_write(s, rows, sizeof rows / sizeof *rows, nested_put, &n);
    if (s->words.granularity == 0) /* the usual one there is selective */
        fputs("\n[activation_checkpoint]\nmode = \"none\"\n", out);
    nested_end(&n);
}

const struct dialect dialect_torchtitan = {
    .name = "torchtitan",
    .summary = "torchtitan: TOML; imported from its registries in Python as well",
    .title = "torchtitan",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = KNOB_BIT(zero) | KNOB_BIT(zero_keep) | KNOB_BIT(zero_group) | KNOB_BIT(reduce_dtype) |
            KNOB_BIT(recompute),
    .refuses = KNOB_BIT(recompute_layers) | KNOB_BIT(recompute_unit) | KNOB_BIT(recompute_modules) |
               KNOB_BIT(offload),
    .recognises = torchtitan_recognises,
    .after = torchtitan_after,
    .before = torchtitan_before,
    .write = write_toml,
};
