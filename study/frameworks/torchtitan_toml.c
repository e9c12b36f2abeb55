/* torchtitan's TOML, which its versions up to 0.2.2 read (job_config.py there). */
#include <ctype.h>

#include "core/base/file.h"
#include "study/frameworks/nested.h"
#include "study/frameworks/torchtitan.h"

/* Keys and values are gathered, or passed on from rank to rank. */
static const char *const rotations[] = {
    [EXCHANGE_RING] = "alltoall", [EXCHANGE_ALLGATHER] = "allgather", NULL};

static const struct setup_row rows[] = {
    ROW_TEXT("model", "name", words.hub),
    ROW_TEXT("model", "flavor", words.flavor),
    ROW_TEXT("model", "converters", words.converters),
    ROW_TEXT("optimizer", "name", words.optimizer_name),
    TORCHTITAN_TRAINING,
    TORCHTITAN_PARALLELISM,
    ROW_FLAG("parallelism", "enable_async_tensor_parallel", tensor_overlap),
    ROW_WORD("parallelism", "context_parallel_rotate_method", context_exchange, rotations,
             EXCHANGE_ALLGATHER),
    ROW_NUMBER("parallelism", "expert_tensor_parallel_degree", expert_tensor, 0),
    ROW_FLAG("compile", "enable", words.compile),
    ROW_WORD("activation_checkpoint", "mode", words.granularity, words_granularities, 0),

    ALSO_NUMBER("training.batch_size", words.local_batch),
    ALSO_TEXT("hf_assets_path", words.weights),
    ALSO_FLAG("enable_cpu_offload", words.to_host),
};

static bool torchtitan_toml_recognises(const struct keys *k)
{
    return k->format == KEYS_TOML &&
           (keys_has(k, "parallelism.tensor_parallel_degree") ||
            keys_has(k, "parallelism.data_parallel_shard_degree") ||
            keys_has(k, "training.local_batch_size") || keys_has(k, "model.flavor"));
}

/* Published models whose flavors it has: the part of the name that is the family, and the rest. */
static enum status name_flavor(struct setup *s)
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
                              "the sizes of the model, because torchtitan's TOML names models by "
                              "name and flavor only; register yours in torchtitan");
    char *flavor = arena_text(&s->keys->memory, *rest ? rest : "671B");
    if (!flavor)
        return STATUS_NOMEM;
    for (char *at = flavor; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    s->words.flavor = flavor;
    return STATUS_OK;
}

/* Stages are a list of lists. */
static enum status in_brackets(struct setup *s)
{
    struct file_text f = {0};
    PASS(file_text_open(&f));
    fprintf(f.stream, "[%s]", s->words.stages.layout);
    return keys_keep(s->keys, &f, &s->words.stages.layout);
}

static enum status toml_before(struct setup *s)
{
    static const struct torchtitan_names as = {"\"", ", ", "[", "]", ", ", "output"};
    PASS(torchtitan_before(s));
    PASS(name_flavor(s));
    if (s->stages > 1)
        PASS(torchtitan_write_parts(s, &as));
    if (s->stages > 1)
        PASS(in_brackets(s));
    if (!s->sequence_parallel)
        return error_set(STATUS_UNSUPPORTED,
                         "tensor parallelism needs sequence parallelism (--sequence-parallel)");
    if (s->bits == 16) /* the usual one */
        s->words.precision = NULL;
    s->words.converters = s->dtype == DATA_fp8 ? "[\"quantize.linear.float8\"]" : NULL;
    s->words.optimizer_name = s->optimizer ? "SGD" : "AdamW";
    s->expert_tensor = s->expert_parallel > 1 && s->tensor_parallel > 1 ? s->tensor_parallel : 0;
    return STATUS_OK;
}

static void write_toml(const struct setup *s, const char *title, FILE *out)
{
    struct nested n = {.out = out, .style = NESTED_TOML};
    fprintf(out, "# %s\n", title);
    setup_write(s, rows, sizeof rows / sizeof *rows, nested_put, &n);
    if (s->words.granularity == 0) /* the usual one there is selective */
        fputs("\n[activation_checkpoint]\nmode = \"none\"\n", out);
    nested_end(&n);
}

const struct dialect dialect_torchtitan_toml = {
    .name = "torchtitan_toml",
    .summary = "torchtitan up to 0.2.2: its TOML",
    .title = "torchtitan",
    .version = "0.2.2",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = TORCHTITAN_SAYS,
    .refuses = TORCHTITAN_REFUSES,
    .recognises = torchtitan_toml_recognises,
    .after = torchtitan_after,
    .before = toml_before,
    .write = write_toml,
};
