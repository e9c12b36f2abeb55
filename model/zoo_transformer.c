/* Transformers: GPT-2 and GPT-3, BERT, and the models with mixtures of experts of HiDup.
 *
 * gpt: pre-LN decoder. Radford et al., "Language Models are Unsupervised Multitask Learners"
 * (2019). bert: post-LN encoder with its masked-LM head. Devlin et al., NAACL 2019. The models
 * of HiDup's evaluation (Zhang et al., SoCC 2022, and its artifact): post-LN encoder layers, of
 * which every second has a mixture of experts in the place of its feed-forward; plain ones have
 * none. r: language model, fixed positions, untied head with a bias. v: classifier of 32 x 32
 * images in patches of 4 x 4, from the class token; a sample is one image of `tokens` patches. */
#include "model/zoo.h"

#include <inttypes.h>
#include <stdio.h>

#include "model/architecture.h"
#include "model/layers.h"

enum {
    TRANSFORMER_LAYERS,
    TRANSFORMER_HIDDEN,
    TRANSFORMER_HEADS,
    TRANSFORMER_TOKENS,
    TRANSFORMER_VOCABULARY,
    TRANSFORMER_POSITIONS,
    TRANSFORMER_DTYPE,
    TRANSFORMER_FLASH,
    TRANSFORMER_PARAMETERS_BERT,
    GPT_TIED = TRANSFORMER_PARAMETERS_BERT,
    TRANSFORMER_PARAMETERS_GPT
};

enum {
    EXPERTS_LAYERS,
    EXPERTS_HIDDEN,
    EXPERTS_HEADS,
    EXPERTS_TOKENS,
    EXPERTS_VOCABULARY,
    EXPERTS_DTYPE,
    EXPERTS_FLASH,
    EXPERTS_INNER,
    EXPERTS_PARAMETERS_PLAIN,
    EXPERTS_EXPERTS = EXPERTS_PARAMETERS_PLAIN,
    EXPERTS_TOP_K,
    EXPERTS_CAPACITY,
    EXPERTS_GROUP,
    EXPERTS_EINSUM,
    EXPERTS_PARAMETERS
};

/* Width of the feed-forward layer in units of `hidden`: 4 in both papers. */
enum { EXPANSION = 4 };
/* Numbers of a patch of 4 x 4 pixels in three colours. */
enum { PATCH = 48 };

/* What all layers of one transformer have in common. */
struct shape {
    int64_t layers, hidden, inner, heads, tokens, vocabulary, positions;
    enum data_type dtype;
    bool flash;
};

/* What no single parameter's range can say. */
static enum status check_shape(const struct shape *s)
{
    if (s->hidden % s->heads != 0)
        return error_set(STATUS_INVALID, "hidden=%" PRId64 " is not divisible by heads=%" PRId64,
                         s->hidden, s->heads);
    return STATUS_OK;
}

static enum status transformer_read_shape(const int64_t *value, struct shape *out)
{
    struct shape s = {
        .layers = value[TRANSFORMER_LAYERS],
        .hidden = value[TRANSFORMER_HIDDEN],
        .inner = EXPANSION * value[TRANSFORMER_HIDDEN],
        .heads = value[TRANSFORMER_HEADS],
        .tokens = value[TRANSFORMER_TOKENS],
        .vocabulary = value[TRANSFORMER_VOCABULARY],
        .positions = value[TRANSFORMER_POSITIONS],
        .dtype = (enum data_type)value[TRANSFORMER_DTYPE],
        .flash = value[TRANSFORMER_FLASH],
    };
    PASS(check_shape(&s));
    if (s.positions == 0)
        s.positions = s.tokens;
    if (s.positions < s.tokens)
        return error_set(STATUS_INVALID,
                         "got positions=%" PRId64 ", expected at least tokens=%" PRId64,
                         s.positions, s.tokens);
    *out = s;
    return STATUS_OK;
}

