/* json_text.h - the text of JSON, where jansson keeps no positions and takes what it gets. Private
 * to core/base/json_read.c. */
#ifndef CORE_BASE_JSON_TEXT_H
#define CORE_BASE_JSON_TEXT_H

#include <stddef.h>

#include "core/base/error.h"

/* Members of an object, at most: of millions jansson takes a microsecond for each. */
enum { JSON_TEXT_MEMBERS = 1 << 18 };

/* Past blanks. */
const char *json_text_begin(const char *text);
/* Start of member `key`, or with NULL of item `index`, of the container that begins at `container`,
 * which is returned when it is not found. The text is valid JSON. */
const char *json_text_enter(const char *container, const char *key, size_t index);
/* STATUS_PARSE "path:line: ..." when an object has more than JSON_TEXT_MEMBERS. Of a text that is
 * no JSON nothing follows. O(length). */
enum status json_text_check(const char *path, const char *text) MUST_CHECK;

#endif
