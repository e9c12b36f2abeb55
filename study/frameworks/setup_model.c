/* Sizes of models between arguments of frameworks and struct architecture, and models by the names
 * that other programs have for them. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/config.h"
#include "model/zoo.h"
#include "study/frameworks/setup.h"

/* What has no name here: Megatron's width of gated MLPs is 2/3 of 4 times the model's, in 64s. */
static int64_t usual_inner(const struct setup *s)
{
    return s->gated ? 4 * s->a.hidden * 2 / 3 / 64 * 64 : 4 * s->a.hidden;
}

/* Members that are one trait. */
#define FLAG(member, trait_)                                                                       \
    {                                                                                              \
        offsetof(struct setup, member), trait_                                                     \
    }
static const struct {
    size_t offset;
    uint32_t trait;
} flags[] = {FLAG(rms, TRAIT_RMS),
             FLAG(gated, TRAIT_GATED),
             FLAG(head_norm, TRAIT_HEAD_NORM),
             FLAG(router_bias, TRAIT_ROUTER_BIAS),
             FLAG(sigmoid_router, TRAIT_SIGMOID),
             FLAG(shared_gate, TRAIT_SHARED_GATE),
             FLAG(embedding_norm, TRAIT_EMBEDDING_NORM),
             FLAG(parallel, TRAIT_PARALLEL),
             FLAG(encoder_decoder, TRAIT_ENCODER_DECODER)};

enum { FLAGS = sizeof flags / sizeof *flags };
static int64_t *flag_of(struct setup *s, size_t i)
{
    return (void *)((char *)s + flags[i].offset);
}

/* What families.def has for the families that arguments can say: GPT, Llama and their mixtures,
 * BERT, T5. */
static uint32_t traits_of(struct setup *s)
{
    uint32_t traits = TRAIT_PRE_NORM;
    if (s->masked) /* Devlin et al., NAACL 2019: as model/families.def has it */
        return family_find("bert")->usual.traits ^ (TRAIT_POOLER | TRAIT_MASKED_HEAD);
    traits |= s->positions == POSITIONS_ROPE ? TRAIT_ROPE : 0;
    traits |= s->positions == POSITIONS_LEARNED ? TRAIT_POSITIONS : 0;
    for (size_t i = 0; i < FLAGS; i++)
        traits |= *flag_of(s, i) ? flags[i].trait : 0;
    return traits;
}

/* The vocabulary of a known model whose tokenizer the file names; 0: none. */
static int64_t vocabulary_of_tokenizer(struct setup *s)
{
    static const char *const names[] = {"tokenizer_model", "tokenizer.type", "tokenizer.name",
                                        "tokenizer_name_or_path"};
    struct architecture a;
    struct architecture_choice c;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *model = setup_model_of(s, keys_said(s->keys, names[i]));
        if (model && config_find(model, &a, &c) == STATUS_OK)
            return a.vocabulary;
    }
    return 0;
}

/* Where the file does not say the vocabulary: the tokenizer's, or that of the first model of the
 * kind, BERT, Llama or GPT-2. */
static enum status assume_vocabulary(struct setup *s)
{
    if (s->a.vocabulary == 0)
        s->a.vocabulary = vocabulary_of_tokenizer(s);
    if (s->a.vocabulary > 0)
        return STATUS_OK;
    s->a.vocabulary = s->masked ? 30522 : s->positions == POSITIONS_ROPE && s->rms ? 32000 : 50257;
    return setup_add_note(
        s, NOTE_ASSUMED,
        "a vocabulary of %" PRId64
        " tokens (the file does not give the tokenizer's size; override with --set vocab_size=N)",
        s->a.vocabulary);
}

/* Bounds of sizes are those of configurations (model/config_keys.def). */
static enum status setup_check_sizes(const struct setup *s, const struct architecture *a)
{
#define KEY(id, member, max_)                                                                      \
    if (a->member < 0 || a->member > (max_))                                                       \
        return error_set(STATUS_INVALID, "%s: %s: got %" PRId64 ", expected 0 to %" PRId64,        \
                         s->keys->path, #id, a->member, (int64_t)(max_));
#include "model/config_keys.def"
#undef KEY
    return s->tokens >= 0 && s->tokens <= 1 << 24
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "%s: got a sequence length of %" PRId64 " tokens, expected 0 to %d",
                           s->keys->path, s->tokens, 1 << 24);
}

