/* Device types from the properties of hosts (docs/reference/topologies.md): type, memory,
 * memory_bandwidth, launch_overhead, slowdown, framework_memory, kernels, collectives, fitted,
 * rate:KIND and curve:KIND:MEMBERSxPER_NODE. Devices of one type must agree in all of them. */
#include "sim/platform/types.h"

#include <float.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/cost/kernel.h"
#include "sim/platform/xml_scan.h"

enum { MAX_RATES = 256, MAX_POINTS = 256, NAME = 256 };

static const char rate_prefix[] = "rate:", curve_prefix[] = "curve:";
static const double default_memory_bytes = 16.0 * 1024 * 1024 * 1024;
static const double default_memory_Bps = 100e9;
static const double least_memory_bytes = 1024; /* "40" is no device's */
static const double max_memory_bytes = 4e18;   /* fits int64_t */

/* The value of a property of a host or, when it has none, of the zone the file opens with; NULL if
 * neither has it. */
static const char *type_property(const struct platform_host *host, const char *property)
{
    const char *value = host->property(host->of, property);
    return value ? value : host->usual(host->of, property);
}

/* Put "path:line: host 'x': property: " before the message. */
static enum status in_property(const struct platform_text *p, const struct platform_host *host,
                               const char *property, enum status st)
{
    if (st == STATUS_NOMEM)
        return st;
    const char *name = host->name;
    return error_context(STATUS_PARSE, "%s:%zu: host '%s': %s", p->path,
                         platform_property_line(p, "host", name, property), name, property);
}

/* A property with a unit, at least `least`; `out` keeps its default when there is none. */
static enum status read_quantity(const struct platform_text *p, const struct platform_host *host,
                                 const char *property, enum unit unit, double least, double *out)
{
    const char *text = type_property(host, property);
    if (!text)
        return STATUS_OK;
    enum status st = units_parse(unit, text, out);
    if (st == STATUS_OK && *out < least)
        st = error_set(STATUS_PARSE, "got '%.40s', expected a value above 0", text);
    return st == STATUS_OK ? st : in_property(p, host, property, st);
}

/* ---- rate:KIND = "work@rate work@rate ..." */

/* One point of at most a few dozen characters; *text moves past it. */
static enum status read_point(const char **text, double *flop, double *flops)
{
    char point[80];
    size_t n = strcspn(*text, " \t\r\n");
    snprintf(point, sizeof point, "%.*s", (int)(n < sizeof point ? n : sizeof point - 1), *text);
    *text += n;
    char *at = strchr(point, '@');
    if (!at || n >= sizeof point)
        return error_set(STATUS_PARSE, "got '%s', expected work@rate such as 1Mflop@5Gf", point);
    *at = '\0';
    PASS(units_parse(UNIT_FLOP, point, flop));
    PASS(units_parse(UNIT_FLOPS, at + 1, flops));
    if (*flop < DBL_MIN || *flops < DBL_MIN)
        return error_set(STATUS_PARSE, "got '%s@%s', expected values above 0", point, at + 1);
    return STATUS_OK;
}

/* The points of a rate, in increasing order of work. */
static enum status read_points(const char *text, struct topology_rate *rate)
{
    PASS(ARRAY_NEW(rate->flop, MAX_POINTS));
    PASS(ARRAY_NEW(rate->flops, MAX_POINTS));
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (!*text)
            break;
        if (rate->n == MAX_POINTS)
            return error_set(STATUS_PARSE, "speed curve has more than %d points", MAX_POINTS);
        PASS(read_point(&text, &rate->flop[rate->n], &rate->flops[rate->n]));
        if (rate->n > 0 && rate->flop[rate->n] <= rate->flop[rate->n - 1])
            return error_set(STATUS_PARSE,
                             "points of the speed curve must be in increasing order of work");
        rate->n++;
    }
    return rate->n > 0
               ? STATUS_OK
               : error_set(STATUS_PARSE,
                           "speed curve has no points, expected work@rate such as 1Mflop@5Gf");
}

/* The rate `property` of the host, if it has it, as one more of its type. */
static enum status read_rate(const struct platform_text *p, const struct platform_host *host,
                             const char *property, struct device_type *type)
{
    const char *kind = property + sizeof rate_prefix - 1;
    const char *text = type_property(host, property);
    if (!text)
        return STATUS_OK;
    struct topology_rate *rate = &type->rate[type->rates++];
    PASS(text_copy(kind, &rate->kind));
    enum status st = read_points(text, rate);
    return st == STATUS_OK ? st : in_property(p, host, property, st);
}

