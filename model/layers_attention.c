/* Layers of attention, and what came with the models of its kind since 2020: rotary positions,
 * RMSNorm, gated activations; formulas of layers.h. */
#include "model/layers.h"

/* Operations per number: rmsnorm: square and sum 2, scaling 1, weight 1; backward: gradient of the
 * weight 2, normalised input again 1, chain rule 6. rope: two products and a sum. */
enum {
    RMS_FORWARD = 4,
    RMS_BACKWARD = 9,
    ROPE_OPERATIONS = 3,
    EXPONENT = 4 /* bytes of the logarithm of a row's sum, which flash attention keeps */
};

/* Pairs of tokens whose score is computed. */
static double pairs(const struct attention_shape *s)
{
    double t = (double)s->tokens, w = (double)s->window;
    if (s->memory)
        return t * (double)s->memory;
    if (!s->flash || !s->causal)
        return t * t;
    return s->window > 0 && s->window < s->tokens ? w * t - w * (w - 1) / 2 : t * (t + 1) / 2;
}

uint32_t layer_distances(struct graph *g, const char *name, int64_t rows, int64_t channels)
{
    int64_t e = g->model.element_bytes, size = rows * channels;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "distances",
                            .attribute = {{"rows", rows}, {"channels", channels}},
                            .backward_flop = (double)size,
                            .forward_bytes = (double)(2 * size * e),
                            .backward_bytes = (double)(3 * size * e),
                            .parameter_bytes = size * e,
                            .shares = MODEL_NO_OP,
                            .stash_bytes = size * e,
                            .output_bytes = size * e,
                        });
}

uint32_t layer_distance_keys(struct graph *g, const char *name, uint32_t in,
                             const struct linear_shape *s, int64_t biases)
{
    int64_t e = g->model.element_bytes, weights = s->in * s->out;
    int64_t read = s->tokens * s->in, written = s->tokens * s->out;
    double work = 2.0 * (double)s->tokens * (double)weights;
    bool tied = s->tied != MODEL_NO_OP;
    return graph_add(g, &(struct graph_op){
                            .name = name,
                            .kind = "distance_keys",
                            .attribute = {{"rows", s->tokens}, {"in", s->in}, {"out", s->out}},
                            .inputs = 1,
                            .input = {in},
                            .forward_flop = work,
                            .backward_flop = 2 * work,
                            .forward_bytes = (double)((read + written) * e),
                            .backward_bytes = (double)(2 * (read + written) * e),
                            .parameter_bytes = (biases + (tied ? 0 : weights)) * e,
                            .shared_bytes = tied ? weights * e : 0,
                            .shares = s->tied,
                            .tensor = TENSOR_COLUMN,
                            .stash_bytes = written * e,
                            .output_bytes = written * e,
                        });
}

/* Attributes are named only where they say something: plain ones have tokens, channels, heads. */
uint32_t layer_attention(struct graph *g, const char *name, uint32_t qkv, uint32_t other,
                         const struct attention_shape *s)
{
    int64_t e = g->model.element_bytes, seen = s->memory ? s->memory : s->tokens;
    int64_t q = s->tokens * s->heads * s->head, out = s->tokens * s->heads * s->value;
    int64_t kv = seen * s->kv_heads * (s->head + s->value);
    int64_t square = s->flash ? 0 : s->heads * s->tokens * seen;
    int64_t sums = s->flash ? s->heads * s->tokens * EXPONENT : 0;
    int64_t distant = s->terms * s->distances * s->heads; /* scores of a token with distances */
    double work = 2.0 * pairs(s) * (double)(s->heads * (s->head + s->value)) +
                  2.0 * (double)s->tokens * (double)distant * (double)s->head;
    struct graph_op op = {
        .name = name,
        .kind = "attention",
        .attribute = {{"tokens", s->tokens},
                      {"channels", s->heads * s->value},
                      {"heads", s->heads},
                      {"causal", s->causal}},
        .inputs = other == MODEL_NO_OP ? 1 : 2,
        .input = {qkv, other},
        .forward_flop = work,
        .backward_flop = 2 * work,
        /* unfused: probabilities are written and read again; the backward reads them and writes and
         * reads their gradient; flash reads the output instead */
        .forward_bytes = (double)((q + kv + out + 2 * square) * e + sums),
        .backward_bytes =
            (double)((2 * (q + kv) + (s->flash ? 2 : 1) * out + 3 * square) * e + sums),
        .parameter_bytes = s->learned * e,
        .shares = MODEL_NO_OP,
        .tensor = TENSOR_SPLIT,
        .context_bytes = s->memory ? 0 : kv * e, /* what others' tokens make is not among them */
        .stash_bytes = (out + square) * e + sums,
        .output_bytes = out * e,
    };
    /* those are written, and a part of them is gathered for every pair; backward the same of
     * gradients */
    op.forward_bytes += 2.0 * (double)s->tokens * (double)distant * (double)e;
    op.backward_bytes += 4.0 * (double)s->tokens * (double)distant * (double)e;
    struct graph_attribute *a = op.attribute + 4;
    if (s->terms)
        *a++ = (struct graph_attribute){"distances", s->distances};
    if (s->relative)
        *a++ = (struct graph_attribute){"relative", 1};
    if (s->flash)
        *a++ = (struct graph_attribute){"flash", 1};
    if (s->kv_heads != s->heads)
        *a++ = (struct graph_attribute){"kv_heads", s->kv_heads};
    if (s->head != s->value)
        *a++ = (struct graph_attribute){"head", s->head};
    if (s->window > 0 && s->window < s->tokens)
        *a++ = (struct graph_attribute){"window", s->window};
    if (s->memory)
        *a++ = (struct graph_attribute){"memory", s->memory};
    if (s->learned)
        *a++ = (struct graph_attribute){"learned", s->learned};
    if (s->sinks)
        *a++ = (struct graph_attribute){"sinks", 1};
    return graph_add(g, &op);
}

