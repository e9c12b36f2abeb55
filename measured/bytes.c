/* Files by zlib, which passes through what is not compressed. */
#include "measured/bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "core/array.h"

enum { PIECE = 1 << 18 };

enum status bytes_open(const char *path, struct bytes *out)
{
    struct bytes b = {.path = path, .line = 1};
    PASS(ARRAY_NEW(b.piece, PIECE));
    errno = 0;
    b.file = strcmp(path, "-") == 0 ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path, "rb");
    if (!b.file) {
        free(b.piece);
        return errno ? error_set(STATUS_IO, "%s: %s", path, strerror(errno))
                     : error_set(STATUS_NOMEM, "out of memory");
    }
    gzbuffer(b.file, PIECE);
    if (strcmp(path, "-") == 0)
        b.path = "standard input";
    MOVE(out, b);
    return STATUS_OK;
}

enum status bytes_more(struct bytes *b)
{
    int code = Z_OK;
    int n = gzread(b->file, b->piece, PIECE);
    const char *why = gzerror(b->file, &code);
    b->at = b->end = 0;
    if (code == Z_MEM_ERROR)
        return error_set(STATUS_NOMEM, "out of memory");
    if (n < 0 || (n == 0 && code == Z_BUF_ERROR))
        return error_set(STATUS_IO, "%s: %s", b->path,
                         code == Z_ERRNO       ? strerror(errno)
                         : code == Z_BUF_ERROR ? "the file is cut off within its compression"
                                               : why);
    b->end = (size_t)n;
    return STATUS_OK;
}

void bytes_close(struct bytes *b)
{
    if (b->file)
        gzclose(b->file);
    free(b->piece);
    *b = (struct bytes){0};
}
