/* torchtitan: the arguments of its versions since 0.3 in a script, and the keyword arguments of its
 * registries in Python; what its older TOML says alike. */
#include "study/frameworks/torchtitan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "core/base/file.h"

const char *const torchtitan_reshards[] = {"default", "always", "never", NULL};
enum { RESHARD_DEFAULT, RESHARD_ALWAYS, RESHARD_NEVER };

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
    ROW_TEXT("", "module", words.hub),
    ROW_TEXT("", "config", words.function),
    TORCHTITAN_TRAINING,
    ROW_FLAG("training", "disable_cuda_graphs", words.no_graphs),
    TORCHTITAN_PARALLELISM,
    ROW_FLAG("compile", "enable", words.compile),
    ROW_FLAG("compile", "enable_async_tensor_parallel", tensor_overlap),

    ALSO_NUMBER("nnodes", nodes),
    ALSO_NUMBER("nproc_per_node", per_node),
    ALSO_NUMBER("num_tokens_per_microbatch_per_dp_rank", words.microbatch_tokens),
    ALSO_NUMBER("num_pp_microbatches", accumulation),
    ALSO_NUMBER("max_context_length", tokens),
    ALSO_NOT("parallelism.no_enable_sequence_parallel", sequence_parallel),
    ALSO_NOT("training.no_disable_cuda_graphs", words.no_graphs),
    ALSO_NOT("compile.no_enable", words.compile),
    ALSO_NOT("compile.no_enable_async_tensor_parallel", tensor_overlap),
    ALSO_FLAG("parallelism.enable_async_tensor_parallel", tensor_overlap),
    ALSO_NUMBER("expert_tensor_parallel_degree", expert_tensor),
    ALSO_WORD("activation_checkpoint.mode", words.granularity, words_granularities),
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
           (k->format == KEYS_SHELL && (keys_has(k, "parallelism.tensor_parallel_degree") ||
                                        keys_has(k, "parallelism.data_parallel_shard_degree") ||
                                        keys_has(k, "training.local_batch_size")));
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

/* By name and flavour, "llama3" and "8B", by the function of a script, "llama3_8b", or by the
 * folder of the weights. */
static enum status torchtitan_find_model(struct setup *s)
{
    char name[160], family[64] = "?";
    const char *flavor = s->words.flavor ? s->words.flavor : "";
    size_t both = s->words.hub ? strlen(s->words.hub) : 0;
    if (s->keys->format == KEYS_SHELL && s->words.function)
        flavor = s->words.function;
    if (both && !strncmp(flavor, s->words.hub, both) && flavor[both] == '_')
        flavor += both + 1;
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
        return error_set(STATUS_UNSUPPORTED, "%s: unknown value '%s' of pipeline_parallel_schedule",
                         s->keys->path, theirs);
    s->chunks = s->pipeline > 1 ? chunks : 1;
    if (s->pipeline <= 1)
        s->schedule = NULL;
    return STATUS_OK;
}

/* Layers of parts "tok_embeddings,layers.0],[layers.1,...", and of a script, which has blanks
 * between stages alone. */
static enum status torchtitan_read_parts(struct setup *s)
{
    struct file_text f = {0};
    PASS(file_text_open(&f));
    fputc('E', f.stream);
    for (const char *at = s->words.stages.layout; *at; at++)
        if (!strncmp(at, "layers.", 7))
            fputc('t', f.stream);
        else if ((*at == ']' && at[1] == ',') || (*at == ' ' && s->keys->format == KEYS_SHELL))
            fputc('|', f.stream);
    s->words.stages.first_layers = s->words.stages.last_layers = 0;
    return keys_keep(s->keys, &f, &s->words.stages.layout);
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
                             "%s: local batch of %" PRId64
                             " samples is not a multiple of the microbatch size %" PRId64,
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
    setup_set_sums(s, 32);
    return STATUS_OK;
}

/* Types of products: float8 is known here, others are said. */
static enum status read_converters(struct setup *s)
{
    s->words.fp8 = words_have(s->words.converters, "loat8");
    if (!s->words.fp8 && words_have(s->words.converters, "Converter"))
        return setup_add_note(s, NOTE_LOST, "the model converters %.80s", s->words.converters);
    return STATUS_OK;
}

/* Shards of -1 are all that is left. Weights are kept after the forward by default where there is a
 * pipeline. Sequence parallelism comes with tensor parallelism unless it is switched off. */
