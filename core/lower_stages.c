/* Stages, what crosses between them, what they cost. */
#include "core/lowering.h"

#include <stdlib.h>
#include <string.h>

#include "core/cost.h"

enum status crossing_ops(const struct model *m, const uint32_t *stage_of, uint32_t from,
                         uint32_t to, uint32_t **op, size_t *n)
{
    uint32_t *found = calloc(m->n + 1, sizeof *found);
    size_t count = 0;
    if (!found)
        return error_set(STATUS_NOMEM, "%zu ops", m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        if (stage_of[i] != from)
            continue;
        bool needed = false;
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            needed = needed || stage_of[m->out[k]] == to;
        if (needed)
            found[count++] = i;
    }
    if (count == 0) {
        free(found);
        found = NULL;
    }
    *op = found;
    *n = count;
    return STATUS_OK;
}

static int by_stages(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* One entry per (op, other stage that reads it), merged per pair of stages. */
static enum status find_edges(struct lowering *l)
{
    const struct model *m = l->model;
    size_t n = 0, stages = l->plan->stages;
    uint32_t *seen = calloc(stages, sizeof *seen); /* op + 1 that was counted for a stage last */
    l->edge = calloc(m->edges + 1, sizeof *l->edge);
    if (!seen || !l->edge) {
        free(seen);
        return error_set(STATUS_NOMEM, "%zu edges", m->edges);
    }
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
            uint32_t to = l->stage_of[m->out[k]];
            if (to == l->stage_of[i] || seen[to] == i + 1)
                continue;
            seen[to] = i + 1;
            l->edge[n++] =
                (struct edge){l->stage_of[i], to, m->op[i].output_bytes * l->plan->microbatch_size};
        }
    free(seen);
    qsort(l->edge, n, sizeof *l->edge, by_stages);
    for (size_t k = 0; k < n; k++) {
        struct edge *last = l->edges > 0 ? &l->edge[l->edges - 1] : NULL;
        if (last && by_stages(last, &l->edge[k]) == 0)
            last->bytes += l->edge[k].bytes;
        else
            l->edge[l->edges++] = l->edge[k];
    }
    return STATUS_OK;
}

static enum status index_edges(struct lowering *l)
{
    size_t stages = l->plan->stages;
    l->in_start = calloc(stages + 2, sizeof *l->in_start);
    l->out_start = calloc(stages + 2, sizeof *l->out_start);
    l->in = calloc(l->edges + 1, sizeof *l->in);
    if (!l->in_start || !l->out_start || !l->in)
        return error_set(STATUS_NOMEM, "%zu stages", stages);
    for (size_t e = 0; e < l->edges; e++) {
        l->in_start[l->edge[e].to + 2]++;
        l->out_start[l->edge[e].from + 1]++;
    }
    for (size_t s = 0; s < stages; s++) {
        l->in_start[s + 2] += l->in_start[s + 1];
        l->out_start[s + 1] += l->out_start[s];
    }
    for (uint32_t e = 0; e < l->edges; e++)
        l->in[l->in_start[l->edge[e].to + 1]++] = e;
    return STATUS_OK;
}

enum status lowering_prepare(struct lowering *l)
{
    enum status st = STATUS_OK;
    const struct plan *p = l->plan;
    size_t ranks = 0;

    l->stage_of = calloc(l->model->n + 1, sizeof *l->stage_of);
    l->first_rank = calloc(p->stages + 1, sizeof *l->first_rank);
    if (!l->stage_of || !l->first_rank)
        return error_set(STATUS_NOMEM, "%zu ops", l->model->n);
    for (uint32_t s = 0; s < p->stages; s++) {
        for (size_t k = 0; k < p->stage[s].ops; k++)
            l->stage_of[p->stage[s].op[k]] = s;
        l->first_rank[s] = (uint32_t)ranks;
        ranks += p->stage[s].replicas;
    }
    l->first_rank[p->stages] = (uint32_t)ranks;
    TRY(find_edges(l));
    TRY(index_edges(l));
    if ((double)l->edges * p->microbatches * 2 >= PROGRAM_NONE)
        return error_set(STATUS_INVALID,
                         "%zu connections between stages x %u microbatches: too many", l->edges,
                         p->microbatches);
    l->list = calloc(ranks, sizeof *l->list);
    l->queue = calloc(ranks, sizeof *l->queue);
    l->arrived = calloc(l->edges * p->microbatches + 1, sizeof *l->arrived);
    l->returned = calloc(l->edges * p->microbatches + 1, sizeof *l->returned);
    if (!l->list || !l->queue || !l->arrived || !l->returned)
        st = error_set(STATUS_NOMEM, "%zu ranks", ranks);
out:
    return st;
}

size_t lowering_ranks(const struct lowering *l)
{
    return l->first_rank[l->plan->stages];
}

uint32_t lowering_stage_of(const struct lowering *l, uint32_t rank)
{
    uint32_t low = 0, high = (uint32_t)l->plan->stages;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (l->first_rank[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct stage_cost lowering_cost(const struct lowering *l, uint32_t stage, uint32_t device)
{
    struct stage_cost c = {0};
    const struct plan_stage *s = &l->plan->stage[stage];
    const struct device_type *type = topology_type(l->topology, device);
    for (size_t k = 0; k < s->ops; k++) {
        const struct model_op *o = &l->model->op[s->op[k]];
        struct op_cost cost =
            cost_op(l->model, type, s->op[k], l->plan->microbatch_size, l->plan->optimizer);
        bool copy = o->shares != MODEL_NO_OP && l->stage_of[o->shares] != stage;
        c.forward_s += cost.forward_s;
        c.backward_s += cost.backward_s;
        c.update_s += cost.update_s;
        c.stash_bytes += o->stash_bytes * l->plan->microbatch_size;
        c.static_bytes += (o->parameter_bytes + (copy ? o->shared_bytes : 0)) *
                          cost_static_factor(l->plan->optimizer);
    }
    for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
        c.stash_bytes += l->edge[l->in[k]].bytes; /* received inputs stay until the backward */
    return c;
}

void lowering_free(struct lowering *l)
{
    for (size_t r = 0; l->list && r < lowering_ranks(l); r++) {
        free(l->list[r].op);
        free(l->list[r].dep);
        free(l->list[r].schedule);
    }
    free(l->list);
    free(l->queue);
    free(l->arrived);
    free(l->returned);
    free(l->edge);
    free(l->in_start);
    free(l->out_start);
    free(l->in);
    free(l->first_rank);
    free(l->stage_of);
}
