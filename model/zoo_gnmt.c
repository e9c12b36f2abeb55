/* GNMT: a stack of LSTMs reads a text, another one writes, and attends to what the first has made.
 * Wu et al., 2016, arXiv:1609.08144, with what a text without translation asks for: both read the
 * same tokens, nobody reads ahead of the token that is to be predicted (attention is causal; the
 * reader's first layer reads both ways, as theirs, only with bidirectional=1), and scores are
 * products of vectors. */
#include "model/zoo.h"

#include <stdio.h>

#include "model/layers.h"

enum { LAYERS, HIDDEN, TOKENS, VOCABULARY, BIDIRECTIONAL, PARAMETERS };

static const struct zoo_parameter gnmt[] = {
    [LAYERS] = {"layers", "layers of the encoder, and as many of the decoder", 4, 1, 100},
    [HIDDEN] = {"hidden", "LSTM cells per layer", 1024, 1, 65536},
    [TOKENS] = {"tokens", "tokens per sample", 50, 1, 65536},
    [VOCABULARY] = {"vocabulary", "different tokens", 32320, 256, 1 << 24},
    [BIDIRECTIONAL] = {"bidirectional", "1: the first encoder layer is bidirectional", 0, 0, 1},
};

static uint32_t add_table(struct graph *g, const char *name, const int64_t *value)
{
    return layer_embedding(g, name,
                           &(struct embedding_shape){.tokens = value[TOKENS],
                                                     .channels = value[HIDDEN],
                                                     .vocabulary = value[VOCABULARY]});
}

static uint32_t gnmt_add_product(struct graph *g, const char *name, uint32_t in,
                                 const int64_t *value, int64_t times)
{
    return layer_linear(g, name, in,
                        &(struct linear_shape){value[TOKENS], value[HIDDEN], times * value[HIDDEN],
                                               true, MODEL_NO_OP, TENSOR_WHOLE});
}

/* Layers first .. last - 1, each of what the one before made and (context) of what was attended to
 * beside it, added to that from layer 2 on. */
static uint32_t add_stack(struct graph *g, const char *block, uint32_t x, uint32_t context,
                          int64_t first, const int64_t *value)
{
    int64_t tokens = value[TOKENS], hidden = value[HIDDEN];
    for (int64_t k = first; k < value[LAYERS]; k++) {
        bool both = context != MODEL_NO_OP || (k == 1 && value[BIDIRECTIONAL]);
        uint32_t in = x;
        snprintf(g->prefix, sizeof g->prefix, "%s%d.", block, (int)k);
        if (context != MODEL_NO_OP)
            in = layer_concat(g, "concat", x, context, tokens, hidden, hidden);
        in = layer_lstm(g, "lstm", in, tokens, both ? 2 * hidden : hidden, hidden);
        if (k == 0 && value[BIDIRECTIONAL])
            in = layer_concat(g, "both", in,
                              layer_lstm_reverse(g, "reverse", x, tokens, hidden, hidden), tokens,
                              hidden, hidden);
        x = k >= 2 ? layer_residual(g, "residual", x, in, tokens, hidden) : in;
    }
    return x;
}

/* Queries are the writer's first layer; keys and values the reader's last. */
static uint32_t gnmt_attend(struct graph *g, uint32_t queries, uint32_t read, const int64_t *value)
{
    int64_t tokens = value[TOKENS], hidden = value[HIDDEN];
    const struct attention_shape s = {.tokens = tokens,
                                      .heads = 1,
                                      .kv_heads = 1,
                                      .head = hidden,
                                      .value = hidden,
                                      .causal = true};
    uint32_t q = gnmt_add_product(g, "attn.q", queries, value, 1);
    uint32_t kv = gnmt_add_product(g, "attn.kv", read, value, 2);
    uint32_t both = layer_concat(g, "attn.concat", q, kv, tokens, hidden, 2 * hidden);
    return layer_attention(g, "attn", both, MODEL_NO_OP, &s);
}

static enum status build_gnmt(const int64_t *value, struct model *out)
{
    if (value[BIDIRECTIONAL] && value[LAYERS] < 2)
        return error_set(STATUS_INVALID, "bidirectional=1 needs layers=2 or more");
    struct graph g = graph_begin(DATA_fp32);
    int64_t first[PARAMETERS] = {1, value[HIDDEN], value[TOKENS], value[VOCABULARY]};
    g.model.tokens_per_sample = (double)value[TOKENS];
    uint32_t read = add_stack(&g, "e", add_table(&g, "reader", value), MODEL_NO_OP, 0, value);
    g.prefix[0] = '\0';
    uint32_t x = add_stack(&g, "d", add_table(&g, "writer", value), MODEL_NO_OP, 0, first);
    uint32_t context = gnmt_attend(&g, x, read, value);
    x = add_stack(&g, "d", x, context, 1, value);
    g.prefix[0] = '\0';
    x = layer_linear(&g, "head", x,
                     &(struct linear_shape){value[TOKENS], value[HIDDEN], value[VOCABULARY], true,
                                            MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, value[TOKENS], value[VOCABULARY], false);
    return graph_finish(&g, "gnmt", "LSTMs that read and LSTMs that write, attending", out);
}

const struct zoo_entry zoo_gnmt = {
    "gnmt", "GNMT: LSTM encoder, and LSTM decoder with attention", PARAMETERS, gnmt, build_gnmt,
    NULL};
