/* text.h - copies of strings, and looking a name up in a table. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

/* *out becomes a malloc'd copy; what it was before is not freed. STATUS_NOMEM. */
enum status text_copy(const char *text, char **out) MUST_CHECK;

/* Index of the row called `name` among n; name_of(i) is the name of row i.
 * STATUS_INVALID "no WHAT is called 'NAME'; there are A, B, C". */
enum status text_find(const char *what, const char *name, const char *(*name_of)(size_t i),
                      size_t n, size_t *index) MUST_CHECK;

/* Write n characters of a text for XML or HTML, inside an element or double quotes: reserved
 * characters become entities, control characters blanks. The first NUL ends the text too. */
void text_put_xml(FILE *to, const char *text, size_t n);

#endif
