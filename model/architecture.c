/* Builds the model of a transformer from its hyper-parameters: one place for all families.
 *
 * Ops: embedding, layers "h0.", "h1.", ..., last norm, head, loss; then modules that predict further
 * tokens. graph_keep_needed() goes over the finished graph: outputs that no backward reads are not
 * kept.
 */
#include "model/architecture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/layers.h"

/* The architecture under construction. */
struct build {
    struct graph g;
    struct architecture a; /* without zeros that mean "by rule" */
    int64_t tokens;
    bool flash;
    uint32_t table; /* op with the table of tokens */
};

static bool has(const struct build *b, uint32_t trait)
{
    return (b->a.traits & trait) != 0;
}

/* ---- small parts */

static uint32_t norm_of(struct build *b, const char *name, uint32_t x, int64_t channels)
{
    const struct rms_shape all = {b->tokens, channels, channels, 0, 0, has(b, TRAIT_OFFSET)};
    return has(b, TRAIT_RMS) ? layer_rmsnorm(&b->g, name, x, &all)
                             : layer_norm(&b->g, name, x, b->tokens, channels);
}

static uint32_t norm(struct build *b, const char *name, uint32_t x)
{
    return norm_of(b, name, x, b->a.hidden);
}

static uint32_t linear(struct build *b, const char *name, uint32_t x, int64_t in, int64_t out,
                       bool bias, enum model_tensor tensor)
{
    return layer_linear(&b->g, name, x,
                        &(struct linear_shape){b->tokens, in, out, bias, MODEL_NO_OP, tensor});
}

static uint32_t add(struct build *b, const char *name, uint32_t stream, uint32_t branch)
{
    return layer_residual(&b->g, name, stream, branch, b->tokens, b->a.hidden);
}

/* ---- attention */

static bool is_windowed(const struct architecture *a, int64_t i)
{
    if (a->listed)
        return a->layer[(size_t)i % a->listed] & LAYER_WINDOWED;
    return a->window_used && i >= a->window_from &&
           (a->window_period == 0 || (i + 1 + a->window_phase) % a->window_period != 0);
}

static struct attention_shape heads_of(const struct build *b, int64_t i)
{
    const struct architecture *a = &b->a;
    return (struct attention_shape){.tokens = b->tokens,
                                    .heads = a->heads,
                                    .kv_heads = a->kv_heads,
                                    .head = a->head,
                                    .value = a->head,
                                    .window = is_windowed(a, i) ? a->window : 0,
                                    .learned = (has(b, TRAIT_SINKS) ? a->heads : 0) +
                                               (i == 0 ? a->buckets * a->heads : 0),
                                    .sinks = has(b, TRAIT_SINKS) && a->buckets == 0,
                                    .base = a->base,
                                    .causal = !has(b, TRAIT_BOTH_WAYS),
                                    .flash = b->flash};
}

/* Queries, keys and values are made of narrow latents; a part of each key, the one that is rotated,
 * is the same for all heads. DeepSeek-V2, 2024, section 2.1. */
static uint32_t latent_attention(struct build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    struct attention_shape s = heads_of(b, 1);
    int64_t q = a->heads * (a->nope + a->rope), kv = a->heads * (a->nope + a->value);
    s.kv_heads = s.heads;
    s.head = a->nope + a->rope;
    s.value = a->value;
    s.turned = a->rope;
    uint32_t queries = x;
    if (a->query_rank > 0) {
        queries = linear(b, "attn.q_down", x, a->hidden, a->query_rank, a->qkv_bias, TENSOR_WHOLE);
        queries = norm_of(b, "attn.q_norm", queries, a->query_rank);
    }
    queries = linear(b, "attn.q", queries, a->query_rank > 0 ? a->query_rank : a->hidden, q, false,
                     TENSOR_COLUMN);
    uint32_t latent =
        linear(b, "attn.kv_down", x, a->hidden, a->kv_rank + a->rope, a->qkv_bias, TENSOR_WHOLE);
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
    return linear(b, "attn.proj", x, a->heads * a->value, a->hidden, a->out_bias, TENSOR_ROW);
}

