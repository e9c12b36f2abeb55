/* Groups of ranks that take part in collectives together, team by team and then tie by tie:
 *   data      all replicas of one shard
 *   tensor    the shards of one replica
 *   experts   neighbouring replicas over which the experts are spread
 *   context   neighbouring replicas that share their sequences
 *   same      replicas with the same part of the experts
 *   near, far hybrid sharding: replicas among which parts are spread; replicas with the same parts
 *   host      every rank, with its host's memory
 *   norm      all ranks, where gradients are clipped
 *   ties      the teams that hold a copy of one weight, for every replica and shard
 * A folded program has one rank of each class of a team in each group, but all of its devices. The
 * groups of a kind are gone through as if the program were whole, class by class: the first one has
 * ranks, and those that follow without any are its copies. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/lower/lowering.h"
#include "core/strategy/optimizer.h"

/* Add one device to the group that is being collected, and its rank if it has one. */
static enum status grouping_add(struct lowering *l, uint32_t team, uint32_t replica, uint32_t shard)
{
    struct lowering_grouping *g = &l->groups.all;
    PASS(ARRAY_ROOM(g->device, g->devices));
    g->device[g->devices++] = lowering_device(l, team, replica, shard);
    if (!lowering_has_rank(l, replica, shard))
        return STATUS_OK;
    PASS(ARRAY_ROOM(g->member, g->members));
    g->member[g->members++] = l->shape.first_rank[team] +
                              lowering_place_of(l, replica) * lowering_shards(l, team) + shard;
    return STATUS_OK;
}

/* Folded: the devices from `first` on, of one replica or several, are a copy of the newest
 * group. */
static enum status add_copy(struct lowering_grouping *g, uint32_t replica, size_t first)
{
    PASS(ARRAY_ROOM(g->copy_replica, g->copies));
    g->copy_replica[g->copies++] = replica;
    for (size_t k = first; k < g->devices; k++) {
        PASS(ARRAY_ROOM(g->copy, g->copied));
        g->copy[g->copied++] = g->device[k];
    }
    g->copy_start[g->n] = g->copied;
    return STATUS_OK;
}

/* End the group, of one replica or (PROGRAM_NONE) of several; *id is PROGRAM_NONE when nobody would
 * communicate in it, or it is a copy. */
static enum status close_group_of(struct lowering *l, size_t least, uint32_t replica, uint32_t *id)
{
    struct lowering_grouping *g = &l->groups.all;
    size_t first = g->n ? g->device_start[g->n] : 0, member = g->n ? g->start[g->n] : 0;
    bool alone = g->devices - first < least;
    *id = PROGRAM_NONE;
    if (alone || g->members == member) {
        enum status st = alone ? STATUS_OK : add_copy(g, replica, first);
        g->devices = first;
        g->members = member;
        return st;
    }
    if (g->n == 0) {
        PASS(ARRAY_ROOM(g->start, 0)); /* number 0 is 0 */
        PASS(ARRAY_ROOM(g->device_start, 0));
        PASS(ARRAY_ROOM(g->copy_start, 0));
    }
    PASS(ARRAY_ROOM(g->start, g->n + 1));
    PASS(ARRAY_ROOM(g->device_start, g->n + 1));
    PASS(ARRAY_ROOM(g->copy_start, g->n + 1));
    *id = (uint32_t)g->n++;
    g->start[g->n] = g->members;
    g->device_start[g->n] = g->devices;
    return l->fold ? add_copy(g, replica, first) : STATUS_OK;
}

static enum status close_group(struct lowering *l, uint32_t replica, uint32_t *id)
{
    return close_group_of(l, 2, replica, id);
}

static enum status replica_groups(struct lowering *l, uint32_t team)
{
    const struct plan_stage *s = lowering_team(l, team);
    uint32_t id;
    for (uint32_t shard = 0; shard < s->tensor_parallel; shard++) {
        for (uint32_t k = 0; k < s->replicas; k++)
            PASS(grouping_add(l, team, k, shard));
        PASS(close_group(l, PROGRAM_NONE, &id));
        if (shard < lowering_shards(l, team))
            l->groups.data[team * l->shape.most_shards + shard] = id;
    }
    return STATUS_OK;
}

static enum status tensor_groups(struct lowering *l, uint32_t team)
{
    const struct plan_stage *s = lowering_team(l, team);
    uint32_t id;
    for (uint32_t i = 0; i < s->replicas; i++) {
        uint32_t replica = lowering_replica_at(l, i);
        for (uint32_t k = 0; k < s->tensor_parallel; k++)
            PASS(grouping_add(l, team, replica, k));
        PASS(close_group(l, replica, &id));
        if (lowering_has_rank(l, replica, 0))
            l->groups.tensor[l->shape.first_replica[team] + lowering_place_of(l, replica)] = id;
    }
    return STATUS_OK;
}

static uint32_t most_experts(const struct lowering *l, uint32_t team)
{
    uint32_t most = 1;
    for (uint32_t k = 0; k < l->shape.chunks; k++) {
        uint32_t degree = l->plan->stage[lowering_stage(l, team, k)].expert_parallel;
        most = degree > most ? degree : most;
    }
    return most;
}

