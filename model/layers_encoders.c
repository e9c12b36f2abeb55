/* Layers that few encoders have: poolers, norms without moments, bottlenecks, convolutions over
 * tokens, sinusoids; formulas of layers.h. */
#include "model/layers.h"

/* tanh: exponential, sum, difference, quotient. */
enum { TANH = 4, TANH_BACKWARD = 3, SOFTMAX = 4 };

uint32_t layer_pooler(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels)
{
    int64_t e = g->model.element_bytes, weights = channels * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "pooler",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)(2 * weights + TANH * channels),
                            .backward_flop = (double)(4 * weights + TANH_BACKWARD * channels),
                            .forward_bytes = (double)(2 * channels * e),
                            .backward_bytes = (double)((3 + tokens) * channels * e),
                            .parameter_bytes = (weights + channels) * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = channels * e,
                            .output_bytes = channels * e,
                        });
}

uint32_t layer_affine(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "affine",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)(2 * size),
                            .backward_flop = (double)(4 * size),
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .parameter_bytes = 2 * channels * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_neighbours(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                          int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "neighbours",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .backward_flop = (double)(2 * size),
                            .forward_bytes = (double)(4 * size * e),
                            .backward_bytes = (double)(4 * size * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = 3 * size * e,
                            .output_bytes = 3 * size * e,
                        });
}

uint32_t layer_depthwise(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                         int64_t channels, int64_t kernel)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    double work = 2.0 * (double)size * (double)kernel;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "depthwise",
               .attribute = {{"tokens", tokens}, {"channels", channels}, {"kernel", kernel}},
               .inputs = 1,
               .input = {in},
               .forward_flop = work,
               .backward_flop = 2 * work,
               .forward_bytes = (double)(2 * size * e),
               .backward_bytes = (double)(4 * size * e),
               .parameter_bytes = channels * kernel * e,
               .shares = MODEL_NO_OP,
               .stash_bytes = size * e,
               .output_bytes = size * e,
           });
}

uint32_t layer_multiply(struct graph *g, const char *name, uint32_t wide, uint32_t in,
                        int64_t tokens, int64_t width, int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "multiply",
               .attribute = {{"tokens", tokens}, {"width", width}, {"channels", channels}},
               .inputs = 2,
               .input = {wide, in},
               .forward_flop = (double)size,
               .backward_flop = (double)(2 * size),
               .forward_bytes = (double)(3 * size * e),
               .backward_bytes = (double)((4 * size + tokens * width) * e),
               .shares = MODEL_NO_OP,
               .stash_bytes = size * e,
               .output_bytes = size * e,
           });
}

uint32_t layer_dynamic(struct graph *g, const char *name, uint32_t kernels, uint32_t values,
                       const struct dynamic_shape *s)
{
    int64_t e = g->model.element_bytes, size = s->tokens * s->channels;
    int64_t weights = s->tokens * s->heads * s->kernel;
    double work = 2.0 * (double)size * (double)s->kernel + SOFTMAX * (double)weights;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "dynamic_convolution",
                            .attribute = {{"tokens", s->tokens},
                                          {"channels", s->channels},
                                          {"heads", s->heads},
                                          {"kernel", s->kernel}},
                            .inputs = 2,
                            .input = {kernels, values},
                            .forward_flop = work,
                            .backward_flop = 2 * work,
                            .forward_bytes = (double)(2 * (size + weights) * e),
                            .backward_bytes = (double)(3 * (size + weights) * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = (size + weights) * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_sinusoids(struct graph *g, const char *name, int64_t rows, int64_t channels,
                         int64_t first)
{
    int64_t e = g->model.element_bytes, size = rows * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "sinusoids",
                            .attribute = {{"rows", rows}, {"channels", channels}, {"first", first}},
                            .forward_flop = (double)size,
                            .forward_bytes = (double)(size * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}
