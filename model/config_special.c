/* Keys of configurations that are lists or words, or that change several things at once. */
#include <inttypes.h>
#include <string.h>

#include "core/base/json.h"
#include "model/config.h"

static enum status get_flag(const struct json_at *at, bool *out)
{
    *out = false;
    return json_kind(at) == JSON_IS_NULL ? STATUS_OK : json_get_bool(at, out);
}

enum status config_get_number(const struct json_at *at, int64_t max, int64_t *out)
{
    bool flag = false;
    if (json_kind(at) == JSON_IS_NUMBER)
        return json_get_integer(at, 0, max, out);
    if (json_kind(at) == JSON_IS_BOOL || json_kind(at) == JSON_IS_NULL) {
        PASS(get_flag(at, &flag));
        *out = flag;
        return STATUS_OK;
    }
    return json_error(at, "expected a number from 0 to %" PRId64, max);
}

/* Biases of queries, keys and values, and in most families of the projection behind them. */
static enum status read_attention_bias(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->qkv_bias = flag;
    a->out_bias = flag && !(a->traits & TRAIT_PLAIN_OUT);
    return STATUS_OK;
}

static enum status read_use_bias(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->qkv_bias = a->out_bias = a->mlp_bias = flag;
    return STATUS_OK;
}

/* "sliding_attention" or another word for each layer. */
static enum status read_layer_types(const struct json_at *at, struct architecture *a)
{
    PASS(json_get_array(at, ARCHITECTURE_LAYERS, &a->listed));
    for (size_t i = 0; i < a->listed; i++) {
        struct json_at item = json_item(at, i);
        const char *text;
        PASS(json_get_string(&item, &text));
        a->layer[i] |= strcmp(text, "sliding_attention") == 0 ? LAYER_WINDOWED : 0;
    }
    return STATUS_OK;
}

