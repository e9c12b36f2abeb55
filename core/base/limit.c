/* The table of limits, and what an option or the environment makes of it. */
#include "core/base/limit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"

enum { TEXT = 1024, MOST_NUMBER = 1 << 20 };
static const double most_s = 1e6;

const char limits_variable[] = "FORELINE_LIMITS";

static const struct limit_row {
    const char *name, *unit;
    double standard;
    const char *meaning;
} table[LIMITS] = {
#define LIMIT(name, unit, standard, meaning) {#name, unit, standard, meaning},
#include "core/base/limits.def"
#undef LIMIT
};
static double own_values[LIMITS] = {
#define LIMIT(name, unit, standard, meaning) standard,
#include "core/base/limits.def"
#undef LIMIT
};

static double *values = own_values;

double *limits_values(void)
{
    return values;
}

void limits_adopt(double *of_program)
{
    values = of_program;
}

double limit(enum limit which)
{
    return values[which];
}

double limit_wait(double s)
{
    return s * values[LIMIT_wait];
}

double limit_size(double n)
{
    return n * values[LIMIT_size];
}

size_t limit_bytes(double mib)
{
    return (size_t)(limit_size(mib) * 0x1p20);
}

double limit_platform(double n)
{
    return n * values[LIMIT_platform];
}

static double limit_most(const struct limit_row *row)
{
    return *row->unit ? most_s : MOST_NUMBER;
}

static const char *limit_advise(const struct limit_row *row, double value, const char *what,
                                char text[LIMIT_MORE])
{
    snprintf(text, LIMIT_MORE, "; raise the limit with --limit %s=%.9g%s (or %s) to allow %s",
             row->name, value, row->unit, limits_variable, what);
    return text;
}

const char *limit_more(enum limit which, char text[LIMIT_MORE])
{
    return limit_advise(&table[which], fmin(2 * values[which], limit_most(&table[which])), "more",
                        text);
}

const char *limit_enough(enum limit which, double needed, char text[LIMIT_MORE])
{
    return ceil(needed) <= limit_most(&table[which])
               ? limit_advise(&table[which], ceil(needed), "them", text)
               : ", more than any --limit allows";
}

const char *limit_name(size_t i)
{
    return i < LIMITS ? table[i].name : NULL;
}

const char *limit_row(size_t i, char text[LIMIT_ROW])
{
    snprintf(text, LIMIT_ROW, "`%s` | %g%s%s | %s", table[i].name, table[i].standard,
             *table[i].unit ? " " : "", table[i].unit, table[i].meaning);
    return text;
}

static enum status limit_read_value(const struct limit_row *row, const char *text, double *out)
{
    if (!*row->unit) {
        bool zero = row == &table[LIMIT_cache];
        if (!text_real(text, out) || !(*out > 0 || (zero && *out == 0)) || *out > MOST_NUMBER)
            return error_set(STATUS_USAGE, "%s: got '%.40s', expected a number %s and at most %d",
                             row->name, text, zero ? "of at least 0" : "above 0", MOST_NUMBER);
        return STATUS_OK;
    }
    if (units_parse(UNIT_SECONDS, text, out) != STATUS_OK)
        return error_context(STATUS_USAGE, "%s", row->name);
    return *out > 0 && *out <= most_s
               ? STATUS_OK
               : error_set(STATUS_USAGE, "%s: got '%.40s', expected more than 0 s and at most %g s",
                           row->name, text, most_s);
}

static enum status limit_read_environment(const char *told, double value[LIMITS])
{
    char text[TEXT], *word[LIMITS + 1];
    const struct limit_row *names[LIMITS], *row;
    if (strlen(told) >= TEXT)
        return error_set(STATUS_USAGE, "list of limits has %zu characters, expected at most %d",
                         strlen(told), TEXT - 1);
    for (size_t i = 0; i < LIMITS; i++)
        names[i] = &table[i];
    snprintf(text, sizeof text, "%s", told);
    size_t n = text_split(text, ",", word, LIMITS + 1);
    for (size_t i = 0; i < n; i++) {
        char *equals = strchr(word[i], '=');
        if (equals)
            *equals = '\0';
        if (text_find("limit", word[i], names, LIMITS, &row) != STATUS_OK)
            return STATUS_USAGE;
        if (!equals)
            return error_set(STATUS_USAGE, "%s: value missing, expected %s=%g%s", row->name,
                             row->name, row->standard, row->unit);
        PASS(limit_read_value(row, equals + 1, &value[row - table]));
    }
    return n > 0 && n <= LIMITS
               ? STATUS_OK
               : error_set(STATUS_USAGE, "list of limits: got '%.40s', expected NAME=VALUE,...",
                           told);
}

enum status limits_check(const char *text)
{
    double value[LIMITS];
    return limit_read_environment(text, value);
}

enum status limits_set(const char *text)
{
    double value[LIMITS];
    char changed[TEXT] = "";
    size_t n = 0;
    if (!text)
        return STATUS_OK;
    memcpy(value, values, sizeof value);
    PASS(limit_read_environment(text, value));
    memcpy(values, value, sizeof value);
    for (size_t i = 0; i < LIMITS && n < TEXT; i++)
        if (value[i] != table[i].standard)
            n += (size_t)snprintf(changed + n, TEXT - n, "%s%s=%.9g%s", n ? "," : "", table[i].name,
                                  value[i], table[i].unit);
    int failed = n > 0 ? setenv(limits_variable, changed, 1) : unsetenv(limits_variable);
    return failed ? error_set(STATUS_NOMEM, "limits") : STATUS_OK;
}

enum status limits_inherit(void)
{
    return limits_set(getenv(limits_variable)) == STATUS_OK
               ? STATUS_OK
               : error_context(STATUS_USAGE, "%s", limits_variable);
}
