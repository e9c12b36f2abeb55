/* Whole files in; files out that appear when they are complete, whatever the name stands for. */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"

enum {
    FIRST_BLOCK = 1 << 16,
    LAST_BLOCK = 1 << 24,
    MOST_FILE = 384,   /* MiB; a platform has some 500 bytes a device */
    LINKS = 40,        /* as many as Linux follows */
    FIRST_LINES = 1024 /* where a file says who made it */
};

enum status file_check_size(const char *path, size_t length, double most_mib)
{
    char more[LIMIT_MORE];
    if (length <= limit_bytes(most_mib))
        return STATUS_OK;
    return error_set(STATUS_IO, "%s: file is larger than %s%s", path,
                     units_of(UNIT_BYTES, (double)limit_bytes(most_mib)).text,
                     limit_more(LIMIT_size, more));
}

/* Read to the end of a stream into a buffer of `room` bytes to begin with, which doubles and is
 * then as large as it may get; the size of a pipe is not known before. */
static enum status file_read_stream(const char *path, FILE *f, size_t room, double most_mib,
                                    char **text, size_t *length)
{
    enum status st = STATUS_OK;
    const size_t most = limit_bytes(most_mib);
    size_t size = 0;
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
        TRY(file_check_size(path, size, most_mib));
        room = room < LAST_BLOCK && room <= most / 2 ? room * 2
                                                     : most + 1; /* as far as it is written to */
        char *larger = realloc(buffer, room + 1);
        if (!larger)
            FAIL(STATUS_NOMEM, "%s: out of memory", path);
        buffer = larger;
    }
    if (ferror(f))
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    buffer[size] = '\0';
    char *tight = size < room / 2 ? realloc(buffer, size + 1) : NULL;
    *text = tight ? tight : buffer;
    *length = size;
    buffer = NULL;
out:
    free(buffer);
    return st;
}

enum status file_read(const char *path, char **text, size_t *length)
{
    return file_read_most(path, MOST_FILE, text, length);
}

enum status file_read_most(const char *path, double most_mib, char **text, size_t *length)
{
    if (!strcmp(path, "-"))
        return file_read_stream("standard input", stdin, FIRST_BLOCK, most_mib, text, length);
    FILE *f = fopen(path, "rb");
    if (!f)
        return error_set(errno == ENOMEM ? STATUS_NOMEM : STATUS_IO, "%s: %s", path,
                         strerror(errno));
    struct stat is;
    enum status st;
    size_t size = fstat(fileno(f), &is) == 0 && S_ISREG(is.st_mode) ? (size_t)is.st_size : 0;
    st = file_check_size(path, size, most_mib); /* before a gigabyte is read */
    if (st == STATUS_OK)
        st = file_read_stream(path, f, size > 0 ? size + 1 : FIRST_BLOCK, most_mib, text, length);
    fclose(f);
    return st;
}

/* ---- out */

/* Where what is written for a name goes. */
struct file_place {
    enum { PLACE_STREAM, PLACE_NEW, PLACE_DIRECT } how;
    int fd;      /* STREAM: standard output or error */
    mode_t mode; /* NEW: permissions and owner of the file that is replaced, if there is one */
    uid_t owner;
    gid_t group;
    bool replaces;
    char *target; /* NEW: the name at the end of all links, malloc'd */
};

/* The text of the link `path`, as a name from where we are: a link says it from its own folder. */
static enum status file_read_link(const char *path, char **out)
{
    enum status st = STATUS_OK;
    char text[PATH_MAX], *name = NULL;
    const char *slash = strrchr(path, '/');
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n < 0)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    text[n] = '\0';
    size_t folder = slash && text[0] != '/' ? (size_t)(slash - path) + 1 : 0;
    TRY(ARRAY_NEW(name, folder + (size_t)n + 1));
    memcpy(name, path, folder);
    memcpy(name + folder, text, (size_t)n + 1);
    *out = name;
out:
    return st;
}

/* Go along the links of `path` to their end, whether a file is there or not. */
static enum status file_follow_link(const char *path, char **target)
{
    enum status st = STATUS_OK;
    struct stat s;
    char *at = NULL, *next;
    TRY(text_copy(path, &at));
    for (int links = 0; lstat(at, &s) == 0 && S_ISLNK(s.st_mode); links++) {
        if (links == LINKS)
            FAIL(STATUS_IO, "%s: %s", path, strerror(ELOOP));
        TRY(file_read_link(at, &next));
        free(at);
        at = next;
    }
    *target = at;
    at = NULL;
out:
    free(at);
    return st;
}

