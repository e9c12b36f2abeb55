/* The table of measured iterations: rows become plans. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/path.h"
#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "host/folder.h"
#include "plots/table.h"
#include "study/fit.h"
#include "study/point.h"

enum { FIT_EXPERIMENT = 1 << 16 };

/* What a column is, by its name; anything else is a setting. */
enum fit_column { COLUMN_SETTING, COLUMN_PLAN, COLUMN_SECONDS, COLUMN_MEMORY, COLUMN_NAME };

static enum fit_column fit_column_of(const char *name)
{
    static const struct {
        const char *name;
        enum fit_column column;
    } all[] = {{"plan", COLUMN_PLAN},          {"iteration_s", COLUMN_SECONDS},
               {"measured_s", COLUMN_SECONDS}, {"step_s", COLUMN_SECONDS},
               {"seconds", COLUMN_SECONDS},    {"memory", COLUMN_MEMORY},
               {"peak_bytes", COLUMN_MEMORY},  {"name", COLUMN_NAME}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name))
            return all[i].column;
    return COLUMN_SETTING;
}

/* A bare number, or one with a unit; empty: 0. */
static enum status fit_read_figure(const char *text, enum unit unit, const char *what, double *out)
{
    if (*text == '\0' || text_real(text, out) || units_parse(unit, text, out) == STATUS_OK) {
        if (*text == '\0' || *out > 0)
            return STATUS_OK;
        return error_set(STATUS_PARSE, "%s: got '%.40s', expected more than 0", what, text);
    }
    return error_set(STATUS_PARSE, "%s: got '%.40s', expected %s", what, text,
                     unit == UNIT_SECONDS ? "seconds, such as 12.5 or 800ms"
                                          : "bytes, such as 61.5GiB");
}

/* "stages" is an option of plans; "model" and "plan.stages" are settings by themselves. */
static const char *fit_setting_prefix(const char *name)
{
    bool known = strchr(name, '.') || setting_find(name, TAKES(KEY_POINT));
    return known ? "" : "plan.";
}

/* The settings of a row as an experiment of one point: a line each. */
static enum status fit_write_experiment(const struct plot_table *t, size_t i, FILE *to)
{
    bool algorithm = false;
    for (size_t k = 0; k < t->columns; k++) {
        const char *cell = table_cell(t, i, k), *name = t->name[k];
        if (fit_column_of(name) != COLUMN_SETTING || *cell == '\0')
            continue;
        algorithm |= !strcmp(name, "algorithm") || !strcmp(name, "plan.algorithm");
        if (strpbrk(cell, "\"\\\n"))
            return error_set(STATUS_PARSE,
                             "column %s: unsupported character (quote, backslash or line break) in "
                             "'%.40s'",
                             name, cell);
        fprintf(to, "%s%s: \"%s\"\n", fit_setting_prefix(name), name, cell);
    }
    if (!algorithm)
        fputs("plan.algorithm: uniform\n", to);
    return STATUS_OK;
}

/* Files are looked for beside the table. */
static enum status fit_make_plan(const struct fit *f, const struct plot_table *t, size_t i,
                                 struct loaded_plan *out)
{
    enum status st;
    const struct provenance by = {.version = foreline_version, .command = "foreline calibrate"};
    const struct experiment_check check = {.setting = point_check};
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE];
    struct file_text text = {0};
    struct experiment e = {0};
    struct point p = {0};
    PASS(folder_temporary(folder));
    TRY(file_text_open(&text));
    TRY(file_text_close(&text, fit_write_experiment(t, i, text.stream)));
    TRY(experiment_parse(f->path, text.text, text.length, &check, &e));
    TRY(point_make(&e, 0, engine_quick(), &p));
    TRY(point_write_plan(&p, folder_file(folder, "plan.json", path), &by));
    TRY(load_plan_warn(path, NULL, out));
out:
    point_free(&p);
    experiment_free(&e);
    free(text.text);
    folder_remove(folder);
    return st;
}

