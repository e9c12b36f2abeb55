/* Layers of networks for images, and layers of imported models of whatever kind; formulas of layers.h. */
#include "model/layers.h"

uint32_t layer_convolution(struct graph *g, const char *name, uint32_t in,
                           const struct convolution_shape *s)
{
    int64_t e = g->model.element_bytes;
    int64_t weights = s->in / s->groups * s->out * s->window;
    int64_t read = s->in * s->read, written = s->out * s->written;
    double work = 2.0 * (double)weights * (double)(s->transposed ? s->read : s->written);
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "convolution",
                            .attribute = {{"in", s->in},
                                          {"out", s->out},
                                          {"window", s->window},
                                          {"groups", s->groups},
                                          {"read", s->read},
                                          {"written", s->written},
                                          {"bias", s->bias},
                                          {s->transposed ? "transposed" : NULL, 1}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = work,
                            .backward_flop = 2 * work,
                            .forward_bytes = (double)((read + written) * e),
                            .backward_bytes = (double)(2 * (read + written) * e),
                            .parameter_bytes = (weights + (s->bias ? s->out : 0)) * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = written * e,
                            .output_bytes = written * e,
                        });
}

/* As many operations as a layernorm's; means and deviations are of a batch, not of a sample. */
uint32_t layer_batchnorm(struct graph *g, const char *name, uint32_t in, int64_t channels,
                         int64_t positions)
{
    enum { FORWARD = 7, BACKWARD = 13 };
    int64_t e = g->model.element_bytes, size = channels * positions;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "batchnorm",
                            .attribute = {{"channels", channels}, {"positions", positions}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)FORWARD * (double)size,
                            .backward_flop = (double)BACKWARD * (double)size,
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .parameter_bytes = 2 * channels * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_plain(struct graph *g, const char *name, uint32_t in, const struct plain_shape *s)
{
    int64_t e = g->model.element_bytes;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = s->kind,
               .attribute = {{"read", s->read}, {"written", s->written}},
               .inputs = 1,
               .input = {in},
               .forward_flop = s->forward,
               .backward_flop = s->backward,
               .forward_bytes = (double)(s->read + s->written) * (double)e,
               .backward_bytes = (double)(s->written + (s->again ? 2 : 1) * s->read) * (double)e,
               .shares = MODEL_NO_OP,
               .stash_bytes = s->written * e,
               .output_bytes = s->written * e,
           });
}
