/* Layers of transformers of any family: attention, MLP, experts, norms and residual sums. */
#include <stdio.h>

#include "model/architecture_parts.h"
#include "model/layers.h"

/* ---- small parts */

uint32_t part_norm_of(struct architecture_build *b, const char *name, uint32_t x, int64_t channels)
{
    const struct rms_shape all = {b->tokens, channels, channels, 0, 0, part_has(b, TRAIT_OFFSET)};
    return part_has(b, TRAIT_RMS) ? layer_rmsnorm(&b->g, name, x, &all)
                                  : layer_norm(&b->g, name, x, b->tokens, channels);
}

uint32_t part_norm(struct architecture_build *b, const char *name, uint32_t x)
{
    return part_norm_of(b, name, x, b->a.hidden);
}

uint32_t part_linear(struct architecture_build *b, const char *name, uint32_t x, int64_t in,
                     int64_t out, bool bias, enum model_tensor tensor)
{
    return layer_linear(&b->g, name, x,
                        &(struct linear_shape){b->tokens, in, out, bias, MODEL_NO_OP, tensor});
}

uint32_t part_add(struct architecture_build *b, const char *name, uint32_t stream, uint32_t branch)
{
    return layer_residual(&b->g, name, stream, branch, b->tokens, b->a.hidden);
}

/* ---- attention */

static bool is_windowed(const struct architecture *a, int64_t i)
{
    if (a->listed)
        return a->layer[(size_t)i % a->listed] & LAYER_WINDOWED;
    return a->window.used && i >= a->window.from &&
           (a->window.period == 0 || (i + 1 + a->window.phase) % a->window.period != 0);
}

static struct attention_shape decoder_heads(const struct architecture_build *b, int64_t i)
{
    const struct architecture *a = &b->a;
    return (struct attention_shape){.tokens = b->tokens,
                                    .heads = a->heads,
                                    .kv_heads = a->kv_heads,
                                    .head = a->head,
                                    .value = a->head,
                                    .window = is_windowed(a, i) ? a->window.tokens : 0,
                                    .learned = (part_has(b, TRAIT_SINKS) ? a->heads : 0) +
                                               (i == 0 ? a->buckets * a->heads : 0),
                                    .sinks = part_has(b, TRAIT_SINKS) && a->buckets == 0,
                                    .base = a->base,
                                    .causal = !part_has(b, TRAIT_BOTH_WAYS),
                                    .flash = b->flash};
}

/* Queries, keys and values are made of narrow latents; a part of each key, the one that is rotated,
 * is the same for all heads. DeepSeek-V2, 2024, section 2.1. */
static uint32_t latent_attention(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    struct attention_shape s = decoder_heads(b, 1);
    int64_t q = a->heads * (a->nope + a->rope), kv = a->heads * (a->nope + a->value);
    s.kv_heads = s.heads;
    s.head = a->nope + a->rope;
    s.value = a->value;
    s.turned = a->rope;
    uint32_t queries = x;
    if (a->query_rank > 0) {
        queries =
            part_linear(b, "attn.q_down", x, a->hidden, a->query_rank, a->qkv_bias, TENSOR_WHOLE);
        queries = part_norm_of(b, "attn.q_norm", queries, a->query_rank);
    }
    queries = part_linear(b, "attn.q", queries, a->query_rank > 0 ? a->query_rank : a->hidden, q,
                          false, TENSOR_COLUMN);
    uint32_t latent = part_linear(b, "attn.kv_down", x, a->hidden, a->kv_rank + a->rope,
                                  a->qkv_bias, TENSOR_WHOLE);
    latent = layer_rmsnorm(&b->g, "attn.kv_norm", latent,
                           &(struct rms_shape){.tokens = b->tokens,
                                               .width = a->kv_rank + a->rope,
                                               .channels = a->kv_rank});
    uint32_t keys = layer_linear_passing(
        &b->g, "attn.kv", latent,
        &(struct linear_shape){b->tokens, a->kv_rank, kv, false, MODEL_NO_OP, TENSOR_COLUMN},
        a->rope);
    x = layer_rope_latent(&b->g, "attn.rope", queries, keys, &s);
    x = layer_attention(&b->g, "attn", x, MODEL_NO_OP, &s);
    return part_linear(b, "attn.proj", x, a->heads * a->value, a->hidden, a->out_bias, TENSOR_ROW);
}

