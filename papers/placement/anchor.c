/* A lower bound that counts transfers: what a unit drags along, or pays for, on an accelerator
 * (anchor.h has the argument).
 *
 * For each unit and each of some multiples m, a minimum cut tells the cheapest company of the
 * unit: source's side = on its device, (m - 1) x latency for every unit there, m x cost for
 * every net that crosses. Cuts are maximum flows by Dinic's algorithm (Soviet Math. Doklady
 * 11, 1970) on a network with two nodes per net. From the cuts follow each unit's share of an
 * accelerator at T, and bisection finds the largest T at which the shares are too many. */
#include "papers/placement/anchor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/edges.h"

static const double multiples[] = {1.005, 1.01, 1.02, 1.04, 1.08, 1.15, 1.25,
                                   1.4,   1.6,  1.9,  2.4,  3.2,  5,    9};
enum { MULTIPLES = sizeof multiples / sizeof *multiples, BISECTIONS = 50 };
static const double precision = 1e-9, rounding = 1e-12;
/* Arcs looked at, the measure of work: about a second. */
static const uint64_t most_steps = 300000000;

/* A network for Dinic's algorithm: arcs in pairs, arc ^ 1 is the way back. */
struct anchor_network {
    size_t nodes, arcs;
    double tiny;                    /* rooms that are rounding errors */
    uint64_t steps;                 /* arcs looked at */
    struct model_edge *edge;        /* [arcs] */
    double *room, *capacity;        /* [arcs] left, and at first */
    size_t *start, *next;           /* [nodes + 1] */
    uint32_t *arc;                  /* [arcs] by tail */
    uint32_t *level, *queue, *path; /* [nodes] */
    struct arena memory;
};

/* An arc and its way back, which has no capacity of its own. */
static void anchor_connect(struct anchor_network *w, size_t from, size_t to, double capacity)
{
    w->edge[w->arcs] = (struct model_edge){(uint32_t)from, (uint32_t)to};
    w->edge[w->arcs + 1] = (struct model_edge){(uint32_t)to, (uint32_t)from};
    w->capacity[w->arcs] = capacity;
    w->arcs += 2;
}

static enum status anchor_allocate(const struct placement_graph *g, size_t arcs,
                                   struct anchor_network *w)
{
    w->nodes = g->n + 2 * g->nets + 1;
    PASS(ARENA_NEW(&w->memory, w->edge, arcs));
    PASS(ARENA_NEW(&w->memory, w->room, arcs));
    PASS(ARENA_NEW(&w->memory, w->capacity, arcs));
    PASS(ARENA_NEW(&w->memory, w->arc, arcs));
    PASS(ARENA_NEW(&w->memory, w->start, w->nodes + 2));
    PASS(ARENA_NEW(&w->memory, w->next, w->nodes + 1));
    PASS(ARENA_NEW(&w->memory, w->level, w->nodes));
    PASS(ARENA_NEW(&w->memory, w->queue, w->nodes));
    PASS(ARENA_NEW(&w->memory, w->path, w->nodes));
    return STATUS_OK;
}

/* S is the source's side of the cut. Arc 2 v: unit v in S pays. A net whose source is in S pays
 * when a reader is not, and the other way round; each has a node for either. */
static enum status anchor_build(const struct placement_graph *g, struct anchor_network *w)
{
    size_t arcs = 2 * g->n + 4 * g->nets + 4 * g->net_start[g->nets];
    size_t sink = g->n + 2 * g->nets;
    PASS(anchor_allocate(g, arcs + 1, w));
    for (size_t v = 0; v < g->n; v++)
        anchor_connect(w, v, sink, 0);
    for (size_t e = 0; e < g->nets; e++) {
        size_t leaves = g->n + 2 * e, enters = leaves + 1;
        anchor_connect(w, g->net_source[e], leaves, g->net_cost[e]);
        anchor_connect(w, enters, g->net_source[e], g->net_cost[e]);
        for (size_t k = g->net_start[e]; k < g->net_start[e + 1]; k++) {
            anchor_connect(w, leaves, g->net_dest[k], INFINITY);
            anchor_connect(w, g->net_dest[k], enters, INFINITY);
        }
    }
    edges_list(w->nodes, w->edge, w->arcs, EDGES_BY_TAIL | EDGES_NUMBERS, w->start, w->arc);
    return STATUS_OK;
}

/* Distances from `from` along arcs with room; false when the sink is out of reach. */
static bool find_levels(struct anchor_network *w, uint32_t from)
{
    size_t head = 0, end = 0;
    memset(w->level, 0xff, w->nodes * sizeof *w->level);
    w->level[from] = 0;
    w->queue[end++] = from;
    while (head < end) {
        uint32_t v = w->queue[head++];
        for (size_t k = w->start[v]; k < w->start[v + 1]; k++) {
            uint32_t a = w->arc[k], u = w->edge[a].to;
            w->steps++;
            if (w->room[a] <= w->tiny || w->level[u] != UINT32_MAX)
                continue;
            w->level[u] = w->level[v] + 1;
            w->queue[end++] = u;
        }
    }
    return w->level[w->nodes - 1] != UINT32_MAX;
}

