/* Files by zlib, which passes through what is not compressed. */
#include "measured/bytes.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "core/array.h"
#include "core/file.h"
#include "core/limit.h"

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
    char more[LIMIT_MORE];
    b->before += b->end;
    if (b->before > limit_bytes(LIMIT_recorded))
        return error_set(STATUS_INVALID, "%s: more than %g MiB unpacked%s", b->path,
                         limit(LIMIT_recorded), limit_more(LIMIT_recorded, more));
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

bool bytes_packed_name(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

/* All of the text through one stream; the header has no time in it. */
static enum status deflate_to(const char *text, size_t length, FILE *to)
{
    enum status st = STATUS_OK;
    enum { GZIP = 15 + 16, MEMORY = 8 };
    unsigned char *piece = NULL;
    z_stream z = {0};
    int code;
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return error_set(STATUS_NOMEM, "out of memory");
    TRY(ARRAY_NEW(piece, PIECE));
    do {
        if (z.avail_in == 0 && length > 0) {
            size_t part = length < PIECE ? length : PIECE;
            z.next_in = (Bytef *)(uintptr_t)text;
            z.avail_in = (uInt)part;
            text += part;
            length -= part;
        }
        z.next_out = piece;
        z.avail_out = PIECE;
        code = deflate(&z, length == 0 ? Z_FINISH : Z_NO_FLUSH);
        fwrite(piece, 1, PIECE - z.avail_out, to);
    } while (code != Z_STREAM_END);
out:
    deflateEnd(&z);
    free(piece);
    return st;
}

enum status bytes_write_packed(const char *text, size_t length, const char *path)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    TRY(deflate_to(text, length, f.stream));
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}
