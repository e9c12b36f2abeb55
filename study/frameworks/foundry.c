/* LLM Foundry (MosaicML): YAML, imported only. Names: mosaicml/llm-foundry scripts/train. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "study/frameworks/setup.h"

static const struct setup_row rows[] = {
    ROW_NUMBER(NULL, "model.d_model", a.hidden, 0),
    ROW_NUMBER(NULL, "model.n_heads", a.heads, 0),
    ROW_NUMBER(NULL, "model.n_layers", a.layers, 0),
    ROW_NUMBER(NULL, "model.expansion_ratio", unit, 4),
    ROW_NUMBER(NULL, "model.vocab_size", a.vocabulary, 0),
    ROW_NUMBER(NULL, "max_seq_len", tokens, 0),
    ROW_NUMBER(NULL, "attn_config.kv_n_heads", a.kv_heads, 0),
    ROW_TEXT(NULL, "attn_config.attn_impl", layout),
    ROW_FLAG(NULL, "attn_config.alibi", selected),
    ROW_FLAG(NULL, "attn_config.rope", grouped),
    ROW_FLAG(NULL, "model.no_bias", no_bias),
    ROW_TEXT(NULL, "model.norm_type", modules),
    ROW_TEXT(NULL, "ffn_config.ffn_type", activation),
    ROW_TEXT(NULL, "model.pretrained_model_name_or_path", hub),
    ROW_NUMBER(NULL, "global_train_batch_size", batch, 0),
    ROW_TEXT(NULL, "device_train_microbatch_size", flavor),
    ROW_TEXT(NULL, "precision", precision),
    ROW_TEXT(NULL, "fsdp_config.sharding_strategy", strategy_text),
    ROW_FLAG(NULL, "fsdp_config.activation_checkpointing", all_layers),
    ROW_LOST("fsdp_config.activation_cpu_offload", "nothing is kept in the host's memory"),
};

/* Either name is of no other framework here. */
static bool recognises(const struct keys *k)
{
    return k->format == KEYS_TREE &&
           (keys_has(k, "global_train_batch_size") || keys_has(k, "fsdp_config.sharding_strategy"));
}

/* FSDP's names of what is sharded. */
static enum status read_sharding(struct setup *s)
{
    static const struct {
        const char *name;
        int64_t zero, keep;
    } all[] = {{"FULL_SHARD", 3, 0},
               {"SHARD_GRAD_OP", 3, 1},
               {"NO_SHARD", 0, 0},
               {"HYBRID_SHARD", 3, 0},
               {"_HYBRID_SHARD_ZERO2", 3, 1}};
    if (!s->strategy_text)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcasecmp(all[i].name, s->strategy_text)) {
            s->zero = all[i].zero;
            s->zero_keep = all[i].keep;
            s->zero_group = strstr(all[i].name, "HYBRID") ? 8 : 0;
            return STATUS_OK;
        }
    return error_set(STATUS_UNSUPPORTED, "%s: sharding_strategy %s is not known here",
                     s->keys->path, s->strategy_text);
}

/* FSDP only: every device is a replica. Microbatches may be left to the program ("auto"), which tries
 * what fits; one sample is the smallest that it can end with. */
static enum status after(struct setup *s)
{
    int64_t size = 0;
    s->tensor = s->pipeline = s->chunks = s->context = s->expert = 1;
    s->model = s->hub ? setup_model_of(s, s->hub) : NULL;
    s->unknown = s->hub;
    s->a.inner = setup_times(s->unit, s->a.hidden);
    s->positions = s->grouped ? POSITIONS_ROPE : s->selected ? POSITIONS_NONE : POSITIONS_LEARNED;
    s->rms = s->modules && strstr(s->modules, "rms") != NULL;
    s->gated = s->activation && strstr(s->activation, "glu") != NULL;
    s->plain_attention = s->layout && !strcmp(s->layout, "torch");
    s->layout = NULL;
    if (s->flavor && strcmp(s->flavor, "auto") != 0) {
        struct key *key = keys_find(s->keys, "device_train_microbatch_size");
        PASS(keys_number(s->keys, key, &size));
    } else {
        PASS(setup_add_note(s, NOTE_ASSUMED, "microbatches of one sample"));
    }
    s->microbatch_size = size;
    bool fp32 = s->precision && strstr(s->precision, "fp32");
    bool fp16 = s->precision && strstr(s->precision, "_fp16");
    bool fp8 = s->precision && strstr(s->precision, "fp8");
    setup_set_dtype(s, fp8 ? DATA_fp8 : fp32 ? DATA_fp32 : fp16 ? DATA_fp16 : DATA_bf16);
    s->reduce_bits = s->bits;
    s->recompute = s->all_layers ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    return read_sharding(s);
}

const struct framework framework_foundry = {
    .name = "foundry",
    .summary = "LLM Foundry: a YAML file of training",
    .title = "LLM Foundry",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .recognises = recognises,
    .after = after,
};