enum status torchtitan_after(struct setup *s)
{
    PASS(torchtitan_find_model(s));
    PASS(find_schedule(s));
    if (s->words.stages.layout && *s->words.stages.layout)
        PASS(torchtitan_read_parts(s));
    PASS(read_batch(s));
    PASS(read_converters(s));
    PASS(read_sums(s));
    s->words.stages.count_embedding = s->words.stages.first_layers > 0 && s->pipeline > 1;
    s->words.stages.count_head = s->words.stages.last_layers > 0 && s->pipeline > 1;
    s->words.stages.first_layers = s->words.stages.last_layers = 0;
    s->words.stages.uneven = 1;
    s->sequence_parallel = s->sequence_parallel && s->tensor_parallel > 1;
    if (s->words.recomputed) /* Python: FullAC.Config */
        s->words.granularity = strstr(s->words.recomputed, "Full")     ? RECOMPUTE_FULL
                               : strstr(s->words.recomputed, "Select") ? RECOMPUTE_SELECTIVE
                                                                       : s->words.granularity;
    else if (!keys_has(s->keys, "activation_checkpoint.mode"))
        s->words.granularity = RECOMPUTE_SELECTIVE;
    s->recompute = s->words.granularity;
    if (s->recompute == RECOMPUTE_SELECTIVE)
        PASS(setup_add_note(
            s, NOTE_LOST,
            "torchtitan's selective activation_checkpoint, which keeps the outputs of matmuls; "
            "foreline keeps the output of each op and recomputes the rest"));
    if (s->words.shard > 0 && s->words.replicate > 0) /* all degrees are said */
        s->devices = setup_times(
            setup_times(setup_times(s->tensor_parallel, s->pipeline), s->context_parallel),
            setup_times(s->words.shard, s->words.replicate));
    s->zero = s->words.shard == 1 && s->context_parallel <= 1 ? 0 : 3;
    s->zero_keep = s->words.reshard == RESHARD_NEVER ||
                   (s->words.reshard == RESHARD_DEFAULT && s->pipeline > 1);
    if (s->expert_tensor == 0) /* its default */
        s->expert_tensor = 1;
    if (s->keys->format == KEYS_SHELL)
        s->context_exchange = EXCHANGE_ALLGATHER;
    s->compiled = s->words.compile;
    s->optimizer = s->words.optimizer_name && !strcasecmp(s->words.optimizer_name, "SGD");
    s->offload = s->words.to_host ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    if (s->words.to_host)
        PASS(setup_add_note(
            s, NOTE_LOST,
            "enable_cpu_offload of parameter shards; foreline offloads only the optimizer state"));
    return STATUS_OK;
}

/* ---- writing */

enum status torchtitan_write_parts(struct setup *s, const struct torchtitan_names *as)
{
    struct file_text f = {0};
    const char *q = as->quote;
    int64_t layer = 0;
    PASS(file_text_open(&f));
    for (size_t k = 0; k < s->stages; k++) {
        bool last = k + 1 == s->stages;
        fprintf(f.stream, "%s%s", k ? as->between : "", as->open);
        if (k == 0)
            fprintf(f.stream, "%stok_embeddings%s%s", q, q, s->cut[0] || last ? as->next : "");
        for (int64_t i = 0; i < s->cut[k]; i++)
            fprintf(f.stream, "%s%slayers.%" PRId64 "%s", i ? as->next : "", q, layer++, q);
        if (last)
            fprintf(f.stream, "%s%snorm%s%s%s%s%s", s->cut[k] ? as->next : "", q, q, as->next, q,
                    as->head, q);
        fputs(as->close, f.stream);
    }
    return keys_keep(s->keys, &f, &s->words.stages.layout);
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
                           "schedule %s with %" PRId64 " stages on each device is unsupported",
                           ours, s->chunks);
}