/* Scores are also made of contents and distances. He et al., DeBERTa, ICLR 2021, section 3.1. */
static uint32_t distant_attention(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    const int64_t q = a->heads * a->head, e = b->g.model.element_bytes, terms = a->c2p + a->p2c;
    struct attention_shape s = decoder_heads(b, 1);
    uint32_t qkv =
        part_linear(b, "attn.qkv", x, a->hidden, 3 * q, a->qkv_bias || a->qv_bias, TENSOR_COLUMN);
    if (a->qv_bias && b->g.status == STATUS_OK)
        b->g.model.op[qkv].parameter_bytes -= q * e; /* keys have none */
    s.distances = b->distances;
    s.terms = terms;
    uint32_t other = MODEL_NO_OP;
    if (terms > 0)
        other =
            layer_distance_keys(&b->g, "attn.distances", b->distance,
                                &(struct linear_shape){.tokens = b->distances,
                                                       .in = a->hidden,
                                                       .out = terms * q,
                                                       .tied = a->share_key ? qkv : MODEL_NO_OP},
                                a->share_key ? 0 : q * (a->qv_bias ? a->p2c : terms));
    x = layer_attention(&b->g, "attn", qkv, other, &s);
    return part_linear(b, "attn.proj", x, q, a->hidden, a->out_bias, TENSOR_ROW);
}

/* Attention of layer i with its projections, without norm and residual. */
static uint32_t decoder_attention(struct architecture_build *b, uint32_t x, int64_t i)
{
    const struct architecture *a = &b->a;
    const struct attention_shape s = decoder_heads(b, i);
    int64_t q = a->heads * a->head, kv = a->kv_heads * a->head;
    if (a->kv_rank > 0)
        return latent_attention(b, x);
    if (a->relative || a->qv_bias)
        return distant_attention(b, x);
    if (a->sinusoids)
        return part_sinusoid_attention(b, x, i);
    if (a->kernel)
        return part_mixed_attention(b, x);
    x = part_linear(b, "attn.qkv", x, a->hidden, q + 2 * kv, a->qkv_bias, TENSOR_COLUMN);
    if (part_has(b, TRAIT_HEAD_NORM | TRAIT_WIDE_NORM))
        x = layer_rmsnorm(&b->g, "attn.norm", x,
                          &(struct rms_shape){b->tokens, q + 2 * kv, q + kv, q,
                                              part_has(b, TRAIT_HEAD_NORM) ? a->head : 0,
                                              part_has(b, TRAIT_OFFSET)});
    if (part_has(b, TRAIT_ROPE))
        x = layer_rope(&b->g, "attn.rope", x, &s);
    x = layer_attention(&b->g, "attn", x, MODEL_NO_OP, &s);
    return part_linear(b, "attn.proj", x, q, a->hidden, a->out_bias, TENSOR_ROW);
}

/* A decoder's attention to what the encoder has made. */
static uint32_t cross_attention(struct architecture_build *b, uint32_t x, uint32_t encoded)
{
    const struct architecture *a = &b->a;
    struct attention_shape s = decoder_heads(b, 1);
    int64_t q = a->heads * a->head;
    s.memory = b->tokens;
    s.causal = false;
    x = part_linear(b, "cross.q", x, a->hidden, q, a->qkv_bias, TENSOR_COLUMN);
    uint32_t kv = part_linear(b, "cross.kv", encoded, a->hidden, 2 * q, a->qkv_bias, TENSOR_COLUMN);
    x = layer_attention(&b->g, "cross", x, kv, &s);
    return part_linear(b, "cross.proj", x, q, a->hidden, a->out_bias, TENSOR_ROW);
}

/* ---- MLP */

/* Names of the three ops of an MLP. */
struct mlp_names {
    const char *in, *activation, *out;
};

static uint32_t mlp(struct architecture_build *b, const struct mlp_names *name, uint32_t x,
                    int64_t inner)
{
    bool gated = part_has(b, TRAIT_GATED), bias = b->a.mlp_bias;
    x = part_linear(b, name->in, x, b->a.hidden, gated ? 2 * inner : inner, bias, TENSOR_COLUMN);
    x = gated ? layer_gated(&b->g, name->activation, x, b->tokens, inner, part_has(b, TRAIT_TANH),
                            TENSOR_SPLIT)
              : layer_gelu(&b->g, name->activation, x, b->tokens, inner, TENSOR_SPLIT);
    return part_linear(b, name->out, x, inner, b->a.hidden, bias, TENSOR_ROW);
}

static bool is_routed(const struct architecture *a, int64_t i)
{
    bool plain = i < ARCHITECTURE_LAYERS && (a->layer[i] & LAYER_PLAIN);
    return a->experts > 0 && i >= a->first_dense && !plain && a->routed_step > 0 &&
           (i + 1) % a->routed_step == 0;
}

