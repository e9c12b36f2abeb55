/* digest.h - SHA-256 of bytes in memory and of files, by nettle. */
#ifndef CORE_BASE_DIGEST_H
#define CORE_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum { DIGEST = 32, DIGEST_HEX = 65, DIGEST_BASE64 = 45 }; /* bytes; characters with the NUL */

void digest_bytes(const void *data, size_t length, uint8_t digest[DIGEST]);
/* The same in lower-case hexadecimal, NUL-terminated. */
void digest_hex(const void *data, size_t length, char hex[DIGEST_HEX]);
/* The same in base64, as policies of web pages have it. */
void digest_base64(const void *data, size_t length, char base64[DIGEST_BASE64]);
/* That of a file's contents. */
enum status digest_file(const char *path, char hex[DIGEST_HEX]) MUST_CHECK;

#endif
