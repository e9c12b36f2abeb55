/* Encoders whose layers are put together otherwise: XLNet, ConvBERT, MobileBERT. */
#include <inttypes.h>
#include <stdio.h>

#include "model/architecture_parts.h"
#include "model/layers.h"

/* Where heads see each other's tokens in both directions, without a mask. */
static struct attention_shape encoder_heads(const struct architecture_build *b, int64_t heads,
                                            int64_t head)
{
    return (struct attention_shape){.tokens = b->tokens,
                                    .heads = heads,
                                    .kv_heads = heads,
                                    .head = head,
                                    .value = head,
                                    .flash = b->flash};
}

/* Scores of contents and of distances, which sinusoids stand for; biases of queries for both, and
 * for segments, with two rows of those. Yang et al., XLNet, NeurIPS 2019, with the stream of
 * contents alone; the first layer has the row of the other stream too. Nothing is fused. */
uint32_t part_sinusoid_attention(struct architecture_build *b, uint32_t x, int64_t i)
{
    enum { BIASES = 3, SEGMENTS = 2 };
    const struct architecture *a = &b->a;
    struct attention_shape s = encoder_heads(b, a->heads, a->head);
    s.flash = false;
    s.relative = true;
    s.distances = b->distances;
    s.terms = 1;
    s.learned = (BIASES + SEGMENTS + (i == 0)) * a->hidden;
    x = part_linear(b, "attn.qkv", x, a->hidden, 3 * a->hidden, a->qkv_bias, TENSOR_COLUMN);
    uint32_t distances = layer_linear(&b->g, "attn.distances", b->distance,
                                      &(struct linear_shape){b->distances, a->hidden, a->hidden,
                                                             false, MODEL_NO_OP, TENSOR_COLUMN});
    x = layer_attention(&b->g, "attn", x, distances, &s);
    return part_linear(b, "attn.proj", x, a->hidden, a->hidden, a->out_bias, TENSOR_ROW);
}

/* Half of a row comes from attention of fewer heads, half from kernels over neighbouring tokens
 * that spans of these make. Jiang et al., ConvBERT, NeurIPS 2020, figure 3. */
uint32_t part_mixed_attention(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    const int64_t heads = a->heads > a->head_ratio ? a->heads / a->head_ratio : 1;
    const int64_t head = a->hidden / heads / 2, all = heads * head;
    const struct attention_shape s = encoder_heads(b, heads, head);
    const struct dynamic_shape d = {b->tokens, all, heads, a->kernel};
    uint32_t qkv = part_linear(b, "attn.qkv", x, a->hidden, 3 * all, a->qkv_bias, TENSOR_WHOLE);
    uint32_t span = layer_depthwise(&b->g, "attn.span", x, b->tokens, a->hidden, a->kernel);
    span = part_linear(b, "attn.span.in", span, a->hidden, all, true, TENSOR_WHOLE);
    span = layer_multiply(&b->g, "attn.span.product", qkv, span, b->tokens, 3 * all, all);
    uint32_t kernels =
        part_linear(b, "attn.kernels", span, all, heads * a->kernel, true, TENSOR_WHOLE);
    uint32_t values = part_linear(b, "attn.values", x, a->hidden, all, true, TENSOR_WHOLE);
    values = layer_dynamic(&b->g, "attn.convolution", kernels, values, &d);
    x = layer_attention(&b->g, "attn", qkv, MODEL_NO_OP, &s);
    x = layer_concat(&b->g, "attn.both", x, values, b->tokens, all, all);
    return part_linear(b, "attn.proj", x, 2 * all, a->hidden, a->out_bias, TENSOR_WHOLE);
}

/* ---- MobileBERT: Sun et al., ACL 2020, figure 1 */

/* A product, and the norm without moments of it, or of its sum with `stream`. */
static uint32_t encoder_dense(struct architecture_build *b, const char *name, uint32_t x,
                              uint32_t stream, int64_t in, int64_t out)
{
    char part[48];
    x = part_linear(b, name, x, in, out, true, TENSOR_WHOLE);
    if (stream != MODEL_NO_OP) {
        snprintf(part, sizeof part, "%s.residual", name);
        x = layer_residual(&b->g, part, stream, x, b->tokens, out);
    }
    snprintf(part, sizeof part, "%s.ln", name);
    return layer_affine(&b->g, part, x, b->tokens, out);
}

