#include "model/zoo.h"

#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/families.h"

enum { ZOO_PARAMETERS = 12, LIST = 512 };

#define TRANSFORMER_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, bits_)                    \
    [TRANSFORMER_LAYERS] = {"layers", "transformer layers", layers_, 1, 10000},                    \
    [TRANSFORMER_HIDDEN] = {"hidden", "channels of the residual stream", hidden_, 1, 131072},      \
    [TRANSFORMER_HEADS] = {"heads", "attention heads; divide hidden", heads_, 1, 1024},            \
    [TRANSFORMER_TOKENS] = {"tokens", "tokens per sample (sequence length)", tokens_, 1, 1048576}, \
    [TRANSFORMER_VOCABULARY] = {"vocabulary", "different tokens", vocabulary_, 2, 16777216},       \
    [TRANSFORMER_POSITIONS] = {"positions", "rows of the position table; 0: as many as tokens", 0, \
                               0, 1048576},                                                        \
    [TRANSFORMER_BITS] = {"bits", "of a parameter and an activation: 16 or 32", bits_, 16, 32},    \
    [TRANSFORMER_FLASH] = {"flash", "1: attention keeps no (tokens, tokens) matrix", 0, 0, 1}

#define GPT_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, tied_, bits_)                     \
    TRANSFORMER_ROWS(layers_, hidden_, heads_, tokens_, vocabulary_, bits_),                       \
        [GPT_TIED] = {"tied", "1: the head uses the embedding table", tied_, 0, 1}

/* Shapes: Radford et al. (2019), table 2. */
static const struct zoo_parameter gpt2_small[] = {GPT_ROWS(12, 768, 12, 1024, 50257, 1, 32)};
static const struct zoo_parameter gpt2_medium[] = {GPT_ROWS(24, 1024, 16, 1024, 50257, 1, 32)};
static const struct zoo_parameter gpt2_large[] = {GPT_ROWS(36, 1280, 20, 1024, 50257, 1, 32)};
static const struct zoo_parameter gpt2_xl[] = {GPT_ROWS(48, 1600, 25, 1024, 50257, 1, 32)};
/* Brown et al. (2020), table 2.1, trained in half precision; the 13B model's width of 5140 there is
 * no multiple of its 40 heads: 40 heads of 128 are meant. */
static const struct zoo_parameter gpt3_13b[] = {GPT_ROWS(40, 5120, 40, 2048, 50257, 1, 16)};
static const struct zoo_parameter gpt3_175b[] = {GPT_ROWS(96, 12288, 96, 2048, 50257, 1, 16)};
static const struct zoo_parameter gpt_tiny[] = {GPT_ROWS(4, 128, 4, 128, 256, 0, 32)};
/* Devlin et al. (2019), section 3; vocabulary of the uncased models. */
static const struct zoo_parameter bert_base[] = {TRANSFORMER_ROWS(12, 768, 12, 512, 30522, 32)};
static const struct zoo_parameter bert_large[] = {TRANSFORMER_ROWS(24, 1024, 16, 512, 30522, 32)};

#define EXPERTS_ROWS(tokens_, token_help_, classes_, class_help_, vocabulary_)                     \
    [EXPERTS_LAYERS] = {"layers", "transformer layers", 8, 1, 10000},                              \
    [EXPERTS_HIDDEN] = {"hidden", "channels of the residual stream", 768, 1, 131072},              \
    [EXPERTS_HEADS] = {"heads", "attention heads; divide hidden", 12, 1, 1024},                    \
    [EXPERTS_TOKENS] = {"tokens", token_help_, tokens_, 1, 16384},                                 \
    [EXPERTS_VOCABULARY] = {classes_, class_help_, vocabulary_, 2, 16777216},                      \
    [EXPERTS_BITS] = {"bits", "of a parameter and an activation: 16 or 32", 32, 16, 32},           \
    [EXPERTS_FLASH] = {"flash", "1: attention keeps no (tokens, tokens) matrix", 0, 0, 1}
#define R_ROWS EXPERTS_ROWS(128, "tokens per sample", "vocabulary", "different tokens", 33280)
#define V_ROWS EXPERTS_ROWS(64, "patches of an image", "classes", "of images", 10)
#define ROUTING_ROWS(top_k_)                                                                       \
    [EXPERTS_EXPERTS] = {"experts", "of each such layer", 16, 1, 65536},                           \
    [EXPERTS_TOP_K] = {"top_k", "experts of a token", top_k_, 1, 64},                              \
    [EXPERTS_CAPACITY] = {"capacity", "of an expert, % of its share; 0: no padding", 125, 0,       \
                          1000},                                                                   \
    [EXPERTS_GROUP] = {"group", "samples routed together", 1, 1, 1024},                            \
    [EXPERTS_EINSUM] = {"einsum", "1: dispatch by products with masks; 0: by index", 1, 0, 1}

