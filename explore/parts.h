/* parts.h - the files of the page, built into the program: page.html, and what it names. */
#ifndef EXPLORE_PARTS_H
#define EXPLORE_PARTS_H

#include <stddef.h>

struct page_part {
    const char *name;           /* "page.css" */
    const unsigned char *bytes; /* [n] */
    size_t n;
};

extern const struct page_part page_parts[]; /* page.html is the first */
extern const size_t page_parts_n;

#endif
