/* file.h - whole files in, atomically replaced files out.
 *
 * A written file appears under its name only when complete (temporary file, fsync, rename). */
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "core/error.h"

/* Read all of `path` ("-" is standard input); *text is NUL-terminated, malloc'd, *length without
 * the NUL. Returns STATUS_IO (missing, directory, larger than 1 GiB), STATUS_NOMEM. */
enum status file_read(const char *path, char **text, size_t *length) MUST_CHECK;

/* A file being written; {0} before file_create(). */
struct file_out {
    FILE *stream; /* write here; NULL when not open */
    char *path, *temporary;
};

/* Start writing `path` ("-" is standard output). */
enum status file_create(const char *path, struct file_out *out) MUST_CHECK;
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
