/* Numbers with units, read and shown. */
#include "core/base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"

/* A unit and what one of it is in SI units. */
struct suffix {
    enum unit unit;
    const char *name;
    double factor;
    bool prefixed; /* takes k M G ... */
};

static const struct suffix suffixes[] = {
    {UNIT_SECONDS, "s", 1, false},     {UNIT_SECONDS, "ms", 1e-3, false},
    {UNIT_SECONDS, "us", 1e-6, false}, {UNIT_SECONDS, "ns", 1e-9, false},
    {UNIT_SECONDS, "min", 60, false},  {UNIT_SECONDS, "h", 3600, false},
    {UNIT_SECONDS, "d", 86400, false}, {UNIT_BYTES, "B", 1, true},
    {UNIT_RATE, "bps", 0.125, true},   {UNIT_RATE, "Bps", 1, true},
    {UNIT_RATE, "B/s", 1, true},       {UNIT_RATE, "b/s", 0.125, true},
    {UNIT_FLOPS, "f", 1, true},        {UNIT_FLOPS, "flops", 1, true},
    {UNIT_FLOPS, "flop/s", 1, true},   {UNIT_FLOP, "flop", 1, true},
    {UNIT_COUNT, "", 1, true},         {UNIT_COUNT, "B", 1e9, false},
};

/* SI and binary prefixes; "K" as people write it. */
static const struct {
    const char *name;
    double factor;
} prefixes[] = {
    {"", 1},     {"k", 1e3},     {"M", 1e6},        {"G", 1e9},           {"T", 1e12},
    {"P", 1e15}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0},
    {"K", 1e3},
};

enum { UNITS_HINT = 160 };

static const char *const expected[] = {
    [UNIT_SECONDS] = "a time such as 1.5us, 20ms or 3s",
    [UNIT_BYTES] = "a size such as 4096, 16MiB or 80GB",
    [UNIT_RATE] = "a rate such as 400Gbps or 50GBps",
    [UNIT_FLOPS] = "a speed such as 312Tf",
    [UNIT_FLOP] = "an amount of work such as 5Gflop",
    [UNIT_COUNT] = "a number such as 1536, 128K, 2B or 1e12",
};

/* Factor of the unit text, 0 when unknown. */
static double unit_factor(enum unit unit, const char *text)
{
    if (!*text && unit == UNIT_BYTES)
        return 1;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const struct suffix *s = &suffixes[i];
        size_t length = strlen(text), tail = strlen(s->name);
        if (s->unit != unit || length < tail || strcmp(text + length - tail, s->name) != 0)
            continue;
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
            const char *p = prefixes[k].name;
            if (strlen(p) == length - tail && !strncmp(text, p, length - tail) &&
                (s->prefixed || !*p))
                return s->factor * prefixes[k].factor;
        }
    }
    return 0;
}

/* ---- what was meant */

/* Is `text` this unit but for capitals, a missing 's', or "it" for 'b': "gbps", "Gbit/s", "gb"? */
static bool is_like(const char *text, const char *unit)
{
    for (; *unit; unit++, text++) {
        if (*unit == 'p' && *text == '/')
            continue;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*unit))
            return (*unit == 'p' || *unit == '/' || *unit == 's') && !*text;
        if (*unit == 'b' && !strncmp(text + 1, "it", 2))
            text += text[3] == 's' ? 3 : 2;
    }
    return !*text;
}

/* "; did you mean 400Gbps?", or "" where no unit is like it. `number` has `digits` characters. */
static const char *unit_hint(enum unit unit, const char *number, int digits, const char *text,
                             char out[UNITS_HINT])
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; *text && i < sizeof suffixes / sizeof *suffixes; i++)
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
            char whole[UNITS_TEXT];
            const struct suffix *s = &suffixes[i];
            if (s->unit != unit || (!s->prefixed && *prefixes[k].name) || !strcmp(s->name, "b/s"))
                continue;
            snprintf(whole, sizeof whole, "%s%s", prefixes[k].name, s->name);
            if (n < UNITS_HINT / 2 && is_like(text, whole))
                n += (size_t)snprintf(out + n, UNITS_HINT - n, "%s%.*s%s",
                                      n > 0 ? " or " : "; did you mean ", digits, number, whole);
        }
    if (n > 0)
        snprintf(out + n, UNITS_HINT - n, "?");
    return out;
}

