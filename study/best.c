/* The best choice of each group as a table, and where it changes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/strategy/framework.h"
#include "sim/engines.h"
#include "study/rank.h"

/* What the table is made from. */
struct best {
    const struct sweep *s;
    struct ranking quick, last; /* by all points; by finalists too */
    bool mixed; /* not all of the best are times of one framework: the table says of which */
};

/* Scores are samples per second, or seconds below zero. */
static void print_score(const struct experiment *e, double score, char text[BEST_CELL])
{
    if (isnan(score))
        snprintf(text, BEST_CELL, "-");
    else
        snprintf(text, BEST_CELL, "%.4g", e->fewest_seconds ? -score : score);
}

static bool has_prices(const struct experiment *e)
{
    return experiment_find(e, "prices") < e->axes;
}

static void print_cost(double cost, char text[BEST_CELL])
{
    if (isnan(cost))
        snprintf(text, BEST_CELL, "-");
    else
        snprintf(text, BEST_CELL, "%.7g", cost);
}

/* How much the best is ahead of the second best: of rates their ratio, of times the inverse one,
 * less 1; NAN: there is no second one. */
static double best_ahead(const struct experiment *e, const double *score, const size_t *best,
                         size_t scored)
{
    if (scored < 2)
        return NAN;
    double first = score[best[0]], second = score[best[1]];
    return (e->fewest_seconds ? second / first : first / second) - 1;
}

static void print_margin(double ahead, char text[BEST_CELL])
{
    if (isnan(ahead))
        snprintf(text, BEST_CELL, "-");
    else
        snprintf(text, BEST_CELL, "%.1f %%", 100 * ahead);
}

/* Whose times the best point of a group has; "-": of none. */
static enum status framework_of_best(const struct best *b, size_t group, char text[RESULT_NAME])
{
    struct point_result r = {0};
    size_t best;
    bool found;
    snprintf(text, RESULT_NAME, "-");
    if (rank_best(&b->last, group, &best, 1) == 0)
        return STATUS_OK;
    PASS(sweep_get_best(b->s, best, &found, &r));
    snprintf(text, RESULT_NAME, "%s", *r.framework ? r.framework : framework_name(0));
    return STATUS_OK;
}

static enum status find_mixed(struct best *b)
{
    char first[RESULT_NAME] = "-", other[RESULT_NAME];
    for (size_t g = 0; g < b->s->e.points; g++)
        if (rank_is_group(&b->s->e, g)) {
            PASS(framework_of_best(b, g, other));
            b->mixed |= strcmp(first, "-") && strcmp(other, "-") && strcmp(first, other);
            if (strcmp(other, "-"))
                memcpy(first, other, sizeof first);
        }
    return STATUS_OK;
}

/* A row: the group, its best choice, scores by both engines, margin, and in words where the time
 * goes, or why there is no best. A change is another choice than that of the last row above that
 * differs only along the axis that changes are sought along. */
static enum status best_fill_row(struct best *b, size_t group, struct best_table *t, size_t row)
{
    const struct experiment *e = &b->s->e;
    char(*text)[BEST_CELL] = &t->text[row * BEST_COLUMNS];
    const char **cell = &t->cell[row * t->columns];
    size_t best[2], c = 0, scored = rank_best(&b->last, group, best, 2);
    struct point_result r = {0};
    bool found;
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (rank_is_column(e, i, chosen))
                cell[c++] = !chosen  ? experiment_label(e, group, i)
                            : scored ? experiment_label(e, best[0], i)
                                     : "-";
    size_t labels = c;
    for (; c < t->columns; c++)
        cell[c] = text[c];
    c = labels;
    if (b->mixed)
        PASS(framework_of_best(b, group, text[c++]));
    print_score(e, scored ? b->quick.score[best[0]] : NAN, text[c++]);
    if (b->s->has_finalists)
        print_score(e, scored ? b->last.score[best[0]] : NAN, text[c++]);
    t->ahead[row] = best_ahead(e, b->last.score, best, scored);
    print_margin(t->ahead[row], text[c++]);
    if (scored)
        PASS(sweep_get_best(b->s, best[0], &found, &r));
    else
        PASS(sweep_get(b->s, group, false, &found, &r));
    if (has_prices(e))
        print_cost(scored ? r.cost : NAN, text[c++]);
    snprintf(t->note[row], RESULT_REASON, "%s",
             scored  ? r.bottleneck
             : found ? r.reason
                     : "not computed yet");
    t->best[row] = scored ? best[0] : SIZE_MAX;
    t->second[row] = scored > 1 ? best[1] : SIZE_MAX;
    t->score[row] = scored ? b->last.score[best[0]] : NAN;
    size_t before = scored ? rank_before(e, t->best, row) : 0;
    bool changed = before > 0 && !rank_alike(e, t->best[before], best[0], true, e->axes);
    t->before[row] = changed ? t->best[before] : SIZE_MAX;
    return STATUS_OK;
}