/* It shards parameters or nothing, sums gradients in fp32 and recomputes layer by layer. */
enum status torchtitan_before(struct setup *s)
{
    int64_t streams = strategy_streams(&s->own);
    PASS(name_schedule(s));
    PASS(words_check_order(s));
    if (s->zero == 1 || s->zero == 2)
        return error_set(
            STATUS_UNSUPPORTED,
            "torchtitan shards either everything (ZeRO 3) or nothing (ZeRO 0), got ZeRO %u",
            s->zero);
    if (s->zero == 0 && s->context_parallel > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "context parallelism needs sharded parameters (--zero 3)");
    if (s->context_parallel > 1 && s->context_exchange == EXCHANGE_ALLTOALL)
        return error_set(
            STATUS_UNSUPPORTED,
            "--context-exchange alltoall (exchange of attention heads) is unsupported");
    if (s->a.capacity > 0)
        return error_set(STATUS_UNSUPPORTED, "capacity limits of experts are unsupported");
    s->context_exchange = s->context_parallel > 1 ? s->context_exchange : EXCHANGE_ALLGATHER;
    if (setup_reduce_bits(s) != 32 && streams * s->context_parallel > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "gradients are reduced in %" PRId64
                         " bits, expected 32 (--reduce-dtype fp32)",
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
    s->words.stages.first_layers = s->words.stages.last_layers = TITAN_LESS;
    s->sequence_parallel = s->sequence_parallel || s->tensor_parallel == 1;
    s->words.precision = s->bits == 32 ? "float32" : "bfloat16";
    s->words.compile = s->compiled || s->tensor_overlap; /* which needs it */
    if (s->dtype == DATA_fp16)
        return error_set(STATUS_UNSUPPORTED, "data type fp16 is unsupported");
    s->words.granularity = s->recompute;
    s->tokens = s->tokens > 0 ? s->tokens : 2048;
    return STATUS_OK;
}

/* Models that its registries have a function for. */
static enum status name_model(struct setup *s)
{
    static const char *const known[][3] = {
        {"llama3-8b", "llama3", "llama3_8b"},
        {"llama3-70b", "llama3", "llama3_70b"},
        {"llama3-405b", "llama3", "llama3_405b"},
        {"qwen3-32b", "qwen3", "qwen3_32b"},
        {"qwen3-30b-a3b", "qwen3", "qwen3_30b_a3b"},
        {"deepseek-v2-lite", "deepseek_v3", "deepseek_v3_16b"},
        {"deepseek-v3", "deepseek_v3", "deepseek_v3_671b"},
        {"gpt-oss-20b", "gpt_oss", "gpt_oss_20b"},
        {"gpt-oss-120b", "gpt_oss", "gpt_oss_120b"},
    };
    s->words.hub = s->words.function = NULL;
    for (size_t i = 0; s->model && i < sizeof known / sizeof *known; i++)
        if (!strcmp(s->model, known[i][0])) {
            s->words.hub = known[i][1];
            s->words.function = known[i][2];
            return STATUS_OK;
        }
    return setup_add_note(s, NOTE_LOST,
                          "the model, which torchtitan's registries lack; pass --module and "
                          "--config of your own to the script");
}

/* What its arguments say otherwise than the TOML did. CUDA graphs are on unless they are switched
 * off, and it stops where they are on beside pipelines and experts (Trainer.Config). */
static enum status script_before(struct setup *s)
{
    static const struct torchtitan_names as = {"", ",", "", "", " ", "lm_head"};
    int64_t batch = s->batch;
    PASS(torchtitan_before(s));
    s->batch = batch;
    PASS(name_model(s));
    if (s->stages > 1)
        PASS(torchtitan_write_parts(s, &as));
    if (s->dtype == DATA_fp8)
        return error_set(STATUS_UNSUPPORTED,
                         "torchtitan has no command-line argument for fp8; it sets fp8 only in the "
                         "model definitions of its own registries");
    if (s->optimizer)
        return error_set(STATUS_UNSUPPORTED, "optimizer sgd is unsupported");
    if (s->expert_parallel > 1 && s->tensor_parallel > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "expert parallelism is unsupported together with tensor parallelism");
    if (s->context_parallel > 1 && s->context_exchange != EXCHANGE_ALLGATHER)
        PASS(setup_add_note(s, NOTE_LOST,
                            "--context-exchange %s, because torchtitan all-gathers keys and values",
                            plan_exchange_names[s->context_exchange]));
    s->words.no_graphs = s->pipeline > 1 || s->expert_parallel > 1;
    return STATUS_OK;
}

/* "--parallelism.tensor_parallel_degree 8" */
static void script_put(void *to, const struct setup_row *row, const char *value, bool text)
{
    bool off = (row->kind == SETUP_FLAG || row->kind == SETUP_NOT) && value;
    (void)text;
    fprintf(to, "    --%s%s%s%s", row->section, *row->section ? "." : "", off ? "no_" : "",
            row->key);
    fprintf(to, value && !off ? " %s\n" : "\n", value);
}

/* Functions of its registries have values of their own for what is not said: everything is. The
 * subcommand comes last. */
static void write_script(const struct setup *s, const char *title, FILE *out)
{
    words_write_head(s, title, out);
    words_write_launch(s, out);
    fputs("ARGS=(\n", out);
    setup_write_all(s, rows, sizeof rows / sizeof *rows, script_put, out);
    fprintf(out,
            ")\n"
            "torchrun \"${LAUNCH_ARGS[@]}\" -m torchtitan.train \"${ARGS[@]}\" \"$@\" \\\n"
            "    activation-checkpoint:%s\n",
            words_granularities[s->words.granularity]);
}

const struct dialect dialect_torchtitan = {
    .name = "torchtitan",
    .summary = "torchtitan: a shell script; imported from its registries in Python as well",
    .title = "torchtitan",
    .version = "0.3.0",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = TORCHTITAN_SAYS | KNOB_BIT(context_exchange),
    .refuses = TORCHTITAN_REFUSES,
    .recognises = torchtitan_recognises,
    .after = torchtitan_after,
    .before = script_before,
    .write = write_script,
};
