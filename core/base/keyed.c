/* Names with numbers. */
#include "core/base/keyed.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

enum { WORD = 64 };

static enum status keyed_read_value(const char *what, const char *name, const char *text,
                                    const struct keyed_field *field, double *value)
{
    if (field->quantity) {
        if (units_parse(field->unit, text, value) != STATUS_OK)
            return error_context(STATUS_INVALID, "%s %s: %s", what, name, field->key);
        if (*value >= field->least && *value <= field->most)
            return STATUS_OK;
        return error_set(STATUS_INVALID, "%s %s: %s: got '%.40s', expected %s to %s", what, name,
                         field->key, text, units_of(field->unit, field->least).text,
                         units_of(field->unit, field->most).text);
    }
    if (text_real(text, value) && *value >= field->least && *value <= field->most)
        return STATUS_OK;
    return error_set(STATUS_INVALID, "%s %s: %s: got '%.40s', expected %g to %g", what, name,
                     field->key, text, field->least, field->most);
}

/* One "KEY=NUMBER" of n characters; *set: the keys so far. */
static enum status keyed_read_one(const char *what, const char *name, const char *text, size_t n,
                                  const struct keyed_field *field, size_t fields, uint32_t of,
                                  uint32_t *set, void *into)
{
    char word[WORD];
    double value;
    snprintf(word, sizeof word, "%.*s", (int)(n < WORD ? n : WORD - 1), text);
    char *equals = strchr(word, '=');
    if (!equals || n >= WORD)
        return error_set(STATUS_INVALID, "%s %s: got '%s', expected KEY=NUMBER", what, name, word);
    *equals = '\0';
    for (size_t k = 0; k < fields; k++) {
        if (!text_same_key(field[k].key, word) || !(field[k].of & of))
            continue;
        if (*set & 1u << k)
            return error_set(STATUS_INVALID, "%s %s: %s is given twice", what, name, word);
        *set |= 1u << k;
        PASS(keyed_read_value(what, name, equals + 1, &field[k], &value));
        memcpy((char *)into + field[k].offset, &value, sizeof value);
        return STATUS_OK;
    }
    char known[TEXT_LIST] = "";
    size_t used = 0;
    for (size_t k = 0; k < fields && used < sizeof known; k++)
        if (field[k].of & of)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     field[k].key);
    return error_set(STATUS_INVALID, "%s %s: unknown key '%.40s'; known: %s", what, name, word,
                     known);
}

enum status keyed_read(const char *what, const char *text, const struct keyed_name *const *names,
                       size_t n, const struct keyed_field *field, size_t fields, size_t *which,
                       void *into)
{
    char name[WORD];
    const struct keyed_name *found;
    size_t length = strcspn(text, ":"), number = 0;
    uint32_t set = 0;
    snprintf(name, sizeof name, "%.*s", (int)(length < WORD ? length : WORD - 1), text);
    PASS(text_find(what, name, names, n, &found));
    while (names[number] != found)
        number++;
    for (const char *at = text + length; *at; at += length) {
        at++; /* ':' or ',' */
        length = strcspn(at, ",");
        PASS(
            keyed_read_one(what, found->name, at, length, field, fields, 1u << number, &set, into));
    }
    *which = number;
    return STATUS_OK;
}
