/* Reads configurations of Hugging Face's models: config.json.
 *
 * A file names its family ("model_type", or a class in "architectures") and holds the keys in which
 * the model differs from the defaults of the family's class; all others are defaults. Most keys are
 * numbers and rows of config_keys.def; those that are lists or that change several things at once
 * have a function here. Keys that change neither sizes nor work are passed over. */
#include "model/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "model/import.h"
#include "model/zoo.h"

/* ---- keys of one number */

static const struct config_key {
    const char *name;
    size_t offset;
    int64_t max;
} keys[] = {
#define KEY(id, member, max_) {#id, offsetof(struct architecture, member), max_},
#include "model/config_keys.def"
#undef KEY
};
enum { KEYS = sizeof keys / sizeof *keys };

static const struct config_key *key_find(const char *name, size_t length)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strlen(keys[i].name) == length && memcmp(keys[i].name, name, length) == 0)
            return &keys[i];
    return NULL;
}

static void config_put_key(struct architecture *a, const struct config_key *k, int64_t value)
{
    memcpy((char *)a + k->offset, &value, sizeof value);
}

enum status config_set(struct architecture *a, const char *text)
{
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "=");
        const struct config_key *k = key_find(at, length);
        char *end = NULL;
        if (!k || at[length] != '=')
            return error_set(STATUS_INVALID, "unknown key '%.*s'", (int)length, at);
        long long value = strtoll(at + length + 1, &end, 10);
        if (value < 0 || value > k->max || (*end && *end != ' '))
            return error_set(STATUS_INVALID, "%s: expected a whole number from 0 to %" PRId64,
                             k->name, k->max);
        config_put_key(a, k, value);
        at = *end ? end + 1 : end;
    }
    return STATUS_OK;
}

static enum status config_read_member(const struct json_at *at, struct architecture *a)
{
    const struct config_key *k = key_find(at->key, strlen(at->key));
    int64_t value;
    bool special;
    PASS(config_read_special(at, a, &special));
    if (special || !k)
        return STATUS_OK;
    PASS(config_get_number(at, k->max, &value));
    config_put_key(a, k, value);
    return STATUS_OK;
}

/* ---- the family */

/* The first name in "architectures"; NULL: none. */
static enum status class_of(const struct json_at *object, const char **out)
{
    struct json_at list, item;
    size_t n = 0;
    *out = NULL;
    PASS(json_optional(object, "architectures", &list));
    if (!list.value)
        return STATUS_OK;
    PASS(json_get_array(&list, 64, &n));
    if (n == 0)
        return STATUS_OK;
    item = json_item(&list, 0);
    return json_get_string(&item, out);
}

/* LlamaForCausalLM is of "Llama", GPT2LMHeadModel of "GPT2", BertModel of "Bert". */
static const struct model_family *family_of_class(const char *name)
{
    static const char *const ends[] = {"For", "LMHead", "Model", "Encoder"};
    for (size_t i = 0; name && i < transformer_families_n; i++) {
        size_t length = strlen(transformer_families[i]->class_name);
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (strncmp(name, transformer_families[i]->class_name, length) == 0 &&
                strncmp(name + length, ends[k], strlen(ends[k])) == 0)
                return transformer_families[i];
    }
    return NULL;
}

static enum status config_text(const struct json_at *object, const char *key, const char **out)
{
    struct json_at at;
    *out = NULL;
    PASS(json_optional(object, key, &at));
    return at.value ? json_get_string(&at, out) : STATUS_OK;
}

static enum status config_unknown_family(const struct json_at *root, const char *type,
                                         const char *class)
{
    char known[TEXT_LIST];
    text_list(transformer_families, transformer_families_n, known);
    if (!type && !class)
        return error_set(STATUS_INVALID,
                         "%s: model family is missing; set \"model_type\" to one of %s",
                         root->document->path, known);
    return error_set(STATUS_UNSUPPORTED, "%s: unknown model family '%s'; known: %s",
                     root->document->path, type ? type : class, known);
}

/* A model of Calculon's: the blocks of a GPT, of which it names no family. Two of its names are
 * enough, so that one that is missing is named. */
static const char *const calculon_keys[] = {"hidden",     "feedforward", "seq_size",
                                            "attn_heads", "attn_size",   "num_blocks"};

static bool config_is_calculon(const struct json_at *root)
{
    struct json_at at;
    size_t own = 0; /* "hidden" is others' too */
    for (size_t i = 1; i < sizeof calculon_keys / sizeof *calculon_keys; i++)
        own += json_optional(root, calculon_keys[i], &at) == STATUS_OK && at.value;
    return own >= 2;
}

