/* A published configuration as the neutral setup of study/frameworks, and from there as model and
 * plan. What a row does not say is what its framework does by itself (published_facts.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/strategy/constants.h"
#include "lab/scoreboard/published.h"

static int64_t one_of(int64_t said, int64_t otherwise)
{
    return said > 0 ? said : otherwise;
}

/* ---- the model */

/* Arguments of Megatron that the row quotes say more than its own columns. */
static enum status published_setup_read_arguments(const struct published_config *c, struct setup *s)
{
    char number[32];
    const struct {
        const char *name;
        int64_t value;
    } also[] = {{"num_layers", c->layers},
                {"tensor_model_parallel_size", c->tp},
                {"ffn_hidden_size", c->ffn},
                {"pipeline_model_parallel_size", c->pp},
                {"micro_batch_size", c->micro_batch},
                {"global_batch_size", c->global_batch},
                {"hidden_size", c->hidden},
                {"context_parallel_size", c->cp},
                {"num_attention_heads", c->heads},
                {"seq_length", c->seq}};
    for (size_t i = 0; i < c->arguments; i++)
        PASS(keys_add(s->keys, c->argument[i].name, c->argument[i].value, 0));
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        snprintf(number, sizeof number, "%" PRId64, also[i].value);
        if (also[i].value > 0)
            PASS(keys_add(s->keys, also[i].name, number, 0));
    }
    PASS(setup_read(s, dialect_megatron.row, dialect_megatron.rows));
    return dialect_megatron.after(s);
}

/* Alternating windows are said as in GPT-OSS: every second layer. */
static void published_setup_set_window(const struct published_config *c, struct setup *s)
{
    if (c->window == 0)
        return;
    s->a.window.tokens = c->window;
    s->a.window.used = 1;
    if (c->window_layers > 0 && c->window_layers < c->layers)
        s->a.window.period = c->layers / c->window_layers;
}

static void set_experts(const struct published_config *c, struct setup *s)
{
    if (c->experts < 2)
        return;
    s->a.experts = c->experts;
    s->a.top_k = one_of(c->top_k, one_of(s->a.top_k, 1));
    s->a.expert_inner = one_of(c->expert_ffn, one_of(s->a.expert_inner, c->ffn));
    if (c->moe_layers > 0 && c->moe_layers < c->layers && s->a.first_dense == 0)
        s->a.first_dense = c->layers - c->moe_layers;
}

/* Gated MLPs mean a model like Llama: rotated positions, RMS norms, no biases. */
static enum status set_model(const struct published_config *c, struct setup *s)
{
    enum data_type dtype;
    bool gated = c->gated == SAID_YES, quoted = c->arguments > 0;
    if (c->layers < 1 || c->hidden < 1 || c->heads < 1 || c->seq < 1)
        return error_set(STATUS_UNSUPPORTED, "the row does not give the model's %s",
                         c->layers < 1   ? "layers"
                         : c->hidden < 1 ? "width"
                         : c->heads < 1  ? "heads"
                                         : "tokens");
    PASS(published_dtype(c, &dtype));
    setup_set_dtype(s, dtype);
    s->a.layers = c->layers;
    s->a.hidden = c->hidden;
    s->a.heads = c->heads;
    s->a.kv_heads = one_of(c->kv_heads, c->heads);
    s->a.head = c->head_dim;
    s->a.inner = c->ffn;
    s->a.vocabulary = one_of(c->vocab, one_of(s->a.vocabulary, 50304));
    s->tokens = c->seq;
    s->a.context = c->seq;
    s->gated = gated;
    s->masked = c->name && (strstr(c->name, "bert") || strstr(c->name, "BERT"));
    s->untied = c->tied == SAID_NO || (c->tied == SAID_NOTHING && gated);
    if (!quoted) {
        s->rms = gated;
        s->no_bias = c->biases == SAID_NO || (c->biases == SAID_NOTHING && gated);
        s->positions = gated && c->learned != SAID_YES ? POSITIONS_ROPE : POSITIONS_LEARNED;
        s->plain_attention = published_source(c)->plain;
    }
    published_setup_set_window(c, s);
    set_experts(c, s);
    return STATUS_OK;
}

/* ---- the plan */

/* Where virtual stages are not said, and their schedule is: as many as framework users take. */
static int64_t published_setup_chunks_of(const struct published_config *c)
{
    int64_t pipeline = one_of(c->pp, 1), each = c->layers / pipeline;
    if (c->vp > 0 || pipeline == 1)
        return one_of(c->vp, 1);
    if (c->schedule && strstr(c->schedule, "nterleaved"))
        return published_source(c)->depth == DEPTH_FIVE ? 5 : 2;
    for (int64_t v = 5; published_source(c)->depth == DEPTH_FIVE && v > 1; v--)
        if (each % v == 0 && c->layers % pipeline == 0)
            return v;
    return 1;
}

