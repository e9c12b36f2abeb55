/* Why the best plan changes: both plans on both sides of the change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/breakdown.h"
#include "plots/page.h"
#include "plots/plot.h"
#include "study/rank.h"
#include "study/report.h"

enum { CORNERS = 4 };

/* Plan A, the best before, and B, the best behind: A before, B before, A behind, B behind. */
struct corner {
    size_t point;
    bool found;
    struct point_result r;
    const char *name; /* "A at 10Gbps" */
};

struct report_change {
    const struct experiment *e;
    size_t along;
    bool finalists; /* figures are the second engine's */
    struct corner at[CORNERS];
};

/* ---- figures */

static const char *part_name(struct report_page *p, size_t k)
{
    char text[BREAKDOWN_PART];
    return report_text(p, "%s", breakdown_part_name(k, text));
}

static bool is_ok(const struct corner *c)
{
    return c->found && c->r.status == POINT_OK && c->r.iteration_s > 0;
}

static const char *status_of(const struct corner *c, const char *missing)
{
    return c->found ? point_status_names[c->r.status] : missing;
}

/* Results of all four by one engine, so that they can be compared. */
static enum status read_corners(const struct sweep *s, struct report_change *c, bool finalists)
{
    c->finalists = finalists;
    for (size_t k = 0; k < CORNERS; k++)
        PASS(sweep_get(s, c->at[k].point, finalists, &c->at[k].found, &c->at[k].r));
    return STATUS_OK;
}

/* Figures of the second engine only where it has looked at all four. */
static enum status find_change(struct report_page *p, const struct sweep *s, size_t before,
                               size_t best, struct report_change *c)
{
    const struct experiment *e = &s->e;
    size_t along = rank_along(e), from = experiment_choice(e, before, along),
           to = experiment_choice(e, best, along);
    *c = (struct report_change){.e = e, .along = along};
    c->at[0].point = before;
    c->at[1].point = experiment_with(e, best, along, from);
    c->at[2].point = experiment_with(e, before, along, to);
    c->at[3].point = best;
    for (size_t k = 0; k < CORNERS; k++)
        c->at[k].name = report_text(p, "%s at %s", k % 2 ? "B" : "A",
                                    experiment_label(e, c->at[k].point, along));
    PASS(read_corners(s, c, s->has_finalists));
    for (size_t k = 0; k < CORNERS; k++)
        if (c->finalists && !c->at[k].found)
            PASS(read_corners(s, c, false));
    return STATUS_OK;
}

/* ---- words */

/* Per iteration, or per sample where plans have different batches: seconds of a corner's iteration
 * times this are comparable. Of batches that differ by less than 1e-6 only rounding differs. */
static double report_change_scale(const struct report_change *c, size_t corner)
{
    double samples[CORNERS];
    bool differ = false;
    for (size_t k = 0; k < CORNERS; k++) {
        samples[k] = c->at[k].r.samples_per_s * c->at[k].r.iteration_s;
        differ |= fabs(samples[k] / samples[0] - 1) > 1e-6;
    }
    return differ && !c->e->fewest_seconds ? 1 / samples[corner] : 1;
}

/* Seconds that a part takes more behind the change than before it. */
static double growth(const struct report_change *c, size_t plan, size_t part)
{
    return breakdown_part(&c->at[2 + plan].r.time, part) * report_change_scale(c, 2 + plan) -
           breakdown_part(&c->at[plan].r.time, part) * report_change_scale(c, plan);
}

static const char *signed_seconds(struct report_page *p, double s)
{
    return report_text(p, "%s%s", s < 0 ? "" : "+", report_quantity(p, UNIT_SECONDS, s));
}

/* The best plan changes because A's time grows by more than B's. The part in which it grows most
 * more than B's is named: max over parts of growth(A) - growth(B). */
