/* Megatron-LM: arguments in a shell script, or the same names in YAML (its own, Megatron Bridge's
 * and NeMo 2's). Names and defaults: megatron/training/arguments.py and megatron/core. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "study/frameworks/words.h"

static const char *const norms[] = {"LayerNorm", "RMSNorm", NULL};
static const char *const positions[] = {"learned_absolute", "rope",  "none", "mrope", "yarn",
                                        "relative",         "alibi", NULL};
enum { POSITIONS_MROPE = POSITIONS_KINDS, POSITIONS_YARN };
static const char *const optimizers[] = {"adam", "sgd", NULL};
static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params",
                                         NULL};
static const char *const backends[] = {"auto", "unfused", "local", "flash", "fused", NULL};
enum { BACKEND_AUTO, BACKEND_UNFUSED, BACKEND_LOCAL };
static const char *const scores[] = {"softmax", "sigmoid", NULL};
static const char *const formats[] = {"none", "hybrid", "e4m3", NULL};
enum { ROTARY_BASE = 10000 }; /* of positions */

static const struct setup_row rows[] = {
    ALSO_NUMBER("nnodes", nodes),
    ALSO_NUMBER("nproc_per_node", per_node),
    ALSO_NUMBER("num_nodes", nodes),
    ALSO_NUMBER("sbatch.nodes", nodes),
    ALSO_NUMBER("sbatch.N", nodes),
    ALSO_NUMBER("env.NNODES", nodes),
    ALSO_NUMBER("env.NUM_NODES", nodes),
    ALSO_NUMBER("sbatch.ntasks_per_node", per_node),
    ALSO_NUMBER("sbatch.gpus_per_node", per_node),
    ALSO_NUMBER("env.NPROC_PER_NODE", per_node),
    ALSO_NUMBER("env.GPUS_PER_NODE", per_node),
    ALSO_NUMBER("num_gpus", per_node), /* of the launcher deepspeed */
    ALSO_NUMBER("trainer.devices", per_node),
    ALSO_NUMBER("env.NUM_GPUS", devices),
    ALSO_NUMBER("env.NGPUS", devices),

    ROW_NUMBER("MODEL", "num_layers", a.layers, 0),
    ROW_NUMBER("MODEL", "hidden_size", a.hidden, 0),
    ROW_NUMBER("MODEL", "ffn_hidden_size", a.inner, 0),
    ROW_NUMBER("MODEL", "num_attention_heads", a.heads, 0),
    ROW_FLAG("MODEL", "group_query_attention", grouped),
    ROW_NUMBER("MODEL", "num_query_groups", a.kv_heads, 0),
    ROW_NUMBER("MODEL", "kv_channels", a.head, 0),
    ROW_NUMBER("MODEL", "seq_length", tokens, 0),
    ALSO_NUMBER("decoder_seq_length", tokens),
    ROW_NUMBER("MODEL", "max_position_embeddings", a.context, 0),
    ROW_WORD("MODEL", "position_embedding_type", positions, positions, 0),
    ALSO_FLAG("use_rotary_position_embeddings", positions),
    ROW_NUMBER("MODEL", "rotary_base", a.base, ROTARY_BASE),
    ROW_WORD("MODEL", "normalization", rms, norms, 0),
    ROW_FLAG("MODEL", "swiglu", gated),
    ALSO_FLAG("gated_linear_unit", gated),
    ROW_FLAG("MODEL", "disable_bias_linear", no_bias),
    ALSO_NOT("add_bias_linear", no_bias),
    ROW_FLAG("MODEL", "add_qkv_bias", qkv_bias),
    ROW_FLAG("MODEL", "qk_layernorm", head_norm),
    ROW_FLAG("MODEL", "untie_embeddings_and_output_weights", untied),
    ALSO_NOT("share_embeddings_and_output_weights", untied),
    ROW_NUMBER("MODEL", "vocab_size", a.vocabulary, 0),
    ALSO_NUMBER("padded_vocab_size", a.vocabulary),
    ALSO_NUMBER("pad_vocab_size_to", a.vocabulary),
    ROW_NUMBER("MODEL", "num_experts", a.experts, 0),
    ALSO_NUMBER("num_moe_experts", a.experts),
    ROW_NUMBER("MODEL", "moe_router_topk", a.top_k, 2),
    ROW_NUMBER("MODEL", "moe_ffn_hidden_size", a.expert_inner, 0),
    ROW_NUMBER("MODEL", "moe_shared_expert_intermediate_size", a.shared_inner, 0),
    ROW_FLAG("MODEL", "moe_shared_expert_gate", shared_gate),
    ALSO_FLAG("embed_layernorm", embedding_norm),
    ROW_TEXT("MODEL", "moe_layer_freq", words.frequency),
    ROW_TEXT("MODEL", "moe_expert_capacity_factor", words.capacity),
    ALSO_TEXT("moe_train_capacity_factor", words.capacity),
    ROW_FLAG("MODEL", "moe_pad_expert_input_to_capacity", words.padded),
    ROW_FLAG("MODEL", "moe_router_enable_expert_bias", router_bias),
    ROW_WORD("MODEL", "moe_router_score_function", sigmoid_router, scores, 0),
    ROW_NUMBER("MODEL", "moe_router_num_groups", a.groups, 0),
    ROW_NUMBER("MODEL", "moe_router_group_topk", a.group_top, 0),
    ROW_TEXT("MODEL", "moe_router_topk_scaling_factor", words.route_scale),
    ROW_TEXT("MODEL", "moe_token_dispatcher_type", words.dispatcher),
    ROW_FLAG("MODEL", "moe_grouped_gemm", words.grouped_gemm),
    ROW_FLAG("MODEL", "multi_latent_attention", latent),
    ROW_NUMBER("MODEL", "q_lora_rank", a.query_rank, 0),
    ROW_NUMBER("MODEL", "kv_lora_rank", a.kv_rank, 32),
    ROW_NUMBER("MODEL", "qk_head_dim", a.nope, 128),
    ROW_NUMBER("MODEL", "qk_pos_emb_head_dim", a.rope, 64),
    ROW_NUMBER("MODEL", "v_head_dim", a.value, 128),
    ROW_NUMBER("MODEL", "mtp_num_layers", a.predict, 0),
    ROW_WORD("MODEL", "attention_backend", words.backend, backends, 0),
    ROW_TEXT("MODEL", "attention_dropout", words.attention_dropout),
    ROW_TEXT("MODEL", "hidden_dropout", words.hidden_dropout),

    ROW_NUMBER("PARALLEL", "tensor_model_parallel_size", tensor_parallel, 1),
    ROW_FLAG("PARALLEL", "sequence_parallel", sequence_parallel),
    ROW_FLAG("PARALLEL", "tp_comm_overlap", tensor_overlap),
    ROW_NUMBER("PARALLEL", "pipeline_model_parallel_size", pipeline, 1),
    ROW_NUMBER("PARALLEL", "num_virtual_stages_per_pipeline_rank", chunks, 1),
    ALSO_NUMBER("virtual_pipeline_model_parallel_size", chunks),
    ALSO_NUMBER("num_layers_per_virtual_pipeline_stage", words.stages.chunk_layers),
    ROW_TEXT("PARALLEL", "pipeline_model_parallel_layout", words.stages.layout),
    ROW_NUMBER("PARALLEL", "decoder_first_pipeline_num_layers", words.stages.first_layers, 0),
    ROW_NUMBER("PARALLEL", "decoder_last_pipeline_num_layers", words.stages.last_layers, 0),
    ROW_FLAG("PARALLEL", "account_for_embedding_in_pipeline_split", words.stages.count_embedding),
    ROW_FLAG("PARALLEL", "account_for_loss_in_pipeline_split", words.stages.count_head),
    ROW_NUMBER("PARALLEL", "context_parallel_size", context_parallel, 1),
    ROW_WORD("PARALLEL", "cp_comm_type", context_exchange, words_exchanges, 0),
    ROW_NUMBER("PARALLEL", "expert_model_parallel_size", expert_parallel, 1),
    ALSO_NUMBER("moe_expert_parallel_size", expert_parallel),
    ROW_NUMBER("PARALLEL", "expert_tensor_parallel_size", expert_tensor, 0),
    ROW_FLAG("PARALLEL", "use_tp_pp_dp_mapping", apart),
    ROW_FLAG("PARALLEL", "use_distributed_optimizer", words.distributed),
    ROW_FLAG("PARALLEL", "use_megatron_fsdp", words.fsdp),
    ALSO_FLAG("use_custom_fsdp", words.fsdp),
    ROW_WORD("PARALLEL", "data_parallel_sharding_strategy", words.strategy, strategies, 0),
    ALSO_FLAG("use_torch_fsdp2", words.fsdp2),
    ALSO_NUMBER("zero_stage", zero),
    ROW_NUMBER("PARALLEL", "num_distributed_optimizer_instances", words.replicate, 1),
    ROW_FLAG("PARALLEL", "optimizer_cpu_offload", offload),
    ROW_FLAG("PARALLEL", "overlap_grad_reduce", words.overlap),
    ROW_FLAG("PARALLEL", "overlap_param_gather", words.gathers_beside),
    ROW_NUMBER("PARALLEL", "ddp_bucket_size", words.bucket_elements, 0),
    ROW_FLAG("PARALLEL", "grad_reduce_in_bf16", words.reduce_16),
    ROW_FLAG("PARALLEL", "accumulate_allreduce_grads_in_fp32", words.wide_sums),

    ROW_NUMBER("TRAIN", "micro_batch_size", microbatch_size, 0),
    ROW_NUMBER("TRAIN", "global_batch_size", batch, 0),
    ROW_WORD("TRAIN", "optimizer", optimizer, optimizers, 0),
    ROW_FLAG("TRAIN", "bf16", words.bf16),
    ROW_FLAG("TRAIN", "fp16", words.fp16),
    ROW_WORD("TRAIN", "fp8_format", words.fp8, formats, 0),
    ALSO_WORD("fp8", words.fp8, formats),
    ROW_TEXT("TRAIN", "fp8_recipe", words.fp8_recipe),
    ROW_WORD("TRAIN", "recompute_granularity", words.granularity, words_granularities, 0),
    ROW_WORD("TRAIN", "recompute_method", words.method, words_methods, 0),
    ROW_NUMBER("TRAIN", "recompute_num_layers", words.unit, 0),
    ROW_TEXT("TRAIN", "recompute_modules", words.recomputed),
    ALSO_FLAG("recompute_activations", words.selected),
    ALSO_FLAG("checkpoint_activations", words.all_layers),
    ALSO_WORD("activations_checkpoint_method", words.method, words_methods),
    ALSO_WORD("activations_checkpoint_granularity", words.granularity, words_granularities),
    ALSO_NUMBER("activations_checkpoint_num_layers", words.unit),

    ROW_LOST("overlap_moe_expert_parallel_comm", "exchanges of experts are not overlapped"),
    ROW_LOST("fine_grained_activation_offloading", "activations of some modules on the host"),
    ROW_LOST("rampup_batch_size", "the batch is the final one from the start"),
    ROW_LOST("step_batch_size_schedule", "the batch is the same in all steps"),
    ROW_LOST("window_size", "attention looks back over all tokens"),
    ROW_LOST("pp_partition_method", "embedding and head count as layers where the stages need it"),
};

