/* bytes.h - the bytes of a file, a piece at a time: plain, or compressed by gzip, which is seen by the
 * first two. For readers of files that may be larger than memory. */
#ifndef MEASURED_BYTES_H
#define MEASURED_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

struct bytes {
    const char *path;     /* for messages; borrowed */
    void *file;           /* zlib's */
    unsigned char *piece; /* [end] what has been read, [at] is next */
    size_t at, end;
    size_t before; /* of the file, unpacked, before the piece */
    size_t line;   /* of the byte at [at], from 1; counted by readers */
};

/* Open `path` ("-" is standard input) at its beginning. STATUS_IO, STATUS_NOMEM. */
enum status bytes_open(const char *path, struct bytes *out) MUST_CHECK;
/* The next piece, once the last one was taken; end == 0: there is none. STATUS_IO when the file cannot
 * be read, or is cut off within its compression; STATUS_INVALID when more than LIMIT_recorded MiB are in it. */
enum status bytes_more(struct bytes *b) MUST_CHECK;
void bytes_close(struct bytes *b); /* accepts {0}; leaves {0} */

/* Does a name ask for compression, by its ending .gz? */
bool bytes_packed_name(const char *path);
/* Write a text as a file of core/file.h, compressed by gzip; the same text, the same bytes. STATUS_IO,
 * STATUS_NOMEM. */
enum status bytes_write_packed(const char *text, size_t length, const char *path) MUST_CHECK;

#endif
