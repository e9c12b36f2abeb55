/* Tables of tab-separated text in memory: one copy of the text, and pointers to its cells. */
#include "plots/table.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/looks.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "plots/style.h"

enum { LIST = 300 };

/* ---- reading */

/* Cut the line at `at` off its end and return what follows it, NULL at the end of the text. */
static char *cut_line(char *at)
{
    size_t n = strcspn(at, "\n");
    char *next = at[n] ? at + n + 1 : NULL;
    if (n > 0 && at[n - 1] == '\r')
        at[n - 1] = '\0';
    at[n] = '\0';
    return next;
}

static size_t count_cells(const char *line)
{
    size_t n = 1;
    for (; *line; line++)
        n += *line == '\t';
    return n;
}

/* A line of comma-separated text (RFC 4180, cells of one line) in place, as one with tabs. */
static void use_tabs(char *line)
{
    bool quoted = false;
    char *to = line;
    for (const char *c = line; *c; c++)
        if (*c == '"' && quoted && c[1] == '"')
            *to++ = *c++;
        else if (*c == '"')
            quoted = !quoted;
        else
            *to++ = *c == ',' && !quoted ? '\t' : *c == '\t' ? ' ' : *c;
    *to = '\0';
}

static void table_split_text(char *line, char **cell)
{
    size_t n = 1;
    for (cell[0] = line; *line; line++) {
        if (*line == '\t') {
            *line = '\0';
            cell[n++] = line + 1;
        }
    }
    for (size_t i = 0; i < n; i++) /* what spreadsheets are kept from is for them alone */
        cell[i] += text_unguarded(cell[i]) - cell[i];
}

static enum status table_read_names(struct plot_table *t, char *line, size_t number)
{
    line += *line == '#';
    line += strspn(line, " ");
    t->columns = count_cells(line);
    if (t->columns > TABLE_MAX_COLUMNS)
        return error_set(STATUS_PARSE, "%s:%zu: got %zu columns, expected up to %d", t->path,
                         number, t->columns, TABLE_MAX_COLUMNS);
    PASS(ARRAY_NEW(t->name, t->columns));
    table_split_text(line, t->name);
    for (size_t i = 0; i < t->columns; i++) {
        if (!*t->name[i])
            return error_set(STATUS_PARSE, "%s:%zu: column %zu has no name", t->path, number,
                             i + 1);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(t->name[i], t->name[k]) == 0)
                return error_set(STATUS_PARSE, "%s:%zu: column '%.60s' is given twice", t->path,
                                 number, t->name[i]);
        }
    }
    return STATUS_OK;
}

static enum status table_read_row(struct plot_table *t, char *line, size_t number, size_t *room)
{
    size_t n = count_cells(line);
    if (n != t->columns)
        return error_set(STATUS_PARSE, "%s:%zu: got %zu cells, expected %zu as in the header",
                         t->path, number, n, t->columns);
    if ((t->rows + 1) * t->columns > TABLE_MAX_CELLS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d cells", t->path, number,
                         TABLE_MAX_CELLS);
    PASS(ARRAY_RESERVE(t->cell, (t->rows + 1) * t->columns, *room));
    PASS(ARRAY_ROOM(t->line, t->rows));
    table_split_text(line, t->cell + t->rows * t->columns);
    t->line[t->rows++] = number;
    return STATUS_OK;
}

/* Takes over `text`, whatever happens. */
static enum status table_take_text(const char *path, char *text, size_t length,
                                   struct plot_table *out)
{
    enum status st = STATUS_OK;
    struct plot_table t = {.text = text};
    size_t number = 0, room = 0;
    bool commas = false;
    char looks[LOOKS];
    looks_like(text, length, looks); /* before it is cut into lines */
    TRY(text_copy(path, &t.path));
    if (memchr(text, '\0', length))
        FAIL(STATUS_PARSE, "%s: contains a NUL byte, expected a text file", path);
    char *begin = text + (text_begins(text, "\xef\xbb\xbf") ? 3 : 0); /* spreadsheets mark UTF-8 */
    for (char *line = begin, *next; line; line = next) {
        number++;
        next = cut_line(line);
        commas = commas ||
                 (!t.name && !strchr("#{[<", *line) && !strchr(line, '\t') && strchr(line, ','));
        if (commas && *line != '#')
            use_tabs(line);
        if (!t.name && strchr(line, '\t'))
            TRY(table_read_names(&t, line, number));
        else if (*line && *line != '#' && !t.name) {
            FAIL(STATUS_PARSE, "%s:%zu: expected a header of tab-separated column names%s", path,
                 number, looks);
        } else if (*line && *line != '#')
            TRY(table_read_row(&t, line, number, &room));
    }
    if (t.rows == 0)
        FAIL(STATUS_PARSE, "%s:%zu: table has no rows", path, number);
    MOVE(out, t);
out:
    table_free(&t);
    return st;
}

