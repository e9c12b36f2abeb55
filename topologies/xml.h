/* xml.h - an XML text as a tree of elements, each with its line, through expat.
 *
 * Entities of a document type are refused, as a few lines could stand for very much; nothing
 * outside the text is ever read. */
#ifndef TOPOLOGIES_XML_H
#define TOPOLOGIES_XML_H

#include <stddef.h>

#include "core/base/array.h"

enum { XML_DEPTH = 64, XML_ELEMENTS = 1 << 20 };

struct xml_element {
    const char *name;
    size_t line;
    const char **attribute; /* name, value, name, value, ..., NULL */
    char *text;             /* between the tags, without that of elements inside; NULL: none */
    struct xml_element *parent, *first, *last, *next;
};

/* All of it in the arena. STATUS_PARSE as "path:line: what", STATUS_NOMEM. */
enum status xml_read(const char *path, const char *text, size_t length, struct arena *arena,
                     struct xml_element **root) MUST_CHECK;
/* An attribute's value, NULL when absent. */
const char *xml_value(const struct xml_element *e, const char *name);

#endif
