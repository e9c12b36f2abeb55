/* layers.h - the layers of zoo models: attributes, parameters, work, memory. All formulas are here.
 *
 * A sample is T tokens; activations are (T, C) row-major, numbers as wide as the
 * model's parameters; every layer appends one op.
 * Work counts multiplications and additions apart (a multiply-add is 2 FLOP):
 *   - linear: 2 T in out forward, twice that backward (gradients of input and of weight). Kaplan et
 *     al., "Scaling Laws for Neural Language Models" (2020), section 2.1.
 *   - attention: 4 C per token and token attended to forward (scores and weighted values), twice
 *     that backward; the full square T^2 unless it is `flash`. Narayanan et al., SC 2021.
 *   - experts: the two products of a feed-forward layer over all slots; docs/reference/models.md.
 *   - element-wise layers: operations per element, counted off the formula; their time is set by
 *     the memory traffic.
 * Traffic counts each tensor once per matrix product or element-wise pass that touches it,
 * parameters apart (core/cost/cost.h adds them). Stash: the op's own output and what it must
 * remember; its inputs are the outputs of its producers and counted there. docs/reference/models.md
 * has the table. */
#ifndef MODEL_LAYERS_H
#define MODEL_LAYERS_H

#include <stdbool.h>

#include "model/graph.h"

/* Operations per number of element-wise work, counted off the formulas.
 *
 * gelu (tanh form: Hendrycks & Gimpel, 2016): 0.5 x (1 + tanh(a (x + b x^3))); the derivative has
 * the same tanh plus its own product rule. gated (SiLU): exponential, sum, quotient, two products,
 * sign; the derivative has it again. */
enum layer_work { GELU_FORWARD = 9, GELU_BACKWARD = 18, GATED_FORWARD = 6, GATED_BACKWARD = 12 };

struct embedding_shape {
    int64_t tokens, channels, vocabulary;
    int64_t positions; /* rows of the position table, 0: none */
    int64_t types;     /* rows of the segment table, of which row 0 is added; 0: none */
    bool concat;       /* the output is one row of tokens * channels */
    bool scaled;       /* rows of tokens count sqrt(channels) times */
};

/* A matrix product with (out, in) weights; `tied` instead of own weights: those of an embedding. */
struct linear_shape {
    int64_t tokens, in, out;
    bool bias;
    uint32_t tied; /* op that owns the (out, in) weights, or MODEL_NO_OP */
    enum model_tensor tensor;
};

uint32_t layer_embedding(struct graph *g, const char *name, const struct embedding_shape *s);
/* Rows of a table that op `table`, an embedding of as many channels, owns. */
uint32_t layer_lookup(struct graph *g, const char *name, uint32_t table, int64_t tokens,
                      int64_t channels, int64_t vocabulary);
/* A learned row of `rows` ones, by the token's position, is added, and the first of those of
 * `types` segments, if there are any. */
uint32_t layer_positions(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                         int64_t channels, int64_t rows, int64_t types);
/* Where a token stands on a page: rows of x and y of two corners, of height and width are added, of
 * four tables of `rows` rows each. Xu et al., LayoutLM, KDD 2020. */
uint32_t layer_layout(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels, int64_t rows);
/* The real part of a Fourier transform over tokens and channels, which is its own backward. Its
 * work is that of fast transforms: 5 N log2 N of N complex numbers, of real ones half (Frigo and
 * Johnson, Proc. IEEE 93, 2005). */
uint32_t layer_fourier(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                       int64_t channels);
/* Rows of two ops side by side, and a product that makes one such row of both. */
uint32_t layer_join(struct graph *g, const char *name, uint32_t first, uint32_t second,
                    int64_t tokens, int64_t channels);
uint32_t layer_norm(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels);
uint32_t layer_linear(struct graph *g, const char *name, uint32_t in, const struct linear_shape *s);
/* The same of rows with `passes` channels more, which are passed on behind the product's. */
uint32_t layer_linear_passing(struct graph *g, const char *name, uint32_t in,
                              const struct linear_shape *s, int64_t passes);

/* The same with a tied weight of the first channels only; the last `own` of s->in have weights of
 * this op. */
uint32_t layer_linear_joined(struct graph *g, const char *name, uint32_t in,
                             const struct linear_shape *s, int64_t own);

