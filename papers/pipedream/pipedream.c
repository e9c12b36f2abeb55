/* The objective of PipeDream's optimizer (Narayanan et al., "PipeDream: Generalized Pipeline
 * Parallelism for DNN Training", SOSP 2019, section 3.1): its row, solving it on the least
 * contracted graph, and scoring splits over one level. */
#include <math.h>
#include <stdio.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/common/split.h"
#include "papers/pipedream/dp.h"

static const double default_bandwidth_Bps = 1e9; /* that of the published tool */
static const double most_work = 4e9;             /* steps, some seconds; then branches contract */
enum { MOST_STATES = 30000 };

/* Levels of machines, innermost first; without levels --devices are one level. */
static enum status pipedream_read_options(const struct objective_request *r,
                                          struct pipedream_options *o)
{
    *o = (struct pipedream_options){.levels = r->levels ? r->levels : 1,
                                    .charge_activations = r->said.charge_activations,
                                    .straight = r->said.straight,
                                    .fewer_machines = r->said.fewer_machines,
                                    .memory_bytes = r->memory_bytes};
    if (!r->model)
        return error_set(STATUS_INVALID, "--objective pipedream needs a model");
    for (size_t i = 0; i < o->levels; i++) {
        struct pipedream_level *l = &o->level[i];
        l->machines = r->levels ? r->machines[i] : r->devices;
        l->bandwidth_Bps = r->bandwidth_Bps[i] > 0 ? r->bandwidth_Bps[i] : default_bandwidth_Bps;
        l->inner_machines = i ? o->level[i - 1].machines : 1;
        if (l->machines < 1 || l->machines > PIPEDREAM_MAX_MACHINES)
            return error_set(STATUS_USAGE,
                             "--objective pipedream needs --machines from 1 to %d at each level",
                             PIPEDREAM_MAX_MACHINES);
    }
    return STATUS_OK;
}

/* ---- solving */

/* The states of the least contracted graph whose dynamic program is within the budget. A walk
 * that does not reach every node from the first source is made again with a root before all
 * sources. */
static enum status build_states(const struct objective_request *r,
                                const struct pipedream_options *o, struct pipedream_graph *g,
                                struct pipedream_states *s, enum pipedream_contraction *contracted)
{
    size_t limit = MOST_STATES;
    bool too_many = true, rooted = false;
    while (limit > 2 && pipedream_work(o, limit) > most_work)
        limit -= limit / 16 + 1;
    for (int c = CONTRACT_NOTHING; c < PIPEDREAM_CONTRACTIONS && too_many; c++) {
        *contracted = (enum pipedream_contraction)c;
        if (c == CONTRACT_REGIONS) /* a chain: at most one state per node */
            limit = r->model->n + 1;
        do {
            pipedream_states_free(s);
            pipedream_graph_free(g);
            PASS(pipedream_graph_build(r->model, *contracted, rooted, g));
            PASS(pipedream_states_build(g, limit, s, &too_many));
        } while (!too_many && !s->complete && !rooted && (rooted = true));
    }
    if (too_many)
        return error_set(STATUS_UNSUPPORTED,
                         "%s: the graph has more than %zu states (sets of ops that a pipeline "
                         "prefix can contain)",
                         r->model->name, limit);
    return STATUS_OK;
}

/* Ops of the stage: those whose node is in state `last` and not in state `first` - 1. */
static enum status add_part(const struct model *m, const struct pipedream_graph *g,
                            const struct pipedream_states *s, struct pipedream_stage stage,
                            struct objective_result *out)
{
    const struct objective_ops ops = {m->n, .model = m};
    uint32_t *in_stage;
    PASS(ARENA_NEW(&out->memory, in_stage, m->n));
    for (size_t i = 0; i < m->n; i++) {
        uint32_t node = g->node_of[i];
        in_stage[i] = set_has(s->set + stage.last * s->words, node) &&
                      !(stage.first > 0 && set_has(s->set + (stage.first - 1) * s->words, node));
    }
    PASS(objective_add_part(out, &ops, in_stage, true, NULL));
    out->part[out->parts - 1].replicas = stage.replicas;
    return STATUS_OK;
}

static enum status pipedream_write_note(const struct pipedream_options *o,
                                        const struct pipedream_states *s,
                                        enum pipedream_contraction contracted,
                                        const struct pipedream_solution *solution,
                                        struct objective_result *out)
{
    static const char *const how[] = {
        [CONTRACT_NOTHING] = "",
        [CONTRACT_BRANCHES] = " after contracting the chains inside branches",
        [CONTRACT_REGIONS] = " after contracting branching regions to one op each",
    };
    char speed[96] = "";
    if (solution->value_s > 0 && solution->parallel_s > 0)
        snprintf(speed, sizeof speed,
                 "; %.6g times as fast as one machine (data parallelism: %.6g times)",
                 solution->single_s / solution->value_s, solution->single_s / solution->parallel_s);
    return objective_set_note(out, "%zu states%s; %s: %s%s%s", s->n, how[contracted],
                              o->levels > 1 ? "replicas per level, outermost first" : "replicas",
                              solution->text,
                              solution->interrupted ? " (stopped by the time limit)" : "", speed);
}

