/* The graph split that PiPPy's program stands for, with times in place of numbers of parameters and
 * elements: stages along the edges of the graph with the least
 *     sum over stages of (work + in)  +  (microbatches - 1) * largest of all work and in,
 * which is what a pipeline takes that fills, works at the pace of its slowest part, and drains.
 * Work is the forward and backward seconds of the stage's ops on its device, in those of the
 * tensors that enter it and of their gradients, each tensor once per stage that reads it.
 *
 * Exact over all such splits where the graph has few ideals, else over those along the model's
 * order: the dynamic program of ideals.c, whose states are dropped when what is left of the work,
 * shared evenly, cannot make them better than the best split so far. */
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "papers/pippy/fronts.h"
#include "papers/pippy/pippy.h"
#include "partition/chain_cost.h"

static const double DEFAULT_TIME_LIMIT = 30;
static const double LESS = 1 - 1e-12; /* what is better is so by more than rounding */
enum { MOST_IDEALS = 5000, MOST_BYTES = 1 << 28 /* of sets of ops */ };

struct graphsplit_search {
    const struct objective_request *r;
    const struct model *m;
    size_t stages;
    double others; /* microbatches besides the first */
    struct chain_cost cost;
    double *op_s; /* [types + 1][ops] on each type of device, and at least */
    double least_s;
    struct pippy_timed *found;
    double best_s; /* of the last one of these */
    struct lattice lattice;
    struct lattice_walk walk;
    double *until_s; /* [types + 1][ideals] sums of op_s */
    double *bytes;   /* [ideals] per sample, what enters the stage between it and the walk's top */
    struct fronts fronts;
    struct arena tables; /* bytes and until_s */
    struct arena memory; /* op_s */
};

static void search_close(struct graphsplit_search *s)
{
    chain_cost_free(&s->cost);
    arena_free(&s->memory);
}

/* Stage k stands on device k, as in the plan that is made of a split. */
static enum status find_costs(struct graphsplit_search *s)
{
    const struct objective_request *r = s->r;
    size_t n = s->m->n;
    uint32_t *device;
    struct partition_request plan = {.stages = s->stages,
                                     .microbatches = (uint32_t)s->others + 1,
                                     .microbatch_size = r->microbatch_size ? r->microbatch_size : 1,
                                     .optimizer = r->optimizer ? r->optimizer : "adam"};
    PASS(ARENA_NEW(&s->memory, device, s->stages));
    for (uint32_t k = 0; k < s->stages; k++)
        device[k] = k;
    const struct partition_problem p = {.m = s->m, .t = r->topology, .r = &plan, .device = device};
    PASS(chain_cost_begin(&p, &s->cost));
    PASS(ARENA_NEW(&s->memory, s->op_s, (s->cost.types + 1) * n));
    for (size_t i = 0; i < n; i++) {
        double least = INFINITY;
        for (size_t k = 0; k < s->stages; k++) {
            const double *until = chain_cost_until(&s->cost, k);
            double op_s = until[i + 1] - until[i];
            s->op_s[s->cost.type[k] * n + i] = op_s;
            least = fmin(least, op_s);
        }
        s->op_s[s->cost.types * n + i] = least;
        s->least_s += least;
    }
    return STATUS_OK;
}

static double entering_s(const struct graphsplit_search *s, size_t stage, double bytes)
{
    return bytes > 0 ? s->cost.latency_s[stage] + s->cost.gap_s[stage] * bytes : 0;
}

/* What is minimised, of any split. */
static enum status estimate(const struct graphsplit_search *s, const uint32_t *stage_of,
                            double *seconds)
{
    enum status st;
    const struct model *m = s->m;
    double *work, *bytes, sum = 0, most = 0;
    uint32_t *reads; /* [stages] 1 + the last op whose tensor was counted there */
    struct arena memory = {0};
    TRY(ARENA_NEW(&memory, work, s->stages));
    TRY(ARENA_NEW(&memory, bytes, s->stages));
    TRY(ARENA_NEW(&memory, reads, s->stages));
    for (uint32_t i = 0; i < m->n; i++) {
        uint32_t own = stage_of[i];
        work[own] += s->op_s[s->cost.type[own] * m->n + i];
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
            uint32_t to = stage_of[m->out[k]];
            if (to != own && reads[to] != i + 1)
                bytes[to] += (double)m->op[i].output_bytes;
            reads[to] = i + 1;
        }
    }
    for (size_t k = 0; k < s->stages; k++) {
        double in = entering_s(s, k, bytes[k]);
        sum += work[k] + in;
        most = fmax(most, fmax(work[k], in));
    }
    *seconds = sum + s->others * most;
out:
    arena_free(&memory);
    return st;
}

