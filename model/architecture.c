/* Builds the model of a transformer from its hyper-parameters: one place for all families.
 *
 * Ops: embedding, layers "h0.", "h1.", ..., last norm, head, loss; then modules that predict
 * further tokens. Layers are in architecture_layers.c. graph_keep_needed() goes over the finished
 * graph: outputs that no backward reads are not kept.
 */
#include "model/architecture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/architecture_parts.h"
#include "model/layers.h"

/* ---- the ends */

static int64_t or_else(int64_t value, int64_t rule)
{
    return value > 0 ? value : rule;
}

static uint32_t embed(struct architecture_build *b, const char *name)
{
    const struct architecture *a = &b->a;
    bool learned = part_has(b, TRAIT_POSITIONS),
         together = a->embedding == a->hidden || part_has(b, TRAIT_NARROW);
    return layer_embedding(
        &b->g, name,
        &(struct embedding_shape){.tokens = b->tokens,
                                  .channels = a->embedding,
                                  .vocabulary = a->vocabulary,
                                  .positions = learned && together ? a->context + a->spare : 0,
                                  .types = a->bottleneck ? 0 : a->types,
                                  .scaled = part_has(b, TRAIT_SCALED)});
}

/* Tables narrower than the stream are widened; positions are as wide as the stream. In families
 * with narrow embeddings those and the norm are as wide as the tables. */
static uint32_t architecture_begin(struct architecture_build *b)
{
    const struct architecture *a = &b->a;
    bool narrow = part_has(b, TRAIT_NARROW), normed = part_has(b, TRAIT_EMBEDDING_NORM);
    uint32_t x = b->table = embed(b, "embedding");
    if (a->bottleneck)
        return part_begin_mobile(b, x);
    if (a->sinusoids) {
        b->distances = 2 * b->tokens;
        b->distance = layer_sinusoids(&b->g, "distances", b->distances, a->hidden, b->tokens);
    }
    if (a->relative) {
        int64_t half = or_else(a->position_buckets, or_else(a->max_distance, a->context));
        b->distances = 2 * half;
        b->distance = layer_distances(&b->g, "distances", b->distances, a->hidden);
        if (a->relative_norm)
            b->distance = layer_norm(&b->g, "distances.ln", b->distance, b->distances, a->hidden);
    }
    if (a->layout > 0)
        x = layer_layout(&b->g, "layout", x, b->tokens, a->hidden, a->layout);
    if (narrow && normed)
        x = part_norm_of(b, "embedding.ln", x, a->embedding);
    if (a->embedding != a->hidden || part_has(b, TRAIT_PROJECTED)) {
        x = part_linear(b, "embedding.in", x, a->embedding, a->hidden, narrow, TENSOR_WHOLE);
        if (part_has(b, TRAIT_POSITIONS) && !narrow)
            x = layer_positions(&b->g, "positions", x, b->tokens, a->hidden, a->context + a->spare,
                                0);
    }
    return !narrow && normed ? part_norm(b, "embedding.ln", x) : x;
}

static uint32_t architecture_add_head(struct architecture_build *b, const char *name, uint32_t x)
{
    const struct architecture *a = &b->a;
    return layer_linear(&b->g, name, x,
                        &(struct linear_shape){b->tokens, a->embedding, a->vocabulary, a->head_bias,
                                               a->tied ? b->table : MODEL_NO_OP, TENSOR_COLUMN});
}

/* Each module takes the stream and the embedding of one token further on. DeepSeek-V3, 2024,
 * section 2.2; table and head are the model's. */
static void architecture_predict_flop(struct architecture_build *b, uint32_t x, uint32_t logits,
                                      int64_t i)
{
    const struct architecture *a = &b->a;
    part_prefix(b, "next", i);
    uint32_t token =
        layer_lookup(&b->g, "embedding", b->table, b->tokens, a->hidden, a->vocabulary);
    uint32_t stream = part_norm(b, "ln_stream", x);
    token = part_norm(b, "ln_token", token);
    x = layer_join(&b->g, "join", stream, token, b->tokens, a->hidden);
    x = part_norm(b, "ln_f", part_layer(b, x, a->layers));
    x = layer_linear(&b->g, "head", x,
                     &(struct linear_shape){b->tokens, a->hidden, a->vocabulary, false,
                                            a->tied ? b->table : logits, TENSOR_COLUMN});
    layer_loss(&b->g, "loss", x, b->tokens, a->vocabulary, false);
    b->g.prefix[0] = '\0';
}