/* Sizes that are 0 follow from others, as each framework has it by default: width of the MLP,
 * positions. Sizes of parts that the model does not have are cleared, as rows set them to what is
 * usual. */
enum status setup_architecture(struct setup *s, struct architecture *out)
{
    if (s->a.layers < 1 && s->unknown)
        return error_set(STATUS_INVALID, "%s: unknown model '%s'; give one with --model M",
                         s->keys->path, s->unknown);
    if (s->a.layers < 1 || s->a.hidden < 1 || s->a.heads < 1)
        return error_set(STATUS_INVALID,
                         "%s: the file does not give the model's %s; give the model with --model M",
                         s->keys->path, s->a.layers < 1 ? "layers" : "sizes");
    PASS(assume_vocabulary(s));
    struct architecture a = s->a;
    a.traits = traits_of(s);
    a.inner = a.inner > 0 ? a.inner : usual_inner(s);
    a.context = a.context > 0 ? a.context : s->tokens;
    a.tied = !s->untied;
    a.out_bias = a.mlp_bias = !s->no_bias;
    a.qkv_bias = !s->no_bias || s->qkv_bias;
    a.routed_step = a.experts > 0 && a.routed_step == 0 ? 1 : a.routed_step;
    if (!s->latent)
        a.query_rank = a.kv_rank = a.nope = a.rope = a.value = 0;
    else
        a.kv_heads = a.head = 0;
    if (a.experts < 2)
        a.experts = a.top_k = a.expert_inner = a.shared_inner = a.routed_step = a.capacity = 0;
    if (a.experts < 2 || a.group_top == 0)
        a.groups = a.group_top = 0;
    if (s->masked)
        a.types = 2;
    if (s->encoder_decoder)
        a.buckets = 32;
    *out = a;
    return setup_check_sizes(s, out);
}

/* "[0]*3+[1]*58" of layers with experts; leading zeros are the usual case, others one by one. */
static void write_frequency(const struct architecture *a, bool *uneven, char text[256])
{
    size_t used = 0;
    int64_t first = 0;
    bool before = false;
    text[0] = '\0';
    *uneven = false;
    for (int64_t i = 0; i <= a->layers; i++) {
        bool plain = i < a->layers && (i < a->first_dense || a->layer[i] & LAYER_PLAIN ||
                                       (a->routed_step > 1 && (i + 1) % a->routed_step != 0));
        *uneven |= plain;
        if (i > 0 && (i == a->layers || plain != before)) {
            int k = snprintf(text + used, 256 - used, "%s[%d]*%" PRId64, used ? "+" : "", !before,
                             i - first);
            used += k > 0 && used + (size_t)k < 256 ? (size_t)k : 0;
            first = i;
        }
        before = plain;
    }
}

/* "1.25" of 125 %, with room for it padded; false: there is no memory. */
static bool setup_model_write_capacity(struct setup *s, int64_t percent)
{
    char text[32] = "";
    s->a.capacity = percent;
    s->words.padded = percent > 0;
    if (percent > 0)
        snprintf(text, sizeof text, "%g", (double)percent / 100);
    s->words.capacity = arena_text(&s->keys->memory, text);
    return s->words.capacity != NULL;
}

/* Experts that are padded to their capacity work on all of it; otherwise tokens beyond it are
 * dropped, and what experts do is about what they are sent. */
enum status setup_read_capacity(struct setup *s)
{
    double factor = s->words.capacity ? strtod(s->words.capacity, NULL) : 0;
    if (!(factor > 0) || s->a.experts < 2)
        return STATUS_OK;
    if (!s->words.padded)
        return setup_add_note(s, NOTE_LOST,
                              "moe_expert_capacity_factor, which has no effect without padding, so "
                              "experts process all tokens that routers send");
    double percent = round(100 * fmin(factor, ZOO_CAPACITY));
    s->a.capacity = percent < 1 ? 1 : percent < ZOO_CAPACITY ? (int64_t)percent : ZOO_CAPACITY;
    return STATUS_OK;
}

