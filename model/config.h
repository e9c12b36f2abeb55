/* config.h - architectures from the keys of Hugging Face's configurations, config.json.
 *
 * What a key means is one table (config_keys.def), whichever file or list it comes from. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "model/architecture.h"

struct json_at;

/* Set what "key=value key=value ..." says, by the keys of config_keys.def. STATUS_INVALID. */
enum status config_set(struct architecture *a, const char *keys) MUST_CHECK;
/* The architecture that a configuration describes; of one with a "text_config" that part. The
 * family's usual values stand where a key is absent. STATUS_PARSE with path:line, and
 * STATUS_UNSUPPORTED with the families that there are. */
enum status config_read(const struct json_at *root, struct architecture *out) MUST_CHECK;

#endif