uint32_t layer_rope(struct graph *g, const char *name, uint32_t qkv,
                    const struct attention_shape *s)
{
    int64_t e = g->model.element_bytes, turned = s->tokens * (s->heads + s->kv_heads) * s->head;
    int64_t size = turned + s->tokens * s->kv_heads * s->value;
    return graph_add(g,
                     &(struct graph_op){
                         .name = name,
                         .kind = "rope",
                         .attribute = {{"tokens", s->tokens},
                                       {"heads", s->heads},
                                       {"kv_heads", s->kv_heads},
                                       {"head", s->head},
                                       {s->base > 0 && s->base != 10000 ? "base" : NULL, s->base}},
                         .inputs = 1,
                         .input = {qkv},
                         .forward_flop = (double)(ROPE_OPERATIONS * turned),
                         .backward_flop = (double)(ROPE_OPERATIONS * turned),
                         .forward_bytes = (double)(2 * turned * e),
                         .backward_bytes = (double)(2 * turned * e),
                         .shares = MODEL_NO_OP,
                         .tensor = TENSOR_SPLIT,
                         .stash_bytes = size * e,
                         .output_bytes = size * e,
                     });
}

uint32_t layer_rope_latent(struct graph *g, const char *name, uint32_t queries, uint32_t keys,
                           const struct attention_shape *s)
{
    int64_t e = g->model.element_bytes, wide = s->heads * s->head, shared = s->turned;
    int64_t turned = s->tokens * (s->heads + 1) * s->turned;
    int64_t size = s->tokens * (2 * wide + s->heads * s->value);
    /* queries and keys are written anew; values stay where they are */
    int64_t moved = s->tokens * (3 * wide + wide - s->heads * shared + shared);
    return graph_add(g,
                     &(struct graph_op){
                         .name = name,
                         .kind = "rope",
                         .attribute = {{"tokens", s->tokens},
                                       {"heads", s->heads},
                                       {"kv_heads", s->heads},
                                       {"head", s->head},
                                       {"turned", s->turned},
                                       {"value", s->value},
                                       {s->base > 0 && s->base != 10000 ? "base" : NULL, s->base}},
                         .inputs = 2,
                         .input = {queries, keys},
                         .forward_flop = (double)(ROPE_OPERATIONS * turned),
                         /* and the sum of the gradients of what heads share */
                         .backward_flop = (double)(ROPE_OPERATIONS * turned + turned),
                         .forward_bytes = (double)(moved * e),
                         .backward_bytes = (double)(moved * e),
                         .shares = MODEL_NO_OP,
                         .tensor = TENSOR_SPLIT,
                         .stash_bytes = size * e,
                         .output_bytes = size * e,
                     });
}

uint32_t layer_rmsnorm(struct graph *g, const char *name, uint32_t in, const struct rms_shape *s)
{
    int64_t e = g->model.element_bytes, size = s->tokens * s->channels, all = s->tokens * s->width;
    int64_t parts = s->queries > 0 && s->queries < s->channels ? 2 : 1;
    int64_t units = s->head > 0 ? s->channels / s->head : parts; /* with a root each */
    int64_t rows = s->tokens * units;
    struct graph_op op = {
        .name = name,
        .kind = "rmsnorm",
        .attribute = {{"tokens", s->tokens}, {"channels", s->width}},
        .inputs = 1,
        .input = {in},
        .forward_flop = (double)(RMS_FORWARD * size),
        .backward_flop = (double)(RMS_BACKWARD * size),
        .forward_bytes = (double)((2 * size + rows) * e),
        .backward_bytes = (double)((3 * size + rows) * e),
        .parameter_bytes = (s->head > 0 ? parts * s->head : s->channels) * e,
        .shares = MODEL_NO_OP,
        .stash_bytes = (all + rows) * e,
        .output_bytes = all * e,
    };
    struct graph_attribute *a = op.attribute + 2;
    if (s->channels != s->width)
        *a++ = (struct graph_attribute){"of", s->channels};
    if (s->queries > 0)
        *a++ = (struct graph_attribute){"queries", s->queries};
    if (s->head > 0)
        *a++ = (struct graph_attribute){"head", s->head};
    if (s->offset)
        *a++ = (struct graph_attribute){"offset", 1};
    return graph_add(g, &op);
}

uint32_t layer_gated(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                     int64_t channels, bool tanh, enum model_tensor tensor)
{
    int64_t e = g->model.element_bytes, size = tokens * channels;
    return graph_add(
        g, &(struct graph_op){
               .name = name,
               .kind = "gated",
               .attribute = {{"tokens", tokens}, {"channels", channels}, {tanh ? "tanh" : NULL, 1}},
               .inputs = 1,
               .input = {in},
               .forward_flop = (double)(GATED_FORWARD * size),
               .backward_flop = (double)(GATED_BACKWARD * size),
               .forward_bytes = (double)(3 * size * e),
               .backward_bytes = (double)(5 * size * e),
               .shares = MODEL_NO_OP,
               .tensor = tensor,
               .stash_bytes = size * e,
               .output_bytes = size * e,
           });
}