/* A curve of collectives, likewise. */
static enum status read_curve(const struct platform_text *p, const struct platform_host *host,
                              const char *property, struct device_type *type)
{
    const char *text = type_property(host, property);
    if (!text)
        return STATUS_OK;
    enum status st =
        fabric_curve_parse(property + sizeof curve_prefix - 1, text, &type->curve[type->curves]);
    type->curves += st == STATUS_OK;
    return st == STATUS_OK ? st : in_property(p, host, property, st);
}

/* The constants of collectives, if the host has them. */
static enum status read_fabric(const struct platform_text *p, const struct platform_host *host,
                               struct device_type *type)
{
    const char *text = type_property(host, "collectives");
    enum status st = text ? fabric_model_parse(text, &type->fabric) : STATUS_OK;
    return st == STATUS_OK ? st : in_property(p, host, "collectives", st);
}

/* What was fitted changes all other numbers, and comes last. */
static enum status read_fitted(const struct platform_text *p, const struct platform_host *host,
                               struct device_type *type)
{
    double times[FITTED_DEVICE] = {0};
    const char *text = type_property(host, "fitted");
    enum status st = text ? fitted_read(text, times) : STATUS_OK;
    if (text && st == STATUS_OK)
        fitted_apply(times, type);
    return st == STATUS_OK ? st : in_property(p, host, "fitted", st);
}

/* The distinct properties of the whole file that begin with a prefix, in its order: SimGrid has the
 * values, but no order. */
struct prefixed {
    size_t n;
    char *name[MAX_RATES];
};
struct found_properties {
    struct prefixed rate, curve;
};

/* Release the names. */
static void found_free(struct found_properties *f)
{
    for (size_t i = 0; i < f->rate.n; i++)
        free(f->rate.name[i]);
    for (size_t i = 0; i < f->curve.n; i++)
        free(f->curve.name[i]);
}

/* Each name once, in the order of the text. */
static enum status find_prefixed(const struct platform_text *p, const char *wanted,
                                 struct prefixed *out)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    while (xml_next(&s, &tag)) {
        struct xml_span id = xml_attribute(&tag, "id");
        size_t prefix = strlen(wanted), i = 0;
        if (!xml_is(&tag, "prop") || id.n < prefix || memcmp(id.at, wanted, prefix) != 0)
            continue;
        if (id.n == prefix)
            return error_set(STATUS_PARSE, "%s:%zu: expected the kind of an op after '%s'", p->path,
                             tag.line, wanted);
        while (i < out->n && !xml_equal(id, out->name[i]))
            i++;
        if (i < out->n)
            continue;
        if (out->n == MAX_RATES)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d kinds of %.*ss", p->path, tag.line,
                             MAX_RATES, (int)(prefix - 1), wanted);
        char *name;
        PASS(ARRAY_NEW(name, id.n + 1));
        xml_decode(id, name, id.n + 1);
        out->name[out->n++] = name;
    }
    return STATUS_OK;
}

/* ---- types */

/* "0.1" or "10%". */
static enum status read_slowdown(const struct platform_text *p, const struct platform_host *host,
                                 double *out)
{
    const char *text = type_property(host, "slowdown");
    char *end;
    if (!text)
        return STATUS_OK;
    double value = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0)
        value /= 100, end++;
    if (end == text || *end || !(value >= 0 && value <= 100))
        return in_property(
            p, host, "slowdown",
            error_set(STATUS_PARSE, "got '%.40s', expected a share such as 0.1 or 10%%", text));
    *out = value;
    return STATUS_OK;
}

/* A number without a unit. */
static enum status read_bare(const struct platform_text *p, const struct platform_host *host,
                             const char *name, double *out)
{
    const char *text = type_property(host, name);
    char *end;
    if (!text)
        return STATUS_OK;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= 1e12))
        return in_property(
            p, host, name,
            error_set(STATUS_PARSE, "got '%.40s', expected a number without a unit", text));
    return STATUS_OK;
}

/* What data sheets let one guess, then what the host says. */
static enum status read_kernels(const struct platform_text *p, const struct platform_host *host,
                                struct device_type *type)
{
    const char *text = type_property(host, "kernels");
    type->kernels = kernels_derive(type);
    enum status st = text ? kernels_read(text, &type->kernels) : STATUS_OK;
    return st == STATUS_OK ? st : in_property(p, host, "kernels", st);
}

