/* The best choice of each group as a table, and where it changes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/sweep.h"


enum status sweep_get(const struct sweep_points *p, struct database *db, size_t number,
                      bool *found, struct point_result *out)
{
    *found = false;
    if (number < p->n && p->number[number] == number) /* all of them */
        return database_get(db, p->hash[number], found, out);
    for (size_t i = 0; i < p->n; i++)
        if (p->number[i] == number)
            return database_get(db, p->hash[i], found, out);
    return STATUS_OK;
}

/* What the table is made from. */
struct best {
    const struct sweep_points *all, *finalists;
    struct database *db;
    struct sweep_ranking quick, last; /* by all points; by finalists too */
    size_t previous;                  /* best point of the row above, SIZE_MAX: none */
};

/* Does an axis have a column, of what is chosen or of the rest? */
static bool is_column(const struct experiment *e, size_t axis, bool chosen)
{
    return e->axis[axis].n > 1 && !e->axis[axis].seeds && e->axis[axis].chosen == chosen;
}

size_t sweep_along(const struct experiment *e)
{
    size_t last = e->axes;
    while (last > 0 && !is_column(e, last - 1, false))
        last--;
    return last > 0 ? last - 1 : e->axes;
}

/* Does the group stand right behind the other in a row of the same? */
static bool follows(const struct experiment *e, size_t before, size_t group)
{
    size_t along = sweep_along(e);
    for (size_t i = 0; i < e->axes; i++)
        if (i != along && is_column(e, i, false) &&
            experiment_choice(e, before, i) != experiment_choice(e, group, i))
            return false;
    return true;
}

const char *sweep_plan_label(const struct experiment *e, size_t point, char text[RESULT_VALUE])
{
    size_t n = 0;
    snprintf(text, RESULT_VALUE, "-");
    for (size_t i = 0; i < e->axes && n < RESULT_VALUE; i++) {
        const char *name = e->axis[i].name, *label = experiment_label(e, point, i);
        if (!is_column(e, i, true))
            continue;
        bool case_ = !strcmp(name, "case");
        name = !strncmp(name, "plan.", strlen("plan.")) ? name + strlen("plan.") : name;
        n += (size_t)snprintf(text + n, RESULT_VALUE - n, "%s%s%s%s", n ? ", " : "",
                              case_ ? "" : name, case_ ? "" : " ", label);
    }
    return text;
}

static bool same_choice(const struct experiment *e, size_t a, size_t b)
{
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, true) && experiment_choice(e, a, i) != experiment_choice(e, b, i))
            return false;
    return true;
}

/* Scores are samples per second, or seconds below zero. */
static void print_score(const struct experiment *e, double score, char text[SWEEP_CELL])
{
    if (isnan(score))
        snprintf(text, SWEEP_CELL, "-");
    else
        snprintf(text, SWEEP_CELL, "%.4g", e->fewest_seconds ? -score : score);
}

/* How much the second best is behind. */
static void print_margin(const struct experiment *e, const double *score, const size_t *best,
                         size_t scored, char text[SWEEP_CELL])
{
    snprintf(text, SWEEP_CELL, "-");
    if (scored < 2)
        return;
    double first = score[best[0]], second = score[best[1]];
    double ahead = e->fewest_seconds ? second / first : first / second;
    snprintf(text, SWEEP_CELL, "%.1f %%", 100 * (ahead - 1));
}

