/* yaml.h - a YAML text as a tree of texts, lists and maps, each with its line.
 *
 *     plan: {stages: [1, 2]}      ->  map of "plan" to a map of "stages" to a list of "1" and "2"
 * All scalars are texts; what they mean is the caller's business. Anchors and aliases are refused,
 * as a few lines could stand for very much. */
#ifndef TOPOLOGIES_YAML_H
#define TOPOLOGIES_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/array.h"

struct yaml_entry;

/* A text, a list or a map; all of it in the arena that it was read into. */
struct yaml_value {
    size_t line;
    char *text;               /* NULL: a list or a map */
    size_t items;             /* of a list */
    struct yaml_value *item;  /* [items] */
    size_t entries;           /* of a map */
    struct yaml_entry *entry; /* [entries] in the file's order */
    bool is_map;
};

struct yaml_entry {
    char *key;
    struct yaml_value value;
};

enum { YAML_DEPTH = 8 };

/* Read one document. Keys are texts, and no map has one twice. STATUS_PARSE as "path:line: what",
 * STATUS_NOMEM. */
enum status yaml_read(const char *path, const char *text, size_t length, struct arena *arena,
                      struct yaml_value *out) MUST_CHECK;
/* The same for files of other programs: values may be empty (""), texts have several lines,
 * and all may be one list. */
enum status yaml_read_foreign(const char *path, const char *text, size_t length,
                              struct arena *arena, struct yaml_value *out) MUST_CHECK;
/* The value of a key; NULL: not there, or `map` is none. */
const struct yaml_value *yaml_get(const struct yaml_value *map, const char *key);

#endif
