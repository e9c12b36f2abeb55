/* The table of frameworks, and names with overrides. */
#include "core/strategy/framework.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"

enum { MAX_WORD = 64 };

/* What all that issue kernels have in common, and how a constant stands in a row: below 0, where no
 * number of a framework is. */
#define FITTED(id) (-1.0 - CONSTANT_##id)
#define ISSUED                                                                                     \
    .by_kernel = true, .layers = 1, .head = 1, .kernel_s = FITTED(kernel_s),                       \
    .permuted = FITTED(permuted), .expert_kernels = FITTED(expert_kernels), .step_s = 25e-3,       \
    .cast = 4, .context_interference = FITTED(interference_context), .narrow = FITTED(narrow),     \
    .square_backward = 2

/* A row each, in static storage. */
#define FRAMEWORK(id, text, ...)                                                                   \
    static const struct framework row_##id = {.name = #id, .summary = (text), __VA_ARGS__};
#include "core/strategy/frameworks.def"
#undef FRAMEWORK

const struct framework *const frameworks[] = {
#define FRAMEWORK(id, text, ...) &row_##id,
#include "core/strategy/frameworks.def"
#undef FRAMEWORK
};
const size_t frameworks_n = sizeof frameworks / sizeof *frameworks;

const char framework_usual[] = "compiled";

const char *framework_name(size_t i)
{
    return i < frameworks_n ? frameworks[i]->name : NULL;
}

/* The row of a name; what only a launcher is called is what it runs. */
static enum status framework_find_row(const char *name, const struct framework **row)
{
    enum status st = text_find("framework", name, frameworks, frameworks_n, row);
    for (size_t i = 0; i < frameworks_n && st == STATUS_INVALID; i++)
        if (frameworks[i]->launcher && !strcmp(frameworks[i]->launcher, name)) {
            *row = frameworks[i];
            return STATUS_OK;
        }
    return st;
}

int64_t framework_reduce_bytes(enum data_type dtype, const struct framework *f,
                               int64_t element_bytes)
{
    int64_t usual = f && f->sums > 0 ? (int64_t)f->sums / 8 : element_bytes;
    return dtype != DATA_ANY       ? data_type_bytes(dtype)
           : usual > element_bytes ? usual
                                   : element_bytes;
}

/* ---- what can be overridden */

struct field {
    const char *name; /* first: text_find() */
    size_t offset;
    double most;
    const char *help;
};

static const struct field all_fields[] = {
#define FRAMEWORK_FIELD(id, most, help) {#id, offsetof(struct framework, id), most, help},
#include "core/strategy/constants.h"
#include "core/strategy/framework_fields.def"
#undef FRAMEWORK_FIELD
};
enum { FIELDS = sizeof all_fields / sizeof *all_fields };

size_t framework_fields(void)
{
    return FIELDS;
}

const char *framework_field(size_t i, const char **help)
{
    *help = all_fields[i].help;
    return all_fields[i].name;
}

/* A number, or seconds or bytes as people write them where the field is such. */
static bool framework_read_value(const struct field *of, const char *text, double *value)
{
    size_t n = strlen(of->name);
    bool seconds = n > 2 && !strcmp(of->name + n - 2, "_s"), bytes = !strcmp(of->name, "workspace");
    return text_real(text, value) ||
           ((seconds || bytes) &&
            units_parse(seconds ? UNIT_SECONDS : UNIT_BYTES, text, value) == STATUS_OK);
}

/* One "NAME=VALUE" of n characters; set[FIELDS]: which have been. */
static enum status override(const char *text, size_t n, struct framework *f, bool *set)
{
    char word[TEXT_PAIR];
    const char *said = text_pair(text, n, word);
    const struct field *rows[FIELDS], *found;
    double value;
    if (!said)
        return error_set(STATUS_INVALID,
                         "framework %s: got '%s', expected NAME=NUMBER such as host=0.5", f->name,
                         word);
    for (size_t k = 0; k < FIELDS; k++)
        rows[k] = &all_fields[k];
    PASS(text_find("property of a framework", word, rows, FIELDS, &found));
    if (set[found - all_fields])
        return error_set(STATUS_INVALID, "framework %s: %s is given twice", f->name, found->name);
    set[found - all_fields] = true;
    if (!framework_read_value(found, said, &value) || !(value >= 0) || value > found->most)
        return error_set(STATUS_INVALID, "framework %s: %s: got '%.40s', expected 0 to %g", f->name,
                         found->name, said, found->most);
    memcpy((char *)f + found->offset, &value, sizeof value);
    return STATUS_OK;
}

/* The constants of a row as numbers. */
static void fill_in(const struct constants *c, struct framework *f)
{
    for (size_t k = 0; k < FIELDS; k++) {
        char *at = (char *)f + all_fields[k].offset;
        double value;
        memcpy(&value, at, sizeof value);
        if (value < 0)
            memcpy(at, &c->value[(size_t)(-value - 1)], sizeof value);
    }
}

enum status framework_parse_with(const struct constants *c, const char *text, struct framework *out)
{
    char name[MAX_WORD];
    bool set[FIELDS] = {false};
    size_t n = strcspn(text, ":");
    const struct framework *row;
    snprintf(name, sizeof name, "%.*s", (int)(n < MAX_WORD ? n : MAX_WORD - 1), text);
    PASS(framework_find_row(name, &row));
    struct framework f = *row;
    fill_in(c, &f);
    if (text[n] == ':' && !f.by_kernel)
        return error_set(STATUS_INVALID,
                         "framework %s has no kernel model, so it has no constants to set", f.name);
    for (const char *at = text + n; *at;) {
        at++; /* ':' or ',' */
        n = strcspn(at, ",");
        PASS(override(at, n, &f, set));
        at += n;
    }
    if (f.by_kernel && (f.flash < 1 || f.flash > 3))
        return error_set(STATUS_INVALID, "framework %s: flash: got %g, expected 1, 2 or 3", f.name,
                         f.flash);
    *out = f;
    return STATUS_OK;
}

enum status framework_parse(const char *text, struct framework *out)
{
    const struct constants shipped = constants_shipped();
    return framework_parse_with(&shipped, text, out);
}

struct framework framework_of(const char *text)
{
    struct framework f = *frameworks[0];
    bool known = text && framework_parse(text, &f) == STATUS_OK;
    return known ? f : *frameworks[0];
}
