/* YAML and JSON as flat lists of keys. JSON is YAML, and templates whose numbers are placeholders,
 * such as DeepSpeed's, are YAML only. */
#include <stdio.h>
#include <string.h>

#include "study/frameworks/keys.h"
#include "topologies/yaml.h"

enum { PATH_MOST = 512 };

/* Where the tree has been followed to. */
struct keys_walk {
    struct keys *keys;
    char path[PATH_MOST];
};

static enum status walk_value(struct keys_walk *w, const struct yaml_value *v, size_t end);

/* Append a part to the path, whose first `end` characters stay. */
static size_t keys_tree_extend_path(struct keys_walk *w, size_t end, const char *part)
{
    int n = snprintf(w->path + end, PATH_MOST - end, "%s%s", end ? "." : "", part);
    size_t length = end + (n > 0 ? (size_t)n : 0);
    return length < PATH_MOST ? length : PATH_MOST - 1;
}

/* Texts of a list as one value, "a, b", as programs print them; other items one by one. */
static enum status walk_list(struct keys_walk *w, const struct yaml_value *v, size_t end)
{
    char text[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < v->items; i++) {
        const char *item = v->item[i].text;
        if (!item) {
            char number[32];
            snprintf(number, sizeof number, "%zu", i);
            PASS(walk_value(w, &v->item[i], keys_tree_extend_path(w, end, number)));
            w->path[end] = '\0';
        } else if (used < sizeof text) {
            int n = snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", item);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    return keys_add(w->keys, w->path, text, v->line);
}

/* Depth is bounded by the reader of YAML (YAML_DEPTH). */
static enum status walk_value(struct keys_walk *w, const struct yaml_value *v, size_t end)
{
    if (v->text)
        return keys_add(w->keys, w->path, v->text, v->line);
    if (!v->is_map)
        return walk_list(w, v, end);
    for (size_t i = 0; i < v->entries; i++) {
        PASS(walk_value(w, &v->entry[i].value, keys_tree_extend_path(w, end, v->entry[i].key)));
        w->path[end] = '\0';
    }
    return STATUS_OK;
}

/* The tree lives in the arena of the keys, which borrow nothing from it but are copied. */
enum status keys_read_tree(struct keys *k, const char *text, size_t length)
{
    struct yaml_value root = {0};
    struct keys_walk w = {.keys = k};
    k->length = length;
    if (!(k->text = arena_text_n(&k->memory, text, length)))
        return STATUS_NOMEM;
    PASS(yaml_read_foreign(k->path, text, length, &k->memory, &root));
    return walk_value(&w, &root, 0);
}
