/* A plan becomes a program, in the steps of lowering.h; here the lists of the ranks become one
 * array of ops, positions become indices, and what a stage is divided into is written down. */
#include "core/lower/lowering.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/cost/cost_profile.h"
#include "core/data/program_check.h"

/* Are the sums of a stage's shards in the measured times of all its devices, or of none? */
static enum status lowering_find_inside(const struct lowering *l, uint32_t s, bool *inside)
{
    const struct plan_stage *stage = &l->plan->stage[s];
    const struct device_type *first = topology_type(l->topology, stage->device[0]);
    for (size_t k = 0; k < stage->devices; k++) {
        const struct device_type *type = topology_type(l->topology, stage->device[k]);
        bool has = profile_has_sums(l->model, type, stage->tensor_parallel);
        if (k > 0 && has != *inside)
            return error_set(STATUS_UNSUPPORTED,
                             "stage %u: the profile of device type '%s' includes tensor-parallel "
                             "all-reduces, but that of '%s' does not",
                             s, has ? type->name : first->name, has ? first->name : type->name);
        *inside = has;
        if (l->topology->types == 1 || l->model->profiles == 0)
            break;
    }
    return STATUS_OK;
}

/* Which ops a stage has, and how its ranks divide it. */
static enum status copy_stage(struct lowering *l, uint32_t s, struct program *out)
{
    const struct plan_stage *from = &l->plan->stage[s];
    struct program_stage *to = &out->stage[s];
    size_t first = out->stage_start[s];
    const struct lowering_cost *c;
    PASS(lowering_cost(l, s, from->device[0], &c));
    *to = (struct program_stage){.own = strategy_at_least_usual(&from->own),
                                 .sequence = cost_split_of(l->plan, from).sequence > 1,
                                 .exchange = l->shape.context > 1 ? l->plan->context_exchange
                                                                  : EXCHANGE_RING,
                                 .zero = lowering_zero(l, s),
                                 .keep = lowering_keeps(l, s),
                                 .group = lowering_is_hybrid(l, s) ? lowering_members(l, s) : 0,
                                 .stepped = l->plan->steps > 0,
                                 .bucket = (uint32_t)out->buckets,
                                 .buckets = (uint32_t)c->buckets};
    PASS(lowering_find_inside(l, s, &to->inside));
    for (size_t b = 0; b < c->buckets; b++) {
        PASS(ARRAY_ROOM(out->bucket, out->buckets));
        out->bucket[out->buckets++] = c->bucket[b].gradients;
        to->again += c->bucket[b].gradients.again;
    }
    memcpy(out->stage_op + first, from->op, from->ops * sizeof *out->stage_op);
    out->stage_start[s + 1] = first + from->ops;
    return STATUS_OK;
}

static enum status copy_stages(struct lowering *l, struct program *out)
{
    out->stages = l->plan->stages;
    PASS(ARRAY_NEW(out->stage_start, out->stages + 1));
    PASS(ARRAY_NEW(out->stage_op, l->model->n));
    PASS(ARRAY_NEW(out->stage, out->stages));
    for (uint32_t s = 0; s < out->stages; s++)
        PASS(copy_stage(l, s, out));
    return STATUS_OK;
}

/* Ranks in their order, and where the ops of each begin. */
static enum status copy_ranks(struct lowering *l, struct program *out)
{
    PASS(ARRAY_NEW(out->rank, lowering_ranks(l)));
    PASS(ARRAY_NEW(out->op_start, lowering_ranks(l) + 1));
    out->ranks = lowering_ranks(l);
    for (uint32_t c = 0; c < l->shape.replicas; c++)
        for (uint32_t k = 0; k < l->replay.replica[c].shards; k++) {
            uint32_t r = l->replay.replica[c].rank + k, team = l->replay.replica[c].team;
            uint32_t device = lowering_device(l, team, l->replay.replica[c].number, k);
            out->rank[r].device = device;
            out->rank[r].stage = team;
            out->rank[r].replica = l->replay.replica[c].number;
            out->rank[r].shard = k;
            PASS(lowering_memory(l, team, device, &out->rank[r]));
            PASS(text_copy(l->topology->device[device], &out->rank[r].name));
            out->op_start[r + 1] = out->op_start[r] + l->replay.list[r].n;
            out->deps += l->replay.list[r].deps;
        }
    out->ops = out->op_start[out->ranks];
    return STATUS_OK;
}