/* Zhang et al., SoCC 2022, artifact, exp/config.py: the language models are trained on WikiText-2,
 * whose 33278 words are rounded up to a multiple of the GPUs, the image models on CIFAR-10; 2
 * experts per GPU, here for 8. */
static const struct zoo_parameter r_plain[] = {R_ROWS}, v_plain[] = {V_ROWS};
static const struct zoo_parameter r_sgmoe[] = {R_ROWS, ROUTING_ROWS(2)};
static const struct zoo_parameter r_switch[] = {R_ROWS, ROUTING_ROWS(1)};
static const struct zoo_parameter v_sgmoe[] = {V_ROWS, ROUTING_ROWS(2)};
static const struct zoo_parameter v_switch[] = {V_ROWS, ROUTING_ROWS(1)};
static const struct zoo_parameter mlp[] = {
    [MLP_LAYERS] = {"layers", "hidden layers", 4, 1, 10000},
    [MLP_HIDDEN] = {"hidden", "width of the hidden layers", 512, 1, 131072},
    [MLP_TOKENS] = {"tokens", "context window, tokens", 16, 1, 65536},
    [MLP_CHANNELS] = {"channels", "embedding width per token", 64, 1, 65536},
    [MLP_VOCABULARY] = {"vocabulary", "different tokens", 256, 2, 16777216},
};
static const struct zoo_parameter two_chains[] = {
    [CHAINS_OPS] = {"ops", "ops of both chains together", 201, 3, 100000},
};

