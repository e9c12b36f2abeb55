/* config.h - architectures from the keys of Hugging Face's configurations, config.json.
 *
 * What a key means is one table (config_keys.def), whichever file or list it comes from. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdio.h>

#include "model/architecture.h"

struct json_at;

/* What types of numbers are called in configurations ("torch_dtype"). */
extern const char *const config_dtypes[DATA_TYPES];

/* Set what "key=value key=value ..." says, by the keys of config_keys.def. STATUS_INVALID. */
enum status config_set(struct architecture *a, const char *keys) MUST_CHECK;
/* The architecture that a configuration describes; of one with a "text_config" that part. The
 * family's usual values stand where a key is absent. STATUS_PARSE with path:line, and
 * STATUS_UNSUPPORTED with the families that there are. */
enum status config_read(const struct json_at *root, struct architecture *out) MUST_CHECK;

/* The same, and what ":tokens=8192,layers=4" chooses beside it; NULL: nothing. */
enum status config_describe(const struct json_at *root, const char *choices, struct architecture *a,
                            struct architecture_choice *c) MUST_CHECK;

/* Traits by the names that they have in "traits" of a configuration. */
struct config_trait {
    const char *name;
    uint32_t trait;
};
extern const struct config_trait config_traits[]; /* [config_traits_n] */
extern const size_t config_traits_n;
/* Write a configuration of the family "transformer", which says all of the architecture by itself,
 * so that config_read() gives it back. */
void config_write(const struct architecture *a, FILE *out);

/* The architecture behind a name of the zoo or a configuration file with choices, as load_model()
 * takes them. STATUS_UNSUPPORTED: it is another kind of model. */
enum status config_find(const char *spec, struct architecture *a,
                        struct architecture_choice *c) MUST_CHECK;

/* For config.c: a key that is no plain number, into *a; *special: it was one. And a number, or yes
 * and no as 1 and 0. STATUS_PARSE. */
enum status config_read_special(const struct json_at *at, struct architecture *a,
                                bool *special) MUST_CHECK;
enum status config_get_number(const struct json_at *at, int64_t max, int64_t *out) MUST_CHECK;

#endif
