/* Reads, writes and releases structs by tables of their fields (core/base/json.h). */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"

enum { MAX_ITEMS = 1 << 24 };

/* Where a member of the struct is. */
static void *member(void *object, size_t offset)
{
    return (char *)object + offset;
}

static const void *const_member(const void *object, size_t offset)
{
    return (const char *)object + offset;
}

/* Pointers of whatever type a member has. */
static void *pointer_at(const void *member)
{
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    return pointer;
}

static void set_pointer(void *member, void *pointer)
{
    memcpy(member, &pointer, sizeof pointer);
}

/* ---- keys */

enum { KEY_TEXT = 64 };

/* Is `key` one of the blank-separated words? The word nearest to it is copied to `nearest`. */
static bool is_word_of(const char *words, const char *key, char nearest[KEY_TEXT], size_t *best)
{
    char word[KEY_TEXT];
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        if (!strcmp(word, key))
            return true;
        if (text_is_nearer(key, word, best))
            strcpy(nearest, word);
    }
    return false;
}

/* The exact comparison comes first: files have millions of keys and hardly a wrong one. */
static bool is_row_of(const struct json_row *rows, const char *key)
{
    for (const struct json_row *r = rows; r->key; r++)
        if (!strcmp(r->key, key))
            return true;
    return false;
}

static enum status check_key(const struct json_at *member, const char *others,
                             const struct json_row *const *tables)
{
    static const char header[] = "format version provenance";
    char nearest[KEY_TEXT] = "", hint[TEXT_HINT];
    size_t best = text_reach(member->key);
    for (size_t t = 0; tables[t]; t++)
        if (is_row_of(tables[t], member->key))
            return STATUS_OK;
    if (is_word_of(others, member->key, nearest, &best) ||
        (!member->parent->parent && is_word_of(header, member->key, nearest, &best)))
        return STATUS_OK;
    for (size_t t = 0; tables[t]; t++)
        for (const struct json_row *r = tables[t]; r->key; r++)
            if (is_word_of(r->key, member->key, nearest, &best) ||
                (r->also && is_word_of(r->also, member->key, nearest, &best)))
                return STATUS_OK;
    return json_error(member, "unknown key%s docs/reference/formats.md lists the keys",
                      *text_hint(*nearest ? nearest : NULL, hint) ? hint : ";");
}

enum status json_check_keys(const struct json_at *object, const char *others,
                            const struct json_row *const *tables)
{
    if (json_kind(object) != JSON_IS_OBJECT)
        return STATUS_OK; /* who reads it says so */
    for (struct json_at at = json_first(object); at.key; at = json_next(&at))
        PASS(check_key(&at, others, tables));
    return STATUS_OK;
}

/* ---- reading */

/* An object of which the table has every key. */
static enum status read_whole(const struct json_at *at, const struct json_row *rows, void *into)
{
    PASS(json_check_keys(at, "", JSON_TABLES(rows)));
    return json_rows_read(at, rows, into);
}

/* min and max are exact: no bound of a row is beyond 2^53. */
static enum status read_integer(const struct json_at *at, const struct json_row *r, int64_t largest,
                                int64_t *out)
{
    return json_get_integer(at, (int64_t)r->min, r->max > 0 ? (int64_t)r->max : largest, out);
}

/* The count grows with the items, so that what has been read can be released at any moment. */
static enum status json_rows_read_list(const struct json_at *at, const struct json_row *r,
                                       void *list, size_t *count)
{
    size_t n;
    PASS(json_get_array(at, r->max > 0 ? (size_t)r->max : MAX_ITEMS, &n));
    char *items = array_new(n, r->size);
    if (!items)
        return STATUS_NOMEM;
    set_pointer(list, items);
    for (size_t i = 0; i < n; i++) {
        struct json_at item = json_item(at, i);
        *count = i + 1;
        PASS(read_whole(&item, r->rows, items + i * r->size));
    }
    return STATUS_OK;
}

/* By key, not by cursor: the message names the key. */
static enum status read_choice(const struct json_at *object, const struct json_row *r,
                               uint32_t *out)
{
    size_t choice = *out;
    enum status st = json_may_choice(object, r->key, r->name, r->names, &choice);
    *out = (uint32_t)choice;
    return st;
}

/* One member of a known kind; the cursor is on a value that is there. */
static enum status json_rows_read_member(const struct json_at *object, const struct json_at *at,
                                         const struct json_row *r, void *into)
{
    void *to = member(into, r->offset);
    int64_t number = 0;
    switch (r->kind) {
    case FIELD_SPECIAL:
        break;
    case FIELD_TEXT:
        return json_get_copy(at, to);
    case FIELD_DOUBLE:
        return json_get_real(at, r->min, r->max > 0 ? r->max : DBL_MAX, to);
    case FIELD_INT64:
        return read_integer(at, r, INT64_MAX, to);
    case FIELD_UINT8:
        PASS(read_integer(at, r, UINT8_MAX, &number));
        *(uint8_t *)to = (uint8_t)number;
        break;
    case FIELD_UINT32:
        PASS(read_integer(at, r, UINT32_MAX, &number));
        *(uint32_t *)to = (uint32_t)number;
        break;
    case FIELD_SIZE:
        PASS(read_integer(at, r, INT64_MAX, &number));
        *(size_t *)to = (size_t)number;
        break;
    case FIELD_BOOL:
        return json_get_bool(at, to);
    case FIELD_CHOICE:
        return read_choice(object, r, to);
    case FIELD_REALS:
        return json_get_reals(at, r->min, r->max > 0 ? r->max : DBL_MAX, r->nulls, to,
                              member(into, r->count));
    case FIELD_OBJECT:
        return read_whole(at, r->rows, into);
    case FIELD_LIST:
        return json_rows_read_list(at, r, to, member(into, r->count));
    }
    return STATUS_OK;
}

