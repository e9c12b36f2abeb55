/* Reads JSON: documents, cursors into them, values with their type and range. */
#include "core/base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <jansson.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json_text.h"
#include "core/base/looks.h"
#include "core/base/order.h"
#include "core/base/text.h"

enum { WHERE_TEXT = 256, MAX_NUMBERS = 1 << 24 };

/* Where the value stands in the text: found by walking from the root again, since jansson keeps no
 * positions. Only errors pay for it. */
static const char *json_locate(const struct json_at *at)
{
    if (!at->parent)
        return json_text_begin(at->document->text);
    return json_text_enter(json_locate(at->parent), at->key, at->index);
}

/* "stages[2].devices[0]", "" for the root. */
static void json_describe(const struct json_at *at, char where[WHERE_TEXT])
{
    if (!at->parent) {
        where[0] = '\0';
        return;
    }
    json_describe(at->parent, where);
    size_t n = strlen(where);
    if (at->key)
        snprintf(where + n, WHERE_TEXT - n, "%s%.60s", n ? "." : "", at->key);
    else
        snprintf(where + n, WHERE_TEXT - n, "[%zu]", at->index);
}

enum status json_complain(const struct json_at *at, const char *message)
{
    size_t line = 1, column = 1;
    const char *p = json_locate(at);
    for (const char *c = at->document->text; c < p; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return error_set(STATUS_PARSE, "%s:%zu:%zu: %s", at->document->path, line, column, message);
}

enum status json_error(const struct json_at *at, const char *fmt, ...)
{
    char message[512 + WHERE_TEXT], where[WHERE_TEXT];
    va_list ap;
    json_describe(at, where);
    int n = snprintf(message, sizeof message, "%s%s", where, *where ? ": " : "");
    va_start(ap, fmt);
    vsnprintf(message + n, 512, fmt, ap);
    va_end(ap);
    return json_complain(at, message);
}

/* ---- documents */

enum status json_check_format(const struct json_document *d, const char *format, int version)
{
    struct json_at root = json_root(d), at;
    const char *found;
    char looks[LOOKS];
    int64_t number;

    if (!format)
        return STATUS_OK;
    if (!json_is_object(d->root))
        return json_error(&root, "expected an object with \"format\": \"%s\"", format);
    PASS(json_optional(&root, "format", &at));
    if (!at.value)
        return json_error(&root, "\"format\" is missing, expected %s%s", format,
                          looks_like(d->text, strlen(d->text), looks));
    PASS(json_get_string(&at, &found));
    if (strcmp(found, format) != 0)
        return json_error(&at, "got a %.60s file, expected %s", found, format);
    PASS(json_field(&root, "version", &at));
    PASS(json_get_integer(&at, 1, INT32_MAX, &number));
    if (number > version)
        return json_error(
            &at, "version %lld is newer than this foreline (reads up to %d); upgrade foreline",
            (long long)number, version);
    return STATUS_OK;
}

enum {
    VALUES = 5
}; /* bytes that values may take for each of the file: of three letters jansson makes 200 */

/* What the values of the document that this thread reads may take yet, bytes; SIZE_MAX while it
 * reads none. jansson is the whole process's: a program that uses it besides libforeline is not
 * counted, and keeps allocators of its own. */
static _Thread_local size_t budget = SIZE_MAX;
static _Thread_local bool failed; /* an allocation; jansson does not always say so */
static once_flag counted = ONCE_FLAG_INIT;

static void *json_allocate(size_t n)
{
    void *p = n <= budget ? malloc(n) : NULL;
    budget = budget == SIZE_MAX ? SIZE_MAX : n > budget ? 0 : p ? budget - n : budget;
    failed = failed || !p;
    return p;
}

static void count_memory(void)
{
    json_malloc_t get;
    json_free_t release;
    json_get_alloc_funcs(&get, &release);
    if (release == free)
        json_set_alloc_funcs(json_allocate, free);
}

static enum status no_memory(const char *path, size_t left)
{
    char more[LIMIT_MORE];
    if (left > 0)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    return error_set(STATUS_PARSE, "%s:1: parsed JSON values take more than %g MiB of memory%s",
                     path, VALUES * limit_size(MOST_JSON), limit_more(LIMIT_size, more));
}

/* Text and path are kept for messages; the text is taken over, also on failure. */
static enum status json_parse_text(const char *path, char *text, size_t length, const char *format,
                                   int version, struct json_document *out)
{
    enum status st = STATUS_OK;
    struct json_document d = {.text = text};
    char looks[LOOKS];
    json_error_t e;

    TRY(text_copy(path, &d.path));
    TRY(json_text_check(path, text));
    call_once(&counted, count_memory);
    budget = VALUES * limit_bytes(MOST_JSON);
    failed = false;
    d.root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &e);
    size_t left = budget;
    budget = SIZE_MAX;
    if (!d.root) {
        const char *begin = text + strspn(text, " \t\r\n");
        if (failed)
            st = no_memory(path, left);
        else if (!*begin || !strchr("{[", *begin))
            st =
                error_set(STATUS_PARSE, "%s:1:1: not JSON%s%s%s", path, format ? ", expected " : "",
                          format ? format : "", looks_like(d.text, length, looks));
        else
            st = error_set(STATUS_PARSE, "%s:%d:%d: %s%s%s%s", path, e.line < 1 ? 1 : e.line,
                           e.column < 1 ? 1 : e.column, e.text, format ? "; expected " : "",
                           format ? format : "", looks_like(d.text, length, looks));
        goto out;
    }
    TRY(json_check_format(&d, format, version));
    MOVE(out, d);
out:
    json_document_free(&d);
    return st;
}

