/* Files by zlib, which passes through what is not compressed. */
#define _GNU_SOURCE /* fopencookie */
#include "measured/bytes.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/limit.h"

enum { PIECE = 1 << 18 };

enum status bytes_open(const char *path, struct bytes *out)
{
    struct bytes b = {.path = path, .line = 1, .most_mib = MOST_RECORDED};
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
    if (b->before > limit_bytes(b->most_mib))
        return error_set(STATUS_INVALID, "%s: more than %g MiB when unpacked%s", b->path,
                         limit_size(b->most_mib), limit_more(LIMIT_size, more));
    int n = gzread(b->file, b->piece, PIECE);
    const char *why = gzerror(b->file, &code);
    b->at = b->end = 0;
    if (code == Z_MEM_ERROR)
        return error_set(STATUS_NOMEM, "out of memory");
    if (n < 0 || (n == 0 && code == Z_BUF_ERROR))
        return error_set(STATUS_IO, "%s: %s", b->path,
                         code == Z_ERRNO       ? strerror(errno)
                         : code == Z_BUF_ERROR ? "file is truncated within its compressed data"
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

static bool bytes_packed_name(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

/* ---- writing */

/* What the stream that callers write to feeds. */
struct packer {
    z_stream z;
    FILE *to;
    unsigned char piece[PIECE];
};

/* False: `to` does not take it. */
static bool deflate_some(struct packer *p, int how)
{
    do {
        p->z.next_out = p->piece;
        p->z.avail_out = PIECE;
        int code = deflate(&p->z, how);
        size_t n = PIECE - p->z.avail_out;
        if (code == Z_STREAM_ERROR || fwrite(p->piece, 1, n, p->to) != n)
            return false;
    } while (p->z.avail_out == 0);
    return true;
}

static ssize_t bytes_pack(void *cookie, const char *text, size_t length)
{
    struct packer *p = cookie;
    size_t part = length < PIECE ? length : PIECE;
    p->z.next_in = (Bytef *)(uintptr_t)text;
    p->z.avail_in = (uInt)part;
    return deflate_some(p, Z_NO_FLUSH) ? (ssize_t)part : 0; /* fewer bytes: an error */
}

static int pack_end(void *cookie)
{
    struct packer *p = cookie;
    p->z.avail_in = 0;
    bool good = deflate_some(p, Z_FINISH);
    deflateEnd(&p->z);
    free(p);
    return good ? 0 : -1;
}

/* The header has no time in it: the same text, the same bytes. */
static enum status open_packer(FILE *to, FILE **stream)
{
    enum { GZIP = 15 + 16, MEMORY = 8 };
    const cookie_io_functions_t io = {.write = bytes_pack, .close = pack_end};
    struct packer *p;
    PASS(ARRAY_NEW(p, 1));
    p->to = to;
    if (deflateInit2(&p->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        free(p);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    *stream = fopencookie(p, "w", io);
    if (!*stream) {
        deflateEnd(&p->z);
        free(p);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    setvbuf(*stream, NULL, _IOFBF, PIECE);
    return STATUS_OK;
}

enum status bytes_create(const char *path, bool large, struct bytes_out *out)
{
    struct bytes_out o = {0};
    PASS(file_create(path, &o.file));
    o.stream = o.file.stream;
    o.packed = bytes_packed_name(path) || (large && o.file.temporary);
    enum status st = o.packed ? open_packer(o.file.stream, &o.stream) : STATUS_OK;
    if (st == STATUS_OK)
        *out = o;
    else
        file_discard(&o.file);
    return st;
}

enum status bytes_commit(struct bytes_out *out)
{
    FILE *packer = out->packed ? out->stream : NULL;
    out->stream = NULL;
    errno = 0;
    if (packer && fclose(packer) != 0)
        return error_set(STATUS_IO, "%s: %s", out->file.path,
                         errno ? strerror(errno) : "cannot be written");
    return file_commit(&out->file);
}

void bytes_discard(struct bytes_out *out)
{
    if (out->packed && out->stream)
        fclose(out->stream);
    file_discard(&out->file);
    *out = (struct bytes_out){0};
}