/* Names of columns, of which numbers stand to the right; returns how many there are. */
static size_t fill_heading(const struct best *b, char (*cell)[BEST_CELL], bool *right)
{
    const struct sweep *s = b->s;
    const struct experiment *e = &s->e;
    size_t c = 0;
    for (int chosen = 0; chosen < 2; chosen++)
        for (size_t i = 0; i < e->axes; i++)
            if (rank_is_column(e, i, chosen))
                snprintf(cell[c++], BEST_CELL, "%s%s", chosen ? "best " : "", e->axis[i].name);
    if (b->mixed)
        snprintf(cell[c++], BEST_CELL, "framework");
    size_t texts = c;
    snprintf(cell[c++], BEST_CELL, "%s",
             e->by_days          ? "days"
             : e->fewest_seconds ? "iteration_s"
                                 : "samples/s");
    if (s->has_finalists)
        snprintf(cell[c++], BEST_CELL, "%s", engine_judge()->name);
    snprintf(cell[c++], BEST_CELL, "ahead by");
    if (has_prices(e))
        snprintf(cell[c++], BEST_CELL, "cost");
    for (size_t i = 0; i < c; i++)
        right[i] = i >= texts;
    return c;
}

static enum status best_allocate(const struct experiment *e, struct best_table *t)
{
    t->rows = 1;
    for (size_t g = 0; g < e->points; g++)
        t->rows += rank_is_group(e, g);
    PASS(ARRAY_NEW(t->cell, t->rows * BEST_COLUMNS));
    PASS(ARRAY_NEW(t->text, t->rows * BEST_COLUMNS));
    PASS(ARRAY_NEW(t->note, t->rows));
    PASS(ARRAY_NEW(t->best, t->rows));
    PASS(ARRAY_NEW(t->second, t->rows));
    PASS(ARRAY_NEW(t->before, t->rows));
    PASS(ARRAY_NEW(t->score, t->rows));
    PASS(ARRAY_NEW(t->ahead, t->rows));
    t->best[0] = t->second[0] = t->before[0] = SIZE_MAX;
    return STATUS_OK;
}

enum status best_tabulate(const struct sweep *s, struct best_table *out)
{
    enum status st;
    struct best b = {.s = s};
    struct best_table t = {0};
    size_t row = 1;
    TRY(best_allocate(&s->e, &t));
    TRY(rank_points(s, false, &b.quick));
    TRY(rank_points(s, s->has_finalists, &b.last));
    TRY(find_mixed(&b));
    t.mixed = b.mixed;
    t.columns = fill_heading(&b, t.text, t.right);
    for (size_t c = 0; c < t.columns; c++)
        t.cell[c] = t.text[c];
    snprintf(t.note[0], RESULT_REASON, "time of all ranks");
    for (size_t g = 0; g < s->e.points; g++)
        if (rank_is_group(&s->e, g))
            TRY(best_fill_row(&b, g, &t, row++));
    MOVE(out, t);
out:
    ranking_free(&b.quick);
    ranking_free(&b.last);
    best_table_free(&t);
    return st;
}

void best_table_free(struct best_table *t)
{
    free(t->cell);
    free(t->text);
    free(t->note);
    free(t->best);
    free(t->second);
    free(t->before);
    free(t->score);
    free(t->ahead);
    *t = (struct best_table){0};
}

/* Columns as wide as their widest cell, two blanks between them. */
enum status best_print(const struct sweep *s, FILE *to, FILE *notes)
{
    enum status st;
    struct best_table t = {0};
    int width[BEST_COLUMNS] = {0};
    TRY(best_tabulate(s, &t));
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
    if (t.mixed && experiment_find(&s->e, "framework") == s->e.axes)
        fprintf(notes,
                "warning: these rows are predicted for different frameworks, whose models of "
                "kernels differ; to compare only platforms, set framework: NAME for all\n");
out:
    best_table_free(&t);
    return st;
}
