/* Improves a split by passes of single moves (Fiduccia & Mattheyses) with a memory of the best
 * point, then by exchanging the labels of whole parts. */
#include "papers/cpsc526/refine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/cpsc526/start.h"

static const double default_limit_s = 60;
static const double tiny = 1e-9; /* what rounding may feign as a gain, relative */

enum { PATIENCE = 200, EXCHANGE_PARTS = 512 };

struct cpsc526_search cpsc526_search_begin(const struct objective_request *r)
{
    return (struct cpsc526_search){
        .r = r, .begin_s = clock_now(), .random = r->seed * 0x9e3779b97f4a7c15u | 1};
}

bool cpsc526_search_stops(struct cpsc526_search *s)
{
    s->stopped = s->stopped || objective_must_stop(s->r, s->begin_s, default_limit_s);
    return s->stopped;
}

/* ---- moves */

struct moves {
    const struct cpsc526_problem *p;
    uint32_t *label; /* [n] */
    double *weight;  /* [k] */
    size_t *count;   /* [k] */
    bool *locked;    /* [n] */
    uint32_t *moved; /* [n] in order; from[i] is where moved[i] was */
    uint32_t *from;
    struct arena memory;
};

struct refine_move {
    uint32_t op, to;
    double delta; /* of the metric */
};

static enum status moves_begin(const struct cpsc526_problem *p, uint32_t *label, struct moves *s)
{
    *s = (struct moves){.p = p, .label = label};
    PASS(ARENA_NEW(&s->memory, s->weight, p->k));
    PASS(ARENA_NEW(&s->memory, s->count, p->k));
    PASS(ARENA_NEW(&s->memory, s->locked, p->n));
    PASS(ARENA_NEW(&s->memory, s->moved, p->n));
    PASS(ARENA_NEW(&s->memory, s->from, p->n));
    for (size_t i = 0; i < p->n; i++) {
        s->weight[label[i]] += p->weight[i];
        s->count[label[i]]++;
    }
    return STATUS_OK;
}

/* Change of the metric if the op goes to part `to`. With w the op's weight and W the parts'
 * weights, (W_to + w)^2 + (W_from - w)^2 differs from W_to^2 + W_from^2 by 2 w (W_to - W_from
 * + w), the mean cancels out; edges change their price. */
static double delta(const struct moves *s, uint32_t op, uint32_t to)
{
    const struct cpsc526_problem *p = s->p;
    uint32_t from = s->label[op];
    double w = p->weight[op], change = 2 * w * (s->weight[to] - s->weight[from] + w);
    for (size_t e = p->start[op]; e < p->start[op + 1]; e++) {
        uint32_t other = s->label[p->peer[e]];
        change += p->cost[to * p->k + other] - p->cost[from * p->k + other];
    }
    return change;
}

static void cpsc526_refine_apply(struct moves *s, uint32_t op, uint32_t to)
{
    uint32_t from = s->label[op];
    s->weight[from] -= s->p->weight[op];
    s->weight[to] += s->p->weight[op];
    s->count[from]--;
    s->count[to]++;
    s->label[op] = to;
}

/* Keep the move if it is the best so far; the first of equals stays, so that runs repeat. */
static void cpsc526_refine_consider(const struct moves *s, uint32_t op, uint32_t to,
                                    struct refine_move *best)
{
    if (to == s->label[op])
        return;
    double change = delta(s, op, to);
    if (change < best->delta)
        *best = (struct refine_move){op, to, change};
}

/* delta INFINITY when nothing may move. */
static struct refine_move best_move(const struct moves *s)
{
    const struct cpsc526_problem *p = s->p;
    struct refine_move best = {.delta = INFINITY};
    uint32_t lightest = 0;
    for (uint32_t c = 1; c < p->k; c++)
        if (s->weight[c] < s->weight[lightest])
            lightest = c;
    for (uint32_t i = 0; i < p->n; i++) {
        if (s->locked[i] || s->count[s->label[i]] <= p->minimum)
            continue;
        cpsc526_refine_consider(s, i, lightest, &best);
        for (size_t e = p->start[i]; e < p->start[i + 1]; e++)
            cpsc526_refine_consider(s, i, s->label[p->peer[e]], &best);
    }
    return best;
}

