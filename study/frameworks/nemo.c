/* NeMo 1: YAML. Names: nemo/collections/nlp and NVIDIA/NeMo-Framework-Launcher's training files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "study/frameworks/nested.h"
#include "study/frameworks/words.h"

static const char *const norms[] = {"layernorm", "rmsnorm", "layernorm1p", NULL};
static const char *const positions[] = {"learned_absolute", "rope", "none", "relative", NULL};

static const struct setup_row rows[] = {
    ROW_NUMBER("trainer", "num_nodes", nodes, 0),
    ROW_NUMBER("trainer", "devices", per_node, 0),
    ROW_TEXT("trainer", "precision", words.precision),

    ROW_NUMBER("model", "micro_batch_size", microbatch_size, 0),
    ROW_NUMBER("model", "global_batch_size", batch, 0),
    ROW_NUMBER("model", "tensor_model_parallel_size", tensor_parallel, 1),
    ROW_FLAG("model", "sequence_parallel", sequence_parallel),
    ROW_FLAG("model", "ub_tp_comm_overlap", tensor_overlap),
    ROW_NUMBER("model", "pipeline_model_parallel_size", pipeline, 1),
    ROW_NUMBER("model", "virtual_pipeline_model_parallel_size", chunks, 1),
    ROW_NUMBER("model", "context_parallel_size", context_parallel, 1),
    ROW_WORD("model", "cp_comm_type", context_exchange, words_exchanges, 0),
    ROW_NUMBER("model", "expert_model_parallel_size", expert_parallel, 1),
    ROW_NUMBER("model", "encoder_seq_length", tokens, 0),
    ALSO_NUMBER("model.seq_length", tokens),
    ALSO_NUMBER("data.seq_length", tokens),
    ROW_NUMBER("model", "max_position_embeddings", a.context, 0),
    ROW_NUMBER("model", "num_layers", a.layers, 0),
    ROW_NUMBER("model", "hidden_size", a.hidden, 0),
    ROW_NUMBER("model", "ffn_hidden_size", a.inner, 0),
    ROW_NUMBER("model", "num_attention_heads", a.heads, 0),
    ROW_NUMBER("model", "num_query_groups", a.kv_heads, 0),
    ROW_NUMBER("model", "kv_channels", a.head, 0),
    ROW_WORD("model", "position_embedding_type", positions, positions, 0),
    ROW_WORD("model", "normalization", rms, norms, 0),
    ROW_TEXT("model", "activation", words.activation),
    ROW_NOT("model", "bias", no_bias),
    ROW_FLAG("model", "qkv_bias", qkv_bias),
    ROW_FLAG("model", "qk_layernorm", head_norm),
    ROW_NOT("model", "share_embeddings_and_output_weights", untied),
    ROW_NUMBER("model", "vocab_size", a.vocabulary, 0),
    ROW_NUMBER("model", "num_moe_experts", a.experts, 0),
    ROW_NUMBER("model", "moe_router_topk", a.top_k, 2),
    ROW_TEXT("model", "moe_expert_capacity_factor", words.capacity),
    ROW_FLAG("model", "moe_pad_expert_input_to_capacity", words.padded),
    ROW_NUMBER("model", "moe_ffn_hidden_size", a.expert_inner, 0),
    ROW_WORD("model", "activations_checkpoint_granularity", words.granularity, words_granularities,
             0),
    ROW_WORD("model", "activations_checkpoint_method", words.method, words_methods, 0),
    ROW_NUMBER("model", "activations_checkpoint_num_layers", words.unit, 0),
    ROW_FLAG("model", "fp8", words.fp8),
    ROW_FLAG("model", "fsdp", words.fsdp),
    ROW_TEXT("model", "optim.name", words.optimizer_name),
    ROW_FLAG("model", "optim.overlap_grad_sync", words.overlap),
    ROW_FLAG("model", "optim.overlap_param_sync", zero_keep),
    ROW_NUMBER("model", "optim.bucket_cap_mb", words.bucket_mib, 0),
    ROW_TEXT("model", "optim.grad_sync_dtype", words.sums),

    ROW_LOST("rampup_batch_size", "the batch is the final one from the start"),
    ROW_LOST("activations_checkpoint_layers_per_pipeline", "all stages recompute alike"),
    ROW_LOST("pipeline_model_parallel_split_rank", "encoder and decoder are cut like one chain"),
};

/* NeMo 2 has the same names below "strategy"; it is read with Megatron's. */
static bool nemo_recognises(const struct keys *k)
{
    bool trainer = keys_has(k, "trainer.devices") || keys_has(k, "trainer.num_nodes") ||
                   keys_has(k, "trainer.precision");
    bool parallel = keys_has(k, "model.tensor_model_parallel_size") ||
                    keys_has(k, "model.global_batch_size") || keys_has(k, "model.micro_batch_size");
    return k->format == KEYS_TREE && parallel &&
           (trainer || keys_has(k, "model.encoder_seq_length")) &&
           !keys_has(k, "strategy.tensor_model_parallel_size");
}