/* One row of the table as one of the fit, which has it whatever comes of it. */
static enum status fit_read_row(struct fit *f, const struct plot_table *t, size_t i)
{
    enum status st;
    char *found = NULL;
    const char *plan = NULL, *name = NULL;
    PASS(ARRAY_ROOM(f->row, f->rows));
    struct fit_row *row = &f->row[f->rows++];
    *row = (struct fit_row){.line = t->line[i]};
    for (size_t k = 0; k < t->columns; k++) {
        const char *cell = table_cell(t, i, k);
        cell += strspn(cell, " ");
        switch (fit_column_of(t->name[k])) {
        case COLUMN_SECONDS:
            TRY(fit_read_figure(cell, UNIT_SECONDS, t->name[k], &row->measured_s));
            break;
        case COLUMN_MEMORY:
            TRY(fit_read_figure(cell, UNIT_BYTES, t->name[k], &row->measured_bytes));
            break;
        case COLUMN_PLAN:
            plan = *cell ? cell : NULL;
            break;
        case COLUMN_NAME:
            name = cell;
            break;
        default:
            break;
        }
    }
    char number[32];
    snprintf(number, sizeof number, "row %zu", f->rows);
    TRY(text_copy(name ? name : plan ? plan : number, &row->name));
    if (!plan) {
        TRY(fit_make_plan(f, t, i, &row->plan));
    } else {
        TRY(path_find(plan, f->path, &found));
        TRY(load_plan_warn(found, NULL, &row->plan));
    }
    f->measured += row->measured_s > 0;
    f->memories += row->measured_bytes > 0;
out:
    free(found);
    return st;
}

/* Lines of a plan file and seconds get names. */
static enum status fit_read_table(const char *path, struct plot_table *out)
{
    static const char *const names[] = {"plan,iteration_s\n", "plan\titeration_s\n"};
    enum status st;
    char *text = NULL, last[64];
    size_t length;
    double number;
    struct file_text named = {0};
    TRY(file_read(path, &text, &length));
    const char *line = text;
    while (*line == '#' || *line == '\n')
        line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
    size_t n = strcspn(line, "\r\n"), at = n;
    while (at > 0 && line[at - 1] != ',' && line[at - 1] != '\t')
        at--;
    snprintf(last, sizeof last, "%.*s", (int)(n - at), line + at);
    bool bare = at > 0 && text_real(last + strspn(last, " "), &number);
    TRY(file_text_open(&named));
    fputs(bare ? names[line[at - 1] == '\t'] : "", named.stream);
    fwrite(text, 1, length, named.stream);
    TRY(file_text_close(&named, STATUS_OK));
    TRY(table_parse(path, named.text, named.length, out));
    for (size_t i = 0; i < out->rows && bare; i++)
        out->line[i]--;
out:
    free(text);
    free(named.text);
    return st;
}

enum status fit_read_rows(const char *path, FILE *notes, struct fit *f)
{
    enum status st;
    size_t bad = 0;
    struct plot_table t = {0};
    TRY(text_copy(path, &f->path));
    TRY(fit_read_table(path, &t));
    bool timed = false;
    for (size_t k = 0; k < t.columns; k++)
        timed |= fit_column_of(t.name[k]) == COLUMN_SECONDS;
    if (!timed)
        FAIL(STATUS_PARSE, "%s: column iteration_s (seconds of an iteration) is missing", path);
    if (t.rows > FIT_ROWS)
        FAIL(STATUS_PARSE, "%s: got %zu rows, a fit takes up to %d", path, t.rows, FIT_ROWS);
    for (size_t i = 0; i < t.rows; i++) {
        st = fit_read_row(f, &t, i);
        if (st == STATUS_NOMEM)
            goto out;
        if (st != STATUS_OK && notes)
            fprintf(notes, "%s:%zu: %s\n", path, t.line[i], error_message());
        bad += st != STATUS_OK;
    }
    st = STATUS_OK;
    if (bad > 0)
        FAIL(STATUS_INVALID, "%s: %zu of %zu rows cannot be used", path, bad, t.rows);
out:
    table_free(&t);
    return st;
}