static enum status fill_row(struct best *b, size_t group, struct sweep_table *t, size_t row)
{
    enum status st = STATUS_OK;
    const struct experiment *e = b->all->e;
    char(*cell)[SWEEP_CELL] = &t->cell[row * t->columns];
    size_t best[2], c = 0, scored = sweep_best(&b->last, group, best, 2);
    struct point_result r = {0};
    bool found = false;
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, false))
            snprintf(cell[c++], SWEEP_CELL, "%s", experiment_label(e, group, i));
    for (size_t i = 0; i < e->axes; i++)
        if (is_column(e, i, true))
            snprintf(cell[c++], SWEEP_CELL, "%s", scored ? experiment_label(e, best[0], i) : "-");
    print_score(e, scored ? b->quick.score[best[0]] : NAN, cell[c++]);
    if (b->finalists)
        print_score(e, scored ? b->last.score[best[0]] : NAN, cell[c++]);
    print_margin(e, b->last.score, best, scored, cell[c++]);
    if (scored && b->finalists)
        TRY(sweep_get(b->finalists, b->db, best[0], &found, &r));
    if (!found)
        TRY(sweep_get(b->all, b->db, scored ? best[0] : group, &found, &r));
    snprintf(t->note[row], RESULT_REASON, "%s",
             scored  ? r.bottleneck
             : found ? r.reason
                     : "not computed yet");
    bool changed = scored && b->previous != SIZE_MAX && follows(e, b->previous, group) &&
                   !same_choice(e, b->previous, best[0]);
    t->best[row] = scored ? best[0] : SIZE_MAX;
    t->before[row] = changed ? b->previous : SIZE_MAX;
    b->previous = t->best[row];
out:
    return st;
}

/* Widths of text columns; the first row is the heading. */
static size_t fill_heading(const struct best *b, char (*cell)[SWEEP_CELL], bool *right)
{
    const struct experiment *e = b->all->e;
    const char *unit = e->fewest_seconds ? "iteration_s" : "samples/s";
    size_t c = 0;
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (is_column(e, i, chosen))
                snprintf(cell[c++], SWEEP_CELL, "%s%s", chosen ? "best " : "", e->axis[i].name);
    size_t texts = c;
    snprintf(cell[c++], SWEEP_CELL, "%s", unit);
    if (b->finalists)
        snprintf(cell[c++], SWEEP_CELL, "simgrid");
    snprintf(cell[c++], SWEEP_CELL, "ahead by");
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

static enum status allocate(struct sweep_table *t, size_t rows)
{
    t->rows = rows;
    t->cell = calloc(rows * t->columns, sizeof *t->cell);
    t->note = calloc(rows, sizeof *t->note);
    t->best = malloc(rows * sizeof *t->best);
    t->before = malloc(rows * sizeof *t->before);
    if (!t->cell || !t->note || !t->best || !t->before)
        return error_set(STATUS_NOMEM, "%zu rows", rows);
    t->best[0] = t->before[0] = SIZE_MAX;
    return STATUS_OK;
}

enum status sweep_tabulate(const struct sweep_points *all, const struct sweep_points *finalists,
                           struct database *db, struct sweep_table *out)
{
    enum status st;
    const struct experiment *e = all->e;
    struct best b = {.all = all, .finalists = finalists, .db = db, .previous = SIZE_MAX};
    struct sweep_table t = {0};
    size_t row = 1;
    char(*heading)[SWEEP_CELL] = calloc(SWEEP_COLUMNS, sizeof *heading);
    if (!heading)
        return error_set(STATUS_NOMEM, "out of memory");
    t.columns = fill_heading(&b, heading, t.right);
    TRY(allocate(&t, count_groups(e) + 1));
    memcpy(t.cell, heading, t.columns * sizeof *t.cell);
    snprintf(t.note[0], RESULT_REASON, "time of all ranks");
    TRY(sweep_rank(all, NULL, db, &b.quick));
    TRY(sweep_rank(all, finalists, db, &b.last));
    for (size_t g = 0; g < e->points; g++)
        if (sweep_is_group(e, g))
            TRY(fill_row(&b, g, &t, row++));
    *out = t;
    t = (struct sweep_table){0};
out:
    sweep_ranking_free(&b.quick);
    sweep_ranking_free(&b.last);
    sweep_table_free(&t);
    free(heading);
    return st;
}

void sweep_table_free(struct sweep_table *t)
{
    free(t->cell);
    free(t->note);
    free(t->best);
    free(t->before);
    *t = (struct sweep_table){0};
}
