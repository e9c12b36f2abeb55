/* Tables of a sweep. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep.h"

static const char *label_of(const struct experiment *e, size_t point, size_t axis)
{
    return e->axis[axis].choice[experiment_choice(e, point, axis)].label;
}

void sweep_print_list(const struct sweep_points *p, FILE *to)
{
    const struct experiment *e = p->e;
    fputs("point\thash", to);
    for (size_t i = 0; i < e->axes; i++)
        fprintf(to, "\t%s", e->axis[i].name);
    for (size_t k = 0; k < p->n; k++) {
        fprintf(to, "\n%zu\t%.12s", p->number[k], p->hash[k]);
        for (size_t i = 0; i < e->axes; i++)
            fprintf(to, "\t%s", label_of(e, p->number[k], i));
    }
    fputc('\n', to);
}

/* ---- all rows */

/* In comma-separated rows a text with commas or quotes stands in quotes, as RFC 4180 says. */
static void put_cell(const char *text, char separator, FILE *to)
{
    if (separator == '\t' || !strpbrk(text, ",\"\n")) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', to);
}

static void put_row(const struct experiment *e, size_t point, const struct sweep_result *r,
                    char separator, FILE *to)
{
    char text[SWEEP_VALUE];
    fprintf(to, "%zu", point);
    for (size_t i = 0; i < e->axes; i++)
        if (strcmp(e->axis[i].name, "engine") != 0) { /* the result says which */
            fputc(separator, to);
            put_cell(label_of(e, point, i), separator, to);
        }
    fputc(separator, to);
    fputs(sweep_status_names[r->status], to);
    bool predicted = r->iteration_s > 0;
    for (size_t i = 0; i < sweep_columns_n; i++) {
        fputc(separator, to);
        if (predicted || !strcmp(sweep_columns[i].name, "engine"))
            put_cell(sweep_column_print(&sweep_columns[i], r, text), separator, to);
    }
    fputc(separator, to);
    put_cell(r->reason, separator, to);
    fputc('\n', to);
}

static enum status put_rows(const struct sweep_points *p, struct sweep_database *db, char separator,
                            FILE *to)
{
    enum status st = STATUS_OK;
    for (size_t k = 0; k < p->n; k++) {
        struct sweep_result r;
        bool found;
        TRY(database_get(db, p->hash[k], &found, &r));
        if (found)
            put_row(p->e, p->number[k], &r, separator, to);
    }
out:
    return st;
}

enum status sweep_print_rows(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct sweep_database *db, char separator, FILE *to)
{
    enum status st;
    const struct experiment *e = all->e;
    fputs("point", to);
    for (size_t i = 0; i < e->axes; i++)
        if (strcmp(e->axis[i].name, "engine") != 0)
            fprintf(to, "%c%s", separator, e->axis[i].name);
    fprintf(to, "%cstatus", separator);
    for (size_t i = 0; i < sweep_columns_n; i++)
        fprintf(to, "%c%s", separator, sweep_columns[i].name);
    fprintf(to, "%creason\n", separator);
    TRY(put_rows(all, db, separator, to));
    if (finalists)
        TRY(put_rows(finalists, db, separator, to));
out:
    return st;
}

/* ---- the best */

enum { CELL = 48 };

/* A table of texts, written when all widths are known. */
struct table {
    size_t columns, rows;
    char (*cell)[CELL];         /* [rows * columns] */
    char (*note)[SWEEP_REASON]; /* [rows] behind the last column */
};

static void put_table(const struct table *t, const bool *right, FILE *to)
{
    int width[EXPERIMENT_AXES + 3] = {0};
    for (size_t k = 0; k < t->rows * t->columns; k++) {
        int n = (int)strlen(t->cell[k]);
        width[k % t->columns] = n > width[k % t->columns] ? n : width[k % t->columns];
    }
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++)
            fprintf(to, "%s%*s", c ? "  " : "", right[c] ? width[c] : -width[c],
                    t->cell[r * t->columns + c]);
        fprintf(to, "  %s\n", t->note[r]);
    }
}

/* What the table is made from. */
struct best {
    const struct sweep_points *all, *finalists;
    struct sweep_database *db;
    struct sweep_ranking quick, last; /* by all points; by finalists too */
    size_t previous;                  /* best point of the row above, SIZE_MAX: none */
};

static const char *hash_of(const struct sweep_points *p, size_t number)
{
    for (size_t i = 0; p && i < p->n; i++)
        if (p->number[i] == number)
            return p->hash[i];
    return NULL;
}

static bool is_column(const struct experiment *e, size_t axis, bool chosen)
{
    return e->axis[axis].n > 1 && !e->axis[axis].seeds && e->axis[axis].chosen == chosen;
}

/* Along the last axis only: does the group stand right behind the other in a row of the same? */
static bool follows(const struct experiment *e, size_t before, size_t group)
{
    size_t last = e->axes;
    while (last > 0 && !is_column(e, last - 1, false))
        last--;
    for (size_t i = 0; i < e->axes; i++)
        if (i + 1 != last && is_column(e, i, false) &&
            experiment_choice(e, before, i) != experiment_choice(e, group, i))
            return false;
    return true;
}