/* Attention of layer i with its projections, without norm and residual. */
static uint32_t attention(struct build *b, uint32_t x, int64_t i)
{
    const struct architecture *a = &b->a;
    const struct attention_shape s = heads_of(b, i);
    int64_t q = a->heads * a->head, kv = a->kv_heads * a->head;
    if (a->kv_rank > 0)
        return latent_attention(b, x);
    x = linear(b, "attn.qkv", x, a->hidden, q + 2 * kv, a->qkv_bias, TENSOR_COLUMN);
    if (has(b, TRAIT_HEAD_NORM | TRAIT_WIDE_NORM))
        x = layer_rmsnorm(&b->g, "attn.norm", x,
                          &(struct rms_shape){b->tokens, q + 2 * kv, q + kv, q,
                                              has(b, TRAIT_HEAD_NORM) ? a->head : 0,
                                              has(b, TRAIT_OFFSET)});
    if (has(b, TRAIT_ROPE))
        x = layer_rope(&b->g, "attn.rope", x, &s);
    x = layer_attention(&b->g, "attn", x, MODEL_NO_OP, &s);
    return linear(b, "attn.proj", x, q, a->hidden, a->out_bias, TENSOR_ROW);
}

/* A decoder's attention to what the encoder has made. */
static uint32_t cross_attention(struct build *b, uint32_t x, uint32_t encoded)
{
    const struct architecture *a = &b->a;
    struct attention_shape s = heads_of(b, 1);
    int64_t q = a->heads * a->head;
    s.memory = b->tokens;
    s.causal = false;
    x = linear(b, "cross.q", x, a->hidden, q, a->qkv_bias, TENSOR_COLUMN);
    uint32_t kv = linear(b, "cross.kv", encoded, a->hidden, 2 * q, a->qkv_bias, TENSOR_COLUMN);
    x = layer_attention(&b->g, "cross", x, kv, &s);
    return linear(b, "cross.proj", x, q, a->hidden, a->out_bias, TENSOR_ROW);
}

/* ---- MLP */

/* Names of the three ops of an MLP. */
struct mlp_names {
    const char *in, *activation, *out;
};

static uint32_t mlp(struct build *b, const struct mlp_names *name, uint32_t x, int64_t inner)
{
    bool gated = has(b, TRAIT_GATED), bias = b->a.mlp_bias;
    x = linear(b, name->in, x, b->a.hidden, gated ? 2 * inner : inner, bias, TENSOR_COLUMN);
    x = gated ? layer_gated(&b->g, name->activation, x, b->tokens, inner, has(b, TRAIT_TANH),
                            TENSOR_SPLIT)
              : layer_gelu(&b->g, name->activation, x, b->tokens, inner, TENSOR_SPLIT);
    return linear(b, name->out, x, inner, b->a.hidden, bias, TENSOR_ROW);
}

static bool is_routed(const struct architecture *a, int64_t i)
{
    bool plain = i < ARCHITECTURE_LAYERS && (a->layer[i] & LAYER_PLAIN);
    return a->experts > 0 && i >= a->first_dense && !plain && a->routed_step > 0 &&
           (i + 1) % a->routed_step == 0;
}

/* Router and experts, and the experts that every token goes to. */
static uint32_t experts(struct build *b, uint32_t x)
{
    static const struct mlp_names shared = {"shared.fc", "shared.act", "shared.proj"};
    const struct architecture *a = &b->a;
    bool corrected = has(b, TRAIT_ROUTER_BIAS) && has(b, TRAIT_SIGMOID);
    const struct experts_shape s = {.tokens = b->tokens,
                                    .channels = a->hidden,
                                    .inner = a->expert_inner,
                                    .experts = a->experts,
                                    .top_k = a->top_k,
                                    .capacity = a->capacity,
                                    .group = 1,
                                    .groups = has(b, TRAIT_GREEDY) ? 0 : a->groups,
                                    .group_top = a->group_top,
                                    .scale = a->route_scale,
                                    .over_all = has(b, TRAIT_OVER_ALL),
                                    .sigmoid = has(b, TRAIT_SIGMOID),
                                    .router_bias = has(b, TRAIT_ROUTER_BIAS) && !corrected,
                                    .correction = corrected,
                                    .gated = has(b, TRAIT_GATED),
                                    .clamped = has(b, TRAIT_GATED) && has(b, TRAIT_EXPERT_BIAS),
                                    .unbiased = !has(b, TRAIT_EXPERT_BIAS)};
    uint32_t y = layer_experts(&b->g, "moe.experts", x, layer_gate(&b->g, "moe.gate", x, &s), &s);
    if (a->shared_inner == 0)
        return y;
    uint32_t all = mlp(b, &shared, x, a->shared_inner);
    if (has(b, TRAIT_SHARED_GATE))
        all = layer_token_gate(&b->g, "shared.gate", all, x, b->tokens, a->hidden);
    return add(b, "moe.sum", y, all);
}