enum status json_parse(const char *path, const char *text, size_t length, const char *format,
                       int version, struct json_document *out)
{
    char *copy;
    PASS(file_check_size(path, length, MOST_JSON));
    PASS(ARRAY_NEW(copy, length + 1));
    memcpy(copy, text, length);
    return json_parse_text(path, copy, length, format, version, out);
}

enum status json_read(const char *path, const char *format, int version, struct json_document *out)
{
    char *text;
    size_t length;
    PASS(file_read_most(path, MOST_JSON, &text, &length));
    return json_parse_text(path, text, length, format, version, out);
}

void json_document_free(struct json_document *d)
{
    json_decref(d->root);
    free(d->text);
    free(d->path);
    *d = (struct json_document){0};
}

struct json_at json_root(const struct json_document *d)
{
    return (struct json_at){.document = d, .value = d->root};
}

/* ---- values */

static const char *type_name(const json_t *v)
{
    if (!v)
        return "nothing";
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

/* null counts as absent. */
enum status json_optional(const struct json_at *object, const char *key, struct json_at *out)
{
    if (!json_is_object(object->value))
        return json_error(object, "expected an object, found %s", type_name(object->value));
    const json_t *v = json_object_get(object->value, key);
    *out = (struct json_at){.document = object->document,
                            .value = json_is_null(v) ? NULL : v,
                            .parent = object,
                            .key = key};
    return STATUS_OK;
}

enum status json_field(const struct json_at *object, const char *key, struct json_at *out)
{
    enum status st = json_optional(object, key, out);
    if (st == STATUS_OK && !out->value)
        return json_error(object, "\"%s\" is missing", key);
    return st;
}

enum status json_get_array(const struct json_at *at, size_t limit, size_t *n)
{
    if (!json_is_array(at->value))
        return json_error(at, "expected an array, found %s", type_name(at->value));
    if (json_array_size(at->value) > limit)
        return json_error(at, "got %zu items, expected at most %zu", json_array_size(at->value),
                          limit);
    *n = json_array_size(at->value);
    return STATUS_OK;
}

struct json_at json_item(const struct json_at *array, size_t i)
{
    return (struct json_at){array->document, json_array_get(array->value, i), array, NULL, i};
}

size_t json_members(const struct json_at *object)
{
    return json_is_object(object->value) ? json_object_size(object->value) : 0;
}

static struct json_at member_at(const struct json_at *object, void *it)
{
    return (struct json_at){object->document, it ? json_object_iter_value(it) : NULL, object,
                            it ? json_object_iter_key(it) : NULL, 0};
}

struct json_at json_first(const struct json_at *object)
{
    return member_at(object, json_object_iter((json_t *)object->value));
}

struct json_at json_next(const struct json_at *member)
{
    return member_at(member->parent, json_object_iter_next((json_t *)member->parent->value,
                                                           json_object_key_to_iter(member->key)));
}

enum json_kind json_kind(const struct json_at *at)
{
    if (!at->value)
        return JSON_ABSENT;
    switch (json_typeof(at->value)) {
    case JSON_OBJECT:
        return JSON_IS_OBJECT;
    case JSON_ARRAY:
        return JSON_IS_ARRAY;
    case JSON_STRING:
        return JSON_IS_TEXT;
    case JSON_INTEGER:
    case JSON_REAL:
        return JSON_IS_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_IS_BOOL;
    case JSON_NULL:
        break;
    }
    return JSON_IS_NULL;
}

/* NUL characters are refused: C strings would end there. */
enum status json_get_string(const struct json_at *at, const char **out)
{
    if (!json_is_string(at->value))
        return json_error(at, "expected a string, found %s", type_name(at->value));
    if (strlen(json_string_value(at->value)) != json_string_length(at->value))
        return json_error(at, "string contains a NUL character");
    *out = json_string_value(at->value);
    return STATUS_OK;
}

enum status json_get_copy(const struct json_at *at, char **out)
{
    const char *text;
    PASS(json_get_string(at, &text));
    return text_copy(text, out);
}

enum status json_get_real(const struct json_at *at, double min, double max, double *out)
{
    if (!json_is_number(at->value))
        return json_error(at, "expected a number, found %s", type_name(at->value));
    double v = json_number_value(at->value);
    if (!(v >= min && v <= max))
        return json_error(at, "%g is out of range, expected %g to %g", v, min, max);
    *out = v;
    return STATUS_OK;
}

/* A fraction is not an integer, even 2.0. */
enum status json_get_integer(const struct json_at *at, int64_t min, int64_t max, int64_t *out)
{
    if (!json_is_integer(at->value))
        return json_error(at, "expected an integer, found %s",
                          json_is_real(at->value) ? "a fraction" : type_name(at->value));
    int64_t v = json_integer_value(at->value);
    if (v < min || v > max)
        return json_error(at, "%lld is out of range, expected %lld to %lld", (long long)v,
                          (long long)min, (long long)max);
    *out = v;
    return STATUS_OK;
}

enum status json_get_bool(const struct json_at *at, bool *out)
{
    if (!json_is_boolean(at->value))
        return json_error(at, "expected true or false, found %s", type_name(at->value));
    *out = json_is_true(at->value);
    return STATUS_OK;
}

enum status json_get_reals(const struct json_at *at, double min, double max, bool nulls,
                           double **out, size_t *count)
{
    enum status st;
    size_t n;
    double *value = NULL;
    TRY(json_get_array(at, MAX_NUMBERS, &n));
    TRY(ARRAY_NEW(value, n));
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        if (nulls && json_is_null(item.value))
            value[i] = (double)NAN;
        else
            TRY(json_get_real(&item, min, max, &value[i]));
    }
    *out = value;
    *count = n;
    value = NULL;
out:
    free(value);
    return st;
}

