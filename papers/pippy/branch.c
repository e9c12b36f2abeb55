/* PiPPy's integer program on GLPK.
 *
 * Variables, for clusters i, edges e and stages j: u[i, j] = 1 if i is in stage j or an
 * earlier one; y[e, j] = 1 if both ends of e are in stage j; q[e] = 1 if e is cut; and z.
 * Minimise sum over e of (weight + count) q[e] + average x z, subject to u growing with j and
 * falling along edges (order_rows), y and q following from u (edge_rows), and each stage's
 * memory, inner and touching weight within the limits (balance_rows). Membership x[i, j] of
 * the published program is u[i, j] - u[i, j - 1]. */
#include <math.h>
#include <string.h>

#include <glpk.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/pippy/pippy.h"

static const double DEFAULT_TIME_LIMIT = 30;
static const double SCALE = 1000; /* all weight, and all memory, in the solver's units */

struct integer_program {
    const struct pippy_problem *p;
    const struct objective_request *r;
    double begin_s;
    glp_prob *lp;
    double weight_unit, memory_unit;
    size_t columns, entries;
    double *coefficient; /* [columns + 1] of the row being built, dense */
    int *column;         /* [columns + 1] 1-based, those of the row */
    double *value;       /* [columns + 1] beside column */
    double constant;     /* of the row's left side */
    size_t words;        /* of a set of clusters */
    uint64_t *before;    /* [nodes * words] the clusters that each comes after */
    uint64_t *after;     /* [nodes * words] and before */
    uint64_t *open;      /* [words] whose place is not decided */
    struct arena memory;
};

/* ---- columns: u[i, j], then y[e, j], then q[e], then z; 1-based as GLPK has them */

static size_t up_to(const struct integer_program *g, size_t i, size_t j)
{
    return 1 + i * (g->p->stages - 1) + j;
}

static size_t pippy_branch_inside(const struct integer_program *g, size_t e, size_t j)
{
    return 1 + g->p->nodes * (g->p->stages - 1) + e * g->p->stages + j;
}

static size_t pippy_branch_is_cut(const struct integer_program *g, size_t e)
{
    return 1 + g->p->nodes * (g->p->stages - 1) + g->p->edges * g->p->stages + e;
}

/* ---- rows */

/* Add to a coefficient of the row at hand. Sums of several terms may cancel, which GLPK does
 * not take as an entry. */
static void term(struct integer_program *g, size_t column, double factor)
{
    if (g->coefficient[column] == 0)
        g->column[++g->entries] = (int)column;
    g->coefficient[column] += factor;
    if (g->coefficient[column] == 0)
        g->coefficient[column] = 1e-300; /* still listed; dropped when the row is finished */
}

/* factor * [cluster i is in stage j or before]; j = -1 is never, j = stages - 1 always. */
static void term_up_to(struct integer_program *g, size_t i, long j, double factor)
{
    if (j == (long)g->p->stages - 1)
        g->constant += factor;
    else if (j >= 0)
        term(g, up_to(g, i, (size_t)j), factor);
}

/* factor x [cluster i is in stage j]. */
static void term_in(struct integer_program *g, size_t i, size_t j, double factor)
{
    term_up_to(g, i, (long)j, factor);
    term_up_to(g, i, (long)j - 1, -factor);
}

/* lower <= row <= upper; an infinite bound is none. Constants of the row, from memberships
 * that are always true, go to its bounds. */
static void finish_row(struct integer_program *g, double lower, double upper)
{
    int row = glp_add_rows(g->lp, 1), n = 0;
    for (size_t i = 1; i <= g->entries; i++) {
        double x = g->coefficient[g->column[i]];
        g->coefficient[g->column[i]] = 0;
        if (fabs(x) < 1e-200)
            continue;
        g->column[++n] = g->column[i];
        g->value[n] = x;
    }
    int kind = lower == upper ? GLP_FX : isinf(lower) ? GLP_UP : isinf(upper) ? GLP_LO : GLP_DB;
    glp_set_row_bnds(g->lp, row, kind, lower - g->constant, upper - g->constant);
    glp_set_mat_row(g->lp, row, n, g->column, g->value);
    g->entries = 0;
    g->constant = 0;
}

/* u[i, j] <= u[i, j + 1], and for an edge a -> b: if b is in stage j or before, so is a. */
static void pippy_branch_order_rows(struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    long last = (long)p->stages - 1;
    for (size_t i = 0; i < p->nodes; i++)
        for (long j = 0; j + 1 < last; j++) {
            term_up_to(g, i, j, 1);
            term_up_to(g, i, j + 1, -1);
            finish_row(g, -INFINITY, 0);
        }
    for (size_t e = 0; e < p->edges; e++)
        for (long j = 0; j < last; j++) {
            term_up_to(g, p->edge[e].to, j, 1);
            term_up_to(g, p->edge[e].from, j, -1);
            finish_row(g, -INFINITY, 0);
        }
}

