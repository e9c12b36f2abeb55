/* layers.h - the layers of zoo models: attributes, parameters, work, memory. All formulas are here.
 *
 * A sample is T tokens; activations are (T, C) row-major, numbers as wide as the
 * model's parameters; every layer appends one op.
 * Work counts multiplications and additions apart (a multiply-add is 2 FLOP):
 *   - linear: 2 T in out forward, twice that backward (gradients of input and of weight). Kaplan et
 *     al., "Scaling Laws for Neural Language Models" (2020), section 2.1.
 *   - attention: 4 T^2 C forward (scores and weighted values, full square whether causal or not),
 *     twice that backward. Narayanan et al., SC 2021: FLOP per iteration.
 *   - experts: the two products of a feed-forward layer over all slots; docs/models.md.
 *   - element-wise layers: operations per element, counted off the formula; their time is set by
 *     the memory traffic.
 * Traffic counts each tensor once per matrix product or element-wise pass that touches it,
 * parameters apart (core/cost.h adds them). Stash: the op's own output and what it must remember;
 * its inputs are the outputs of its producers and counted there. docs/models.md has the table. */
#ifndef MODEL_LAYERS_H
#define MODEL_LAYERS_H

#include <stdbool.h>

#include "model/graph.h"

struct embedding_shape {
    int64_t tokens, channels, vocabulary;
    int64_t positions; /* rows of the position table, 0: none */
    int64_t types;     /* rows of the segment table, of which row 0 is added; 0: none */
    bool concat;       /* the output is one row of tokens * channels */
};

/* A matrix product with (out, in) weights; `tied` instead of own weights: those of an embedding. */
struct linear_shape {
    int64_t tokens, in, out;
    bool bias;
    uint32_t tied; /* op that owns the (out, in) weights, or MODEL_NO_OP */
    enum model_tensor tensor;
};

uint32_t layer_embedding(struct graph *g, const char *name, const struct embedding_shape *s);
uint32_t layer_norm(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels);
uint32_t layer_linear(struct graph *g, const char *name, uint32_t in, const struct linear_shape *s);
/* `qkv` makes rows of 3 * channels: queries, keys and values of all heads side by side. `flash`:
 * the (T, T) probabilities stay on the chip and are made again in the backward: Dao et al., NeurIPS
 * 2022; FLOP are counted the same. */
uint32_t layer_attention(struct graph *g, const char *name, uint32_t qkv, int64_t tokens,
                         int64_t channels, int64_t heads, bool causal, bool flash);
uint32_t layer_gelu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, enum model_tensor tensor);

/* A feed-forward layer in `experts` copies, each token going to top_k of them. An expert takes at
 * most capacity % of its share, tokens * top_k / experts, rounded up over the `group` samples that
 * are routed together, and always works on as many slots; capacity 0: on exactly what it is given,
 * assumed its share. `einsum`: tokens are put into slots and back by products with (tokens, slots)
 * masks (Lepikhin et al., GShard, ICLR 2021), else by index. */
struct experts_shape {
    int64_t tokens, channels, inner; /* inner: width of an expert */
    int64_t experts, top_k, capacity, group;
    bool einsum;
};

/* Slots of all experts together, per sample; a (tokens, slots) mask has the slots of the whole
 * group, layer_slots() * group. */
int64_t layer_slots(const struct experts_shape *s);
/* The router: scores of the experts, and which tokens go where. */
uint32_t layer_gate(struct graph *g, const char *name, uint32_t in, const struct experts_shape *s);
/* Dispatch, both products of every expert with a gelu between, combine. `exchange_bytes`: the
 * slots. */
uint32_t layer_experts(struct graph *g, const char *name, uint32_t in, uint32_t gate,
                       const struct experts_shape *s);
/* `tokens` - 1 patches of `numbers` numbers, embedded, with a class token before and a position
 * table. Dosovitskiy et al., ICLR 2021. */
uint32_t layer_patches(struct graph *g, const char *name, int64_t tokens, int64_t channels,
                       int64_t numbers);
uint32_t layer_residual(struct graph *g, const char *name, uint32_t stream, uint32_t branch,
                        int64_t tokens, int64_t channels);
/* Softmax cross-entropy of the logits; `masked`: BERT's masked-LM objective, else the next token.
 */
uint32_t layer_loss(struct graph *g, const char *name, uint32_t logits, int64_t tokens,
                    int64_t vocabulary, bool masked);

#endif