static bool same_choice(const struct experiment *e, size_t a, size_t b)
{
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, true) && experiment_choice(e, a, i) != experiment_choice(e, b, i))
            return false;
    return true;
}

/* Scores are samples per second, or seconds below zero. */
static void print_score(const struct experiment *e, double score, char text[CELL])
{
    if (isnan(score))
        snprintf(text, CELL, "-");
    else
        snprintf(text, CELL, "%.4g", e->fewest_seconds ? -score : score);
}

/* How much the second best is behind. */
static void print_margin(const struct experiment *e, const double *score, const size_t *best,
                         size_t scored, char text[CELL])
{
    snprintf(text, CELL, "-");
    if (scored < 2)
        return;
    double first = score[best[0]], second = score[best[1]];
    double ahead = e->fewest_seconds ? second / first : first / second;
    snprintf(text, CELL, "%.1f %%", 100 * (ahead - 1));
}

static enum status fill_row(struct best *b, size_t group, char (*cell)[CELL],
                            char note[SWEEP_REASON])
{
    enum status st = STATUS_OK;
    const struct experiment *e = b->all->e;
    size_t best[2], c = 0, scored = sweep_best(&b->last, group, best, 2);
    struct sweep_result r = {0};
    bool found = false;
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, false))
            snprintf(cell[c++], CELL, "%s", label_of(e, group, i));
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, true))
            snprintf(cell[c++], CELL, "%s", scored ? label_of(e, best[0], i) : "-");
    print_score(e, scored ? b->quick.score[best[0]] : NAN, cell[c++]);
    if (b->finalists)
        print_score(e, scored ? b->last.score[best[0]] : NAN, cell[c++]);
    print_margin(e, b->last.score, best, scored, cell[c++]);
    const char *hash = scored ? hash_of(b->finalists, best[0]) : b->all->hash[group];
    if (scored && !hash)
        hash = b->all->hash[best[0]];
    TRY(database_get(b->db, hash, &found, &r));
    bool changed = scored && b->previous != SIZE_MAX && follows(e, b->previous, group) &&
                   !same_choice(e, b->previous, best[0]);
    const char *text = scored ? r.bottleneck : found ? r.reason : "not computed yet";
    snprintf(note, SWEEP_REASON, "%s%.*s", changed ? "<- changes; " : "",
             SWEEP_REASON - (int)sizeof "<- changes; ", text);
    b->previous = scored ? best[0] : SIZE_MAX;
out:
    return st;
}

/* Widths of text columns; the first row is the heading. */
static size_t fill_heading(const struct best *b, char (*cell)[CELL], bool *right)
{
    const struct experiment *e = b->all->e;
    const char *unit = e->fewest_seconds ? "iteration_s" : "samples/s";
    size_t c = 0;
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (is_column(e, i, chosen))
                snprintf(cell[c++], CELL, "%s%s", chosen ? "best " : "", e->axis[i].name);
    size_t texts = c;
    snprintf(cell[c++], CELL, "%s", unit);
    if (b->finalists)
        snprintf(cell[c++], CELL, "simgrid");
    snprintf(cell[c++], CELL, "ahead by");
    for (size_t i = 0; i < c; i++)
        right[i] = i >= texts;
    return c;
}

static size_t count_groups(const struct experiment *e)
{
    size_t n = 0;
    for (size_t g = 0; g < e->points; g++)
        n += sweep_is_group(e, g);
    return n;
}

enum status sweep_print_best(const struct sweep_points *all, const struct sweep_points *finalists,
                             struct sweep_database *db, FILE *to)
{
    enum status st;
    enum { COLUMNS = EXPERIMENT_AXES + 3 };
    const struct experiment *e = all->e;
    bool right[COLUMNS];
    size_t row = 0, rows = count_groups(e) + 1;
    struct best b = {.all = all, .finalists = finalists, .db = db, .previous = SIZE_MAX};
    struct table t = {.rows = rows};
    char(*heading)[CELL] = calloc(COLUMNS, sizeof *heading);
    t.note = calloc(rows, sizeof *t.note);
    if (!heading || !t.note) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    t.columns = fill_heading(&b, heading, right);
    t.cell = calloc(rows * t.columns, sizeof *t.cell);
    if (!t.cell) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    memcpy(t.cell, heading, t.columns * sizeof *t.cell);
    snprintf(t.note[row++], SWEEP_REASON, "time of all ranks");
    TRY(sweep_rank(all, NULL, db, &b.quick));
    TRY(sweep_rank(all, finalists, db, &b.last));
    for (size_t g = 0; g < e->points; g++)
        if (sweep_is_group(e, g)) {
            TRY(fill_row(&b, g, &t.cell[row * t.columns], t.note[row]));
            row++;
        }
    put_table(&t, right, to);
out:
    sweep_ranking_free(&b.quick);
    sweep_ranking_free(&b.last);
    free(heading);
    free(t.cell);
    free(t.note);
    return st;
}
