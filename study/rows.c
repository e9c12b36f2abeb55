/* Tables of all points of a sweep: for `--list`, `--export`, plots and pages. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "plots/table.h"
#include "study/rank.h"

static void result_rows_put_label(FILE *to, const char *text)
{
    putc('\t', to);
    text_put_cell(to, text);
}

void sweep_print_list(const struct sweep *s, FILE *to)
{
    const struct experiment *e = &s->e;
    fputs("point\thash", to);
    for (size_t i = 0; i < e->axes; i++)
        fprintf(to, "\t%s", e->axis[i].name);
    for (size_t k = 0; k < s->all.n; k++) {
        fprintf(to, "\n%zu\t%.12s", s->all.number[k], s->all.hash[k]);
        for (size_t i = 0; i < e->axes; i++)
            result_rows_put_label(to, experiment_label(e, s->all.number[k], i));
    }
    fputc('\n', to);
}

/* Where rows go. */
struct rows {
    const struct sweep *s;
    bool (*keep)(const void *context, size_t point); /* NULL: all */
    const void *context;
    char separator;
    FILE *to;
};

/* In comma-separated rows a text with commas or quotes stands in quotes, as RFC 4180 says; in
 * tab-separated ones there are no tabs. */
static void result_rows_put_text(const struct rows *r, const char *text)
{
    if (r->separator == '\t' || !strpbrk(text, ",\"\n")) {
        text_put_guard(r->to, text);
        for (; *text; text++)
            fputc((unsigned char)*text < ' ' ? ' ' : *text, r->to);
        return;
    }
    fputc('"', r->to);
    text_put_guard(r->to, text);
    for (; *text; text++)
        fprintf(r->to, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', r->to);
}

static void result_rows_put_cell(const struct rows *r, const char *text)
{
    result_rows_put_text(r, text);
    fputc(r->separator, r->to);
}

/* Axes of the rest, then those of what is chosen, then what is chosen in one text; the engine is
 * left out, as the result says it. */
static void result_rows_put_axes(const struct rows *r, size_t point, bool heading)
{
    const struct experiment *e = &r->s->e;
    char plan[RESULT_VALUE];
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (e->axis[i].chosen == chosen && strcmp(e->axis[i].name, "engine") != 0)
                result_rows_put_cell(r, heading ? e->axis[i].name : experiment_label(e, point, i));
    if (experiment_find(e, "plan") == e->axes) /* no other column has that name */
        result_rows_put_cell(r, heading ? "plan" : rank_plan_label(e, point, plan));
}

/* No axis has the column's name; the engine's is left out instead. */
static bool result_rows_has(const struct rows *r, const struct result_column *c)
{
    const struct experiment *e = &r->s->e;
    return !strcmp(c->name, "engine") || experiment_find(e, c->name) == e->axes;
}

/* Figures only where there is a prediction: 0 would be drawn as a number. The engine is always
 * known. */
static void put_row(const struct rows *r, size_t point, const struct point_result *result)
{
    char text[RESULT_VALUE];
    bool predicted = result->iteration_s > 0;
    result_rows_put_axes(r, point, false);
    result_rows_put_cell(r, point_status_names[result->status]);
    for (size_t i = 0; i < result_columns_n; i++) {
        bool known = predicted || !strcmp(result_columns[i].name, "engine");
        if (result_rows_has(r, &result_columns[i]))
            result_rows_put_cell(r, known ? result_column_print(&result_columns[i], result, text)
                                          : "");
    }
    result_rows_put_cell(r, result->reason);
    fprintf(r->to, "%zu\n", point);
}

static enum status result_rows_put_all(const struct rows *r, const struct sweep_points *p)
{
    for (size_t k = 0; k < p->n; k++) {
        struct point_result result;
        bool found;
        if (r->keep && !r->keep(r->context, p->number[k]))
            continue;
        PASS(database_get(r->s->db, p->hash[k], &found, &result));
        if (found)
            put_row(r, p->number[k], &result);
    }
    return STATUS_OK;
}

enum status sweep_print_rows(const struct sweep *s, bool (*keep)(const void *context, size_t point),
                             const void *context, char separator, FILE *to)
{
    const struct rows r = {s, keep, context, separator, to};
    result_rows_put_axes(&r, 0, true);
    result_rows_put_cell(&r, "status");
    for (size_t i = 0; i < result_columns_n; i++)
        if (result_rows_has(&r, &result_columns[i]))
            result_rows_put_cell(&r, result_columns[i].name);
    result_rows_put_cell(&r, "reason");
    fputs("point\n", to);
    PASS(result_rows_put_all(&r, &s->all));
    return result_rows_put_all(&r, &s->finalists);
}

/* By way of the text that --export prints, so that a plot of the database and one of its export
 * cannot differ. */
enum status sweep_table(const struct sweep *s, bool (*keep)(const void *context, size_t point),
                        const void *context, struct plot_table *out)
{
    enum status st;
    struct file_text t;
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, sweep_print_rows(s, keep, context, '\t', t.stream)));
    TRY(table_parse(s->e.name, t.text, t.length, out));
out:
    free(t.text);
    return st;
}