/* A number, blanks, a unit. Zero needs no unit. */
enum status units_parse(enum unit unit, const char *text, double *out)
{
    char *end, told[UNITS_HINT];
    double value = strtod(text, &end);
    int digits = end - text < UNITS_TEXT ? (int)(end - text) : 0;
    if (end == text || !isfinite(value) || value < 0)
        return error_set(STATUS_INVALID, "got '%.40s', expected %s", text, expected[unit]);
    while (*end == ' ')
        end++;
    double factor = unit_factor(unit, end);
    if (!*end && value == 0)
        factor = 1;
    if (factor == 0)
        return error_set(STATUS_INVALID, "got '%.40s', expected %s%s", text, expected[unit],
                         *end ? unit_hint(unit, text, digits, end, told) : " (unit missing)");
    if (!isfinite(value * factor))
        return error_set(STATUS_INVALID, "got '%.40s', expected a finite number (below 1e308)",
                         text);
    *out = value * factor;
    return STATUS_OK;
}

bool units_count(const char *text, uint64_t *out)
{
    static const double most = 9007199254740992;
    double value;
    if (text_count(text, UINT64_MAX, out))
        return true;
    if (*text < '0' || *text > '9' || strspn(text, "0123456789.kKMGTPBie") != strlen(text) ||
        units_parse(UNIT_COUNT, text, &value) != STATUS_OK || value > most || value != floor(value))
        return false;
    *out = (uint64_t)value;
    return true;
}

/* What numbers are shown in: the largest scale that leaves at least 1 before the point, with 0.9995
 * counting as 1 because four digits are shown. */
struct scale {
    double factor;
    const char *name;
};

static const struct scale scales_s[] = {
    {1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}, {1, "s"}, {0, ""}};
static const struct scale scales_bytes[] = {
    {1, "B"}, {1024, "KiB"}, {1048576, "MiB"}, {1073741824, "GiB"}, {1099511627776.0, "TiB"},
    {0, ""}};
static const struct scale scales_rate[] = {{1, "B/s"},    {1e3, "kB/s"},  {1e6, "MB/s"},
                                           {1e9, "GB/s"}, {1e12, "TB/s"}, {0, ""}};
static const struct scale scales_flops[] = {{1, "flop/s"},    {1e3, "kflop/s"},  {1e6, "Mflop/s"},
                                            {1e9, "Gflop/s"}, {1e12, "Tflop/s"}, {1e15, "Pflop/s"},
                                            {0, ""}};
static const struct scale scales_flop[] = {{1, "flop"},    {1e3, "kflop"},  {1e6, "Mflop"},
                                           {1e9, "Gflop"}, {1e12, "Tflop"}, {1e15, "Pflop"},
                                           {0, ""}};
static const struct scale scales_count[] = {{1, ""},    {1e3, "k"},  {1e6, "M"},
                                            {1e9, "B"}, {1e12, "T"}, {0, ""}};

static const struct scale *unit_scale(enum unit unit, double value)
{
    static const struct scale *const scales[] = {
        [UNIT_SECONDS] = scales_s,   [UNIT_BYTES] = scales_bytes, [UNIT_RATE] = scales_rate,
        [UNIT_FLOPS] = scales_flops, [UNIT_FLOP] = scales_flop,   [UNIT_COUNT] = scales_count,
    };
    const struct scale *s = scales[unit];
    if (value == 0)
        s = unit == UNIT_SECONDS ? &scales_s[3] : s;
    else
        while (s[1].factor > 0 && fabs(value) >= s[1].factor * 0.9995)
            s++;
    return s;
}

const char *units_print(enum unit unit, double value, char text[UNITS_TEXT])
{
    const struct scale *s = unit_scale(unit, value);
    snprintf(text, UNITS_TEXT, "%.4g%s%s", value / s->factor, unit == UNIT_COUNT ? "" : " ",
             s->name);
    return text;
}

const char *units_print_exact(enum unit unit, double value, char text[UNITS_TEXT])
{
    const struct scale *s = unit_scale(unit, value);
    double shown = value / s->factor, rounding = 1e-12 * fabs(shown);
    for (int digits = 4; digits <= 15; digits++) {
        snprintf(text, UNITS_TEXT, "%.*g%s%s", digits, shown, unit == UNIT_COUNT ? "" : " ",
                 s->name);
        if (fabs(strtod(text, NULL) - shown) <= rounding)
            break;
    }
    return text;
}