/* Is it the file behind one of our own streams? /dev/stdout is, also where it is a file: another
 * file in its place would take what was and what will be printed away. */
static bool is_stream(const struct stat *s, int fd)
{
    struct stat stream;
    return fstat(fd, &stream) == 0 && stream.st_dev == s->st_dev && stream.st_ino == s->st_ino;
}

/* What a name can be, as stat() says, and what is done with it. */
static enum status choose_place(const char *path, const struct stat *s, struct file_place *out)
{
    struct stat end;
    if (S_ISDIR(s->st_mode))
        return error_set(STATUS_IO, "%s: is a directory, expected a file to write", path);
    if (S_ISBLK(s->st_mode) || S_ISSOCK(s->st_mode))
        return error_set(STATUS_IO, "%s: is a %s, expected a file to write", path,
                         S_ISBLK(s->st_mode) ? "block device" : "socket");
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        *out = (struct file_place){.how = PLACE_STREAM, .fd = fd};
        if (is_stream(s, fd))
            return STATUS_OK;
    }
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s->st_mode)) {
        *out = (struct file_place){.how = PLACE_DIRECT, .fd = -1};
        return STATUS_OK;
    }
    *out = (struct file_place){.how = PLACE_NEW,
                               .fd = -1,
                               .mode = s->st_mode & 07777,
                               .owner = s->st_uid,
                               .group = s->st_gid,
                               .replaces = true};
    PASS(file_follow_link(path, &out->target));
    if (stat(out->target, &end) != 0 || end.st_ino != s->st_ino || end.st_dev != s->st_dev) {
        free(out->target); /* a link of /proc leads to a file that has no name any more */
        *out = (struct file_place){.how = PLACE_DIRECT, .fd = -1};
    }
    return STATUS_OK;
}

static enum status file_find_place(const char *path, struct file_place *out)
{
    struct stat s;
    *out = (struct file_place){.fd = -1};
    if (!strcmp(path, "-")) {
        *out = (struct file_place){.how = PLACE_STREAM, .fd = STDOUT_FILENO};
        return STATUS_OK;
    }
    if (!*path)
        return error_set(STATUS_IO, "output file name is empty");
    if (stat(path, &s) == 0)
        return choose_place(path, &s, out);
    if (errno != ENOENT)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    out->how = PLACE_NEW;
    return file_follow_link(path, &out->target);
}

static enum status from_fd(const char *path, int fd, FILE **stream)
{
    if (fd >= 0 && (*stream = fdopen(fd, "wb")))
        return STATUS_OK;
    int cause = errno;
    if (fd >= 0)
        close(fd);
    return error_set(cause == ENOMEM ? STATUS_NOMEM : STATUS_IO, "%s: %s", path, strerror(cause));
}

static int (*watch_make)(char *template);
static void (*watch_ends)(const char *path);

void file_watch_temporaries(int (*make)(char *template), void (*ends)(const char *path))
{
    watch_make = make;
    watch_ends = ends;
}

int file_temporary_make(char *template)
{
    return watch_make ? watch_make(template) : mkstemp(template);
}

void file_temporary_ends(const char *path)
{
    if (watch_ends)
        watch_ends(path);
}

