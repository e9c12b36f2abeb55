/* Whole files in; files out that appear when they are complete. */
#include "core/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/array.h"
#include "core/text.h"

enum { FILE_LIMIT = 1 << 30, FIRST_BLOCK = 1 << 16 };

/* Read to the end of a stream into a buffer that doubles; the size of a pipe is not known
 * before. */
static enum status read_all(const char *path, FILE *f, char **text, size_t *length)
{
    enum status st = STATUS_OK;
    size_t size = 0, room = FIRST_BLOCK;
    char *buffer = malloc(room + 1);
    if (!buffer)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    for (;;) {
        size_t got = fread(buffer + size, 1, room - size, f);
        size += got;
        if (got == 0)
            break;
        if (size < room)
            continue;
        if (room >= FILE_LIMIT)
            FAIL(STATUS_IO, "%s: larger than 1 GiB", path);
        room *= 2;
        char *larger = realloc(buffer, room + 1);
        if (!larger)
            FAIL(STATUS_NOMEM, "%s: out of memory", path);
        buffer = larger;
    }
    if (ferror(f))
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    buffer[size] = '\0';
    *text = buffer;
    *length = size;
    buffer = NULL;
out:
    free(buffer);
    return st;
}

enum status file_read(const char *path, char **text, size_t *length)
{
    if (!strcmp(path, "-"))
        return read_all("standard input", stdin, text, length);
    FILE *f = fopen(path, "rb");
    if (!f)
        return error_set(errno == ENOMEM ? STATUS_NOMEM : STATUS_IO, "%s: %s", path,
                         strerror(errno));
    enum status st = read_all(path, f, text, length);
    fclose(f);
    return st;
}

/* The temporary file lies beside `path`, so that rename() stays on one file system; it gets the
 * permissions that open() would have given. */
enum status file_create(const char *path, struct file_out *out)
{
    enum status st = STATUS_OK;
    struct file_out f = {0};
    int fd = -1;
    size_t length = strlen(path);

    TRY(text_copy(path, &f.path));
    if (!strcmp(path, "-")) {
        f.stream = stdout;
        goto out;
    }
    TRY(ARRAY_NEW(f.temporary, length + sizeof ".XXXXXX"));
    memcpy(f.temporary, path, length);
    memcpy(f.temporary + length, ".XXXXXX", sizeof ".XXXXXX");
    fd = mkstemp(f.temporary);
    if (fd < 0)
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0 || !(f.stream = fdopen(fd, "wb"))) {
        st = error_set(errno == ENOMEM ? STATUS_NOMEM : STATUS_IO, "%s: %s", path, strerror(errno));
        unlink(f.temporary);
        close(fd);
    }
out:
    if (st != STATUS_OK) {
        free(f.temporary);
        free(f.path);
        return st;
    }
    *out = f;
    return STATUS_OK;
}

/* Flushed, on the disk, and only then under its name. The first cause of a failure is reported. */
enum status file_commit(struct file_out *out)
{
    enum status st = STATUS_OK;
    bool fine = fflush(out->stream) == 0 && !ferror(out->stream);
    if (!out->temporary) {
        if (!fine)
            st = error_set(STATUS_IO, "standard output: %s", strerror(errno));
        free(out->path);
        *out = (struct file_out){0};
        return st;
    }
    fine = fine && fsync(fileno(out->stream)) == 0;
    int cause = errno;
    if (fclose(out->stream) != 0 && fine) {
        fine = false;
        cause = errno;
    }
    out->stream = NULL;
    if (fine && rename(out->temporary, out->path) != 0) {
        fine = false;
        cause = errno;
    }
    if (!fine) {
        st = error_set(STATUS_IO, "%s: %s", out->path, strerror(cause));
        unlink(out->temporary);
    }
    free(out->temporary);
    free(out->path);
    *out = (struct file_out){0};
    return st;
}

/* Standard output cannot be taken back. */
void file_discard(struct file_out *out)
{
    if (out->stream && out->temporary) {
        fclose(out->stream);
        unlink(out->temporary);
    }
    free(out->temporary);
    free(out->path);
    *out = (struct file_out){0};
}

enum status file_text_open(struct file_text *out)
{
    *out = (struct file_text){0};
    out->stream = open_memstream(&out->text, &out->length);
    return out->stream ? STATUS_OK : error_set(STATUS_NOMEM, "out of memory");
}

enum status file_text_close(struct file_text *out, enum status st)
{
    bool lost = fclose(out->stream) != 0;
    out->stream = NULL;
    return lost && st == STATUS_OK ? error_set(STATUS_NOMEM, "out of memory") : st;
}