/* From the stream to the loss over the vocabulary. */
static void architecture_end(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    uint32_t stream = x;
    if (!part_has(b, TRAIT_POST_NORM))
        x = part_norm(b, "ln_f", x);
    if (a->embedding != a->hidden)
        x = part_linear(b, "head.out", x, a->hidden, a->embedding, false, TENSOR_WHOLE);
    uint32_t logits = architecture_add_head(b, "head", x);
    layer_loss(&b->g, "loss", logits, b->tokens, a->vocabulary, part_has(b, TRAIT_BOTH_WAYS));
    for (int64_t i = 0; i < a->predict; i++)
        architecture_predict_flop(b, stream, logits, i);
}

/* A layer over the first token, and a head for classes if there is one. */
static void end_pooled(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    x = layer_pooler(&b->g, "pooler", x, b->tokens, a->hidden);
    if (a->classes == 0)
        return;
    b->tokens = 1;
    x = part_linear(b, "classifier", x, a->hidden, a->classes, true, TENSOR_COLUMN);
    layer_loss(&b->g, "loss", x, 1, a->classes, false);
}

/* BERT's ends: its head of masked tokens, or a layer over the first token. Devlin et al., 2019. */
static void end_bert(struct architecture_build *b, uint32_t x)
{
    const struct architecture *a = &b->a;
    if (part_has(b, TRAIT_PRE_NORM))
        x = part_norm(b, "ln_f", x);
    if (part_has(b, TRAIT_POOLER)) {
        end_pooled(b, x);
        return;
    }
    snprintf(b->g.prefix, sizeof b->g.prefix, "mlm.");
    if (a->bottleneck) {
        part_end_mobile(b, x);
        return;
    }
    x = part_linear(b, "dense", x, a->hidden, a->embedding, true, TENSOR_WHOLE);
    x = layer_gelu(&b->g, "gelu", x, b->tokens, a->embedding, TENSOR_WHOLE);
    x = part_norm_of(b, "ln", x, a->embedding);
    b->a.head_bias = 1;
    x = architecture_add_head(b, "decoder", x);
    b->g.prefix[0] = '\0';
    layer_loss(&b->g, "loss", x, b->tokens, a->vocabulary, true);
}

/* ---- whole models */

/* The ops from `second` on have the parameters of those from `first` on. Lan et al., ALBERT, ICLR
 * 2020. */
static void share_layer(struct architecture_build *b, size_t first, size_t second)
{
    struct model *m = &b->g.model;
    for (size_t i = second; b->g.status == STATUS_OK && i < m->n; i++, first++) {
        if (m->op[i].parameter_bytes == 0)
            continue;
        m->op[i].shared_bytes = m->op[i].parameter_bytes;
        m->op[i].parameter_bytes = 0;
        m->op[i].shares = (uint32_t)first;
    }
}

static bool is_own(const struct architecture *a, int64_t i)
{
    int64_t groups = a->layer_groups < a->layers ? a->layer_groups : 0;
    return groups == 0 || i == 0 || i * groups / a->layers != (i - 1) * groups / a->layers;
}

static void build_decoder(struct architecture_build *b)
{
    uint32_t x = architecture_begin(b);
    size_t first = 0; /* op of the layer that has the parameters of those behind it */
    for (int64_t i = 0; i < b->a.layers; i++) {
        size_t here = b->g.model.n;
        part_prefix(b, "h", i);
        x = part_layer(b, x, i);
        if (is_own(&b->a, i))
            first = here;
        else
            share_layer(b, first, here);
    }
    b->g.prefix[0] = '\0';
    if (part_has(b, TRAIT_POOLER | TRAIT_MASKED_HEAD))
        end_bert(b, x);
    else
        architecture_end(b, x);
}

/* The decoder's tokens are looked up in the encoder's table; learned positions are its own. */
static uint32_t begin_decoder(struct architecture_build *b)
{
    const struct architecture *a = &b->a;
    uint32_t x =
        layer_lookup(&b->g, "decoder.embedding", b->table, b->tokens, a->hidden, a->vocabulary);
    if (part_has(b, TRAIT_POSITIONS))
        x = layer_positions(&b->g, "decoder.positions", x, b->tokens, a->hidden,
                            a->context + a->spare, 0);
    return part_has(b, TRAIT_EMBEDDING_NORM) ? part_norm(b, "decoder.embedding.ln", x) : x;
}

