/* Copies a platform text tag by tag and writes other numbers where a change names the link or
 * host. */
#include "sim/platform/variant.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/xml_scan.h"

enum { CHANGES = 32, NAME = 256 };

/* What can be changed: an attribute of an element. */
static const struct quantity {
    const char *element, *attribute, *unit;
    enum unit kind;
    bool positive;
} quantities[] = {
    {"link", "bandwidth", "Bps", UNIT_RATE, true},
    {"link", "latency", "s", UNIT_SECONDS, false},
    {"host", "speed", "f", UNIT_FLOPS, true},
};
enum { QUANTITIES = sizeof quantities / sizeof *quantities };

/* "NAME.attribute=value": what every link or host that the glob matches gets, or "=x0.9", times
 * what it has. `used` says that one did. */
struct platform_change {
    const struct quantity *quantity;
    char name[NAME]; /* a glob */
    double value;
    bool times, used;
};

/* A copy under way. The text is written up to the last change, so that all else stays byte for
 * byte. */
struct variant {
    size_t n;
    struct platform_change change[CHANGES];
    size_t devices, seen; /* wanted, 0: all; those seen so far */
    const char *from;     /* of the text, not yet written */
    FILE *to;
};

/* ---- the changes */

/* "devices=N": how many of the first hosts stay. */
static enum status parse_devices(struct variant *v, const char *text)
{
    uint64_t n;
    if (*text == '0' || !text_count(text, SIZE_MAX, &n))
        return error_set(STATUS_INVALID, "got devices=%.40s, expected a number of devices above 0",
                         text);
    v->devices = n;
    return STATUS_OK;
}

/* "NAME.attribute=value"; `text` is cut into its parts. */
static enum status parse_change(struct variant *v, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return error_set(STATUS_INVALID, "got '%.80s', expected NAME.bandwidth=RATE or devices=N",
                         text);
    *equals = '\0';
    if (!strcmp(text, "devices"))
        return parse_devices(v, equals + 1);
    char *dot = strrchr(text, '.');
    size_t k = 0;
    while (dot && k < QUANTITIES && strcmp(quantities[k].attribute, dot + 1) != 0)
        k++;
    if (!dot || dot == text || k == QUANTITIES)
        return error_set(
            STATUS_INVALID,
            "got '%.80s', expected devices, LINK.bandwidth, LINK.latency or HOST.speed", text);
    if (v->n == CHANGES)
        return error_set(STATUS_INVALID, "got more changes than %d (the limit)", CHANGES);
    if (dot - text >= NAME)
        return error_set(STATUS_INVALID, "'%.40s...': name has more than %d characters", text,
                         NAME - 1);
    struct platform_change *c = &v->change[v->n++];
    c->quantity = &quantities[k];
    *dot = '\0';
    memcpy(c->name, text, strlen(text) + 1);
    c->times = equals[1] == 'x';
    if (c->times && !text_real(equals + 2, &c->value))
        return error_set(STATUS_INVALID,
                         "%s.%s: got '%s', expected a factor such as 'x2' or 'x0.5'", c->name,
                         c->quantity->attribute, equals + 1);
    if (!c->times && units_parse(c->quantity->kind, equals + 1, &c->value) != STATUS_OK)
        return error_context(STATUS_INVALID, "%s.%s", c->name, c->quantity->attribute);
    if (c->quantity->positive && c->value <= 0)
        return error_set(STATUS_INVALID, "%s.%s: got '%s', expected a value above 0", c->name,
                         c->quantity->attribute, equals + 1);
    return STATUS_OK;
}

/* All changes of a description, separated by commas. */
static enum status parse_changes(struct variant *v, const char *changes)
{
    enum status st = STATUS_OK;
    size_t length = strlen(changes);
    char *copy = malloc(length + 1), *next = copy;
    if (!copy)
        return error_set(STATUS_NOMEM, "out of memory");
    memcpy(copy, changes, length + 1);
    while (next) {
        char *comma = strchr(next, ',');
        if (comma)
            *comma++ = '\0';
        TRY(parse_change(v, next));
        next = comma;
    }
out:
    free(copy);
    return st;
}

/* ---- the text */

/* A tag that ends in "/>" has nothing inside. */
static bool closes_itself(const struct xml_tag *tag)
{
    return tag->attributes.n > 0 && tag->attributes.at[tag->attributes.n - 1] == '/';
}

/* The value of <prop id="property"> inside the element that `at` has just entered; or none. */
static struct xml_span variant_property_of(const struct xml_tag *element, struct xml_scanner at,
                                           const char *property)
{
    struct xml_tag tag;
    while (!closes_itself(element) && xml_next(&at, &tag) && xml_is(&tag, "prop"))
        if (xml_equal(xml_attribute(&tag, "id"), property))
            return xml_attribute(&tag, "value");
    return (struct xml_span){NULL, 0};
}

