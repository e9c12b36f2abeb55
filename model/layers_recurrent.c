/* Layers of recurrent networks; formulas of layers.h. */
#include "model/layers.h"

/* Operations per cell and token besides the products. Forward: three sigmoids of 4, two tangents of
 * 6, four biases, 3 for the cell, 1 for its output. Backward: a tangent again, 6; 1 + 5 for the
 * gradients of output and cell, 4 for those of gates and of the cell before, 3 + 3 + 3 + 4 through
 * the activations. */
enum { GATES = 4, FORWARD = 32, BACKWARD = 29 };

/* Kept besides the output: gates, cell, and room for a gradient. Numbers of the products are
 * written and read once more than gates, of which the backward reads and writes the gradients. */
static struct graph_op lstm(int64_t e, uint32_t in, int64_t tokens, int64_t channels, int64_t out)
{
    enum { KEPT = GATES + 2 };
    int64_t read = tokens * channels, written = tokens * out;
    double work = 2.0 * GATES * (double)written * (double)(channels + out);
    return (struct graph_op){
        .kind = "lstm",
        .attribute = {{"tokens", tokens}, {"in", channels}, {"out", out}},
        .inputs = 1,
        .input = {in},
        .forward_flop = work + FORWARD * (double)written,
        .backward_flop = 2 * work + BACKWARD * (double)written,
        .forward_bytes = (double)((read + (3 * GATES + 3) * written) * e),
        .backward_bytes = (double)((3 * read + (4 * GATES + 7) * written) * e),
        .parameter_bytes = GATES * out * (channels + out + 1) * e,
        .shares = MODEL_NO_OP,
        .stash_bytes = (1 + KEPT) * written * e,
        .output_bytes = written * e,
    };
}

uint32_t layer_lstm(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, int64_t out)
{
    struct graph_op op = lstm(g->model.element_bytes, in, tokens, channels, out);
    op.name = name;
    return graph_add(g, &op);
}

uint32_t layer_lstm_reverse(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                            int64_t channels, int64_t out)
{
    struct graph_op op = lstm(g->model.element_bytes, in, tokens, channels, out);
    op.name = name;
    op.attribute[3] = (struct graph_attribute){"reverse", 1};
    return graph_add(g, &op);
}

uint32_t layer_concat(struct graph *g, const char *name, uint32_t first, uint32_t second,
                      int64_t tokens, int64_t first_channels, int64_t second_channels)
{
    int64_t e = g->model.element_bytes, size = tokens * (first_channels + second_channels);
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "concat",
                            .attribute = {{"tokens", tokens},
                                          {"first", first_channels},
                                          {"second", second_channels}},
                            .inputs = 2,
                            .input = {first, second},
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(2 * size * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}
