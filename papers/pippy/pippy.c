/* The row of PiPPy's objective and its algorithms: `graphsplit`, by times; `milp`, PiPPy's integer
 * program; `sizesplit`, its split by parameter count. */
#include "papers/pippy/pippy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "papers/common/split.h"

enum { MAX_STAGES = 1024, WHY = 200 };

struct pippy_work {
    const struct objective_request *r;
    struct pippy_graph graph;
    struct pippy_problem problem;
    uint32_t *stage_of;   /* [graph.nodes] */
    uint32_t *cluster_at; /* [graph.nodes] stage by cluster */
    struct arena memory;
};

static void work_close(struct pippy_work *w)
{
    pippy_graph_free(&w->graph);
    pippy_problem_free(&w->problem);
    arena_free(&w->memory);
}

static enum status work_open(const struct objective_request *r, size_t stages, struct pippy_work *w)
{
    w->r = r;
    if (!r->model || !r->model->n)
        return error_set(STATUS_INVALID, "--objective pippy needs a model with at least one op");
    if (!stages || stages > MAX_STAGES)
        return error_set(STATUS_INVALID, "--objective pippy needs --stages between 1 and %d",
                         MAX_STAGES);
    PASS(pippy_graph_of(r->model, false, &w->graph));
    PASS(pippy_presolve(&w->graph, stages, &w->problem));
    PASS(ARENA_NEW(&w->memory, w->stage_of, w->graph.nodes));
    return ARENA_NEW(&w->memory, w->cluster_at, w->graph.nodes);
}

/* One part per stage that has ops. */
static enum status add_parts(const struct pippy_work *w, struct objective_result *out)
{
    const struct objective_ops ops = {w->r->model->n, .model = w->r->model};
    bool *used;
    PASS(ARENA_NEW(&out->memory, used, w->problem.stages));
    for (size_t i = 0; i < ops.n; i++)
        used[w->stage_of[i]] = true;
    for (uint32_t s = 0; s < w->problem.stages; s++)
        if (used[s])
            PASS(objective_add_part(out, &ops, w->stage_of, s, NULL));
    return STATUS_OK;
}

/* ---- graphsplit */

/* The result of a split. */
static enum status put_split(struct pippy_work *w, const uint32_t *stage_of,
                             struct objective_result *out)
{
    memcpy(w->stage_of, stage_of, w->graph.nodes * sizeof *stage_of);
    PASS(pippy_value(&w->graph, &w->problem, w->stage_of, &out->value));
    out->lower_bound = NAN;
    return add_parts(w, out);
}

/* The one of the best estimate, or, where the simulator can be asked, that of the least iteration;
 * the later one of two that are alike. */
static enum status pippy_choose_search(struct pippy_work *w, const struct pippy_timed *x,
                                       size_t *best, double *least)
{
    *best = x->tried - 1;
    *least = INFINITY;
    for (size_t i = x->tried; w->r->simulate && i-- > 0;) {
        struct objective_result split = {0};
        double seconds = INFINITY;
        enum status st = put_split(w, x->stage_of[i], &split);
        if (st == STATUS_OK)
            st = w->r->simulate(w->r->simulator, &split, &seconds);
        objective_result_free(&split);
        PASS(st);
        if (seconds < *least) {
            *least = seconds;
            *best = i;
        }
    }
    return STATUS_OK;
}

static enum status note_times(const struct pippy_timed *x, size_t best, double simulated_s,
                              struct objective_result *out)
{
    char how[100] = "too many ops for the dynamic program", simulated[60] = "";
    if (x->ideals)
        snprintf(how, sizeof how,
                 "dynamic program over %zu down-sets (sets with all predecessors)%s", x->ideals,
                 x->exact ? "" : " in model order");
    if (isfinite(simulated_s))
        snprintf(simulated, sizeof simulated, ", simulated %.4g ms", 1e3 * simulated_s);
    return objective_set_note(
        out, "estimated %.4g ms per iteration%s (split by size: estimated %.4g ms); %s%s",
        1e3 * x->seconds[best], simulated, 1e3 * x->by_size_s, how,
        best + 1 < x->tried ? "; the split of the dynamic program is slower in the simulation"
                            : "");
}