enum status table_read(const char *path, struct plot_table *out)
{
    char *text = NULL;
    size_t length;
    enum status st = file_read(path, &text, &length);
    return st == STATUS_OK ? table_take_text(path, text, length, out) : st;
}

enum status table_parse(const char *path, const char *text, size_t length, struct plot_table *out)
{
    char *copy = malloc(length + 1);
    if (!copy)
        return error_set(STATUS_NOMEM, "%s: out of memory", path);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return table_take_text(path, copy, length, out);
}

void table_free(struct plot_table *t)
{
    free(t->line);
    free(t->cell);
    free(t->name);
    free(t->text);
    free(t->path);
    arena_free(&t->joined);
    *t = (struct plot_table){0};
}

/* ---- looking up */

enum status table_column(const struct plot_table *t, const char *name, size_t *column)
{
    char list[LIST] = "";
    for (size_t i = 0; i < t->columns; i++) {
        if (strcmp(t->name[i], name) == 0) {
            *column = i;
            return STATUS_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, LIST - used, "%s%s", i ? ", " : "", t->name[i]);
    }
    return error_set(STATUS_INVALID, "%s: unknown column '%.60s'; known: %s", t->path, name, list);
}

const char *table_cell(const struct plot_table *t, size_t row, size_t column)
{
    return t->cell[row * t->columns + column];
}

bool table_varies(const struct plot_table *t, size_t column)
{
    for (size_t i = 1; i < t->rows; i++)
        if (strcmp(table_cell(t, i, column), table_cell(t, 0, column)) != 0)
            return true;
    return false;
}

enum status table_groups(const struct plot_table *t, size_t column, bool *groups)
{
    const char **cell;
    bool repeats = false;
    PASS(ARRAY_NEW(cell, t->rows));
    for (size_t i = 0; i < t->rows; i++)
        cell[i] = table_cell(t, i, column);
    qsort(cell, t->rows, sizeof *cell, order_by_name);
    for (size_t i = 1; i < t->rows && !repeats; i++)
        repeats = !strcmp(cell[i], cell[i - 1]);
    *groups = repeats && strcmp(cell[0], cell[t->rows - 1]) != 0;
    free(cell);
    return STATUS_OK;
}

static void keep_rows(struct plot_table *t, size_t column, const char *value)
{
    size_t kept = 0;
    for (size_t row = 0; row < t->rows; row++) {
        if (strcmp(table_cell(t, row, column), value) != 0)
            continue;
        t->line[kept] = t->line[row];
        memmove(t->cell + kept++ * t->columns, t->cell + row * t->columns,
                t->columns * sizeof *t->cell);
    }
    t->rows = kept;
}

static bool is_column(const struct plot_table *t, const char *name, size_t length)
{
    for (size_t i = 0; i < t->columns; i++)
        if (strlen(t->name[i]) == length && !memcmp(t->name[i], name, length))
            return true;
    return false;
}

/* The comma that ends a condition: behind it stands the name of a column and "=". Others are part
 * of the value, as in platform=rail:nodes=4,gpus=8; so is one behind a backslash, which is taken
 * out. */
static char *end_of_condition(const struct plot_table *t, char *at)
{
    for (char *comma = strchr(at, ','); comma; comma = strchr(comma + 1, ',')) {
        size_t length = strcspn(comma + 1, "=,");
        if (comma > at && comma[-1] == '\\') {
            memmove(comma - 1, comma, strlen(comma) + 1);
            comma--;
        } else if (comma[1 + length] == '=' && is_column(t, comma + 1, length)) {
            return comma;
        }
    }
    return NULL;
}

/* No row has the value: perhaps since part of it was to be another condition. */
static enum status say_no_row(const struct plot_table *t, const char *name, const char *value)
{
    const char *comma = strchr(value, ',');
    char other[64];
    size_t column, length = comma ? strcspn(comma + 1, "=,") : 0;
    if (comma && comma[1 + length] == '=' && length < sizeof other) {
        memcpy(other, comma + 1, length);
        other[length] = '\0';
        PASS(table_column(t, other, &column));
    }
    return error_set(STATUS_INVALID, "%s: no row with %.60s = '%.200s'", t->path, name, value);
}

/* What stands between the double quotes that *text begins with, in place; *text moves behind them.
 * NULL: they do not end. */
static char *unquote(char **text)
{
    char *begin = *text + 1, *to = begin, *at = begin;
    for (; *at && (*at != '"' || at[1] == '"'); at++) {
        at += *at == '"';
        *to++ = *at;
    }
    if (!*at)
        return NULL;
    *text = at + 1;
    if (to < at)
        *to = '\0';
    else
        *at = '\0';
    return begin;
}

char *table_next_word(char *text)
{
    char *next = text, *word = *text == '"' ? unquote(&next) : NULL;
    next += strcspn(next, ",");
    next = *next ? next : NULL;
    if (next)
        *next++ = '\0';
    if (word)
        memmove(text, word, strlen(word) + 1);
    return next;
}

