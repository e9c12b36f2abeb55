#include "model/families.h"

#include <inttypes.h>
#include <stdio.h>

#include "model/layers.h"

/* Width of the feed-forward layer in units of `hidden`: 4 in both papers. */
enum { EXPANSION = 4 };
/* Numbers of a patch of 4 x 4 pixels in three colours. */
enum { PATCH = 48 };

/* What all layers of one transformer have in common. */
struct shape {
    int64_t layers, hidden, heads, tokens, vocabulary, positions, bits;
    bool flash;
};

static enum status check_shape(const struct shape *s)
{
    if (s->hidden % s->heads != 0)
        return error_set(STATUS_INVALID, "hidden=%" PRId64 " is not divisible by heads=%" PRId64,
                         s->hidden, s->heads);
    if (s->bits % 16 != 0)
        return error_set(STATUS_INVALID, "bits=%" PRId64 ": there are 16 and 32", s->bits);
    return STATUS_OK;
}

static enum status read_shape(const int64_t *value, struct shape *out)
{
    struct shape s = {
        .layers = value[TRANSFORMER_LAYERS],
        .hidden = value[TRANSFORMER_HIDDEN],
        .heads = value[TRANSFORMER_HEADS],
        .tokens = value[TRANSFORMER_TOKENS],
        .vocabulary = value[TRANSFORMER_VOCABULARY],
        .positions = value[TRANSFORMER_POSITIONS],
        .bits = value[TRANSFORMER_BITS],
        .flash = value[TRANSFORMER_FLASH],
    };
    enum status st = check_shape(&s);
    if (st != STATUS_OK)
        return st;
    if (s.positions == 0)
        s.positions = s.tokens;
    if (s.positions < s.tokens)
        return error_set(STATUS_INVALID, "positions=%" PRId64 " are fewer than tokens=%" PRId64,
                         s.positions, s.tokens);
    *out = s;
    return STATUS_OK;
}

static uint32_t dense(struct graph *g, const char *name, uint32_t x, const struct shape *s,
                      int64_t in, int64_t out, enum model_tensor tensor)
{
    return layer_linear(g, name, x,
                        &(struct linear_shape){s->tokens, in, out, true, MODEL_NO_OP, tensor});
}

/* Multi-head attention with its projections, without norm and residual. */
static uint32_t attention(struct graph *g, uint32_t x, const struct shape *s, bool causal)
{
    x = dense(g, "attn.qkv", x, s, s->hidden, 3 * s->hidden, TENSOR_COLUMN);
    x = layer_attention(g, "attn", x, s->tokens, s->hidden, s->heads, causal, s->flash);
    return dense(g, "attn.proj", x, s, s->hidden, s->hidden, TENSOR_ROW);
}

static uint32_t feed_forward(struct graph *g, uint32_t x, const struct shape *s)
{
    x = dense(g, "mlp.fc", x, s, s->hidden, EXPANSION * s->hidden, TENSOR_COLUMN);
    x = layer_gelu(g, "mlp.gelu", x, s->tokens, EXPANSION * s->hidden, TENSOR_SPLIT);
    return dense(g, "mlp.proj", x, s, EXPANSION * s->hidden, s->hidden, TENSOR_ROW);
}

static uint32_t norm(struct graph *g, const char *name, uint32_t x, const struct shape *s)
{
    return layer_norm(g, name, x, s->tokens, s->hidden);
}

static uint32_t residual(struct graph *g, const char *name, uint32_t stream, uint32_t branch,
                         const struct shape *s)
{
    return layer_residual(g, name, stream, branch, s->tokens, s->hidden);
}

static uint32_t experts(struct graph *g, uint32_t x, const struct experts_shape *e)
{
    return layer_experts(g, "moe.experts", x, layer_gate(g, "moe.gate", x, e), e);
}

/* e NULL: with a feed-forward layer. */
static uint32_t post_norm_layer(struct graph *g, uint32_t x, const struct shape *s,
                                const struct experts_shape *e, bool causal)
{
    x = residual(g, "attn.residual", x, attention(g, x, s, causal), s);
    x = norm(g, "ln1", x, s);
    x = e ? residual(g, "moe.residual", x, experts(g, x, e), s)
          : residual(g, "mlp.residual", x, feed_forward(g, x, s), s);
    return norm(g, "ln2", x, s);
}

enum status zoo_gpt(const int64_t *value, struct model *out)
{
    struct graph g = {.model = {.element_bytes = 4}};
    struct shape s;
    enum status st = read_shape(value, &s);
    if (st != STATUS_OK)
        return st;
    g.model.tokens_per_sample = (double)s.tokens;
    g.model.element_bytes = s.bits / 8;

