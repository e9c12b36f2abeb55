/* LLM Foundry (MosaicML): YAML, imported only. Names: mosaicml/llm-foundry scripts/train. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "study/frameworks/words.h"

static const struct setup_row rows[] = {
    ROW_NUMBER(NULL, "model.d_model", a.hidden, 0),
    ROW_NUMBER(NULL, "model.n_heads", a.heads, 0),
    ROW_NUMBER(NULL, "model.n_layers", a.layers, 0),
    ROW_NUMBER(NULL, "model.expansion_ratio", words.expansion, 4),
    ROW_NUMBER(NULL, "model.vocab_size", a.vocabulary, 0),
    ROW_NUMBER(NULL, "max_seq_len", tokens, 0),
    ROW_NUMBER(NULL, "attn_config.kv_n_heads", a.kv_heads, 0),
    ROW_TEXT(NULL, "attn_config.attn_impl", words.attention),
    ROW_FLAG(NULL, "attn_config.alibi", words.alibi),
    ROW_FLAG(NULL, "attn_config.rope", words.rotary),
    ROW_FLAG(NULL, "model.no_bias", no_bias),
    ROW_TEXT(NULL, "model.norm_type", words.norm),
    ROW_TEXT(NULL, "ffn_config.ffn_type", words.activation),
    ROW_TEXT(NULL, "model.pretrained_model_name_or_path", words.hub),
    ROW_NUMBER(NULL, "global_train_batch_size", batch, 0),
    ROW_NUMBER(NULL, "device_train_microbatch_size", microbatch_size, 0),
    ROW_TEXT(NULL, "precision", words.precision),
    ROW_TEXT(NULL, "fsdp_config.sharding_strategy", words.sharding),
    ROW_FLAG(NULL, "fsdp_config.activation_checkpointing", words.all_layers),
    ROW_LOST("fsdp_config.activation_cpu_offload", "nothing is offloaded to host memory"),
};

/* Either name is of no other framework here. */
static bool foundry_recognises(const struct keys *k)
{
    return k->format == KEYS_TREE &&
           (keys_has(k, "global_train_batch_size") || keys_has(k, "fsdp_config.sharding_strategy"));
}

/* FSDP's names of what is sharded. */
static enum status read_sharding(struct setup *s)
{
    static const struct {
        const char *name;
        uint32_t zero;
        bool keep;
    } all[] = {{"FULL_SHARD", 3, false},
               {"SHARD_GRAD_OP", 3, true},
               {"NO_SHARD", 0, false},
               {"HYBRID_SHARD", 3, false},
               {"_HYBRID_SHARD_ZERO2", 3, true}};
    if (!s->words.sharding)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcasecmp(all[i].name, s->words.sharding)) {
            s->zero = all[i].zero;
            s->zero_keep = all[i].keep;
            s->zero_group = strstr(all[i].name, "HYBRID") ? 8 : 0;
            return STATUS_OK;
        }
    return error_set(STATUS_UNSUPPORTED, "%s: unknown value '%s' of sharding_strategy",
                     s->keys->path, s->words.sharding);
}

/* FSDP only: every device is a replica. Microbatches may be left to the program ("auto"), which
 * tries what fits; one sample is the smallest that it can end with. */
static enum status foundry_after(struct setup *s)
{
    s->pipeline = s->chunks = 1;
    s->model = s->words.hub ? setup_model_of(s, s->words.hub) : NULL;
    s->unknown = s->words.hub;
    s->a.inner = setup_times(s->words.expansion, s->a.hidden);
    s->positions = s->words.rotary  ? POSITIONS_ROPE
                   : s->words.alibi ? POSITIONS_NONE
                                    : POSITIONS_LEARNED;
    s->rms = words_have(s->words.norm, "rms");
    s->gated = words_have(s->words.activation, "glu");
    s->plain_attention = words_have(s->words.attention, "torch");
    PASS(setup_read_dtype(s, DATA_bf16));
    setup_set_sums(s, s->bits);
    s->recompute = s->words.all_layers ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    return read_sharding(s);
}

const struct dialect dialect_foundry = {
    .name = "foundry",
    .summary = "LLM Foundry: a YAML file of training",
    .title = "LLM Foundry",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .recognises = foundry_recognises,
    .after = foundry_after,
};
