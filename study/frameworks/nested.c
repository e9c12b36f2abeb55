/* Writes rows as maps inside maps. */
#include "study/frameworks/nested.h"

#include <string.h>

#include "core/base/json.h"

/* Maps that are open. */
static size_t nested_depth(const char *path)
{
    size_t n = *path != '\0';
    for (; *path; path++)
        n += *path == '.';
    return n;
}

/* JSON has one pair of braces more around everything. */
static void indent(struct nested *n, size_t depth)
{
    fprintf(n->out, "%*s", (int)(2 * (depth + (n->style == NESTED_JSON))), "");
}

/* Characters that the two paths share, in whole parts. */
static size_t shared(const char *a, const char *b)
{
    size_t n = 0;
    for (size_t i = 0;; i++) {
        bool end_a = !a[i] || a[i] == '.', end_b = !b[i] || b[i] == '.';
        if (end_a && end_b)
            n = i;
        if (!a[i] || a[i] != b[i])
            return n;
    }
}

/* YAML ends lines itself; JSON has commas between members only. */
static void nested_next_line(struct nested *n)
{
    if (n->style == NESTED_JSON)
        fputs(n->filled ? ",\n" : "\n", n->out);
    n->filled = true;
}

/* Close maps until `keep` characters of the path are left, and open those of `path`. */
static void nested_open_maps(struct nested *n, const char *path)
{
    size_t keep = shared(n->open, path);
    if (n->style == NESTED_TOML) {
        if (strcmp(n->open, path) != 0)
            fprintf(n->out, "%s[%s]\n", *n->open ? "\n" : "", path);
        snprintf(n->open, sizeof n->open, "%s", path);
        return;
    }
    while (strlen(n->open) > keep) {
        char *last = strrchr(n->open, '.');
        *(last && (size_t)(last - n->open) >= keep ? last : n->open) = '\0';
        if (n->style == NESTED_JSON) {
            fputc('\n', n->out);
            indent(n, nested_depth(n->open));
            fputc('}', n->out);
            n->filled = true;
        }
    }
    for (const char *at = path + keep + (path[keep] == '.'); *at;) {
        size_t part = strcspn(at, ".");
        nested_next_line(n);
        indent(n, nested_depth(n->open));
        fprintf(n->out, n->style == NESTED_JSON ? "\"%.*s\": {" : "%.*s:\n", (int)part, at);
        n->filled = n->style != NESTED_JSON;
        size_t used = strlen(n->open);
        snprintf(n->open + used, sizeof n->open - used, "%s%.*s", used ? "." : "", (int)part, at);
        at += part + (at[part] == '.');
    }
}

/* A value that is a list already, "[...]", stands without quotes. */
void nested_put(void *to, const struct setup_row *row, const char *value, bool text)
{
    struct nested *n = to;
    char path[128];
    snprintf(path, sizeof path, "%s%s%s", row->section, *row->section ? "." : "", row->key);
    if (n->style == NESTED_JSON && !*n->open && !n->filled)
        fputc('{', n->out);
    char *last = strrchr(path, '.');
    const char *key = last ? last + 1 : path;
    char map[128] = "";
    if (last)
        snprintf(map, sizeof map, "%.*s", (int)(last - path), path);
    nested_open_maps(n, map);
    nested_next_line(n);
    if (n->style != NESTED_TOML)
        indent(n, nested_depth(map));
    bool quoted = text && value && *value != '[';
    const char *quote = quoted && n->style != NESTED_YAML ? "\"" : "";
    const char *open = n->style == NESTED_JSON ? "\"" : "";
    fprintf(n->out, "%s%s%s%s%s%s%s%s", open, key, open, n->style == NESTED_TOML ? " = " : ": ",
            quote, value ? value : "true", quote, n->style == NESTED_JSON ? "" : "\n");
}

/* JSON closes what is open; an empty document is an empty object. */
void nested_end(struct nested *n)
{
    if (n->style == NESTED_JSON) {
        nested_open_maps(n, "");
        fputs(n->filled ? "\n}\n" : "{}\n", n->out);
    }
}
