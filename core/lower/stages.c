/* Stages, what crosses between them, and who the ranks are. */
#include "core/lower/lowering.h"

#include <stdlib.h>
#include <string.h>

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

/* Teams, and where their cells and ranks begin. */
static enum status number_ranks(struct lowering *l)
{
    const struct plan *p = l->plan;
    uint64_t ranks = 0, cells = 0;
    l->team_of = calloc(p->stages + 1, sizeof *l->team_of);
    l->first_rank = calloc(p->stages + 1, sizeof *l->first_rank);
    l->first_cell = calloc(p->stages + 1, sizeof *l->first_cell);
    l->summing = calloc(p->stages + 1, sizeof *l->summing);
    if (!l->team_of || !l->first_rank || !l->first_cell || !l->summing)
        return error_set(STATUS_NOMEM, "%zu stages", p->stages);
    l->teams = plan_teams(p, l->team_of);
    l->chunks = (uint32_t)(p->stages / l->teams);
    for (uint32_t team = 0; team < l->teams; team++) {
        uint32_t shards = lowering_shards(l, team), replicas = lowering_replicas(l, team);
        l->most_shards = shards > l->most_shards ? shards : l->most_shards;
        cells += replicas;
        ranks += (uint64_t)replicas * shards;
        if (ranks >= PROGRAM_NONE)
            return error_set(STATUS_INVALID, "too many ranks");
        l->first_cell[team + 1] = (uint32_t)cells;
        l->first_rank[team + 1] = (uint32_t)ranks;
    }
    l->cells = (uint32_t)cells;
    return STATUS_OK;
}

static enum status allocate(struct lowering *l)
{
    size_t ranks = lowering_ranks(l), slots = (size_t)l->plan->microbatches * l->most_shards;
    double most = (double)(l->edges > l->plan->stages ? l->edges : l->plan->stages);
    if (most * (double)slots * 2 >= PROGRAM_NONE)
        return error_set(STATUS_INVALID,
                         "%zu connections between stages x %u microbatches x %u shards: too many",
                         l->edges, l->plan->microbatches, l->most_shards);
    l->list = calloc(ranks, sizeof *l->list);
    l->cell = calloc(l->cells, sizeof *l->cell);
    l->queue = calloc(l->cells, sizeof *l->queue);
    l->cost = calloc(l->plan->stages * l->topology->types, sizeof(struct stage_cost *));
    l->arrived = calloc(l->edges * slots + 1, sizeof *l->arrived);
    l->returned = calloc(l->edges * slots + 1, sizeof *l->returned);
    l->forward = calloc(l->plan->stages * slots + 1, sizeof *l->forward);
    l->half = calloc(l->schedule->split ? l->plan->stages * slots + 1 : 1, sizeof *l->half);
    if (!l->list || !l->cell || !l->queue || !l->cost || !l->arrived || !l->returned ||
        !l->forward || !l->half)
        return error_set(STATUS_NOMEM, "%zu ranks", ranks);
    for (uint32_t team = 0, c = 0; team < l->teams; team++)
        for (uint32_t replica = 0; replica < lowering_replicas(l, team); replica++, c++)
            l->cell[c] = (struct cell){
                .team = team,
                .replica = replica,
                .rank = l->first_rank[team] + replica * lowering_shards(l, team),
                .shards = lowering_shards(l, team),
            };
    return STATUS_OK;
}

enum status lowering_prepare(struct lowering *l)
{
    enum status st = STATUS_OK;
    const struct plan *p = l->plan;

    TRY(schedule_find(p->schedule, &l->schedule));
    l->stage_of = calloc(l->model->n + 1, sizeof *l->stage_of);
    if (!l->stage_of)
        return error_set(STATUS_NOMEM, "%zu ops", l->model->n);
    for (uint32_t s = 0; s < p->stages; s++)
        for (size_t k = 0; k < p->stage[s].ops; k++)
            l->stage_of[p->stage[s].op[k]] = s;
    TRY(find_edges(l));
    TRY(index_edges(l));
    TRY(number_ranks(l));
    TRY(allocate(l));
out:
    return st;
}

uint32_t lowering_device(const struct lowering *l, uint32_t team, uint32_t replica, uint32_t shard)
{
    const struct plan_stage *s = lowering_team(l, team);
    return s->device[(size_t)replica * s->tensor_parallel + shard];
}

uint32_t lowering_team_of_rank(const struct lowering *l, uint32_t rank)
{
    uint32_t low = 0, high = l->teams;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (l->first_rank[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void lowering_free(struct lowering *l)
{
    for (size_t r = 0; l->list && r < lowering_ranks(l); r++) {
        free(l->list[r].op);
        free(l->list[r].dep);
    }
    for (size_t c = 0; l->cell && c < l->cells; c++)
        free(l->cell[c].schedule);
    for (size_t k = 0; l->cost && k < l->plan->stages * l->topology->types; k++)
        lowering_cost_free(l->cost[k]);
    grouping_free(&l->grouping);
    free(l->list);
    free(l->cell);
    free(l->queue);
    free(l->cost);
    free(l->arrived);
    free(l->returned);
    free(l->forward);
    free(l->half);
    free(l->edge);
    free(l->in_start);
    free(l->out_start);
    free(l->in);
    free(l->team_of);
    free(l->first_rank);
    free(l->first_cell);
    free(l->summing);
    free(l->stage_of);
    free(l->data);
    free(l->experts);
    free(l->same);
    free(l->tensor);
    free(l->tie);
}