/* T5: Raffel et al., JMLR 2020; BART: Lewis et al., ACL 2020. */
static void build_encoder_decoder(struct architecture_build *b)
{
    struct architecture *a = &b->a;
    a->traits |= TRAIT_BOTH_WAYS;
    uint32_t encoded = architecture_begin(b);
    for (int64_t i = 0; i < a->layers; i++) {
        part_prefix(b, "e", i);
        encoded = part_layer(b, encoded, i);
    }
    b->g.prefix[0] = '\0';
    if (!part_has(b, TRAIT_POST_NORM))
        encoded = part_norm(b, "encoder.ln_f", encoded);
    a->traits &= ~(uint32_t)TRAIT_BOTH_WAYS;
    if (a->decoder.heads > 0) {
        a->heads = a->kv_heads = a->decoder.heads;
        a->head = a->hidden / a->heads;
    }
    a->inner = a->decoder.inner > 0 ? a->decoder.inner : a->inner;
    uint32_t x = begin_decoder(b);
    for (int64_t i = 0; i < a->decoder.layers; i++) {
        part_prefix(b, "d", i);
        x = part_decoder_layer(b, x, encoded, i);
    }
    b->g.prefix[0] = '\0';
    architecture_end(b, x);
}

/* ViT: Dosovitskiy et al., ICLR 2021. A sample is an image; its tokens are patches and a class. */
static void build_images(struct architecture_build *b)
{
    const struct architecture *a = &b->a;
    int64_t across = a->image / a->patch;
    b->tokens = across * across + 1;
    uint32_t x =
        layer_patches(&b->g, "patches", b->tokens, a->hidden, a->patch * a->patch * a->colours);
    for (int64_t i = 0; i < a->layers; i++) {
        part_prefix(b, "h", i);
        x = part_layer(b, x, i);
    }
    b->g.prefix[0] = '\0';
    x = part_norm(b, "ln_f", x);
    b->tokens = 1;
    x = part_linear(b, "head", x, a->hidden, a->classes, true, TENSOR_COLUMN);
    layer_loss(&b->g, "loss", x, 1, a->classes, false);
}

/* ---- checks */

static enum status architecture_check_sizes(const struct architecture *a)
{
    if (a->layers < 1 || a->hidden < 1 || a->heads < 1 || a->head < 1)
        return error_set(STATUS_INVALID,
                         "got a model of %" PRId64 " layers of width %" PRId64 " with %" PRId64
                         " heads of %" PRId64 " channels, expected at least 1 of each",
                         a->layers, a->hidden, a->heads, a->head);
    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return error_set(STATUS_INVALID,
                         "%" PRId64 " heads cannot be divided over %" PRId64 " key/value heads",
                         a->heads, a->kv_heads);
    if (a->experts > 0 && (a->top_k < 1 || a->top_k > a->experts))
        return error_set(STATUS_INVALID,
                         "got %" PRId64 " experts per token, expected 1 to %" PRId64, a->top_k,
                         a->experts);
    if (a->experts <= 0 && a->capacity > 0)
        return error_set(STATUS_INVALID, "key 'capacity' has no effect: the model has no experts");
    if (a->traits & TRAIT_IMAGES && (a->patch < 1 || a->image < a->patch))
        return error_set(STATUS_INVALID,
                         "got images of %" PRId64 " pixels in patches of %" PRId64
                         " pixels, expected patches that fit into the image",
                         a->image, a->patch);
    if (a->traits & TRAIT_IMAGES && a->classes < 1)
        return error_set(STATUS_INVALID, "got %" PRId64 " classes, expected at least 1",
                         a->classes);
    if (a->groups > 1 && !(a->traits & TRAIT_GREEDY) && a->experts > 0 &&
        (a->experts % a->groups != 0 || a->group_top > a->groups ||
         a->group_top * (a->experts / a->groups) < a->top_k))
        return error_set(STATUS_INVALID,
                         "cannot choose %" PRId64 " experts per token from %" PRId64 " of %" PRId64
                         " groups (%" PRId64 " experts in total)",
                         a->top_k, a->group_top, a->groups, a->experts);
    if (a->sinusoids && (a->heads * a->head != a->hidden || a->hidden % 2 != 0))
        return error_set(STATUS_INVALID,
                         "relative positions: got %" PRId64 " heads of %" PRId64
                         " channels and width %" PRId64
                         ", expected an even width of heads x channels",
                         a->heads, a->head, a->hidden);
    PASS(part_check_encoders(a));
    return a->traits & TRAIT_IMAGES || a->vocabulary >= 2
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "got a vocabulary of %" PRId64 " tokens, expected at least 2",
                           a->vocabulary);
}