/* Replicas first, first + step, ... below end. */
struct every {
    uint32_t first, end, step;
};

/* The group of these replicas of one shard; its number goes to ids[rank] of those with ranks. */
static enum status add_every(struct lowering *l, uint32_t team, uint32_t shard,
                             struct every replicas, uint32_t *ids)
{
    uint32_t id, shards = lowering_shards(l, team);
    for (uint32_t k = replicas.first; k < replicas.end; k += replicas.step)
        PASS(grouping_add(l, team, k, shard));
    PASS(close_group(l, PROGRAM_NONE, &id));
    for (uint32_t k = replicas.first;
         k < replicas.end && k < lowering_replicas(l, team) && shard < shards; k += replicas.step)
        ids[l->shape.first_rank[team] + k * shards + shard] = id;
    return STATUS_OK;
}

/* Neighbouring replicas that spread experts; then those that have the same part of them. */
static enum status expert_groups(struct lowering *l, uint32_t team)
{
    uint32_t degree = most_experts(l, team), shards = lowering_team(l, team)->tensor_parallel;
    uint32_t replicas = lowering_team(l, team)->replicas;
    if (degree == 1)
        return STATUS_OK;
    for (uint32_t shard = 0; shard < shards; shard++)
        for (uint32_t k = 0; k < replicas; k += degree)
            PASS(add_every(l, team, shard, (struct every){k, k + degree, 1}, l->groups.experts));
    for (uint32_t shard = 0; shard < shards; shard++)
        for (uint32_t part = 0; part < degree; part++)
            PASS(add_every(l, team, shard, (struct every){part, replicas, degree}, l->groups.same));
    return STATUS_OK;
}

static enum status context_groups(struct lowering *l, uint32_t team)
{
    uint32_t degree = l->shape.context, replicas = lowering_team(l, team)->replicas;
    for (uint32_t shard = 0; degree > 1 && shard < lowering_team(l, team)->tensor_parallel; shard++)
        for (uint32_t k = 0; k < replicas; k += degree)
            PASS(add_every(l, team, shard, (struct every){k, k + degree, 1}, l->groups.context));
    return STATUS_OK;
}

/* Hybrid sharding: neighbouring replicas that have the parts of a bucket; then those with the same
 * ones. */
static enum status hybrid_groups(struct lowering *l, uint32_t team)
{
    uint32_t shards = lowering_team(l, team)->tensor_parallel;
    uint32_t replicas = lowering_team(l, team)->replicas, size = lowering_members(l, team);
    if (!lowering_is_hybrid(l, team))
        return STATUS_OK;
    for (uint32_t shard = 0; shard < shards; shard++)
        for (uint32_t k = 0; k < replicas; k += size)
            PASS(add_every(l, team, shard, (struct every){k, k + size, 1}, l->groups.near));
    for (uint32_t shard = 0; shard < shards; shard++)
        for (uint32_t part = 0; part < size; part++)
            PASS(add_every(l, team, shard, (struct every){part, replicas, size}, l->groups.far));
    return STATUS_OK;
}

/* Every rank for itself, once for each way. */
static enum status host_groups(struct lowering *l, uint32_t team, int way)
{
    const struct plan_stage *s = lowering_team(l, team);
    uint32_t id, shards = lowering_shards(l, team);
    for (uint32_t i = 0; i < s->replicas; i++)
        for (uint32_t k = 0; k < s->tensor_parallel; k++) {
            uint32_t replica = lowering_replica_at(l, i);
            PASS(grouping_add(l, team, replica, k));
            PASS(close_group_of(l, 1, replica, &id));
            if (id != PROGRAM_NONE)
                l->groups.host[way][l->shape.first_rank[team] +
                                    lowering_place_of(l, replica) * shards + k] = id;
        }
    return STATUS_OK;
}

/* Teams other than the owner's in which an op borrows parameters of `owner`; tied[] marks them. */
static size_t tied_teams(const struct lowering *l, uint32_t owner, bool *tied, int64_t *bytes)
{
    size_t n = 0;
    uint32_t home = l->shape.team_of[l->shape.stage_of[owner]];
    memset(tied, 0, l->shape.teams * sizeof *tied);
    for (size_t i = owner + 1; i < l->model->n; i++) {
        const struct model_op *o = &l->model->op[i];
        uint32_t team = l->shape.team_of[l->shape.stage_of[i]];
        if (o->shares != owner || team == home || tied[team])
            continue;
        tied[team] = true;
        *bytes = o->shared_bytes > *bytes ? o->shared_bytes : *bytes;
        n++;
    }
    return n;
}

