/* balanced - contiguous stages of the model's order with the least slowest stage.
 *
 * A stage costs its forward and backward time on its device plus the transfer of what enters it,
 * forward and as gradients back; a tensor counts once per stage that reads it, wherever it comes
 * from. Exact: graph/chain.h, over the places where a stage may begin. */
#include "partition/partition.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/schedule/schedule.h"
#include "partition/chain_cost.h"
#include "partition/graph/chain.h"

enum { MOST_CELLS = 1 << 24 }; /* stages * places: some seconds, or minutes at worst */

/* Ops between places. */
struct balanced {
    struct chain chain;
    size_t *place;    /* [chain.n + 1] op */
    uint32_t *behind; /* [ops + 1] the first place that is no earlier */
    struct arena memory;
};

static enum status find_places(const struct partition_problem *p, struct balanced *x)
{
    size_t n = p->m->n, places = 0;
    PASS(ARENA_NEW(&x->memory, x->place, n + 1));
    PASS(ARENA_NEW(&x->memory, x->behind, n + 1));
    for (size_t i = 0; i < n; i++) {
        x->behind[i] = (uint32_t)places;
        if (i == 0 || partition_may_begin(p, i))
            x->place[places++] = i;
    }
    x->behind[n] = (uint32_t)places;
    x->place[places] = n;
    x->chain.n = places;
    if (places > MOST_CELLS / p->r->stages)
        return error_set(STATUS_UNSUPPORTED,
                         "balanced: %zu ops x %zu stages are too many, expected a product of at "
                         "most %d. Try --algorithm hierarchical",
                         n, p->r->stages, MOST_CELLS);
    return STATUS_OK;
}

static enum status find_reads(const struct chain_cost *c, struct balanced *x)
{
    const struct model *m = c->m;
    struct chain *chain = &x->chain;
    size_t reads = 0;
    PASS(ARENA_NEW(&x->memory, chain->read_start, chain->n + 1));
    PASS(ARENA_NEW(&x->memory, chain->read, m->edges));
    for (size_t place = 0; place < chain->n; place++) {
        size_t begin = m->in_start[x->place[place]], end = m->in_start[x->place[place + 1]];
        for (size_t k = begin; k < end; k++) {
            uint32_t before = m->in[k] + 1 > c->reader[k] ? m->in[k] + 1 : c->reader[k];
            if (x->behind[before] <= place)
                chain->read[reads++] =
                    (struct chain_read){x->behind[before], (double)m->op[m->in[k]].output_bytes};
        }
        chain->read_start[place + 1] = reads;
    }
    return STATUS_OK;
}

static enum status find_seconds(const struct chain_cost *c, struct balanced *x)
{
    struct chain *chain = &x->chain;
    double **until_s;
    PASS(ARENA_NEW(&x->memory, chain->until_s, c->stages));
    PASS(ARENA_NEW(&x->memory, until_s, c->types));
    for (size_t type = 0; type < c->types; type++) {
        PASS(ARENA_NEW(&x->memory, until_s[type], chain->n + 1));
        for (size_t k = 0; k <= chain->n; k++)
            until_s[type][k] = c->until_s[type * (c->m->n + 1) + x->place[k]];
    }
    for (size_t s = 0; s < c->stages; s++)
        chain->until_s[s] = until_s[c->type[s]];
    chain->latency_s = c->latency_s;
    chain->byte_s = c->gap_s;
    return STATUS_OK;
}

/* ---- stages in a V */

/* Seconds of the two stages of a rank, the s-th and the s-th from the end. */
static double rank_s(const struct chain_cost *c, const struct partition_problem *p,
                     const size_t *first, size_t s)
{
    size_t stages = p->r->stages, pair[2] = {s, stages - 1 - s};
    double sum_s = 0;
    for (size_t k = 0; k < 2; k++) {
        size_t end = pair[k] + 1 < stages ? first[pair[k] + 1] : p->m->n;
        const double *until = chain_cost_until(c, pair[k]);
        sum_s += until[end] - until[first[pair[k]]];
    }
    return sum_s;
}

/* Of the ranks that hold stages s - 1 and s: what a move of the cut between them changes. */
static double balanced_squares(const struct chain_cost *c, const struct partition_problem *p,
                               const size_t *first, size_t s)
{
    size_t stages = p->r->stages, a = s - 1 < stages - s ? s - 1 : stages - s,
           b = s < stages - 1 - s ? s : stages - 1 - s;
    double x = rank_s(c, p, first, a), y = rank_s(c, p, first, b);
    return x * x + (a == b ? 0 : y * y);
}

/* Move the cut before stage s to a neighbouring place, if the two ranks are then more alike. */
static bool balanced_move(const struct chain_cost *c, const struct partition_problem *p,
                          size_t *first, size_t s, int by)
{
    size_t from = first[s], low = first[s - 1],
           high = s + 1 < p->r->stages ? first[s + 1] : p->m->n, to = from;
    double before = balanced_squares(c, p, first, s);
    do
        to = by > 0 ? to + 1 : to - 1;
    while (to > low && to < high && !partition_may_begin(p, to));
    if (to <= low || to >= high)
        return false;
    first[s] = to;
    if (balanced_squares(c, p, first, s) < before * (1 - 1e-12))
        return true;
    first[s] = from;
    return false;
}

/* With two stages a rank is as slow as both together. From the cut of least slowest stages on, cuts
 * move to neighbouring places as long as the sum of the squares of the ranks' seconds falls, which
 * ends: there are finitely many cuts. Of compute alone. Heuristic. */
static void even_out(const struct chain_cost *c, const struct partition_problem *p, size_t *first)
{
    const struct schedule *schedule;
    if (schedule_find(p->r->schedule, &schedule) != STATUS_OK || !schedule->vee)
        return;
    for (bool any = true; any;) {
        any = false;
        for (size_t s = 1; s < p->r->stages; s++)
            any = balanced_move(c, p, first, s, 1) || balanced_move(c, p, first, s, -1) || any;
    }
}

static enum status balanced_cut(const struct partition_problem *p, size_t *first,
                                double *objective_s)
{
    enum status st;
    struct chain_cost c = {0};
    struct balanced x = {.chain.stages = p->r->stages};
    uint32_t *begin;
    TRY(chain_cost_begin(p, &c));
    TRY(find_places(p, &x));
    TRY(find_reads(&c, &x));
    TRY(find_seconds(&c, &x));
    TRY(ARENA_NEW(&x.memory, begin, p->r->stages));
    TRY(chain_cut(&x.chain, begin, objective_s));
    for (size_t s = 0; s < p->r->stages; s++)
        first[s] = x.place[begin[s]];
    even_out(&c, p, first);
out:
    arena_free(&x.memory);
    chain_cost_free(&c);
    return st;
}

const struct partition_algorithm partition_balanced = {
    .name = "balanced",
    .summary = "least slowest stage, compute plus transfers",
    .guarantee = "exact for contiguous stages of the model's order (in a V: local search)",
    .cut = balanced_cut,
};
