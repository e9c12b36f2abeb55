/* json.h - reading JSON with errors that name file, line, column and path; writing JSON.
 *
 * Reading uses jansson behind a cursor: a `struct json_at` is a value together with the way to
 * it, so that a complaint about stages[2].devices[0] can say where in the file that is.
 * Cursors live on the stack and point at their parent: keep the parent alive.
 * All getters return STATUS_PARSE with "path:line:column: where: what" when the type is wrong. */
#ifndef CORE_BASE_JSON_H
#define CORE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/error.h"

struct json_t;
struct provenance;

struct json_document {
    char *path; /* for messages */
    char *text;
    struct json_t *root;
};

struct json_at {
    const struct json_document *document;
    const struct json_t *value; /* NULL: absent */
    const struct json_at *parent;
    const char *key; /* NULL in arrays and at the root */
    size_t index;
};

/* Read a document whose root is an object with "format": `format` and "version" <= `version`;
 * with `format` NULL any JSON (other programs' files, traces). */
enum status json_read(const char *path, const char *format, int version,
                      struct json_document *out) MUST_CHECK;
/* The same from memory (copied); `path` is only for messages. Duplicate keys are errors. */
enum status json_parse(const char *path, const char *text, size_t length, const char *format,
                       int version, struct json_document *out) MUST_CHECK;
/* The check of "format" and "version" alone, for a document that was read without. */
enum status json_check_format(const struct json_document *d, const char *format,
                              int version) MUST_CHECK;
void json_document_free(struct json_document *d);
struct json_at json_root(const struct json_document *d);