/* What arguments say: pre-norm decoders of rms or layer norms, with all biases, none, or those of
 * queries, keys and values; no windows. */
bool setup_of_architecture(const struct architecture *a, const struct architecture_choice *c,
                           struct setup *s)
{
    const uint32_t sayable = TRAIT_RMS | TRAIT_GATED | TRAIT_ROPE | TRAIT_POSITIONS |
                             TRAIT_PRE_NORM | TRAIT_HEAD_NORM | TRAIT_ROUTER_BIAS | TRAIT_SIGMOID |
                             TRAIT_SHARED_GATE | TRAIT_PLAIN_OUT;
    bool window = a->window.tokens > 0 && a->window.used;
    bool biases = a->out_bias == a->mlp_bias && (a->qkv_bias || !a->out_bias);
    bool both = (a->traits & TRAIT_ROPE) && (a->traits & TRAIT_POSITIONS);
    char frequency[256];
    bool uneven = false;
    if (a->traits & ~sayable || !(a->traits & TRAIT_PRE_NORM) || window || !biases || both ||
        a->head_bias || a->spare || a->types || (a->embedding && a->embedding != a->hidden))
        return false;
    s->a = *a;
    s->a.layers = c->layers > 0 ? c->layers : a->layers;
    s->a.inner = a->inner > 0 ? a->inner : 4 * a->hidden;
    s->a.kv_heads = a->kv_heads > 0 ? a->kv_heads : a->heads;
    s->a.head = a->head > 0 ? a->head : a->heads > 0 ? a->hidden / a->heads : 0;
    for (size_t i = 0; i < FLAGS; i++)
        *flag_of(s, i) = (a->traits & flags[i].trait) != 0;
    s->positions = a->traits & TRAIT_ROPE        ? POSITIONS_ROPE
                   : a->traits & TRAIT_POSITIONS ? POSITIONS_LEARNED
                                                 : POSITIONS_NONE;
    s->no_bias = !a->out_bias;
    s->qkv_bias = a->qkv_bias && s->no_bias;
    s->untied = !a->tied;
    s->grouped = s->a.kv_heads != s->a.heads;
    s->latent = a->kv_rank > 0;
    s->plain_attention = !c->flash;
    if (a->experts > 0) {
        s->a.expert_inner = a->expert_inner > 0 ? a->expert_inner : s->a.inner;
        s->a.shared_inner = a->shared_inner > 0 ? a->shared_inner : a->shared * s->a.expert_inner;
        write_frequency(&s->a, &uneven, frequency);
        const char *copy = uneven ? arena_text(&s->keys->memory, frequency) : "";
        s->words.frequency = copy;
        return copy != NULL &&
               setup_model_write_capacity(s, c->capacity > 0 ? c->capacity : a->capacity);
    }
    return true;
}

