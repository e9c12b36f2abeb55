#include "core/measurement.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/text.h"

/* ---- timelines */

enum status timeline_init(struct timeline *t, size_t ops)
{
    *t = (struct timeline){.n = ops};
    t->start_s = calloc(ops + 1, sizeof *t->start_s);
    t->end_s = calloc(ops + 1, sizeof *t->end_s);
    if (t->start_s && t->end_s)
        return STATUS_OK;
    timeline_free(t);
    return error_set(STATUS_NOMEM, "timeline of %zu ops", ops);
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
};

static int by_start(const void *a, const void *b)
{
    double x = ((const struct interval *)a)->start, y = ((const struct interval *)b)->start;
    return x < y ? -1 : x > y;
}

/* The communication that op i waits for: RECVs, and collectives with the collectives before them.
 * in[room] must be as long as the program has dependencies of one op, plus its collectives. */
static size_t waited_for(const struct program *p, const struct timeline *t, size_t i,
                         struct interval *in)
{
    size_t n = 0;
    for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++) {
        size_t j = p->dep[d];
        if (op_computes(&p->op[j]))
            continue;
        in[n++] = (struct interval){t->start_s[j], t->end_s[j]};
        while (p->op[j].kind >= OP_ALLREDUCE && p->op[j].dep_start < p->op[j + 1].dep_start &&
               !op_computes(&p->op[p->dep[p->op[j].dep_start]])) {
            j = p->dep[p->op[j].dep_start];
            in[n++] = (struct interval){t->start_s[j], t->end_s[j]};
        }
    }
    return n;
}

/* Length of the union of in[n] inside [from, to). */
static double covered(struct interval *in, size_t n, double from, double to)
{
    double sum = 0, reached = from;
    qsort(in, n, sizeof *in, by_start);
    for (size_t k = 0; k < n; k++) {
        double start = fmax(in[k].start, reached), end = fmin(in[k].end, to);
        if (end > start) {
            sum += end - start;
            reached = end;
        }
    }
    return sum;
}

static void account_rank(const struct program *p, const struct timeline *t, uint32_t r,
                         double iteration_s, struct interval *room, struct measured_rank *out)
{
    double reached = 0;
    for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
        if (!op_computes(&p->op[i]))
            continue;
        if (t->start_s[i] > reached)
            out->exposed_comm_s += covered(room, waited_for(p, t, i, room), reached, t->start_s[i]);
        out->busy_s += t->end_s[i] - t->start_s[i];
        reached = fmax(reached, t->end_s[i]);
    }
    out->idle_s = fmax(0, iteration_s - out->busy_s - out->exposed_comm_s);
}

enum status measurement_from_timeline(const struct program *p, const struct timeline *t,
                                      struct measurement *out)
{
    enum status st = STATUS_OK;
    double iteration_s = 0, idle_s = 0;
    struct interval *room = calloc(p->deps + p->ranks + 1, sizeof *room);
    int64_t *peak = calloc(p->ranks + 1, sizeof *peak);
    struct measured_rank *rank = calloc(p->ranks + 1, sizeof *rank);

    if (!room || !peak || !rank) {
        st = error_set(STATUS_NOMEM, "measurement of %zu ranks", p->ranks);
        goto out;
    }
    TRY(program_check(p, peak));
    for (size_t i = 0; i < p->ops; i++)
        iteration_s = fmax(iteration_s, t->end_s[i]);
    for (uint32_t r = 0; r < p->ranks; r++) {
        TRY(text_copy(p->rank[r].name, &rank[r].name));
        account_rank(p, t, r, iteration_s, room, &rank[r]);
        rank[r].peak_bytes = peak[r];
        idle_s += rank[r].idle_s;
    }
    TRY(measurement_set_iterations(out, p, &iteration_s, 1));
    out->bubble_fraction = iteration_s > 0 ? idle_s / ((double)p->ranks * iteration_s) : 0;
    out->rank = rank;
    out->ranks = p->ranks;
    rank = NULL;
out:
    for (size_t r = 0; rank && r < p->ranks; r++)
        free(rank[r].name);
    free(rank);
    free(peak);
    free(room);
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double median(const double *value, size_t n)
{
    double *sorted = calloc(n + 1, sizeof *sorted);
    if (!sorted || n == 0) {
        free(sorted);
        return NAN;
    }
    memcpy(sorted, value, n * sizeof *value);
    qsort(sorted, n, sizeof *sorted, by_value);
    double m = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return m;
}

enum status measurement_set_iterations(struct measurement *out, const struct program *p,
                                       const double *iterations_s, size_t n)
{
    double *copy = calloc(n + 1, sizeof *copy);
    double middle = median(iterations_s, n);
    if (!copy || isnan(middle)) {
        free(copy);
        return error_set(STATUS_NOMEM, "%zu iterations", n);
    }
    memcpy(copy, iterations_s, n * sizeof *copy);
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
    qsort(m->link, m->links, sizeof *m->link, busiest_first);
}

enum status measurement_warn(struct measurement *m, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    char **larger = realloc(m->warning, (m->warnings + 1) * sizeof *larger);
    if (!larger)
        return error_set(STATUS_NOMEM, "out of memory");
    m->warning = larger;
    m->warning[m->warnings] = NULL;
    enum status st = text_copy(text, &m->warning[m->warnings]);
    m->warnings += st == STATUS_OK;
    return st;
}

void measurement_free(struct measurement *m)
{
    for (size_t r = 0; m->rank && r < m->ranks; r++)
        free(m->rank[r].name);
    for (size_t k = 0; m->link && k < m->links; k++)
        free(m->link[k].name);
    for (size_t k = 0; m->warning && k < m->warnings; k++)
        free(m->warning[k]);
    free(m->rank);
    free(m->link);
    free(m->warning);
    free(m->iterations_s);
    free(m->loss);
    free(m->parameters_sha256);
    free(m->engine);
    free(m->plan);
    free(m->plan_sha256);
    free(m->model);
    free(m->platform);
    *m = (struct measurement){0};
}
