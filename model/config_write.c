/* Architectures as configurations that config_read() reads back, and the architecture behind the
 * name of a model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "model/config.h"
#include "model/import.h"
#include "model/zoo.h"

const struct config_trait config_traits[] = {
#define TRAIT(id, name) {name, TRAIT_##id},
#include "model/traits.def"
#undef TRAIT
};
const size_t config_traits_n = sizeof config_traits / sizeof *config_traits;

static const struct {
    const char *name;
    size_t offset;
} keys[] = {
#define KEY(id, member, max_) {#id, offsetof(struct architecture, member)},
#include "model/config_keys.def"
#undef KEY
};
enum { KEYS = sizeof keys / sizeof *keys };

/* Of keys for one member the first. */
static void write_numbers(const struct architecture *a, struct json_writer *w)
{
    for (size_t i = 0; i < KEYS; i++) {
        int64_t value;
        size_t first = 0;
        while (keys[first].offset != keys[i].offset)
            first++;
        memcpy(&value, (const char *)a + keys[i].offset, sizeof value);
        if (first == i && value != 0)
            json_put_integer(w, keys[i].name, value);
    }
}

/* Layers that differ from the others one by one. */
static void write_layers(const struct architecture *a, struct json_writer *w)
{
    bool plain = false;
    for (size_t i = 0; i < ARCHITECTURE_LAYERS; i++)
        plain |= a->layer[i] & LAYER_PLAIN;
    if (a->listed > 0) {
        json_open_array(w, "layer_types", true);
        for (size_t i = 0; i < a->listed; i++)
            json_put_string(w, NULL,
                            a->layer[i] & LAYER_WINDOWED ? "sliding_attention" : "full_attention");
        json_close(w);
    }
    if (!plain)
        return;
    json_open_array(w, "mlp_only_layers", true);
    for (size_t i = 0; i < ARCHITECTURE_LAYERS; i++)
        if (a->layer[i] & LAYER_PLAIN)
            json_put_integer(w, NULL, (int64_t)i);
    json_close(w);
}

void config_write(const struct architecture *a, FILE *out)
{
    struct json_writer w = {.stream = out};
    json_open_object(&w, NULL, false);
    json_put_string(&w, "model_type", "transformer");
    json_open_array(&w, "traits", true);
    for (size_t i = 0; i < config_traits_n; i++)
        if (a->traits & config_traits[i].trait)
            json_put_string(&w, NULL, config_traits[i].name);
    json_close(&w);
    write_numbers(a, &w);
    write_layers(a, &w);
    if (a->dtype != DATA_ANY)
        json_put_string(&w, "torch_dtype", config_dtypes[a->dtype]);
    json_close(&w);
}

enum status config_find(const char *spec, struct architecture *a, struct architecture_choice *c)
{
    enum status st;
    struct json_document d = {0};
    char *path = NULL;
    const char *choices;
    if (zoo_has(spec))
        return zoo_describe(spec, a, c);
    TRY(import_split_choices(spec, &path, &choices));
    TRY(json_read(path, NULL, 0, &d));
    struct json_at root = json_root(&d), type, class;
    TRY(json_optional(&root, "model_type", &type));
    TRY(json_optional(&root, "architectures", &class));
    if (json_kind(&type) != JSON_IS_TEXT && json_kind(&class) != JSON_IS_ARRAY)
        FAIL(STATUS_UNSUPPORTED, "%s is not a transformer configuration", path);
    st = config_describe(&root, choices, a, c);
out:
    json_document_free(&d);
    free(path);
    return st;
}