/* Optimal only for the graph as it is: contraction takes cuts away. */
enum status pipedream_pipedream_solve(const struct objective_request *r,
                                      struct objective_result *out)
{
    enum status st = STATUS_OK;
    double begin_s = clock_now();
    struct pipedream_options o;
    struct pipedream_graph g = {0};
    struct pipedream_states s = {0};
    struct pipedream_solution solution = {0};
    enum pipedream_contraction contracted = CONTRACT_NOTHING;
    TRY(pipedream_read_options(r, &o));
    TRY(build_states(r, &o, &g, &s, &contracted));
    TRY(pipedream_solve_states(&s, &o, r, begin_s, &solution));
    out->value = solution.value_s;
    out->interrupted = solution.interrupted;
    out->proved_optimal = contracted == CONTRACT_NOTHING && !solution.interrupted;
    out->lower_bound = out->proved_optimal ? solution.value_s : NAN;
    for (size_t i = 0; i < solution.stages; i++)
        TRY(add_part(r->model, &g, &s, solution.stage[i], out));
    TRY(pipedream_write_note(&o, &s, contracted, &solution, out));
out:
    pipedream_solution_free(&solution);
    pipedream_states_free(&s);
    pipedream_graph_free(&g);
    return st;
}

/* ---- scoring */

/* Part of every node; every planned op is in a part, no tensor flows backwards. */
static enum status check_split(const struct model *m, const struct pipedream_graph *g,
                               const struct split *p)
{
    for (size_t i = 0; i < m->n; i++) {
        if (g->dropped[i])
            continue;
        if (p->part_of[i] == SPLIT_NONE)
            return error_set(STATUS_INVALID, "the split does not contain op '%s'", m->op[i].name);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            if (!g->dropped[m->in[k]] && p->part_of[m->in[k]] > p->part_of[i])
                return error_set(
                    STATUS_INVALID, "op '%s' in part %u reads op '%s' of the later part %u",
                    m->op[i].name, p->part_of[i], m->op[m->in[k]].name, p->part_of[m->in[k]]);
    }
    return STATUS_OK;
}

/* The slowest of all stages and of the transfers between them, by the formulas of the dynamic
 * program. */
static enum status score_parts(const struct model *m, const struct pipedream_graph *g,
                               const struct split *p, const struct pipedream_options *o,
                               double *value)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    const struct pipedream_level *l = &o->level[0];
    double entering = 0, slowest = 0;
    size_t machines = 0;
    uint64_t *set, *room;
    TRY(ARENA_NEW(&scratch, set, g->words));
    TRY(ARENA_NEW(&scratch, room, g->words));
    for (size_t part = 0; part < p->parts; part++) {
        double compute = 0, parameter = 0, activation = 0;
        size_t replicas = p->replicas[part];
        machines += replicas;
        for (size_t i = 0; i < m->n; i++)
            if (!g->dropped[i] && p->part_of[i] == part) {
                size_t node = g->node_of[i];
                compute += g->compute_s[node];
                parameter += g->parameter[node];
                activation += g->activation[node];
                set_add(set, node);
            }
        if (machines > l->machines ||
            !pipedream_fits(o, l, activation + parameter, machines, replicas)) {
            st = machines > l->machines
                     ? error_set(STATUS_INFEASIBLE, "the split uses more than %zu machines",
                                 l->machines)
                     : error_set(STATUS_INFEASIBLE, "part %zu does not fit into memory", part);
            goto out;
        }
        slowest = fmax(slowest, pipedream_later_stage_s(l, compute, parameter, replicas));
        double leaving = part + 1 < p->parts ? pipedream_cut_bytes(g, set, room) : 0;
        if (o->charge_activations && part > 0)
            slowest = fmax(slowest, pipedream_transfer_s(l, fmax(entering, leaving), replicas));
        entering = leaving;
    }
    *value = slowest;
out:
    arena_free(&scratch);
    return st;
}

static enum status pipedream_score_stages(const struct objective_request *r, const char *path,
                                          double *value)
{
    enum status st = STATUS_OK;
    struct pipedream_options o;
    struct pipedream_graph g = {0};
    struct split p = {0};
    if (r->levels > 1)
        return error_set(STATUS_UNSUPPORTED,
                         "--objective pipedream scores splits over one level of machines, not %zu",
                         r->levels);
    TRY(pipedream_read_options(r, &o));
    TRY(split_read(path, r->model, &p));
    TRY(pipedream_graph_build(r->model, CONTRACT_NOTHING, false, &g));
    TRY(check_split(r->model, &g, &p));
    TRY(score_parts(r->model, &g, &p, &o, value));
out:
    split_free(&p);
    pipedream_graph_free(&g);
    return st;
}

const struct objective objective_pipedream = {
    .name = "pipedream",
    .unit = "s per minibatch",
    .unit_s = 1,
    .schedule = "pipedream",
    .summary = "slowest stage of a pipeline with replication, as computed by PipeDream's optimizer",
    .score = pipedream_score_stages,
};
