/* Walks over the text of JSON without making values of it. */
#include "core/base/json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_DEPTH = 2048 }; /* jansson's */

const char *json_text_begin(const char *p)
{
    return p + strspn(p, " \t\r\n");
}

static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* Past a value of valid JSON: to the matching bracket, or the end of a number or word. */
static const char *skip_value(const char *p)
{
    if (*p == '"')
        return skip_string(p);
    if (*p != '{' && *p != '[')
        return p + strcspn(p, ",]} \t\r\n");
    int depth = 0;
    do {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        depth += *p == '{' || *p == '[';
        depth -= *p == '}' || *p == ']';
        p++;
    } while (depth > 0 && *p);
    return p;
}

/* Is the string at p this key? Keys with escapes are not found: errors then name the object. */
static bool key_is(const char *p, const char *key)
{
    size_t length = strlen(key);
    return !strncmp(p + 1, key, length) && p[1 + length] == '"';
}

const char *json_text_enter(const char *container, const char *key, size_t index)
{
    const char *p = json_text_begin(container + 1);
    for (size_t i = 0; *p && *p != '}' && *p != ']'; i++) {
        bool here = key ? key_is(p, key) : i == index;
        if (*container == '{') {
            p = json_text_begin(skip_string(p));
            p = json_text_begin(*p ? p + 1 : p); /* the colon */
        }
        if (here)
            return p;
        p = json_text_begin(skip_value(p));
        if (*p == ',')
            p = json_text_begin(p + 1);
    }
    return container;
}

enum status json_text_check(const char *path, const char *text)
{
    uint32_t members[MAX_DEPTH] = {0};
    size_t depth = 0, line = 1;
    for (const char *p = text + strcspn(text, "\"{[]}:\n"); *p; p += strcspn(p, "\"{[]}:\n")) {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        line += *p == '\n';
        if ((*p == '{' || *p == '[') && ++depth < MAX_DEPTH)
            members[depth] = 0;
        if (depth >= MAX_DEPTH)
            break;
        if (*p == ':' && ++members[depth] > JSON_TEXT_MEMBERS)
            return error_set(STATUS_PARSE, "%s:%zu: object has more than %d members", path, line,
                             JSON_TEXT_MEMBERS);
        depth -= (*p == '}' || *p == ']') && depth > 0;
        p++;
    }
    return STATUS_OK;
}
