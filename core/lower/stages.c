/* Stages, what crosses between them, and who the ranks are. */
#include "core/lower/lowering.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"

enum status crossing_ops(const struct model *m, const uint32_t *stage_of, uint32_t from,
                         uint32_t to, uint32_t **op, size_t *n)
{
    uint32_t *found;
    size_t count = 0;
    PASS(ARRAY_NEW(found, m->n));
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

/* One entry per (op, other stage that reads it), merged per pair of stages. */
static enum status find_edges(struct lowering *l)
{
    const struct model *m = l->model;
    enum status st;
    size_t n = 0;
    uint32_t *seen; /* [stages] op + 1 that was counted for a stage last */
    TRY(ARRAY_NEW(seen, l->plan->stages));
    TRY(ARRAY_NEW(l->shape.edge, m->edges));
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
            uint32_t to = l->shape.stage_of[m->out[k]];
            if (to == l->shape.stage_of[i] || seen[to] == i + 1)
                continue;
            seen[to] = i + 1;
            l->shape.edge[n++] = (struct lowering_edge){
                l->shape.stage_of[i], to, m->op[i].output_bytes * l->plan->microbatch_size};
        }
    qsort(l->shape.edge, n, sizeof *l->shape.edge, order_by_pair);
    for (size_t k = 0; k < n; k++) {
        struct lowering_edge *last = l->shape.edges > 0 ? &l->shape.edge[l->shape.edges - 1] : NULL;
        if (last && order_by_pair(last, &l->shape.edge[k]) == 0)
            last->bytes += l->shape.edge[k].bytes;
        else
            l->shape.edge[l->shape.edges++] = l->shape.edge[k];
    }
out:
    free(seen);
    return st;
}

/* Edges by source (they are sorted) and by destination, CSR. The counts of in_start[] are one place
 * late, so that filling in[] moves every start to where it belongs. */
static enum status index_edges(struct lowering *l)
{
    size_t stages = l->plan->stages;
    PASS(ARRAY_NEW(l->shape.in_start, stages + 2));
    PASS(ARRAY_NEW(l->shape.out_start, stages + 2));
    PASS(ARRAY_NEW(l->shape.in, l->shape.edges));
    for (size_t e = 0; e < l->shape.edges; e++) {
        l->shape.in_start[l->shape.edge[e].to + 2]++;
        l->shape.out_start[l->shape.edge[e].from + 1]++;
    }
    for (size_t s = 0; s < stages; s++) {
        l->shape.in_start[s + 2] += l->shape.in_start[s + 1];
        l->shape.out_start[s + 1] += l->shape.out_start[s];
    }
    for (uint32_t e = 0; e < l->shape.edges; e++)
        l->shape.in[l->shape.in_start[l->shape.edge[e].to + 1]++] = e;
    return STATUS_OK;
}

/* Folded: replicas class by class; all are one unless it is said otherwise. */
static enum status list_classes(struct lowering *l)
{
    struct lowering_shape *s = &l->shape;
    uint32_t replicas = l->fold ? l->plan->stage[0].replicas : 0, k = 0;
    s->classes = l->as ? l->as->n : 1;
    PASS(ARRAY_NEW(s->class_of, replicas));
    PASS(ARRAY_NEW(s->class_start, s->classes + 1));
    PASS(ARRAY_NEW(s->by_class, replicas));
    for (uint32_t r = 0; r < replicas && l->as; r++)
        s->class_of[r] = l->as->of[r];
    for (uint32_t c = 0; c < s->classes; c++) {
        for (uint32_t r = 0; r < replicas; r++)
            if (s->class_of[r] == c)
                s->by_class[k++] = r;
        s->class_start[c + 1] = k;
    }
    return STATUS_OK;
}

