/* Copies a platform text and puts properties behind the start of its first zone, where SimGrid's
 * DTD wants them. */
#include "sim/platform/properties.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/text.h"
#include "sim/platform/xml_scan.h"

/* Behind the ">" of a tag. */
static const char *end_of(const struct xml_tag *tag)
{
    const char *end = tag->attributes.at + tag->attributes.n;
    return end + (*end == '>');
}

static bool is_replaced(struct xml_span id, const struct platform_property_text *property, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (xml_equal(id, property[k].id))
            return true;
    return false;
}

static void property_put(const struct platform_property_text *property, FILE *to)
{
    fputs("\n    <prop id=\"", to);
    text_put_xml(to, property->id, SIZE_MAX);
    fputs("\" value=\"", to);
    text_put_xml(to, property->value, SIZE_MAX);
    fputs("\"/>", to);
}

enum status platform_set_properties(const struct platform_text *p,
                                    const struct platform_property_text *property, size_t n,
                                    FILE *to)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    const char *from = p->text;
    bool found = false;
    while (!found && xml_next(&s, &tag))
        found = xml_is(&tag, "zone");
    if (!found)
        return error_set(STATUS_PARSE,
                         "%s: platform has no <zone> element, so properties cannot be written",
                         p->path);
    fwrite(from, 1, (size_t)(end_of(&tag) - from), to);
    from = end_of(&tag);
    for (size_t k = 0; k < n; k++)
        property_put(&property[k], to);
    while (xml_next(&s, &tag) && (xml_is(&tag, "prop") || tag.closing)) {
        if (!xml_is(&tag, "prop") || !is_replaced(xml_attribute(&tag, "id"), property, n))
            continue;
        fwrite(from, 1, (size_t)(tag.name.at - 1 - from), to); /* up to its "<" */
        from = end_of(&tag);
    }
    fwrite(from, 1, strlen(from), to);
    return STATUS_OK;
}
