/* Layers of zoo models: one op each, with the formulas of layers.h. */
#include "model/layers.h"

#include <math.h>

enum { TOKEN = 4 }; /* bytes of a token id */

/* Operations per element of the element-wise layers.
 *
 * layernorm: mean 1, variance 3, scaling 1, weight and bias 2; backward: gradients of weight 2 and
 *   bias 1, normalised input again 2, chain rule 8.
 * loss: maximum, difference, exponential, sum; backward: the probability again (difference,
 * exponential, product), minus the target, scaled. */
enum { NORM_FORWARD = 7, NORM_BACKWARD = 13, LOSS_FORWARD = 4, LOSS_BACKWARD = 5 };

uint32_t layer_embedding(struct graph *g, const char *name, const struct embedding_shape *s)
{
    int64_t e = g->model.element_bytes;
    int64_t tables = 1 + (s->positions > 0) + (s->types > 0), size = s->tokens * s->channels;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "embedding",
               .attribute = {{"tokens", s->tokens},
                             {"channels", s->channels},
                             {"vocabulary", s->vocabulary},
                             {"positions", s->positions},
                             {"types", s->types},
                             {"concat", s->concat},
                             {s->scaled ? "scaled" : NULL, 1}},
               .forward_flop = (double)((tables - 1) * size),
               .backward_flop = (double)(tables * size),
               .forward_bytes = (double)((tables + 1) * size * e),
               .backward_bytes = (double)((1 + 2 * tables) * size * e),
               .parameter_bytes = (s->vocabulary + s->positions + s->types) * s->channels * e,
               .sparse = true,
               .shares = MODEL_NO_OP,
               .tensor = s->concat ? TENSOR_WHOLE : TENSOR_ROW, /* by rows of the table */
               .stash_bytes = size * e + s->tokens * TOKEN,
               .output_bytes = size * e,
           });
}

uint32_t layer_lookup(struct graph *g, const char *name, uint32_t table, int64_t tokens,
                      int64_t channels, int64_t vocabulary)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "embedding",
                            .attribute = {{"tokens", tokens},
                                          {"channels", channels},
                                          {"vocabulary", vocabulary},
                                          {"borrowed", 1}},
                            .backward_flop = (double)size,
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .shared_bytes = vocabulary * channels * e,
                            .sparse = true,
                            .shares = table,
                            .tensor = TENSOR_ROW,
                            .stash_bytes = size * e + tokens * TOKEN,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_positions(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                         int64_t channels, int64_t rows, int64_t types)
{
    int64_t e = g->model.element_bytes, size = tokens * channels, added = 1 + (types > 0);
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "positions",
                            .attribute = {{"tokens", tokens},
                                          {"channels", channels},
                                          {"positions", rows},
                                          {types > 0 ? "types" : NULL, types}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)(added * size),
                            .backward_flop = (double)(added * size),
                            .forward_bytes = (double)((2 + added) * size * e),
                            .backward_bytes = (double)((1 + 2 * added) * size * e),
                            .parameter_bytes = (rows + types) * channels * e,
                            .sparse = true,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_layout(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels, int64_t rows)
{
    enum { ADDED = 6, TABLES = 4 };
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(g,
                     &(struct graph_op){
                         .name = name,
                         .kind = "layout",
                         .attribute = {{"tokens", tokens}, {"channels", channels}, {"rows", rows}},
                         .inputs = 1,
                         .input = {in},
                         .forward_flop = (double)(ADDED * size),
                         .backward_flop = (double)(ADDED * size),
                         .forward_bytes = (double)((ADDED + 2) * size * e),
                         .backward_bytes = (double)((2 * ADDED + 1) * size * e),
                         .parameter_bytes = TABLES * rows * channels * e,
                         .sparse = true,
                         .shares = MODEL_NO_OP,
                         .stash_bytes = size * e,
                         .output_bytes = size * e,
                     });
}

uint32_t layer_fourier(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                       int64_t channels)
{
    int64_t size = tokens * channels;
    double work = 2.5 * (double)size * log2((double)size);
    return layer_plain(
        g, name, in,
        &(struct plain_shape){
            .kind = "fourier", .read = size, .written = size, .forward = work, .backward = work});
}

uint32_t layer_join(struct graph *g, const char *name, uint32_t first, uint32_t second,
                    int64_t tokens, int64_t channels)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    double work = 4.0 * (double)size * (double)channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "join",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 2,
                            .input = {first, second},
                            .forward_flop = work,
                            .backward_flop = 2 * work,
                            .forward_bytes = (double)(3 * size * e),
                            .backward_bytes = (double)(6 * size * e),
                            .parameter_bytes = 2 * channels * channels * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_norm(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels)
{
    int64_t e = g->model.element_bytes;
    int64_t size = tokens * channels, moments = 2 * tokens;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "layernorm",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)(NORM_FORWARD * size),
                            .backward_flop = (double)(NORM_BACKWARD * size),
                            .forward_bytes = (double)((2 * size + moments) * e),
                            .backward_bytes = (double)((3 * size + moments) * e),
                            .parameter_bytes = 2 * channels * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = (size + moments) * e,
                            .output_bytes = size * e,
                        });
}

