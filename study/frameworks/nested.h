/* nested.h - rows as maps inside maps: YAML, TOML and JSON. */
#ifndef STUDY_FRAMEWORKS_NESTED_H
#define STUDY_FRAMEWORKS_NESTED_H

#include "study/frameworks/setup.h"

struct nested {
    FILE *out;
    enum nested_style { NESTED_YAML, NESTED_TOML, NESTED_JSON } style;
    char open[128]; /* dotted path of the maps that are open */
    bool filled;    /* JSON: something stands in the innermost one */
};

/* A setup_put of rows whose section and key are a dotted path; rows of a map must be neighbours. */
void nested_put(void *to, const struct setup_row *row, const char *value, bool text);
void nested_end(struct nested *n);

#endif