/* Samples of a microbatch: said, or what follows from the batch of a replica, or what the framework
 * has by itself. */
static int64_t microbatch_of(const struct published_config *c, int64_t replicas)
{
    int64_t stages = published_source(c)->as_stages ? one_of(c->pp, 1) : 1;
    int64_t local = one_of(c->local_batch, c->global_batch / one_of(replicas, 1));
    if (c->micro_batch > 0)
        return c->micro_batch;
    if (c->microbatches > 0 && local % c->microbatches == 0)
        return one_of(local / c->microbatches, 1);
    return stages > 1 && local > 0 && local % stages == 0 ? local / stages : 1;
}

/* Experts that are not divided themselves are spread over the shards too; here they are divided, so
 * that each GPU has as much of them, and they are spread over fewer replicas. */
static int64_t published_setup_expert_of(const struct published_config *c, const struct setup *s,
                                         int64_t replicas)
{
    int64_t expert = one_of(c->ep, 1), own = one_of(c->expert_tp, s->expert_tensor);
    if (own < 1)
        own = replicas % expert == 0 ? s->tensor_parallel : 1;
    return own < s->tensor_parallel && expert % (s->tensor_parallel / own) == 0
               ? expert / (s->tensor_parallel / own)
               : expert;
}

static enum status set_degrees(const struct published_config *c, struct setup *s)
{
    s->devices = c->gpus;
    s->per_node = 0;
    s->nodes = 0;
    s->tensor_parallel = (uint32_t)one_of(c->tp, 1);
    s->pipeline = one_of(c->pp, 1);
    s->context_parallel = (uint32_t)one_of(c->cp, 1);
    s->chunks = published_setup_chunks_of(c);
    s->words.stages.chunk_layers = 0;
    int64_t one = s->tensor_parallel * s->pipeline * s->context_parallel;
    if (c->gpus % one != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "tp x pp x cp = %" PRId64 " does not divide the row's %" PRId64 " GPUs",
                         one, c->gpus);
    int64_t replicas = c->gpus / one;
    s->expert_parallel = (uint32_t)published_setup_expert_of(c, s, replicas * s->context_parallel);
    s->microbatch_size = microbatch_of(c, replicas);
    s->batch = c->global_batch;
    if (s->batch < 1)
        s->batch = replicas * s->microbatch_size * one_of(c->microbatches, 1);
    if (s->batch % (replicas * s->microbatch_size) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "a batch of %" PRId64 " samples is not a multiple of %" PRId64
                         " replicas x microbatch size %" PRId64,
                         s->batch, replicas, s->microbatch_size);
    return STATUS_OK;
}

/* Embedding and head count as layers where the row says so, or where only then stages are equal. */
static void set_layout(const struct published_config *c, struct setup *s)
{
    int64_t stages = s->pipeline * s->chunks;
    bool slots = c->layout && strstr(c->layout, "slots");
    if (stages > 1 && s->words.stages.first_layers == 0 && s->words.stages.last_layers == 0 &&
        !(s->words.stages.layout && *s->words.stages.layout))
        s->words.stages.count_embedding = s->words.stages.count_head =
            slots || (c->layers % stages != 0 && (c->layers + 2) % stages == 0);
    s->words.stages.uneven = 1;
}

/* Gradients of parameters: buckets of Megatron's size where they are summed meanwhile. */
static enum status set_sums(const struct published_config *c, struct setup *s)
{
    const struct published_source *source = published_source(c);
    bool pure = c->reduce && strcmp(c->reduce, "PURE") == 0;
    int64_t zero;
    PASS(published_zero(c, &zero));
    s->zero = (uint32_t)zero;
    if (s->zero == 3 && c->pp > 1 && source->framework &&
        strcmp(source->framework, "compiled") == 0)
        s->zero = 1; /* torchtitan gathers and sums once per iteration where there are stages */
    setup_set_sums(s, pure                                               ? 16
                      : source->reduce_bits > 0                          ? source->reduce_bits
                      : (c->reduce && strcmp(c->reduce, "DEFAULT") == 0) ? 32
                                                                         : s->bits);
    if (c->arguments > 0)
        return STATUS_OK;
    s->bucket_bytes = source->overlap || s->zero >= 2 ? INT64_C(80000000) : 0;
    s->zero_keep = source->overlap && s->zero == 1;
    return STATUS_OK;
}