static void report_explain_change(struct report_page *p, const struct report_change *c)
{
    double sum[2] = {0}, most = -1;
    size_t which = 0;
    for (size_t k = 0; k < CORNERS; k++)
        if (!is_ok(&c->at[k])) {
            report_say(p, "", "%s: %s%s%s.", c->at[k].name,
                       status_of(&c->at[k], "not computed yet"), *c->at[k].r.reason ? ", " : "",
                       c->at[k].r.reason);
            return;
        }
    for (size_t k = 0; k < BREAKDOWN_PARTS; k++) {
        double lead = growth(c, 0, k) - growth(c, 1, k);
        sum[0] += growth(c, 0, k);
        sum[1] += growth(c, 1, k);
        if (lead > most) {
            most = lead;
            which = k;
        }
    }
    report_say(p, "",
               "From one to the other, A's time changes by %s per %s and B's by %s. What makes the "
               "difference is above all %s: A's changes by %s, B's by %s.",
               signed_seconds(p, sum[0]), report_change_scale(c, 0) == 1 ? "iteration" : "sample",
               signed_seconds(p, sum[1]), part_name(p, which),
               signed_seconds(p, growth(c, 0, which)), signed_seconds(p, growth(c, 1, which)));
}

/* ---- on the page */

/* A row with a cell for each corner. */
#define CORNER_ROW(p, c, tag, name, cell)                                                          \
    do {                                                                                           \
        const char *cells[CORNERS + 1] = {name};                                                   \
        for (size_t k = 0; k < CORNERS; k++) {                                                     \
            const struct corner *at = &(c)->at[k];                                                 \
            cells[k + 1] = (cell);                                                                 \
        }                                                                                          \
        page_row((p)->to, tag, cells, CORNERS + 1);                                                \
    } while (0)

/* Of points without a prediction nothing is known: 0 would read as a figure. */
static const char *known(const struct corner *c, const char *text)
{
    return c->found && c->r.iteration_s > 0 ? text : "-";
}

/* A column for each corner. Parts that take no time anywhere have no row. */
static void put_figures(struct report_page *p, const struct report_change *c)
{
    page_table_open(p->to, "Both plans on both sides");
    CORNER_ROW(p, c, "th", "", at->name);
    CORNER_ROW(p, c, "td", "samples/s", known(at, report_text(p, "%.4g", at->r.samples_per_s)));
    CORNER_ROW(p, c, "td", "iteration",
               known(at, report_quantity(p, UNIT_SECONDS, at->r.iteration_s)));
    for (size_t part = 0; part < BREAKDOWN_PARTS; part++) {
        double sum = 0;
        for (size_t k = 0; k < CORNERS; k++)
            sum += breakdown_part(&c->at[k].r.time, part);
        if (sum > 0)
            CORNER_ROW(
                p, c, "td", part_name(p, part),
                known(at, report_quantity(p, UNIT_SECONDS, breakdown_part(&at->r.time, part))));
    }
    CORNER_ROW(p, c, "td", "memory of the fullest rank",
               known(at, report_quantity(p, UNIT_BYTES, (double)at->r.peak_bytes)));
    CORNER_ROW(p, c, "td", "free on its device",
               known(at, report_quantity(p, UNIT_BYTES, (double)at->r.headroom_bytes)));
    CORNER_ROW(p, c, "td", "status", status_of(at, "not computed"));
    page_table_close(p->to);
}

/* Bars of results that have figures. */
enum { BARS = 24 };
struct change_bars {
    size_t n;
    const char *name[BARS];
    struct breakdown time[BARS];
    struct plot_memory_bar memory[BARS];
};

/* What did not run has no bar. */
static void add_bar(struct change_bars *b, const char *name, const struct point_result *r)
{
    if (!(r->iteration_s > 0))
        return;
    b->name[b->n] = name;
    b->time[b->n] = r->time;
    b->memory[b->n++] =
        (struct plot_memory_bar){.name = name,
                                 .rank = "",
                                 .weight_bytes = r->weight_bytes,
                                 .gradient_bytes = r->gradient_bytes,
                                 .state_bytes = r->state_bytes,
                                 .stash_bytes = r->stash_bytes,
                                 .scratch_bytes = r->scratch_bytes,
                                 .peak_bytes = r->peak_bytes,
                                 .capacity_bytes = r->peak_bytes + r->headroom_bytes};
}