/* y[e, j] is 1 exactly when both ends are in stage j; q[e] when in no stage. */
static void edge_rows(struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    for (size_t e = 0; e < p->edges; e++) {
        for (size_t j = 0; j < p->stages; j++) {
            const uint32_t end[] = {p->edge[e].from, p->edge[e].to};
            for (size_t k = 0; k < 2; k++) {
                term(g, pippy_branch_inside(g, e, j), 1);
                term_in(g, end[k], j, -1);
                finish_row(g, -INFINITY, 0);
            }
            term(g, pippy_branch_inside(g, e, j), 1);
            term_up_to(g, end[1], (long)j, -1);
            term_up_to(g, end[0], (long)j - 1, 1);
            finish_row(g, 0, INFINITY);
        }
        for (size_t j = 0; j < p->stages; j++)
            term(g, pippy_branch_inside(g, e, j), 1);
        term(g, pippy_branch_is_cut(g, e), 1);
        finish_row(g, 1, 1);
    }
}

/* Memory, weight inside and weight that touches the stage. The last one is bounded by z, which
 * the objective pays for. */
static void balance_rows(struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    const struct pippy_limits most = pippy_limits(p);
    for (size_t j = 0; j < p->stages; j++) {
        for (size_t i = 0; i < p->nodes; i++)
            if (p->memory[i] > 0)
                term_in(g, i, j, p->memory[i] / g->memory_unit);
        finish_row(g, -INFINITY, most.memory / g->memory_unit);
        for (int touching = 0; touching < 2; touching++) {
            for (size_t i = 0; i < p->nodes; i++)
                if (p->inner[i] > 0)
                    term_in(g, i, j, p->inner[i] / g->weight_unit);
            for (size_t e = 0; e < p->edges; e++) {
                double weight = p->edge[e].weight / g->weight_unit;
                if (weight <= 0)
                    continue;
                term(g, pippy_branch_inside(g, e, j), touching ? -weight : weight);
                if (touching) {
                    term_in(g, p->edge[e].from, j, weight);
                    term_in(g, p->edge[e].to, j, weight);
                }
            }
            if (touching)
                term(g, g->columns, -most.touching / 2 / g->weight_unit);
            finish_row(g, -INFINITY, touching ? 0 : most.inside / g->weight_unit);
        }
    }
}

/* Only u has to be binary: y and q are whole where u is. */
static void add_columns(struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    glp_add_cols(g->lp, (int)g->columns);
    for (size_t c = 1; c < g->columns; c++) {
        glp_set_col_bnds(g->lp, (int)c, GLP_LO, 0, 0); /* at most 1 follows from the rows */
        if (c < pippy_branch_inside(g, 0, 0))
            glp_set_col_kind(g->lp, (int)c, GLP_BV);
    }
    for (size_t e = 0; e < p->edges; e++)
        glp_set_obj_coef(g->lp, (int)pippy_branch_is_cut(g, e),
                         (p->edge[e].weight + p->edge[e].count) / g->weight_unit);
    glp_set_col_bnds(g->lp, (int)g->columns, GLP_DB, 1, 2);
    glp_set_obj_coef(g->lp, (int)g->columns, p->all_weight / (double)p->stages / g->weight_unit);
}

/* ---- solving */

/* Which clusters come before and after each: edges go from lower to higher numbers or not, so paths
 * are followed until nothing changes. O(paths' length x edges x nodes / 64). */
static void find_order(struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t e = 0; e < 2 * p->edges; e++) {
            const struct pippy_edge *x = &p->edge[e / 2];
            size_t from = e % 2 ? x->to : x->from, to = e % 2 ? x->from : x->to;
            uint64_t *set = e % 2 ? g->after : g->before;
            for (size_t w = 0; w < g->words; w++) {
                uint64_t more = set[from * g->words + w] | (w == from / 64 ? 1ULL << from % 64 : 0);
                changed = changed || (more & ~set[to * g->words + w]);
                set[to * g->words + w] |= more;
            }
        }
    }
}

static size_t count_open(const struct integer_program *g, const uint64_t *set)
{
    size_t n = 0;
    for (size_t w = 0; w < g->words; w++)
        n += (size_t)__builtin_popcountll(set[w] & g->open[w]);
    return n;
}

/* Branch on the cluster in the middle of what is open: in a stage or before, so are all before it;
 * else all behind it are not. The relaxation mixes "all" and "nothing", which only such a branch
 * takes apart. */
static void pippy_branch_choose(glp_tree *tree, struct integer_program *g)
{
    const struct pippy_problem *p = g->p;
    glp_prob *lp = glp_ios_get_prob(tree);
    size_t best = 0, column = 0;
    for (size_t j = 0; j + 1 < p->stages; j++) {
        memset(g->open, 0, g->words * sizeof *g->open);
        for (size_t i = 0; i < p->nodes; i++)
            if (glp_ios_can_branch(tree, (int)up_to(g, i, j)))
                g->open[i / 64] |= 1ULL << i % 64;
        for (size_t i = 0; i < p->nodes; i++) {
            if (!(g->open[i / 64] >> i % 64 & 1))
                continue;
            size_t before = count_open(g, g->before + i * g->words);
            size_t after = count_open(g, g->after + i * g->words);
            size_t decided = 1 + (before < after ? before : after);
            if (decided > best) {
                best = decided;
                column = up_to(g, i, j);
            }
        }
    }
    if (best > 0)
        glp_ios_branch_upon(tree, (int)column,
                            glp_get_col_prim(lp, (int)column) >= 0.5 ? GLP_UP_BRNCH : GLP_DN_BRNCH);
}

