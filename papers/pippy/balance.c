/* Splits that always exist: the most even one along a topological order, PiPPy's automatic
 * split by parameter count, and the words for why the program has no solution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/edges.h"
#include "papers/pippy/pippy.h"

enum { HALVINGS = 40 };

/* ---- along one topological order, the largest share of memory or weight least */

struct chain {
    const struct pippy_graph *g;
    const struct pippy_problem *p;
    uint32_t *order; /* [nodes] */
    size_t *start;   /* [nodes + 2] edges by either end, CSR */
    uint32_t *incident;
    uint32_t *at;   /* [nodes] stage by position */
    uint32_t *seen; /* [edges] last stage + 1 that an edge was counted in */
    struct arena memory;
};

/* Weight that node v adds to those touching `stage`. */
static double joining_weight(const struct chain *c, uint32_t v, uint32_t stage)
{
    double sum = 0;
    for (size_t x = c->start[v]; x < c->start[v + 1]; x++)
        if (c->seen[c->incident[x]] != stage + 1)
            sum += c->g->edge[c->incident[x]].weight;
    return sum;
}

/* Fill stages up to `share` of memory and of touching weight, as far as they go; number of stages,
 * or more than p->stages when one node alone is too much. */
static size_t pippy_balance_fill(struct chain *c, double share)
{
    const struct pippy_problem *p = c->p;
    double most_memory = share * p->all_memory / (double)p->stages;
    double most_weight = share * p->all_weight / (double)p->stages, memory = 0, weight = 0;
    uint32_t stage = 0;
    for (size_t e = 0; e < c->g->edges; e++)
        c->seen[e] = 0;
    for (size_t i = 0; i < c->g->nodes; i++) {
        uint32_t v = c->order[i];
        double own = c->g->memory[v], more = joining_weight(c, v, stage);
        if (i > 0 && (memory + own > most_memory || weight + more > most_weight)) {
            stage++;
            memory = weight = 0;
            more = joining_weight(c, v, stage);
        }
        memory += own;
        weight += more;
        if (memory > most_memory || weight > most_weight)
            return p->stages + 1;
        for (size_t x = c->start[v]; x < c->start[v + 1]; x++)
            c->seen[c->incident[x]] = stage + 1;
        c->at[i] = stage;
    }
    return (size_t)stage + 1;
}

/* One topological order, branches one after the other. */
static enum status open_chain(struct chain *c)
{
    const struct pippy_graph *g = c->g;
    struct model_edge *edge;
    uint32_t *position;
    size_t cyclic;
    PASS(ARENA_NEW(&c->memory, c->order, g->nodes));
    PASS(ARENA_NEW(&c->memory, c->at, g->nodes));
    PASS(ARENA_NEW(&c->memory, c->seen, g->edges));
    PASS(ARENA_NEW(&c->memory, position, g->nodes));
    PASS(pippy_incident(g->nodes, g->edge, g->edges, &c->memory, &c->start, &c->incident));
    PASS(pippy_edges(g->edge, g->edges, &c->memory, &edge));
    PASS(edges_order(g->nodes, edge, g->edges, position, &cyclic));
    if (cyclic < g->edges)
        return error_set(STATUS_INVALID, "the graph has a cycle");
    for (uint32_t v = 0; v < g->nodes; v++)
        c->order[position[v]] = v;
    return STATUS_OK;
}

/* Bisection over the share that a stage may have: filling greedily uses the fewest stages for
 * a share. */
enum status pippy_balance(const struct pippy_graph *g, const struct pippy_problem *p,
                          uint32_t *stage_of, size_t *used)
{
    enum status st;
    struct chain c = {.g = g, .p = p};
    double low = 0, high = (double)p->stages * (1 + 1e-9);
    double *weight;
    TRY(ARENA_NEW(&c.memory, weight, g->nodes));
    TRY(open_chain(&c));
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        *(pippy_balance_fill(&c, middle) <= p->stages ? &high : &low) = middle;
    }
    size_t stages = pippy_balance_fill(&c, high);
    for (size_t i = 0; i < g->nodes; i++)
        weight[i] = g->memory[c.order[i]];
    pippy_cut_more(g->nodes, weight, p->stages, c.at, &stages);
    for (size_t i = 0; i < g->nodes; i++)
        stage_of[c.order[i]] = c.at[i];
    *used = stages;
out:
    arena_free(&c.memory);
    return st;
}

/* Where to cut the stage that covers [first, end): before the position whose halves differ least.
 */
