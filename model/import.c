/* Reads a model in whatever known format: foreline's own JSON, or by one of the importers. */
#include "model/import.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/looks.h"
#include "core/base/text.h"

enum { MOST_TEXT = 256 }; /* MiB of a model that is no JSON */
enum { HEAD = 64 };       /* bytes that tell what a binary file is */

#define IMPORTER(name) &importer_##name,
const struct importer *const importers[] = {
#include "model/importers.def"
};
#undef IMPORTER
const size_t importers_n = sizeof importers / sizeof *importers;

/* Profiles count per minibatch; sizes are divided by it. */
enum status import_check_options(const struct import_options *o)
{
    if (o->minibatch_size >= 1 && isfinite(o->minibatch_size))
        return STATUS_OK;
    return error_set(STATUS_INVALID, "--minibatch-size: got %g, expected at least 1 sample",
                     o->minibatch_size);
}

/* Does the text begin, after blanks, with an object? */
static bool is_json(const char *text, size_t length)
{
    size_t blank = 0;
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank] != '\0')
        blank++;
    return blank < length && text[blank] == '{';
}

static enum status unknown_format(const char *path, const char *text, size_t length)
{
    char known[TEXT_LIST], looks[LOOKS];
    return error_set(STATUS_PARSE,
                     "%s:1: unknown model format, expected one of: foreline JSON, %s%s", path,
                     text_list(importers, importers_n, known), looks_like(text, length, looks));
}

/* What is chosen beside a file means something to those formats that leave something open. */
enum status import_split_choices(const char *spec, char **path, const char **choices)
{
    const char *colon = strrchr(spec, ':');
    *choices = colon && strchr(colon, '=') && access(spec, F_OK) != 0 ? colon : NULL;
    PASS(text_copy(spec, path));
    if (*choices)
        (*path)[colon - spec] = '\0';
    return STATUS_OK;
}

static enum status check_choices(const char *path, const struct import_options *o, bool takes)
{
    if (!o->choices || takes)
        return STATUS_OK;
    return error_set(STATUS_INVALID, "%s: files of this format take no overrides (got '%.60s')",
                     path, o->choices);
}

static enum status import_text(const char *path, const char *text, size_t length,
                               const struct import_options *o, struct model *out)
{
    for (size_t i = 0; i < importers_n; i++)
        if (importers[i]->recognises && importers[i]->recognises(text, length)) {
            PASS(check_choices(path, o, importers[i]->takes_choices));
            return importers[i]->parse(path, text, length, o, out);
        }
    return unknown_format(path, text, length);
}

/* A "format" is foreline's own; other JSON goes to the first importer that recognises it. */
static enum status import_json(const struct json_document *d, const struct import_options *o,
                               struct model *out)
{
    struct json_at root = json_root(d), format;
    PASS(json_optional(&root, "format", &format));
    if (format.value) {
        PASS(check_choices(d->path, o, false));
        return model_from_json(d, out);
    }
    for (size_t i = 0; i < importers_n; i++)
        if (importers[i]->recognises_json && importers[i]->recognises_json(&root)) {
            PASS(check_choices(d->path, o, importers[i]->takes_choices));
            return importers[i]->read_json(&root, o, out);
        }
    return unknown_format(d->path, d->text, strlen(d->text));
}

void import_members_free(struct import_members *m)
{
    arena_free(&m->memory);
    *m = (struct import_members){0};
}

/* A regular file of a format that is read where it lies; *done is false if it is none. */
static enum status import_open_file(const char *path, const struct import_options *o, bool *done,
                                    struct model *out)
{
    enum status st = STATUS_OK;
    struct stat is;
    char head[HEAD];
    ssize_t n = 0;
    /* a pipe that is opened twice loses its writer */
    bool regular = strcmp(path, "-") != 0 && stat(path, &is) == 0 && S_ISREG(is.st_mode);
    int fd = regular ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    *done = false;
    if (fd >= 0 && fstat(fd, &is) == 0)
        n = pread(fd, head, sizeof head, 0);
    for (size_t i = 0; i < importers_n && n > 0 && !*done; i++)
        if (importers[i]->parse_file && importers[i]->recognises(head, (size_t)n)) {
            *done = true;
            st = check_choices(path, o, importers[i]->takes_choices);
            if (st == STATUS_OK)
                st = importers[i]->parse_file(path, fd, (uint64_t)is.st_size, o, out);
        }
    if (fd >= 0)
        close(fd);
    return st;
}

/* Text formats look at the bytes, JSON formats at the parsed document. */
enum status model_import(const char *path, const struct import_options *o, struct model *out)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    char *text = NULL;
    size_t length = 0;
    const char *shown = strcmp(path, "-") == 0 ? "standard input" : path;

    bool done;

    TRY(import_open_file(path, o, &done, out));
    if (done)
        goto out;
    TRY(file_read_most(path, MOST_TEXT, &text, &length));
    if (length > 2 && memcmp(text, "\x1f\x8b", 2) == 0)
        FAIL(STATUS_PARSE, "%s: compressed by gzip; decompress it with gunzip", shown);
    /* several objects are no JSON */
    if (!is_json(text, length) || importer_chakra_jsonizer.recognises(text, length)) {
        TRY(import_text(shown, text, length, o, out));
    } else {
        TRY(json_parse(shown, text, length, NULL, 0, &d));
        TRY(import_json(&d, o, out));
    }
out:
    json_document_free(&d);
    free(text);
    return st;
}
