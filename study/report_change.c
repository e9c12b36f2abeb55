/* Why the best plan changes: both plans on both sides of the change. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"
#include "plots/page.h"
#include "plots/plot.h"
#include "study/report_sweep.h"

enum { CORNERS = 4, PARTS = 3 + OP_PURPOSES, NAME = 64, TEXT = 1024 };

/* Plan A, the best before, and B, the best behind: A before, B before, A behind, B behind. */
struct corner {
    size_t point;
    bool found;
    struct point_result r;
    char name[NAME]; /* "A at 10Gbps" */
};

struct change {
    const struct experiment *e;
    size_t along;
    bool finalists; /* figures are the second engine's */
    struct corner at[CORNERS];
    char a[RESULT_VALUE], b[RESULT_VALUE]; /* the plans */
};

/* ---- figures */

static const char *part_name(size_t k, char text[NAME])
{
    if (k < 2)
        snprintf(text, NAME, k == 0 ? "compute" : "optimizer");
    else if (k + 1 == PARTS)
        snprintf(text, NAME, "bubble");
    else
        snprintf(text, NAME, "waiting for %s", op_purpose_names[k - 2]);
    return text;
}

static double part_of(const struct breakdown *b, size_t k)
{
    return k == 0           ? b->compute_s
           : k == 1         ? b->optimizer_s
           : k + 1 == PARTS ? b->bubble_s
                            : b->exposed_s[k - 2];
}

static bool is_ok(const struct corner *c)
{
    return c->found && c->r.status == POINT_OK && c->r.iteration_s > 0;
}

static enum status read_corners(const struct sweep_view *v, struct change *c, bool finalists)
{
    enum status st = STATUS_OK;
    c->finalists = finalists;
    for (size_t k = 0; k < CORNERS; k++)
        TRY(sweep_view_get(v, c->at[k].point, finalists, &c->at[k].found, &c->at[k].r));
out:
    return st;
}

static enum status find_change(const struct sweep_view *v, size_t before, size_t best,
                               struct change *c)
{
    enum status st;
    const struct experiment *e = &v->e;
    size_t along = sweep_along(e), from = experiment_choice(e, before, along),
           to = experiment_choice(e, best, along);
    *c = (struct change){.e = e, .along = along};
    c->at[0].point = before;
    c->at[1].point = experiment_with(e, best, along, from);
    c->at[2].point = experiment_with(e, before, along, to);
    c->at[3].point = best;
    for (size_t k = 0; k < CORNERS; k++)
        snprintf(c->at[k].name, NAME, "%s at %.50s", k % 2 ? "B" : "A",
                 experiment_label(e, c->at[k].point, along));
    sweep_plan_label(e, before, c->a);
    sweep_plan_label(e, best, c->b);
    TRY(read_corners(v, c, v->finalists.n > 0));
    for (size_t k = 0; k < CORNERS; k++)
        if (c->finalists && !c->at[k].found)
            TRY(read_corners(v, c, false));
out:
    return st;
}

/* ---- words */

/* Per iteration, or per sample where plans have different batches. */
static double scale_of(const struct change *c, size_t corner)
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
static double growth(const struct change *c, size_t plan, size_t part)
{
    return part_of(&c->at[2 + plan].r.time, part) * scale_of(c, 2 + plan) -
           part_of(&c->at[plan].r.time, part) * scale_of(c, plan);
}

static const char *signed_seconds(double s, char text[UNITS_TEXT + 1])
{
    text[0] = s < 0 ? '-' : '+';
    units_print(UNIT_SECONDS, fabs(s), text + 1);
    return text;
}

static void explain(const struct change *c, char text[TEXT])
{
    char part[NAME], a[UNITS_TEXT + 1], b[UNITS_TEXT + 1], all_a[UNITS_TEXT + 1],
        all_b[UNITS_TEXT + 1];
    double sum[2] = {0}, most = -1;
    size_t which = 0;
    for (size_t k = 0; k < CORNERS; k++)
        if (!is_ok(&c->at[k])) {
            snprintf(text, TEXT, "%s: %s%s%.250s.", c->at[k].name,
                     c->at[k].found ? point_status_names[c->at[k].r.status] : "not computed yet",
                     *c->at[k].r.reason ? ", " : "", c->at[k].r.reason);
            return;
        }
    for (size_t k = 0; k < PARTS; k++) {
        double lead = growth(c, 0, k) - growth(c, 1, k);
        sum[0] += growth(c, 0, k);
        sum[1] += growth(c, 1, k);
        if (lead > most) {
            most = lead;
            which = k;
        }
    }
    snprintf(text, TEXT,
             "From one to the other, A's time changes by %s per %s and B's by %s. What makes the "
             "difference is above all %s: A's changes by %s, B's by %s.",
             signed_seconds(sum[0], all_a), scale_of(c, 0) == 1 ? "iteration" : "sample",
             signed_seconds(sum[1], all_b), part_name(which, part),
             signed_seconds(growth(c, 0, which), a), signed_seconds(growth(c, 1, which), b));
}