void json_names_sort(struct json_name *names, size_t n)
{
    qsort(names, n, sizeof *names, order_by_name);
}

/* Binary search; the names are sorted. */
enum status json_get_name(const struct json_at *at, const char *what, const struct json_name *names,
                          size_t n, uint32_t *out)
{
    struct json_name key = {0};
    PASS(json_get_string(at, &key.name));
    const struct json_name *found = bsearch(&key, names, n, sizeof *names, order_by_name);
    if (!found)
        return json_error(at, "unknown %s '%.100s'", what, key.name);
    *out = found->index;
    return STATUS_OK;
}

/* ---- fields in one step */

enum status json_need_text(const struct json_at *object, const char *key, char **out)
{
    struct json_at at = {0};
    enum status st = json_field(object, key, &at);
    return st == STATUS_OK ? json_get_copy(&at, out) : st;
}

enum status json_need_real(const struct json_at *object, const char *key, double min, double max,
                           double *out)
{
    struct json_at at = {0};
    enum status st = json_field(object, key, &at);
    return st == STATUS_OK ? json_get_real(&at, min, max, out) : st;
}

enum status json_may_real(const struct json_at *object, const char *key, double min, double max,
                          double *out)
{
    struct json_at at = {0};
    enum status st = json_optional(object, key, &at);
    return st == STATUS_OK && at.value ? json_get_real(&at, min, max, out) : st;
}

enum status json_need_integer(const struct json_at *object, const char *key, int64_t min,
                              int64_t max, int64_t *out)
{
    struct json_at at = {0};
    enum status st = json_field(object, key, &at);
    return st == STATUS_OK ? json_get_integer(&at, min, max, out) : st;
}

enum status json_may_integer(const struct json_at *object, const char *key, int64_t min,
                             int64_t max, int64_t *out)
{
    struct json_at at = {0};
    enum status st = json_optional(object, key, &at);
    return st == STATUS_OK && at.value ? json_get_integer(&at, min, max, out) : st;
}

enum status json_may_bool(const struct json_at *object, const char *key, bool *out)
{
    struct json_at at = {0};
    enum status st = json_optional(object, key, &at);
    return st == STATUS_OK && at.value ? json_get_bool(&at, out) : st;
}

enum status json_may_choice(const struct json_at *object, const char *key, const char *const *name,
                            size_t n, size_t *out)
{
    struct json_at at = {0};
    const char *text;
    char known[256] = "";
    PASS(json_optional(object, key, &at));
    if (!at.value)
        return STATUS_OK;
    PASS(json_get_string(&at, &text));
    for (size_t k = 0, used = 0; k < n; k++) {
        if (!strcmp(name[k], text)) {
            *out = k;
            return STATUS_OK;
        }
        if (used < sizeof known)
            used +=
                (size_t)snprintf(known + used, sizeof known - used, "%s%s", k ? ", " : "", name[k]);
    }
    return json_error(&at, "unknown %s '%.60s'; known: %s", key, text, known);
}
