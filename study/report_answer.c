/* What a page about a sweep begins with: the best point of all, how far its plan holds, and where
 * its time goes. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "plots/page.h"
#include "study/rank.h"
#include "study/report.h"

struct answer_subject {
    const struct experiment *e;
    const struct best_table *t;
};

static bool has_best(const struct answer_subject *about, size_t row)
{
    return about->t->best[row] != SIZE_MAX;
}

static bool same_plan(const struct answer_subject *about, size_t a, size_t b)
{
    return rank_alike(about->e, about->t->best[a], about->t->best[b], true, about->e->axes);
}

/* Does the row repeat one above it: what differs, along one axis, has changed nothing? */
static bool changes_nothing(const struct answer_subject *about, size_t row)
{
    const struct best_table *t = about->t;
    size_t before = rank_before(about->e, t->best, row);
    return before > 0 && same_plan(about, row, before) &&
           fabs(t->score[row] / t->score[before] - 1) < 1e-9;
}

/* Rows of best plans, without those that repeat another: how many there are, in how many the plan
 * is that of row `like`, how many repeat, and how often the plan changes. */
struct counts {
    size_t rows, alike, repeated, changes;
};

static struct counts report_answer_count(const struct answer_subject *about, size_t like)
{
    struct counts n = {0};
    for (size_t r = 1; r < about->t->rows; r++) {
        if (!has_best(about, r))
            continue;
        bool again = changes_nothing(about, r);
        n.rows += !again;
        n.repeated += again;
        n.alike += !again && same_plan(about, r, like);
        n.changes += about->t->before[r] != SIZE_MAX;
    }
    return n;
}

/* The row whose best plan is the best in most rows, the row with the highest score, and that with
 * the lowest; 0: none has a best plan. */
static size_t find_rows(const struct answer_subject *about, size_t *highest, size_t *lowest)
{
    size_t most = 0, row = 0;
    *highest = *lowest = 0;
    for (size_t r = 1; r < about->t->rows; r++) {
        const double *score = about->t->score;
        if (!has_best(about, r))
            continue;
        size_t alike = report_answer_count(about, r).alike;
        row = alike > most ? r : row;
        most = alike > most ? alike : most;
        *highest = *highest == 0 || score[r] > score[*highest] ? r : *highest;
        *lowest = *lowest == 0 || score[r] < score[*lowest] ? r : *lowest;
    }
    return row;
}

/* Where the best plan changes first, if anywhere. */
static const char *changes_text(struct report_page *p, const struct answer_subject *about,
                                size_t changes)
{
    const struct experiment *e = about->e;
    const struct best_table *t = about->t;
    size_t along = rank_along(e), r = 1;
    char from[RESULT_VALUE], to[RESULT_VALUE], group[RESULT_VALUE];
    if (changes == 0)
        return report_text(p, "Along %s it does not change.", e->axis[along].name);
    while (t->before[r] == SIZE_MAX)
        r++;
    rank_group_label(e, t->best[r], along, true, group);
    return report_text(p, "Along %s it changes %zu time%s, first at %s from %s to %s%s%s%s.",
                       e->axis[along].name, changes, changes == 1 ? "" : "s",
                       experiment_label(e, t->best[r], along),
                       rank_plan_label(e, t->before[r], from), rank_plan_label(e, t->best[r], to),
                       *group ? " (" : "", group, *group ? ")" : "");
}

/* "191.1 samples/s", "35.4 ms an iteration" */
static const char *score_text(struct report_page *p, const struct answer_subject *about, size_t row)
{
    double score = about->t->score[row];
    return about->e->by_days ? report_text(p, "%.4g days", -score)
           : about->e->fewest_seconds
               ? report_text(p, "%s an iteration", report_quantity(p, UNIT_SECONDS, -score))
               : report_text(p, "%.4g samples/s", score);
}

/* Is the plan the same everywhere: does nothing that varies say anything about it? */
static bool is_one_plan(const struct experiment *e)
{
    static const char plan[] = "plan";
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; rank_is_column(e, i, false) && k < e->axis[i].n; k++)
            for (size_t s = 0; s < e->axis[i].choice[k].n; s++)
                if (!strncmp(e->axis[i].choice[k].setting[s].key, plan, strlen(plan)))
                    return false;
    return true;
}

/* Nothing is chosen: which combination is the best, and which the worst. */
static void report_answer_put_extremes(struct report_page *p, const struct answer_subject *about,
                                       size_t n, size_t best, size_t worst)
{
    const struct best_table *t = about->t;
    char high[RESULT_VALUE], low[RESULT_VALUE];
    rank_group_label(about->e, t->best[best], about->e->axes, true, high);
    rank_group_label(about->e, t->best[worst], about->e->axes, true, low);
    report_say(p, "answer", "%s %zu %s: the best is %s, %s (%s), the worst %s, %s (%s).",
               is_one_plan(about->e) ? "One plan in" : "Of", n,
               is_one_plan(about->e) ? "places" : "combinations", high, score_text(p, about, best),
               t->note[best], low, score_text(p, about, worst), t->note[worst]);
}

/* How often the plan of row `like` is the best. */
static const char *frequency_text(struct report_page *p, const struct answer_subject *about,
                                  size_t like, const struct counts *n)
{
    char plan[RESULT_VALUE];
    rank_plan_label(about->e, about->t->best[like], plan);
    const char *first =
        n->rows == 1 ? report_text(p, "Everywhere the best plan is %s", plan)
        : n->alike == n->rows
            ? report_text(p, "In all %zu combinations the best plan is %s", n->rows, plan)
            : report_text(p, "In %zu of %zu combinations the best plan is %s", n->alike, n->rows,
                          plan);
    return n->repeated == 0
               ? first
               : report_text(p, "%s (not counted: %zu in which %s changes nothing)", first,
                             n->repeated, about->e->axis[rank_along(about->e)].name);
}

void report_answer(struct report_page *p, const struct experiment *e, const struct best_table *t)
{
    const struct answer_subject about = {e, t};
    size_t best, worst, usual = find_rows(&about, &best, &worst);
    char plan[RESULT_VALUE], group[RESULT_VALUE];
    if (usual == 0) {
        page_paragraph(p->to, "answer", "No plan of this sweep has run to its end yet, or fits.");
        return;
    }
    struct counts n = report_answer_count(&about, usual);
    if (rank_plans(e) == 1 && n.rows + n.repeated > 1) {
        report_answer_put_extremes(p, &about, n.rows + n.repeated, best, worst);
        return;
    }
    rank_plan_label(e, t->best[best], plan);
    rank_group_label(e, t->best[best], e->axes, true, group);
    report_say(p, "answer", "The best %s %s%s%s: %s. %s%s%s%sWhere its time goes: %s.",
               *group ? "of all is" : "plan is", plan, *group ? " with " : "", group,
               score_text(p, &about, best), *group ? frequency_text(p, &about, usual, &n) : "",
               *group ? ". " : "", *group ? changes_text(p, &about, n.changes) : "",
               *group ? " " : "", t->note[best]);
}