/* It has no defaults. */
static enum status check_calculon(const struct json_at *root)
{
    struct json_at at;
    for (size_t i = 0; i < sizeof calculon_keys / sizeof *calculon_keys; i++)
        PASS(json_field(root, calculon_keys[i], &at));
    return STATUS_OK;
}

/* Models of several media are read by their part for text. */
static enum status config_find_family(const struct json_at *root, const struct json_at *text,
                                      const struct model_family **out, const char **class)
{
    const char *type, *outer;
    PASS(config_text(text, "model_type", &type));
    PASS(config_text(root, "model_type", &outer));
    PASS(class_of(text, class));
    if (!*class)
        PASS(class_of(root, class));
    *out = type ? family_find(type) : NULL;
    if (!*out && outer)
        *out = family_find(outer);
    if (!*out)
        *out = family_of_class(*class);
    if (!*out && config_is_calculon(root)) {
        PASS(check_calculon(root));
        *out = family_find("gpt2");
    }
    return *out ? STATUS_OK : config_unknown_family(root, type ? type : outer, *class);
}

enum status config_read(const struct json_at *root, struct architecture *out)
{
    const struct model_family *family;
    const char *class;
    struct json_at text;
    PASS(json_optional(root, "text_config", &text));
    if (!text.value)
        text = *root;
    PASS(config_find_family(root, &text, &family, &class));
    struct architecture a = family->usual;
    for (struct json_at at = json_first(&text); at.key; at = json_next(&at))
        PASS(config_read_member(&at, &a));
    bool masked = class && (strstr(class, "MaskedLM") || strstr(class, "LMHead") ||
                            strstr(class, "PreTrain"));
    if (a.traits & TRAIT_POOLER && masked)
        a.traits ^= TRAIT_POOLER | TRAIT_MASKED_HEAD;
    if (a.traits & TRAIT_POOLER && class && strstr(class, "ForSequenceClassification"))
        a.classes = a.classes > 0 ? a.classes : 2;
    else if (class && !(a.traits & TRAIT_IMAGES))
        a.classes = 0; /* every configuration has names of two classes */
    if (a.traits & TRAIT_ENCODER_DECODER && class && strstr(class, "ForCausalLM"))
        a.decoder.only = 1;
    *out = a;
    return STATUS_OK;
}

/* ---- as a model file */

static bool config_recognises(const struct json_at *root)
{
    for (struct json_at at = json_first(root); at.key; at = json_next(&at))
        if ((strcmp(at.key, "model_type") == 0 && json_kind(&at) == JSON_IS_TEXT) ||
            (strcmp(at.key, "architectures") == 0 && json_kind(&at) == JSON_IS_ARRAY) ||
            strcmp(at.key, "num_hidden_layers") == 0)
            return true;
    return config_is_calculon(root);
}

enum { CHOICE_TOKENS, CHOICE_LAYERS, CHOICE_DTYPE, CHOICE_FLASH, CHOICE_CAPACITY, CHOICES };

enum status config_describe(const struct json_at *root, const char *choices, struct architecture *a,
                            struct architecture_choice *c)
{
    static const struct zoo_parameter rows[CHOICES] = {
        [CHOICE_TOKENS] = {"tokens", "tokens per sample", 0, 1, 1 << 24},
        [CHOICE_LAYERS] = {"layers", "transformer layers", 0, 1, ARCHITECTURE_LAYERS},
        [CHOICE_DTYPE] = ZOO_DTYPE(DATA_ANY),
        [CHOICE_FLASH] = {"flash", "1: fused attention", 1, 0, 1},
        [CHOICE_CAPACITY] = ZOO_SLOTS,
    };
    const struct zoo_entry e = {
        .name = root->document->path, .parameters = CHOICES, .parameter = rows};
    int64_t value[CHOICES];
    PASS(zoo_read_values(&e, choices ? choices : "", value));
    PASS(config_read(root, a));
    *c = (struct architecture_choice){.tokens = value[CHOICE_TOKENS],
                                      .layers = value[CHOICE_LAYERS],
                                      .capacity = value[CHOICE_CAPACITY],
                                      .dtype = (enum data_type)value[CHOICE_DTYPE],
                                      .flash = value[CHOICE_FLASH]};
    return STATUS_OK;
}

static enum status read_config(const struct json_at *root, const struct import_options *o,
                               struct model *out)
{
    struct architecture a;
    struct architecture_choice c;
    PASS(config_describe(root, o->choices, &a, &c));
    enum status st = architecture_build(&a, &c, root->document->path, out);
    return st == STATUS_INVALID ? error_context(st, "%s", root->document->path) : st;
}

const struct importer importer_config = {
    .name = "config",
    .summary = "hyper-parameters of a transformer: config.json of Hugging Face, or a model file of "
               "Calculon",
    .takes_choices = true,
    .recognises_json = config_recognises,
    .read_json = read_config,
};