const struct zoo_entry zoo[] = {
    {"mlp", "multi-layer perceptron over a window of bytes", MLP_PARAMETERS, mlp, zoo_mlp},
    {"gpt-tiny", "byte-level GPT that trains in seconds on a laptop", TRANSFORMER_PARAMETERS_GPT,
     gpt_tiny, zoo_gpt},
    {"gpt2-small", "GPT-2, 124 million parameters", TRANSFORMER_PARAMETERS_GPT, gpt2_small,
     zoo_gpt},
    {"gpt2-medium", "GPT-2, 355 million parameters", TRANSFORMER_PARAMETERS_GPT, gpt2_medium,
     zoo_gpt},
    {"gpt2-large", "GPT-2, 774 million parameters", TRANSFORMER_PARAMETERS_GPT, gpt2_large,
     zoo_gpt},
    {"gpt2-xl", "GPT-2, 1.56 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt2_xl, zoo_gpt},
    {"gpt3-13b", "GPT-3, 12.9 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt3_13b, zoo_gpt},
    {"gpt3-175b", "GPT-3, 175 billion parameters", TRANSFORMER_PARAMETERS_GPT, gpt3_175b, zoo_gpt},
    {"bert-base", "BERT with masked-LM head, 110 million parameters", TRANSFORMER_PARAMETERS_BERT,
     bert_base, zoo_bert},
    {"bert-large", "BERT with masked-LM head, 335 million parameters", TRANSFORMER_PARAMETERS_BERT,
     bert_large, zoo_bert},
    {"rtransformer", "BERT-like language model of HiDup", EXPERTS_PARAMETERS_PLAIN, r_plain,
     zoo_r_plain},
    {"rmoe", "BERT-SGMoE of HiDup: 2 of 16 experts per token in every second layer",
     EXPERTS_PARAMETERS, r_sgmoe, zoo_r_experts},
    {"rswitch", "BERT-Switch of HiDup: 1 of 16 experts", EXPERTS_PARAMETERS, r_switch,
     zoo_r_experts},
    {"vtransformer", "ViT-like classifier of HiDup", EXPERTS_PARAMETERS_PLAIN, v_plain,
     zoo_v_plain},
    {"vmoe", "ViT-SGMoE of HiDup: 2 of 16 experts", EXPERTS_PARAMETERS, v_sgmoe, zoo_v_experts},
    {"vswitch", "ViT-Switch of HiDup: 1 of 16 experts", EXPERTS_PARAMETERS, v_switch,
     zoo_v_experts},
    {"two-chains", "toy: two chains of equal ops with one end, for partitioners", CHAINS_PARAMETERS,
     two_chains, zoo_two_chains},
};
const size_t zoo_n = sizeof zoo / sizeof *zoo;

/* The entry whose name is `spec` up to its end or its colon. */
static const struct zoo_entry *find(const char *spec)
{
    size_t length = strcspn(spec, ":");
    for (size_t i = 0; i < zoo_n; i++) {
        if (strlen(zoo[i].name) == length && memcmp(zoo[i].name, spec, length) == 0)
            return &zoo[i];
    }
    return NULL;
}

bool zoo_has(const char *spec)
{
    return find(spec) != NULL;
}

/* How much of a piece of input a message quotes. */
static int shown(size_t length)
{
    return length < 80 ? (int)length : 80;
}

/* Append ", name" to a list; what does not fit is left out. */
static void list_add(char list[LIST], const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, LIST - used, "%s%s", used ? ", " : "", name);
}

static enum status unknown_model(const char *spec)
{
    char list[LIST] = "", name[81], hint[TEXT_HINT];
    const char *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", shown(strcspn(spec, ":")), spec);
    for (size_t i = 0, best = text_reach(name); i < zoo_n; i++) {
        list_add(list, zoo[i].name);
        nearest = text_is_nearer(name, zoo[i].name, &best) ? zoo[i].name : nearest;
    }
    return error_set(STATUS_INVALID, "no model '%s'%s known: %s", name,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

static enum status unknown_parameter(const struct zoo_entry *e, const char *text, size_t length)
{
    char list[LIST] = "", name[81], hint[TEXT_HINT];
    const char *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", shown(length), text);
    for (size_t k = 0, best = text_reach(name); k < e->parameters; k++) {
        list_add(list, e->parameter[k].name);
        nearest =
            text_is_nearer(name, e->parameter[k].name, &best) ? e->parameter[k].name : nearest;
    }
    return error_set(STATUS_INVALID, "%s: no parameter '%s'%s known: %s", e->name, name,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

/* Parse "key=value" of `length` characters into value[] and note it in seen[]. */
static enum status set_parameter(const struct zoo_entry *e, const char *text, size_t length,
                                 int64_t *value, bool *seen)
{
    const char *equals = memchr(text, '=', length);
    if (!equals)
        return error_set(STATUS_INVALID, "%s: '%.*s' is not of the form key=value", e->name,
                         shown(length), text);
    size_t key = (size_t)(equals - text), i = 0;
    while (i < e->parameters &&
           !(strlen(e->parameter[i].name) == key && memcmp(e->parameter[i].name, text, key) == 0))
        i++;
    if (i == e->parameters)
        return unknown_parameter(e, text, key);
    const struct zoo_parameter *p = &e->parameter[i];
    if (seen[i])
        return error_set(STATUS_INVALID, "%s: %s is given twice", e->name, p->name);

    /* the value ends at ',' or at the end of the string, where strtoll stops by itself */
    char *end;
    errno = 0;
    long long v = strtoll(equals + 1, &end, 10);
    if (end != text + length || equals[1] < '0' || equals[1] > '9' || errno != 0 || v < p->min ||
        v > p->max)
        return error_set(STATUS_INVALID,
                         "%s: '%.*s': %s is a whole number from %" PRId64 " to %" PRId64, e->name,
                         shown(length), text, p->name, p->min, p->max);
    value[i] = v;
    seen[i] = true;
    return STATUS_OK;
}

static enum status parse(const struct zoo_entry *e, const char *spec, int64_t *value)
{
    bool seen[ZOO_PARAMETERS] = {false};
    for (size_t i = 0; i < e->parameters; i++)
        value[i] = e->parameter[i].value;
    const char *text = spec + strlen(e->name);
    while (*text != '\0') { /* at ':' or ',' */
        size_t length = strcspn(++text, ",");
        enum status st = set_parameter(e, text, length, value, seen);
        if (st != STATUS_OK)
            return st;
        text += length;
    }
    return STATUS_OK;
}

enum status zoo_build(const char *spec, struct model *out)
{
    enum status st = STATUS_OK;
    struct model built = {0};
    int64_t value[ZOO_PARAMETERS];
    const struct zoo_entry *e = find(spec);
    if (!e)
        return unknown_model(spec);
    _Static_assert((int)TRANSFORMER_PARAMETERS_GPT <= (int)ZOO_PARAMETERS &&
                       (int)EXPERTS_PARAMETERS <= (int)ZOO_PARAMETERS,
                   "room for every parameter");

    TRY(parse(e, spec, value));
    st = e->build(value, &built);
    if (st == STATUS_INVALID)
        st = error_context(st, "%s", e->name);
    TRY(st);
    char *name = malloc(strlen(spec) + 1);
    if (!name) {
        st = error_set(STATUS_NOMEM, "model '%s'", e->name);
        goto out;
    }
    strcpy(name, spec);
    free(built.name);
    built.name = name;
    *out = built;
    built = (struct model){0};

out:
    model_free(&built);
    return st;
}