/* Sums of bytes over the model have to fit: far beyond all models, and what a hostile file asks
 * for. */
static enum status architecture_check_bytes(const struct model *m)
{
    double bytes = 0;
    for (size_t i = 0; i < m->n; i++)
        bytes += (double)m->op[i].parameter_bytes + (double)m->op[i].stash_bytes;
    return bytes <= 1e18 ? STATUS_OK
                         : error_set(STATUS_INVALID,
                                     "model of %.3g bytes (parameters and activations) is too "
                                     "large, expected at most 1e18 bytes",
                                     bytes);
}

/* A decoder without its encoder, as ...ForCausalLM classes have it, attends to nothing else. */
static void drop_encoder(struct architecture *a)
{
    a->traits &= ~(uint32_t)TRAIT_ENCODER_DECODER;
    a->layers = or_else(a->decoder.layers, a->layers);
    a->heads = or_else(a->decoder.heads, a->heads);
    a->inner = or_else(a->decoder.inner, a->inner);
}

/* Zeros that mean a rule. */
static enum status architecture_complete(struct architecture *a)
{
    if (a->heads < 1)
        return architecture_check_sizes(a);
    a->kv_heads = or_else(a->kv_heads, a->heads);
    a->head = or_else(a->head, a->hidden / a->heads);
    a->inner = or_else(a->inner, 4 * a->hidden);
    a->embedding = or_else(a->embedding, a->hidden);
    a->expert_inner = or_else(a->expert_inner, a->inner);
    a->shared_inner = or_else(a->shared_inner, a->shared * a->expert_inner);
    a->decoder.layers = or_else(a->decoder.layers, a->layers);
    a->group_top = or_else(a->group_top, 1);
    a->window.used = a->window.used && a->window.tokens > 0;
    return architecture_check_sizes(a);
}

enum status architecture_build(const struct architecture *a, const struct architecture_choice *c,
                               const char *name, struct model *out)
{
    enum { USUAL_TOKENS = 4096 };
    enum data_type usual = a->dtype != DATA_ANY ? a->dtype : DATA_fp32;
    struct architecture_build b = {
        .g = graph_begin(c->dtype != DATA_ANY ? c->dtype : usual), .a = *a, .flash = c->flash};
    if (b.a.decoder.only)
        drop_encoder(&b.a);
    b.a.layers = or_else(c->layers, b.a.layers), b.a.capacity = or_else(c->capacity, a->capacity);
    b.a.decoder.layers = or_else(c->layers, b.a.decoder.layers);
    PASS(architecture_complete(&b.a));
    b.tokens = or_else(c->tokens, b.a.context < USUAL_TOKENS ? b.a.context : USUAL_TOKENS);
    if (part_has(&b, TRAIT_POSITIONS) && b.tokens > b.a.context)
        return error_set(STATUS_INVALID,
                         "tokens=%" PRId64 " exceeds the model's %" PRId64
                         " positions; raise positions= too",
                         b.tokens, b.a.context);
    if ((!b.flash || b.a.sinusoids) &&
        (double)b.tokens * (double)b.tokens * (double)b.a.heads > 1e17)
        return error_set(STATUS_INVALID,
                         "tokens=%" PRId64
                         " is too large for unfused attention: tokens^2 x %" PRId64
                         " heads must be at most 1e17",
                         b.tokens, b.a.heads);
    b.g.model.tokens_per_sample = part_has(&b, TRAIT_IMAGES) ? 0 : (double)b.tokens;
    if (part_has(&b, TRAIT_IMAGES))
        build_images(&b);
    else if (part_has(&b, TRAIT_ENCODER_DECODER))
        build_encoder_decoder(&b);
    else
        build_decoder(&b);
    enum status kept = graph_keep_needed(&b.g);
    if (b.g.status == STATUS_OK)
        b.g.status = kept == STATUS_OK ? architecture_check_bytes(&b.g.model) : kept;
    return graph_finish(&b.g, name, NULL, out);
}