static uint32_t layer_add_linear(struct graph *g, const char *name, uint32_t in,
                                 const struct linear_shape *s, int64_t passes, int64_t own)
{
    int64_t e = g->model.element_bytes;
    double work = 2.0 * (double)s->tokens * (double)s->in * (double)s->out;
    int64_t read = s->tokens * s->in, written = s->tokens * s->out;
    int64_t weights = s->in * s->out * e, bias = s->bias ? s->out * e : 0;
    bool tied = s->tied != MODEL_NO_OP;
    int64_t borrowed = tied ? (s->in - own) * s->out * e : 0;
    bool narrow = g->prefix[0] != '\0' && !tied; /* inside a layer: no head */
    int64_t operand = narrow ? graph_operand(g) : e, passed = s->tokens * passes * e;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "linear",
               .attribute = {{"tokens", s->tokens},
                             {"in", s->in},
                             {"out", s->out},
                             {"bias", s->bias},
                             {passes > 0 ? "passes"
                              : own > 0  ? "own"
                                         : NULL,
                              passes + own}},
               .inputs = 1,
               .input = {in},
               .forward_flop = work,
               .backward_flop = 2 * work,
               .forward_bytes = (double)(read * operand + written * e + 2 * passed),
               /* gradients of the output twice and the input once are operands */
               .backward_bytes = (double)((read + 2 * written) * operand + read * e + 2 * passed),
               .parameter_bytes = bias + weights - borrowed,
               .shared_bytes = borrowed,
               .shares = s->tied,
               .tensor = s->tensor,
               .narrow = narrow,
               .stash_bytes = written * e + passed,
               .output_bytes = written * e + passed,
           });
}

uint32_t layer_linear(struct graph *g, const char *name, uint32_t in, const struct linear_shape *s)
{
    return layer_add_linear(g, name, in, s, 0, 0);
}

uint32_t layer_linear_passing(struct graph *g, const char *name, uint32_t in,
                              const struct linear_shape *s, int64_t passes)
{
    return layer_add_linear(g, name, in, s, passes, 0);
}

uint32_t layer_linear_joined(struct graph *g, const char *name, uint32_t in,
                             const struct linear_shape *s, int64_t own)
{
    return layer_add_linear(g, name, in, s, 0, own);
}

uint32_t layer_gelu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, enum model_tensor tensor)
{
    int64_t e = g->model.element_bytes;
    int64_t size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "gelu",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = (double)(GELU_FORWARD * size),
                            .backward_flop = (double)(GELU_BACKWARD * size),
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .shares = MODEL_NO_OP,
                            .tensor = tensor,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_patches(struct graph *g, const char *name, int64_t tokens, int64_t channels,
                       int64_t numbers)
{
    int64_t e = g->model.element_bytes, size = tokens * channels, read = (tokens - 1) * numbers;
    double work = 2.0 * (double)read * (double)channels;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "patches",
               .attribute = {{"tokens", tokens}, {"channels", channels}, {"numbers", numbers}},
               .forward_flop = work + (double)size,
               .backward_flop = work + (double)size, /* an image has no gradient */
               .forward_bytes = (double)((read + 2 * size) * e),
               .backward_bytes = (double)((read + 2 * size) * e),
               .parameter_bytes = (numbers + 2 + tokens) * channels * e, /* bias, class token */
               .shares = MODEL_NO_OP,
               .stash_bytes = (size + read) * e,
               .output_bytes = size * e,
           });
}

uint32_t layer_residual(struct graph *g, const char *name, uint32_t stream, uint32_t branch,
                        int64_t tokens, int64_t channels)
{
    int64_t e = g->model.element_bytes;
    int64_t size = tokens * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "residual",
                            .attribute = {{"tokens", tokens}, {"channels", channels}},
                            .inputs = 2,
                            .input = {stream, branch},
                            .forward_flop = (double)size,
                            /* where the stream forked, two gradients are added */
                            .backward_flop = (double)size,
                            .forward_bytes = (double)(3 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_loss(struct graph *g, const char *name, uint32_t logits, int64_t tokens,
                    int64_t vocabulary, bool masked)
{
    int64_t e = g->model.element_bytes;
    int64_t size = tokens * vocabulary, row_sums = 2 * tokens; /* maximum, sum of exponentials */
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "loss",
               .attribute = {{"tokens", tokens}, {"vocabulary", vocabulary}, {"masked", masked}},
               .inputs = 1,
               .input = {logits},
               .forward_flop = (double)(LOSS_FORWARD * size),
               .backward_flop = (double)(LOSS_BACKWARD * size),
               .forward_bytes = (double)(2 * size * e),
               .backward_bytes = (double)(2 * size * e),
               .shares = MODEL_NO_OP,
               .tensor = TENSOR_SPLIT,
               .stash_bytes = (row_sums + 1) * e,
               .output_bytes = e,
           });
}
