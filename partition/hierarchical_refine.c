/* Better cuts from cuts: filling up to a bound, and dynamic programming in windows. */
#include "partition/hierarchical_refine.h"

#include <math.h>
#include <string.h>

#include "core/base/array.h"

enum {
    BOUNDS = 40,
    MOST_ENTRIES = 8 << 20, /* of all windows together: 100 MB */
};

static const size_t radius[] = {4, 32, 256}; /* of the windows */
static const double most_work = 4e8;         /* steps of refinement: a second or two */
static const double enough = 1e-7; /* bounds this near each other are the same, relative */

/* ---- cuts */

void cuts_free(struct cuts *x)
{
    arena_free(&x->memory);
    *x = (struct cuts){0};
}

static void find_live(const struct model *m, double *live)
{
    for (size_t i = 0; i < m->n; i++) { /* differences first */
        uint32_t last = 0;
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            last = m->out[k] > last ? m->out[k] : last;
        if (last > i) {
            live[i + 1] += (double)m->op[i].output_bytes;
            live[last + 1] -= (double)m->op[i].output_bytes;
        }
    }
    for (size_t i = 0; i < m->n; i++)
        live[i + 1] += live[i];
}

enum status cuts_begin(const struct partition_problem *p, const struct chain_cost *c,
                       struct cuts *x)
{
    *x = (struct cuts){
        .problem = p, .cost = c, .n = c->m->n, .stages = c->stages, .value_s = INFINITY};
    PASS(ARENA_NEW(&x->memory, x->cut, x->stages + 1));
    PASS(ARENA_NEW(&x->memory, x->trial, x->stages + 1));
    PASS(ARENA_NEW(&x->memory, x->live, x->n + 2));
    find_live(c->m, x->live);
    return STATUS_OK;
}

/* May stages end before op `end`, which is another's first? */
static bool is_cut(const struct cuts *c, size_t end)
{
    return end == c->n || partition_may_begin(c->problem, end);
}

void cuts_offer(struct cuts *c)
{
    double worst = 0;
    for (size_t s = 0; s < c->stages; s++) {
        double bytes = 0;
        for (size_t j = c->trial[s]; j < c->trial[s + 1]; j++)
            bytes += chain_cost_entering(c->cost, c->trial[s], j);
        worst = fmax(worst, chain_cost_load(c->cost, s, c->trial[s], c->trial[s + 1], bytes));
    }
    if (worst < c->value_s) {
        c->value_s = worst;
        memcpy(c->cut, c->trial, (c->stages + 1) * sizeof *c->cut);
    }
}

/* ---- filling */

/* Probe: can stages of at most bound_s hold all ops? The stages are filled in order. Of the ends e
 * that a stage may have within the bound, the one from which the next stage gets furthest: until[e]
 * less the time of what crosses e, which is the next stage's to receive. Into c->trial; false when
 * ops are left. Source: Probe of Iqbal, in Pinar & Aykanat 2004, section 3.4; there every stage is
 * filled to the brim, which is right when nothing has to be sent. */
static bool refine_fill(struct cuts *c, double bound_s)
{
    size_t first = 0;
    for (size_t s = 0; s < c->stages; s++) {
        size_t end = 0, next = s + 1, later = c->stages - next;
        double bytes = 0, best = -INFINITY;
        const double *until = next < c->stages ? chain_cost_until(c->cost, next) : NULL;
        for (size_t e = first + 1; e <= c->n && partition_holds(c->problem, e, c->n, later); e++) {
            bytes += chain_cost_entering(c->cost, first, e - 1);
            if (!(chain_cost_load(c->cost, s, first, e, bytes) <= bound_s))
                break;
            if (!is_cut(c, e))
                continue;
            double reach = until ? until[e] - c->cost->gap_s[next] * c->live[e] : (double)e;
            if (reach >= best) {
                best = reach;
                end = e;
            }
        }
        if (end == 0)
            return false;
        c->trial[s] = first;
        first = end;
    }
    c->trial[c->stages] = c->n;
    return first == c->n;
}

/* Bisection of the bound between 0 and the best value known. */
void cuts_fill(struct cuts *c)
{
    double low = 0;
    for (int i = 0; i < BOUNDS && c->value_s - low > enough * c->value_s; i++) {
        double middle = low + (c->value_s - low) / 2, before = c->value_s;
        if (refine_fill(c, middle))
            cuts_offer(c);
        if (!(c->value_s < before))
            low = middle;
    }
}