/* By its own name, or by the tier that its property names. */
static bool variant_matches(const struct platform_change *c, struct xml_span id,
                            struct xml_span tier)
{
    char name[NAME];
    if (id.at && xml_decode(id, name, sizeof name) < sizeof name && !fnmatch(c->name, name, 0))
        return true;
    return tier.at && xml_decode(tier, name, sizeof name) < sizeof name &&
           !fnmatch(c->name, name, 0);
}

/* Copy the text as it is up to here. */
static void write_until(struct variant *v, const char *end)
{
    fwrite(v->from, 1, (size_t)(end - v->from), v->to);
    v->from = end;
}

/* The number that a change makes of what stands in the text. */
static enum status change_value(const struct platform_change *c, struct xml_span old, double *out)
{
    char text[NAME];
    double was = 1;
    if (c->times && (xml_decode(old, text, sizeof text) >= sizeof text ||
                     units_parse(c->quantity->kind, text, &was) != STATUS_OK))
        return error_set(STATUS_INVALID,
                         "%s.%s=x%g: cannot scale the platform's value '%.40s', which is not a "
                         "number with a unit",
                         c->name, c->quantity->attribute, c->value, text);
    *out = c->value * was;
    return STATUS_OK;
}

/* A tag may have the attributes of the table in any order. */
static enum status change_tag(struct variant *v, const struct xml_tag *tag,
                              struct xml_scanner inside)
{
    double number = 0;
    struct xml_span id = xml_attribute(tag, "id"), tier = variant_property_of(tag, inside, "tier");
    const struct platform_change *found[QUANTITIES] = {0};
    struct xml_span value[QUANTITIES];
    for (size_t i = 0; i < v->n; i++) {
        struct platform_change *c = &v->change[i];
        if (xml_is(tag, c->quantity->element) && variant_matches(c, id, tier)) {
            c->used = true;
            found[c->quantity - quantities] = c;
        }
    }
    for (;;) { /* the leftmost that is left */
        size_t next = QUANTITIES;
        for (size_t k = 0; k < QUANTITIES; k++) {
            value[k] = xml_attribute(tag, quantities[k].attribute);
            if (found[k] && value[k].at && (next == QUANTITIES || value[k].at < value[next].at))
                next = k;
        }
        if (next == QUANTITIES)
            return STATUS_OK;
        PASS(change_value(found[next], value[next], &number));
        write_until(v, value[next].at);
        fprintf(v->to, "%.15g%s", number, quantities[next].unit);
        v->from = value[next].at + value[next].n;
        found[next] = NULL;
    }
}

/* A host beyond the last device becomes one that only passes things on. */
static void limit_devices(struct variant *v, const struct xml_tag *tag, struct xml_scanner inside)
{
    struct xml_span device = variant_property_of(tag, inside, "device");
    if (xml_equal(device, "none") || ++v->seen <= v->devices)
        return;
    const char *end = tag->attributes.at + tag->attributes.n; /* at ">" */
    write_until(v, closes_itself(tag) ? end - 1 : end);
    fputs("><prop id=\"device\" value=\"none\"/>", v->to);
    v->from = end + (*end == '>');
    if (closes_itself(tag))
        fputs("</host>", v->to);
}

/* A change that nothing answered to is a mistake of whoever wrote it. */
static enum status variant_check_used(const struct variant *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (!v->change[i].used)
            return error_set(
                STATUS_INVALID,
                "no %s has the name or pattern '%s'; list devices with foreline topology show "
                "PLATFORM, links with foreline simulate PLAN --links 100",
                v->change[i].quantity->element, v->change[i].name);
    if (v->seen < v->devices)
        return error_set(STATUS_INVALID, "got devices=%zu, but the platform has %zu devices",
                         v->devices, v->seen);
    return STATUS_OK;
}

enum status platform_vary(const struct platform_text *p, const char *changes, FILE *to)
{
    struct variant v = {.from = p->text, .to = to};
    struct xml_scanner scanner = xml_scan(p->text);
    struct xml_tag tag;
    PASS(parse_changes(&v, changes));
    while (xml_next(&scanner, &tag)) {
        if (v.devices && xml_is(&tag, "cluster"))
            return error_set(STATUS_INVALID,
                             "%s:%zu: devices of a <cluster> cannot be removed with devices=",
                             p->path, tag.line);
        if (!xml_is(&tag, "link") && !xml_is(&tag, "host"))
            continue;
        PASS(change_tag(&v, &tag, scanner));
        if (v.devices && xml_is(&tag, "host"))
            limit_devices(&v, &tag, scanner);
    }
    write_until(&v, v.from + strlen(v.from));
    return variant_check_used(&v);
}