static uint32_t feed_forward(struct build *b, uint32_t x, int64_t i)
{
    static const struct mlp_names gated = {"mlp.fc", "mlp.act", "mlp.proj"},
                                  plain = {"mlp.fc", "mlp.gelu", "mlp.proj"};
    if (is_routed(&b->a, i))
        return experts(b, x);
    return mlp(b, has(b, TRAIT_GATED) ? &gated : &plain, x, b->a.inner);
}

/* ---- layers */

/* `y`, made from stream `x`, is added to it, with the norms that come behind. */
static uint32_t join(struct build *b, const char *branch, const char *sum, const char *post,
                     uint32_t x, uint32_t y)
{
    if (has(b, TRAIT_BRANCH_NORM))
        y = norm(b, branch, y);
    x = add(b, sum, x, y);
    return has(b, TRAIT_POST_NORM) ? norm(b, post, x) : x;
}

static uint32_t layer(struct build *b, uint32_t x, int64_t i)
{
    bool pre = has(b, TRAIT_PRE_NORM);
    uint32_t normed = pre ? norm(b, "ln1", x) : x, y = attention(b, normed, i);
    if (has(b, TRAIT_PARALLEL)) {
        uint32_t other = has(b, TRAIT_ONE_NORM) ? normed : norm(b, "ln2", x);
        x = add(b, "attn.residual", x, y);
        return add(b, "mlp.residual", x, feed_forward(b, other, i));
    }
    x = join(b, "attn.ln", "attn.residual", "ln1", x, y);
    y = feed_forward(b, pre ? norm(b, "ln2", x) : x, i);
    return join(b, "mlp.ln", "mlp.residual", "ln2", x, y);
}

static void prefix(struct build *b, const char *what, int64_t i)
{
    snprintf(b->g.prefix, sizeof b->g.prefix, "%s%d.", what, (int)i);
}

/* ---- the ends */

static uint32_t embed(struct build *b, const char *name)
{
    const struct architecture *a = &b->a;
    bool learned = has(b, TRAIT_POSITIONS);
    return layer_embedding(
        &b->g, name,
        &(struct embedding_shape){
            .tokens = b->tokens,
            .channels = a->embedding,
            .vocabulary = a->vocabulary,
            .positions = learned && a->embedding == a->hidden ? a->context + a->spare : 0,
            .types = a->types,
            .scaled = has(b, TRAIT_SCALED)});
}

/* Tables narrower than the stream are widened; positions are as wide as the stream. */
static uint32_t begin(struct build *b)
{
    const struct architecture *a = &b->a;
    uint32_t x = b->table = embed(b, "embedding");
    if (a->embedding != a->hidden) {
        x = linear(b, "embedding.in", x, a->embedding, a->hidden, false, TENSOR_WHOLE);
        if (has(b, TRAIT_POSITIONS))
            x = layer_positions(&b->g, "positions", x, b->tokens, a->hidden, a->context + a->spare);
    }
    return has(b, TRAIT_EMBEDDING_NORM) ? norm(b, "embedding.ln", x) : x;
}

static uint32_t head(struct build *b, const char *name, uint32_t x)
{
    const struct architecture *a = &b->a;
    return layer_linear(&b->g, name, x,
                        &(struct linear_shape){b->tokens, a->embedding, a->vocabulary, a->head_bias,
                                               a->tied ? b->table : MODEL_NO_OP, TENSOR_COLUMN});
}

/* Each module takes the stream and the embedding of one token further on. DeepSeek-V3, 2024,
 * section 2.2; table and head are the model's. */
static void predict(struct build *b, uint32_t x, uint32_t logits, int64_t i)
{
    const struct architecture *a = &b->a;
    prefix(b, "next", i);
    uint32_t token =
        layer_lookup(&b->g, "embedding", b->table, b->tokens, a->hidden, a->vocabulary);
    uint32_t stream = norm(b, "ln_stream", x);
    token = norm(b, "ln_token", token);
    x = layer_join(&b->g, "join", stream, token, b->tokens, a->hidden);
    x = norm(b, "ln_f", layer(b, x, a->layers));
    x = layer_linear(&b->g, "head", x,
                     &(struct linear_shape){b->tokens, a->hidden, a->vocabulary, false,
                                            a->tied ? b->table : logits, TENSOR_COLUMN});
    layer_loss(&b->g, "loss", x, b->tokens, a->vocabulary, false);
    b->g.prefix[0] = '\0';
}