static enum status set_plan(const struct published_config *c, struct setup *s)
{
    const struct published_source *source = published_source(c);
    bool tensor = c->tp > 1;
    PASS(set_degrees(c, s));
    set_layout(c, s);
    PASS(set_sums(c, s));
    if (!c->recompute || c->arguments == 0)
        PASS(published_recompute(c, s));
    s->schedule = NULL;
    if (c->arguments == 0)
        s->sequence_parallel =
            tensor && (c->sequence_parallel == SAID_YES ||
                       (c->sequence_parallel == SAID_NOTHING && source->sequence));
    if (c->arguments == 0)
        s->tensor_overlap =
            s->sequence_parallel && (source->tensor_overlap || c->async_tp == SAID_YES ||
                                     (c->tp_overlap && strcmp(c->tp_overlap, "True") == 0));
    return STATUS_OK;
}

/* What options of Megatron mean that its dialect does not read. */
static enum status read_rest(const struct published_config *c, struct setup *s)
{
    for (size_t i = 0; i < c->arguments; i++) {
        const char *name = c->argument[i].name, *value = c->argument[i].value;
        if (strncmp(name, "--rl-", 5) == 0)
            return error_set(STATUS_UNSUPPORTED, "inference beside training");
        if (strcmp(name, "--transformer-impl") == 0 && value && strcmp(value, "local") == 0)
            s->plain_attention = 1;
    }
    return STATUS_OK;
}

enum status published_setup(const struct published_config *c, struct setup *s)
{
    if (c->task && strstr(c->task, "lora"))
        return error_set(STATUS_UNSUPPORTED, "frozen parameters (LoRA)");
    if (c->arguments > 0)
        PASS(published_setup_read_arguments(c, s));
    PASS(read_rest(c, s));
    PASS(set_model(c, s));
    PASS(set_plan(c, s));
    return setup_settle(s, c->gpus);
}

enum status published_model(const struct published_config *c, struct setup *s, struct model *m)
{
    struct architecture a;
    (void)c;
    const struct architecture_choice choice = {
        .tokens = s->tokens, .dtype = (enum data_type)s->dtype, .flash = !s->plain_attention};
    PASS(setup_architecture(s, &a));
    return architecture_build(&a, &choice, "published", m);
}

/* A stage ends behind the layer with which the products so far are more than its share; the last
 * one alone may have none. */
static int64_t layers_by_work(const struct published_config *c, int64_t stage, int64_t from)
{
    double head = (double)c->vocab / (double)(4 * c->hidden + 3 * c->ffn);
    double share = ((double)c->layers + head) / (double)c->pp;
    int64_t to = from + 1, most = c->layers - (c->pp - 2 - stage);
    while (to < most && (double)to <= share * (double)(stage + 1))
        to++;
    return stage + 1 < c->pp ? to - from : c->layers - from;
}

/* Layers of stages, where the row gives them one by one, or its framework divides work. */
static enum status set_cut(const struct published_config *c, struct setup *s)
{
    struct file_text f = {0};
    bool by_work = c->cuts < 2 && c->pp > 1 && published_source(c)->cut_by_work;
    size_t stages = by_work ? (size_t)c->pp : c->cuts;
    int64_t from = 0;
    if (stages < 2)
        return STATUS_OK;
    PASS(file_text_open(&f));
    for (size_t i = 0; i < stages; i++) {
        int64_t layers = by_work ? layers_by_work(c, (int64_t)i, from) : c->cut[i];
        from += layers;
        fputs(i > 0 ? "|" : "E", f.stream);
        if (layers > 0)
            fprintf(f.stream, "t*%" PRId64, layers);
    }
    fputs("L", f.stream);
    return keys_keep(s->keys, &f, &s->words.stages.layout);
}

enum status published_plan(const struct published_config *c, struct setup *s, const struct model *m,
                           const struct topology *t, const char *framework, struct plan *p)
{
    const struct published_source *source = published_source(c);
    const struct constants shipped = constants_shipped();
    char own[PUBLISHED_PLATFORM];
    if (!framework && !source->framework)
        return error_set(STATUS_UNSUPPORTED, "the framework is not known: %.60s",
                         c->framework ? c->framework : "a row or its source says \"framework\"");
    PASS(set_cut(c, s));
    PASS(setup_to_plan(s, m, t, p));
    p->p2p_scatter = source->scatter && s->pipeline > 1 && s->tensor_parallel > 1;
    p->zero_keep |= p->zero == 3 && s->pipeline > 1; /* FSDP in pipelines does not gather again */
    if (p->reduce_dtype == DATA_ANY && m->element_bytes == 2) /* which constants were fitted to */
        p->reduce_dtype = DATA_bf16;
    published_framework(c, &shipped, own);
    return plan_set_framework(p, framework ? framework : own);
}
