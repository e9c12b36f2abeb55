/* Tables as JSON columns, which plots/page/points.js shows: a value that is the same in all rows
 * once, numbers as such, texts as numbers of a list of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "plots/page.h"

struct cell_of {
    const char *text;
    size_t row;
};

static int by_text(const void *a, const void *b)
{
    const struct cell_of *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static bool is_number(const char *text, double *x)
{
    char *end;
    *x = strtod(text, &end);
    return *text && !*end && isfinite(*x) && strspn(text, "0123456789.+-eE") == strlen(text);
}

/* Six digits are more than is shown; whole numbers stay what they are. */
static void put_number(struct json_writer *w, const char *key, const char *text)
{
    double x, whole = 1e15;
    char shorter[32];
    if (!is_number(text, &x)) {
        json_put_real(w, key, NAN);
    } else if (trunc(x) == x && fabs(x) < whole) {
        json_put_integer(w, key, (int64_t)x);
    } else {
        snprintf(shorter, sizeof shorter, "%.6g", x);
        json_put_real(w, key, strtod(shorter, NULL));
    }
}

/* Texts in their order, and for each row which one it has. */
static enum status put_texts(struct json_writer *w, const struct plot_table *t, size_t column)
{
    struct cell_of *cell;
    size_t *at, n = 0;
    PASS(ARRAY_NEW(cell, t->rows));
    enum status st = ARRAY_NEW(at, t->rows);
    for (size_t r = 0; st == STATUS_OK && r < t->rows; r++)
        cell[r] = (struct cell_of){table_cell(t, r, column), r};
    if (st == STATUS_OK) {
        qsort(cell, t->rows, sizeof *cell, by_text);
        json_open_array(w, "values", true);
        for (size_t r = 0; r < t->rows; r++) {
            if (r == 0 || strcmp(cell[r].text, cell[r - 1].text) != 0) {
                json_put_string(w, NULL, cell[r].text);
                n++;
            }
            at[cell[r].row] = n - 1;
        }
        json_close(w);
        json_open_array(w, "at", true);
        for (size_t r = 0; r < t->rows; r++)
            json_put_integer(w, NULL, (int64_t)at[r]);
        json_close(w);
    }
    free(cell);
    free(at);
    return st;
}

/* Numbers where every cell is one, or is empty and not all are. */
static enum status put_column(struct json_writer *w, const struct plot_table *t, size_t column)
{
    enum status st = STATUS_OK;
    bool numbers = true, same = true;
    size_t empty = 0;
    double x;
    for (size_t r = 0; r < t->rows; r++) {
        const char *text = table_cell(t, r, column);
        empty += !*text;
        numbers &= !*text || is_number(text, &x);
        same &= strcmp(text, table_cell(t, 0, column)) == 0;
    }
    json_open_object(w, NULL, true);
    json_put_string(w, "name", t->name[column]);
    if (same && numbers && empty == 0) {
        put_number(w, "same", table_cell(t, 0, column));
    } else if (same) {
        json_put_string(w, "same", table_cell(t, 0, column));
    } else if (numbers) {
        json_open_array(w, "number", true);
        for (size_t r = 0; r < t->rows; r++)
            put_number(w, NULL, table_cell(t, r, column));
        json_close(w);
    } else {
        st = put_texts(w, t, column);
    }
    json_close(w);
    return st;
}

static enum status put_columns(struct json_writer *w, const char *key, const struct plot_table *t)
{
    json_open_array(w, key, false);
    for (size_t c = 0; c < t->columns; c++)
        PASS(put_column(w, t, c));
    json_close(w);
    return STATUS_OK;
}

static enum status put_points(struct json_writer *w, const struct page_points *p)
{
    json_open_object(w, NULL, false);
    json_put_integer(w, "rows", (int64_t)p->rows->rows);
    if (p->settings > 0)
        json_put_integer(w, "settings", (int64_t)p->settings);
    if (p->tokens > 0)
        json_put_real(w, "tokens", p->tokens);
    if (p->price > 0)
        json_put_real(w, "price", p->price);
    PASS(put_columns(w, "columns", p->rows));
    if (p->command)
        PASS(put_columns(w, "command", p->command));
    json_close(w);
    return STATUS_OK;
}

enum status page_points(FILE *to, const struct page_points *p)
{
    enum status st;
    struct file_text t;
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, put_points(&(struct json_writer){.stream = t.stream}, p)));
    page_data(to, "points", t.text);
out:
    free(t.text);
    return st;
}