static enum status tie_owner(struct lowering *l, uint32_t owner, const bool *tied, int64_t bytes)
{
    uint32_t home = l->shape.team_of[l->shape.stage_of[owner]];
    const struct plan_stage *a = lowering_team(l, home);
    for (uint32_t t = 0; t < l->shape.teams; t++) {
        const struct plan_stage *b = lowering_team(l, t);
        if (tied[t] && (a->replicas != b->replicas || a->tensor_parallel != b->tensor_parallel))
            return error_set(STATUS_UNSUPPORTED,
                             "op '%s' shares its parameters between stages %u and %u, which must "
                             "have equal numbers of replicas and shards",
                             l->model->op[owner].name, home, t);
    }
    for (uint32_t k = 0; k < a->replicas * a->tensor_parallel; k++) {
        struct lowering_tie tie = {.owner = owner, .bytes = bytes / a->tensor_parallel};
        uint32_t replica = lowering_replica_at(l, k / a->tensor_parallel);
        for (uint32_t t = 0; t < l->shape.teams; t++)
            if (tied[t])
                PASS(grouping_add(l, t, replica, k % a->tensor_parallel));
        PASS(close_group(l, replica, &tie.group));
        if (tie.group == PROGRAM_NONE)
            continue;
        PASS(ARRAY_ROOM(l->groups.tie, l->groups.ties));
        l->groups.tie[l->groups.ties++] = tie;
    }
    return STATUS_OK;
}

static enum status tie_groups(struct lowering *l)
{
    enum status st = STATUS_OK;
    size_t owners = 0;
    bool *tied;
    TRY(ARRAY_NEW(tied, l->shape.teams));
    for (uint32_t i = 0; i < l->model->n; i++)
        owners += l->model->op[i].shares != MODEL_NO_OP;
    for (uint32_t owner = 0; owners > 0 && owner < l->model->n; owner++) {
        int64_t bytes = 0;
        if (l->model->op[owner].parameter_bytes == 0 || !tied_teams(l, owner, tied, &bytes))
            continue;
        tied[l->shape.team_of[l->shape.stage_of[owner]]] = true;
        TRY(tie_owner(l, owner, tied, bytes));
    }
out:
    free(tied);
    return st;
}

/* One norm of all gradients: where each rank has all of them it needs nobody. Without flush there
 * are no gradients of one time. */
static bool needs_norm(const struct lowering *l)
{
    const struct plan *p = l->plan;
    struct optimizer o;
    if (!p->optimizer || !optimizer_is_tuned(p->optimizer) || l->schedule->asynchronous ||
        optimizer_of(p->optimizer, &o) != STATUS_OK || o.clip <= 0)
        return false;
    bool divided = p->stages > 1 || p->zero > 0;
    for (size_t s = 0; s < p->stages; s++)
        divided = divided || p->stage[s].tensor_parallel > 1 || p->stage[s].expert_parallel > 1;
    return divided;
}

static enum status norm_group(struct lowering *l)
{
    l->groups.norm = PROGRAM_NONE;
    if (!needs_norm(l))
        return STATUS_OK;
    for (uint32_t t = 0; t < l->shape.teams; t++) {
        const struct plan_stage *team = lowering_team(l, t);
        for (uint32_t k = 0; k < team->replicas; k++)
            for (uint32_t shard = 0; shard < team->tensor_parallel; shard++)
                PASS(grouping_add(l, t, lowering_replica_at(l, k), shard));
    }
    return close_group(l, PROGRAM_NONE, &l->groups.norm);
}

/* Nobody is in a group yet. */
static enum status new_ids(uint32_t **id, size_t n)
{
    enum status st = ARRAY_NEW(*id, n);
    for (size_t i = 0; st == STATUS_OK && i < n; i++)
        (*id)[i] = PROGRAM_NONE;
    return st;
}

enum status lowering_group(struct lowering *l)
{
    PASS(new_ids(&l->groups.data, (size_t)l->shape.teams * l->shape.most_shards));
    PASS(new_ids(&l->groups.experts, lowering_ranks(l)));
    PASS(new_ids(&l->groups.same, lowering_ranks(l)));
    PASS(new_ids(&l->groups.context, lowering_ranks(l)));
    PASS(new_ids(&l->groups.near, lowering_ranks(l)));
    PASS(new_ids(&l->groups.far, lowering_ranks(l)));
    PASS(new_ids(&l->groups.tensor, l->shape.replicas));
    PASS(new_ids(&l->groups.host[0], lowering_ranks(l)));
    PASS(new_ids(&l->groups.host[1], lowering_ranks(l)));
    for (uint32_t team = 0; team < l->shape.teams; team++) {
        PASS(replica_groups(l, team));
        PASS(tensor_groups(l, team));
        PASS(expert_groups(l, team));
        PASS(context_groups(l, team));
        PASS(hybrid_groups(l, team));
        for (int way = 0; way < 2 && l->plan->offload != OFFLOAD_NONE; way++)
            PASS(host_groups(l, team, way));
    }
    PASS(norm_group(l));
    return tie_groups(l);
}

void grouping_free(struct lowering_grouping *g)
{
    free(g->start);
    free(g->device_start);
    free(g->member);
    free(g->device);
    free(g->copy_start);
    free(g->copy);
    free(g->copy_replica);
    *g = (struct lowering_grouping){0};
}
