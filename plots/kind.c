/* The table of picture kinds, from kinds.def, and the reading of what each kind asks for. */
#include "plots/kind.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/breakdown.h"
#include "plots/axis.h"
#include "plots/figure.h"

const struct plot_kind *const plot_kinds[] = {
#define PLOT_KIND(name) &plot_##name##_kind,
#include "plots/kinds.def"
#undef PLOT_KIND
};
const size_t plot_kinds_n = sizeof plot_kinds / sizeof *plot_kinds;

enum status plot_kind_find(const char *name, const struct plot_kind **out)
{
    return text_find("plot", name, plot_kinds, plot_kinds_n, out);
}

enum status plot_column(const struct plot_table *t, const char *wanted,
                        const char *const *candidates, bool needed, size_t *out)
{
    if (wanted)
        return table_column(t, wanted, out);
    for (; *candidates; candidates++) {
        for (size_t i = 0; i < t->columns; i++) {
            if (strcmp(t->name[i], *candidates) == 0) {
                *out = i;
                return STATUS_OK;
            }
        }
    }
    *out = SIZE_MAX;
    return needed
               ? error_set(STATUS_INVALID,
                           "%s: choose the column to plot with --y (the first column is '%.60s')",
                           t->path, t->name[0])
               : STATUS_OK;
}

const char *const plot_rates[] = {"samples_per_s", "tokens_per_s", "iteration_s",
                                  "measured_s",    "predicted_s",  NULL};

const char *const plot_line_columns[] = {"plan", "algorithm", "schedule", "case", "engine", NULL};

static size_t plot_index_of(const struct plot_table *t, const char *name)
{
    size_t i = 0;
    while (i < t->columns && strcmp(t->name[i], name) != 0)
        i++;
    return i;
}

static bool is_asked_for(const struct plot_request *r, const char *name)
{
    const char *const asked[] = {r->x, r->y, r->by, r->value, r->look.facet, r->where};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (asked[i] && strstr(asked[i], name))
            return true;
    return false;
}

bool plot_can_be_line(const char *name, const char *x)
{
    return x ? strcmp(name, x) != 0 : strcmp(name, "case") != 0;
}

/* Do lines stand for engines, because nothing else varies? */
static enum status engines_are_lines(const struct plot_table *t, const struct plot_request *r,
                                     bool *are)
{
    bool others = r->by;
    for (size_t k = 0; !others && strcmp(plot_line_columns[k], "engine") != 0; k++) {
        size_t i = plot_index_of(t, plot_line_columns[k]);
        if (i < t->columns && plot_can_be_line(plot_line_columns[k], r->x))
            PASS(table_groups(t, i, &others));
    }
    *are = !others;
    return STATUS_OK;
}

const char *plot_note(const struct plot_source *s, const char *values, char text[PLOT_NOTE])
{
    bool some = s->rows && *s->rows;
    snprintf(text, PLOT_NOTE, "%s%s%s", some ? s->rows : "", some && *values ? "; " : "", values);
    return text;
}

size_t plot_step(const struct measurement *m)
{
    struct breakdown b = breakdown_of(m);
    size_t nearest = 0;
    for (size_t i = 1; i < m->iterations; i++)
        if (fabs(m->iterations_s[i] - breakdown_sum(&b)) <
            fabs(m->iterations_s[nearest] - breakdown_sum(&b)))
            nearest = i;
    return m->iterations > 1 ? nearest + 1 : 0;
}

const char *plot_step_note(const struct measurement *m, char text[PLOT_NOTE])
{
    size_t step = plot_step(m);
    *text = '\0';
    if (step > 0)
        snprintf(text, PLOT_NOTE, "step %zu of %zu: %s; their median is %s", step, m->iterations,
                 units_of(UNIT_SECONDS, m->iterations_s[step - 1]).text,
                 units_of(UNIT_SECONDS, m->iteration_s).text);
    return text;
}