static void remove_temporary(struct file_out *f)
{
    if (!f->temporary)
        return;
    unlink(f->temporary);
    file_temporary_ends(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
}

/* The temporary file lies beside the target, so that rename() stays on one file system; it gets the
 * permissions of the file that it replaces, or those that open() would have given. */
static enum status open_temporary(const char *path, const struct file_place *place,
                                  struct file_out *f)
{
    size_t length = strlen(place->target);
    PASS(ARRAY_NEW(f->temporary, length + sizeof ".XXXXXX"));
    memcpy(f->temporary, place->target, length);
    memcpy(f->temporary + length, ".XXXXXX", sizeof ".XXXXXX");
    int fd = file_temporary_make(f->temporary);
    if (fd < 0) {
        int cause = errno;
        free(f->temporary);
        f->temporary = NULL;
        return error_set(STATUS_IO, "%s: %s", path,
                         cause == ENOENT ? "the folder of this file does not exist"
                                         : strerror(cause));
    }
    mode_t mask = umask(0), mode = place->mode;
    umask(mask);
    if (!place->replaces)
        mode = 0666 & ~mask;
    else if (fchown(fd, place->owner, place->group) != 0)
        mode &= 0777; /* it becomes ours, so it must not run as somebody else */
    if (fchmod(fd, mode) == 0)
        return from_fd(path, fd, &f->stream);
    int cause = errno;
    close(fd);
    return error_set(STATUS_IO, "%s: %s", path, strerror(cause));
}

enum status file_create(const char *path, struct file_out *out)
{
    enum status st = STATUS_OK;
    struct file_out f = {0};
    struct file_place place;
    TRY(file_find_place(path, &place));
    f.path = place.target;
    if (!f.path)
        TRY(text_copy(path, &f.path));
    if (place.how == PLACE_NEW)
        TRY(open_temporary(path, &place, &f));
    else if (place.how == PLACE_DIRECT) /* no O_TRUNC: nothing of a device or pipe is replaced */
        TRY(from_fd(path, open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC), &f.stream));
    else {
        fflush(place.fd == STDOUT_FILENO ? stdout : stderr); /* what was printed comes first */
        TRY(from_fd(path, fcntl(place.fd, F_DUPFD_CLOEXEC, 0), &f.stream));
    }
    *out = f;
    f = (struct file_out){0};
out:
    remove_temporary(&f);
    free(f.path);
    return st;
}

enum status file_try(const char *path)
{
    struct file_out f = {0};
    struct file_place place;
    PASS(file_find_place(path, &place));
    enum status st = place.how == PLACE_NEW ? open_temporary(path, &place, &f) : STATUS_OK;
    free(place.target);
    if (st == STATUS_OK || f.temporary)
        file_discard(&f);
    return st;
}

bool file_same(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

enum status file_create_beside(const char *path, const char *mark, struct file_out *out)
{
    char head[FIRST_LINES];
    struct stat s;
    if (stat(path, &s) == 0 && (!S_ISREG(s.st_mode) || s.st_size > 0)) {
        int fd = S_ISREG(s.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : 0;
        if (fd >= 0)
            close(fd);
        head[n > 0 ? n : 0] = '\0';
        if (!strstr(head, mark))
            return error_set(STATUS_IO,
                             "%s: exists and was not written by foreline, so it is not "
                             "overwritten; choose another name for -o",
                             path);
    }
    return file_create(path, out);
}

bool file_write_all(int fd, const void *data, size_t n)
{
    for (size_t written = 0; written < n;) {
        ssize_t k = write(fd, (const char *)data + written, n - written);
        if (k < 0 && errno != EINTR)
            return false;
        written += k > 0 ? (size_t)k : 0;
    }
    return true;
}

/* Of a write that failed in between stdio keeps that it did, but not why, and errno is by now
 * that of something else: what refused then is asked once more, with a byte behind what is lost
 * anyway. */
int file_flush(FILE *stream)
{
    bool failed = ferror(stream);
    if (fflush(stream) != 0)
        return errno;
    if (!failed)
        return 0;
    return write(fileno(stream), "\n", 1) < 0 ? errno : EIO;
}

/* Flushed, on the disk, and only then under its name. The first cause of a failure is reported. */
enum status file_commit(struct file_out *out)
{
    enum status st = STATUS_OK;
    const char *name = !strcmp(out->path, "-") ? "standard output" : out->path;
    int cause = file_flush(out->stream);
    if (cause == 0 && out->temporary && fsync(fileno(out->stream)) != 0)
        cause = errno;
    if (fclose(out->stream) != 0 && cause == 0)
        cause = errno;
    out->stream = NULL;
    if (cause == 0 && out->temporary && rename(out->temporary, out->path) != 0)
        cause = errno;
    if (cause != 0) {
        st = error_set(STATUS_IO, "%s: %s", name, strerror(cause));
        remove_temporary(out);
    } else if (out->temporary) {
        file_temporary_ends(out->temporary);
        free(out->temporary);
    }
    free(out->path);
    *out = (struct file_out){0};
    return st;
}

/* What went to a stream, a device or a pipe cannot be taken back. */
void file_discard(struct file_out *out)
{
    if (out->stream)
        fclose(out->stream);
    remove_temporary(out);
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