static enum status draw_times(const void *context, const char *svg, const struct provenance *by)
{
    const struct change_bars *b = context;
    return plot_breakdown(b->time, b->name, NULL, b->n, svg, by);
}

static enum status report_draw_memory(const void *context, const char *svg,
                                      const struct provenance *by)
{
    const struct change_bars *b = context;
    return plot_memory(b->memory, b->n, "memory of the fullest rank", svg, by);
}

static enum status put_bars(struct report_page *p, const struct change_bars *b, const char *what)
{
    if (b->n == 0)
        return STATUS_OK;
    PASS(report_picture(p, draw_times, b, report_text(p, "Where an iteration goes: %s", what)));
    return report_picture(p, report_draw_memory, b, report_text(p, "Memory: %s", what));
}

/* In words, as a table, and (the first few) as pictures. */
static enum status put_change(struct report_page *p, const struct sweep *s,
                              const struct report_change *c, bool draw)
{
    const struct experiment *e = c->e;
    struct change_bars b = {0};
    char group[RESULT_VALUE], plan_a[RESULT_VALUE], plan_b[RESULT_VALUE];
    const char *what =
        report_text(p, "A is %s, B is %s", rank_plan_label(e, c->at[0].point, plan_a),
                    rank_plan_label(e, c->at[3].point, plan_b));
    rank_group_label(e, c->at[0].point, c->along, true, group);
    report_say(p, "",
               "%s%sbetween %s %s and %s the best plan changes from A to B: %s. Figures of %s%s.",
               group, *group ? ": " : "", e->axis[c->along].name,
               experiment_label(e, c->at[0].point, c->along),
               experiment_label(e, c->at[3].point, c->along), what, c->at[0].r.engine,
               s->has_finalists && !c->finalists
                   ? ", because simgrid has not looked at both plans on both sides"
                   : "");
    report_explain_change(p, c);
    put_figures(p, c);
    for (size_t k = 0; k < CORNERS; k++)
        add_bar(&b, c->at[k].name, &c->at[k].r);
    return draw ? put_bars(p, &b, what) : STATUS_OK;
}

enum status report_best_plans(struct report_page *p, const struct sweep *s,
                              const struct best_table *t)
{
    struct change_bars b = {0};
    for (size_t r = 1; r < t->rows && b.n < BARS; r++) {
        struct point_result result = {0};
        char name[RESULT_VALUE];
        bool found = false;
        if (t->best[r] == SIZE_MAX)
            continue;
        PASS(sweep_get_best(s, t->best[r], &found, &result));
        if (!*rank_group_label(&s->e, t->best[r], s->e.axes, false, name))
            rank_plan_label(&s->e, t->best[r], name);
        add_bar(&b, report_text(p, "%s", name), &result);
    }
    return put_bars(p, &b, t->rows - 1 > BARS ? "the first of the best plans" : "the best plans");
}

enum status report_changes(struct report_page *p, const struct sweep *s, const struct best_table *t)
{
    enum { MOST = 12, MOST_DRAWN = 6 };
    size_t n = 0;
    for (size_t r = 1; r < t->rows; r++) {
        struct report_change c;
        if (t->before[r] == SIZE_MAX || n++ >= MOST)
            continue;
        PASS(find_change(p, s, t->before[r], t->best[r], &c));
        PASS(put_change(p, s, &c, n <= MOST_DRAWN));
    }
    if (n == 0)
        page_paragraph(p->to, "", "It does not: one choice is the best everywhere in a row.");
    if (n > MOST)
        report_say(p, "note", "The first %d of %zu changes.", MOST, n);
    return STATUS_OK;
}