/* Positions in a rank's list (dependencies, `match`) become indices in the program; every list is
 * released as soon as it is copied, since all of them together are as large as the program. */
static enum status copy_ops(struct lowering *l, struct program *out)
{
    size_t deps = 0;
    PASS(ARRAY_NEW(out->op, out->ops + 1));
    PASS(ARRAY_NEW(out->dep, out->deps));
    for (size_t r = 0; r < out->ranks; r++) {
        struct lowering_list *list = &l->replay.list[r];
        size_t base = out->op_start[r];
        for (size_t i = 0; i < list->n; i++) {
            struct program_op *o = &out->op[base + i];
            *o = list->op[i];
            out->stage[o->stage].split |= o->kind == OP_BACKWARD_WEIGHT;
            o->dep_start += (uint32_t)deps;
            o->match =
                op_is_message(o) ? (uint32_t)out->op_start[o->peer] + o->match : PROGRAM_NONE;
            o->channel = PROGRAM_NONE;
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

/* FLOP of a sample: the model's own, and what is recomputed. */
static void count_flop(const struct lowering *l, struct program *out)
{
    out->sample_flop = model_sample_flop(l->model);
    for (size_t s = 0; s < l->plan->stages; s++)
        for (size_t k = 0; k < l->plan->stage[s].ops; k++) {
            uint32_t op = l->plan->stage[s].op[k];
            out->recompute_flop += l->shape.unit[op] > 0
                                       ? l->model->op[op].forward_flop
                                       : plan_part_again(&l->plan->stage[s], l->model, op).flop;
        }
}

static enum status copy_classes(const struct lowering *l, struct program *out)
{
    struct program_copies *copies = &out->copies;
    copies->replicas = l->plan->stage[0].replicas;
    copies->classes = l->shape.classes;
    PASS(ARRAY_COPY(copies->class_of, l->shape.class_of, copies->replicas));
    PASS(ARRAY_NEW(copies->class_size, copies->classes));
    for (uint32_t r = 0; r < copies->replicas; r++)
        copies->class_size[copies->class_of[r]]++;
    return STATUS_OK;
}

/* Folded: pairs of devices that do what a channel does. Every receiving shard k of every replica
 * has its messages from shard k mod shards of the sender (send_to() in replay.c), in the same
 * replica. */
static enum status copy_channels(const struct lowering *l, struct program *out)
{
    struct program_copies *copies = &out->copies;
    size_t n = 0, k = 0;
    PASS(ARRAY_NEW(copies->channel_start, out->channels + 1));
    for (size_t c = 0; c < out->channels; c++)
        n += program_rank_copies(out, out->channel[c].to);
    PASS(ARRAY_NEW(copies->channel, n));
    PASS(ARRAY_NEW(copies->channel_replica, n));
    for (size_t c = 0; c < out->channels; c++) {
        const struct program_rank *target = &out->rank[out->channel[c].to];
        uint32_t from = out->rank[out->channel[c].from].stage, to = target->stage;
        uint32_t sending = lowering_team(l, from)->tensor_parallel;
        uint32_t receiving = lowering_team(l, to)->tensor_parallel;
        uint32_t class = l->shape.class_of[target->replica];
        for (uint32_t i = l->shape.class_start[class]; i < l->shape.class_start[class + 1]; i++)
            for (uint32_t shard = 0; shard < receiving; shard++, k++) {
                uint32_t replica = copies->channel_replica[k] = l->shape.by_class[i];
                copies->channel[k] =
                    (struct program_channel){lowering_device(l, from, replica, shard % sending),
                                             lowering_device(l, to, replica, shard)};
            }
        copies->channel_start[c + 1] = k;
    }
    return STATUS_OK;
}

/* The program out of the lists, checked as one that came from a file is. */
static enum status program_flatten(struct lowering *l, struct program *out)
{
    struct lowering_grouping *g = &l->groups.all;
    PASS(copy_stages(l, out));
    PASS(copy_ranks(l, out));
    PASS(copy_ops(l, out));
    if (g->n > 0) {
        out->groups = g->n;
        out->group_start = g->start;
        out->member = g->member;
        out->device_start = g->device_start;
        out->device = g->device;
        out->copies.device_start = g->copy_start;
        out->copies.device = g->copy;
        out->copies.group_replica = g->copy_replica;
        *g = (struct lowering_grouping){0};
    }
    out->microbatches = l->plan->microbatches;
    out->microbatch_size = l->plan->microbatch_size;
    out->tokens_per_sample = l->model->tokens_per_sample;
    out->attained = plan_framework(l->plan) != NULL;
    out->asynchronous = l->schedule->asynchronous;
    out->folded = l->fold;
    out->seed = l->plan->seed;
    out->number_bytes = (uint32_t)l->model->element_bytes;
    out->reduce_bytes = (uint32_t)plan_reduce_bytes(l->plan, l->model);
    count_flop(l, out);
    PASS(operators_copy(&l->plan->operators, &out->operators));
    PASS(text_copy(l->plan->optimizer, &out->optimizer));
    PASS(text_copy(l->plan->schedule, &out->schedule));
    PASS(program_link(out));
    if (l->fold) {
        PASS(copy_classes(l, out));
        PASS(copy_channels(l, out));
    }
    return program_check(out);
}

bool lowering_ranks_alike(const struct plan *p, const struct topology *t)
{
    const struct schedule *schedule;
    if (schedule_find(p->schedule, &schedule) != STATUS_OK || schedule->crossed ||
        p->microbatches % plan_streams(&p->stage[0]) != 0)
        return false;
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        if (stage->replicas != p->stage[0].replicas)
            return false;
        for (size_t k = 1; k < stage->devices; k++)
            if (t->type_of[stage->device[k]] != t->type_of[stage->device[0]])
                return false;
    }
    return true;
}

static enum status lower(struct lowering *l, struct program *out)
{
    enum status st;
    struct program program = {0};
    const struct framework *f = plan_framework(l->plan);

    TRY(plan_check(l->plan, l->model, l->topology));
    l->fold = l->fold && l->plan->steps == 0 && lowering_ranks_alike(l->plan, l->topology);
    TRY(lowering_prepare(l));
    TRY(lowering_allocate(l));
    TRY(lowering_group(l));
    if (l->plan->steps > 0) {
        TRY(lowering_steps(l));
    } else {
        TRY(lowering_begin(l));
        TRY(lowering_replay(l));
        TRY(lowering_finish(l));
    }
    if (f && f->p2p_blocking >= 0.5)
        TRY(lowering_block(l));
    TRY(lowering_charge(l));
    TRY(program_flatten(l, &program));
    MOVE(out, program);
out:
    program_free(&program);
    lowering_free(l);
    return st;
}

enum status plan_lower_with(const struct plan *p, const struct model *m, const struct topology *t,
                            const struct plan_lower_options *how, struct program *out)
{
    struct lowering l = {.plan = p,
                         .model = m,
                         .topology = t,
                         .fold = how->fold,
                         .as = how->classes,
                         .costs = how->costs};
    return lower(&l, out);
}

enum status plan_lower(const struct plan *p, const struct model *m, const struct topology *t,
                       struct program *out)
{
    return plan_lower_with(p, m, t, &(struct plan_lower_options){.fold = false}, out);
}

enum status plan_lower_folded(const struct plan *p, const struct model *m, const struct topology *t,
                              const struct plan_classes *classes, struct program *out)
{
    const struct plan_lower_options how = {.fold = true, .classes = classes};
    return plan_lower_with(p, m, t, &how, out);
}