/* Teams, and where their replicas and ranks begin. */
static enum status number_ranks(struct lowering *l)
{
    const struct plan *p = l->plan;
    uint64_t ranks = 0, all = 0;
    PASS(ARRAY_NEW(l->shape.team_of, p->stages));
    PASS(ARRAY_NEW(l->shape.first_rank, p->stages + 1));
    PASS(ARRAY_NEW(l->shape.first_replica, p->stages + 1));
    PASS(ARRAY_NEW(l->replay.reducing, p->stages));
    l->shape.teams = plan_teams(p, l->shape.team_of);
    l->shape.chunks = (uint32_t)(p->stages / l->shape.teams);
    for (uint32_t team = 0; team < l->shape.teams; team++) {
        uint32_t shards = lowering_shards(l, team), replicas = lowering_replicas(l, team);
        l->shape.most_shards = shards > l->shape.most_shards ? shards : l->shape.most_shards;
        all += replicas;
        ranks += (uint64_t)replicas * shards;
        if (ranks >= PROGRAM_NONE)
            return error_set(STATUS_INVALID,
                             "the plan has %llu ranks or more, expected at most %u; use fewer "
                             "stages, replicas or shards",
                             (unsigned long long)ranks, PROGRAM_NONE - 1);
        l->shape.first_replica[team + 1] = (uint32_t)all;
        l->shape.first_rank[team + 1] = (uint32_t)ranks;
    }
    l->shape.replicas = (uint32_t)all;
    l->shape.context = p->stage[0].context_parallel; /* of all of them: plan_check_context() */
    l->shape.parts = l->shape.most_shards * l->shape.context;
    return STATUS_OK;
}

static enum status list_replicas(struct lowering *l)
{
    PASS(ARRAY_NEW(l->replay.replica, l->shape.replicas));
    for (uint32_t team = 0, c = 0; team < l->shape.teams; team++)
        for (uint32_t replica = 0; replica < lowering_replicas(l, team); replica++, c++)
            l->replay.replica[c] = (struct lowering_replica){
                .team = team,
                .number = l->fold ? l->shape.by_class[l->shape.class_start[replica]] : replica,
                .rank = l->shape.first_rank[team] + replica * lowering_shards(l, team),
                .shards = lowering_shards(l, team),
            };
    return STATUS_OK;
}

/* Positions are 32-bit numbers, so there is a limit. */
enum status lowering_allocate(struct lowering *l)
{
    size_t slots = (size_t)l->plan->microbatches * l->shape.parts;
    double most = (double)(l->shape.edges > l->plan->stages ? l->shape.edges : l->plan->stages);
    if (most * (double)slots * 2 >= PROGRAM_NONE)
        return error_set(STATUS_INVALID,
                         "too many messages (%zu connections between stages x %u microbatches x %u "
                         "shards), expected fewer than 2^31; use fewer --microbatches",
                         l->shape.edges, l->plan->microbatches, l->shape.most_shards);
    PASS(ARRAY_NEW(l->replay.list, lowering_ranks(l)));
    PASS(ARRAY_NEW(l->replay.queue, l->shape.replicas));
    PASS(ARRAY_NEW(l->replay.arrived, l->shape.edges * slots));
    PASS(ARRAY_NEW(l->replay.returned, l->shape.edges * slots));
    PASS(ARRAY_NEW(l->replay.forward, l->plan->stages * slots));
    bool offloads = l->plan->offload & OFFLOAD_ACTIVATIONS;
    PASS(ARRAY_NEW(l->replay.host, offloads ? l->plan->stages * slots : 0));
    PASS(ARRAY_NEW(l->replay.half, l->schedule->split ? l->plan->stages * slots : 0));
    PASS(ARRAY_NEW(l->replay.gathered, (size_t)lowering_ranks(l) * l->shape.chunks));
    PASS(ARRAY_NEW(l->replay.spread, (size_t)lowering_ranks(l) * l->shape.chunks));
    return STATUS_OK;
}

/* Which stage each op is in, and what backwards make again. */
static enum status lowering_find_stages(struct lowering *l)
{
    enum status st = STATUS_OK;
    size_t n = l->model->n;
    uint32_t *unit = NULL;
    bool *kept = NULL;
    TRY(ARRAY_NEW(unit, n));
    TRY(ARRAY_NEW(kept, n));
    TRY(ARRAY_NEW(l->shape.stage_of, n));
    TRY(ARRAY_NEW(l->shape.unit, n));
    TRY(ARRAY_NEW(l->shape.kept, n));
    for (uint32_t s = 0; s < l->plan->stages; s++) {
        const struct plan_stage *stage = &l->plan->stage[s];
        plan_units(stage, l->model, unit, kept);
        for (size_t k = 0; k < stage->ops; k++) {
            l->shape.stage_of[stage->op[k]] = s;
            l->shape.unit[stage->op[k]] = unit[k];
            l->shape.kept[stage->op[k]] = kept[k];
        }
    }
out:
    free(unit);
    free(kept);
    return st;
}