static void pippy_branch_look_at(glp_tree *tree, void *info)
{
    struct integer_program *g = info;
    if (objective_must_stop(g->r, g->begin_s, DEFAULT_TIME_LIMIT))
        glp_ios_terminate(tree);
    else if (glp_ios_reason(tree) == GLP_IBRANCH)
        pippy_branch_choose(tree, g);
}

static bool is_infeasible(glp_prob *lp)
{
    int state = glp_get_status(lp);
    return state == GLP_NOFEAS || state == GLP_INFEAS;
}

/* The relaxation, with GLPK's presolve, then the tree without it: pippy_branch_look_at() needs the
 * columns as they are. */
static enum status pippy_branch_solve(struct integer_program *g, enum pippy_verdict *verdict)
{
    glp_smcp relaxed;
    glp_iocp options;
    double limit_s = objective_limit_s(g->r, DEFAULT_TIME_LIMIT);
    glp_init_smcp(&relaxed);
    relaxed.msg_lev = GLP_MSG_OFF;
    relaxed.presolve = GLP_ON;
    relaxed.tm_lim = (int)fmin(1000 * limit_s, 1e9);
    int code = glp_simplex(g->lp, &relaxed);
    if (code == GLP_ENOPFS || (!code && is_infeasible(g->lp))) {
        *verdict = PIPPY_INFEASIBLE;
        return STATUS_OK;
    }
    if (code == GLP_ETMLIM) {
        *verdict = PIPPY_UNKNOWN;
        return STATUS_OK;
    }
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.mip_gap = PIPPY_GAP;
    /* No cuts: they gain nothing on this formulation, and rounds of MIR cuts ignore the limit. */
    options.tm_lim = (int)fmin(1000 * limit_s, 1e9);
    options.cb_func = pippy_branch_look_at;
    options.cb_info = g;
    code = code ? code : glp_intopt(g->lp, &options);
    int state = glp_mip_status(g->lp);
    if (code && code != GLP_ENOPFS && code != GLP_ETMLIM && code != GLP_ESTOP &&
        code != GLP_EMIPGAP)
        return error_set(STATUS_EXTERNAL, "GLPK cannot solve the integer program, error code %d",
                         code);
    *verdict = state == GLP_OPT      ? PIPPY_OPTIMAL
               : code == GLP_EMIPGAP ? PIPPY_CLOSE
               : state == GLP_FEAS   ? PIPPY_FEASIBLE
                                     : PIPPY_UNKNOWN;
    if (code == GLP_ENOPFS || (!code && state == GLP_NOFEAS))
        *verdict = PIPPY_INFEASIBLE;
    return STATUS_OK;
}

enum status pippy_branch(const struct pippy_problem *p, const struct objective_request *r,
                         uint32_t *stage_of, enum pippy_verdict *verdict)
{
    enum status st = STATUS_OK;
    struct integer_program g = {.p = p, .r = r, .begin_s = clock_now()};
    g.columns = p->nodes * (p->stages - 1) + p->edges * (p->stages + 1) + 1;
    g.weight_unit = p->all_weight > 0 ? p->all_weight / SCALE : 1;
    g.memory_unit = p->all_memory > 0 ? p->all_memory / SCALE : 1;
    TRY(ARENA_NEW(&g.memory, g.coefficient, g.columns + 1));
    TRY(ARENA_NEW(&g.memory, g.column, g.columns + 1));
    TRY(ARENA_NEW(&g.memory, g.value, g.columns + 1));
    g.words = (p->nodes + 63) / 64;
    TRY(ARENA_NEW(&g.memory, g.before, p->nodes * g.words));
    TRY(ARENA_NEW(&g.memory, g.after, p->nodes * g.words));
    TRY(ARENA_NEW(&g.memory, g.open, g.words));
    find_order(&g);
    glp_term_out(GLP_OFF);
    g.lp = glp_create_prob();
    add_columns(&g);
    pippy_branch_order_rows(&g);
    edge_rows(&g);
    balance_rows(&g);
    TRY(pippy_branch_solve(&g, verdict));
    if (*verdict <= PIPPY_FEASIBLE)
        for (size_t i = 0; i < p->nodes; i++) {
            stage_of[i] = 0;
            for (size_t j = 0; j + 1 < p->stages; j++)
                stage_of[i] += glp_mip_col_val(g.lp, (int)up_to(&g, i, j)) < 0.5;
        }
out:
    if (g.lp) {
        glp_delete_prob(g.lp);
        glp_free_env();
    }
    arena_free(&g.memory);
    return st;
}
