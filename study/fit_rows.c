/* The table of measured iterations: a line each, the plan and its seconds. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "study/fit.h"

/* Without blanks at both ends; cuts the text. */
static char *trimmed(char *text)
{
    static const char blanks[] = " \t\r\"";
    text += strspn(text, blanks);
    size_t n = strlen(text);
    while (n > 0 && strchr(blanks, text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

/* "plan.json, 0.123": *at behind the last separator. False: there is none. */
static bool fit_rows_split(char *line, char **name, char **value)
{
    char *at = strrchr(line, ',');
    at = at ? at : strrchr(line, '\t');
    if (!at)
        return false;
    *at = '\0';
    *name = trimmed(line);
    *value = trimmed(at + 1);
    return true;
}

static enum status fit_rows_add_row(const char *path, size_t line, char *text, struct fit *f)
{
    char *name, *value;
    double seconds;
    if (!fit_rows_split(text, &name, &value) || *name == '\0')
        return error_set(STATUS_PARSE, "%s:%zu: expected a plan file, a comma and seconds", path,
                         line);
    if (!text_real(value, &seconds))
        return f->rows == 0 && line == 1 /* names of the columns */
                   ? STATUS_OK
                   : error_set(STATUS_PARSE, "%s:%zu: '%.40s' is no number of seconds", path, line,
                               value);
    if (!(seconds > 0))
        return error_set(STATUS_PARSE, "%s:%zu: %s seconds, expected more than 0", path, line,
                         value);
    if (f->rows == FIT_ROWS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d rows", path, line, FIT_ROWS);
    PASS(ARRAY_ROOM(f->row, f->rows));
    struct fit_row *row = &f->row[f->rows++];
    *row = (struct fit_row){.measured_s = seconds};
    return path_find(name, path, &row->path);
}

enum status fit_read_rows(const char *path, struct fit *f)
{
    enum status st;
    char *text = NULL;
    size_t length, line = 1;
    TRY(file_read(path, &text, &length));
    if (strlen(text) != length)
        FAIL(STATUS_PARSE, "%s: not a text: it has bytes of 0", path);
    for (char *at = text, *next; at; at = next, line++) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        at = trimmed(at);
        if (*at != '\0' && *at != '#')
            TRY(fit_rows_add_row(path, line, at, f));
    }
    if (f->rows == 0)
        FAIL(STATUS_PARSE, "%s: no measured iteration in it", path);
out:
    free(text);
    return st;
}