static enum status graphsplit_consider(struct graphsplit_search *s, const uint32_t *stage_of)
{
    double seconds;
    struct pippy_timed *x = s->found;
    PASS(estimate(s, stage_of, &seconds));
    if (!(seconds < s->best_s * LESS))
        return STATUS_OK;
    PASS(ARENA_NEW(&x->memory, x->stage_of[x->tried], s->m->n));
    memcpy(x->stage_of[x->tried], stage_of, s->m->n * sizeof *stage_of);
    x->seconds[x->tried++] = s->best_s = seconds;
    return STATUS_OK;
}

/* ---- the first ones to beat: by size, and as even as one order lets the work be */

static enum status graphsplit_begin_with(struct graphsplit_search *s)
{
    const struct model *m = s->m;
    uint32_t *stage_of;
    size_t used;
    double threshold;
    PASS(ARENA_NEW(&s->memory, stage_of, m->n));
    PASS(pippy_evenly(m, s->stages, &threshold, stage_of, &used));
    PASS(graphsplit_consider(s, stage_of));
    s->found->by_size_s = s->best_s;
    struct pippy_graph g = {.nodes = m->n, .memory = s->op_s + s->cost.types * m->n};
    const struct pippy_problem even = {.stages = s->stages, .all_memory = s->least_s};
    PASS(ARENA_NEW(&s->memory, g.edge, m->edges));
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            g.edge[g.edges++] = (struct pippy_edge){.from = m->in[k], .to = i};
    PASS(pippy_balance(&g, &even, stage_of, &used));
    return graphsplit_consider(s, stage_of);
}

/* ---- ideals */

static void close_tables(struct graphsplit_search *s)
{
    fronts_close(&s->fronts);
    lattice_walk_close(&s->walk);
    lattice_free(&s->lattice);
    arena_free(&s->tables);
}

/* Of the graph, or of the chain that the model's order is. */
static enum status build_lattice(struct graphsplit_search *s, bool in_order, bool *complete)
{
    const struct model *m = s->m;
    struct model_edge *edge;
    size_t edges = 0, most = MOST_BYTES / (m->n / 8 + 8);
    PASS(ARENA_NEW(&s->tables, edge, m->edges + m->n));
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; !in_order && k < m->in_start[i + 1]; k++)
            edge[edges++] = (struct model_edge){m->in[k], i};
    for (uint32_t i = 0; in_order && i + 1 < m->n; i++)
        edge[edges++] = (struct model_edge){i, i + 1};
    return lattice_build(m->n, edge, edges, false, most < MOST_IDEALS ? most : MOST_IDEALS,
                         &s->lattice, complete);
}

static enum status open_tables(struct graphsplit_search *s)
{
    const struct lattice *l = &s->lattice;
    PASS(lattice_walk_open(l, &s->walk));
    PASS(fronts_open(l, s->stages, 0, &s->fronts));
    PASS(ARENA_NEW(&s->tables, s->bytes, l->ideals));
    PASS(ARENA_NEW(&s->tables, s->until_s, (s->cost.types + 1) * l->ideals));
    for (size_t k = 0; k <= s->cost.types; k++)
        for (size_t i = 1; i < l->ideals; i++) {
            size_t pair = l->below_start[i];
            s->until_s[k * l->ideals + i] =
                s->until_s[k * l->ideals + l->below[pair]] + s->op_s[k * s->m->n + l->node[pair]];
        }
    return STATUS_OK;
}

static const double *graphsplit_at_least(const struct graphsplit_search *s)
{
    return s->until_s + s->cost.types * s->lattice.ideals;
}

/* Does an op besides `but` in the stage from `below` to `top` read the tensor of op u? */
static bool is_read(const struct graphsplit_search *s, uint32_t u, uint32_t but, uint32_t top,
                    uint32_t below)
{
    for (size_t k = s->m->out_start[u]; k < s->m->out_start[u + 1]; k++) {
        uint32_t reader = s->m->out[k];
        if (reader != but && lattice_has(&s->lattice, top, reader) &&
            !lattice_has(&s->lattice, below, reader))
            return true;
    }
    return false;
}

/* What enters the stage now that one op more has joined it, one that the others there may read. */
static double entering(const struct graphsplit_search *s, uint32_t top, uint32_t below)
{
    const struct model *m = s->m;
    uint32_t v = s->walk.node[below];
    double bytes = s->bytes[s->walk.via[below]];
    if (is_read(s, v, v, top, below))
        bytes -= (double)m->op[v].output_bytes;
    for (size_t k = m->in_start[v]; k < m->in_start[v + 1]; k++) {
        bool again = false;
        for (size_t i = m->in_start[v]; i < k; i++)
            again = again || m->in[i] == m->in[k];
        if (!again && !is_read(s, m->in[k], v, top, below))
            bytes += (double)m->op[m->in[k]].output_bytes;
    }
    return bytes;
}