/* Row by row; special rows look at the object themselves. */
enum status json_rows_read(const struct json_at *object, const struct json_row *rows, void *into)
{
    for (const struct json_row *r = rows; r->key; r++) {
        struct json_at at;
        if (r->kind == FIELD_SPECIAL) {
            if (r->read)
                PASS(r->read(object, into));
            continue;
        }
        PASS(r->presence == FIELD_NEED ? json_field(object, r->key, &at)
                                       : json_optional(object, r->key, &at));
        if (at.value)
            PASS(json_rows_read_member(object, &at, r, into));
    }
    return STATUS_OK;
}

/* ---- writing */

/* An array of objects, each by the rows of the list. */
static void write_list(struct json_writer *w, const struct json_row *r, const char *item, size_t n)
{
    json_open_array(w, r->key, false);
    for (size_t i = 0; i < n; i++) {
        json_open_object(w, NULL, r->flat);
        json_rows_write(w, r->rows, item + i * r->size);
        json_close(w);
    }
    json_close(w);
}

/* May a FIELD_SPARE be left out? */
static bool json_row_is_empty(const struct json_row *r, const void *from)
{
    const void *at = const_member(from, r->offset);
    switch (r->kind) {
    case FIELD_TEXT:
        return !*(char *const *)at;
    case FIELD_DOUBLE:
        return *(const double *)at == 0;
    case FIELD_INT64:
        return *(const int64_t *)at == 0;
    case FIELD_UINT8:
        return *(const uint8_t *)at == 0;
    case FIELD_UINT32:
    case FIELD_CHOICE:
        return *(const uint32_t *)at == r->usual;
    case FIELD_SIZE:
        return *(const size_t *)at == 0;
    case FIELD_BOOL:
        return !*(const bool *)at;
    case FIELD_REALS:
    case FIELD_LIST:
        return *(const size_t *)const_member(from, r->count) == 0;
    case FIELD_OBJECT: /* when all in it are */
        for (const struct json_row *inner = r->rows; inner->key; inner++)
            if (!json_row_is_empty(inner, from))
                return false;
        return true;
    default:
        return false;
    }
}

static void write_member(struct json_writer *w, const struct json_row *r, const void *from)
{
    const void *at = const_member(from, r->offset);
    const size_t *count = const_member(from, r->count);
    switch (r->kind) {
    case FIELD_SPECIAL:
        if (r->write)
            r->write(w, from);
        break;
    case FIELD_TEXT:
        json_put_string(w, r->key, *(char *const *)at);
        break;
    case FIELD_DOUBLE:
        json_put_real(w, r->key, *(const double *)at);
        break;
    case FIELD_INT64:
        json_put_integer(w, r->key, *(const int64_t *)at);
        break;
    case FIELD_UINT8:
        json_put_integer(w, r->key, *(const uint8_t *)at);
        break;
    case FIELD_UINT32:
        json_put_integer(w, r->key, *(const uint32_t *)at);
        break;
    case FIELD_SIZE:
        json_put_integer(w, r->key, (int64_t) * (const size_t *)at);
        break;
    case FIELD_BOOL:
        json_put_bool(w, r->key, *(const bool *)at);
        break;
    case FIELD_CHOICE:
        json_put_string(w, r->key, r->name[*(const uint32_t *)at]);
        break;
    case FIELD_REALS:
        json_put_reals(w, r->key, *(double *const *)at, *count);
        break;
    case FIELD_OBJECT:
        json_open_object(w, r->key, r->flat);
        json_rows_write(w, r->rows, from);
        json_close(w);
        break;
    case FIELD_LIST:
        write_list(w, r, pointer_at(at), *count);
        break;
    }
}

void json_rows_write(struct json_writer *w, const struct json_row *rows, const void *from)
{
    for (const struct json_row *r = rows; r->key; r++)
        if (r->presence != FIELD_SPARE || !json_row_is_empty(r, from))
            write_member(w, r, from);
}

void json_put_document(struct json_writer *w, const char *format, int version,
                       const struct provenance *by, const struct json_row *rows, const void *from)
{
    json_put_header(w, format, version, by);
    json_rows_write(w, rows, from);
    json_close(w);
}

enum status json_write(const char *path, const char *format, int version,
                       const struct provenance *by, const struct json_row *rows, const void *from)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_document(&w, format, version, by, rows, from);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* ---- releasing */

/* Lists first release what is in their items. */
void json_rows_free(const struct json_row *rows, void *from)
{
    for (const struct json_row *r = rows; r->key; r++) {
        void *at = member(from, r->offset);
        if (r->kind == FIELD_OBJECT)
            json_rows_free(r->rows, from);
        if (r->kind != FIELD_TEXT && r->kind != FIELD_REALS && r->kind != FIELD_LIST)
            continue;
        if (r->kind != FIELD_TEXT) {
            size_t *count = member(from, r->count);
            char *items = pointer_at(at);
            for (size_t i = 0; r->kind == FIELD_LIST && items && i < *count; i++)
                json_rows_free(r->rows, items + i * r->size);
            *count = 0;
        }
        free(pointer_at(at));
        set_pointer(at, NULL);
    }
}