/* BERT and T5 by the names of their experiments; T5 has the sizes of both halves apart. */
static enum status nemo_find_kind(struct setup *s)
{
    struct setup_row halves[] = {
        ROW_NUMBER(NULL, "model.encoder.num_layers", a.layers, 0),
        ROW_NUMBER(NULL, "model.encoder.hidden_size", a.hidden, 0),
        ROW_NUMBER(NULL, "model.encoder.ffn_hidden_size", a.inner, 0),
        ROW_NUMBER(NULL, "model.encoder.num_attention_heads", a.heads, 0),
        ROW_NUMBER(NULL, "model.encoder.kv_channels", a.head, 0),
        ROW_TEXT(NULL, "model.encoder.activation", words.activation),
        ROW_WORD(NULL, "model.encoder.activations_checkpoint_granularity", words.granularity,
                 words_granularities, 0),
        ROW_WORD(NULL, "model.encoder.activations_checkpoint_method", words.method, words_methods,
                 0),
        ROW_NUMBER(NULL, "model.encoder.activations_checkpoint_num_layers", words.unit, 0),
        ROW_NUMBER(NULL, "model.decoder.num_layers", a.decoder.layers, 0),
    };
    for (size_t i = 0; i < s->keys->n; i++) {
        const struct framework_key *key = &s->keys->key[i];
        if (key->text && !strcmp(key->name, "name"))
            s->masked |= strstr(key->text, "bert") != NULL;
    }
    if (!keys_has(s->keys, "model.encoder.num_layers"))
        return STATUS_OK;
    s->encoder_decoder = 1;
    return setup_read(s, halves, sizeof halves / sizeof *halves);
}

/* "block" of no layers is how these files switch recomputation off. */
static void nemo_read_recompute(struct setup *s)
{
    bool none = s->words.method == 2 && s->words.unit == 0; /* so many layers of each stage: none */
    s->recompute =
        none && s->words.granularity == RECOMPUTE_FULL ? RECOMPUTE_NONE : s->words.granularity;
    words_read_recompute(s);
}

/* Buckets of so many MB of gradients, which are fp32 unless the optimizer says bf16. */
static enum status read_optimizer(struct setup *s)
{
    s->zero = s->words.fsdp ? 3 : words_have(s->words.optimizer_name, "distributed");
    s->zero_keep = s->zero_keep && s->zero == 1 && s->words.overlap;
    s->optimizer = words_have(s->words.optimizer_name, "sgd");
    PASS(setup_read_dtype(s, DATA_bf16));
    if (s->words.overlap)
        s->bucket_bytes = (s->words.bucket_mib > 0 ? s->words.bucket_mib : 100) << 20;
    setup_set_sums(s, s->dtype != DATA_fp16 && !words_have(s->words.sums, "16") ? 32 : s->bits);
    return STATUS_OK;
}

