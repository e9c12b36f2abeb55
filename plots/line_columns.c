/* Chooses what a picture of lines shows: what varies is x, what a plan is called is a line. */
#include "plots/line_columns.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool line_column_is_given(const struct plot_table *t, size_t column,
                                 const char *const *names)
{
    for (; *names; names++)
        if (strcmp(t->name[column], *names) == 0)
            return true;
    return false;
}

/* The first that varies and is no result. Settings stand before results, the first of which is
 * "status" or what is drawn. */
static enum status choose_x(const struct plot_source *s, struct line_columns *l)
{
    const struct plot_table *t = s->table;
    size_t n = 0;
    bool result = false;
    l->x = SIZE_MAX;
    for (size_t c = 0; c < t->columns; c++) {
        result = result || c == l->y || !strcmp(t->name[c], "status") ||
                 line_column_is_given(t, c, plot_rates);
        bool line =
            line_column_is_given(t, c, plot_line_columns) && plot_can_be_line(t->name[c], NULL);
        bool facet = s->facet && strcmp(t->name[c], s->facet) == 0;
        if (c == l->y || c == l->by || line || facet || !table_varies(t, c))
            continue;
        if (l->x == SIZE_MAX)
            l->x = c;
        else if (!result && n < LINE_OTHERS)
            n += (size_t)snprintf(l->others + n, LINE_OTHERS - n, "%s%.40s", n > 0 ? ", " : "",
                                  t->name[c]);
    }
    for (size_t c = 0; l->x == SIZE_MAX && c < t->columns; c++) /* a point for every plan */
        if (c != l->by && line_column_is_given(t, c, plot_line_columns) && table_varies(t, c))
            l->x = c;
    return l->x < SIZE_MAX
               ? STATUS_OK
               : error_set(
                     STATUS_INVALID,
                     "%s: no column varies, so there is nothing to plot as x; choose one with --x",
                     t->path);
}

enum status line_columns_choose(const struct plot_source *s, struct line_columns *l)
{
    const struct plot_table *t = s->table;
    *l = (struct line_columns){0};
    PASS(plot_column(t, s->y, plot_rates, true, &l->y));
    PASS(plot_column(t, s->by, (const char *const[]){NULL}, false, &l->by));
    for (size_t k = 0; !s->by && plot_line_columns[k] && l->by == SIZE_MAX; k++) {
        const char *const one[] = {plot_line_columns[k], NULL};
        bool groups = false;
        PASS(plot_column(t, NULL, one, false, &l->by));
        if (l->by != SIZE_MAX && plot_can_be_line(plot_line_columns[k], s->x) &&
            !(s->facet && strcmp(t->name[l->by], s->facet) == 0))
            PASS(table_groups(t, l->by, &groups)); /* else every line is a point */
        l->by = groups ? l->by : SIZE_MAX;
    }
    if (s->x) {
        PASS(table_column(t, s->x, &l->x));
        return STATUS_OK;
    }
    return choose_x(s, l);
}
