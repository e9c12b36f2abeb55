/* What a page about a sweep begins with: the best point of all, where its plan stays the best, and
 * where its time goes. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/base/text.h"
#include "core/data/compare.h"
#include "plots/page.h"
#include "study/rank.h"
#include "study/report.h"

struct answer_subject {
    const struct sweep *s;
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

/* Does something that varies, and is chosen over or not, say anything about `what` ("plan")? */
static bool varies(const struct experiment *e, const char *what, bool chosen)
{
    for (size_t i = 0; i < e->axes; i++)
        for (size_t k = 0; rank_is_column(e, i, chosen) && k < e->axis[i].n; k++)
            for (size_t s = 0; s < e->axis[i].choice[k].n; s++)
                if (!strncmp(e->axis[i].choice[k].setting[s].key, what, strlen(what)))
                    return true;
    return false;
}

static bool is_one_plan(const struct experiment *e)
{
    return !varies(e, "plan", false);
}

/* What a point came to; its speed is the median over seeds, as that ranks. */
static enum status report_answer_get(const struct answer_subject *about, size_t point, double score,
                                     struct point_result *r)
{
    bool found;
    PASS(sweep_get_best(about->s, point, &found, r));
    if (about->e->by_days) /* which depend on failures, too */
        return STATUS_OK;
    double ratio = about->e->fewest_seconds ? -r->iteration_s / score : score / r->samples_per_s;
    r->samples_per_s *= ratio;
    r->tokens_per_s *= ratio;
    r->mfu_causal *= ratio;
    r->mfu_square *= ratio;
    return STATUS_OK;
}

/* "stages 2, microbatches 64 with devices 32", or one of both. */
static const char *point_text(struct report_page *p, const struct experiment *e, size_t point)
{
    char plan[RESULT_VALUE], group[RESULT_VALUE];
    rank_plan_label(e, point, plan);
    rank_group_label(e, point, e->axes, true, group);
    return rank_plans(e) == 1 ? report_text(p, "%s", group)
                              : report_text(p, "%s%s%s", plan, *group ? " with " : "", group);
}

static struct report_speed speed_of(const char *name, const struct point_result *r)
{
    return (struct report_speed){name, (double)r->plan_devices, r->tokens_per_s, r->samples_per_s};
}

static bool is_repeat(const struct experiment *e, size_t point)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].seeds && experiment_choice(e, point, i) > 0)
            return true;
    return false;
}

/* More GPUs or a faster network are the fastest anyway: beside them, what is the best per GPU.
 * Nothing where neither varies, or where models do, whose tokens differ. */
static enum status per_gpu_text(struct report_page *p, const struct answer_subject *about,
                                size_t best, const char **text)
{
    enum status st = STATUS_OK;
    const struct experiment *e = about->e;
    struct ranking ranking = {0};
    struct point_result r;
    size_t at = about->t->best[best];
    bool differ = varies(e, "platform", false) || varies(e, "platform", true);
    *text = "";
    if (varies(e, "model", false) || varies(e, "model", true))
        return STATUS_OK;
    PASS(report_answer_get(about, at, about->t->score[best], &r));
    struct report_speed fastest = speed_of(point_text(p, e, at), &r), each = fastest;
    TRY(rank_points(about->s, about->s->has_finalists, &ranking));
    for (size_t i = 0; i < e->points; i++) {
        if (is_repeat(e, i) || isnan(ranking.score[i]))
            continue;
        TRY(report_answer_get(about, i, ranking.score[i], &r));
        struct report_speed speed = speed_of("", &r);
        differ |= speed.gpus != fastest.gpus;
        if (!(speed.gpus > 0) || !(report_each(&speed) > report_each(&each) * (1 + 1e-9)))
            continue;
        each = speed;
        at = i;
    }
    each.name = point_text(p, e, at);
    if (differ && fastest.gpus > 0)
        *text = report_per_gpu(p, &fastest, &each);
out:
    ranking_free(&ranking);
    return st;
}

/* Is row i as good as the best one, or nearly? */
static bool is_tie(const struct best_table *t, size_t best, size_t i)
{
    static const double nearly = 0.005;
    return t->best[i] != SIZE_MAX && fabs(t->score[i] / t->score[best] - 1) < nearly;
}

static const char *tie_text(struct report_page *p, const struct best_table *t, size_t best)
{
    size_t others = 0;
    for (size_t i = 1; i < t->rows; i++)
        others += i != best && is_tie(t, best, i);
    return others > 0 ? report_text(p, " (%zu other%s within 0.5 %% of it)", others,
                                    others > 1 ? "s are" : " is")
                      : "";
}

