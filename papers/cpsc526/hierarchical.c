/* Top down: ops are divided among the groups of the outermost level as if each group were a
 * device, at the mean cost between their devices, then inside each group, and so on; at the
 * end moves go across all devices. */
#include <math.h>
#include <string.h>

#include "core/base/array.h"
#include "papers/cpsc526/refine.h"

enum { TRIES = 4, INNER_TRIES = 3 };

struct descent {
    const struct cpsc526_problem *p;
    struct cpsc526_search *s;
    size_t tries;    /* starts of every split */
    uint32_t *label; /* [p->n] */
};

/* Mean cost between groups of `size` labels each from place `first` of the order on, k x k. */
static void mean_costs(const struct cpsc526_problem *p, size_t first, size_t k, size_t size,
                       double *cost)
{
    for (size_t a = 0; a < k; a++)
        for (size_t b = 0; b < k; b++) {
            double sum = 0;
            const uint32_t *from = p->order + first + a * size, *to = p->order + first + b * size;
            for (size_t i = 0; i < size; i++)
                for (size_t j = 0; j < size; j++)
                    sum += p->cost[from[i] * p->k + to[j]];
            cost[a * k + b] = a == b ? 0 : sum / (double)(size * size);
        }
}

/* Divide member[n] among the labels at first .. first + size - 1 of the order, which the
 * groups of `level` divide into equal blocks: split them among blocks at mean costs, then each
 * block's members further down, until a block is one label. */
static enum status cpsc526_hierarchical_descend(const struct descent *d, size_t level,
                                                const uint32_t *member, size_t n, size_t first,
                                                size_t size)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    struct cpsc526_problem sub = {0};
    size_t k = d->p->levels ? d->p->groups[level] : size, inner = size / k;
    uint32_t *label, *part;
    double *cost, value;
    TRY(ARENA_NEW(&scratch, label, n));
    TRY(ARENA_NEW(&scratch, part, n));
    TRY(ARENA_NEW(&scratch, cost, k * k));
    mean_costs(d->p, first, k, inner, cost);
    TRY(cpsc526_problem_induce(d->p, member, n, k, inner, cost, &sub));
    TRY(cpsc526_search_best(&sub, d->s, d->tries, label, &value));
    for (size_t c = 0; c < k; c++) {
        size_t size_c = 0;
        for (size_t i = 0; i < n; i++)
            if (label[i] == c)
                part[size_c++] = member[i];
        if (inner > 1)
            TRY(cpsc526_hierarchical_descend(d, level + 1, part, size_c, first + c * inner, inner));
        for (size_t i = 0; i < size_c && inner == 1; i++)
            d->label[part[i]] = d->p->order[first + c];
    }
out:
    arena_free(&scratch);
    cpsc526_problem_free(&sub);
    return st;
}

/* Several descents, each with more starts per split, and each refined over all devices at the
 * end; the best stays. */
static enum status cpsc526_hierarchical_search(struct descent *d, uint32_t *best)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    double best_value = INFINITY;
    uint32_t *all;
    double *weight;
    TRY(ARENA_NEW(&scratch, all, d->p->n));
    TRY(ARENA_NEW(&scratch, weight, d->p->k));
    for (size_t i = 0; i < d->p->n; i++)
        all[i] = (uint32_t)i;
    for (size_t i = 0; i < TRIES && (i == 0 || !cpsc526_search_stops(d->s)); i++) {
        d->tries = i < INNER_TRIES ? i + 1 : INNER_TRIES + i;
        TRY(cpsc526_hierarchical_descend(d, 0, all, d->p->n, 0, d->p->k));
        TRY(cpsc526_refine(d->p, d->s, d->label));
        double value = cpsc526_metric(d->p, d->label, weight);
        if (value < best_value) {
            best_value = value;
            memcpy(best, d->label, d->p->n * sizeof *best);
            if (d->s->r->better)
                d->s->r->better(d->s->r->context, value);
        }
        if (cpsc526_is_optimal(d->p, best_value))
            break;
    }
out:
    arena_free(&scratch);
    return st;
}

enum status cpsc526_hierarchical_solve(const struct objective_request *r,
                                       struct objective_result *out)
{
    enum status st = STATUS_OK;
    struct cpsc526_problem p = {0};
    struct cpsc526_search s = cpsc526_search_begin(r);
    struct descent d = {.p = &p, .s = &s};
    uint32_t *best;
    TRY(cpsc526_problem_build(r, &p));
    TRY(ARENA_NEW(&p.memory, best, p.n));
    TRY(ARENA_NEW(&p.memory, d.label, p.n));
    TRY(cpsc526_hierarchical_search(&d, best));
    TRY(cpsc526_report(r, &p, best, "level by level, then moves across groups", out));
    out->interrupted = s.stopped;
out:
    cpsc526_problem_free(&p);
    return st;
}