/* ---- on the page */

static void put_row(FILE *to, const char *tag, const char *name, char (*text)[RESULT_VALUE])
{
    const char *cell[CORNERS + 1] = {name};
    for (size_t k = 0; k < CORNERS; k++)
        cell[k + 1] = text[k];
    page_row(to, tag, cell, CORNERS + 1);
}

static void print_bytes(int64_t bytes, char text[RESULT_VALUE])
{
    char size[UNITS_TEXT];
    units_print(UNIT_BYTES, fabs((double)bytes), size);
    snprintf(text, RESULT_VALUE, "%s%s", bytes < 0 ? "-" : "", size);
}

static void put_times(FILE *to, const struct change *c)
{
    char text[CORNERS][RESULT_VALUE], name[NAME], seconds[UNITS_TEXT];
    for (size_t part = 0; part < PARTS; part++) {
        double sum = 0;
        for (size_t k = 0; k < CORNERS; k++) {
            double s = part_of(&c->at[k].r.time, part);
            sum += s;
            snprintf(text[k], RESULT_VALUE, "%s", units_print(UNIT_SECONDS, s, seconds));
        }
        if (sum > 0)
            put_row(to, "td", part_name(part, name), text);
    }
}

static void put_figures(FILE *to, const struct change *c)
{
    char text[CORNERS][RESULT_VALUE], seconds[UNITS_TEXT];
    page_table_open(to);
    for (size_t k = 0; k < CORNERS; k++)
        snprintf(text[k], RESULT_VALUE, "%s", c->at[k].name);
    put_row(to, "th", "", text);
    for (size_t k = 0; k < CORNERS; k++)
        snprintf(text[k], RESULT_VALUE, "%.4g", c->at[k].r.samples_per_s);
    put_row(to, "td", "samples/s", text);
    for (size_t k = 0; k < CORNERS; k++)
        snprintf(text[k], RESULT_VALUE, "%s",
                 units_print(UNIT_SECONDS, c->at[k].r.iteration_s, seconds));
    put_row(to, "td", "iteration", text);
    put_times(to, c);
    for (size_t k = 0; k < CORNERS; k++)
        print_bytes(c->at[k].r.peak_bytes, text[k]);
    put_row(to, "td", "memory of the fullest rank", text);
    for (size_t k = 0; k < CORNERS; k++)
        print_bytes(c->at[k].r.headroom_bytes, text[k]);
    put_row(to, "td", "free on its device", text);
    for (size_t k = 0; k < CORNERS; k++)
        snprintf(text[k], RESULT_VALUE, "%s",
                 c->at[k].found ? point_status_names[c->at[k].r.status] : "not computed");
    put_row(to, "td", "status", text);
    page_table_close(to);
}

/* Bars of results that have figures. */
struct bars {
    size_t n;
    const char **name;
    struct breakdown *time;
    struct plot_memory_bar *memory;
};

static void bars_free(struct bars *b)
{
    free(b->name);
    free(b->time);
    free(b->memory);
}

static enum status bars_make(size_t most, struct bars *b)
{
    b->name = calloc(most, sizeof *b->name);
    b->time = calloc(most, sizeof *b->time);
    b->memory = calloc(most, sizeof *b->memory);
    return b->name && b->time && b->memory ? STATUS_OK : error_set(STATUS_NOMEM, "%zu bars", most);
}

static void add_bar(struct bars *b, const char *name, const struct point_result *r)
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
    const struct bars *b = context;
    return plot_breakdown(b->time, b->name, NULL, b->n, svg, by);
}

static enum status draw_memory(const void *context, const char *svg, const struct provenance *by)
{
    const struct bars *b = context;
    return plot_memory(b->memory, b->n, "memory of the fullest rank", svg, by);
}

