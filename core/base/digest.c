/* SHA-256 by nettle. */
#include "core/base/digest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <nettle/base64.h>
#include <nettle/sha2.h>

#include "core/base/file.h"

static_assert(DIGEST == SHA256_DIGEST_SIZE, "digests are SHA-256");

void digest_bytes(const void *data, size_t length, uint8_t digest[DIGEST])
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, length, data);
    sha256_digest(&context, DIGEST, digest);
}

/* Two lower-case digits per byte. */
void digest_hex(const void *data, size_t length, char hex[DIGEST_HEX])
{
    uint8_t digest[DIGEST];
    digest_bytes(data, length, digest);
    for (size_t i = 0; i < DIGEST; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

void digest_base64(const void *data, size_t length, char base64[DIGEST_BASE64])
{
    uint8_t digest[DIGEST];
    static_assert(BASE64_ENCODE_RAW_LENGTH(DIGEST) + 1 == DIGEST_BASE64, "room for the NUL");
    digest_bytes(data, length, digest);
    base64_encode_raw(base64, DIGEST, digest);
    base64[DIGEST_BASE64 - 1] = '\0';
}

enum status digest_file(const char *path, char hex[DIGEST_HEX])
{
    char *text;
    size_t length;
    PASS(file_read(path, &text, &length));
    digest_hex(text, length, hex);
    free(text);
    return STATUS_OK;
}
