/* xml_scan.h - walk over the start tags of an XML text that SimGrid parses properly.
 *
 * SimGrid forgets on which line it read a link or a host; this finds it again. Comments, CDATA,
 * declarations and processing instructions are skipped. Any text is accepted: what is not
 * well-formed only yields fewer tags. Nothing is allocated. */
#ifndef SIM_PLATFORM_XML_SCAN_H
#define SIM_PLATFORM_XML_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of the text. */
struct xml_span {
    const char *at;
    size_t n;
};

struct xml_tag {
    struct xml_span name;       /* "host" */
    struct xml_span attributes; /* between the name and ">" */
    size_t line;                /* of its "<", from 1 */
    bool closing;               /* "</host>" */
};

struct xml_scanner {
    const char *next; /* in a NUL-terminated text, which must outlive all spans */
    size_t line;      /* of `next` */
};

struct xml_scanner xml_scan(const char *text);
/* The next tag, start or end; false at the end of the text. */
bool xml_next(struct xml_scanner *s, struct xml_tag *tag);
/* Whether it is a start tag of that name. */
bool xml_is(const struct xml_tag *tag, const char *name);
/* The attributes one after the other, quotes removed; *at is NULL before the first. */
bool xml_next_attribute(const struct xml_tag *tag, const char **at, struct xml_span *name,
                        struct xml_span *value);
/* The value of an attribute, quotes removed; {NULL, 0} when absent. */
struct xml_span xml_attribute(const struct xml_tag *tag, const char *name);
/* Copy a value with the five entities of XML replaced into out[size], cut to fit; returns its
 * length before cutting. */
size_t xml_decode(struct xml_span span, char *out, size_t size);
/* Whether a value says `text`, entities replaced; false for an absent one. */
bool xml_equal(struct xml_span span, const char *text);
/* The same whatever the case, as SimGrid takes the names of routings; `text` is below 64
 * letters. */
bool xml_equal_any_case(struct xml_span span, const char *text);
/* Order of two spans as they stand, as strcmp(). */
int xml_compare(struct xml_span a, struct xml_span b);

#endif
