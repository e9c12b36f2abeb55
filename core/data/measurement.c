/* Measurements from timelines: where the time of every rank went, its memory, rates, and longer
 * runs from shorter ones.
 *
 * Steps for a rank: (1) its compute ops are the busy time; (2) in each gap before a compute op,
 * what that op waits for is collected: messages and collectives, and what these wait for in
 * their turn; (3) the union of these intervals, cut to the gap, is exposed communication, and
 * each part belongs to the interval that began first; (4) the rest of the iteration is idle. */
#include "core/data/measurement.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/data/program_check.h"
#include "core/data/steady.h"

/* ---- timelines */

enum status timeline_init(struct timeline *t, size_t ops)
{
    *t = (struct timeline){.n = ops};
    enum status st = ARRAY_NEW(t->start_s, ops);
    if (st == STATUS_OK)
        st = ARRAY_NEW(t->end_s, ops);
    if (st != STATUS_OK)
        timeline_free(t);
    return st;
}

void timeline_free(struct timeline *t)
{
    free(t->start_s);
    free(t->end_s);
    *t = (struct timeline){0};
}

/* ---- where the time went */

struct interval {
    double start, end;
    size_t op;
};

static int interval_by_start(const void *a, const void *b)
{
    double x = ((const struct interval *)a)->start, y = ((const struct interval *)b)->start;
    return x < y ? -1 : x > y;
}

/* Communication that an op waits for, in places for all ops of a rank. */
struct waits {
    struct interval *in; /* [n] */
    size_t n;
    size_t *asked_by; /* [ops of the rank] op + 1 that it was added for last */
    double *of_op;    /* [ops] seconds that each was waited for; NULL: not asked */
};

/* Add the communication that op i waits for after `since`: messages, collectives, and what these
 * wait for in their turn, each once for `asking`. */
static void add_waits(const struct program *p, const struct timeline *t, size_t first, size_t i,
                      size_t asking, double since, struct waits *w)
{
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        size_t j = p->dep[d];
        if (op_computes(&p->op[j]) || t->end_s[j] <= since || w->asked_by[j - first] == asking + 1)
            continue;
        w->asked_by[j - first] = asking + 1;
        w->in[w->n++] = (struct interval){t->start_s[j], t->end_s[j], j};
        if (op_is_collective(&p->op[j]))
            add_waits(p, t, first, j, asking, since, w);
    }
}

/* Add the parts of [from, to) that the waits cover together, each to the one that began first. */
static void expose(const struct program *p, struct waits *w, double from, double to,
                   struct measured_rank *out)
{
    struct interval *in = w->in;
    size_t n = w->n;
    double reached = from;
    qsort(in, n, sizeof *in, interval_by_start);
    for (size_t k = 0; k < n; k++) {
        double start = fmax(in[k].start, reached), end = fmin(in[k].end, to);
        if (end <= start)
            continue;
        out->exposed_s[p->op[in[k].op].purpose] += end - start;
        if (w->of_op)
            w->of_op[in[k].op] += end - start;
        out->exposed_comm_s += end - start;
        reached = end;
    }
}

/* The part of a timeline that is accounted, and how many of it make an iteration. */
struct time_window {
    double from_s, to_s, times;
};

static void account_rank(const struct program *p, const struct timeline *t, uint32_t r,
                         const struct time_window *w, struct waits *waits,
                         struct measured_rank *out)
{
    double reached = w->from_s;
    for (size_t i = p->op_start[r]; i < p->op_start[r + 1] && reached < w->to_s; i++) {
        if (!op_computes(&p->op[i]) || t->end_s[i] <= reached)
            continue;
        double start = fmin(t->start_s[i], w->to_s), end = fmin(t->end_s[i], w->to_s);
        waits->n = 0;
        if (start > reached)
            add_waits(p, t, p->op_start[r], i, i, reached, waits);
        expose(p, waits, reached, start, out);
        double seconds = end - fmax(start, reached);
        out->busy_s += seconds;
        out->update_s += op_updates(&p->op[i]) ? seconds : 0;
        reached = end;
    }
    waits->n = 0;
    for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) /* what the end waits for */
        if (op_is_collective(&p->op[i]) && t->end_s[i] > reached)
            waits->in[waits->n++] = (struct interval){t->start_s[i], t->end_s[i], i};
    expose(p, waits, reached, w->to_s, out);
    out->busy_s *= w->times;
    out->update_s *= w->times;
    out->exposed_comm_s *= w->times;
    for (size_t k = 0; k < OP_PURPOSES; k++)
        out->exposed_s[k] *= w->times;
}

uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* End of microbatch m's backward on the first stage, 0 if it has none. */
static double measurement_finished(const struct program *p, const struct timeline *t, uint32_t m)
{
    for (uint32_t r = 0; r < p->ranks && p->rank[r].stage == 0; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            if (p->op[i].kind == OP_BACKWARD && p->op[i].microbatch == m)
                return t->end_s[i];
    return 0;
}

/* All of it; without flush the second half, when that has a whole number of periods. */
static struct time_window window_of(const struct program *p, const struct timeline *t,
                                    bool *settled)
{
    struct time_window all = {0, 0, 1};
    uint64_t cycle = 1, margin = p->ranks;
    *settled = true;
    for (size_t i = 0; i < p->ops; i++)
        all.to_s = fmax(all.to_s, t->end_s[i]);
    if (!p->asynchronous)
        return all;
    for (uint32_t r = 0; r < p->ranks && cycle < p->microbatches; r++)
        if (r + 1 == p->ranks || p->rank[r + 1].stage != p->rank[r].stage)
            cycle = common_multiple(cycle, p->rank[r].replica + 1); /* the stage's last replica */
    uint64_t last = p->microbatches > margin ? p->microbatches - 1 - margin : 0;
    uint64_t periods = last / 2 / cycle; /* the second half: the first one settles */
    if (periods == 0) {
        *settled = false;
        return all;
    }
    uint32_t to = (uint32_t)last, from = (uint32_t)(last - periods * cycle);
    return (struct time_window){measurement_finished(p, t, from), measurement_finished(p, t, to),
                                (double)p->microbatches / (double)(to - from)};
}

void timeline_join(const struct program *p, struct timeline *t)
{
    for (size_t i = 0; i < p->ops; i++) {
        const struct program_op *o = &p->op[i];
        if (o->kind == OP_RECV)
            t->start_s[i] = t->start_s[o->match];
        if (op_is_collective(o))
            for (size_t j = o->match; j != i; j = p->op[j].match)
                t->start_s[i] = fmax(t->start_s[i], t->start_s[j]);
        t->start_s[i] = fmin(t->start_s[i], t->end_s[i]);
    }
}

double timeline_iteration(const struct program *p, const struct timeline *t, bool *settled)
{
    struct time_window w = window_of(p, t, settled);
    return (w.to_s - w.from_s) * w.times;
}

/* The longest list of any rank. */
static size_t most_ops(const struct program *p)
{
    size_t most = 0;
    for (size_t r = 0; r < p->ranks; r++) {
        size_t n = p->op_start[r + 1] - p->op_start[r];
        most = n > most ? n : most;
    }
    return most;
}

/* What the peak is made of: the static parts, the scratch space where a pass is the peak, and as
 * the rest the stashed activations. */
static enum status account_memory(const struct program *p, uint32_t r, struct measured_rank *out)
{
    const struct program_rank *rank = &p->rank[r];
    char label[OP_LABEL];
    uint32_t at;
    out->peak_bytes = program_peak(p, r, &at);
    out->weight_bytes = rank->weight_bytes;
    out->gradient_bytes = rank->gradient_bytes;
    out->state_bytes = rank->state_bytes;
    out->host_bytes = program_host_bytes(p, r);
    out->scratch_bytes = at == PROGRAM_NONE ? 0 : rank->scratch_bytes;
    out->stash_bytes = out->peak_bytes - program_static_bytes(rank) - out->scratch_bytes;
    return at == PROGRAM_NONE ? STATUS_OK : text_copy(op_label(&p->op[at], label), &out->peak_at);
}

static enum status waits_new(const struct program *p, struct waits *w)
{
    PASS(ARRAY_NEW(w->in, most_ops(p)));
    return ARRAY_NEW(w->asked_by, most_ops(p));
}

static void waits_free(struct waits *w)
{
    free(w->in);
    free(w->asked_by);
}

/* What is left of an iteration; where rounding alone leaves something, nothing. */
static double idle_of(const struct measured_rank *rank, double iteration_s)
{
    static const double rounding = 1e-12; /* of the iteration */
    double left_s = iteration_s - rank->busy_s - rank->exposed_comm_s;
    return left_s > rounding * iteration_s ? left_s : 0;
}

/* Ranks one by one; the bubble is the mean idle share of all. */
static enum status account_ranks(const struct program *p, const struct timeline *t,
                                 const struct time_window *w, struct measurement *out)
{
    enum status st;
    double idle_s = 0, iteration_s = (w->to_s - w->from_s) * w->times;
    struct waits waits = {0};
    TRY(waits_new(p, &waits));
    TRY(ARRAY_NEW(out->rank, p->ranks));
    for (uint32_t r = 0; r < p->ranks; r++) {
        struct measured_rank *rank = &out->rank[out->ranks++];
        rank->stage = p->rank[r].stage;
        TRY(text_copy(p->rank[r].name, &rank->name));
        account_rank(p, t, r, w, &waits, rank);
        rank->idle_s = idle_of(rank, iteration_s);
        TRY(account_memory(p, r, rank));
        idle_s += rank->idle_s;
    }
    out->bubble_fraction = iteration_s > 0 ? idle_s / ((double)p->ranks * iteration_s) : 0;
out:
    waits_free(&waits);
    return st;
}

enum status measurement_exposed_ops(const struct program *p, const struct timeline *t,
                                    double *exposed_s)
{
    enum status st;
    bool settled;
    const struct time_window w = window_of(p, t, &settled);
    struct waits waits = {.of_op = exposed_s};
    for (size_t i = 0; i < p->ops; i++)
        exposed_s[i] = 0;
    TRY(waits_new(p, &waits));
    for (uint32_t r = 0; r < p->ranks; r++)
        account_rank(p, t, r, &w, &waits, &(struct measured_rank){0});
    for (size_t i = 0; i < p->ops; i++)
        exposed_s[i] *= w.times;
out:
    waits_free(&waits);
    return st;
}

/* Times that overflow cannot be written, and mean nothing. */
static enum status check_finite(const struct program *p, const struct timeline *t)
{
    char label[OP_LABEL];
    for (size_t i = 0; i < p->ops; i++)
        if (!isfinite(t->start_s[i]) || !isfinite(t->end_s[i]))
            return error_set(STATUS_INVALID,
                             "%s of %s has no finite duration (%g s to %g s): the model has too "
                             "many FLOP or bytes, or the platform too low a speed",
                             op_label(&p->op[i], label), p->rank[program_rank_of(p, i)].name,
                             t->start_s[i], t->end_s[i]);
    return STATUS_OK;
}

enum status measurement_from_timeline(const struct program *p, const struct timeline *t,
                                      struct measurement *out)
{
    bool settled;
    struct time_window w = window_of(p, t, &settled);
    double iteration_s = (w.to_s - w.from_s) * w.times;

    PASS(check_finite(p, t));
    out->microbatches = out->simulated = p->microbatches;
    PASS(measurement_set_iterations(out, p, &iteration_s, 1));
    PASS(account_ranks(p, t, &w, out));
    if (!settled)
        PASS(measurement_warn(out,
                              "%u microbatches do not reach a steady state: the time includes "
                              "pipeline warm-up and drain",
                              p->microbatches));
    return STATUS_OK;
}

enum status measurement_set_iterations(struct measurement *out, const struct program *p,
                                       const double *iterations_s, size_t n)
{
    double middle = median(iterations_s, n), *copy;
    if (isnan(middle))
        return error_set(STATUS_NOMEM, "out of memory for the times of %zu iterations", n);
    PASS(ARRAY_COPY(copy, iterations_s, n));
    free(out->iterations_s);
    out->iterations_s = copy;
    out->iterations = n;
    out->iteration_s = middle;
    double samples = (double)p->microbatches * p->microbatch_size;
    out->samples_per_s = middle > 0 ? samples / middle : 0;
    out->tokens_per_s = out->samples_per_s * p->tokens_per_sample;
    return STATUS_OK;
}

static int busiest_first(const void *a, const void *b)
{
    const struct measured_link *x = a, *y = b;
    if (x->busy_fraction != y->busy_fraction)
        return x->busy_fraction > y->busy_fraction ? -1 : 1;
    return strcmp(x->name, y->name);
}

void measurement_sort_links(struct measurement *m)
{
    if (m->links > 0)
        qsort(m->link, m->links, sizeof *m->link, busiest_first);
}

/* What ranks did not spend otherwise they were idle. */
static void settle_idle(struct measurement *m)
{
    double idle_s = 0;
    for (size_t r = 0; r < m->ranks; r++) {
        m->rank[r].idle_s = idle_of(&m->rank[r], m->iteration_s);
        idle_s += m->rank[r].idle_s;
    }
    m->bubble_fraction = idle_s / ((double)m->ranks * m->iteration_s);
}

/* Where the time of a recurrence went, `times` over, is added to every rank. */
static enum status repeat_ranks(struct measurement *m, const struct program *p,
                                const struct timeline *t, const struct steady *s, double times)
{
    enum status st;
    struct waits waits = {0};
    const struct time_window w = {s->from_s, s->from_s + s->step_s, times};
    TRY(waits_new(p, &waits));
    for (uint32_t r = 0; r < m->ranks; r++) {
        struct measured_rank more = {0}, *rank = &m->rank[r];
        account_rank(p, t, r, &w, &waits, &more);
        rank->busy_s += more.busy_s;
        rank->update_s += more.update_s;
        rank->exposed_comm_s += more.exposed_comm_s;
        for (size_t k = 0; k < OP_PURPOSES; k++)
            rank->exposed_s[k] += more.exposed_s[k];
    }
    settle_idle(m);
out:
    waits_free(&waits);
    return st;
}

enum status measurement_repeat(struct measurement *m, const struct program *p,
                               const struct timeline *t, const struct steady *s, uint32_t unit,
                               uint32_t times)
{
    double before_s = m->iteration_s;
    struct program longer = *p; /* borrows all */
    longer.microbatches += unit * times;
    double iteration_s = before_s + times * s->step_s;
    PASS(measurement_set_iterations(m, &longer, &iteration_s, 1));
    m->microbatches = longer.microbatches;
    for (size_t k = 0; k < m->links; k++)
        m->link[k].busy_fraction *= before_s / iteration_s;
    return repeat_ranks(m, p, t, s, times);
}

void measurement_drop_links(struct measurement *m)
{
    for (size_t k = 0; k < m->links; k++)
        free(m->link[k].name);
    free(m->link);
    m->link = NULL;
    m->links = 0;
}

enum status measurement_go_on(struct measurement *m, const struct measurement *shorter,
                              const struct program *p, uint32_t unit, uint32_t times)
{
    struct program longer = *p; /* borrows all */
    double iteration_s = m->iteration_s + times * (m->iteration_s - shorter->iteration_s);
    longer.microbatches += unit * times;
    PASS(measurement_set_iterations(m, &longer, &iteration_s, 1));
    m->microbatches = longer.microbatches;
    for (size_t r = 0; r < m->ranks; r++) {
        const struct measured_rank *less = &shorter->rank[r];
        struct measured_rank *rank = &m->rank[r];
        rank->busy_s += times * (rank->busy_s - less->busy_s);
        rank->update_s += times * (rank->update_s - less->update_s);
        rank->exposed_comm_s += times * (rank->exposed_comm_s - less->exposed_comm_s);
        for (size_t k = 0; k < OP_PURPOSES; k++)
            rank->exposed_s[k] += times * (rank->exposed_s[k] - less->exposed_s[k]);
    }
    settle_idle(m);
    measurement_drop_links(m);
    return STATUS_OK;
}

static void sort_by_name(struct measurement *m)
{
    if (m->links > 0)
        qsort(m->link, m->links, sizeof *m->link, order_by_name);
}

void measurement_repeat_links(struct measurement *m, struct measurement *shorter, double times)
{
    sort_by_name(m);
    sort_by_name(shorter);
    for (size_t k = 0, j = 0; k < m->links; k++) {
        struct measured_link *link = &m->link[k];
        while (j < shorter->links && order_by_name(&shorter->link[j], link) < 0)
            j++;
        double before = link->bytes, less = 0;
        if (j < shorter->links && order_by_name(&shorter->link[j], link) == 0)
            less = shorter->link[j].bytes;
        if (before > 0) {
            link->bytes += times * (before - less);
            link->busy_fraction *= link->bytes / before;
        }
    }
    measurement_sort_links(m);
}

size_t measurement_fullest(const struct measurement *m)
{
    size_t fullest = m->ranks;
    int64_t least = INT64_MAX;
    for (size_t r = 0; r < m->ranks; r++)
        if (m->rank[r].memory_bytes > 0 &&
            m->rank[r].memory_bytes - m->rank[r].peak_bytes < least) {
            least = m->rank[r].memory_bytes - m->rank[r].peak_bytes;
            fullest = r;
        }
    return fullest;
}

size_t measurement_overfull(const struct measurement *m)
{
    size_t n = 0;
    for (size_t r = 0; r < m->ranks; r++)
        n += m->rank[r].memory_bytes > 0 && m->rank[r].peak_bytes > m->rank[r].memory_bytes;
    return n;
}

enum status measurement_warn(struct measurement *m, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    PASS(ARRAY_ROOM(m->warning, m->warnings));
    PASS(text_copy(text, &m->warning[m->warnings]));
    m->warnings++;
    return STATUS_OK;
}
