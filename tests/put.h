/* put.h - files that tests write whole, over what was there; the test fails where that does. */
#ifndef TESTS_PUT_H
#define TESTS_PUT_H

#include <stdio.h>
#include <string.h>

#include "tests/cmocka.h"

static inline void put_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void put_text(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

#endif