/* ---- reading */

static bool megatron_recognises(const struct keys *k)
{
    static const char *const names[] = {"tensor_model_parallel_size", "micro_batch_size",
                                        "pipeline_model_parallel_size", "num_attention_heads",
                                        "use_distributed_optimizer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (keys_has(k, names[i]))
            return k->format == KEYS_SHELL || k->format == KEYS_TREE;
    return false;
}

/* "gpu:8" */
static void read_gres(struct setup *s)
{
    const char *gres = keys_said(s->keys, "sbatch.gres"), *colon = strrchr(gres, ':');
    if (colon && s->per_node < 2 && !strncmp(gres, "gpu", 3))
        s->per_node = strtol(colon + 1, NULL, 10);
}

/* Kinds of models by the program or the experiment's name. */
static void megatron_find_kind(struct setup *s)
{
    const char *program = s->keys->program ? s->keys->program : "";
    s->masked = strstr(program, "bert") != NULL;
    s->encoder_decoder = strstr(program, "_t5") != NULL;
}

/* Three generations of names: --checkpoint-activations, --activations-checkpoint-method and
 * --recompute-granularity. */
static enum status megatron_read_recompute(struct setup *s)
{
    bool old = s->words.method > 0 &&
               s->words.granularity == 0; /* --activations-checkpoint-method alone */
    s->recompute = s->words.all_layers || old ? RECOMPUTE_FULL
                   : s->words.selected        ? RECOMPUTE_SELECTIVE
                                              : s->words.granularity;
    words_read_recompute(s);
    if (s->recompute != RECOMPUTE_SELECTIVE || !s->words.recomputed)
        return STATUS_OK;
    if (plan_read_modules(s->words.recomputed, &s->recompute_modules) != STATUS_OK)
        return error_context(STATUS_INVALID, "recompute_modules");
    return STATUS_OK;
}

/* Names with blanks between them. */
static enum status megatron_write_modules(struct setup *s)
{
    char text[PLAN_MODULES_TEXT], *kept;
    s->words.recomputed = NULL;
    if (s->recompute_modules == 0)
        return STATUS_OK;
    plan_print_modules(s->recompute_modules, text);
    for (char *at = text; *at; at++)
        *at = *at == ',' ? ' ' : *at;
    kept = arena_text(&s->keys->memory, text);
    s->words.recomputed = kept;
    return kept ? STATUS_OK : STATUS_NOMEM;
}

/* Buckets are of max(40M, 1M x replicas) parameters unless told otherwise; FSDP's are layers.
 * Source: megatron/core/distributed/distributed_data_parallel.py. */
static enum status megatron_read_buckets(struct setup *s)
{
    int64_t replicas = s->devices / (s->tensor_parallel > 0 ? s->tensor_parallel : 1);
    bool layers = s->words.fsdp && s->zero > 1;
    if (layers && (!s->words.overlap || (s->zero == 3 && !s->words.gathers_beside)))
        PASS(setup_add_note(
            s, NOTE_LOST,
            "waiting for FSDP collectives, as Megatron does without overlap_grad_reduce and "
            "overlap_param_gather; the plan overlaps them with compute"));
    if (s->words.overlap && s->words.bucket_elements == 0 && !layers)
        s->words.bucket_elements = replicas > 40 ? replicas * 1000000 : 40000000;
    s->bucket_bytes = s->words.overlap ? s->words.bucket_elements * setup_reduce_bits(s) / 8 : 0;
    return STATUS_OK;
}

/* The distributed optimizer is ZeRO 1; Megatron-FSDP says by its strategy what is sharded, the FSDP
 * of PyTorch shards everything. Source: megatron/core/distributed. */
static void read_zero(struct setup *s)
{
    if (s->words.fsdp)
        s->zero = (uint32_t)s->words.strategy;
    else if (s->words.fsdp2)
        s->zero = 3;
    else if (s->words.distributed)
        s->zero = 1;
    s->zero_keep = s->words.gathers_beside && s->zero == 1 && s->words.overlap;
}

/* "0:384 200B:768": the last one, where nothing else says the batch. */
static void read_steps(struct setup *s)
{
    const char *last = strrchr(keys_said(s->keys, "step_batch_size_schedule"), ':');
    if (last && s->batch == 0)
        s->batch = strtol(last + 1, NULL, 10);
}

/* Megatron-DeepSpeed's experts: one for a token, in every second layer, unless told otherwise.
 * Source: its megatron/arguments.py. */
static enum status read_deepspeed_experts(struct setup *s)
{
    struct framework_key *topk = keys_find(s->keys, "topk"),
                         *step = keys_find(s->keys, "expert_interval");
    if (!keys_has(s->keys, "moe_expert_parallel_size"))
        return STATUS_OK;
    s->a.top_k = 1;
    s->a.routed_step = 2;
    if (topk)
        PASS(keys_number(s->keys, topk, &s->a.top_k));
    return step ? keys_number(s->keys, step, &s->a.routed_step) : STATUS_OK;
}

/* Megatron-DeepSpeed's --pp-partition-method 'type:transformer|embedding': both ends count. */
static void read_partition(struct setup *s)
{
    if (strstr(keys_said(s->keys, "pp_partition_method"), "embedding"))
        s->words.stages.count_embedding = s->words.stages.count_head = 1;
}

/* What times do not depend on, and what a plan does otherwise. */
static enum status read_model(struct setup *s)
{
    const struct setup_words *w = &s->words;
    bool drops = (w->attention_dropout && strtod(w->attention_dropout, NULL) > 0) ||
                 (w->hidden_dropout && strtod(w->hidden_dropout, NULL) > 0);
    s->a.base = s->a.base == ROTARY_BASE ? 0 : s->a.base;
    if (w->route_scale)
        s->a.route_scale = (int64_t)(1000 * strtod(w->route_scale, NULL) + 0.5);
    if (drops)
        PASS(setup_add_note(s, NOTE_LOST,
                            "dropout, whose time only --framework megatron_2022 models"));
    if (w->dispatcher && *w->dispatcher && strcmp(w->dispatcher, "alltoall") != 0)
        PASS(setup_add_note(
            s, NOTE_LOST,
            "moe_token_dispatcher_type %s, which foreline models as all-to-all collectives",
            w->dispatcher));
    return STATUS_OK;
}

/* In the order of dependence: widths of numbers before sizes of buckets in bytes. */
static enum status megatron_after(struct setup *s)
{
    read_gres(s);
    megatron_find_kind(s);
    read_partition(s);
    read_steps(s);
    PASS(read_model(s));
    PASS(read_deepspeed_experts(s));
    if (s->positions >= POSITIONS_KINDS)
        s->positions = s->positions <= POSITIONS_YARN ? POSITIONS_ROPE : POSITIONS_NONE;
    PASS(megatron_read_recompute(s));
    PASS(setup_read_dtype(s, DATA_fp32));
    bool wide = !s->words.reduce_16 && (!s->words.fp16 || s->words.wide_sums);
    setup_set_sums(s, wide ? 32 : s->bits);
    read_zero(s);
    if (s->devices < 1)
        s->devices = setup_times(s->nodes, s->per_node);
    PASS(megatron_read_buckets(s));
    s->plain_attention = s->words.backend == BACKEND_UNFUSED || s->words.backend == BACKEND_LOCAL;
    if (!s->grouped && s->keys->format == KEYS_SHELL)
        s->a.kv_heads = 0;
    if (s->words.frequency && s->a.experts > 0)
        PASS(setup_read_frequency(s, s->words.frequency));
    PASS(setup_read_capacity(s));
    s->schedule = s->chunks > 1 || s->words.stages.chunk_layers > 0 ? "interleaved" : NULL;
    return STATUS_OK;
}

/* ---- writing */

/* What takes time as it is predicted only if it is said: Megatron's models have dropout, and
 * experts that run one by one behind an all-gather, unless told otherwise; and the numbers that
 * models of the same sizes differ in. Source: megatron/core/transformer/transformer_config.py. */
static enum status write_model(struct setup *s)
{
    bool experts = s->a.experts > 1;
    char scale[32];
    s->a.base = s->positions == POSITIONS_ROPE && s->a.base > 0 ? s->a.base : ROTARY_BASE;
    s->words.attention_dropout = s->words.hidden_dropout = s->dropout ? "" : "0.0";
    s->words.dispatcher = experts ? "alltoall" : "";
    s->words.grouped_gemm = experts;
    s->words.route_scale = "";
    if (experts && s->a.route_scale > 0) {
        snprintf(scale, sizeof scale, "%g", (double)s->a.route_scale / 1000);
        s->words.route_scale = arena_text(&s->keys->memory, scale);
    }
    PASS(setup_add_note(s, NOTE_ASSUMED,
                        "Megatron-LM's defaults of --norm-epsilon, --init-method-std%s%s, which do "
                        "not affect the time",
                        s->positions == POSITIONS_ROPE ? ", no --use-rope-scaling" : "",
                        experts ? ", --moe-aux-loss-coeff" : ""));
    return s->words.route_scale ? STATUS_OK : STATUS_NOMEM;
}

/* Transformer Engine has the norms before products inside of them, where none is made again: those
 * before latents and experts alone are ops of their own.
 * Sources: validate_args() in megatron/training/arguments.py; get_gpt_layer_with_transformer_engine
 * _submodules() in megatron/core/models/gpt/gpt_layer_specs.py; of August 2026. */
static const char *warns(const struct setup *s)
{
    bool blackwell = *s->gpu == 'B' || !strncmp(s->gpu, "GB", 2);
    bool again =
        s->recompute == RECOMPUTE_SELECTIVE && (s->recompute_modules & (1u << MODULE_LAYERNORM));
    if (again && !s->dropout && !(s->latent && s->a.experts > 1))
        return "recomputed layernorm: Transformer Engine fuses layernorm into the next matrix "
               "multiplication and does not recompute it";
    return s->words.fsdp && !blackwell && (s->tensor_parallel > 1 || s->context_parallel > 1)
               ? "FSDP with tensor or context parallelism: on GPUs before Blackwell the two need "
                 "different values of CUDA_DEVICE_MAX_CONNECTIONS"
               : NULL;
}

/* From neutral members to options. Rows whose value is the usual one are not written, so members
 * that mean nothing here (latents of a model without them) are set to what is usual. */
static enum status megatron_before(struct setup *s)
{
    PASS(words_check_schedule(s));
    PASS(words_check_sums(s));
    PASS(words_write_types(s));
    words_write_recompute(s);
    PASS(megatron_write_modules(s));
    /* the usual recipe, of delayed scales, stops beside them (TransformerConfig.__post_init__) */
    bool again = s->recompute_modules & (1u << MODULE_LAYERNORM | 1u << MODULE_MOE_ACT);
    s->words.fp8_recipe = s->words.fp8 && again ? "tensorwise" : "";
    PASS(write_model(s));
    if (s->chunks > 1 && s->accumulation % s->pipeline != 0)
        return error_set(
            STATUS_UNSUPPORTED,
            "virtual stages have %" PRId64
            " microbatches per replica, expected a multiple of the %" PRId64 " pipeline ranks",
            s->accumulation, s->pipeline); /* megatron/core/pipeline_parallel/schedules.py */
    PASS(words_write_offload(s));
    PASS(setup_write_layout(s, &s->words.stages.layout));
    if (s->words.stages.layout && *s->words.stages.layout)
        s->chunks = 1; /* the layout says it */
    if (s->zero_keep && s->zero == 3)
        return error_set(STATUS_UNSUPPORTED, "--zero-keep is unsupported with ZeRO 3");
    if (s->zero_keep &&
        s->bucket_bytes == 0) /* validate_args() in megatron/training/arguments.py */
        return error_set(STATUS_UNSUPPORTED, "--zero-keep needs gradient buckets; set --bucket");
    s->words.replicate = s->zero_group > 0 ? s->replicas / s->zero_group : 1;
    s->words.distributed = s->zero > 0; /* Megatron-FSDP is one, with checkpoints of its own */
    s->words.fsdp = s->zero > 1;
    s->words.overlap =
        s->words.overlap || s->words.fsdp; /* by layers, as the program does (core/lower) */
    s->words.gathers_beside = s->zero == 3 || s->zero_keep;
    s->words.strategy = s->zero > 1 ? s->zero : 0;
    s->words.reduce_16 = s->words.bf16 && setup_reduce_bits(s) == 16;
    s->words.wide_sums = s->words.fp16 && setup_reduce_bits(s) == 32;
    if (s->plain_attention)
        s->words.backend = BACKEND_UNFUSED;
    if (!s->latent) { /* rows of what is not there have what is usual */
        s->a.kv_rank = 32;
        s->a.nope = s->a.value = 128;
        s->a.rope = 64;
    }
    if (s->a.experts < 2)
        s->a.top_k = 2;
    if (!s->grouped)
        s->a.kv_heads = 0;
    return STATUS_OK;
}

struct megatron_script {
    FILE *out;
    const char *section; /* whose array is open */
};

/* What an argument needs beside it. */
static const struct {
    const char *key, *argument;
} besides[] = {{"use_megatron_fsdp", "--ckpt-format fsdp_dtensor"},
               {"use_megatron_fsdp", "--no-gradient-accumulation-fusion"},
               {"optimizer_cpu_offload", "--use-precision-aware-optimizer"}};

/* "--num-layers 32" in the array of the row's section. */
static void megatron_put(void *to, const struct setup_row *row, const char *value, bool text)
{
    struct megatron_script *x = to;
    if (!x->section || strcmp(x->section, row->section) != 0)
        fprintf(x->out, "%s%s_ARGS=(\n", x->section ? ")\n" : "", row->section);
    x->section = row->section;
    fputs("    --", x->out);
    for (const char *at = row->key; *at; at++)
        fputc(*at == '_' ? '-' : *at, x->out);
    bool several = strcmp(row->key, "recompute_modules") == 0; /* an argument each */
    if (value)
        fprintf(x->out, text && !several && strpbrk(value, "|*()[] ") ? " '%s'" : " %s", value);
    fputs("\n", x->out);
    for (size_t k = 0; k < sizeof besides / sizeof *besides; k++)
        if (!strcmp(row->key, besides[k].key))
            fprintf(x->out, "    %s\n", besides[k].argument);
}

/* Shards order their kernels by one queue of the device; Megatron-FSDP wants several, of which 8 is
 * CUDA's own number. validate_args() stops otherwise. */
static void write_environment(const struct setup *s, FILE *out)
{
    if (s->words.fsdp)
        fputs("export CUDA_DEVICE_MAX_CONNECTIONS=8\n", out);
    else if (s->tensor_parallel > 1 || s->context_parallel > 1)
        fputs("export CUDA_DEVICE_MAX_CONNECTIONS=1\n", out);
}

/* A script that bash takes: one array for each section of the table, in its order. */
static void write_script(const struct setup *s, const char *title, FILE *out)
{
    struct megatron_script x = {.out = out};
    words_write_head(s, title, out);
    write_environment(s, out);
    words_write_launch(s, out);
    setup_write(s, rows, sizeof rows / sizeof *rows, megatron_put, &x);
    fprintf(out, "%s", x.section ? ")\n" : "");
    fputs("torchrun \"${LAUNCH_ARGS[@]}\" pretrain_gpt.py \"${MODEL_ARGS[@]}\" "
          "\"${PARALLEL_ARGS[@]}\" \\\n    \"${TRAIN_ARGS[@]}\" \"$@\"\n",
          out);
}

const struct dialect dialect_megatron = {
    .name = "megatron",
    .summary = "Megatron-LM: a shell script; imported from YAML of Bridge and NeMo 2 as well",
    .title = "Megatron-LM",
    .version = "0.20, August 2026",
    .row = rows,
    .rows = sizeof rows / sizeof *rows,
    .says = KNOB_BIT(zero) | KNOB_BIT(zero_keep) | KNOB_BIT(zero_group) | KNOB_BIT(bucket_bytes) |
            KNOB_BIT(reduce_dtype) | KNOB_BIT(recompute) | KNOB_BIT(recompute_layers) |
            KNOB_BIT(recompute_unit) | KNOB_BIT(recompute_modules),
    .recognises = megatron_recognises,
    .after = megatron_after,
    .before = megatron_before,
    .write = write_script,
    .warns = warns,
};
