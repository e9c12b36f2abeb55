#include "sim/platform_types.h"

#include <float.h>
#include <math.h>
#include <simgrid/zone.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "sim/xml_scan.h"

enum { MAX_RATES = 256, MAX_POINTS = 256, NAME = 256 };

static const double default_memory_bytes = 16.0 * 1024 * 1024 * 1024;
static const double default_memory_Bps = 100e9;
static const double max_memory_bytes = 4e18; /* fits int64_t */

static enum status out_of_memory(void)
{
    return error_set(STATUS_NOMEM, "out of memory");
}

static char *copy(struct xml_span s)
{
    char *text = malloc(s.n + 1);
    if (text) {
        memcpy(text, s.at, s.n);
        text[s.n] = '\0';
    }
    return text;
}

/* Properties of the file's outermost zone are defaults for every host. */
static sg_netzone_t first_zone(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    char name[NAME];
    while (xml_next(&s, &tag)) {
        if (!xml_is(&tag, "zone"))
            continue;
        struct xml_span id = xml_attribute(&tag, "id");
        snprintf(name, sizeof name, "%.*s", (int)(id.n < NAME ? id.n : NAME - 1), id.at);
        return sg_zone_get_by_name(name);
    }
    return NULL;
}

const char *platform_property(const struct platform_text *p, const_sg_host_t host,
                              const char *property)
{
    const char *value = sg_host_get_property_value(host, property);
    if (value)
        return value;
    sg_netzone_t zone = first_zone(p);
    return zone ? sg_zone_get_property_value(zone, property) : NULL;
}

/* Put "path:line: host 'x': property: " before the message. */
static enum status in_property(const struct platform_text *p, const_sg_host_t host,
                               const char *property, enum status st)
{
    if (st == STATUS_NOMEM)
        return st;
    const char *name = sg_host_get_name(host);
    return error_context(STATUS_PARSE, "%s:%zu: host '%s': %s", p->path,
                         platform_property_line(p, "host", name, property), name, property);
}

static enum status read_quantity(const struct platform_text *p, const_sg_host_t host,
                                 const char *property, enum unit unit, double least, double *out)
{
    const char *text = platform_property(p, host, property);
    if (!text)
        return STATUS_OK;
    enum status st = units_parse(unit, text, out);
    if (st == STATUS_OK && *out < least)
        st = error_set(STATUS_PARSE, "'%.40s' is not above zero", text);
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
        return error_set(STATUS_PARSE, "'%s', expected work@rate such as 1Mflop@5Gf", point);
    *at = '\0';
    enum status st;
    TRY(units_parse(UNIT_FLOP, point, flop));
    TRY(units_parse(UNIT_FLOPS, at + 1, flops));
    if (*flop < DBL_MIN || *flops < DBL_MIN)
        st = error_set(STATUS_PARSE, "'%s@%s' is not above zero", point, at + 1);
out:
    return st;
}

static enum status read_points(const char *text, struct topology_rate *rate)
{
    enum status st;
    rate->flop = calloc(MAX_POINTS, sizeof *rate->flop);
    rate->flops = calloc(MAX_POINTS, sizeof *rate->flops);
    if (!rate->flop || !rate->flops)
        return out_of_memory();
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (!*text)
            break;
        if (rate->n == MAX_POINTS)
            return error_set(STATUS_PARSE, "more than %d points", MAX_POINTS);
        TRY(read_point(&text, &rate->flop[rate->n], &rate->flops[rate->n]));
        if (rate->n > 0 && rate->flop[rate->n] <= rate->flop[rate->n - 1])
            return error_set(STATUS_PARSE, "the amounts of work must increase");
        rate->n++;
    }
    st = rate->n > 0 ? STATUS_OK : error_set(STATUS_PARSE, "no points");
out:
    return st;
}

/* Add the rate `property` of the host, if it has it, once. */
static enum status read_rate(const struct platform_text *p, const_sg_host_t host,
                             const char *property, struct device_type *type)
{
    enum status st;
    const char *kind = property + strlen("rate:"), *text = platform_property(p, host, property);
    if (!text)
        return STATUS_OK;
    for (size_t k = 0; k < type->rates; k++)
        if (!strcmp(type->rate[k].kind, kind))
            return STATUS_OK;
    if (type->rates == MAX_RATES)
        return in_property(p, host, property,
                           error_set(STATUS_PARSE, "more than %d rates", MAX_RATES));
    struct topology_rate *rate = &type->rate[type->rates++];
    rate->kind = copy((struct xml_span){kind, strlen(kind)});
    if (!rate->kind)
        return out_of_memory();
    st = *kind ? read_points(text, rate) : error_set(STATUS_PARSE, "kind missing after 'rate:'");
    return st == STATUS_OK ? st : in_property(p, host, property, st);
}

/* SimGrid has no order of properties; the text gives the names, SimGrid the values. */
static enum status read_rates(const struct platform_text *p, const_sg_host_t host,
                              struct device_type *type)
{
    enum status st = STATUS_OK;
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    char property[NAME];
    type->rate = calloc(MAX_RATES, sizeof *type->rate);
    if (!type->rate)
        return out_of_memory();
    while (xml_next(&s, &tag)) {
        struct xml_span id = xml_attribute(&tag, "id");
        if (!xml_is(&tag, "prop") || id.n < 5 || id.n >= NAME || memcmp(id.at, "rate:", 5) != 0)
            continue;
        snprintf(property, sizeof property, "%.*s", (int)id.n, id.at);
        TRY(read_rate(p, host, property, type));
    }
out:
    return st;
}

/* ---- types */

static void type_release(struct device_type *type)
{
    struct topology t = {.types = 1, .type = malloc(sizeof *type)};
    if (t.type) {
        *t.type = *type;
        topology_free(&t);
    }
    *type = (struct device_type){0};
}

static enum status read_type(const struct platform_text *p, const_sg_host_t host,
                             struct device_type *type)
{
    enum status st;
    char speed[UNITS_TEXT];
    double memory = default_memory_bytes;
    const char *name = platform_property(p, host, "type");
    type->flops = sg_host_get_speed(host);
    type->memory_Bps = default_memory_Bps;
    if (!name || !*name)
        name = units_print(UNIT_FLOPS, type->flops, speed);
    type->name = copy((struct xml_span){name, strlen(name)});
    if (!type->name)
        return out_of_memory();
    TRY(read_quantity(p, host, "memory", UNIT_BYTES, 1, &memory));
    if (memory > max_memory_bytes)
        return in_property(p, host, "memory", error_set(STATUS_PARSE, "too large"));
    type->memory_bytes = (int64_t)memory;
    TRY(read_quantity(p, host, "memory_bandwidth", UNIT_RATE, DBL_MIN, &type->memory_Bps));
    TRY(read_quantity(p, host, "launch_overhead", UNIT_SECONDS, 0, &type->launch_s));
    TRY(read_rates(p, host, type));
out:
    return st;
}