/* Numbers of the layers whose MLP is plain among routed ones. */
static enum status read_mlp_only(const struct json_at *at, struct architecture *a)
{
    size_t n;
    PASS(json_get_array(at, ARCHITECTURE_LAYERS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        int64_t layer;
        PASS(json_get_integer(&item, 0, ARCHITECTURE_LAYERS - 1, &layer));
        a->layer[layer] |= LAYER_PLAIN;
    }
    return STATUS_OK;
}

/* A step, or 1 for each routed layer and 0 for the others. */
static enum status read_moe_frequency(const struct json_at *at, struct architecture *a)
{
    size_t n;
    if (json_kind(at) != JSON_IS_ARRAY)
        return config_get_number(at, ARCHITECTURE_LAYERS, &a->routed_step);
    PASS(json_get_array(at, ARCHITECTURE_LAYERS, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        int64_t routed;
        PASS(json_get_integer(&item, 0, 1, &routed));
        a->layer[i] |= routed ? 0 : LAYER_PLAIN;
    }
    return STATUS_OK;
}

static enum status read_norm_before(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->traits &= ~(uint32_t)(TRAIT_PRE_NORM | TRAIT_POST_NORM);
    a->traits |= flag ? TRAIT_PRE_NORM : TRAIT_POST_NORM;
    return STATUS_OK;
}

static enum status read_parallel(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->traits &= ~(uint32_t)TRAIT_PARALLEL;
    a->traits |= flag ? TRAIT_PARALLEL : 0;
    return STATUS_OK;
}

/* Are the weights of a token's experts made to add up to 1? */
static enum status read_normalised(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->traits &= ~(uint32_t)TRAIT_OVER_ALL;
    a->traits |= flag ? 0 : TRAIT_OVER_ALL;
    return STATUS_OK;
}

/* "softmax" or "sigmoid". */
static enum status read_scoring(const struct json_at *at, struct architecture *a)
{
    const char *text;
    PASS(json_get_string(at, &text));
    a->traits &= ~(uint32_t)TRAIT_SIGMOID;
    a->traits |= strcmp(text, "sigmoid") == 0 ? TRAIT_SIGMOID : 0;
    return STATUS_OK;
}

/* "greedy": of all experts, whatever groups there are. */
static enum status read_method(const struct json_at *at, struct architecture *a)
{
    const char *text;
    PASS(json_get_string(at, &text));
    a->traits &= ~(uint32_t)TRAIT_GREEDY;
    a->traits |= strcmp(text, "greedy") == 0 ? TRAIT_GREEDY : 0;
    return STATUS_OK;
}

static enum status read_route_scale(const struct json_at *at, struct architecture *a)
{
    double scale = 1;
    if (json_kind(at) != JSON_IS_NULL)
        PASS(json_get_real(at, 0, 1000, &scale));
    a->route_scale = (int64_t)(1000 * scale + 0.5);
    return STATUS_OK;
}

/* "silu", "gelu_pytorch_tanh" and the like: of gated MLPs. */
static enum status read_activation(const struct json_at *at, struct architecture *a)
{
    const char *text;
    if (json_kind(at) == JSON_IS_NULL)
        return STATUS_OK;
    PASS(json_get_string(at, &text));
    a->traits &= ~(uint32_t)TRAIT_TANH;
    a->traits |= strncmp(text, "gelu", strlen("gelu")) == 0 ? TRAIT_TANH : 0;
    return STATUS_OK;
}

/* A whole number that most files write as a fraction. */
static enum status read_base(const struct json_at *at, struct architecture *a)
{
    double base = 0;
    if (json_kind(at) != JSON_IS_NULL)
        PASS(json_get_real(at, 0, 1 << 30, &base));
    a->base = (int64_t)base;
    return STATUS_OK;
}

/* T5: "gated-gelu" or "relu". */
static enum status read_projection(const struct json_at *at, struct architecture *a)
{
    const char *text;
    PASS(json_get_string(at, &text));
    a->traits |= strncmp(text, "gated-", strlen("gated-")) == 0 ? TRAIT_GATED : 0;
    return STATUS_OK;
}

/* ALBERT's layers share parameters in groups, of which there is at least one. */
static enum status read_layer_groups(const struct json_at *at, struct architecture *a)
{
    return json_get_integer(at, 1, ARCHITECTURE_LAYERS, &a->layer_groups);
}

/* Every class of images has a name. */
static enum status read_classes(const struct json_at *at, struct architecture *a)
{
    a->classes = (int64_t)json_members(at);
    return STATUS_OK;
}

/* Of the family "transformer", which has none by itself: names of config_traits. */
static enum status read_traits(const struct json_at *at, struct architecture *a)
{
    size_t n, k;
    PASS(json_get_array(at, 64, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        const char *text;
        PASS(json_get_string(&item, &text));
        for (k = 0; k < config_traits_n && strcmp(config_traits[k].name, text) != 0; k++)
            continue;
        if (k == config_traits_n)
            return json_error(&item, "unknown architecture trait '%.40s'", text);
        a->traits |= config_traits[k].trait;
    }
    return STATUS_OK;
}

const char *const config_dtypes[DATA_TYPES] = {
    "", "float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "float4_e2m1fn_x2"};

static enum status config_read_type(const struct json_at *at, struct architecture *a)
{
    const char *text = "float32";
    if (json_kind(at) != JSON_IS_NULL)
        PASS(json_get_string(at, &text));
    a->dtype = DATA_bf16; /* of what is called otherwise: int8 and the like, for inference */
    for (size_t t = DATA_ANY + 1; t < DATA_TYPES; t++)
        a->dtype = strcmp(text, config_dtypes[t]) == 0 ? (enum data_type)t : a->dtype;
    return STATUS_OK;
}

/* Rows of the table of tokens count sqrt(hidden) times. */
static enum status read_scale(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->traits &= ~(uint32_t)TRAIT_SCALED;
    a->traits |= flag ? TRAIT_SCALED : 0;
    return STATUS_OK;
}

/* Positions are added to the tokens, besides those that scores are made with. */
static enum status read_biased_input(const struct json_at *at, struct architecture *a)
{
    bool flag;
    PASS(get_flag(at, &flag));
    a->traits &= ~(uint32_t)TRAIT_POSITIONS;
    a->traits |= flag ? TRAIT_POSITIONS : 0;
    return STATUS_OK;
}

/* "c2p|p2c", or a list of the two. */
static enum status read_distances(const struct json_at *at, struct architecture *a)
{
    const char *text;
    size_t n = 1;
    bool list = json_kind(at) == JSON_IS_ARRAY;
    a->c2p = a->p2c = 0;
    if (json_kind(at) == JSON_IS_NULL)
        return STATUS_OK;
    if (list)
        PASS(json_get_array(at, 8, &n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = list ? json_item(at, i) : *at;
        PASS(json_get_string(&item, &text));
        a->c2p |= strstr(text, "c2p") != NULL;
        a->p2c |= strstr(text, "p2c") != NULL;
    }
    return STATUS_OK;
}

/* A negative number is a rule. */
static enum status get_positive(const struct json_at *at, int64_t *out)
{
    *out = 0;
    if (json_kind(at) != JSON_IS_NULL)
        PASS(json_get_integer(at, -1, 1 << 24, out));
    *out = *out < 0 ? 0 : *out;
    return STATUS_OK;
}

static enum status read_distance(const struct json_at *at, struct architecture *a)
{
    return get_positive(at, &a->max_distance);
}

static enum status read_distance_buckets(const struct json_at *at, struct architecture *a)
{
    return get_positive(at, &a->position_buckets);
}

/* "none" or "layer_norm". */
static enum status read_distance_norm(const struct json_at *at, struct architecture *a)
{
    const char *text;
    PASS(json_get_string(at, &text));
    a->relative_norm = strstr(text, "layer_norm") != NULL;
    return STATUS_OK;
}

/* ConvBERT's, or DeBERTa's, which is not there. */
static enum status read_kernel(const struct json_at *at, struct architecture *a)
{
    int64_t size;
    PASS(config_get_number(at, 1 << 10, &size));
    if (a->kernel > 0)
        a->kernel = size;
    return size == 0 || a->kernel > 0
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED,
                           "%s: unsupported: convolutions between transformer layers",
                           at->document->path);
}

/* What all published models of XLNet, ConvBERT and MobileBERT have but the smallest: other models
 * of these families are not there. Other families have keys of these names that mean something
 * else. */
static enum status read_fixed(const struct json_at *at, struct architecture *a)
{
    static const struct {
        const char *key, *word;
        int64_t number;
    } fixed[] = {
        {"use_bottleneck", NULL, 1},
        {"key_query_shared_bottleneck", NULL, 1},
        {"use_bottleneck_attention", NULL, 0},
        {"trigram_input", NULL, 1},
        {"normalization_type", "no_norm", 0},
        {"num_groups", NULL, 1},
        {"untie_r", NULL, 1},
        {"attn_type", "bi", 0},
    };
    const char *word = "";
    int64_t number = 0;
    size_t k = 0;
    if (!a->sinusoids && !a->kernel && !a->bottleneck)
        return STATUS_OK;
    while (strcmp(fixed[k].key, at->key) != 0)
        k++;
    if (fixed[k].word)
        PASS(json_get_string(at, &word));
    else
        PASS(config_get_number(at, 1 << 20, &number));
    if (fixed[k].word ? strcmp(word, fixed[k].word) == 0 : number == fixed[k].number)
        return STATUS_OK;
    return fixed[k].word
               ? error_set(STATUS_UNSUPPORTED, "%s: \"%s\": got '%.40s', expected '%s'",
                           at->document->path, at->key, word, fixed[k].word)
               : error_set(STATUS_UNSUPPORTED, "%s: \"%s\": got %" PRId64 ", expected %" PRId64,
                           at->document->path, at->key, number, fixed[k].number);
}

static const struct special {
    const char *name;
    enum status (*read)(const struct json_at *at, struct architecture *a);
} specials[] = {
    {"attention_bias", read_attention_bias},
    {"use_bias", read_use_bias},
    {"layer_types", read_layer_types},
    {"mlp_only_layers", read_mlp_only},
    {"moe_layer_freq", read_moe_frequency},
    {"do_layer_norm_before", read_norm_before},
    {"use_parallel_residual", read_parallel},
    {"feed_forward_proj", read_projection},
    {"norm_topk_prob", read_normalised},
    {"scoring_func", read_scoring},
    {"topk_method", read_method},
    {"routed_scaling_factor", read_route_scale},
    {"hidden_act", read_activation},
    {"hidden_activation", read_activation},
    {"rope_theta", read_base},
    {"num_hidden_groups", read_layer_groups},
    {"id2label", read_classes},
    {"scale_embedding", read_scale},
    {"position_biased_input", read_biased_input},
    {"pos_att_type", read_distances},
    {"max_relative_positions", read_distance},
    {"position_buckets", read_distance_buckets},
    {"norm_rel_ebd", read_distance_norm},
    {"conv_kernel_size", read_kernel},
    {"use_bottleneck", read_fixed},
    {"key_query_shared_bottleneck", read_fixed},
    {"use_bottleneck_attention", read_fixed},
    {"trigram_input", read_fixed},
    {"normalization_type", read_fixed},
    {"num_groups", read_fixed},
    {"untie_r", read_fixed},
    {"attn_type", read_fixed},
    {"traits", read_traits},
    {"torch_dtype", config_read_type},
    {"dtype", config_read_type},
};

enum status config_read_special(const struct json_at *at, struct architecture *a, bool *special)
{
    *special = true;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strcmp(specials[i].name, at->key) == 0)
            return specials[i].read(at, a);
    *special = false;
    return STATUS_OK;
}