/* A linear layer with a bias over all tokens. */
static uint32_t transformer_dense(struct graph *g, const char *name, uint32_t x,
                                  const struct shape *s, int64_t in, int64_t out,
                                  enum model_tensor tensor)
{
    return layer_linear(g, name, x,
                        &(struct linear_shape){s->tokens, in, out, true, MODEL_NO_OP, tensor});
}

/* Multi-head attention with its projections, without norm and residual. */
static uint32_t transformer_attention(struct graph *g, uint32_t x, const struct shape *s,
                                      bool causal)
{
    x = transformer_dense(g, "attn.qkv", x, s, s->hidden, 3 * s->hidden, TENSOR_COLUMN);
    x = layer_attention(g, "attn", x, MODEL_NO_OP,
                        &(struct attention_shape){.tokens = s->tokens,
                                                  .heads = s->heads,
                                                  .kv_heads = s->heads,
                                                  .head = s->hidden / s->heads,
                                                  .value = s->hidden / s->heads,
                                                  .causal = causal,
                                                  .flash = s->flash});
    return transformer_dense(g, "attn.proj", x, s, s->hidden, s->hidden, TENSOR_ROW);
}

/* Two products with a gelu between. */
static uint32_t transformer_feed_forward(struct graph *g, uint32_t x, const struct shape *s)
{
    x = transformer_dense(g, "mlp.fc", x, s, s->hidden, s->inner, TENSOR_COLUMN);
    x = layer_gelu(g, "mlp.gelu", x, s->tokens, s->inner, TENSOR_SPLIT);
    return transformer_dense(g, "mlp.proj", x, s, s->inner, s->hidden, TENSOR_ROW);
}

/* Layer norm over the channels of the residual stream. */
static uint32_t transformer_norm(struct graph *g, const char *name, uint32_t x,
                                 const struct shape *s)
{
    return layer_norm(g, name, x, s->tokens, s->hidden);
}

static uint32_t transformer_residual(struct graph *g, const char *name, uint32_t stream,
                                     uint32_t branch, const struct shape *s)
{
    return layer_residual(g, name, stream, branch, s->tokens, s->hidden);
}

/* Router, then experts. */
static uint32_t transformer_experts(struct graph *g, uint32_t x, const struct experts_shape *e)
{
    return layer_experts(g, "moe.experts", x, layer_gate(g, "moe.gate", x, e), e);
}

/* e NULL: with a feed-forward layer. */
static uint32_t post_norm_layer(struct graph *g, uint32_t x, const struct shape *s,
                                const struct experts_shape *e, bool causal)
{
    x = transformer_residual(g, "attn.residual", x, transformer_attention(g, x, s, causal), s);
    x = transformer_norm(g, "ln1", x, s);
    x = e ? transformer_residual(g, "moe.residual", x, transformer_experts(g, x, e), s)
          : transformer_residual(g, "mlp.residual", x, transformer_feed_forward(g, x, s), s);
    return transformer_norm(g, "ln2", x, s);
}

static enum status build_gpt(const int64_t *value, struct model *out)
{
    struct shape s;
    PASS(transformer_read_shape(value, &s));
    struct graph g = graph_begin(s.dtype);
    g.model.tokens_per_sample = (double)s.tokens;

