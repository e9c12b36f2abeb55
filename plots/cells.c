/* Sorts rows by their place and hidden settings, so that repeats are neighbours. */
#include "plots/cells.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/text.h"

struct hidden {
    const struct plot_table *t;
    size_t n;
    size_t *column; /* [n] */
    bool *differs;  /* [n] at some place */
};

struct hidden_row {
    const struct hidden *hidden;
    size_t cell, row;
};

static bool is_shown(const size_t shown[CELLS_SHOWN], size_t column)
{
    for (size_t k = 0; k < CELLS_SHOWN; k++)
        if (shown[k] == column)
            return true;
    return false;
}

/* `plan` shows what is in it. */
static bool is_repeat(const char *name)
{
    return !strcmp(name, "plan") || !strcmp(name, "seed") || !strcmp(name, "plan.seed");
}

static enum status find_hidden(const struct plot_table *t, const size_t shown[CELLS_SHOWN],
                               struct hidden *out)
{
    size_t status = 0, plan = SIZE_MAX;
    *out = (struct hidden){.t = t};
    PASS(ARRAY_NEW(out->column, t->columns));
    PASS(ARRAY_NEW(out->differs, t->columns));
    while (status < t->columns && strcmp(t->name[status], "status") != 0)
        status++;
    for (size_t c = 0; c < status; c++)
        plan = strcmp(t->name[c], "plan") ? plan : c;
    bool plan_shown = plan != SIZE_MAX && is_shown(shown, plan);
    for (size_t c = 0; status < t->columns && c < status; c++)
        if (!is_shown(shown, c) && !is_repeat(t->name[c]) && table_varies(t, c) &&
            !(plan_shown && !strncmp(t->name[c], "plan.", strlen("plan."))))
            out->column[out->n++] = c;
    return STATUS_OK;
}

static int cells_compare(const struct hidden_row *a, const struct hidden_row *b)
{
    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    for (size_t k = 0; k < a->hidden->n; k++) {
        size_t c = a->hidden->column[k];
        int order =
            strcmp(table_cell(a->hidden->t, a->row, c), table_cell(a->hidden->t, b->row, c));
        if (order != 0)
            return order;
    }
    return 0;
}

static int cells_by_place(const void *a, const void *b)
{
    const struct hidden_row *x = a, *y = b;
    int order = cells_compare(x, y);
    return order ? order : x->row < y->row ? -1 : x->row > y->row;
}

/* Settings in which two rows of one place differ. */
static void find_differences(const struct hidden_row *a, const struct hidden_row *b,
                             struct hidden *h)
{
    for (size_t k = 0; a->cell == b->cell && k < h->n; k++)
        h->differs[k] |= strcmp(table_cell(h->t, a->row, h->column[k]),
                                table_cell(h->t, b->row, h->column[k])) != 0;
}

/* What one value was made of: the best over settings, the median of up to `most` repeats. */
static void name_hidden(const struct hidden *h, bool lowest, size_t most, char note[CELLS_NOTE])
{
    size_t n = 0;
    note[0] = '\0';
    for (size_t k = 0; k < h->n && n < CELLS_NOTE - 1; k++)
        if (h->differs[k])
            n += (size_t)snprintf(note + n, CELLS_NOTE - n, "%s%.40s",
                                  n > 0    ? ", "
                                  : lowest ? "lowest over "
                                           : "highest over ",
                                  h->t->name[h->column[k]]);
    if (most > 1 && n < CELLS_NOTE - 1)
        snprintf(note + n, CELLS_NOTE - n, "%smedians of up to %zu rows", n > 0 ? "; " : "", most);
}

/* The column of standard deviations of what y is; SIZE_MAX: none. */
static size_t find_deviation(const struct plot_table *t, const char *name)
{
    static const char *const words[] = {"stddev", "std", "sd"};
    const char *unit = strrchr(name, '_');
    int stem = unit ? (int)(unit - name) : (int)strlen(name);
    char with[2][128];
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        snprintf(with[0], sizeof with[0], "%.*s_%s%s", stem, name, words[k], unit ? unit : "");
        snprintf(with[1], sizeof with[1], "%s_%s", name, words[k]);
        for (size_t c = 0; c < t->columns; c++)
            if (!strcmp(t->name[c], with[0]) || !strcmp(t->name[c], with[1]))
                return c;
    }
    return SIZE_MAX;
}

/* The largest k for which the k-th lowest to the k-th highest of n values hold the median with 95 %
 * probability; 0: none does. */
static size_t median_rank(size_t n)
{
    double below = 0; /* probability that at most k values are below the median */
    size_t k = 0;
    for (; 2 * k < n; k++) {
        double count = (double)n, at = (double)k;
        below += exp(lgamma(count + 1) - lgamma(at + 1) - lgamma(count - at + 1) - count * log(2));
        if (below > 0.025)
            break;
    }
    return k;
}

