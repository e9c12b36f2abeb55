/* Tables of a sweep. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/sweep.h"

void sweep_print_list(const struct sweep_points *p, FILE *to)
{
    const struct experiment *e = p->e;
    fputs("point\thash", to);
    for (size_t i = 0; i < e->axes; i++)
        fprintf(to, "\t%s", e->axis[i].name);
    for (size_t k = 0; k < p->n; k++) {
        fprintf(to, "\n%zu\t%.12s", p->number[k], p->hash[k]);
        for (size_t i = 0; i < e->axes; i++)
            fprintf(to, "\t%s", experiment_label(e, p->number[k], i));
    }
    fputc('\n', to);
}

/* ---- all rows */

/* In comma-separated rows a text with commas or quotes stands in quotes, as RFC 4180 says; in
 * tab-separated ones there are no tabs. */
static void put_cell(const char *text, char separator, FILE *to)
{
    if (separator == '\t' || !strpbrk(text, ",\"\n")) {
        for (; *text; text++)
            fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', to);
}

/* Axes of the rest, then those of what is chosen; what the result says is left out. */
static void put_axes(const struct experiment *e, size_t point, bool heading, char separator,
                     FILE *to)
{
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (e->axis[i].chosen == chosen && strcmp(e->axis[i].name, "engine") != 0) {
                put_cell(heading ? e->axis[i].name : experiment_label(e, point, i), separator, to);
                fputc(separator, to);
            }
}

/* Is there room for a column of that name? */
static bool names_plans(const struct experiment *e)
{
    for (size_t i = 0; i < e->axes; i++)
        if (!strcmp(e->axis[i].name, "plan"))
            return false;
    return true;
}

static void put_row(const struct experiment *e, size_t point, const struct point_result *r,
                    char separator, FILE *to)
{
    char text[RESULT_VALUE];
    put_axes(e, point, false, separator, to);
    if (names_plans(e)) {
        put_cell(sweep_plan_label(e, point, text), separator, to);
        fputc(separator, to);
    }
    fputs(point_status_names[r->status], to);
    bool predicted = r->iteration_s > 0;
    for (size_t i = 0; i < result_columns_n; i++) {
        fputc(separator, to);
        if (predicted || !strcmp(result_columns[i].name, "engine"))
            put_cell(result_column_print(&result_columns[i], r, text), separator, to);
    }
    fputc(separator, to);
    put_cell(r->reason, separator, to);
    fprintf(to, "%c%zu\n", separator, point);
}

static enum status put_rows(const struct sweep_points *p, struct database *db, char separator,
                            FILE *to)
{
    enum status st = STATUS_OK;
    for (size_t k = 0; k < p->n; k++) {
        struct point_result r;
        bool found;
        TRY(database_get(db, p->hash[k], &found, &r));
        if (found)
            put_row(p->e, p->number[k], &r, separator, to);
    }
out:
    return st;
}

enum status sweep_print_rows(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct database *db, char separator, FILE *to)
{
    enum status st;
    const struct experiment *e = all->e;
    put_axes(e, 0, true, separator, to);
    if (names_plans(e))
        fprintf(to, "plan%c", separator);
    fputs("status", to);
    for (size_t i = 0; i < result_columns_n; i++)
        fprintf(to, "%c%s", separator, result_columns[i].name);
    fprintf(to, "%creason%cpoint\n", separator, separator);
    TRY(put_rows(all, db, separator, to));
    if (finalists)
        TRY(put_rows(finalists, db, separator, to));
out:
    return st;
}

/* ---- the best */

enum status sweep_print_best(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct database *db, FILE *to)
{
    enum status st;
    struct sweep_table t = {0};
    int width[SWEEP_COLUMNS] = {0};
    TRY(sweep_tabulate(all, finalists, db, &t));
    for (size_t k = 0; k < t.rows * t.columns; k++) {
        int n = (int)strlen(t.cell[k]);
        width[k % t.columns] = n > width[k % t.columns] ? n : width[k % t.columns];
    }
    for (size_t r = 0; r < t.rows; r++) {
        for (size_t c = 0; c < t.columns; c++)
            fprintf(to, "%s%*s", c ? "  " : "", t.right[c] ? width[c] : -width[c],
                    t.cell[r * t.columns + c]);
        fprintf(to, "  %s%s\n", t.before[r] != SIZE_MAX ? "<- changes; " : "", t.note[r]);
    }
out:
    sweep_table_free(&t);
    return st;
}
