/* file.h - whole files in, atomically replaced files out.
 *
 * The one way in which this program writes files. What the name stands for decides how:
 *
 *   a regular file, or nothing yet   a temporary file beside it, fsync, rename: it appears only
 *                                    when complete, with the permissions that it had
 *   a symbolic link                  stays; the file at its end is written so, there or not
 *   a character device, a pipe       written straight into
 *   "-", /dev/stdout, /dev/stderr    our own stream, in order with what is printed
 *   a directory, a socket, a disk,   refused in one line
 *   a file without write permission */
#ifndef CORE_BASE_FILE_H
#define CORE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/error.h"
#include "core/base/limit.h"

/* Read all of `path` ("-" is standard input); *text is NUL-terminated, malloc'd, *length without
 * the NUL. Returns STATUS_IO (missing, directory, larger than 384 MiB), STATUS_NOMEM. */
enum status file_read(const char *path, char **text, size_t *length) MUST_CHECK;
/* The same of files that have a limit of their own, in MiB. */
enum status file_read_most(const char *path, double most_mib, char **text,
                           size_t *length) MUST_CHECK;
/* STATUS_IO of a text that is longer, with what to do about it; `path` is only for the message. */
enum status file_check_size(const char *path, size_t length, double most_mib) MUST_CHECK;

/* A file being written; {0} before file_create(). */
struct file_out {
    FILE *stream;    /* write here; NULL when not open */
    char *path;      /* where it will be, all links followed */
    char *temporary; /* NULL: written straight into what `path` is */
};

/* Start writing `path`. A pipe without a reader waits for one. STATUS_IO, STATUS_NOMEM. */
enum status file_create(const char *path, struct file_out *out) MUST_CHECK;
/* The same for a name that nobody gave, such as that of the table beside a picture: a file that is
 * there is replaced only if it is empty or says `mark` in its first 1,023 bytes, else STATUS_IO. */
enum status file_create_beside(const char *path, const char *mark, struct file_out *out) MUST_CHECK;
/* Would file_create() work? Opens no device and no pipe, and leaves nothing. */
enum status file_try(const char *path) MUST_CHECK;
/* Are both there, and one file, whatever their names? */
bool file_same(const char *path, const char *other);
/* Who makes temporary files, as mkstemp does, and hears when one is gone. core handles no
 * signals: host/leftover.h sets these once, when the program starts, so that a signal that ends it
 * removes the files. NULL, as at first: mkstemp, and nobody. */
void file_watch_temporaries(int (*make)(char *template), void (*ends)(const char *path));
/* Ask who watches; for file.c, and for a module's copy of it (module.h). */
int file_temporary_make(char *template);
void file_temporary_ends(const char *path);
/* Write all of it, in however many pieces the kernel takes it; false with errno. */
bool file_write_all(int fd, const void *data, size_t n) MUST_CHECK;
/* Flush a stream: 0, or the errno of why something written to it is lost, whenever that was. */
int file_flush(FILE *stream) MUST_CHECK;
/* Flush, check and rename into place; on failure nothing is left behind. */
enum status file_commit(struct file_out *out) MUST_CHECK;
/* Drop what was written, if anything is open; accepts {0} and committed files. */
void file_discard(struct file_out *out);

/* A text in memory that is written like a file; {0} before file_text_open(). */
struct file_text {
    FILE *stream;
    char *text; /* malloc'd, NUL-terminated, once closed; the caller's to free */
    size_t length;
};
enum status file_text_open(struct file_text *out) MUST_CHECK;
/* Close; `st` says how the writing went and is passed on. STATUS_NOMEM when the text is lost. */
enum status file_text_close(struct file_text *out, enum status st) MUST_CHECK;

#endif