static enum status put_bars(struct report_page *p, const struct bars *b, const char *what)
{
    enum status st = STATUS_OK;
    char caption[TEXT];
    if (b->n == 0)
        return STATUS_OK;
    snprintf(caption, sizeof caption, "Where an iteration goes: %s", what);
    TRY(report_picture(p, draw_times, b, caption));
    snprintf(caption, sizeof caption, "Memory: %s", what);
    TRY(report_picture(p, draw_memory, b, caption));
out:
    return st;
}

static enum status put_change(struct report_page *p, const struct sweep_view *v,
                              const struct change *c, bool draw)
{
    enum status st;
    struct bars b = {0};
    char line[TEXT], what[TEXT];
    size_t n = 0;
    for (size_t i = 0; i < c->e->axes && n < sizeof line; i++)
        if (i != c->along && c->e->axis[i].n > 1 && !c->e->axis[i].chosen && !c->e->axis[i].seeds)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%.60s %.60s", n ? ", " : "",
                                  c->e->axis[i].name, experiment_label(c->e, c->at[0].point, i));
    snprintf(what, sizeof what, "A is %.200s, B is %.200s", c->a, c->b);
    if (n < sizeof line)
        snprintf(line + n, sizeof line - n,
                 "%sbetween %.60s %.60s and %.60s the best plan changes from A to B: %.450s. "
                 "Figures of %s%s.",
                 n ? ": " : "", c->e->axis[c->along].name,
                 experiment_label(c->e, c->at[0].point, c->along),
                 experiment_label(c->e, c->at[3].point, c->along), what, c->at[0].r.engine,
                 v->finalists.n && !c->finalists
                     ? ", because simgrid has not looked at both plans on both sides"
                     : "");
    page_paragraph(p->to, "", line);
    explain(c, line);
    page_paragraph(p->to, "", line);
    put_figures(p->to, c);
    TRY(bars_make(CORNERS, &b));
    for (size_t k = 0; k < CORNERS; k++)
        add_bar(&b, c->at[k].name, &c->at[k].r);
    if (draw)
        TRY(put_bars(p, &b, what));
out:
    bars_free(&b);
    return st;
}

/* Where the time of the best plans goes, one bar for each group. */
static enum status put_all(struct report_page *p, const struct sweep_view *v,
                           const struct sweep_table *t)
{
    enum { MOST = 24 };
    enum status st;
    struct bars b = {0};
    char(*name)[RESULT_VALUE] = calloc(MOST, sizeof *name);
    if (!name)
        return error_set(STATUS_NOMEM, "out of memory");
    TRY(bars_make(MOST, &b));
    for (size_t r = 1; r < t->rows && b.n < MOST; r++) {
        struct point_result result = {0};
        size_t point = t->best[r], n = 0, at = b.n;
        bool found = false;
        if (point == SIZE_MAX)
            continue;
        if (v->finalists.n)
            TRY(sweep_view_get(v, point, true, &found, &result));
        if (!found)
            TRY(sweep_view_get(v, point, false, &found, &result));
        for (size_t i = 0; i < v->e.axes && n < RESULT_VALUE; i++)
            if (v->e.axis[i].n > 1 && !v->e.axis[i].chosen && !v->e.axis[i].seeds)
                n += (size_t)snprintf(name[at] + n, RESULT_VALUE - n, "%s%s", n ? ", " : "",
                                      experiment_label(&v->e, point, i));
        if (n == 0)
            sweep_plan_label(&v->e, point, name[at]);
        add_bar(&b, name[at], &result);
    }
    page_heading(p->to, "Time and memory of the best plans");
    TRY(put_bars(p, &b, t->rows - 1 > MOST ? "the first of the best plans" : "the best plans"));
out:
    bars_free(&b);
    free(name);
    return st;
}

enum status report_changes(struct report_page *p, const struct sweep_view *v,
                           const struct sweep_table *t)
{
    enum { MOST = 12, MOST_DRAWN = 6 };
    enum status st = STATUS_OK;
    size_t n = 0;
    page_heading(p->to, "Where the best plan changes, and why");
    for (size_t r = 1; r < t->rows; r++) {
        struct change c;
        if (t->before[r] == SIZE_MAX || n++ >= MOST)
            continue;
        TRY(find_change(v, t->before[r], t->best[r], &c));
        TRY(put_change(p, v, &c, n <= MOST_DRAWN));
    }
    char line[NAME];
    if (n == 0)
        page_paragraph(p->to, "", "It does not: one choice is the best everywhere in a row.");
    if (n > MOST) {
        snprintf(line, sizeof line, "The first %d of %zu changes.", MOST, n);
        page_paragraph(p->to, "note", line);
    }
    TRY(put_all(p, v, t));
out:
    return st;
}
