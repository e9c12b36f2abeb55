/* yaml.h - a YAML text as a flat list of settings: nested maps joined by dots, each with its line.
 *
 *     plan: {stages: [1, 2]}      ->  "plan.stages", list of "1" and "2"
 *     cases: [{a: 1}, {a: 2}]     ->  "cases", list of two lists of settings
 * Anchors and aliases are refused: a few lines could stand for very much. */
#ifndef STUDY_YAML_H
#define STUDY_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct yaml_entry;

/* A text, a list or a map. */
struct yaml_value {
    size_t line;
    char *text;               /* owned; NULL: a list or a map */
    size_t items;             /* of a list */
    struct yaml_value *item;  /* [items] owned */
    size_t entries;           /* of a map */
    struct yaml_entry *entry; /* [entries] owned, in the file's order */
    bool is_map;
};

struct yaml_entry {
    char *key; /* owned */
    struct yaml_value value;
};

enum { YAML_DEPTH = 8 };

/* Read one document. Keys are texts, and no map has one twice. STATUS_PARSE as "path:line: what",
 * STATUS_NOMEM. */
enum status yaml_read(const char *path, const char *text, size_t length,
                      struct yaml_value *out) MUST_CHECK;
void yaml_value_free(struct yaml_value *v); /* accepts {0}; leaves {0} */

#endif