static size_t middle_of(const double *weight, size_t first, size_t end, double total)
{
    size_t best = first + 1;
    double before = 0, least = INFINITY;
    for (size_t i = first + 1; i < end; i++) {
        before += weight[i - 1];
        if (fabs(total - 2 * before) < least) {
            least = fabs(total - 2 * before);
            best = i;
        }
    }
    return best;
}

/* Halve the heaviest stage that can be cut, again and again. */
void pippy_cut_more(size_t n, const double *weight, size_t wanted, uint32_t *at, size_t *used)
{
    if (wanted > n)
        wanted = n;
    while (*used < wanted) {
        size_t heaviest = 0, heaviest_end = 0;
        double most = -1;
        for (size_t first = 0, end; first < n; first = end) {
            double sum = 0;
            for (end = first; end < n && at[end] == at[first]; end++)
                sum += weight[end];
            if (end - first > 1 && sum > most) {
                most = sum;
                heaviest = first;
                heaviest_end = end;
            }
        }
        for (size_t i = middle_of(weight, heaviest, heaviest_end, most); i < n; i++)
            at[i]++;
        ++*used;
    }
}

/* ---- PiPPy's split by size */

/* PiPPy's rule to the letter: an op that alone exceeds the threshold closes its stage, any
 * other that would exceed it opens the next. */
enum status pippy_by_threshold(const struct model *m, double threshold, size_t most,
                               uint32_t *stage_of, size_t *used)
{
    double sum = 0;
    uint32_t stage = 0;
    /* [n] stage + 1 in which the parameters of an op were last counted; ops borrow from it */
    uint32_t *counted;
    PASS(ARRAY_NEW(counted, m->n + 1));
    for (size_t i = 0; i < m->n; i++) {
        const struct model_op *op = &m->op[i];
        uint32_t owner = op->shares == MODEL_NO_OP ? (uint32_t)i : op->shares;
        bool known = counted[owner] == stage + 1, cut_after = false;
        double own = (double)op->parameter_bytes / (double)m->element_bytes;
        double borrowed = (double)op->shared_bytes / (double)m->element_bytes;
        double fresh = own + (known ? 0 : borrowed);
        if (sum + fresh <= threshold) {
            sum += fresh;
        } else if (sum <= 0) {
            cut_after = stage + 1 < most;
            sum = 0;
        } else if (stage + 1 < most) {
            stage++;
            sum = own + borrowed;
        } else {
            sum += fresh;
        }
        if (borrowed > 0)
            counted[owner] = stage + 1;
        counted[i] = stage + 1;
        stage_of[i] = stage;
        if (cut_after && i + 1 < m->n)
            stage++;
    }
    free(counted);
    *used = (size_t)stage_of[m->n - 1] + 1;
    return STATUS_OK;
}

enum status pippy_evenly(const struct model *m, size_t stages, double *threshold,
                         uint32_t *stage_of, size_t *used)
{
    enum status st;
    double *weight = NULL, total = 0;
    size_t now;
    if (stages > m->n)
        return error_set(STATUS_INFEASIBLE, "model '%s' has only %zu ops for %zu stages", m->name,
                         m->n, stages);
    TRY(ARRAY_NEW(weight, m->n));
    for (size_t i = 0; i < m->n; i++) {
        weight[i] = (double)m->op[i].parameter_bytes / (double)m->element_bytes;
        total += weight[i];
    }
    *threshold = floor(total / (double)stages);
    TRY(pippy_by_threshold(m, *threshold, stages, stage_of, used));
    now = *used;
    pippy_cut_more(m->n, weight, stages, stage_of, &now);
out:
    free(weight);
    return st;
}

/* ---- why there is no solution */

/* The first limit that a single cluster breaks; if none does, the combination. */
void pippy_explain(const struct pippy_problem *p, char *text, size_t size)
{
    const struct pippy_limits most = pippy_limits(p);
    double memory = 0, inner = 0;
    for (size_t i = 0; i < p->nodes; i++) {
        memory = fmax(memory, p->memory[i]);
        inner = fmax(inner, p->inner[i]);
    }
    if (memory > most.memory)
        snprintf(
            text, size,
            "one cluster of ops needs %.3g %% of the memory, but a stage may need at most %.3g %%",
            100 * memory / p->all_memory, 250 / (double)p->stages);
    else if (inner > most.inside)
        snprintf(text, size,
                 "one cluster of ops has %.3g %% of the communication inside, but a stage may have "
                 "at most %.3g %%",
                 100 * inner / p->all_weight, 110 / (double)p->stages);
    else
        snprintf(text, size,
                 "no forward split of the clusters keeps every stage within 2.5 / %zu of "
                 "the memory and 1.1 / %zu of the communication",
                 p->stages, p->stages);
}