/* Where platforms have a price: which row gives the most for it. */
static enum status price_text(struct report_page *p, const struct answer_subject *about,
                              const char **text)
{
    const struct best_table *t = about->t;
    struct point_result r, cheapest = {0};
    size_t at = 0;
    char label[RESULT_VALUE], money[TEXT_GROUPED], each[TEXT_GROUPED];
    *text = "";
    if (varies(about->e, "model", false) || varies(about->e, "model", true))
        return STATUS_OK;
    for (size_t i = 1; i < t->rows; i++) {
        if (t->best[i] == SIZE_MAX)
            continue;
        PASS(report_answer_get(about, t->best[i], t->score[i], &r));
        if (!(r.cost > 0) || !(r.samples_per_s > 0))
            return STATUS_OK;
        if (at == 0 || r.samples_per_s / r.cost > cheapest.samples_per_s / cheapest.cost) {
            cheapest = r;
            at = i;
        }
    }
    if (at == 0)
        return STATUS_OK;
    rank_group_label(about->e, t->best[at], about->e->axes, true, label);
    *text = report_text(p, " The best for its price is %s: it costs %s, %s per sample/s.", label,
                        text_grouped(cheapest.cost, money),
                        text_grouped(cheapest.cost / cheapest.samples_per_s, each));
    return STATUS_OK;
}

/* Nothing is chosen: which combination is the best, and which the worst. */
static void report_answer_put_extremes(struct report_page *p, const struct answer_subject *about,
                                       size_t n, const size_t row[2], const char *more)
{
    size_t best = row[0], worst = row[1];
    const struct best_table *t = about->t;
    char high[RESULT_VALUE], low[RESULT_VALUE];
    rank_group_label(about->e, t->best[best], about->e->axes, true, high);
    rank_group_label(about->e, t->best[worst], about->e->axes, true, low);
    const char *last = is_tie(t, best, worst)
                           ? ""
                           : report_text(p, ", the worst %s, %s (%s)", low,
                                         score_text(p, about, worst), t->note[worst]);
    report_say(p, "answer", "Of %zu %s: the best is %s%s, %s (%s)%s.%s", n,
               is_one_plan(about->e) ? "places" : "combinations", high, tie_text(p, t, best),
               score_text(p, about, best), t->note[best], last, more);
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

/* Speed, use of the devices, and what a training costs, of the best point. */
static const char *worth_text(struct report_page *p, const struct answer_subject *about, size_t row,
                              const struct point_result *r)
{
    char all[TEXT_GROUPED], each[TEXT_GROUPED];
    const char *text = score_text(p, about, row);
    const char *training = report_training(p, r->tokens_per_s, (double)r->plan_devices);
    if (r->tokens_per_s > 0 && r->plan_devices > 0)
        text =
            report_text(p, "%s, %s tokens/s (%s per GPU)", text, text_grouped(r->tokens_per_s, all),
                        text_grouped(r->tokens_per_s / (double)r->plan_devices, each));
    if (r->mfu > 0)
        text = report_text(p, "%s, MFU %.1f %% (%.1f %% if masked attention counts)", text,
                           100 * r->mfu_causal, 100 * r->mfu_square);
    return *training ? report_text(p, "%s; %s take %s", text, report_tokens(p), training) : text;
}

/* Is the best one ahead of the second best by more than predictions are off? */
static const char *lead_text(struct report_page *p, const struct answer_subject *about, size_t row,
                             const struct point_result *r)
{
    double ahead = about->t->ahead[row];
    char second[RESULT_VALUE];
    if (isnan(ahead))
        return "";
    const char *text = report_text(p, " It is %.1f %% ahead of the second best, %s", 100 * ahead,
                                   rank_plan_label(about->e, about->t->second[row], second));
    if (!engine_predicts(r->engine))
        return report_text(p, "%s.", text);
    if (!(r->expected_error > 0))
        return report_text(p, "%s; how far such predictions are off is not known.", text);
    return report_text(p,
                       "%s: %s than the expected error (half of similar runs within %.0f %%, nine "
                       "in ten within %.0f %%)%s.",
                       text, ahead > r->expected_error ? "more" : "less", 100 * r->expected_error,
                       100 * r->expected_nine_in_ten,
                       ahead > r->expected_error ? "" : "; run both to decide");
}

enum status report_answer(struct report_page *p, const struct sweep *s, const struct best_table *t)
{
    const struct experiment *e = &s->e;
    const struct answer_subject about = {s, e, t};
    size_t best, worst, usual = find_rows(&about, &best, &worst);
    struct point_result r;
    char group[RESULT_VALUE];
    const char *per_gpu, *price;
    if (usual == 0) {
        page_paragraph(p->to, "answer", "No plan of this sweep has run to its end yet, or fits.");
        return STATUS_OK;
    }
    struct counts n = report_answer_count(&about, usual);
    PASS(per_gpu_text(p, &about, best, &per_gpu));
    if (rank_plans(e) == 1 && n.rows + n.repeated > 1) {
        PASS(price_text(p, &about, &price));
        report_answer_put_extremes(p, &about, n.rows + n.repeated, (size_t[]){best, worst},
                                   report_text(p, "%s%s", per_gpu, price));
        return STATUS_OK;
    }
    PASS(report_answer_get(&about, t->best[best], t->score[best], &r));
    rank_group_label(e, t->best[best], e->axes, true, group);
    report_say(p, "answer", "The best %s %s: %s.%s%s%s%s%s%s", *group ? "of all is" : "plan is",
               point_text(p, e, t->best[best]), worth_text(p, &about, best, &r),
               lead_text(p, &about, best, &r), per_gpu, *group ? " " : "",
               *group ? frequency_text(p, &about, usual, &n) : "", *group ? ". " : "",
               *group ? changes_text(p, &about, n.changes) : "");
    report_say(p, "", "Where its time goes: %s.", t->note[best]);
    return STATUS_OK;
}
