/* keyed.h - "NAME" or "NAME:KEY=NUMBER,KEY=NUMBER": a name and numbers, or quantities, that go with
 * it. */
#ifndef CORE_BASE_KEYED_H
#define CORE_BASE_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/base/units.h"

struct keyed_name {
    const char *name;
};

/* A number that some of the names have. */
struct keyed_field {
    const char *key;
    uint32_t of;        /* bits 1 << which names */
    size_t offset;      /* of a double in what is read into */
    double least, most; /* both allowed */
    bool quantity;      /* of a unit, as units_parse() reads it; else a number alone */
    enum unit unit;
};
#define KEYED_NUMBER(key, of, type, member, least, most)                                           \
    {                                                                                              \
        key, of, offsetof(type, member), least, most, false, UNIT_COUNT                            \
    }
#define KEYED_QUANTITY(unit, key, of, type, member, least, most)                                   \
    {                                                                                              \
        key, of, offsetof(type, member), least, most, true, unit                                   \
    }

/* Find the name among names[n] and put the numbers that are given into `into`, whose others stay.
 *   what     of messages: "optimizer"
 *   *which   out: the name's number
 * STATUS_INVALID in one line: another name, key or number, or a key twice; outputs are untouched
 * but for `into`. O(length * fields). */
enum status keyed_read(const char *what, const char *text, const struct keyed_name *const *names,
                       size_t n, const struct keyed_field *field, size_t fields, size_t *which,
                       void *into) MUST_CHECK;

#endif