/* Report `at` as wrong: always returns STATUS_PARSE. */
enum status json_error(const struct json_at *at, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same of a message that says the key by itself: only FILE:LINE:COLUMN stands before it. */
enum status json_complain(const struct json_at *at, const char *message);

/* Field of an object. json_field: STATUS_PARSE when absent; json_optional: value NULL when absent
 * or null. */
enum status json_field(const struct json_at *object, const char *key,
                       struct json_at *out) MUST_CHECK;
enum status json_optional(const struct json_at *object, const char *key,
                          struct json_at *out) MUST_CHECK;
/* Array of at most `limit` items; item i. */
enum status json_get_array(const struct json_at *at, size_t limit, size_t *n) MUST_CHECK;
struct json_at json_item(const struct json_at *array, size_t i);
/* How many members an object has; 0 of what is none. */
size_t json_members(const struct json_at *object);
/* They in the file's order, O(1) each: for (at = json_first(&object); at.key; at =
 * json_next(&at)). */
struct json_at json_first(const struct json_at *object);
struct json_at json_next(const struct json_at *member);

/* An array of numbers; *out is malloc'd. With nulls, null is NaN, as which all that is not finite
 * is written. */
enum status json_get_reals(const struct json_at *at, double min, double max, bool nulls,
                           double **out, size_t *n) MUST_CHECK;
/* Names and what they stand for. */
struct json_name {
    const char *name; /* borrowed */
    uint32_t index;
};
void json_names_sort(struct json_name *names, size_t n);
/* The index of a name out of names[n], sorted; "no WHAT is called 'x'". */
enum status json_get_name(const struct json_at *at, const char *what, const struct json_name *names,
                          size_t n, uint32_t *out) MUST_CHECK;

/* What a value is, for fields that may be of several kinds. */
enum json_kind {
    JSON_ABSENT,
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_NUMBER,
    JSON_IS_TEXT,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT
};
enum json_kind json_kind(const struct json_at *at);
enum status json_get_string(const struct json_at *at, const char **out) MUST_CHECK; /* borrowed */
enum status json_get_copy(const struct json_at *at, char **out) MUST_CHECK;         /* malloc'd */
enum status json_get_real(const struct json_at *at, double min, double max, double *out) MUST_CHECK;
enum status json_get_integer(const struct json_at *at, int64_t min, int64_t max,
                             int64_t *out) MUST_CHECK;
enum status json_get_bool(const struct json_at *at, bool *out) MUST_CHECK;

/* A field of an object in one step. need: STATUS_PARSE when absent; may: absent leaves *out alone.
 */
enum status json_need_text(const struct json_at *object, const char *key,
                           char **out) MUST_CHECK; /* malloc'd */
enum status json_need_real(const struct json_at *object, const char *key, double min, double max,
                           double *out) MUST_CHECK;
enum status json_need_integer(const struct json_at *object, const char *key, int64_t min,
                              int64_t max, int64_t *out) MUST_CHECK;
enum status json_may_real(const struct json_at *object, const char *key, double min, double max,
                          double *out) MUST_CHECK;
enum status json_may_integer(const struct json_at *object, const char *key, int64_t min,
                             int64_t max, int64_t *out) MUST_CHECK;
enum status json_may_bool(const struct json_at *object, const char *key, bool *out) MUST_CHECK;
/* Index of a name in name[n]; "no KEY is called 'x'; there are a, b". */
enum status json_may_choice(const struct json_at *object, const char *key, const char *const *name,
                            size_t n, size_t *out) MUST_CHECK;

/* ---- writing: a stream of events; numbers in the shortest form that reads back equal.
 *
 * key NULL inside arrays and at the root. Objects and arrays opened `flat` stay on one line. */
enum { JSON_DEPTH = 16 };
struct json_writer {
    FILE *stream;
    int depth;
    int flat;                 /* depth at which one-line mode began, 0: none */
    bool filled[JSON_DEPTH];  /* something was written at this depth already */
    char closing[JSON_DEPTH]; /* '}' or ']' */
};

void json_open_object(struct json_writer *w, const char *key, bool flat);
void json_open_array(struct json_writer *w, const char *key, bool flat);
void json_close(struct json_writer *w); /* closes what was opened last */
void json_put_string(struct json_writer *w, const char *key, const char *value); /* NULL: null */
void json_put_real(struct json_writer *w, const char *key, double value); /* not finite: null */
void json_put_integer(struct json_writer *w, const char *key, int64_t value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_reals(struct json_writer *w, const char *key, const double *value, size_t n);
/* Open the root object and write "format", "version" and "provenance". */
void json_put_header(struct json_writer *w, const char *format, int version,
                     const struct provenance *p);

/* ---- objects as tables of fields: one row reads, writes and releases a member of a struct.
 *
 *     static const struct json_row link_rows[] = {
 *         {"name", JSON_MEMBER(struct measured_link, name), FIELD_NEED},
 *         {"bytes", JSON_MEMBER(struct measured_link, bytes), FIELD_NEED, .max = 1e18},
 *         {0},
 *     };
 *
 * A table ends with {0}. Rows are read and written in their order; members whose key is absent
 * keep what they hold. Numbers are >= min, and <= max unless that is 0: then up to the largest of
 * the member's type. */
enum field_kind {
    FIELD_SPECIAL, /* by the row's functions */
    FIELD_TEXT,    /* char *, owned by the struct; NULL is written as null */
    FIELD_DOUBLE,
    FIELD_INT64,
    FIELD_UINT8,
    FIELD_UINT32,
    FIELD_SIZE,
    FIELD_BOOL,
    FIELD_CHOICE, /* an enum or uint32_t, written as one of the row's names */
    FIELD_REALS,  /* double *, owned; `count` is the offset of the size_t with their number */
    FIELD_OBJECT, /* an object in the file whose fields are members of the same struct */
    FIELD_LIST,   /* struct *, owned, of `size` bytes each; `count` as above, `rows` of one */
};
enum field_presence {
    FIELD_MAY,   /* may be absent; always written */
    FIELD_NEED,  /* STATUS_PARSE when absent; always written */
    FIELD_SPARE, /* may be absent; written unless it is `usual`: 0, false, NULL, empty, the first
                  * name */
};
struct json_row {
    const char *key;
    enum field_kind kind;
    size_t offset;
    enum field_presence presence;
    double min, max;             /* of numbers, FIELD_REALS included; `max` items of a FIELD_LIST */
    const struct json_row *rows; /* of what is inside */
    size_t size, count;
    bool nulls;              /* of FIELD_REALS: see json_get_reals() */
    uint32_t usual;          /* for FIELD_UINT32 only */
    bool flat;               /* objects, or those of a list, on one line */
    const char *const *name; /* [names] of a choice */
    size_t names;
    enum status (*read)(const struct json_at *object, void *into); /* either may be NULL */
    void (*write)(struct json_writer *w, const void *from);
    const char *also; /* further keys that the row's functions read or write, blank-separated */
};

/* Kind and offset of a member, the kind taken from its type. */
#define JSON_MEMBER(type, member)                                                                  \
    .kind = _Generic(((type *)0)->member,                                                          \
             char *: FIELD_TEXT,                                                                   \
             double: FIELD_DOUBLE,                                                                 \
             int64_t: FIELD_INT64,                                                                 \
             uint8_t: FIELD_UINT8,                                                                 \
             uint32_t: FIELD_UINT32,                                                               \
             size_t: FIELD_SIZE,                                                                   \
             bool: FIELD_BOOL,                                                                     \
             double *: FIELD_REALS,                                                                \
             default: FIELD_LIST),                                                                 \
    .offset = offsetof(type, member)

/* Refuse a misspelt member: STATUS_PARSE names the first one that no table and not `others`
 * (blank-separated, may be "") has, and the nearest key. `tables`: JSON_TABLES(rows, more_rows),
 * or JSON_TABLES(NULL). The root has "format", "version" and "provenance" besides. Members of a
 * FIELD_OBJECT and of the items of a FIELD_LIST are checked by json_rows_read(). O(members *
 * rows). */
enum status json_check_keys(const struct json_at *object, const char *others,
                            const struct json_row *const *tables) MUST_CHECK;
#define JSON_TABLES(...) ((const struct json_row *const[]){__VA_ARGS__, NULL})
/* Fields of `object` into *into, which json_rows_free() releases also after a failure. */
enum status json_rows_read(const struct json_at *object, const struct json_row *rows,
                           void *into) MUST_CHECK;
/* Put the fields of *from into the object that is open. */
void json_rows_write(struct json_writer *w, const struct json_row *rows, const void *from);
/* Put a whole document: an object of "format", "version", "provenance", then the fields of
 * *from. */
void json_put_document(struct json_writer *w, const char *format, int version,
                       const struct provenance *by, const struct json_row *rows, const void *from);
/* Write a file that is one object: "format", "version", "provenance", then the fields of *from. */
enum status json_write(const char *path, const char *format, int version,
                       const struct provenance *by, const struct json_row *rows,
                       const void *from) MUST_CHECK;
/* Free texts and lists of *from; they are NULL and empty then. */
void json_rows_free(const struct json_row *rows, void *from);

#endif
