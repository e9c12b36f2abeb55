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
    const char *const asked[] = {r->x, r->y, r->by, r->value};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (asked[i] && !strcmp(asked[i], name))
            return true;
    return r->where && strstr(r->where, name);
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

/* "640x480": each side from SIDE_LEAST to SIDE_MOST pixels; "8.5x6cm": of a PDF, which is laid out
 * on FIGURE_COLUMN pixels at least, so that narrow ones have smaller letters. */
static enum status plot_read_size(const char *text, struct plot_style *out)
{
    enum { SIDE_LEAST = 200, SIDE_MOST = 8000 };
    int width = 0, height = 0, end = 0;
    float width_cm = 0, height_cm = 0;
    if (sscanf(text, "%6fx%6fcm%n", &width_cm, &height_cm, &end) == 2 && end > 0 && width_cm >= 1 &&
        width_cm < 160 && height_cm >= 1 && height_cm < 160) {
        float pixels = width_cm * FIGURE_DPI / 2.54F;
        out->scale = fminf(pixels / FIGURE_COLUMN, 1);
        width = (int)lroundf(fmaxf(pixels, FIGURE_COLUMN));
        height = (int)lroundf((float)width * height_cm / width_cm);
    } else if (sscanf(text, "%4dx%4d%n", &width, &height, &end) != 2) {
        width = height = 0;
    }
    if (text[end] || width < SIDE_LEAST || height < SIDE_LEAST || width > SIDE_MOST ||
        height > SIDE_MOST)
        return error_set(
            STATUS_USAGE,
            "--size: got '%.40s', expected WIDTHxHEIGHT, %d to %d pixels each, such as 640x400, or "
            "such as 8.5x6cm for a PDF",
            text, SIDE_LEAST, SIDE_MOST);
    out->width = width;
    out->height = height;
    return STATUS_OK;
}

/* A style that a kind does not obey is refused, with the kinds that do. */
static enum status check_style(const struct plot_kind *kind, const char *option, unsigned style)
{
    char list[200] = "";
    if (kind->styles & style)
        return STATUS_OK;
    for (size_t i = 0, n = 0; i < plot_kinds_n && n < sizeof list; i++)
        if (plot_kinds[i]->styles & style)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "",
                                  plot_kinds[i]->name);
    return error_set(STATUS_USAGE, "plot %s does not support --%s (kinds that do: %s)", kind->name,
                     option, list);
}

static enum status read_style(const struct plot_kind *kind, const struct plot_request *r,
                              struct plot_style *out)
{
    *out = (struct plot_style){.title = r->title, .xlabel = r->xlabel, .ylabel = r->ylabel};
    if (r->xlabel)
        PASS(check_style(kind, "xlabel", STYLE_XLABEL));
    if (r->ylabel)
        PASS(check_style(kind, "ylabel", STYLE_YLABEL));
    if (r->size) {
        PASS(check_style(kind, "size", STYLE_SIZE));
        PASS(plot_read_size(r->size, out));
    }
    if (r->log) {
        PASS(check_style(kind, "log", STYLE_LOG));
        if (strcmp(r->log, "x") != 0 && strcmp(r->log, "y") != 0 && strcmp(r->log, "xy") != 0)
            return error_set(STATUS_USAGE, "--log: got '%.40s', expected x, y or xy", r->log);
        out->log_x = strchr(r->log, 'x');
        out->log_y = strchr(r->log, 'y');
    }
    return STATUS_OK;
}

enum status plot_files(const struct plot_kind *kind, const struct plot_request *r,
                       const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct measurement *m = NULL;
    struct plot_table table = {0}, *rows = r->table ? r->table : &table;
    size_t read = 0;
    char note[PLOT_NOTE] = "";
    struct plot_style style;
    bool measured = kind->input == PLOT_MEASUREMENT || kind->input == PLOT_MEASUREMENTS;
    if (r->n < 1 || (r->n > 1 && kind->input != PLOT_MEASUREMENTS && kind->input != PLOT_TRACES))
        return error_set(STATUS_USAGE, "plot %s takes %s", kind->name,
                         kind->input == PLOT_TRACES         ? "traces"
                         : kind->input == PLOT_TABLE        ? "one table"
                         : kind->input == PLOT_MODEL        ? "one model"
                         : kind->input == PLOT_GRAPH        ? "one model or plan"
                         : kind->input == PLOT_MEASUREMENTS ? "measurements"
                                                            : "one measurement");
    PASS(read_style(kind, r, &style));
    PASS(plot_keep_inputs(r, output));
    if (measured) {
        PASS(ARRAY_NEW(m, r->n));
        for (; read < r->n; read++)
            TRY(measurement_read(r->path[read], &m[read]));
    } else if (kind->input == PLOT_TABLE) {
        if (!r->table)
            TRY(table_read(r->path[0], &table));
        TRY(plot_choose_rows(rows, r, note));
    }
    const struct plot_source source = {.n = r->n,
                                       .path = r->path,
                                       .m = m,
                                       .table = rows,
                                       .x = r->x,
                                       .y = r->y,
                                       .by = r->by,
                                       .value = r->value,
                                       .window = r->window,
                                       .style = style,
                                       .rows = note};
    st = kind->draw(&source, output, by);
out:
    for (size_t i = 0; i < read; i++)
        measurement_free(&m[i]);
    free(m);
    table_free(&table);
    return st;
}