/* From the stream to the loss over the vocabulary. */
static void end(struct build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    uint32_t stream = x;
    if (!has(b, TRAIT_POST_NORM))
        x = norm(b, "ln_f", x);
    if (a->embedding != a->hidden)
        x = linear(b, "head.out", x, a->hidden, a->embedding, false, TENSOR_WHOLE);
    uint32_t logits = head(b, "head", x);
    layer_loss(&b->g, "loss", logits, b->tokens, a->vocabulary, false);
    for (int64_t i = 0; i < a->predict; i++)
        predict(b, stream, logits, i);
}

/* BERT's ends: its head of masked tokens, or a layer over the first token. Devlin et al., 2019. */
static void end_bert(struct build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    if (has(b, TRAIT_POOLER)) {
        b->tokens = 1;
        linear(b, "pooler", x, a->hidden, a->hidden, true, TENSOR_WHOLE);
        return;
    }
    snprintf(b->g.prefix, sizeof b->g.prefix, "mlm.");
    x = linear(b, "dense", x, a->hidden, a->hidden, true, TENSOR_WHOLE);
    x = layer_gelu(&b->g, "gelu", x, b->tokens, a->hidden, TENSOR_WHOLE);
    x = norm(b, "ln", x);
    b->a.head_bias = 1;
    x = head(b, "decoder", x);
    b->g.prefix[0] = '\0';
    layer_loss(&b->g, "loss", x, b->tokens, a->vocabulary, true);
}

/* ---- whole models */

static void build_decoder(struct build *b)
{
    uint32_t x = begin(b);
    for (int64_t i = 0; i < b->a.layers; i++) {
        prefix(b, "h", i);
        x = layer(b, x, i);
    }
    b->g.prefix[0] = '\0';
    if (has(b, TRAIT_POOLER | TRAIT_MASKED_HEAD))
        end_bert(b, x);
    else
        end(b, x);
}

/* T5: Raffel et al., JMLR 2020. The decoder's tokens are looked up in the same table. */
static void build_encoder_decoder(struct build *b)
{
    const struct architecture *a = &b->a;
    b->a.traits |= TRAIT_BOTH_WAYS;
    uint32_t encoded = begin(b);
    for (int64_t i = 0; i < a->layers; i++) {
        prefix(b, "e", i);
        encoded = layer(b, encoded, i);
    }
    b->g.prefix[0] = '\0';
    encoded = norm(b, "encoder.ln_f", encoded);
    b->a.traits &= ~(uint32_t)TRAIT_BOTH_WAYS;
    uint32_t x =
        layer_lookup(&b->g, "decoder.embedding", b->table, b->tokens, a->hidden, a->vocabulary);
    for (int64_t i = 0; i < a->decoder_layers; i++) {
        prefix(b, "d", i);
        x = add(b, "attn.residual", x, attention(b, norm(b, "ln1", x), i));
        x = add(b, "cross.residual", x, cross_attention(b, norm(b, "ln2", x), encoded));
        x = add(b, "mlp.residual", x, feed_forward(b, norm(b, "ln3", x), i));
    }
    b->g.prefix[0] = '\0';
    end(b, x);
}

/* ViT: Dosovitskiy et al., ICLR 2021. A sample is an image; its tokens are patches and a class. */
static void build_images(struct build *b)
{
    const struct architecture *a = &b->a;
    int64_t across = a->image / a->patch;
    b->tokens = across * across + 1;
    uint32_t x =
        layer_patches(&b->g, "patches", b->tokens, a->hidden, a->patch * a->patch * a->colours);
    for (int64_t i = 0; i < a->layers; i++) {
        prefix(b, "h", i);
        x = layer(b, x, i);
    }
    b->g.prefix[0] = '\0';
    x = norm(b, "ln_f", x);
    b->tokens = 1;
    x = linear(b, "head", x, a->hidden, a->classes, true, TENSOR_COLUMN);
    layer_loss(&b->g, "loss", x, 1, a->classes, false);
}

/* ---- checks */

