/* digest.h - SHA-256 of bytes in memory, by nettle. */
#ifndef CORE_DIGEST_H
#define CORE_DIGEST_H

#include <stddef.h>

enum { DIGEST_HEX = 65 };

/* Lower-case hexadecimal, NUL-terminated. */
void digest_hex(const void *data, size_t length, char hex[DIGEST_HEX]);

#endif