/* Keep what can be compared, and say what that is. */
static enum status plot_choose_rows(struct plot_table *t, const struct plot_request *r,
                                    char note[PLOT_NOTE])
{
    size_t n = 0, before = t->rows, status = plot_index_of(t, "status"),
           engine = plot_index_of(t, "engine"), ok = 0;
    char where[128];
    if (r->where) {
        PASS(table_filter(t, r->where));
        n = (size_t)snprintf(note, PLOT_NOTE, "only %.200s", r->where);
        before = t->rows;
    }
    for (size_t i = 0; i < t->rows && status < t->columns; i++)
        ok += !strcmp(table_cell(t, i, status), "ok");
    if (ok > 0 && !is_asked_for(r, "status"))
        PASS(table_filter(t, "status=ok"));
    if (t->rows < before)
        n += (size_t)snprintf(note + n, PLOT_NOTE - n, "%s%zu of %zu rows are not ok and left out",
                              n > 0 ? "; " : "", before - t->rows, before);
    before = t->rows;
    if (engine == t->columns || is_asked_for(r, "engine"))
        return STATUS_OK;
    bool lines;
    PASS(engines_are_lines(t, r, &lines));
    if (lines || strpbrk(table_cell(t, 0, engine), ","))
        return STATUS_OK;
    snprintf(where, sizeof where, "engine=%.100s", table_cell(t, 0, engine));
    PASS(table_filter(t, where));
    if (t->rows < before)
        snprintf(note + n, PLOT_NOTE - n, "%sonly %s", n > 0 ? "; " : "", where);
    return STATUS_OK;
}

/* `foreline plot KIND X.tsv -o X.svg` would put what is plotted in the place of what is read. */
static enum status plot_keep_inputs(const struct plot_request *r, const char *output)
{
    enum status st = STATUS_OK;
    char *table = NULL;
    TRY(figure_table(output, &table));
    for (size_t i = 0; i < r->n; i++)
        if (file_same(table, r->path[i]))
            FAIL(STATUS_INVALID,
                 "%s: the table of the plotted data would overwrite this input; choose another "
                 "name for -o",
                 r->path[i]);
out:
    free(table);
    return st;
}

/* Name of the i-th kind that obeys a style, for style_read(). */
static const char *kind_that_obeys(size_t i, unsigned style)
{
    return i == plot_kinds_n ? NULL : plot_kinds[i]->styles & style ? plot_kinds[i]->name : "";
}

/* ---- order of categories, which is that of the first rows or files they are in */

/* The words of --order, "b,a". */
struct plot_order {
    char *text;
    size_t n;
    const char *word[TEXT_LIST_MOST];
};

static enum status order_read(const char *text, struct plot_order *out)
{
    PASS(text_copy(text, &out->text));
    for (char *at = out->text, *next; at; at = next) {
        next = table_next_word(at);
        if (out->n == TEXT_LIST_MOST)
            return error_set(STATUS_USAGE, "--order: got more than %d names", TEXT_LIST_MOST);
        out->word[out->n++] = at;
    }
    return STATUS_OK;
}

/* Places of n texts: those of the words, and behind them the others as they are. */
static enum status order_rank(const struct plot_order *o, size_t n, const char *const *text,
                              double *rank)
{
    bool found[TEXT_LIST_MOST] = {false};
    for (size_t i = 0; i < n; i++) {
        rank[i] = TEXT_LIST_MOST;
        for (size_t k = 0; k < o->n; k++)
            if (strcmp(text[i], o->word[k]) == 0) {
                rank[i] = (double)k;
                found[k] = true;
            }
    }
    for (size_t k = 0; k < o->n; k++)
        if (!found[k])
            return error_set(STATUS_USAGE,
                             "--order: the figure has no '%.60s' on the axis or legend of the "
                             "other names; expected 'value' or a list of names",
                             o->word[k]);
    return STATUS_OK;
}

/* Rows by what is drawn, the best first, or by the words of the first column that has one. */
static enum status order_rows(struct plot_table *t, const struct plot_request *r,
                              const struct plot_order *o)
{
    enum status st;
    double *rank = NULL;
    const char **text = NULL;
    struct axis a = {0};
    size_t column = SIZE_MAX;
    TRY(ARRAY_NEW(rank, t->rows));
    TRY(ARRAY_NEW(text, t->rows));
    if (strcmp(r->look.order, "value") == 0) {
        TRY(plot_column(t, r->value ? r->value : r->y, plot_rates, true, &column));
        TRY(axis_read(t, column, &a));
        for (size_t i = 0; i < t->rows; i++)
            rank[i] = axis_prefers_less(&a) ? a.at[i] : -a.at[i];
    } else {
        for (size_t c = 0; c < t->columns && column == SIZE_MAX; c++)
            for (size_t i = 0; i < t->rows && column == SIZE_MAX; i++)
                column = strcmp(table_cell(t, i, c), o->word[0]) == 0 ? c : column;
        for (size_t i = 0; i < t->rows; i++)
            text[i] = column < SIZE_MAX ? table_cell(t, i, column) : "";
        TRY(order_rank(o, t->rows, text, rank));
    }
    st = table_sort(t, rank);
out:
    axis_free(&a);
    free(text);
    free(rank);
    return st;
}

