/* Multi-layer perceptron: next-token prediction from a window of `tokens` embedded tokens:
 * [linear, gelu] x layers, linear. A sample is one window; one token is predicted.
 *
 * Over tensor shards hidden layers go in pairs: the first is divided by its outputs, the second by
 * its inputs, and their sum is whole again; one that is left over is whole. The head is divided by
 * the vocabulary. */
#include "model/zoo.h"

#include <stdio.h>

#include "model/layers.h"

enum { MLP_LAYERS, MLP_HIDDEN, MLP_TOKENS, MLP_CHANNELS, MLP_VOCABULARY, MLP_PARAMETERS };

static const struct zoo_parameter mlp[] = {
    [MLP_LAYERS] = {"layers", "hidden layers", 4, 1, 10000},
    [MLP_HIDDEN] = {"hidden", "width of the hidden layers", 512, 1, 131072},
    [MLP_TOKENS] = {"tokens", "context window, tokens", 16, 1, 65536},
    [MLP_CHANNELS] = {"channels", "embedding width per token", 64, 1, 65536},
    [MLP_VOCABULARY] = {"vocabulary", "different tokens", 256, 2, 16777216},
};

static enum status build_mlp(const int64_t *value, struct model *out)
{
    struct graph g = graph_begin(DATA_fp32);
    g.model.tokens_per_sample = 1;
    int64_t hidden = value[MLP_HIDDEN], width = value[MLP_TOKENS] * value[MLP_CHANNELS];

    uint32_t x = layer_embedding(&g, "embedding",
                                 &(struct embedding_shape){.tokens = value[MLP_TOKENS],
                                                           .channels = value[MLP_CHANNELS],
                                                           .vocabulary = value[MLP_VOCABULARY],
                                                           .concat = true});
    for (int64_t i = 0; i < value[MLP_LAYERS]; i++) {
        bool second = i % 2 == 1, first = !second && i + 1 < value[MLP_LAYERS];
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = layer_linear(&g, "linear", x,
                         &(struct linear_shape){1, width, hidden, true, MODEL_NO_OP,
                                                first    ? TENSOR_COLUMN
                                                : second ? TENSOR_ROW
                                                         : TENSOR_WHOLE});
        x = layer_gelu(&g, "gelu", x, 1, hidden, first ? TENSOR_SPLIT : TENSOR_WHOLE);
        width = hidden;
    }
    g.prefix[0] = '\0';
    x = layer_linear(
        &g, "head", x,
        &(struct linear_shape){1, width, value[MLP_VOCABULARY], true, MODEL_NO_OP, TENSOR_COLUMN});
    layer_loss(&g, "loss", x, 1, value[MLP_VOCABULARY], false);
    return graph_finish(&g, "mlp", "next-token MLP over a context window", out);
}

const struct zoo_entry zoo_mlp = {
    "mlp", "multi-layer perceptron over a window of bytes", MLP_PARAMETERS, mlp, build_mlp, NULL};
