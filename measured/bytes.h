/* bytes.h - the bytes of a file, a piece at a time: plain, or compressed by gzip, which is seen by
 * the first two. For readers of files that may be larger than memory. */
#ifndef MEASURED_BYTES_H
#define MEASURED_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/limit.h"

struct bytes {
    const char *path;     /* for messages; borrowed */
    void *file;           /* zlib's */
    unsigned char *piece; /* [end] what has been read, [at] is next */
    size_t at, end;
    size_t before;   /* of the file, unpacked, before the piece */
    double most_mib; /* in the file, unpacked; whoever opens may choose another */
    size_t line;     /* of the byte at [at], from 1; counted by readers */
};

/* Open `path` ("-" is standard input) at its beginning. STATUS_IO, STATUS_NOMEM. */
enum status bytes_open(const char *path, struct bytes *out) MUST_CHECK;
/* The next piece, once the last one was taken; end == 0: there is none. STATUS_IO when the file
 * cannot be read, or is cut off within its compression; STATUS_INVALID when it has more
 * than `most_mib` MiB. */
enum status bytes_more(struct bytes *b) MUST_CHECK;
void bytes_close(struct bytes *b); /* accepts {0}; leaves {0} */

/* A file of core/base/file.h that is compressed by gzip while it is written; {0} before
 * bytes_create(). */
struct bytes_out {
    struct file_out file;
    FILE *stream; /* write here */
    bool packed;
};

/* Start writing `path`, compressed where its name ends in .gz, or `large` asks for it and it is a
 * regular file. The same text, the same bytes. STATUS_IO, STATUS_NOMEM. */
enum status bytes_create(const char *path, bool large, struct bytes_out *out) MUST_CHECK;
/* As file_commit() and file_discard(). */
enum status bytes_commit(struct bytes_out *out) MUST_CHECK;
void bytes_discard(struct bytes_out *out);

#endif