/* The most work of a stage that leaves room for a better split. */
static double most_work(const struct graphsplit_search *s)
{
    return s->others > 0 ? (s->best_s - s->least_s) / s->others : INFINITY;
}

/* Fill the fronts of `top` with the stage between it and `below` as their last. */
static enum status graphsplit_append_stage(struct graphsplit_search *s, uint32_t top,
                                           uint32_t below)
{
    size_t whole = s->lattice.ideals - 1;
    double left_s = s->least_s - graphsplit_at_least(s)[top];
    for (size_t j = top == whole ? s->stages : 1; j <= s->stages; j++) {
        const double *until = s->until_s + s->cost.type[j - 1] * s->lattice.ideals;
        const struct front *from = fronts_of(&s->fronts, below, j - 1);
        double in = entering_s(s, j - 1, s->bytes[below]), work = until[top] - until[below];
        double even = j < s->stages ? left_s / (double)(s->stages - j) : 0;
        if (j == s->stages && top != whole)
            break;
        for (uint32_t i = 0; i < from->n; i++) {
            struct front_state x = {from->state[i].sum + work + in,
                                    fmax(from->state[i].most, fmax(work, in)), below, i};
            if (x.sum + left_s + s->others * fmax(x.most, even) < s->best_s * LESS)
                PASS(fronts_add(fronts_of(&s->fronts, top, j), x));
        }
    }
    return STATUS_OK;
}

/* Can so many stages be filled up to here, and the others with the rest, none with too much
 * work? */
static bool is_reachable(const struct graphsplit_search *s, uint32_t top, double most)
{
    double done = graphsplit_at_least(s)[top] * LESS,
           left = (s->least_s - graphsplit_at_least(s)[top]) * LESS;
    return ceil(done / most) + ceil(left / most) <= (double)s->stages;
}

static enum status graphsplit_visit(struct graphsplit_search *s, uint32_t top)
{
    uint32_t below;
    double most = most_work(s), until_s = graphsplit_at_least(s)[top];
    if (!is_reachable(s, top, most))
        return STATUS_OK;
    s->bytes[top] = 0;
    lattice_begin(&s->walk, top);
    while (lattice_next(&s->walk, &below)) {
        s->bytes[below] = entering(s, top, below);
        if ((until_s - graphsplit_at_least(s)[below]) * LESS > most)
            continue;
        PASS(graphsplit_append_stage(s, top, below));
        lattice_descend(&s->walk, below);
    }
    return STATUS_OK;
}

/* *done: all splits of this kind were looked at. */
static enum status graphsplit_improve(struct graphsplit_search *s, double begin_s, bool in_order,
                                      size_t *ideals, bool *done)
{
    enum status st;
    uint32_t *stage_of;
    TRY(build_lattice(s, in_order, done));
    if (!*done)
        goto out;
    *ideals = s->lattice.ideals;
    TRY(ARENA_NEW(&s->tables, stage_of, s->m->n));
    TRY(open_tables(s));
    for (uint32_t i = 1; i < *ideals; i++) {
        if (objective_must_stop(s->r, begin_s, DEFAULT_TIME_LIMIT)) {
            *done = false;
            goto out;
        }
        TRY(graphsplit_visit(s, i));
    }
    if (fronts_best(&s->fronts, s->others, stage_of))
        TRY(graphsplit_consider(s, stage_of));
out:
    close_tables(s);
    return st;
}

enum status pippy_by_time(const struct objective_request *r, struct pippy_timed *out)
{
    enum status st;
    double begin_s = clock_now();
    struct pippy_timed x = {0};
    struct graphsplit_search s = {.r = r,
                                  .m = r->model,
                                  .stages = r->stages,
                                  .others = r->microbatches ? r->microbatches - 1
                                                            : PIPPY_MICROBATCHES - 1,
                                  .found = &x,
                                  .best_s = INFINITY};
    TRY(find_costs(&s));
    TRY(graphsplit_begin_with(&s));
    TRY(graphsplit_improve(&s, begin_s, true, &x.ideals, &x.in_order));
    TRY(graphsplit_improve(&s, begin_s, false, &x.ideals, &x.exact));
    x.interrupted = !x.exact && objective_must_stop(r, begin_s, DEFAULT_TIME_LIMIT);
    MOVE(out, x);
out:
    pippy_timed_free(&x);
    search_close(&s);
    return st;
}

void pippy_timed_free(struct pippy_timed *x)
{
    arena_free(&x->memory);
    *x = (struct pippy_timed){0};
}