/* Feed-forward network i of the layer, without the norm behind it. */
static uint32_t encoder_feed_forward(struct architecture_build *b, uint32_t x, int64_t i)
{
    char in[16], relu[16], out[16];
    snprintf(in, sizeof in, "mlp%d.fc", (int)i);
    snprintf(relu, sizeof relu, "mlp%d.relu", (int)i);
    snprintf(out, sizeof out, "mlp%d.proj", (int)i);
    uint32_t y = part_linear(b, in, x, b->a.bottleneck, b->a.inner, true, TENSOR_WHOLE);
    y = layer_relu(&b->g, relu, y, b->tokens, b->a.inner, TENSOR_WHOLE);
    return encoder_dense(b, out, y, x, b->a.inner, b->a.bottleneck);
}

/* Queries and keys are made of one bottleneck, values of the stream itself, and what is added to
 * them is another bottleneck. */
uint32_t part_layer_mobile(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    const int64_t c = a->bottleneck;
    const struct attention_shape s = encoder_heads(b, a->heads, c / a->heads);
    uint32_t narrow = encoder_dense(b, "in", x, MODEL_NO_OP, a->hidden, c);
    uint32_t shared = encoder_dense(b, "attn.in", x, MODEL_NO_OP, a->hidden, c);
    uint32_t qk = part_linear(b, "attn.qk", shared, c, 2 * c, true, TENSOR_WHOLE);
    uint32_t v = part_linear(b, "attn.v", x, a->hidden, c, true, TENSOR_WHOLE);
    uint32_t y = layer_concat(&b->g, "attn.qkv", qk, v, b->tokens, 2 * c, c);
    y = layer_attention(&b->g, "attn", y, MODEL_NO_OP, &s);
    y = encoder_dense(b, "attn.proj", y, narrow, c, c);
    for (int64_t i = 0; i < a->stacked; i++)
        y = encoder_feed_forward(b, y, i);
    return encoder_dense(b, "out", y, x, c, a->hidden);
}

/* Three neighbouring rows of the table make one of the stream. */
uint32_t part_begin_mobile(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    x = layer_neighbours(&b->g, "neighbours", x, b->tokens, a->embedding);
    x = part_linear(b, "embedding.in", x, 3 * a->embedding, a->hidden, true, TENSOR_WHOLE);
    x = layer_positions(&b->g, "positions", x, b->tokens, a->hidden, a->context, a->types);
    return layer_affine(&b->g, "embedding.ln", x, b->tokens, a->hidden);
}

/* The head of masked tokens is the table of tokens and, as that is narrower than the stream,
 * weights of its own. */
void part_end_mobile(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    x = part_linear(b, "dense", x, a->hidden, a->hidden, true, TENSOR_WHOLE);
    x = layer_relu(&b->g, "relu", x, b->tokens, a->hidden, TENSOR_WHOLE);
    x = layer_norm(&b->g, "ln", x, b->tokens, a->hidden);
    x = layer_linear_joined(
        &b->g, "decoder", x,
        &(struct linear_shape){b->tokens, a->hidden, a->vocabulary, true, b->table, TENSOR_WHOLE},
        a->hidden - a->embedding);
    b->g.prefix[0] = '\0';
    layer_loss(&b->g, "loss", x, b->tokens, a->vocabulary, true);
}

enum status part_check_encoders(const struct architecture *a)
{
    const int64_t heads =
        a->head_ratio > 0 && a->heads > a->head_ratio ? a->heads / a->head_ratio : 1;
    if (a->kernel > 0 && (a->head_ratio < 1 || a->kernel % 2 == 0 || a->hidden % (2 * heads) != 0))
        return error_set(STATUS_INVALID,
                         "ConvBERT convolution: got kernel size %" PRId64 ", head ratio %" PRId64
                         ", %" PRId64 " heads and hidden size %" PRId64
                         ", expected an odd kernel size, a head ratio of at least 1 and a hidden "
                         "size divisible by 2 x heads / head ratio",
                         a->kernel, a->head_ratio, a->heads, a->hidden);
    if (a->bottleneck > 0 && (a->bottleneck % a->heads != 0 || a->stacked < 1 ||
                              a->embedding >= a->hidden || a->traits & TRAIT_POOLER))
        return error_set(STATUS_INVALID,
                         "MobileBERT bottleneck: got width %" PRId64 ", %" PRId64 " heads, %" PRId64
                         " feed-forward networks, embedding width %" PRId64
                         " and hidden width %" PRId64
                         ", expected a width divisible by the heads, at least one network, an "
                         "embedding narrower than the hidden width, and no pooler",
                         a->bottleneck, a->heads, a->stacked, a->embedding, a->hidden);
    return STATUS_OK;
}
