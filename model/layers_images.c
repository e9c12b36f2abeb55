/* Layers of networks for images, and layers of imported models of whatever kind; formulas of
 * layers.h. */
#include "model/layers.h"

/* What follows from where the windows are. */
static struct convolution_shape with_windows(const struct convolution_shape *s)
{
    struct convolution_shape c = *s;
    if (s->at.kernel == 0)
        return c;
    c.window = s->at.kernel * s->at.kernel;
    c.read = s->at.height * s->at.width;
    c.written = windows_along(&s->at, s->at.height) * windows_along(&s->at, s->at.width);
    return c;
}

uint32_t layer_convolution(struct graph *g, const char *name, uint32_t in,
                           const struct convolution_shape *shape)
{
    int64_t e = g->model.element_bytes;
    const struct convolution_shape known = with_windows(shape), *s = &known;
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
                                          {s->transposed      ? "transposed"
                                           : s->at.kernel > 0 ? "height"
                                                              : NULL,
                                           s->transposed ? 1 : s->at.height},
                                          {"width", s->at.width},
                                          {"kernel", s->at.kernel},
                                          {"stride", s->at.stride},
                                          {"padding", s->at.padding}},
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

/* A comparison for each number of a window, or a sum; the gradient goes back in as many steps. */
uint32_t layer_pool(struct graph *g, const char *name, uint32_t in, int64_t channels,
                    const struct window_shape *w, bool average)
{
    int64_t e = g->model.element_bytes, read = channels * w->height * w->width;
    int64_t written = channels * windows_along(w, w->height) * windows_along(w, w->width);
    double work = (double)written * (double)(w->kernel * w->kernel);
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "pool",
                            .attribute = {{"channels", channels},
                                          {"height", w->height},
                                          {"width", w->width},
                                          {"kernel", w->kernel},
                                          {"stride", w->stride},
                                          {"padding", w->padding},
                                          {"average", average}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = work,
                            .backward_flop = work,
                            .forward_bytes = (double)((read + written) * e),
                            .backward_bytes = (double)(((average ? 1 : 2) * read + written) * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = written * e,
                            .output_bytes = written * e,
                        });
}

uint32_t layer_relu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, enum model_tensor tensor)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "relu",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)size,
                            .backward_flop = (double)size,
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .shares = MODEL_NO_OP,
                            .tensor = tensor,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_groupnorm(struct graph *g, const char *name, uint32_t in, int64_t channels,
                         int64_t positions, int64_t groups)
{
    enum { FORWARD = 7, BACKWARD = 13 };
    int64_t e = g->model.element_bytes, size = channels * positions;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "groupnorm",
               .attribute = {{"channels", channels}, {"positions", positions}, {"groups", groups}},
               .inputs = 1,
               .input = {in},
               .forward_flop = (double)FORWARD * (double)size,
               .backward_flop = (double)BACKWARD * (double)size,
               .forward_bytes = (double)(2 * size * e),
               .backward_bytes = (double)(3 * size * e),
               .parameter_bytes = 2 * channels * e,
               .shares = MODEL_NO_OP,
               .stash_bytes = (size + 2 * groups) * e,
               .output_bytes = size * e,
           });
}

uint32_t layer_silu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "silu",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)((GATED_FORWARD - 1) * size),
                            .backward_flop = (double)((GATED_BACKWARD - 2) * size),
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_upsample(struct graph *g, const char *name, uint32_t in, int64_t channels,
                        int64_t height, int64_t width)
{
    enum { COPIES = 4 };
    int64_t e = g->model.element_bytes, size = channels * height * width;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "upsample",
               .attribute = {{"channels", channels}, {"height", height}, {"width", width}},
               .inputs = 1,
               .input = {in},
               .backward_flop = (double)((COPIES - 1) * size),
               .forward_bytes = (double)((1 + COPIES) * size * e),
               .backward_bytes = (double)((1 + COPIES) * size * e),
               .shares = MODEL_NO_OP,
               .stash_bytes = COPIES * size * e,
               .output_bytes = COPIES * size * e,
           });
}

uint32_t layer_add_row(struct graph *g, const char *name, uint32_t in, uint32_t row, int64_t tokens,
                       int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "add_row",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 2,
                            .input = {in, row},
                            .forward_flop = (double)size,
                            .backward_flop = (double)size,
                            .forward_bytes = (double)((2 * size + channels) * e),
                            .backward_bytes = (double)((2 * size + channels) * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}
