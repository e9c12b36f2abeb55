/* text.h - copies of strings, names of tables joined for messages, and looking a name up. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

/* *out becomes a malloc'd copy; what it was before is not freed. STATUS_NOMEM. */
enum status text_copy(const char *text, char **out) MUST_CHECK;

/* The names of a table's n rows as messages and help texts show them, "A, B, C": name_of(i) is that
 * of row i. Returns text[TEXT_LIST]; what does not fit is cut off. */
enum { TEXT_LIST = 512 };
const char *text_list(const char *(*name_of)(size_t i), size_t n, char text[TEXT_LIST]);

/* Index of the row called `name` among n; name_of(i) is the name of row i.
 * STATUS_INVALID "no WHAT is called 'NAME'; there are A, B, C". */
enum status text_find(const char *what, const char *name, const char *(*name_of)(size_t i),
                      size_t n, size_t *index) MUST_CHECK;

/* Write n characters of a text for XML or HTML, inside an element or double quotes: reserved
 * characters become entities, control characters blanks. The first NUL ends the text too. */
void text_put_xml(FILE *to, const char *text, size_t n);

#endif