enum status pippy_graphsplit_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct pippy_work w = {0};
    struct pippy_timed x = {0};
    size_t best;
    double simulated_s;
    if (r->said.threshold > 0)
        return error_set(STATUS_USAGE, "--threshold needs --algorithm sizesplit");
    if (r->said.compat)
        return error_set(STATUS_USAGE, "--compat-pippy needs --algorithm milp or sizesplit");
    TRY(work_open(r, r->stages, &w));
    if (!r->topology)
        FAIL(STATUS_USAGE,
             "--algorithm graphsplit needs --platform: its op times are those of the devices");
    if (r->stages > r->topology->n)
        FAIL(STATUS_INFEASIBLE, "got %zu stages, but the platform has %zu devices", r->stages,
             r->topology->n);
    TRY(pippy_by_time(r, &x));
    TRY(pippy_choose_search(&w, &x, &best, &simulated_s));
    TRY(put_split(&w, x.stage_of[best], out));
    out->interrupted = x.interrupted;
    TRY(note_times(&x, best, simulated_s, out));
out:
    pippy_timed_free(&x);
    work_close(&w);
    return st;
}

/* ---- milp */

/* Ideals where they are few, else the integer program; then stages of clusters become stages
 * of ops. */
static enum status solve_program(struct pippy_work *w, enum pippy_verdict *verdict, char *how,
                                 size_t size)
{
    size_t ideals;
    PASS(pippy_ideals(&w->problem, w->r, PIPPY_IDEALS, w->cluster_at, verdict, &ideals));
    snprintf(how, size, "dynamic program over %zu down-sets (sets with all predecessors)", ideals);
    if (!ideals) {
        PASS(pippy_branch(&w->problem, w->r, w->cluster_at, verdict));
        snprintf(how, size, "mixed-integer program%s",
                 *verdict == PIPPY_CLOSE ? ", proved to be within 0.01 % of the least" : "");
    }
    for (size_t v = 0; v < w->graph.nodes; v++)
        w->stage_of[v] = w->cluster_at[w->problem.cluster_of[v]];
    return STATUS_OK;
}

/* Where the program has no solution, or none was found in time, the balanced split is the answer,
 * and the note says why; PiPPy itself raises an error. */
enum status pippy_milp_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct pippy_work w = {0};
    enum pippy_verdict verdict;
    char how[100], why[WHY] = "";
    size_t used;
    if (r->said.threshold > 0)
        return error_set(STATUS_USAGE, "--threshold needs --algorithm sizesplit");
    TRY(work_open(r, r->stages, &w));
    TRY(solve_program(&w, &verdict, how, sizeof how));
    if (verdict == PIPPY_INFEASIBLE || verdict == PIPPY_UNKNOWN) {
        if (verdict == PIPPY_INFEASIBLE)
            pippy_explain(&w.problem, why, sizeof why);
        else
            snprintf(why, sizeof why, "no solution found in time");
        if (r->said.compat)
            FAIL(STATUS_INFEASIBLE,
                 "%s; without --compat-pippy foreline falls back to a balanced split", why);
        TRY(pippy_balance(&w.graph, &w.problem, w.stage_of, &used));
    }
    TRY(pippy_value(&w.graph, &w.problem, w.stage_of, &out->value));
    out->proved_optimal = verdict == PIPPY_OPTIMAL;
    out->lower_bound = verdict == PIPPY_OPTIMAL ? out->value : NAN;
    out->interrupted = verdict == PIPPY_FEASIBLE || verdict == PIPPY_UNKNOWN;
    TRY(add_parts(&w, out));
    TRY(objective_set_note(
        out, "integer program of %zu nodes and %zu edges (%zu and %zu after presolve); %s%s%s%s",
        w.graph.nodes, w.graph.edges, w.problem.nodes, w.problem.kept, how,
        *why ? "; infeasible, balanced split instead: " : "", why,
        out->parts < r->stages ? "; some stages are empty" : ""));