bool errors_of(enum plot_errors errors, double *value, size_t n, double spread[2])
{
    size_t rank = 1;
    double share = errors == ERRORS_IQR ? 0.25 : errors == ERRORS_P5_P95 ? 0.05 : 0;
    if (errors == ERRORS_CI)
        rank = median_rank(n);
    if (errors == ERRORS_NONE || n < 2 || rank == 0)
        return false;
    qsort(value, n, sizeof *value, by_value);
    spread[0] = errors == ERRORS_CI ? value[rank - 1] : quantile_sorted(value, n, share);
    spread[1] = errors == ERRORS_CI ? value[n - rank] : quantile_sorted(value, n, 1 - share);
    return spread[1] > spread[0];
}

const char *errors_words(enum plot_errors errors)
{
    static const char *const words[] = {[ERRORS_KIND] = "lowest to highest of repeats",
                                        [ERRORS_NONE] = "",
                                        [ERRORS_RANGE] = "lowest to highest of repeats",
                                        [ERRORS_IQR] = "25 % to 75 % of repeats",
                                        [ERRORS_P5_P95] = "5 % to 95 % of repeats",
                                        [ERRORS_CI] = "95 % confidence interval of the median"};
    return words[errors];
}

/* The ends of the error bar of n values; `row` is one of them. */
static bool cells_spread_of(const struct cells *c, size_t deviation, size_t row, double *same,
                            size_t n, double spread[2])
{
    double value = same[0], half = 0;
    bool ranges = c->errors == ERRORS_KIND || c->errors == ERRORS_RANGE;
    if (n == 1 && ranges && deviation != SIZE_MAX &&
        text_real(table_cell(c->t, row, deviation), &half) && half > 0) {
        spread[0] = value - half * c->y->scale;
        spread[1] = value + half * c->y->scale;
        return true;
    }
    if (errors_of(c->errors, same, n, spread))
        return true;
    spread[0] = spread[1] = NAN;
    return false;
}

/* STATUS_INVALID where error bars were asked for and there are none. */
static enum status name_spread(const struct cells *c, bool repeats, bool deviations, size_t most,
                               char note[CELLS_NOTE])
{
    size_t n = strlen(note);
    int least = c->errors == ERRORS_CI ? ERRORS_CI_LEAST : 2;
    if (repeats || deviations)
        snprintf(note + n, CELLS_NOTE - n, "%serror bars: %s%s%s", n > 0 ? "; " : "",
                 repeats ? errors_words(c->errors) : "", repeats && deviations ? ", or " : "",
                 deviations ? "one standard deviation" : "");
    else if (c->errors > ERRORS_NONE && most < (size_t)least)
        return error_set(STATUS_INVALID,
                         "%s: --error-bars %s needs at least %d rows that repeat a point, but "
                         "there are at most %zu (repeats: %d or more in the sweep)",
                         c->t->path, style_errors(c->errors), least, most, least);
    return STATUS_OK;
}

/* Rows of one place are neighbours, and repeats among them. */
static enum status cells_gather_files(const struct cells *c, struct hidden *h,
                                      const struct hidden_row *row, double *same, double *at,
                                      char note[CELLS_NOTE])
{
    size_t most = 0, deviation = find_deviation(c->t, c->t->name[c->shown[1]]);
    bool lowest = axis_prefers_less(c->y), repeats = false, deviations = false;
    for (size_t i = 0, n = 0; i < c->y->n; i++) {
        size_t cell = row[i].cell;
        same[n++] = c->y->at[row[i].row];
        if (i + 1 < c->y->n) {
            find_differences(&row[i], &row[i + 1], h);
            if (cells_compare(&row[i], &row[i + 1]) == 0)
                continue;
        }
        double value = median(same, n);
        if (isnan(at[cell]) || (lowest ? value < at[cell] : value > at[cell])) {
            at[cell] = value;
            if (c->spread && cells_spread_of(c, deviation, row[i].row, same, n, c->spread[cell])) {
                repeats = repeats || n > 1;
                deviations = deviations || n == 1;
            }
        }
        most = n > most ? n : most;
        n = 0;
    }
    name_hidden(h, lowest, most, note);
    return name_spread(c, repeats, deviations, most, note);
}

enum status cells_gather(const struct cells *c, double *at, char note[CELLS_NOTE])
{
    enum status st;
    struct hidden h = {0};
    struct hidden_row *row = NULL;
    double *same = NULL;
    TRY(find_hidden(c->t, c->shown, &h));
    TRY(ARRAY_NEW(row, c->y->n));
    TRY(ARRAY_NEW(same, c->y->n));
    for (size_t i = 0; i < c->y->n; i++)
        row[i] = (struct hidden_row){&h, c->cell[i], i};
    qsort(row, c->y->n, sizeof *row, cells_by_place);
    for (size_t i = 0; i < c->n; i++) {
        at[i] = NAN;
        if (c->spread)
            c->spread[i][0] = c->spread[i][1] = NAN;
    }
    st = cells_gather_files(c, &h, row, same, at, note);
out:
    free(h.column);
    free(h.differs);
    free(row);
    free(same);
    return st;
}
