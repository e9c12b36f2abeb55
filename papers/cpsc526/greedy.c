/* The project's own heuristic: random splits, improved by moves of one op each as long as one
 * gains, where every split is judged with labels given greedily. What `local` and `hierarchical`
 * are compared with. */
#include "papers/cpsc526/greedy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "papers/cpsc526/refine.h"

enum { RESTARTS = 20, ROUNDS = 10 };

struct greedy {
    const struct cpsc526_problem *p;
    struct cpsc526_search *s;
    uint32_t *part, *size, *label_of, *label; /* [n] [k] [k] [n] */
    double *edges, *weight;                   /* [k * k] [k] */
    uint32_t *order;                          /* [k] */
    double *out;                              /* [k] */
    bool *used;                               /* [k] */
    struct arena memory;
};

/* Parts by falling number of edges that leave them; ties in their order. */
static void greedy_order_parts(const double *out, size_t k, uint32_t *order)
{
    for (size_t c = 0; c < k; c++) {
        size_t at = c;
        for (; at > 0 && out[order[at - 1]] < out[c]; at--)
            order[at] = order[at - 1];
        order[at] = (uint32_t)c;
    }
}

void cpsc526_greedy_labels(const struct cpsc526_problem *p, const double *edges,
                           const struct cpsc526_greedy_room *room, uint32_t *label_of)
{
    size_t k = p->k;
    for (size_t a = 0; a < k; a++) {
        room->out[a] = 0;
        room->used[a] = false;
        for (size_t b = 0; b < k; b++)
            room->out[a] += a == b ? 0 : edges[a * k + b];
    }
    greedy_order_parts(room->out, k, room->order);
    for (size_t i = 0; i < k; i++) {
        uint32_t a = room->order[i], chosen = 0;
        double least = INFINITY;
        for (uint32_t l = 0; l < k; l++) {
            double cost = 0;
            for (size_t j = 0; j < i && !room->used[l] && cost < least; j++)
                cost += edges[a * k + room->order[j]] * p->cost[l * k + label_of[room->order[j]]];
            if (!room->used[l] && cost < least) {
                least = cost;
                chosen = l;
            }
        }
        label_of[a] = chosen;
        room->used[chosen] = true;
    }
}

/* The metric of the parts with greedy labels, which are left in g->label. */
static double greedy_judge_move(struct greedy *g)
{
    const struct cpsc526_problem *p = g->p;
    const struct cpsc526_greedy_room room = {g->out, g->order, g->used};
    memset(g->edges, 0, p->k * p->k * sizeof *g->edges);
    for (size_t i = 0; i < p->n; i++)
        for (size_t e = p->start[i]; e < p->start[i + 1]; e++)
            g->edges[g->part[i] * p->k + g->part[p->peer[e]]]++;
    cpsc526_greedy_labels(p, g->edges, &room, g->label_of);
    for (size_t i = 0; i < p->n; i++)
        g->label[i] = g->label_of[g->part[i]];
    return cpsc526_metric(p, g->label, g->weight);
}

/* Is there an op of part i that is better off in part j? The first one that is goes there. */
static bool move_one(struct greedy *g, uint32_t i, uint32_t j, double *best)
{
    for (size_t op = 0; op < g->p->n && !cpsc526_search_stops(g->s); op++) {
        if (g->part[op] != i || g->size[i] <= g->p->minimum)
            continue;
        g->part[op] = j;
        double value = greedy_judge_move(g);
        if (value < *best) {
            *best = value;
            g->size[i]--;
            g->size[j]++;
            return true;
        }
        g->part[op] = i;
    }
    return false;
}

/* A round ends with the first part of which an op has moved. */
static bool greedy_improve(struct greedy *g, double *best)
{
    for (uint32_t i = 0; i < g->p->k; i++) {
        bool moved = false;
        for (uint32_t j = 0; j < g->p->k; j++)
            moved = (i != j && move_one(g, i, j, best)) || moved;
        if (moved)
            return true;
    }
    return false;
}

static enum status greedy_allocate(struct greedy *g)
{
    size_t n = g->p->n, k = g->p->k;
    PASS(ARENA_NEW(&g->memory, g->part, n));
    PASS(ARENA_NEW(&g->memory, g->label, n));
    PASS(ARENA_NEW(&g->memory, g->size, k));
    PASS(ARENA_NEW(&g->memory, g->label_of, k));
    PASS(ARENA_NEW(&g->memory, g->edges, k * k));
    PASS(ARENA_NEW(&g->memory, g->weight, k));
    PASS(ARENA_NEW(&g->memory, g->order, k));
    PASS(ARENA_NEW(&g->memory, g->out, k));
    PASS(ARENA_NEW(&g->memory, g->used, k));
    return STATUS_OK;
}

static enum status greedy_search_all(struct greedy *g, uint32_t *label)
{
    double best = INFINITY;
    PASS(greedy_allocate(g));
    for (size_t i = 0; i < RESTARTS && (i == 0 || !cpsc526_search_stops(g->s)); i++) {
        PASS(cpsc526_scatter(g->p, g->s, g->part));
        memset(g->size, 0, g->p->k * sizeof *g->size);
        for (size_t op = 0; op < g->p->n; op++)
            g->size[g->part[op]]++;
        double value = greedy_judge_move(g);
        for (size_t round = 0; round < ROUNDS && greedy_improve(g, &value);)
            round++;
        if (value >= best)
            continue;
        best = value;
        greedy_judge_move(g);
        memcpy(label, g->label, g->p->n * sizeof *label);
        if (g->s->r->better)
            g->s->r->better(g->s->r->context, best);
    }
    return STATUS_OK;
}

enum status cpsc526_greedy_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st = STATUS_OK;
    struct cpsc526_problem p = {0};
    struct cpsc526_search s = cpsc526_search_begin(r);
    struct greedy g = {.p = &p, .s = &s};
    uint32_t *label;
    TRY(cpsc526_problem_build(r, &p));
    TRY(ARENA_NEW(&p.memory, label, p.n));
    TRY(greedy_search_all(&g, label));
    TRY(cpsc526_report(r, &p, label, "moves from random starts, greedy device labels", out));
    out->interrupted = s.stopped;
out:
    arena_free(&g.memory);
    cpsc526_problem_free(&p);
    return st;
}