/* Files by their times, or by the names of their plans. */
static enum status order_files(const struct plot_request *r, const struct plot_order *o,
                               struct measurement *m, const char **path)
{
    enum status st;
    double *rank = NULL;
    char(*name)[STYLE_NAME] = NULL;
    const char **text = NULL;
    TRY(ARRAY_NEW(rank, r->n));
    TRY(ARRAY_NEW(name, r->n));
    TRY(ARRAY_NEW(text, r->n));
    for (size_t i = 0; i < r->n; i++) {
        style_plan_name(m[i].plan && *m[i].plan ? m[i].plan : path[i], name[i], STYLE_NAME);
        rank[i] = m[i].iteration_s;
        text[i] = name[i];
    }
    if (strcmp(r->look.order, "value") != 0)
        TRY(order_rank(o, r->n, text, rank));
    for (size_t i = 1; i < r->n; i++) /* by insertion, as files are few */
        for (size_t k = i; k > 0 && rank[k] < rank[k - 1]; k--) {
            struct measurement file = m[k];
            const char *of = path[k];
            double at = rank[k];
            m[k] = m[k - 1];
            path[k] = path[k - 1];
            rank[k] = rank[k - 1];
            m[k - 1] = file;
            path[k - 1] = of;
            rank[k - 1] = at;
        }
out:
    free(text);
    free(name);
    free(rank);
    return st;
}

/* ---- drawing */

static enum status check_inputs(const struct plot_kind *kind, const struct plot_request *r)
{
    static const char *const takes[] = {[PLOT_TRACES] = "traces",
                                        [PLOT_MEASUREMENT] = "one measurement",
                                        [PLOT_MEASUREMENTS] = "measurements",
                                        [PLOT_TABLE] = "one table",
                                        [PLOT_MODEL] = "one model",
                                        [PLOT_GRAPH] = "one model or plan"};
    if (r->n < 1 || (r->n > 1 && kind->input != PLOT_MEASUREMENTS && kind->input != PLOT_TRACES))
        return error_set(STATUS_USAGE, "plot %s takes %s", kind->name, takes[kind->input]);
    return STATUS_OK;
}

/* The rows of a table that are drawn, in their order, with the columns that are several in one. */
static enum status prepare_table(struct plot_table *t, const struct plot_request *r,
                                 const struct plot_order *o, char note[PLOT_NOTE])
{
    PASS(plot_choose_rows(t, r, note));
    if (r->by)
        PASS(table_join(t, r->by));
    if (r->look.facet)
        PASS(table_join(t, r->look.facet));
    return r->look.order ? order_rows(t, r, o) : STATUS_OK;
}

enum status plot_files(const struct plot_kind *kind, const struct plot_request *r,
                       const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct measurement *m = NULL;
    struct plot_table table = {0}, *rows = r->table ? r->table : &table;
    struct plot_order order = {0};
    const char **path = NULL;
    size_t read = 0;
    char note[PLOT_NOTE] = "";
    struct plot_label label[TEXT_LIST_MOST];
    struct plot_known known = {0};
    struct plot_style style;
    PASS(check_inputs(kind, r));
    PASS(style_read(&r->look, kind->name, kind->styles, kind_that_obeys, label, &style));
    style.known = &known;
    PASS(plot_keep_inputs(r, output));
    TRY(ARRAY_COPY(path, r->path, r->n));
    if (r->look.order)
        TRY(order_read(r->look.order, &order));
    if (kind->input == PLOT_MEASUREMENT || kind->input == PLOT_MEASUREMENTS) {
        TRY(ARRAY_NEW(m, r->n));
        for (; read < r->n; read++)
            TRY(measurement_read(r->path[read], &m[read]));
        if (r->look.order)
            TRY(order_files(r, &order, m, path));
    } else if (kind->input == PLOT_TABLE) {
        if (!r->table)
            TRY(table_read(r->path[0], &table));
        rows->style = &style;
        TRY(prepare_table(rows, r, &order, note));
    }
    const struct plot_source source = {.n = r->n,
                                       .path = path,
                                       .m = m,
                                       .table = rows,
                                       .x = r->x,
                                       .y = r->y,
                                       .by = r->by,
                                       .value = r->value,
                                       .facet = r->look.facet,
                                       .window = r->window,
                                       .style = style,
                                       .rows = note};
    rows->style = &style;
    st = kind->draw(&source, output, by);
out:
    rows->style = NULL;
    for (size_t i = 0; i < read; i++)
        measurement_free(&m[i]);
    free(m);
    free(path);
    free(order.text);
    table_free(&table);
    return st;
}
