/* The <link> tags of a platform: where each stands in the text, and the label that its property
 * "tier" gives it. */
#include "sim/platform/links.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* Order of links by their names in the text. */
static int platform_link_by_id(const void *a, const void *b)
{
    const struct text_link *x = a, *y = b;
    return xml_compare(x->id, y->id);
}

/* SimGrid takes "1" for 1 s and 1 B/s, with a warning that nobody sees. */
static enum status check_units(const struct platform_text *p, const struct xml_tag *tag)
{
    static const char *const quantities[] = {"bandwidth", "latency", "speed"};
    for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++) {
        struct xml_span value = xml_attribute(tag, quantities[i]);
        size_t zeros = 0;
        while (zeros < value.n && strchr("0.", value.at[zeros]))
            zeros++;
        if (zeros < value.n && !isalpha((unsigned char)value.at[value.n - 1]))
            return error_set(STATUS_PARSE, "%s:%zu: %s '%.*s' has no unit", p->path, tag->line,
                             quantities[i], (int)(value.n < 40 ? value.n : 40), value.at);
    }
    return STATUS_OK;
}

/* One more link, without a label so far. */
static enum status platform_add_link(struct links *links, const struct xml_tag *tag)
{
    PASS(ARRAY_ROOM(links->link, links->n));
    links->link[links->n++] =
        (struct text_link){xml_attribute(tag, "id"), tag->line, LINKS_NO_LABEL};
    return STATUS_OK;
}

/* The tier's name for the link that was read last; labels are numbered as they appear. */
static enum status label_link(const struct platform_text *p, struct links *links,
                              const struct xml_tag *prop)
{
    struct xml_span name = xml_attribute(prop, "value");
    size_t i = 0;
    while (i < links->labels && xml_compare(links->label[i], name) != 0)
        i++;
    if (i == LINKS_LABELS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d different tiers", p->path, prop->line,
                         LINKS_LABELS);
    if (i == links->labels)
        links->label[links->labels++] = name;
    links->link[links->n - 1].label = (unsigned)i;
    return STATUS_OK;
}

enum status links_read(const struct platform_text *p, struct links *links)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    bool in_link = false;
    while (xml_next(&s, &tag)) {
        if (xml_is(&tag, "prop")) {
            if (in_link && xml_equal(xml_attribute(&tag, "id"), "tier") &&
                xml_attribute(&tag, "value").n > 0)
                PASS(label_link(p, links, &tag));
            continue;
        }
        in_link = xml_is(&tag, "link") && xml_attribute(&tag, "id").at;
        if (in_link)
            PASS(platform_add_link(links, &tag));
        if (in_link || xml_is(&tag, "host"))
            PASS(check_units(p, &tag));
    }
    if (links->n > 0)
        qsort(links->link, links->n, sizeof *links->link, platform_link_by_id);
    return STATUS_OK;
}

const struct text_link *links_find(const struct links *links, const char *name)
{
    static const char *const directions[] = {"", "_UP", "_DOWN"};
    for (size_t i = 0; links->n > 0 && i < sizeof directions / sizeof *directions; i++) {
        size_t n = strlen(name), d = strlen(directions[i]);
        if (n <= d || strcmp(name + n - d, directions[i]) != 0)
            continue;
        struct text_link key = {.id = {name, n - d}};
        struct text_link *found =
            bsearch(&key, links->link, links->n, sizeof *links->link, platform_link_by_id);
        if (found)
            return found;
    }
    return NULL;
}

void links_free(struct links *links)
{
    free(links->link);
    *links = (struct links){0};
}
