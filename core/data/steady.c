/* The proof that the middle of an iteration repeats: images of ops in the lists, then their times,
 * which leave a window of time clear or do not. */
#include "core/data/steady.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"

/* Rounding of sums of times, relative to the step; an error of so much in every step stays below
 * it in any number of them. */
static const double rounding = 1e-12;

/* The ops of one rank: those of [low, high) have their image `unit` microbatches later `ops`
 * further on in the list. */
struct body {
    size_t low, high, ops;
};

static bool same_op(const struct program_op *a, const struct program_op *b)
{
    return a->kind == b->kind && a->purpose == b->purpose && a->backward == b->backward &&
           a->part == b->part && a->stage == b->stage && a->peer == b->peer &&
           a->peer_stage == b->peer_stage && a->count == b->count && a->bytes == b->bytes &&
           a->seconds == b->seconds;
}

/* Is op i + ops the same as op i, `unit` microbatches later, also in what it waits for? */
static bool is_image(const struct program *p, size_t i, size_t ops, uint32_t unit)
{
    const struct program_op *a = &p->op[i], *b = &p->op[i + ops];
    if (a->microbatch == PROGRAM_NONE || b->microbatch == PROGRAM_NONE ||
        b->microbatch - a->microbatch != unit || !same_op(a, b) ||
        a[1].dep_start - a->dep_start != b[1].dep_start - b->dep_start ||
        (op_is_message(a) && b->tag - a->tag != unit))
        return false;
    for (uint32_t d = a->dep_start, e = b->dep_start; d < a[1].dep_start; d++, e++)
        if (p->dep[e] - p->dep[d] != ops)
            return false;
    return true;
}

/* From the middle of the list as far as ops have images. */
static bool find_body(const struct program *p, uint32_t rank, uint32_t unit, struct body *out)
{
    size_t first = p->op_start[rank], last = p->op_start[rank + 1];
    size_t middle = first + (last - first) / 2, ops = 1;
    while (middle + ops < last && !is_image(p, middle, ops, unit))
        ops++;
    if (middle + ops >= last)
        return false;
    *out = (struct body){middle, middle, ops};
    while (out->high + ops < last && is_image(p, out->high, ops, unit))
        out->high++;
    while (out->low > first && is_image(p, out->low - 1, ops, unit))
        out->low--;
    return true;
}

/* The clear window, while it is narrowed down. */
struct steady_window {
    double from_s, to_s, step_s, tolerance_s;
};

/* Before the first op without a later image: nothing from there on may be under way. And the step,
 * by the last op that has ended by then. */
static void open_window(const struct program *p, const struct timeline *t, const struct body *body,
                        struct steady_window *w)
{
    double latest = -1;
    w->to_s = INFINITY;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = body[r].high; i < p->op_start[r + 1]; i++)
            w->to_s = fmin(w->to_s, t->start_s[i]);
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = body[r].low; i < body[r].high; i++)
            if (t->end_s[i] <= w->to_s && t->end_s[i] > latest) {
                latest = t->end_s[i];
                w->step_s = t->end_s[i + body[r].ops] - latest;
            }
}

/* Ops that do not recur after one step end the window if they are still under way at its end, and
 * begin it anew otherwise. */
static void narrow_window(const struct program *p, const struct timeline *t,
                          const struct body *body, struct steady_window *w)
{
    double to_s = w->to_s;
    for (uint32_t r = 0; r < p->ranks; r++) {
        for (size_t i = p->op_start[r]; i < body[r].low; i++)
            w->from_s = fmax(w->from_s, t->end_s[i]);
        for (size_t i = body[r].low; i < body[r].high && i < body[r].low + body[r].ops; i++)
            w->from_s = fmax(w->from_s, t->end_s[i] - w->step_s);
        for (size_t i = body[r].low; i < body[r].high; i++) {
            size_t j = i + body[r].ops;
            if (t->start_s[i] >= w->to_s ||
                (fabs(t->start_s[j] - t->start_s[i] - w->step_s) <= w->tolerance_s &&
                 fabs(t->end_s[j] - t->end_s[i] - w->step_s) <= w->tolerance_s))
                continue;
            if (t->end_s[i] > w->to_s)
                to_s = fmin(to_s, t->start_s[i]);
            else
                w->from_s = fmax(w->from_s, t->end_s[i]);
        }
    }
    w->to_s = to_s;
}

/* Did all that is under way at the end of the window begin in it? */
static bool is_closed(const struct program *p, const struct timeline *t, const struct body *body,
                      const struct steady_window *w)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = body[r].low; i < body[r].high; i++)
            if (t->start_s[i] < w->from_s && t->end_s[i] > w->to_s)
                return false;
    return true;
}

/* The step as the mean over as many recurrences as the window has: single ones are off by what the
 * engine cannot tell apart. */
static double mean_step(const struct program *p, const struct timeline *t, const struct body *body,
                        const struct steady_window *w)
{
    double longest = 0, mean = w->step_s;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = body[r].low; i < body[r].low + body[r].ops && i < body[r].high; i++) {
            size_t from = i, steps = 0;
            while (from < body[r].high && t->start_s[from] <= w->from_s)
                from += body[r].ops;
            size_t to = from;
            for (; to < body[r].high && t->end_s[to] <= w->to_s; to += body[r].ops)
                steps++;
            if ((double)steps > longest) {
                longest = (double)steps;
                mean = (t->end_s[to] - t->end_s[from]) / (double)steps;
            }
        }
    return mean;
}

/* The ops of a recurrence: those from the first one that begins inside the window. */
static void take_ops(const struct program *p, const struct timeline *t, const struct body *body,
                     struct steady *out)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        size_t i = body[r].low;
        while (i < body[r].high && t->start_s[i] < out->from_s)
            i++;
        out->from[r] = i;
        out->to[r] = i + body[r].ops;
    }
}

enum status steady_find(const struct program *p, const struct timeline *t, uint32_t unit,
                        double resolution_s, struct steady *out)
{
    enum status st;
    struct body *body = NULL;
    struct steady s = {0};
    struct steady_window w = {0};
    TRY(ARRAY_NEW(body, p->ranks));
    TRY(ARRAY_NEW(s.from, p->ranks));
    TRY(ARRAY_NEW(s.to, p->ranks));
    s.found = p->ranks > 0;
    for (uint32_t r = 0; r < p->ranks && s.found; r++)
        s.found = find_body(p, r, unit, &body[r]);
    if (s.found) {
        open_window(p, t, body, &w);
        w.tolerance_s = fmax(resolution_s, rounding * w.step_s);
        narrow_window(p, t, body, &w);
        s.found = w.step_s > 0 && w.to_s - w.from_s > w.step_s && is_closed(p, t, body, &w);
    }
    if (s.found) {
        s.step_s = mean_step(p, t, body, &w);
        s.from_s = w.to_s - s.step_s;
        take_ops(p, t, body, &s);
    }
    *out = s;
    s = (struct steady){0};
out:
    steady_free(&s);
    free(body);
    return st;
}

void steady_free(struct steady *s)
{
    free(s->from);
    free(s->to);
    *s = (struct steady){0};
}