/* The core of attention: scores, their softmax, weighted values. */
struct attention_shape {
    int64_t tokens, heads;
    int64_t kv_heads; /* heads of keys and values, each shared by heads / kv_heads of queries */
    int64_t head;     /* channels of a query's and a key's head, */
    int64_t value;    /* of a value's */
    int64_t window;   /* a token looks back at so many, itself included; 0: at all */
    int64_t memory;   /* tokens that are attended to, where they are others' (op `other`); else 0 */
    int64_t learned;  /* own parameters: sinks, a table of distances */
    int64_t base;     /* of rotary positions; 0: 10000 */
    int64_t turned;   /* channels of a head that these turn, its last ones; 0: all */
    int64_t distances, terms; /* scores with so many distances (op `other`), of so many terms */
    bool causal, flash;
    bool relative; /* distances of Transformer-XL; else of DeBERTa */
    bool sinks; /* `learned` is a score for each head that goes nowhere: Xiao et al., ICLR 2024 */
};
/* A table of distances between tokens, and its rows through a product: into keys, or queries, of
 * all heads. `s`: tokens are the distances, `tied` the op whose weights these are; `biases`
 * numbers. */
uint32_t layer_distances(struct graph *g, const char *name, int64_t rows, int64_t channels);
uint32_t layer_distance_keys(struct graph *g, const char *name, uint32_t in,
                             const struct linear_shape *s, int64_t biases);
/* `qkv` makes rows of queries, keys and values of all heads side by side; or only queries, and
 * `other` (not MODEL_NO_OP) keys and values. `flash`: the (T, T) probabilities stay on the chip and
 * are made again in the backward (Dao et al., NeurIPS 2022), and what is masked is skipped (Dao,
 * FlashAttention-2, 2023): (T + 1) / 2 tokens per token if causal, fewer with a window. */
uint32_t layer_attention(struct graph *g, const char *name, uint32_t qkv, uint32_t other,
                         const struct attention_shape *s);
/* Rotary positions of queries and keys, in place. Su et al., RoFormer, 2021. */
uint32_t layer_rope(struct graph *g, const char *name, uint32_t qkv,
                    const struct attention_shape *s);
/* Latent attention: `queries` makes rows of queries of all heads; `keys` of what is not turned of a
 * key, and its value, head by head, and then the turned part of a key, which all heads share. Makes
 * rows of queries, keys and values. DeepSeek-V2, 2024, section 2.1. */
uint32_t layer_rope_latent(struct graph *g, const char *name, uint32_t queries, uint32_t keys,
                           const struct attention_shape *s);
/* RMSNorm: no mean, no bias. Zhang and Sennrich, NeurIPS 2019. The first `channels` of rows of
 * `width` are normalised: as one, or (queries > 0) the first `queries` of them and the others, each
 * as one or in heads of `head` channels that share weights. */
struct rms_shape {
    int64_t tokens, width, channels, queries, head;
    bool offset; /* weights are 1 + parameter */
};
uint32_t layer_rmsnorm(struct graph *g, const char *name, uint32_t in, const struct rms_shape *s);
/* act(a) * b of rows of a and b side by side, `channels` each; act is silu, or gelu in its tanh
 * form. Shazeer, 2020. */
uint32_t layer_gated(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                     int64_t channels, bool tanh, enum model_tensor tensor);
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
    int64_t groups, group_top; /* a token takes experts of the best group_top groups; 0: of all */
    int64_t scale;             /* of weights, in thousandths; 0: 1000 */
    bool einsum;
    bool over_all;    /* weights are parts of a softmax over all experts, not of one over top_k */
    bool sigmoid;     /* scores are sigmoids; a group is as good as its two best, not its best */
    bool router_bias; /* of each score */
    bool correction;  /* of scores where experts are chosen, but not of weights; not learned */
    bool gated;       /* two products inwards, of which one is activated and gates the other */
    bool clamped;     /* gated: as gpt-oss does it */
    bool unbiased;
};

/* Slots of all experts together, per sample; a (tokens, slots) mask has the slots of the whole
 * group, layer_slots() * group. */
int64_t layer_slots(const struct experts_shape *s);
/* The router: scores of the experts, and which tokens go where. */
uint32_t layer_gate(struct graph *g, const char *name, uint32_t in, const struct experts_shape *s);
/* Rows of `branch` times the sigmoid of a product of the row of `in` with a learned one. */
uint32_t layer_token_gate(struct graph *g, const char *name, uint32_t branch, uint32_t in,
                          int64_t tokens, int64_t channels);
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

/* Windows of kernel x kernel positions of an image, `stride` apart, from `padding` before it on. */
struct window_shape {
    int64_t height, width, kernel, stride, padding;
};
/* How many windows there are along a side of `size` positions. */
static inline int64_t windows_along(const struct window_shape *w, int64_t size)
{
    return (size + 2 * w->padding - w->kernel) / w->stride + 1;
}