static bool has_name(const struct platform_host *host)
{
    const char *name = type_property(host, "type");
    return name && *name;
}

/* All properties of a host as a device type; a host without a "type" is called by its speed. */
static enum status type_read(const struct platform_text *p, const struct platform_host *host,
                             const struct found_properties *found, struct device_type *type)
{
    char speed[UNITS_TEXT];
    double memory = default_memory_bytes, framework = 0;
    const char *name = has_name(host) ? type_property(host, "type") : NULL;
    type->flops = host->flops;
    type->idle_cores = host->cores - 1;
    type->memory_Bps = default_memory_Bps;
    if (!name)
        name = units_print_exact(UNIT_FLOPS, type->flops, speed);
    PASS(text_copy(name, &type->name));
    PASS(ARRAY_NEW(type->rate, found->rate.n + 1));
    PASS(ARRAY_NEW(type->curve, found->curve.n + 1));
    PASS(read_quantity(p, host, "memory", UNIT_BYTES, 1, &memory));
    if (memory < least_memory_bytes)
        return in_property(p, host, "memory",
                           error_set(STATUS_PARSE,
                                     "got '%.40s', expected at least 1KiB, such as 40GiB",
                                     type_property(host, "memory")));
    if (memory > max_memory_bytes)
        return in_property(p, host, "memory",
                           error_set(STATUS_PARSE, "got '%.40s', expected at most %g bytes",
                                     type_property(host, "memory"), max_memory_bytes));
    type->memory_bytes = (int64_t)memory;
    PASS(read_quantity(p, host, "framework_memory", UNIT_BYTES, 0, &framework));
    if (framework > memory)
        return in_property(p, host, "framework_memory",
                           error_set(STATUS_PARSE, "expected at most the device's memory"));
    type->framework_bytes = (int64_t)framework;
    PASS(read_quantity(p, host, "memory_bandwidth", UNIT_RATE, DBL_MIN, &type->memory_Bps));
    PASS(read_quantity(p, host, "launch_overhead", UNIT_SECONDS, 0, &type->launch_s));
    PASS(read_slowdown(p, host, &type->slowdown));
    PASS(read_quantity(p, host, "message_overhead", UNIT_SECONDS, 0, &type->message_s));
    PASS(read_quantity(p, host, "message_bandwidth", UNIT_RATE, DBL_MIN, &type->message_Bps));
    for (size_t k = 1; k < DATA_TYPES; k++)
        PASS(read_quantity(p, host, data_type_peaks[k], UNIT_FLOPS, 0, &type->peak[k]));
    PASS(read_kernels(p, host, type));
    PASS(read_quantity(p, host, "host_bandwidth", UNIT_RATE, DBL_MIN, &type->host_Bps));
    PASS(read_quantity(p, host, "host_memory_bandwidth", UNIT_RATE, DBL_MIN,
                       &type->host_memory_Bps));
    PASS(read_bare(p, host, "watts", &type->watts));
    PASS(read_bare(p, host, "price_per_hour", &type->price_per_hour));
    PASS(read_bare(p, host, "busy_spread", &type->busy_spread));
    for (size_t k = 0; k < found->rate.n; k++)
        PASS(read_rate(p, host, found->rate.name[k], type));
    for (size_t k = 0; k < found->curve.n; k++)
        PASS(read_curve(p, host, found->curve.name[k], type));
    PASS(read_fabric(p, host, type));
    return read_fitted(p, host, type);
}

