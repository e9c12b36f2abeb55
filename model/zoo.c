/* The zoo: finding a family by its name, and its hyper-parameters in a specification. */
#include "model/zoo.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"

enum { ZOO_PARAMETERS = 13, LIST = 512, KEY = 40 };

#define ZOO(name) &zoo_##name,
const struct zoo_entry *const zoo[] = {
#include "model/zoo.def"
};
#undef ZOO
const size_t zoo_n = sizeof zoo / sizeof *zoo;

/* The entry whose name is `spec` up to its end or its colon. */
static const struct zoo_entry *zoo_find_entry(const char *spec)
{
    size_t length = strcspn(spec, ":");
    for (size_t i = 0; i < zoo_n; i++)
        if (strlen(zoo[i]->name) == length && memcmp(zoo[i]->name, spec, length) == 0)
            return zoo[i];
    return NULL;
}

bool zoo_has(const char *spec)
{
    return zoo_find_entry(spec) != NULL;
}

/* How much of a piece of input a message quotes. */
static int shown(size_t length)
{
    return length < 80 ? (int)length : 80;
}

static enum status unknown_model(const char *spec)
{
    char name[81], hint[TEXT_HINT];
    const char *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", shown(strcspn(spec, ":")), spec);
    for (size_t i = 0, best = text_reach(name); i < zoo_n; i++)
        nearest = text_is_nearer(name, zoo[i]->name, &best) ? zoo[i]->name : nearest;
    return error_set(STATUS_INVALID, "unknown model '%s'%s list the zoo with foreline model list",
                     name, *text_hint(nearest, hint) ? hint : ";");
}

static enum status zoo_unknown_parameter(const struct zoo_entry *e, const char *text, size_t length)
{
    char list[LIST] = "", name[81], hint[TEXT_HINT];
    const char *nearest = NULL;
    snprintf(name, sizeof name, "%.*s", shown(length), text);
    for (size_t k = 0, best = text_reach(name); k < e->parameters; k++) {
        text_list_add(list, LIST, e->parameter[k].name);
        nearest =
            text_is_nearer(name, e->parameter[k].name, &best) ? e->parameter[k].name : nearest;
    }
    return error_set(STATUS_INVALID, "%s: unknown parameter '%s'%s known: %s", e->name, name,
                     *text_hint(nearest, hint) ? hint : ";", list);
}

/* The value behind '=' is a whole number: 8192 or 8k, no sign, no blanks, nothing behind it. */
static enum status numeric_value(const struct zoo_entry *e, const struct zoo_parameter *p,
                                 const char *text, size_t length, int64_t *value)
{
    size_t name = strlen(p->name) + 1;
    char number[32];
    uint64_t v;
    snprintf(number, sizeof number, "%.*s", (int)(length - name), text + name);
    if (length - name >= sizeof number || !units_count(number, &v) || v > (uint64_t)p->max ||
        (int64_t)v < p->min)
        return error_set(STATUS_INVALID,
                         "%s: '%.*s': %s must be a whole number from %" PRId64 " to %" PRId64,
                         e->name, shown(length), text, p->name, p->min, p->max);
    *value = (int64_t)v;
    return STATUS_OK;
}

/* One of the row's words. */
static enum status zoo_named_value(const struct zoo_entry *e, const struct zoo_parameter *p,
                                   const char *text, size_t length, int64_t *value)
{
    const char *from = text + strlen(p->name) + 1;
    size_t n = (size_t)(text + length - from);
    char list[LIST] = "";
    for (int64_t v = p->min; v <= p->max; v++) {
        if (strlen(p->names[v]) == n && memcmp(p->names[v], from, n) == 0) {
            *value = v;
            return STATUS_OK;
        }
        text_list_add(list, LIST, p->names[v]);
    }
    return error_set(STATUS_INVALID, "%s: '%.*s': %s must be one of %s", e->name, shown(length),
                     text, p->name, list);
}

/* What "bits=32" and "bits=16" are called today; NULL: it is neither. */
static const char *renamed(const char *text, size_t length)
{
    static const char *const names[][2] = {{"bits=32", "dtype=fp32"}, {"bits=16", "dtype=bf16"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k][0]) == length && memcmp(names[k][0], text, length) == 0)
            return names[k][1];
    return NULL;
}

/* Parse "key=value" of `length` characters into value[] and note it in seen[]. */
static enum status zoo_set_parameter(const struct zoo_entry *e, const char *text, size_t length,
                                     int64_t *value, bool *seen)
{
    const char *today = renamed(text, length);
    if (today)
        text = today, length = strlen(today);
    const char *equals = memchr(text, '=', length);
    if (!equals)
        return error_set(STATUS_INVALID, "%s: got '%.*s', expected KEY=VALUE", e->name,
                         shown(length), text);
    char key[KEY];
    size_t i = 0, n = (size_t)(equals - text);
    snprintf(key, sizeof key, "%.*s", n < KEY ? (int)n : 0, text);
    while (i < e->parameters && !text_same_key(e->parameter[i].name, key))
        i++;
    if (i == e->parameters)
        return zoo_unknown_parameter(e, text, n);
    const struct zoo_parameter *p = &e->parameter[i];
    if (seen[i])
        return error_set(STATUS_INVALID, "%s: %s is given twice", e->name, p->name);

    PASS(p->names ? zoo_named_value(e, p, text, length, &value[i])
                  : numeric_value(e, p, text, length, &value[i]));
    seen[i] = true;
    return STATUS_OK;
}

/* Defaults first, then what the text says, each key once. */
enum status zoo_read_values(const struct zoo_entry *e, const char *text, int64_t *value)
{
    bool seen[ZOO_PARAMETERS] = {false};
    for (size_t i = 0; i < e->parameters; i++)
        value[i] = e->parameter[i].value;
    while (*text != '\0') { /* at ':' or ',' */
        size_t length = strcspn(++text, ",");
        PASS(zoo_set_parameter(e, text, length, value, seen));
        text += length;
    }
    return STATUS_OK;
}

enum status zoo_describe(const char *spec, struct architecture *a, struct architecture_choice *c)
{
    int64_t value[ZOO_PARAMETERS];
    const struct zoo_entry *e = zoo_find_entry(spec);
    if (!e)
        return unknown_model(spec);
    if (!e->describe)
        return error_set(STATUS_UNSUPPORTED,
                         "model '%s' is not a transformer of a known architecture", e->name);
    PASS(zoo_read_values(e, spec + strlen(e->name), value));
    return e->describe(value, a, c);
}

/* The model is called by the whole specification, so that it can be built again from its name. */
enum status zoo_build(const char *spec, struct model *out)
{
    enum status st = STATUS_OK;
    struct model built = {0};
    int64_t value[ZOO_PARAMETERS];
    const struct zoo_entry *e = zoo_find_entry(spec);
    if (!e)
        return unknown_model(spec);
    assert(e->parameters <= ZOO_PARAMETERS);

    TRY(zoo_read_values(e, spec + strlen(e->name), value));
    st = e->build(value, &built);
    if (st == STATUS_INVALID)
        st = error_context(st, "%s", e->name);
    TRY(st);
    free(built.name);
    built.name = NULL;
    TRY(text_copy(spec, &built.name));
    MOVE(out, built);

out:
    model_free(&built);
    return st;
}