    uint32_t table = layer_embedding(&g, "embedding",
                                     &(struct embedding_shape){.tokens = s.tokens,
                                                               .channels = s.hidden,
                                                               .vocabulary = s.vocabulary,
                                                               .positions = s.positions});
    uint32_t x = table;
    for (int64_t i = 0; i < s.layers; i++) {
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = transformer_residual(
            &g, "attn.residual", x,
            transformer_attention(&g, transformer_norm(&g, "ln1", x, &s), &s, true), &s);
        x = transformer_residual(
            &g, "mlp.residual", x,
            transformer_feed_forward(&g, transformer_norm(&g, "ln2", x, &s), &s), &s);
    }
    g.prefix[0] = '\0';
    x = transformer_norm(&g, "ln_f", x, &s);
    x = layer_linear(&g, "head", x,
                     &(struct linear_shape){s.tokens, s.hidden, s.vocabulary, false,
                                            value[GPT_TIED] ? table : MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, s.tokens, s.vocabulary, false);
    return graph_finish(&g, "gpt", "GPT-2 architecture (Radford et al., 2019)", out);
}

/* The same model as a GPT-2 of model/families.def. */
static enum status describe_gpt(const int64_t *value, struct architecture *a,
                                struct architecture_choice *c)
{
    struct shape s;
    PASS(transformer_read_shape(value, &s));
    *a = family_find("gpt2")->usual;
    a->layers = s.layers;
    a->hidden = s.hidden;
    a->heads = s.heads;
    a->vocabulary = s.vocabulary;
    a->context = s.positions;
    a->tied = value[GPT_TIED];
    *c = (struct architecture_choice){.tokens = s.tokens, .dtype = s.dtype, .flash = s.flash};
    return STATUS_OK;
}

static enum status build_bert(const int64_t *value, struct model *out)
{
    struct shape s;
    PASS(transformer_read_shape(value, &s));
    struct graph g = graph_begin(s.dtype);
    g.model.tokens_per_sample = (double)s.tokens;

