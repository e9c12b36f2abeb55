/* Transformers that have been published, by the keys of their configurations: published.def. */
#include "model/config.h"
#include "model/zoo.h"

enum { TOKENS, LAYERS, DTYPE, FLASH, CAPACITY, PARAMETERS };

static enum status published_describe(const char *family, const char *keys, const int64_t *value,
                                      struct architecture *a, struct architecture_choice *c)
{
    *c = (struct architecture_choice){.tokens = value[TOKENS],
                                      .layers = value[LAYERS],
                                      .capacity = value[CAPACITY],
                                      .dtype = (enum data_type)value[DTYPE],
                                      .flash = value[FLASH]};
    *a = family_find(family)->usual;
    PASS(config_set(a, keys));
    a->context = a->context < c->tokens && !(a->traits & TRAIT_POSITIONS) ? c->tokens : a->context;
    return STATUS_OK;
}

static enum status published_build(const char *family, const char *keys, const int64_t *value,
                                   struct model *out)
{
    struct architecture_choice c;
    struct architecture a;
    PASS(published_describe(family, keys, value, &a, &c));
    return architecture_build(&a, &c, family, out);
}

#define PUBLISHED(id, name_, family_, tokens_, layers_, summary_, keys_)                           \
    static enum status build_##id(const int64_t *value, struct model *out)                         \
    {                                                                                              \
        return published_build(#family_, keys_, value, out);                                       \
    }                                                                                              \
    static enum status describe_##id(const int64_t *value, struct architecture *a,                 \
                                     struct architecture_choice *c)                                \
    {                                                                                              \
        return published_describe(#family_, keys_, value, a, c);                                   \
    }                                                                                              \
    static const struct zoo_parameter rows_##id[PARAMETERS] = {                                    \
        [TOKENS] = {"tokens", "tokens per sample (sequence length)", tokens_, 1, 1 << 24},         \
        [LAYERS] = {"layers", "transformer layers", layers_, 1, ARCHITECTURE_LAYERS},              \
        [DTYPE] = ZOO_DTYPE(DATA_bf16),                                                            \
        [FLASH] = {"flash", "1: fused attention, which stores no (tokens, tokens) matrix", 1, 0,   \
                   1},                                                                             \
        [CAPACITY] = ZOO_SLOTS,                                                                    \
    };                                                                                             \
    const struct zoo_entry zoo_##id = {name_,     summary_,   PARAMETERS,                          \
                                       rows_##id, build_##id, describe_##id};
#include "model/published.def"
#undef PUBLISHED