/* Bounded by ARCHITECTURE_LAYERS, whatever the factors are. */
enum status setup_read_frequency(struct setup *s, const char *text)
{
    int64_t layer = 0, prefix = 0;
    bool plain_before = true;
    char *end;
    if (isdigit((unsigned char)*text)) { /* a step: layers 0, step, 2 step, ... are routed */
        long long step = strtoll(text, &end, 10);
        for (int64_t i = 0; step > 1 && i < s->a.layers && i < ARCHITECTURE_LAYERS; i++)
            s->a.layer[i] |= i % step ? LAYER_PLAIN : 0;
        return STATUS_OK;
    }
    while (*(text += strspn(text, " +()\"'"))) { /* [A, B] * N */
        uint8_t pattern[ARCHITECTURE_LAYERS];
        size_t n = 0;
        long long times = 1;
        if (*text != '[')
            break;
        for (text++; *text && *text != ']' && n < ARCHITECTURE_LAYERS; text++)
            if (*text == '0' || *text == '1')
                pattern[n++] = *text == '1';
        text += *text == ']';
        text += strspn(text, " ");
        if (*text == '*') {
            times = strtoll(text + 1, &end, 10);
            text = end;
        }
        for (long long t = 0; t < times && layer < ARCHITECTURE_LAYERS && n > 0; t++)
            for (size_t i = 0; i < n && layer < ARCHITECTURE_LAYERS; i++, layer++) {
                plain_before &= !pattern[i];
                prefix += plain_before;
                s->a.layer[layer] |= pattern[i] ? 0 : LAYER_PLAIN;
            }
    }
    if (*text || layer != s->a.layers)
        return error_set(STATUS_PARSE,
                         "%s: moe-layer-freq describes %" PRId64
                         " layers, but the model has %" PRId64,
                         s->keys->path, layer, s->a.layers);
    for (int64_t i = prefix; i < layer; i++)
        if (s->a.layer[i] & LAYER_PLAIN)
            return STATUS_OK;
    s->a.first_dense = prefix; /* plain ones come first, as usual */
    memset(s->a.layer, 0, sizeof s->a.layer);
    return STATUS_OK;
}

/* fp8 is a type of products: numbers that are kept have 16 bits. */
void setup_set_dtype(struct setup *s, enum data_type dtype)
{
    s->dtype = (int64_t)dtype;
    s->bits = 8 * data_type_bytes(dtype);
}

/* Frameworks write "bf16", "bfloat16", "bf16-mixed", "amp_fp16", "16", "float32". */
enum status setup_read_dtype(struct setup *s, enum data_type usual)
{
    static const struct {
        const char *part;
        enum data_type dtype;
    } names[] = {{"fp8", DATA_fp8}, {"32", DATA_fp32}, {"bf", DATA_bf16}, {"16", DATA_fp16}};
    bool said = s->words.fp8 || s->words.fp16 || s->words.bf16;
    enum data_type dtype = s->words.fp8    ? DATA_fp8
                           : s->words.fp16 ? DATA_fp16
                           : s->words.bf16 ? DATA_bf16
                                           : usual;
    for (size_t i = 0; s->words.precision && !said && i < sizeof names / sizeof *names; i++)
        if ((said = strstr(s->words.precision, names[i].part)))
            dtype = names[i].dtype;
    setup_set_dtype(s, dtype);
    return said || s->keys->format == KEYS_SHELL /* flags that a script does not have are off */
               ? STATUS_OK
               : setup_add_note(s, NOTE_ASSUMED,
                                "a precision of %" PRId64 " bits (the file does not give one)",
                                s->bits);
}

/* ---- names of models */

/* "meta-llama/Meta-Llama-3.1-8B-Instruct" and "llama3-8B" are both llama3-8b. */
const char *setup_model_of(struct setup *s, const char *name)
{
    static const char *const other[][2] = {
        {"meta-", ""},
        {"llama-3.1-", "llama3-"},
        {"llama-3.2-", "llama3.2-"},
        {"llama-3-", "llama3-"},
        {"llama-2-", "llama2-"},
        {"llama3.1-", "llama3-"},
        {"-instruct", ""},
        {"-base", ""},
        {"-hf", ""},
        {"-chat", ""},
        {"-v0.1", ""},
        {"-v0.3", ""},
        {"_", "-"},
        {"deepseek-v3-671b", "deepseek-v3"},
        {"deepseek-v3.1", "deepseek-v3"},
        {"deepseek-v3-16b", "deepseek-v2-lite"},
    };
    char text[128];
    const char *slash = strrchr(name, '/');
    snprintf(text, sizeof text, "%s", slash ? slash + 1 : name);
    for (char *at = text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char *at, rest[128];
        while ((at = strstr(text, other[i][0]))) {
            snprintf(rest, sizeof rest, "%s", at + strlen(other[i][0]));
            snprintf(at, sizeof text - (size_t)(at - text), "%s%s", other[i][1], rest);
        }
    }
    return zoo_has(text) && !strchr(text, ':') ? arena_text(&s->keys->memory, text) : NULL;
}