/* Products of windows of an input of `in` channels, in `groups` that do not see each other, with
 * weights. */
struct convolution_shape {
    int64_t in, out, groups; /* channels */
    int64_t window;          /* numbers of a kernel for a pair of channels */
    int64_t read, written;   /* positions of a channel */
    bool bias;
    struct window_shape
        at;          /* kernel 0: where windows are is not known, and there are no numerics; else
                             * window, read and written follow from it */
    bool transposed; /* the kernel is put at each position that is read, not written */
};
uint32_t layer_convolution(struct graph *g, const char *name, uint32_t in,
                           const struct convolution_shape *s);
/* Every channel normalised over all its positions in a batch. Ioffe and Szegedy, ICML 2015. */
uint32_t layer_batchnorm(struct graph *g, const char *name, uint32_t in, int64_t channels,
                         int64_t positions);
/* The largest number of each channel in windows, or their mean. */
uint32_t layer_pool(struct graph *g, const char *name, uint32_t in, int64_t channels,
                    const struct window_shape *w, bool average);
uint32_t layer_relu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, enum model_tensor tensor);
/* Rows of two ops side by side. */
uint32_t layer_concat(struct graph *g, const char *name, uint32_t first, uint32_t second,
                      int64_t tokens, int64_t first_channels, int64_t second_channels);
/* Long short-term memory of `out` cells over the tokens of a sample. */
uint32_t layer_lstm(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels, int64_t out);
/* The same from the last token to the first. */
uint32_t layer_lstm_reverse(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                            int64_t channels, int64_t out);
/* Any other layer without weights, whose time is set by memory traffic. */
struct plain_shape {
    const char *kind;
    int64_t read, written;    /* numbers */
    double forward, backward; /* operations, all together */
    bool again;               /* the backward reads what was read once more, for its gradient */
};
uint32_t layer_plain(struct graph *g, const char *name, uint32_t in, const struct plain_shape *s);
/* Softmax cross-entropy of the logits; `masked`: BERT's masked-LM objective, else the next token.
 */
uint32_t layer_loss(struct graph *g, const char *name, uint32_t logits, int64_t tokens,
                    int64_t vocabulary, bool masked);

/* tanh of a product with a bias, of the first token alone. Devlin et al., BERT, 2019. */
uint32_t layer_pooler(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels);
/* A weight and a bias for each channel: a norm without moments. Sun et al., MobileBERT, ACL
 * 2020. */
uint32_t layer_affine(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                      int64_t channels);
/* Rows of the next token, of the token itself and of the one before, side by side; zeros at the
 * ends. */
uint32_t layer_neighbours(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                          int64_t channels);
/* A kernel over neighbouring tokens for every channel; `kernel` is odd. */
uint32_t layer_depthwise(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                         int64_t channels, int64_t kernel);
/* Number by number: the first `channels` of rows of `width`, times rows of as many. */
uint32_t layer_multiply(struct graph *g, const char *name, uint32_t wide, uint32_t in,
                        int64_t tokens, int64_t width, int64_t channels);
/* Every token's own kernel, one for all channels of a head: a softmax of rows of heads * kernel. Wu
 * et al., ICLR 2019; Jiang et al., ConvBERT, NeurIPS 2020. */
struct dynamic_shape {
    int64_t tokens, channels, heads, kernel;
};
uint32_t layer_dynamic(struct graph *g, const char *name, uint32_t kernels, uint32_t values,
                       const struct dynamic_shape *s);
/* Rows for first, first - 1, first - 2, ...: sines and then cosines of it. Vaswani et al., 2017. */
uint32_t layer_sinusoids(struct graph *g, const char *name, int64_t rows, int64_t channels,
                         int64_t first);
/* Channels in `groups`, each normalised over all positions of a sample. Wu and He, ECCV 2018. */
uint32_t layer_groupnorm(struct graph *g, const char *name, uint32_t in, int64_t channels,
                         int64_t positions, int64_t groups);
/* x times its sigmoid. */
uint32_t layer_silu(struct graph *g, const char *name, uint32_t in, int64_t tokens,
                    int64_t channels);
/* Every position of an image four times. */
uint32_t layer_upsample(struct graph *g, const char *name, uint32_t in, int64_t channels,
                        int64_t height, int64_t width);
/* One row is added to all of a sample. */
uint32_t layer_add_row(struct graph *g, const char *name, uint32_t in, uint32_t row, int64_t tokens,
                       int64_t channels);

#endif