out:
    work_close(&w);
    return st;
}

/* ---- sizesplit */

/* Stages of about as many parameters each. PiPPy's rule may make fewer, since it compares running
 * sums, and then fails; here the largest are cut again, unless that is what was asked for. */
static enum status split_evenly(struct pippy_work *w, struct objective_result *out)
{
    size_t used, stages = w->r->stages;
    double threshold;
    PASS(pippy_evenly(w->r->model, stages, &threshold, w->stage_of, &used));
    if (used == stages)
        return objective_set_note(out, "at most %.0f parameters per stage", threshold);
    if (w->r->said.compat)
        return error_set(STATUS_INFEASIBLE,
                         "PiPPy's rule (at most %.0f parameters per stage) makes %zu stages, not "
                         "%zu; without --compat-pippy foreline cuts the largest stages again",
                         threshold, used, stages);
    return objective_set_note(out,
                              "PiPPy's rule (at most %.0f parameters per stage) stops at %zu "
                              "stages; foreline cut the largest stages again",
                              threshold, used);
}

/* As many stages as r->threshold makes, but not more than r->stages, if that is said. */
static enum status count_stages(const struct objective_request *r, size_t *stages)
{
    enum status st;
    uint32_t *stage_of = NULL;
    if (!r->model || !r->model->n)
        return STATUS_OK; /* work_open() says so */
    if (r->said.compat)
        return error_set(STATUS_USAGE, "--compat-pippy has no effect with --threshold");
    TRY(ARRAY_NEW(stage_of, r->model->n));
    TRY(pippy_by_threshold(r->model, r->said.threshold, r->stages ? r->stages : SIZE_MAX, stage_of,
                           stages));
out:
    free(stage_of);
    return st;
}

enum status pippy_sizesplit_solve(const struct objective_request *r, struct objective_result *out)
{
    enum status st;
    struct pippy_work w = {0};
    size_t stages = r->stages;
    bool limited = r->said.threshold > 0;
    if (limited)
        TRY(count_stages(r, &stages));
    TRY(work_open(r, stages, &w));
    if (limited) {
        TRY(pippy_by_threshold(r->model, r->said.threshold, stages, w.stage_of, &stages));
        TRY(objective_set_note(out, "at most %.0f parameters per stage make %zu stages",
                               r->said.threshold, stages));
    } else {
        TRY(split_evenly(&w, out));
    }
    TRY(pippy_value(&w.graph, &w.problem, w.stage_of, &out->value));
    out->lower_bound = NAN;
    TRY(add_parts(&w, out));
out:
    work_close(&w);
    return st;
}

/* ---- score */

static enum status pippy_score_split(const struct objective_request *r, const char *split,
                                     double *value)
{
    enum status st;
    struct split s = {0};
    struct pippy_work w = {0};
    if (!r->model)
        return error_set(STATUS_INVALID, "--objective pippy needs a model");
    TRY(split_read(split, r->model, &s));
    TRY(work_open(r, r->stages > s.parts ? r->stages : s.parts, &w));
    for (size_t i = 0; i < r->model->n; i++)
        if (s.part_of[i] == SPLIT_NONE) {
            st = error_set(STATUS_INVALID, "%s: op '%s' is in no part of the split", split,
                           r->model->op[i].name);
            goto out;
        }
    TRY(pippy_value(&w.graph, &w.problem, s.part_of, value));
out:
    split_free(&s);
    work_close(&w);
    return st;
}

const struct objective objective_pippy = {
    .name = "pippy",
    .unit = "elements",
    .summary = "PiPPy's graph split: minimum cut with balanced memory and communication",
    .nodes_apart = true,
    .score = pippy_score_split,
};
