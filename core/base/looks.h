/* looks.h - what a file seems to be that a reader of another kind was given: the end of its
 * message.
 *
 * A guess by how the text begins, of what foreline reads or writes; nothing is parsed. */
#ifndef CORE_BASE_LOOKS_H
#define CORE_BASE_LOOKS_H

#include <stddef.h>

enum { LOOKS = 96 };

/* "; this looks like a platform (XML)", or "" of what is not known. `length` bytes of `text`, which
 * needs no NUL behind it; no more than the first 64 KiB are looked at. Returns `out`. */
const char *looks_like(const char *text, size_t length, char out[LOOKS]);

/* The same of a file, "" also where it cannot be read. */
const char *looks_like_file(const char *path, char out[LOOKS]);

#endif