/* Push along path[0 .. length), from its first node to the sink; how much. */
static double anchor_push(struct anchor_network *w, size_t length)
{
    double most = INFINITY;
    for (size_t i = 0; i < length; i++)
        most = fmin(most, w->room[w->path[i]]);
    for (size_t i = 0; i < length; i++) {
        w->room[w->path[i]] -= most;
        w->room[w->path[i] ^ 1] += most;
    }
    return most;
}

/* A maximum flow from unit u to the sink. What rounding or the limit leaves out makes it smaller,
 * which is safe: any flow is at most the minimum cut. */
static double flow_from(struct anchor_network *w, uint32_t u)
{
    double flow = 0;
    uint32_t sink = (uint32_t)(w->nodes - 1);
    while (w->steps < most_steps && find_levels(w, u)) {
        size_t length = 0;
        uint32_t at = u;
        memcpy(w->next, w->start, w->nodes * sizeof *w->next);
        for (;;) {
            if (at == sink) {
                flow += anchor_push(w, length);
                length = 0;
                at = u;
            }
            while (w->next[at] < w->start[at + 1]) {
                uint32_t a = w->arc[w->next[at]];
                w->steps++;
                if (w->room[a] > w->tiny && w->level[w->edge[a].to] == w->level[at] + 1)
                    break;
                w->next[at]++;
            }
            if (w->next[at] < w->start[at + 1]) {
                w->path[length] = w->arc[w->next[at]];
                at = w->edge[w->path[length++]].to;
            } else if (length > 0) { /* a dead end */
                at = w->edge[w->path[--length] ^ 1].to;
                w->next[at]++;
            } else {
                break;
            }
        }
    }
    return flow;
}

/* least[v * MULTIPLES + i]: the minimum of the header comment for unit v and multiples[i]. */
static void anchor_measure(struct anchor_network *w, const struct placement_graph *g, double *least)
{
    for (size_t v = 0; v < g->n; v++)
        w->tiny = fmax(w->tiny, rounding * g->accelerator[v]);
    for (size_t i = 0; i < MULTIPLES; i++) {
        double m = multiples[i];
        for (uint32_t u = 0; u < g->n && w->steps < most_steps; u++) {
            w->steps += w->arcs;
            for (size_t a = 0; a < w->arcs; a++)
                w->room[a] = m * w->capacity[a];
            for (size_t v = 0; v < g->n; v++)
                w->room[2 * v] = (m - 1) * g->accelerator[v];
            least[u * MULTIPLES + i] = flow_from(w, u);
        }
    }
}

int placement_by_ratio(const void *a, const void *b)
{
    const struct placement_item *x = a, *y = b;
    if (x->amount <= 0 || y->amount <= 0) /* nothing over nothing would equal every ratio */
        return (x->amount <= 0) - (y->amount <= 0);
    double l = x->amount * y->cpu, r = y->amount * x->cpu;
    return (l < r) - (l > r);
}

double placement_leave_to_cpus(const struct placement_item *item, size_t n, size_t cpus,
                               double limit, double total)
{
    double time = limit * (double)cpus;
    for (size_t i = 0; i < n && time > 0; i++) {
        if (item[i].cpu > limit)
            continue;
        double part = item[i].cpu > time ? time / item[i].cpu : 1;
        total -= part * item[i].amount;
        time -= part * item[i].cpu;
    }
    return total;
}

/* Can the shares of all units be at most one per accelerator? A(u, T), the most latency beside
 * and with u, is the least over the multiples; a unit whose A is below its own latency is on
 * no accelerator at all. */
static bool shares_fit(const struct placement_problem *p, const struct placement_graph *g,
                       const double *least, double limit, struct placement_item *item)
{
    double total = 0;
    for (size_t v = 0; v < g->n; v++) {
        double most = limit;
        for (size_t i = 0; i < MULTIPLES; i++)
            most = fmin(most, multiples[i] * limit - least[v * MULTIPLES + i]);
        bool alone = most >= g->accelerator[v] * (1 - precision);
        item[v].cpu = g->cpu[v];
        item[v].amount = alone ? (most > 0 ? g->accelerator[v] / most : 0)
                               : 2 * (double)p->accelerators + 2; /* not on an accelerator */
        total += item[v].amount;
    }
    qsort(item, g->n, sizeof *item, placement_by_ratio);
    total = placement_leave_to_cpus(item, g->n, p->cpus, limit, total);
    return total <= (double)p->accelerators * (1 + precision) + precision;
}

/* Shares fall with the limit, so what is refuted once is refuted below, too. */
enum status placement_anchor_bound(const struct placement_problem *p,
                                   const struct placement_graph *g, double low, double known,
                                   double *out)
{
    enum status st = STATUS_OK;
    struct anchor_network w = {0};
    double *least, high = known;
    struct placement_item *item;
    *out = low;
    TRY(ARENA_NEW(&w.memory, least, g->n * MULTIPLES));
    TRY(ARENA_NEW(&w.memory, item, g->n));
    TRY(anchor_build(g, &w));
    anchor_measure(&w, g, least);
    if (shares_fit(p, g, least, low, item))
        goto out;
    for (size_t i = 0; i < BISECTIONS; i++) {
        double middle = low + (high - low) / 2;
        if (shares_fit(p, g, least, middle, item))
            high = middle;
        else
            low = middle;
    }
    *out = low;
out:
    arena_free(&w.memory);
    return st;
}