    uint32_t table = layer_embedding(&g, "embedding",
                                     &(struct embedding_shape){.tokens = s.tokens,
                                                               .channels = s.hidden,
                                                               .vocabulary = s.vocabulary,
                                                               .positions = s.positions,
                                                               .types = 2});
    uint32_t x = transformer_norm(&g, "embedding.ln", table, &s);
    for (int64_t i = 0; i < s.layers; i++) {
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = post_norm_layer(&g, x, &s, NULL, false);
    }
    snprintf(g.prefix, sizeof g.prefix, "mlm.");
    x = transformer_dense(&g, "dense", x, &s, s.hidden, s.hidden, TENSOR_WHOLE);
    x = layer_gelu(&g, "gelu", x, s.tokens, s.hidden, TENSOR_WHOLE);
    x = transformer_norm(&g, "ln", x, &s);
    x = layer_linear(
        &g, "decoder", x,
        &(struct linear_shape){s.tokens, s.hidden, s.vocabulary, true, table, TENSOR_COLUMN});
    g.prefix[0] = '\0';
    layer_loss(&g, "loss", x, s.tokens, s.vocabulary, true);
    return graph_finish(&g, "bert", "BERT for masked language modelling (Devlin et al., 2019)",
                        out);
}

/* ---- HiDup's models */

/* Layers 1, 3, 5, ... have experts when e is not NULL. */
static uint32_t encoder(struct graph *g, uint32_t x, const struct shape *s,
                        const struct experts_shape *e, bool causal)
{
    for (int64_t i = 0; i < s->layers; i++) {
        snprintf(g->prefix, sizeof g->prefix, "h%d.", (int)i);
        x = post_norm_layer(g, x, s, i % 2 ? e : NULL, causal);
    }
    g->prefix[0] = '\0';
    return x;
}

/* The part of the hyper-parameters that models with and without experts share. */
static struct shape plain_shape(const int64_t *value)
{
    return (struct shape){.layers = value[EXPERTS_LAYERS],
                          .hidden = value[EXPERTS_HIDDEN],
                          .inner = value[EXPERTS_INNER] > 0 ? value[EXPERTS_INNER]
                                                            : EXPANSION * value[EXPERTS_HIDDEN],
                          .heads = value[EXPERTS_HEADS],
                          .tokens = value[EXPERTS_TOKENS],
                          .vocabulary = value[EXPERTS_VOCABULARY],
                          .dtype = (enum data_type)value[EXPERTS_DTYPE],
                          .flash = value[EXPERTS_FLASH]};
}

/* Tokens come from the shape: an image has one more than patches. */
static enum status read_experts(const int64_t *value, const struct shape *s,
                                struct experts_shape *out)
{
    *out = (struct experts_shape){.tokens = s->tokens,
                                  .channels = s->hidden,
                                  .inner = s->inner,
                                  .experts = value[EXPERTS_EXPERTS],
                                  .top_k = value[EXPERTS_TOP_K],
                                  .capacity = value[EXPERTS_CAPACITY],
                                  .group = value[EXPERTS_GROUP],
                                  .einsum = value[EXPERTS_EINSUM],
                                  .over_all = value[EXPERTS_TOP_K] == 1};
    if (out->top_k > out->experts)
        return error_set(STATUS_INVALID, "got top_k=%" PRId64 ", expected at most experts=%" PRId64,
                         out->top_k, out->experts);
    return STATUS_OK;
}

/* Embedding, encoder, untied head with a bias. */
static enum status language_model(const struct shape *s, const struct experts_shape *e,
                                  struct model *out)
{
    PASS(check_shape(s));
    struct graph g = graph_begin(s->dtype);
    g.model.tokens_per_sample = (double)s->tokens;
    uint32_t x = layer_embedding(&g, "embedding",
                                 &(struct embedding_shape){.tokens = s->tokens,
                                                           .channels = s->hidden,
                                                           .vocabulary = s->vocabulary});
    x = encoder(&g, x, s, e, true);
    x = transformer_dense(&g, "decoder", x, s, s->hidden, s->vocabulary, TENSOR_COLUMN);
    layer_loss(&g, "loss", x, s->tokens, s->vocabulary, false);
    return graph_finish(&g, "r", "BERT-like language model of HiDup (Zhang et al., 2022)", out);
}

/* Patches with a class token, encoder, head on that token. */
static enum status classifier(const struct shape *s, const struct experts_shape *e,
                              struct model *out)
{
    PASS(check_shape(s));
    struct graph g = graph_begin(s->dtype);
    uint32_t x = layer_patches(&g, "patches", s->tokens, s->hidden, PATCH);
    x = encoder(&g, x, s, e, false);
    x = layer_linear(
        &g, "decoder", x,
        &(struct linear_shape){1, s->hidden, s->vocabulary, true, MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, 1, s->vocabulary, false);
    return graph_finish(&g, "v", "ViT-like classifier of HiDup (Zhang et al., 2022)", out);
}

static enum status build_r_plain(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    return language_model(&s, NULL, out);
}

static enum status build_r_experts(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    struct experts_shape e;
    enum status st = read_experts(value, &s, &e);
    return st == STATUS_OK ? language_model(&s, &e, out) : st;
}

static enum status build_v_plain(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    s.tokens++; /* the class token */
    return classifier(&s, NULL, out);
}

static enum status build_v_experts(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    struct experts_shape e;
    s.tokens++;
    enum status st = read_experts(value, &s, &e);
    return st == STATUS_OK ? classifier(&s, &e, out) : st;
}

/* ---- rows of the zoo */

#define TRANSFORMER_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, dtype_)                   \
    [TRANSFORMER_LAYERS] = {"layers", "transformer layers", layers_, 1, 10000},                    \
    [TRANSFORMER_HIDDEN] = {"hidden", "channels of the residual stream", hidden_, 1, 131072},      \
    [TRANSFORMER_HEADS] = {"heads", "attention heads; must divide hidden", heads_, 1, 1024},       \
    [TRANSFORMER_TOKENS] = {"tokens", "tokens per sample (sequence length)", tokens_, 1, 1048576}, \
    [TRANSFORMER_VOCABULARY] = {"vocabulary", "different tokens", vocabulary_, 2, 16777216},       \
    [TRANSFORMER_POSITIONS] = {"positions", "rows of the position table; 0: as many as tokens", 0, \
                               0, 1048576},                                                        \
    [TRANSFORMER_DTYPE] = ZOO_DTYPE(dtype_),                                                       \
    [TRANSFORMER_FLASH] = {"flash", "1: fused attention, which stores no (tokens, tokens) matrix", \
                           0, 0, 1}

#define GPT_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, tied_, dtype_)                    \
    TRANSFORMER_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, dtype_),                      \
        [GPT_TIED] = {"tied", "1: the output head shares the embedding's weights", tied_, 0, 1}

/* Shapes: Radford et al. (2019), table 2. */
static const struct zoo_parameter gpt2_small[] = {GPT_ROWS(12, 768, 12, 1024, 50257, 1, DATA_fp32)};
static const struct zoo_parameter gpt2_medium[] = {
    GPT_ROWS(24, 1024, 16, 1024, 50257, 1, DATA_fp32)};
static const struct zoo_parameter gpt2_large[] = {
    GPT_ROWS(36, 1280, 20, 1024, 50257, 1, DATA_fp32)};
static const struct zoo_parameter gpt2_xl[] = {GPT_ROWS(48, 1600, 25, 1024, 50257, 1, DATA_fp32)};
/* Brown et al. (2020), table 2.1, trained in half precision; the 13B model's width of 5140 there is
 * no multiple of its 40 heads: 40 heads of 128 are meant. */
static const struct zoo_parameter gpt3_13b[] = {GPT_ROWS(40, 5120, 40, 2048, 50257, 1, DATA_bf16)};
static const struct zoo_parameter gpt3_175b[] = {
    GPT_ROWS(96, 12288, 96, 2048, 50257, 1, DATA_bf16)};
static const struct zoo_parameter gpt_tiny[] = {GPT_ROWS(4, 128, 4, 128, 256, 0, DATA_fp32)};
/* Devlin et al. (2019), section 3; vocabulary of the uncased models. */
static const struct zoo_parameter bert_base[] = {
    TRANSFORMER_ROWS(12, 768, 12, 512, 30522, DATA_fp32)};
static const struct zoo_parameter bert_large[] = {
    TRANSFORMER_ROWS(24, 1024, 16, 512, 30522, DATA_fp32)};

#define EXPERTS_ROWS(tokens_, token_help_, classes_, class_help_, vocabulary_)                     \
    [EXPERTS_LAYERS] = {"layers", "transformer layers", 8, 1, 10000},                              \
    [EXPERTS_HIDDEN] = {"hidden", "channels of the residual stream", 768, 1, 131072},              \
    [EXPERTS_HEADS] = {"heads", "attention heads; must divide hidden", 12, 1, 1024},               \
    [EXPERTS_TOKENS] = {"tokens", token_help_, tokens_, 1, 16384},                                 \
    [EXPERTS_VOCABULARY] = {classes_, class_help_, vocabulary_, 2, 16777216},                      \
    [EXPERTS_DTYPE] = ZOO_DTYPE(DATA_fp32),                                                        \
    [EXPERTS_FLASH] = {"flash", "1: fused attention, which stores no (tokens, tokens) matrix", 0,  \
                       0, 1},                                                                      \
    [EXPERTS_INNER] = {"inner",                                                                    \
                       "inner channels of feed-forward layers and experts; 0: 4 x hidden", 0, 0,   \
                       1048576}
#define R_ROWS EXPERTS_ROWS(128, "tokens per sample", "vocabulary", "different tokens", 33280)
#define V_ROWS EXPERTS_ROWS(64, "patches of an image", "classes", "of images", 10)
#define ROUTING_ROWS(top_k_)                                                                       \
    [EXPERTS_EXPERTS] = {"experts", "experts per expert layer", 16, 1, 65536},                     \
    [EXPERTS_TOP_K] = {"top_k", "experts per token", top_k_, 1, 64},                               \
    [EXPERTS_CAPACITY] =                                                                           \
        {"capacity", "capacity of an expert, in % of its equal share; 0: no limit and no padding", \
         125, 0, 1000},                                                                            \
    [EXPERTS_GROUP] = {"group", "samples that are routed together", 1, 1, 1024},                   \
    [EXPERTS_EINSUM] = {"einsum", "1: dispatch tokens by matmuls with one-hot masks; 0: by index", \
                        1, 0, 1}

/* Zhang et al., SoCC 2022, artifact, exp/config.py: the language models are trained on WikiText-2,
 * whose 33278 words are rounded up to a multiple of the GPUs, the image models on CIFAR-10; 2
 * experts per GPU, here for 8. */
static const struct zoo_parameter r_plain[] = {R_ROWS}, v_plain[] = {V_ROWS};
static const struct zoo_parameter r_sgmoe[] = {R_ROWS, ROUTING_ROWS(2)};
static const struct zoo_parameter r_switch[] = {R_ROWS, ROUTING_ROWS(1)};
static const struct zoo_parameter v_sgmoe[] = {V_ROWS, ROUTING_ROWS(2)};
static const struct zoo_parameter v_switch[] = {V_ROWS, ROUTING_ROWS(1)};

const struct zoo_entry zoo_gpt_tiny = {"gpt-tiny",
                                       "byte-level GPT that trains in seconds on a laptop",
                                       TRANSFORMER_PARAMETERS_GPT,
                                       gpt_tiny,
                                       build_gpt,
                                       describe_gpt};
const struct zoo_entry zoo_gpt2_small = {"gpt2-small",
                                         "GPT-2, 124 million parameters",
                                         TRANSFORMER_PARAMETERS_GPT,
                                         gpt2_small,
                                         build_gpt,
                                         describe_gpt};
const struct zoo_entry zoo_gpt2_medium = {"gpt2-medium",
                                          "GPT-2, 355 million parameters",
                                          TRANSFORMER_PARAMETERS_GPT,
                                          gpt2_medium,
                                          build_gpt,
                                          describe_gpt};
const struct zoo_entry zoo_gpt2_large = {"gpt2-large",
                                         "GPT-2, 774 million parameters",
                                         TRANSFORMER_PARAMETERS_GPT,
                                         gpt2_large,
                                         build_gpt,
                                         describe_gpt};
const struct zoo_entry zoo_gpt2_xl = {
    "gpt2-xl",   "GPT-2, 1.56 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt2_xl, build_gpt,
    describe_gpt};
const struct zoo_entry zoo_gpt3_13b = {
    "gpt3-13b",  "GPT-3, 12.9 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt3_13b, build_gpt,
    describe_gpt};
const struct zoo_entry zoo_gpt3_175b = {
    "gpt3-175b", "GPT-3, 175 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt3_175b, build_gpt,
    describe_gpt};
const struct zoo_entry zoo_bert_base = {"bert-base",
                                        "BERT with masked-LM head, 110 million parameters",
                                        TRANSFORMER_PARAMETERS_BERT,
                                        bert_base,
                                        build_bert,
                                        NULL};
const struct zoo_entry zoo_bert_large = {"bert-large",
                                         "BERT with masked-LM head, 335 million parameters",
                                         TRANSFORMER_PARAMETERS_BERT,
                                         bert_large,
                                         build_bert,
                                         NULL};
const struct zoo_entry zoo_rtransformer = {"rtransformer",
                                           "BERT-like language model of HiDup",
                                           EXPERTS_PARAMETERS_PLAIN,
                                           r_plain,
                                           build_r_plain,
                                           NULL};
const struct zoo_entry zoo_rmoe = {
    "rmoe",
    "BERT-SGMoE of HiDup: 2 of 16 experts per token in every second layer",
    EXPERTS_PARAMETERS,
    r_sgmoe,
    build_r_experts,
    NULL};
const struct zoo_entry zoo_rswitch = {"rswitch",          "BERT-Switch of HiDup: 1 of 16 experts",
                                      EXPERTS_PARAMETERS, r_switch,
                                      build_r_experts,    NULL};
const struct zoo_entry zoo_vtransformer = {"vtransformer",
                                           "ViT-like classifier of HiDup",
                                           EXPERTS_PARAMETERS_PLAIN,
                                           v_plain,
                                           build_v_plain,
                                           NULL};
const struct zoo_entry zoo_vmoe = {
    "vmoe", "ViT-SGMoE of HiDup: 2 of 16 experts", EXPERTS_PARAMETERS, v_sgmoe, build_v_experts,
    NULL};
const struct zoo_entry zoo_vswitch = {"vswitch",          "ViT-Switch of HiDup: 1 of 16 experts",
                                      EXPERTS_PARAMETERS, v_switch,
                                      build_v_experts,    NULL};
