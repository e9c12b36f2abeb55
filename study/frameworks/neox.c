/* GPT-NeoX: YAML, imported only. Names and defaults: megatron/neox_arguments/neox_args.py. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "study/frameworks/words.h"

static const struct setup_row rows[] = {
    ROW_NUMBER(NULL, "num_nodes", nodes, 0),
    ROW_NUMBER(NULL, "num_gpus", devices, 0),
    ROW_NUMBER(NULL, "pipe_parallel_size", pipeline, 0),
    ROW_NUMBER(NULL, "model_parallel_size", tensor_parallel, 1),
    ROW_NUMBER(NULL, "context_parallel_size", context_parallel, 1),
    ROW_FLAG(NULL, "sequence_parallel", sequence_parallel),
    ROW_NUMBER(NULL, "num_layers", a.layers, 0),
    ROW_NUMBER(NULL, "hidden_size", a.hidden, 0),
    ROW_NUMBER(NULL, "intermediate_size", a.inner, 0),
    ROW_NUMBER(NULL, "mlp_multiple_of", words.multiple, 1),
    ROW_NUMBER(NULL, "num_attention_heads", a.heads, 0),
    ROW_NUMBER(NULL, "num_kv_heads", a.kv_heads, 0),
    ROW_NUMBER(NULL, "seq_length", tokens, 0),
    ROW_NUMBER(NULL, "max_position_embeddings", a.context, 0),
    ROW_NUMBER(NULL, "padded_vocab_size", a.vocabulary, 0),
    ALSO_NUMBER("vocab_size", a.vocabulary),
    ROW_TEXT(NULL, "norm", words.norm),
    ROW_TEXT(NULL, "pos_emb", words.embeddings),
    ROW_TEXT(NULL, "activation", words.activation),
    ROW_TEXT(NULL, "attention_config", words.attention),
    ROW_FLAG(NULL, "no_weight_tying", untied),
    ROW_FLAG(NULL, "gpt_j_residual", parallel),
    ROW_NOT(NULL, "use_bias_in_attn_linear", qkv_bias),
    ROW_NOT(NULL, "use_bias_in_mlp", no_bias),
    ROW_NUMBER(NULL, "moe_num_experts", a.experts, 1),
    ROW_NUMBER(NULL, "moe_top_k", a.top_k, 1),
    ROW_NUMBER(NULL, "moe_expert_parallel_size", expert_parallel, 1),
    ROW_NUMBER(NULL, "zero_optimization.stage", zero, 0),
    ROW_FLAG(NULL, "zero_optimization.overlap_comm", words.overlap),
    ROW_NUMBER(NULL, "zero_optimization.reduce_bucket_size", words.bucket_elements, 500000000),
    ROW_NUMBER(NULL, "train_batch_size", batch, 0),
    ROW_NUMBER(NULL, "train_micro_batch_size_per_gpu", microbatch_size, 0),
    ROW_NUMBER(NULL, "gradient_accumulation_steps", accumulation, 1),
    ALSO_NUMBER("gas", accumulation),
    ROW_FLAG(NULL, "checkpoint_activations", words.all_layers),
    ROW_NUMBER(NULL, "checkpoint_num_layers", recompute_unit, 1),
    ROW_TEXT(NULL, "precision", words.precision),
    ROW_FLAG(NULL, "fp16.enabled", words.fp16),
    ROW_FLAG(NULL, "bf16.enabled", words.bf16),
    ROW_FLAG(NULL, "fp32_allreduce", words.wide_sums),
    ROW_TEXT(NULL, "optimizer.type", words.optimizer_name),
    ROW_LOST("sliding_window_width", "attention looks back over all tokens"),
    ALSO_FLAG("zero_optimization.cpu_offload", words.to_host),
};

/* Names from before Megatron called it tensor parallelism. */
static bool neox_recognises(const struct keys *k)
{
    return k->format == KEYS_TREE &&
           (keys_has(k, "pipe_parallel_size") || keys_has(k, "model_parallel_size") ||
            keys_has(k, "gpt_j_residual"));
}

/* Gated MLPs keep the parameters of plain ones: 2/3 of the width, half of it for each product,
 * rounded up. Source: megatron/model/transformer.py, ParallelMLP. */
static enum status find_inner(struct setup *s)
{
    int64_t width = s->a.inner > 0 ? s->a.inner : 4 * s->a.hidden,
            of = s->words.multiple > 0 ? s->words.multiple : 1;
    if (s->gated)
        width = width * 2 / 3 / 2;
    s->a.inner = (width + of - 1) / of * of;
    return s->gated ? setup_add_note(s, NOTE_ASSUMED,
                                     "a gated MLP of width %" PRId64
                                     ", a third of the file's value, as GPT-NeoX builds it",
                                     s->a.inner)
                    : STATUS_OK;
}

/* Biases are of attention and MLP apart; gated MLPs have none. A file that says no precision trains
 * in fp32, which is said, as mostly a second file has it. */
static enum status neox_after(struct setup *s)
{
    s->chunks = 1;
    s->rms = words_have(s->words.norm, "rms");
    s->positions = words_have(s->words.embeddings, "rotary") ? POSITIONS_ROPE
                   : !s->words.embeddings || !strcmp(s->words.embeddings, "learned")
                       ? POSITIONS_LEARNED
                       : POSITIONS_NONE;
    s->gated = words_have(s->words.activation, "glu");
    s->plain_attention = !words_have(s->words.attention, "flash");
    PASS(find_inner(s));
    s->no_bias |= s->gated; /* gated MLPs have none */
    s->qkv_bias = !s->qkv_bias && s->no_bias;
    PASS(setup_read_dtype(s, DATA_fp32));
    setup_set_sums(s, s->words.wide_sums ? 32 : s->bits);
    s->offload = s->words.to_host && s->zero > 0 ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    s->recompute = s->words.all_layers ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    s->optimizer = s->words.optimizer_name && !strcasecmp(s->words.optimizer_name, "sgd");
    if (s->words.overlap && s->zero > 0 && s->zero < 3)
        s->bucket_bytes = s->words.bucket_elements * setup_reduce_bits(s) / 8;
    return STATUS_OK;
}

const struct dialect dialect_neox = {
    .name = "neox",
    .summary = "GPT-NeoX: YAML of one or more files",
    .title = "GPT-NeoX",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .recognises = neox_recognises,
    .after = neox_after,
};