/* One pass; what it gained (>= 0). */
static double cpsc526_refine_pass(struct moves *s, struct cpsc526_search *search, double scale)
{
    double now = 0, best = 0;
    size_t moves = 0, best_moves = 0;
    memset(s->locked, 0, s->p->n * sizeof *s->locked);
    while (moves < s->p->n && moves - best_moves < PATIENCE && !cpsc526_search_stops(search)) {
        struct refine_move m = best_move(s);
        if (isinf(m.delta))
            break;
        s->moved[moves] = m.op;
        s->from[moves++] = s->label[m.op];
        s->locked[m.op] = true;
        cpsc526_refine_apply(s, m.op, m.to);
        now += m.delta;
        if (now < best - tiny * scale) {
            best = now;
            best_moves = moves;
        }
    }
    while (moves-- > best_moves)
        cpsc526_refine_apply(s, s->moved[moves], s->from[moves]);
    return -best;
}

/* ---- labels */

/* Change of the cut's price when parts a and b exchange their labels: weights stay where they
 * are. */
static double exchange_delta(const struct cpsc526_problem *p, const double *edges, size_t a,
                             size_t b)
{
    double change = 0;
    for (size_t c = 0; c < p->k; c++)
        if (c != a && c != b)
            change += (edges[a * p->k + c] - edges[b * p->k + c]) *
                      (p->cost[b * p->k + c] - p->cost[a * p->k + c]);
    return change;
}

/* Labels have changed places, so the edges between labels do. */
static void exchange_rows(double *edges, size_t k, size_t a, size_t b)
{
    for (int transposed = 0; transposed < 2; transposed++)
        for (size_t c = 0; c < k; c++) {
            double *x = transposed ? &edges[c * k + a] : &edges[a * k + c];
            double *y = transposed ? &edges[c * k + b] : &edges[b * k + c], z = *x;
            *x = *y;
            *y = z;
        }
}

/* Exchange the labels of two parts while that gains; O(k^3) per sweep. */
static enum status exchange_labels(const struct cpsc526_problem *p, struct cpsc526_search *search,
                                   struct arena *memory, uint32_t *label)
{
    bool improved = p->k <= EXCHANGE_PARTS;
    double *edges;
    uint32_t *renamed;
    PASS(ARENA_NEW(memory, edges, p->k * p->k));
    PASS(ARENA_NEW(memory, renamed, p->k));
    for (size_t i = 0; i < p->n; i++)
        for (size_t e = p->start[i]; e < p->start[i + 1]; e++)
            edges[label[i] * p->k + label[p->peer[e]]]++;
    for (uint32_t c = 0; c < p->k; c++)
        renamed[c] = c; /* renamed[new label] = old label */
    while (improved && !cpsc526_search_stops(search)) {
        improved = false;
        for (size_t a = 0; a < p->k; a++)
            for (size_t b = a + 1; b < p->k; b++)
                if (exchange_delta(p, edges, a, b) < -tiny) {
                    uint32_t old = renamed[a];
                    renamed[a] = renamed[b];
                    renamed[b] = old;
                    exchange_rows(edges, p->k, a, b);
                    improved = true;
                }
    }
    for (size_t i = 0; i < p->n; i++)
        for (uint32_t c = 0; c < p->k; c++)
            if (renamed[c] == label[i]) {
                label[i] = c;
                break;
            }
    return STATUS_OK;
}

/* Passes until one gains nothing; gains are compared on the scale of the balance term. */
enum status cpsc526_refine(const struct cpsc526_problem *p, struct cpsc526_search *s,
                           uint32_t *label)
{
    enum status st = STATUS_OK;
    struct moves moves = {0};
    double scale = fmax(1, p->mean * p->mean);
    TRY(moves_begin(p, label, &moves));
    while (cpsc526_refine_pass(&moves, s, scale) > tiny * scale && !s->stopped)
        ;
    TRY(exchange_labels(p, s, &moves.memory, label));
out:
    arena_free(&moves.memory);
    return st;
}

/* Start, refine, keep the best: the multi-start scheme of the course project. */
enum status cpsc526_search_best(const struct cpsc526_problem *p, struct cpsc526_search *s,
                                size_t tries, uint32_t *label, double *value)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    double best = INFINITY;
    uint32_t *trial;
    double *weight;
    TRY(ARENA_NEW(&scratch, trial, p->n));
    TRY(ARENA_NEW(&scratch, weight, p->k));
    for (size_t i = 0; i < tries && (i == 0 || !cpsc526_search_stops(s)); i++) {
        TRY(cpsc526_start(p, s, i, trial));
        TRY(cpsc526_refine(p, s, trial));
        double metric = cpsc526_metric(p, trial, weight);
        if (metric < best) {
            best = metric;
            memcpy(label, trial, p->n * sizeof *label);
            if (s->whole && s->r->better)
                s->r->better(s->r->context, best);
        }
        if (cpsc526_is_optimal(p, best))
            break;
    }
    *value = best;
out:
    arena_free(&scratch);
    return st;
}