/* What two types of one name disagree about, NULL if nothing. */
static const char *difference(const struct device_type *a, const struct device_type *b)
{
    if (!array_same_numbers(&a->flops, &b->flops, 1))
        return "speed";
    if (!array_same_numbers(&a->idle_cores, &b->idle_cores, 1))
        return "core";
    if (a->memory_bytes != b->memory_bytes)
        return "memory";
    if (a->framework_bytes != b->framework_bytes)
        return "framework_memory";
    if (!array_same_numbers(&a->memory_Bps, &b->memory_Bps, 1))
        return "memory_bandwidth";
    if (!array_same_numbers(&a->launch_s, &b->launch_s, 1))
        return "launch_overhead";
    if (!array_same_numbers(&a->slowdown, &b->slowdown, 1))
        return "slowdown";
    if (!array_same_numbers(&a->message_s, &b->message_s, 1))
        return "message_overhead";
    if (!array_same_numbers(&a->message_Bps, &b->message_Bps, 1))
        return "message_bandwidth";
    if (!array_same_numbers(a->peak, b->peak, DATA_TYPES))
        return "peak";
    if (memcmp(&a->kernels, &b->kernels, sizeof a->kernels) != 0)
        return "kernels";
    if (!array_same_numbers(&a->host_Bps, &b->host_Bps, 1))
        return "host_bandwidth";
    if (!array_same_numbers(&a->host_memory_Bps, &b->host_memory_Bps, 1))
        return "host_memory_bandwidth";
    if (!array_same_numbers(&a->watts, &b->watts, 1))
        return "watts";
    if (!array_same_numbers(&a->price_per_hour, &b->price_per_hour, 1))
        return "price_per_hour";
    if (!array_same_numbers(&a->busy_spread, &b->busy_spread, 1))
        return "busy_spread";
    bool same = a->rates == b->rates;
    for (size_t k = 0; same && k < a->rates; k++) {
        const struct topology_rate *x = &a->rate[k], *y = &b->rate[k];
        same = !strcmp(x->kind, y->kind) && x->n == y->n &&
               array_same_numbers(x->flop, y->flop, x->n) &&
               array_same_numbers(x->flops, y->flops, x->n);
    }
    if (!same)
        return "rates";
    if (!array_same_numbers((const double *)&a->fabric, (const double *)&b->fabric,
                            sizeof a->fabric / sizeof(double)))
        return "collectives";
    if (!array_same_numbers((const double *)&a->fitted, (const double *)&b->fitted,
                            sizeof a->fitted / sizeof(double)))
        return "fitted";
    same = a->curves == b->curves;
    for (size_t k = 0; same && k < a->curves; k++)
        same = fabric_curve_same(&a->curve[k], &b->curve[k]);
    return same ? NULL : "curves";
}

/* Number of the type of that name; t->types if there is none. */
static size_t find_type(const struct topology *t, const char *name)
{
    size_t k = 0;
    while (k < t->types && strcmp(t->type[k].name, name) != 0)
        k++;
    return k;
}

/* Hosts without a "type" are called by their speed; those of one speed that differ in something
 * else get names of their own, "1 Gflop/s-2". */
static enum status name_apart(const struct topology *t, struct device_type *type, size_t *known)
{
    char *name = NULL;
    PASS(text_copy(type->name, &name));
    enum status st = STATUS_OK;
    for (size_t n = 2; st == STATUS_OK && *known < t->types; n++) {
        char numbered[UNITS_TEXT + 24];
        if (!difference(&t->type[*known], type))
            break;
        snprintf(numbered, sizeof numbered, "%s-%zu", name, n);
        free(type->name);
        type->name = NULL;
        st = text_copy(numbered, &type->name);
        if (st == STATUS_OK)
            *known = find_type(t, numbered);
    }
    free(name);
    return st;
}

/* Find the type of device i among the known ones or add it. */
static enum status place_type(const struct platform_text *p, const struct platform_host *host,
                              const struct found_properties *found, size_t i, struct topology *t)
{
    enum status st;
    struct topology one = {.types = 1}; /* for its _free */
    PASS(ARRAY_NEW(one.type, 1));
    TRY(type_read(p, &host[i], found, one.type));
    size_t k = find_type(t, one.type->name);
    if (!has_name(&host[i]))
        TRY(name_apart(t, one.type, &k));
    if (k < t->types) {
        const char *what = difference(&t->type[k], one.type);
        if (what) {
            const char *name = host[i].name;
            st = error_set(STATUS_PARSE,
                           "%s:%zu: host '%s': %s differs from that of other devices of type '%s', "
                           "expected the same",
                           p->path, platform_property_line(p, "host", name, what), name, what,
                           one.type->name);
            goto out;
        }
    } else {
        TRY(ARRAY_ROOM(t->type, t->types));
        MOVE(&t->type[t->types++], one.type[0]);
    }
    t->type_of[i] = (uint32_t)k;
out:
    topology_free(&one);
    return st;
}

enum status platform_types(const struct platform_text *p, const struct platform_host *host,
                           struct topology *t)
{
    enum status st;
    struct found_properties found = {0};
    TRY(find_prefixed(p, rate_prefix, &found.rate));
    TRY(find_prefixed(p, curve_prefix, &found.curve));
    TRY(ARRAY_NEW(t->type_of, t->n + 1));
    for (size_t i = 0; i < t->n; i++)
        TRY(place_type(p, host, &found, i, t));
out:
    found_free(&found);
    return st;
}