static enum status check_sizes(const struct architecture *a)
{
    if (a->layers < 1 || a->hidden < 1 || a->heads < 1 || a->head < 1)
        return error_set(STATUS_INVALID,
                         "%" PRId64 " layers of width %" PRId64 " with %" PRId64
                         " heads of %" PRId64 ": at least 1 of each is needed",
                         a->layers, a->hidden, a->heads, a->head);
    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return error_set(STATUS_INVALID,
                         "%" PRId64 " heads cannot share %" PRId64 " heads of keys and values",
                         a->heads, a->kv_heads);
    if (a->experts > 0 ? a->top_k < 1 || a->top_k > a->experts : a->capacity > 0)
        return error_set(STATUS_INVALID, "%" PRId64 " of %" PRId64 " experts per token%s", a->top_k,
                         a->experts, a->experts > 0 ? "" : ", which have no capacity");
    if (a->traits & TRAIT_IMAGES && (a->patch < 1 || a->image < a->patch || a->classes < 1))
        return error_set(STATUS_INVALID,
                         "images of %" PRId64 " in patches of %" PRId64 ", %" PRId64 " classes",
                         a->image, a->patch, a->classes);
    if (a->groups > 1 && !(a->traits & TRAIT_GREEDY) && a->experts > 0 &&
        (a->experts % a->groups != 0 || a->group_top > a->groups ||
         a->group_top * (a->experts / a->groups) < a->top_k))
        return error_set(STATUS_INVALID,
                         "%" PRId64 " experts per token of %" PRId64 " of %" PRId64
                         " groups of %" PRId64 " experts",
                         a->top_k, a->group_top, a->groups, a->experts);
    return a->traits & TRAIT_IMAGES || a->vocabulary >= 2
               ? STATUS_OK
               : error_set(STATUS_INVALID, "a vocabulary of %" PRId64, a->vocabulary);
}

/* Sums of bytes over the model have to fit: far beyond all models, and what a hostile file asks for. */
static enum status check_bytes(const struct model *m)
{
    double bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += (double)m->op[i].parameter_bytes + (double)m->op[i].stash_bytes;
    return bytes <= 1e18 ? STATUS_OK : error_set(STATUS_INVALID, "a model of %.3g bytes", bytes);
}

static int64_t or_else(int64_t value, int64_t rule)
{
    return value > 0 ? value : rule;
}

/* Zeros that mean a rule. */
static enum status complete(struct architecture *a)
{
    if (a->heads < 1)
        return check_sizes(a);
    a->kv_heads = or_else(a->kv_heads, a->heads);
    a->head = or_else(a->head, a->hidden / a->heads);
    a->inner = or_else(a->inner, 4 * a->hidden);
    a->embedding = or_else(a->embedding, a->hidden);
    a->expert_inner = or_else(a->expert_inner, a->inner);
    a->shared_inner = or_else(a->shared_inner, a->shared * a->expert_inner);
    a->decoder_layers = or_else(a->decoder_layers, a->layers);
    a->group_top = or_else(a->group_top, 1);
    a->window_used = a->window_used && a->window > 0;
    return check_sizes(a);
}

enum status architecture_build(const struct architecture *a, const struct architecture_choice *c,
                               const char *name, struct model *out)
{
    enum { USUAL_TOKENS = 4096 };
    enum data_type usual = a->dtype != DATA_ANY ? a->dtype : DATA_fp32;
    struct build b = {
        .g = graph_begin(c->dtype != DATA_ANY ? c->dtype : usual), .a = *a, .flash = c->flash};
    b.a.layers = or_else(c->layers, a->layers), b.a.capacity = or_else(c->capacity, a->capacity);
    PASS(complete(&b.a));
    b.tokens = or_else(c->tokens, b.a.context < USUAL_TOKENS ? b.a.context : USUAL_TOKENS);
    if (has(&b, TRAIT_POSITIONS) && b.tokens > b.a.context)
        return error_set(STATUS_INVALID, "tokens=%" PRId64 ": there are %" PRId64 " positions",
                         b.tokens, b.a.context);
    if (!b.flash && (double)b.tokens * (double)b.tokens * (double)b.a.heads > 1e17)
        return error_set(STATUS_INVALID, "tokens=%" PRId64 ": too many for unfused attention",
                         b.tokens);
    b.g.model.tokens_per_sample = has(&b, TRAIT_IMAGES) ? 0 : (double)b.tokens;
    if (has(&b, TRAIT_IMAGES))
        build_images(&b);
    else if (has(&b, TRAIT_ENCODER_DECODER))
        build_encoder_decoder(&b);
    else
        build_decoder(&b);
    enum status kept = graph_keep_needed(&b.g);
    if (b.g.status == STATUS_OK)
        b.g.status = kept == STATUS_OK ? check_bytes(&b.g.model) : kept;
    return graph_finish(&b.g, name, NULL, out);
}
