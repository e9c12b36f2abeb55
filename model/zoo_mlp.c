#include "model/families.h"

#include <stdio.h>

#include "model/layers.h"

enum status zoo_mlp(const int64_t *value, struct model *out)
{
    struct graph g = {.model = {.element_bytes = 4, .tokens_per_sample = 1}};
    int64_t hidden = value[MLP_HIDDEN], width = value[MLP_TOKENS] * value[MLP_CHANNELS];

    uint32_t x = layer_embedding(&g, "embedding",
                                 &(struct embedding_shape){.tokens = value[MLP_TOKENS],
                                                           .channels = value[MLP_CHANNELS],
                                                           .vocabulary = value[MLP_VOCABULARY],
                                                           .concat = true});
    for (int64_t i = 0; i < value[MLP_LAYERS]; i++) {
        snprintf(g.prefix, sizeof g.prefix, "h%d.", (int)i);
        x = layer_linear(&g, "linear", x,
                         &(struct linear_shape){1, width, hidden, true, MODEL_NO_OP, TENSOR_WHOLE});
        x = layer_gelu(&g, "gelu", x, 1, hidden, TENSOR_WHOLE);
        width = hidden;
    }
    g.prefix[0] = '\0';
    x = layer_linear(
        &g, "head", x,
        &(struct linear_shape){1, width, value[MLP_VOCABULARY], true, MODEL_NO_OP, TENSOR_WHOLE});
    layer_loss(&g, "loss", x, 1, value[MLP_VOCABULARY], false);
    return graph_finish(&g, "mlp", "next-token MLP over a context window", out);
}
