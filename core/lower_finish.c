/* The end of the iteration: gradients are summed over replicas and between the copies of tied
 * weights, then every rank updates. */
#include "core/lowering.h"

#include <stdlib.h>
#include <string.h>

static void close_group(struct grouping *g, uint32_t tag, int64_t bytes)
{
    g->tag[g->groups] = tag;
    g->bytes[g->groups++] = bytes;
    g->start[g->groups] = g->members;
}

static int64_t stage_parameter_bytes(const struct lowering *l, uint32_t stage)
{
    int64_t bytes = 0;
    const struct plan_stage *s = &l->plan->stage[stage];
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &l->model->op[s->op[k]];
        bool copy = o->shares != MODEL_NO_OP && l->stage_of[o->shares] != stage;
        bytes += o->parameter_bytes + (copy ? o->shared_bytes : 0);
    }
    return bytes;
}

/* Stages other than the owner's in which an op borrows parameters of `owner`; tied[] marks them. */
static size_t tied_stages(const struct lowering *l, uint32_t owner, bool *tied, int64_t *bytes)
{
    size_t n = 0;
    memset(tied, 0, l->plan->stages * sizeof *tied);
    for (size_t i = owner + 1; i < l->model->n; i++) {
        const struct model_op *o = &l->model->op[i];
        if (o->shares != owner || l->stage_of[i] == l->stage_of[owner] || tied[l->stage_of[i]])
            continue;
        tied[l->stage_of[i]] = true;
        *bytes = o->shared_bytes > *bytes ? o->shared_bytes : *bytes;
        n++;
    }
    return n;
}

static enum status tie_groups(const struct lowering *l, struct grouping *g, bool *tied)
{
    const struct plan *p = l->plan;
    for (uint32_t owner = 0; owner < l->model->n; owner++) {
        int64_t bytes = 0;
        uint32_t home = l->stage_of[owner];
        if (l->model->op[owner].parameter_bytes == 0 || !tied_stages(l, owner, tied, &bytes))
            continue;
        tied[home] = true;
        for (uint32_t s = 0; s < p->stages; s++)
            if (tied[s] && p->stage[s].replicas != p->stage[home].replicas)
                return error_set(STATUS_UNSUPPORTED,
                                 "op '%s' shares its parameters between stages %u and %u, which "
                                 "need equally many replicas",
                                 l->model->op[owner].name, home, s);
        for (uint32_t replica = 0; replica < p->stage[home].replicas; replica++) {
            for (uint32_t s = 0; s < p->stages; s++)
                if (tied[s])
                    g->member[g->members++] = l->first_rank[s] + replica;
            close_group(g, owner, bytes);
        }
    }
    return STATUS_OK;
}

/* How many groups and members there can be at most: replicas, and tied weights. */
static enum status make_groups(const struct lowering *l, struct grouping *g)
{
    enum status st = STATUS_OK;
    size_t ranks = lowering_ranks(l), owners = 0;
    bool *tied = calloc(l->plan->stages, sizeof *tied);
    for (uint32_t i = 0; i < l->model->n; i++)
        owners += l->model->op[i].shares != MODEL_NO_OP; /* at most so many distinct owners */
    g->start = calloc(l->plan->stages + owners * ranks + 2, sizeof *g->start);
    g->tag = calloc(l->plan->stages + owners * ranks + 1, sizeof *g->tag);
    g->bytes = calloc(l->plan->stages + owners * ranks + 1, sizeof *g->bytes);
    g->member = calloc((owners + 1) * ranks + 1, sizeof *g->member);
    if (!tied || !g->start || !g->tag || !g->bytes || !g->member) {
        st = error_set(STATUS_NOMEM, "groups of %zu ranks", ranks);
        goto out;
    }
    for (uint32_t s = 0; s < l->plan->stages; s++) {
        int64_t bytes = stage_parameter_bytes(l, s);
        if (l->plan->stage[s].replicas < 2 || bytes == 0)
            continue;
        for (uint32_t r = l->first_rank[s]; r < l->first_rank[s + 1]; r++)
            g->member[g->members++] = r;
        close_group(g, PROGRAM_NONE, bytes);
    }
    if (owners > 0)
        TRY(tie_groups(l, g, tied));
out:
    free(tied);
    return st;
}

static enum status finish_ranks(struct lowering *l, const struct grouping *g,
                                const struct stage_cost *cost)
{
    enum status st = STATUS_OK;
    /* Group by group, so that every rank meets its groups in the same global order. The first
     * collective of a rank waits for its last backward, a later one for the one before. */
    for (size_t k = 0; k < g->groups; k++)
        for (size_t i = g->start[k]; i < g->start[k + 1]; i++) {
            struct list *list = &l->list[g->member[i]];
            uint32_t position = (uint32_t)list->n - 1;
            while (list->op[position].kind != OP_BACKWARD && list->op[position].kind < OP_ALLREDUCE)
                position--; /* skip the last SENDs */
            struct program_op op = {.kind = OP_ALLREDUCE,
                                    .stage = lowering_stage_of(l, g->member[i]),
                                    .microbatch = PROGRAM_NONE,
                                    .peer = (uint32_t)k,
                                    .peer_stage = PROGRAM_NONE,
                                    .tag = g->tag[k],
                                    .bytes = g->bytes[k]};
            TRY(list_append(list, &op, NULL));
            TRY(list_depend(list, position));
        }
    for (uint32_t rank = 0; rank < lowering_ranks(l); rank++) {
        struct list *list = &l->list[rank];
        uint32_t last = (uint32_t)list->n - 1;
        struct program_op op = {.kind = OP_UPDATE,
                                .stage = lowering_stage_of(l, rank),
                                .microbatch = PROGRAM_NONE,
                                .peer = PROGRAM_NONE,
                                .peer_stage = PROGRAM_NONE,
                                .tag = PROGRAM_NONE,
                                .seconds = cost[rank].update_s};
        TRY(list_append(list, &op, NULL));
        if (list->op[last].kind >= OP_ALLREDUCE)
            TRY(list_depend(list, last));
    }
out:
    return st;
}

enum status lowering_finish(struct lowering *l, const struct stage_cost *cost, struct grouping *g)
{
    enum status st = make_groups(l, g);
    return st == STATUS_OK ? finish_ranks(l, g, cost) : st;
}

void grouping_free(struct grouping *g)
{
    free(g->start);
    free(g->member);
    free(g->tag);
    free(g->bytes);
    *g = (struct grouping){0};
}
