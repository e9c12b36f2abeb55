#include "model/families.h"

#include <inttypes.h>
#include <stdio.h>

#include "model/layers.h"

/* Width of the feed-forward layer in units of `hidden`: 4 in both papers. */
enum { EXPANSION = 4 };

/* What all layers of one transformer have in common. */
struct shape {
    int64_t layers, hidden, heads, tokens, vocabulary, positions, bits;
    bool flash;
};

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
    if (s.hidden % s.heads != 0)
        return error_set(STATUS_INVALID, "hidden=%" PRId64 " is not divisible by heads=%" PRId64,
                         s.hidden, s.heads);
    if (s.bits % 16 != 0)
        return error_set(STATUS_INVALID, "bits=%" PRId64 ": there are 16 and 32", s.bits);
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
        x = residual(&g, "attn.residual", x, attention(&g, x, &s, false), &s);
        x = norm(&g, "ln1", x, &s);
        x = residual(&g, "mlp.residual", x, feed_forward(&g, x, &s), &s);
        x = norm(&g, "ln2", x, &s);
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
