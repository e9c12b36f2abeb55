/* Finds what has coordinates in a platform's text, and takes them out. */
#include "sim/platform/coordinates.h"

#include <string.h>

#include "sim/platform/xml_scan.h"

bool platform_has_coordinates(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    while (xml_next(&s, &tag))
        if ((xml_is(&tag, "zone") || xml_is(&tag, "AS")) &&
            xml_equal_any_case(xml_attribute(&tag, "routing"), "Vivaldi"))
            return true;
    return false;
}

void platform_drop_coordinates(const struct platform_text *p, FILE *to)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    const char *from = p->text;
    while (xml_next(&s, &tag)) {
        struct xml_span at = xml_attribute(&tag, "coordinates");
        if (tag.closing || at.n == 0)
            continue;
        fwrite(from, 1, (size_t)(at.at - from), to);
        fputs("0 0 0", to);
        from = at.at + at.n;
    }
    fputs(from, to);
}