/* What several names say together. */
static enum status nemo_after(struct setup *s)
{
    PASS(nemo_find_kind(s));
    s->rms = s->rms == 1;
    s->positions = s->positions == 3 ? POSITIONS_NONE : s->positions;
    s->gated = words_have(s->words.activation, "glu");
    nemo_read_recompute(s);
    PASS(read_optimizer(s));
    PASS(setup_read_capacity(s));
    s->schedule = s->chunks > 1 ? "interleaved" : NULL;
    return STATUS_OK;
}

/* Names of NeMo 1 end where those of Megatron go on: even stages, ranks in one order, models
 * without latent attention and shared experts. */
static enum status nemo_before(struct setup *s)
{
    PASS(words_check_schedule(s));
    PASS(words_check_sums(s));
    if (!setup_is_even(s))
        return error_set(
            STATUS_UNSUPPORTED,
            "its pipeline stages have different numbers of layers, expected equal numbers");
    PASS(words_check_order(s));
    if (s->zero_keep && s->zero == 3)
        return error_set(STATUS_UNSUPPORTED, "--zero-keep is unsupported with ZeRO 3");
    if (s->zero_keep && s->bucket_bytes == 0)
        return error_set(STATUS_UNSUPPORTED, "--zero-keep needs gradient buckets; set --bucket");
    if (s->zero == 2)
        return error_set(STATUS_UNSUPPORTED, "ZeRO 2 is unsupported");
    if (s->latent || s->router_bias || s->a.predict || s->shared_gate || s->a.shared_inner ||
        (s->words.frequency && *s->words.frequency)) {
        s->a = (struct architecture){.layers = 0};
        s->words.capacity = NULL;
        s->words.padded = 0;
        PASS(setup_add_note(
            s, NOTE_LOST,
            "sizes of the model, because NeMo 1 has no arguments for this architecture"));
    }
    if (s->dtype == DATA_fp16 && setup_reduce_bits(s) == 32)
        return error_set(STATUS_UNSUPPORTED,
                         "fp32 gradient reduction is unsupported for fp16 models");
    if (s->bucket_bytes % (1 << 20) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "its gradient buckets have %" PRId64
                         " bytes, expected a whole number of MiB",
                         s->bucket_bytes);
    s->words.bucket_mib = s->bucket_bytes >> 20;
    s->words.overlap = s->bucket_bytes > 0;
    s->words.fsdp = s->zero == 3;
    s->words.optimizer_name = s->optimizer   ? "sgd"
                              : s->zero == 1 ? "mcore_distributed_optim"
                                             : "fused_adam";
    if (s->optimizer && s->zero == 1)
        return error_set(STATUS_UNSUPPORTED, "ZeRO 1 is unsupported with the optimizer SGD");
    s->words.sums = s->bits == 16 && setup_reduce_bits(s) == 16 ? "bf16" : NULL;
    s->words.precision = s->bits == 32 ? "32" : s->dtype == DATA_fp16 ? "16" : "bf16";
    s->words.fp8 = s->dtype == DATA_fp8;
    s->words.activation = s->gated ? "fast-swiglu" : "gelu";
    words_write_recompute(s);
    if (s->a.experts < 2)
        s->a.top_k = 2;
    return STATUS_OK;
}

/* Rows are in the order of their maps, "trainer" first. */
static void write_yaml(const struct setup *s, const char *title, FILE *out)
{
    struct nested n = {.out = out, .style = NESTED_YAML};
    fprintf(out, "# %s\n", title);
    setup_write(s, rows, sizeof rows / sizeof *rows, nested_put, &n);
    nested_end(&n);
}

const struct dialect dialect_nemo = {
    .name = "nemo",
    .summary = "NeMo 1: a YAML file of training",
    .title = "NeMo 1",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = KNOB_BIT(zero) | KNOB_BIT(bucket_bytes) | KNOB_BIT(reduce_dtype) | KNOB_BIT(recompute) |
            KNOB_BIT(recompute_layers) | KNOB_BIT(recompute_unit),
    .refuses = KNOB_BIT(zero_group) | KNOB_BIT(recompute_modules) | KNOB_BIT(offload),
    .recognises = nemo_recognises,
    .after = nemo_after,
    .before = nemo_before,
    .write = write_yaml,
};
