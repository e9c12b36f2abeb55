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
    links->link[links->n++] = (struct text_link){
        .id = xml_attribute(tag, "id"), .line = tag->line, .label = LINKS_NO_LABEL};
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
        return error_set(STATUS_PARSE,
                         "%s:%zu: links have more than %d different values of property tier",
                         p->path, prop->line, LINKS_LABELS);
    if (i == links->labels)
        links->label[links->labels++] = name;
    links->link[links->n - 1].label = (unsigned)i;
    return STATUS_OK;
}

/* The lanes of the link that was read last, whose own tag is `link`. */
static enum status bundle_link(const struct platform_text *p, struct links *links,
                               const struct xml_tag *link, const struct xml_tag *prop)
{
    char text[32];
    struct text_link *l = &links->link[links->n - 1];
    if (xml_decode(xml_attribute(prop, "value"), text, sizeof text) >= sizeof text ||
        !paths_parse_lanes(text, &l->lanes, &l->cables))
        return error_set(STATUS_PARSE,
                         "%s:%zu: lanes: got '%s', expected a number of switches such as 16, or "
                         "16x2 for two cables to each switch, with at most %d lanes (cables)",
                         p->path, prop->line, text, PATHS_LANES_MAX);
    if (xml_equal(xml_attribute(link, "sharing_policy"), "FATPIPE"))
        return error_set(STATUS_PARSE, "%s:%zu: lanes are unsupported on a FATPIPE link", p->path,
                         prop->line);
    links->bundles = true;
    return STATUS_OK;
}

/* The policy that a zone says. */
static enum status links_set_policy(const struct platform_text *p, struct links *links,
                                    const struct xml_tag *prop)
{
    char text[32];
    xml_decode(xml_attribute(prop, "value"), text, sizeof text);
    if (paths_find(text, &links->paths) != STATUS_OK)
        return error_context(STATUS_PARSE, "%s:%zu", p->path, prop->line);
    return STATUS_OK;
}

/* A property of the element that `of` begins. */
static enum status links_read_property(const struct platform_text *p, struct links *links,
                                       const struct xml_tag *of, const struct xml_tag *prop)
{
    struct xml_span id = xml_attribute(prop, "id");
    bool of_link = xml_is(of, "link") && xml_attribute(of, "id").at;
    if (of_link && xml_equal(id, "tier") && xml_attribute(prop, "value").n > 0)
        return label_link(p, links, prop);
    if (of_link && xml_equal(id, "lanes"))
        return bundle_link(p, links, of, prop);
    if ((xml_is(of, "zone") || xml_is(of, "AS")) && xml_equal(id, "paths"))
        return links_set_policy(p, links, prop);
    return STATUS_OK;
}

enum status links_read(const struct platform_text *p, struct links *links)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag, of = {0};
    while (xml_next(&s, &tag)) {
        if (xml_is(&tag, "prop")) {
            PASS(links_read_property(p, links, &of, &tag));
            continue;
        }
        of = tag;
        bool link = xml_is(&tag, "link") && xml_attribute(&tag, "id").at;
        if (link)
            PASS(platform_add_link(links, &tag));
        if (link || xml_is(&tag, "host"))
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

void links_mark_lanes(const struct links *links, struct topology *t)
{
    t->paths = links->paths;
    for (size_t l = 0; links->bundles && l < t->links; l++) {
        const struct text_link *at = links_find(links, t->link[l].name);
        t->link[l].lanes = at ? at->lanes : 0;
        t->link[l].cables = at ? at->cables : 0;
    }
}

void links_free(struct links *links)
{
    free(links->link);
    *links = (struct links){0};
}