/* ---- windows
 *
 * With W(s) the positions around cut s, and B(s, e) the least slowest of the stages 0..s - 1 when
 * stage s begins with op e,
 *     B(0, 0) = 0,  B(s + 1, e) = min over f in W(s), f < e, of max(B(s, f), load(s, f, e)),
 * e in W(s + 1) where a stage may begin, and what is not below the best value known left out: the
 * program of balanced, of which only the windows are kept. */

struct windows {
    size_t width;
    double *best;   /* [stages + 1][width] slowest stage up to this cut */
    uint32_t *from; /* [stages + 1][width] where in its window the cut before is */
    size_t *low;    /* [stages + 1] first cut of each window */
    size_t *high;   /* [stages + 1] last */
    struct arena memory;
};

static enum status windows_open(const struct cuts *c, size_t around, struct windows *w)
{
    w->width = 2 * around + 1;
    PASS(ARENA_NEW(&w->memory, w->best, (c->stages + 1) * w->width));
    PASS(ARENA_NEW(&w->memory, w->from, (c->stages + 1) * w->width));
    PASS(ARENA_NEW(&w->memory, w->low, c->stages + 1));
    return ARENA_NEW(&w->memory, w->high, c->stages + 1);
}

/* Put the windows around the cuts; nothing is reached yet but the beginning. */
static void windows_place(const struct cuts *c, struct windows *w)
{
    size_t around = w->width / 2;
    for (size_t s = 0; s <= c->stages; s++) {
        size_t least = s > 0 ? s : 0, most = s > 0 ? c->n - (c->stages - s) : 0;
        least = s == c->stages ? c->n : least;
        w->low[s] = c->cut[s] > least + around ? c->cut[s] - around : least;
        w->high[s] = c->cut[s] + around < most ? c->cut[s] + around : most;
    }
    for (size_t i = 0; i < (c->stages + 1) * w->width; i++)
        w->best[i] = INFINITY;
    w->best[0] = 0;
}

/* Stage s from every cut of window s to every cut of the next; only what is better than c->value_s
 * counts. */
static void windows_stage(struct cuts *c, struct windows *w, size_t s)
{
    const double *before = w->best + s * w->width;
    double *after = w->best + (s + 1) * w->width;
    for (size_t first = w->low[s]; first <= w->high[s]; first++) {
        double so_far = before[first - w->low[s]], bytes = 0;
        size_t from = first + 1 > w->low[s + 1] ? first + 1 : w->low[s + 1];
        c->work++;
        if (!(so_far < c->value_s) || from > w->high[s + 1] ||
            !(chain_cost_load(c->cost, s, first, from, 0) < c->value_s))
            continue;
        for (size_t end = first + 1; end <= w->high[s + 1]; end++) {
            bytes += chain_cost_entering(c->cost, first, end - 1);
            c->work += 1 + (double)(c->cost->m->in_start[end] - c->cost->m->in_start[end - 1]);
            double value = fmax(so_far, chain_cost_load(c->cost, s, first, end, bytes));
            if (!(value < c->value_s))
                break;
            if (end >= from && is_cut(c, end) && value < after[end - w->low[s + 1]]) {
                after[end - w->low[s + 1]] = value;
                w->from[(s + 1) * w->width + end - w->low[s + 1]] = (uint32_t)(first - w->low[s]);
            }
        }
    }
}

/* One round: place, fill stage by stage, and go back from the end through w->from. Is there
 * something better in the windows? */
static bool windows_search(struct cuts *c, struct windows *w)
{
    windows_place(c, w);
    for (size_t s = 0; s < c->stages && c->work < most_work; s++)
        windows_stage(c, w, s);
    double before = c->value_s;
    if (!(c->work < most_work) || !(w->best[c->stages * w->width] < before))
        return false;
    for (size_t s = c->stages + 1, at = 0; s-- > 0;) {
        c->trial[s] = w->low[s] + at;
        at = w->from[s * w->width + at];
    }
    cuts_offer(c);
    return c->value_s < before;
}

/* Rounds with windows of a radius until they bring nothing; then the next radius, as large as
 * memory allows. */
enum status cuts_refine(struct cuts *c)
{
    enum status st = STATUS_OK;
    struct windows w = {0};
    size_t most = MOST_ENTRIES / (c->stages + 1) / 2, around = 0;
    most = most > radius[0] ? most : radius[0];
    most = most < c->n ? most : c->n;
    for (size_t r = 0; r < sizeof radius / sizeof *radius && around < most; r++) {
        around = radius[r] < most ? radius[r] : most;
        TRY(windows_open(c, around, &w));
        while (windows_search(c, &w) && c->work < most_work)
            ;
        arena_free(&w.memory);
    }
out:
    arena_free(&w.memory);
    return st;
}