    uint32_t table = layer_embedding(&g, "embedding",
                                     &(struct embedding_shape){.tokens = s.tokens,
                                                               .channels = s.hidden,
                                                               .vocabulary = s.vocabulary,
                                                               .positions = s.positions});
    uint32_t x = table;
    for (int64_t i = 0; i < s.layers; i++) {
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = residual(&g, "attn.residual", x, attention(&g, norm(&g, "ln1", x, &s), &s, true), &s);
        x = residual(&g, "mlp.residual", x, feed_forward(&g, norm(&g, "ln2", x, &s), &s), &s);
    }
    g.prefix[0] = '\0';
    x = norm(&g, "ln_f", x, &s);
    x = layer_linear(&g, "head", x,
                     &(struct linear_shape){s.tokens, s.hidden, s.vocabulary, false,
                                            value[GPT_TIED] ? table : MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, s.tokens, s.vocabulary, false);
    return graph_finish(&g, "gpt", "GPT-2 architecture (Radford et al., 2019)", out);
}

enum status zoo_bert(const int64_t *value, struct model *out)
{
    struct graph g = {.model = {.element_bytes = 4}};
    struct shape s;
    enum status st = read_shape(value, &s);
    if (st != STATUS_OK)
        return st;
    g.model.tokens_per_sample = (double)s.tokens;
    g.model.element_bytes = s.bits / 8;

    uint32_t table = layer_embedding(&g, "embedding",
                                     &(struct embedding_shape){.tokens = s.tokens,
                                                               .channels = s.hidden,
                                                               .vocabulary = s.vocabulary,
                                                               .positions = s.positions,
                                                               .types = 2});
    uint32_t x = norm(&g, "embedding.ln", table, &s);
    for (int64_t i = 0; i < s.layers; i++) {
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = post_norm_layer(&g, x, &s, NULL, false);
    }
    snprintf(g.prefix, sizeof g.prefix, "mlm.");
    x = dense(&g, "dense", x, &s, s.hidden, s.hidden, TENSOR_WHOLE);
    x = layer_gelu(&g, "gelu", x, s.tokens, s.hidden, TENSOR_WHOLE);
    x = norm(&g, "ln", x, &s);
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

static struct shape plain_shape(const int64_t *value)
{
    return (struct shape){.layers = value[EXPERTS_LAYERS],
                          .hidden = value[EXPERTS_HIDDEN],
                          .heads = value[EXPERTS_HEADS],
                          .tokens = value[EXPERTS_TOKENS],
                          .vocabulary = value[EXPERTS_VOCABULARY],
                          .bits = value[EXPERTS_BITS],
                          .flash = value[EXPERTS_FLASH]};
}

/* Tokens come from the shape: an image has one more than patches. */
static enum status read_experts(const int64_t *value, const struct shape *s,
                                struct experts_shape *out)
{
    *out = (struct experts_shape){.tokens = s->tokens,
                                  .channels = s->hidden,
                                  .inner = EXPANSION * s->hidden,
                                  .experts = value[EXPERTS_EXPERTS],
                                  .top_k = value[EXPERTS_TOP_K],
                                  .capacity = value[EXPERTS_CAPACITY],
                                  .group = value[EXPERTS_GROUP],
                                  .einsum = value[EXPERTS_EINSUM]};
    if (out->top_k > out->experts)
        return error_set(STATUS_INVALID, "top_k=%" PRId64 " of experts=%" PRId64, out->top_k,
                         out->experts);
    return STATUS_OK;
}

static enum status language_model(const struct shape *s, const struct experts_shape *e,
                                  struct model *out)
{
    struct graph g = {.model = {.element_bytes = s->bits / 8}};
    enum status st = check_shape(s);
    if (st != STATUS_OK)
        return st;
    g.model.tokens_per_sample = (double)s->tokens;
    uint32_t x = layer_embedding(&g, "embedding",
                                 &(struct embedding_shape){.tokens = s->tokens,
                                                           .channels = s->hidden,
                                                           .vocabulary = s->vocabulary});
    x = encoder(&g, x, s, e, true);
    x = dense(&g, "decoder", x, s, s->hidden, s->vocabulary, TENSOR_COLUMN);
    layer_loss(&g, "loss", x, s->tokens, s->vocabulary, false);
    return graph_finish(&g, "r", "BERT-like language model of HiDup (Zhang et al., 2022)", out);
}

static enum status classifier(const struct shape *s, const struct experts_shape *e,
                              struct model *out)
{
    struct graph g = {.model = {.element_bytes = s->bits / 8}};
    enum status st = check_shape(s);
    if (st != STATUS_OK)
        return st;
    uint32_t x = layer_patches(&g, "patches", s->tokens, s->hidden, PATCH);
    x = encoder(&g, x, s, e, false);
    x = layer_linear(
        &g, "decoder", x,
        &(struct linear_shape){1, s->hidden, s->vocabulary, true, MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, 1, s->vocabulary, false);
    return graph_finish(&g, "v", "ViT-like classifier of HiDup (Zhang et al., 2022)", out);
}

enum status zoo_r_plain(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    return language_model(&s, NULL, out);
}

enum status zoo_r_experts(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    struct experts_shape e;
    enum status st = read_experts(value, &s, &e);
    return st == STATUS_OK ? language_model(&s, &e, out) : st;
}

enum status zoo_v_plain(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    s.tokens++; /* the class token */
    return classifier(&s, NULL, out);
}

enum status zoo_v_experts(const int64_t *value, struct model *out)
{
    struct shape s = plain_shape(value);
    struct experts_shape e;
    s.tokens++;
    enum status st = read_experts(value, &s, &e);
    return st == STATUS_OK ? classifier(&s, &e, out) : st;
}