/* One condition; *at moves to the next one, NULL behind the last. */
static enum status filter_once(struct plot_table *t, char **at)
{
    size_t column;
    char *text = *at, *name = text, *value, *end;
    if (*text == '"')
        name = unquote(&text);
    end = name ? strchr(text, '=') : NULL;
    if (!end || (name != *at && end != text))
        return error_set(STATUS_INVALID, "got '%.60s', expected COLUMN=VALUE", *at);
    *end = '\0';
    value = end + 1;
    if (*value == '"') {
        *at = value;
        if (!(value = unquote(at)) || (**at && **at != ','))
            return error_set(STATUS_INVALID,
                             "expected %.60s=\"VALUE\", with \"\" for a quote inside", name);
        *at = **at ? *at + 1 : NULL;
    } else {
        *at = end_of_condition(t, value);
        if (*at)
            *(*at)++ = '\0';
    }
    PASS(table_column(t, name, &column));
    keep_rows(t, column, value);
    return t->rows == 0 ? say_no_row(t, name, value) : STATUS_OK;
}

enum status table_filter(struct plot_table *t, const char *where)
{
    enum status st;
    char *copy = NULL;
    TRY(text_copy(where, &copy));
    for (char *at = copy; at;)
        TRY(filter_once(t, &at));
out:
    free(copy);
    return st;
}

/* ---- changing */

/* The cell of a row in a joined column: "DP 8, devices 16". */
static enum status join_cells(struct plot_table *t, size_t row, const size_t *part, size_t parts,
                              char **out)
{
    char text[512];
    size_t n = 0;
    double number;
    *text = '\0';
    for (size_t k = 0; k < parts && n < sizeof text; k++) {
        const char *cell = table_cell(t, row, part[k]), *name = t->name[part[k]],
                   *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name,
                   *shown = style_shown_either(t->style, name, word);
        bool words = !text_real(cell, &number);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.60s%s%s", k > 0 ? ", " : "",
                              words           ? ""
                              : shown != name ? shown
                                              : word,
                              words ? "" : " ", cell);
    }
    *out = arena_text(&t->joined, text);
    return *out ? STATUS_OK : STATUS_NOMEM;
}

enum status table_join(struct plot_table *t, const char *columns)
{
    enum { PARTS = 8 };
    enum status st;
    size_t part[PARTS], parts = 0, wide = t->columns + 1;
    char *copy = NULL, **name = NULL, **cell = NULL;
    if (!strchr(columns, ',') || is_column(t, columns, strlen(columns)))
        return STATUS_OK;
    TRY(text_copy(columns, &copy));
    for (char *at = copy, *next; at; at = next) {
        next = table_next_word(at);
        if (parts == PARTS)
            FAIL(STATUS_INVALID, "got more than %d columns in '%.60s'", PARTS, columns);
        TRY(table_column(t, at, &part[parts++]));
    }
    TRY(ARRAY_NEW(name, wide));
    TRY(ARRAY_NEW(cell, t->rows * wide));
    memcpy(name, t->name, t->columns * sizeof *name);
    name[t->columns] = arena_text(&t->joined, columns);
    st = name[t->columns] ? STATUS_OK : STATUS_NOMEM;
    TRY(st);
    for (size_t i = 0; i < t->rows; i++) {
        memcpy(cell + i * wide, t->cell + i * t->columns, t->columns * sizeof *cell);
        TRY(join_cells(t, i, part, parts, &cell[i * wide + t->columns]));
    }
    free(t->name);
    free(t->cell);
    t->name = name;
    t->cell = cell;
    t->columns = wide;
    name = cell = NULL;
out:
    free(cell);
    free(name);
    free(copy);
    return st;
}

struct ranked_row {
    double rank;
    size_t row;
};

enum status table_sort(struct plot_table *t, const double *rank)
{
    enum status st;
    struct ranked_row *row = NULL;
    char **cell = NULL;
    size_t *line = NULL;
    TRY(ARRAY_NEW(row, t->rows));
    TRY(ARRAY_NEW(cell, t->rows * t->columns));
    TRY(ARRAY_NEW(line, t->rows));
    for (size_t i = 0; i < t->rows; i++)
        row[i] = (struct ranked_row){rank[i], i};
    qsort(row, t->rows, sizeof *row, order_by_value);
    for (size_t i = 0; i < t->rows; i++) {
        memcpy(cell + i * t->columns, t->cell + row[i].row * t->columns, t->columns * sizeof *cell);
        line[i] = t->line[row[i].row];
    }
    free(t->cell);
    free(t->line);
    t->cell = cell;
    t->line = line;
    cell = NULL;
    line = NULL;
out:
    free(line);
    free(cell);
    free(row);
    return st;
}
