#include "core/lowering.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/text.h"

static enum status copy_stages(const struct lowering *l, struct program *out)
{
    const struct plan *p = l->plan;
    size_t n = 0;
    out->stages = p->stages;
    out->stage_start = calloc(p->stages + 1, sizeof *out->stage_start);
    out->stage_op = calloc(l->model->n + 1, sizeof *out->stage_op);
    if (!out->stage_start || !out->stage_op)
        return error_set(STATUS_NOMEM, "%zu stages", p->stages);
    for (size_t s = 0; s < p->stages; s++) {
        memcpy(out->stage_op + n, p->stage[s].op, p->stage[s].ops * sizeof *out->stage_op);
        n += p->stage[s].ops;
        out->stage_start[s + 1] = n;
    }
    return STATUS_OK;
}

static enum status copy_ranks(const struct lowering *l, const struct stage_cost *cost,
                              struct program *out)
{
    enum status st = STATUS_OK;
    out->rank = calloc(lowering_ranks(l), sizeof *out->rank);
    out->op_start = calloc(lowering_ranks(l) + 1, sizeof *out->op_start);
    if (!out->rank || !out->op_start)
        return error_set(STATUS_NOMEM, "%zu ranks", (size_t)lowering_ranks(l));
    out->ranks = lowering_ranks(l);
    for (uint32_t r = 0; r < out->ranks; r++) {
        uint32_t stage = lowering_stage_of(l, r), replica = r - l->first_rank[stage];
        uint32_t device = l->plan->stage[stage].device[replica];
        out->rank[r].device = device;
        out->rank[r].stage = stage;
        out->rank[r].replica = replica;
        out->rank[r].static_bytes = cost[r].static_bytes;
        TRY(text_copy(l->topology->device[device], &out->rank[r].name));
        out->op_start[r + 1] = out->op_start[r] + l->list[r].n;
        out->deps += l->list[r].deps;
    }
    out->ops = out->op_start[out->ranks];
out:
    return st;
}

static enum status copy_ops(struct lowering *l, struct program *out)
{
    size_t deps = 0;
    out->op = calloc(out->ops + 1, sizeof *out->op);
    out->dep = calloc(out->deps + 1, sizeof *out->dep);
    if (!out->op || !out->dep)
        return error_set(STATUS_NOMEM, "program of %zu ops", out->ops);
    for (size_t r = 0; r < out->ranks; r++) {
        struct list *list = &l->list[r];
        size_t base = out->op_start[r];
        for (size_t i = 0; i < list->n; i++) {
            out->op[base + i] = list->op[i];
            out->op[base + i].dep_start += (uint32_t)deps;
        }
        for (size_t d = 0; d < list->deps; d++)
            out->dep[deps++] = (uint32_t)base + list->dep[d];
        free(list->op);
        free(list->dep);
        list->op = NULL;
        list->dep = NULL;
    }
    out->op[out->ops].dep_start = (uint32_t)deps;
    return STATUS_OK;
}

static enum status flatten(struct lowering *l, const struct stage_cost *cost, struct grouping *g,
                           struct program *out)
{
    enum status st;
    TRY(copy_stages(l, out));
    TRY(copy_ranks(l, cost, out));
    TRY(copy_ops(l, out));
    out->groups = g->groups;
    out->group_start = g->start;
    out->member = g->member;
    g->start = NULL;
    g->member = NULL;
    out->microbatches = l->plan->microbatches;
    out->microbatch_size = l->plan->microbatch_size;
    out->tokens_per_sample = l->model->tokens_per_sample;
    out->seed = l->plan->seed;
    TRY(text_copy(l->plan->optimizer, &out->optimizer));
    TRY(program_match(out));
    TRY(program_check(out, NULL));
out:
    return st;
}

enum status plan_lower(const struct plan *p, const struct model *m, const struct topology *t,
                       struct program *out)
{
    enum status st;
    struct lowering l = {.plan = p, .model = m, .topology = t};
    struct grouping g = {0};
    struct stage_cost *cost = NULL;
    struct program program = {0};

    TRY(plan_check(p, m, t));
    for (size_t s = 0; s < p->stages; s++)
        if (p->stage[s].tensor_parallel != 1 || p->stage[s].recompute)
            return error_set(STATUS_UNSUPPORTED, "stage %zu: %s is not simulated yet", s,
                             p->stage[s].recompute ? "recomputation" : "tensor parallelism");
    TRY(lowering_prepare(&l));
    cost = calloc(lowering_ranks(&l), sizeof *cost);
    if (!cost) {
        st = error_set(STATUS_NOMEM, "%zu ranks", (size_t)lowering_ranks(&l));
        goto out;
    }
    for (uint32_t r = 0; r < lowering_ranks(&l); r++) {
        uint32_t stage = lowering_stage_of(&l, r);
        cost[r] = lowering_cost(&l, stage, p->stage[stage].device[r - l.first_rank[stage]]);
    }
    TRY(lowering_replay(&l, cost));
    TRY(lowering_finish(&l, cost, &g));
    TRY(flatten(&l, cost, &g, &program));
    *out = program;
    program = (struct program){0};
out:
    program_free(&program);
    grouping_free(&g);
    free(cost);
    lowering_free(&l);
    return st;
}