/* Router and experts, and the experts that every token goes to. */
static uint32_t decoder_experts(struct architecture_build *b, uint32_t x)
{
    static const struct mlp_names shared = {"shared.fc", "shared.act", "shared.proj"};
    const struct architecture *a = &b->a;
    bool corrected = part_has(b, TRAIT_ROUTER_BIAS) && part_has(b, TRAIT_SIGMOID);
    const struct experts_shape s = {.tokens = b->tokens,
                                    .channels = a->hidden,
                                    .inner = a->expert_inner,
                                    .experts = a->experts,
                                    .top_k = a->top_k,
                                    .capacity = a->capacity,
                                    .group = 1,
                                    .groups = part_has(b, TRAIT_GREEDY) ? 0 : a->groups,
                                    .group_top = a->group_top,
                                    .scale = a->route_scale,
                                    .over_all = part_has(b, TRAIT_OVER_ALL),
                                    .sigmoid = part_has(b, TRAIT_SIGMOID),
                                    .router_bias = part_has(b, TRAIT_ROUTER_BIAS) && !corrected,
                                    .correction = corrected,
                                    .gated = part_has(b, TRAIT_GATED),
                                    .clamped =
                                        part_has(b, TRAIT_GATED) && part_has(b, TRAIT_EXPERT_BIAS),
                                    .unbiased = !part_has(b, TRAIT_EXPERT_BIAS)};
    uint32_t y = layer_experts(&b->g, "moe.experts", x, layer_gate(&b->g, "moe.gate", x, &s), &s);
    if (a->shared_inner == 0)
        return y;
    uint32_t all = mlp(b, &shared, x, a->shared_inner);
    if (part_has(b, TRAIT_SHARED_GATE))
        all = layer_token_gate(&b->g, "shared.gate", all, x, b->tokens, a->hidden);
    return part_add(b, "moe.sum", y, all);
}

static uint32_t decoder_feed_forward(struct architecture_build *b, uint32_t x, int64_t i)
{
    static const struct mlp_names gated = {"mlp.fc", "mlp.act", "mlp.proj"},
                                  plain = {"mlp.fc", "mlp.gelu", "mlp.proj"};
    if (is_routed(&b->a, i))
        return decoder_experts(b, x);
    return mlp(b, part_has(b, TRAIT_GATED) ? &gated : &plain, x, b->a.inner);
}

/* ---- layers */

/* `y`, made from stream `x`, is added to it, with the norms that come behind. */
static uint32_t decoder_join(struct architecture_build *b, const char *branch, const char *sum,
                             const char *post, uint32_t x, uint32_t y)
{
    if (part_has(b, TRAIT_BRANCH_NORM))
        y = part_norm(b, branch, y);
    x = part_add(b, sum, x, y);
    return part_has(b, TRAIT_POST_NORM) ? part_norm(b, post, x) : x;
}

/* Tokens see each other through a transform, not by attention. Lee-Thorp et al., FNet, NAACL
 * 2022. */
static uint32_t decoder_mix(struct architecture_build *b, uint32_t x, int64_t i)
{
    return part_has(b, TRAIT_FOURIER) ? layer_fourier(&b->g, "fourier", x, b->tokens, b->a.hidden)
                                      : decoder_attention(b, x, i);
}

uint32_t part_layer(struct architecture_build *b, uint32_t x, int64_t i)
{
    bool pre = part_has(b, TRAIT_PRE_NORM);
    if (b->a.bottleneck)
        return part_layer_mobile(b, x);
    uint32_t normed = pre ? part_norm(b, "ln1", x) : x, y = decoder_mix(b, normed, i);
    if (part_has(b, TRAIT_PARALLEL)) {
        uint32_t other = part_has(b, TRAIT_ONE_NORM) ? normed : part_norm(b, "ln2", x);
        x = part_add(b, "attn.residual", x, y);
        return part_add(b, "mlp.residual", x, decoder_feed_forward(b, other, i));
    }
    x = decoder_join(b, "attn.ln", "attn.residual", "ln1", x, y);
    y = decoder_feed_forward(b, pre ? part_norm(b, "ln2", x) : x, i);
    return decoder_join(b, "mlp.ln", "mlp.residual", "ln2", x, y);
}

uint32_t part_decoder_layer(struct architecture_build *b, uint32_t x, uint32_t encoded, int64_t i)
{
    bool pre = part_has(b, TRAIT_PRE_NORM);
    uint32_t y = decoder_attention(b, pre ? part_norm(b, "ln1", x) : x, i);
    x = decoder_join(b, "attn.ln", "attn.residual", "ln1", x, y);
    y = cross_attention(b, pre ? part_norm(b, "ln2", x) : x, encoded);
    x = decoder_join(b, "cross.ln", "cross.residual", "ln2", x, y);
    y = decoder_feed_forward(b, pre ? part_norm(b, "ln3", x) : x, i);
    return decoder_join(b, "mlp.ln", "mlp.residual", "ln3", x, y);
}

void part_prefix(struct architecture_build *b, const char *what, int64_t i)
{
    snprintf(b->g.prefix, sizeof b->g.prefix, "%s%d.", what, (int)i);
}