/* Step 1 of lowering (lowering.h). */
enum status lowering_prepare(struct lowering *l)
{
    const struct plan *p = l->plan;

    PASS(schedule_find(p->schedule, &l->schedule));
    PASS(lowering_find_stages(l));
    PASS(find_edges(l));
    PASS(index_edges(l));
    PASS(list_classes(l));
    PASS(number_ranks(l));
    PASS(lowering_costs_open(l));
    return list_replicas(l);
}

/* Collectives over replicas in the middle of the iteration need the replicas in step: equally many
 * microbatches, in the same order. */
enum status lowering_check(const struct lowering *l)
{
    const struct plan *p = l->plan;
    const char *what = l->shape.chunks > 1 ? "several stages on a device"
                       : p->zero >= 2      ? "ZeRO 2 or 3"
                       : l->fold           ? "simulating one rank for several equal ones"
                                           : NULL;
    for (size_t s = 0; s < p->stages; s++)
        if (p->stage[s].expert_parallel > 1)
            what = "expert parallelism";
    if (l->shape.context > 1)
        what = "context parallelism";
    if (what && !lowering_is_even(l))
        return error_set(STATUS_UNSUPPORTED,
                         "%s needs the same number of replicas in every stage, and the %u "
                         "microbatches must be a multiple of it",
                         what, p->microbatches);
    for (uint32_t s = 0; s < p->stages; s++)
        if (p->stage[s].expert_parallel > 1 && lowering_is_hybrid(l, s))
            return error_set(STATUS_UNSUPPORTED,
                             "stage %u: expert parallelism %u with ZeRO groups of %u is "
                             "unsupported; drop --zero-group",
                             s, p->stage[s].expert_parallel, lowering_members(l, s));
    return STATUS_OK;
}

uint32_t lowering_device(const struct lowering *l, uint32_t team, uint32_t replica, uint32_t shard)
{
    const struct plan_stage *s = lowering_team(l, team);
    return s->device[(size_t)replica * s->tensor_parallel + shard];
}

uint32_t lowering_team_of_rank(const struct lowering *l, uint32_t rank)
{
    uint32_t low = 0, high = l->shape.teams;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (l->shape.first_rank[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void lowering_free(struct lowering *l)
{
    for (size_t r = 0; l->replay.list && r < lowering_ranks(l); r++) {
        free(l->replay.list[r].op);
        free(l->replay.list[r].dep);
    }
    for (size_t c = 0; l->replay.replica && c < l->shape.replicas; c++)
        free(l->replay.replica[c].schedule);
    lowering_costs_close(l);
    grouping_free(&l->groups.all);
    free(l->replay.list);
    free(l->replay.replica);
    free(l->replay.queue);
    free(l->replay.arrived);
    free(l->replay.returned);
    free(l->replay.forward);
    free(l->replay.half);
    free(l->replay.host);
    free(l->replay.gathered);
    free(l->replay.spread);
    free(l->shape.edge);
    free(l->shape.in_start);
    free(l->shape.out_start);
    free(l->shape.in);
    free(l->shape.team_of);
    free(l->shape.first_rank);
    free(l->shape.first_replica);
    free(l->shape.class_of);
    free(l->shape.class_start);
    free(l->shape.by_class);
    free(l->replay.reducing);
    free(l->shape.stage_of);
    free(l->shape.unit);
    free(l->shape.kept);
    free(l->groups.data);
    free(l->groups.experts);
    free(l->groups.same);
    free(l->groups.context);
    free(l->groups.near);
    free(l->groups.far);
    free(l->groups.tensor);
    free(l->groups.host[0]);
    free(l->groups.host[1]);
    free(l->groups.tie);
}
