/* A scanner of tags for texts that SimGrid's own parser has accepted or will judge: it never
 * fails, never reads past the end, and does not check that tags match. */
#include "sim/platform/xml_scan.h"

#include <string.h>
#include <strings.h>

static const char blanks[] = " \t\r\n";

/* A scanner stands before the first tag of the text. */
struct xml_scanner xml_scan(const char *text)
{
    return (struct xml_scanner){.next = text, .line = 1};
}

/* Move on and count the lines that are passed. */
static void move_to(struct xml_scanner *s, const char *to)
{
    for (; s->next < to; s->next++)
        s->line += *s->next == '\n';
}

/* Just past the first `end` at or after `from`; the end of the text if there is none. No strstr()
 * or strchr() here: the address sanitizer's measure the rest of the text first. */
static const char *past(const char *from, const char *end)
{
    size_t n = strlen(end);
    while (*from && (*from != *end || strncmp(from, end, n) != 0))
        from++;
    return *from ? from + n : from;
}

/* The ">" that ends a tag, which attribute values may contain too; or the text's end. */
static const char *end_of_tag(const char *c)
{
    while (*c && *c != '>') {
        if (*c == '"' || *c == '\'') {
            char quote = *c++;
            while (*c && *c != quote)
                c++;
            if (!*c)
                return c;
        }
        c++;
    }
    return c;
}

bool xml_next(struct xml_scanner *s, struct xml_tag *tag)
{
    for (;;) {
        move_to(s, s->next + strcspn(s->next, "<"));
        const char *c = s->next;
        if (!*c)
            return false;
        if (c[1] == '!' || c[1] == '?') {
            bool comment = !strncmp(c, "<!--", 4), data = !strncmp(c, "<![CDATA[", 9);
            move_to(s, comment ? past(c + 4, "-->") : data ? past(c + 9, "]]>") : past(c, ">"));
        } else {
            tag->line = s->line;
            tag->closing = c[1] == '/';
            tag->name.at = c + 1 + tag->closing;
            tag->name.n = strcspn(tag->name.at, " \t\r\n/>");
            tag->attributes.at = tag->name.at + tag->name.n;
            const char *end = end_of_tag(tag->attributes.at);
            tag->attributes.n = (size_t)(end - tag->attributes.at);
            move_to(s, *end ? end + 1 : end);
            return true;
        }
    }
}

bool xml_is(const struct xml_tag *tag, const char *name)
{
    return !tag->closing && xml_equal(tag->name, name);
}

bool xml_next_attribute(const struct xml_tag *tag, const char **at, struct xml_span *name,
                        struct xml_span *value)
{
    const char *c = *at ? *at : tag->attributes.at, *end = tag->attributes.at + tag->attributes.n;
    while (c < end) {
        c += strspn(c, blanks);
        *name = (struct xml_span){c, strcspn(c, " \t\r\n=/>")};
        c += name->n;
        c += strspn(c, blanks);
        if (*c != '=') {
            c++;
            continue;
        }
        c++;
        c += strspn(c, blanks);
        if (c >= end || (*c != '"' && *c != '\''))
            break;
        const char *quote = memchr(c + 1, *c, (size_t)(end - c - 1));
        if (!quote)
            break;
        *value = (struct xml_span){c + 1, (size_t)(quote - c - 1)};
        *at = quote + 1;
        return true;
    }
    return false;
}

struct xml_span xml_attribute(const struct xml_tag *tag, const char *name)
{
    struct xml_span key, value;
    for (const char *at = NULL; xml_next_attribute(tag, &at, &key, &value);)
        if (xml_equal(key, name))
            return value;
    return (struct xml_span){NULL, 0};
}

/* The character at *c, which may be written as an entity; *c moves past it. */
static char next_character(const char **c, const char *end)
{
    static const struct {
        const char *entity;
        char character;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; **c == '&' && i < sizeof entities / sizeof *entities; i++) {
        size_t n = strlen(entities[i].entity);
        if ((size_t)(end - *c) >= n && !memcmp(*c, entities[i].entity, n)) {
            *c += n;
            return entities[i].character;
        }
    }
    return *(*c)++;
}

size_t xml_decode(struct xml_span span, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = span.at, *end = c + span.n; c < end; n++) {
        char character = next_character(&c, end);
        if (n + 1 < size)
            out[n] = character;
    }
    if (size > 0)
        out[n < size ? n : size - 1] = '\0';
    return n;
}

bool xml_equal(struct xml_span span, const char *text)
{
    if (!span.at)
        return false;
    const char *end = span.at + span.n;
    for (const char *c = span.at; c < end; text++)
        if (*text != next_character(&c, end)) /* also at the end of the text */
            return false;
    return *text == '\0';
}

bool xml_equal_any_case(struct xml_span span, const char *text)
{
    char value[64];
    return span.at && xml_decode(span, value, sizeof value) < sizeof value &&
           strcasecmp(value, text) == 0;
}

int xml_compare(struct xml_span a, struct xml_span b)
{
    int order = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}
