/* Plans that say step by step what every device does (plan.steps): one list for all ranks. Every
 * step converts tensors, then computes. One microbatch does one after the other. Of two, A and B,
 * one computes while the other communicates, in slots that begin when the slot before has ended:
 *
 *     convert k (A)   beside   compute k - 1 (B)
 *     compute k (A)   beside   convert k (B)
 *
 * (a slot's conversions are issued first, so that they are under way while the other half computes)
 *
 * and, from behind, backward. What is shared is converted once, with A, whose backward is the last
 * to come to it. Source: Zhang et al., HiDup, SoCC 2022. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/collective.h"
#include "core/cost/cost.h"
#include "core/lower/lowering.h"

/* One step of a microbatch: seconds and bytes. */
struct sharded_step {
    double forward_s, backward_s;
    int64_t stash_bytes, shared_bytes; /* kept for the backward: of each; besides, of both */
};

/* A list as it grows by slots. Positions are kept plus one; 0: none. */
struct step_lowering {
    struct lowering *l;
    struct lowering_list *list;
    const struct sharded_step *step;
    uint32_t group;
    uint32_t before[2], now[2]; /* compute, communication: of the slot before, of this one */
    uint32_t forward[2];        /* last one of each microbatch */
};

/* A slot waits for all of the one before. */
static enum status wait_for_slot(struct step_lowering *s)
{
    for (int k = 0; k < 2; k++)
        if (s->before[k])
            PASS(list_depend(s->list, s->before[k] - 1));
    return STATUS_OK;
}

static void end_slot(struct step_lowering *s)
{
    for (int k = 0; k < 2; k++)
        if (s->now[k]) {
            s->before[k] = s->now[k];
            s->now[k] = 0;
        }
}

static enum status shard_step_compute(struct step_lowering *s, size_t step, uint32_t half,
                                      bool backward)
{
    const struct sharded_step *of = &s->step[step];
    uint32_t position;
    struct program_op op = list_op(backward ? OP_BACKWARD : OP_FORWARD, FOR_PIPELINE, 0, half);
    if (s->l->plan->step[step].ops == 0)
        return STATUS_OK;
    op.seconds = backward ? of->backward_s : of->forward_s;
    op.bytes = of->stash_bytes + (half == 0 ? of->shared_bytes : 0);
    op.backward = backward;
    op.tag = (uint32_t)step;
    PASS(list_append(s->list, &op, &position));
    PASS(wait_for_slot(s));
    if (backward)
        PASS(list_depend(s->list, s->forward[half] - 1));
    else
        s->forward[half] = position + 1;
    s->now[0] = position + 1;
    return STATUS_OK;
}

static const enum op_kind kinds[COLLECTIVE_KINDS] = {
    [COLLECTIVE_ALLREDUCE] = OP_ALLREDUCE,
    [COLLECTIVE_ALLGATHER] = OP_ALLGATHER,
    [COLLECTIVE_REDUCESCATTER] = OP_REDUCESCATTER,
    [COLLECTIVE_ALLTOALL] = OP_ALLTOALL,
    [COLLECTIVE_BROADCAST] = OP_BROADCAST,
    [COLLECTIVE_REDUCE] = OP_REDUCE,
    [COLLECTIVE_GATHER] = OP_GATHER,
    [COLLECTIVE_SCATTER] = OP_SCATTER,
};

static enum status convert_one(struct step_lowering *s, const struct plan_conversion *c,
                               uint32_t half, bool backward)
{
    uint8_t kind = backward ? c->backward : c->forward;
    const struct plan *p = s->l->plan;
    int64_t bytes = c->bytes * (c->shared ? 1 : p->microbatch_size);
    uint32_t position;
    if (kind >= COLLECTIVE_KINDS || (c->shared && half > 0))
        return STATUS_OK;
    bytes = collective_bytes((enum collective_kind)kind, bytes, p->stage[0].tensor_parallel);
    struct program_op op = list_collective(kinds[kind], FOR_TENSOR, 0, half, s->group, bytes);
    if (bytes == 0 || s->group == PROGRAM_NONE)
        return STATUS_OK;
    op.backward = backward;
    op.tag = c->tensor;
    PASS(list_append(s->list, &op, &position));
    PASS(s->now[1] ? list_depend(s->list, s->now[1] - 1) : wait_for_slot(s));
    s->now[1] = position + 1;
    return STATUS_OK;
}

static enum status shard_step_convert(struct step_lowering *s, size_t step, uint32_t half,
                                      bool backward)
{
    const struct plan_step *of = &s->l->plan->step[step];
    for (size_t k = 0; k < of->conversions; k++)
        PASS(convert_one(s, &of->conversion[backward ? of->conversions - 1 - k : k], half,
                         backward));
    return STATUS_OK;
}

static enum status shard_step_forward(struct step_lowering *s, bool two)
{
    size_t steps = s->l->plan->steps;
    for (size_t k = 0; k < steps; k++) {
        PASS(shard_step_convert(s, k, 0, false));
        if (two && k > 0)
            PASS(shard_step_compute(s, k - 1, 1, false));
        end_slot(s);
        if (two)
            PASS(shard_step_convert(s, k, 1, false));
        PASS(shard_step_compute(s, k, 0, false));
        end_slot(s);
    }
    if (two)
        PASS(shard_step_compute(s, steps - 1, 1, false));
    end_slot(s);
    return STATUS_OK;
}

static enum status shard_step_backward(struct step_lowering *s, bool two)
{
    size_t steps = s->l->plan->steps;
    if (two)
        PASS(shard_step_compute(s, steps - 1, 1, true));
    end_slot(s);
    for (size_t k = steps; k-- > 0;) {
        if (two)
            PASS(shard_step_convert(s, k, 1, true));
        PASS(shard_step_compute(s, k, 0, true));
        end_slot(s);
        PASS(shard_step_convert(s, k, 0, true));
        if (two && k > 0)
            PASS(shard_step_compute(s, k - 1, 1, true));
        end_slot(s);
    }
    return STATUS_OK;
}

/* What the conversions of a step leave on a device, which backwards need: all of a tensor that is
 * gathered or summed, or its part. */
static int64_t converted_bytes(const struct plan *p, const struct plan_step *step, bool shared)
{
    int64_t bytes = 0;
    for (size_t k = 0; k < step->conversions; k++) {
        const struct plan_conversion *c = &step->conversion[k];
        bool part = c->forward == COLLECTIVE_REDUCESCATTER || c->forward == COLLECTIVE_ALLTOALL;
        int64_t all = c->bytes * (shared ? 1 : p->microbatch_size);
        if (c->forward < COLLECTIVE_KINDS && c->shared == shared)
            bytes += part ? all / p->stage[0].tensor_parallel : all;
    }
    return bytes;
}

/* Ops of a step on a device of the type, and what the device keeps of all of them. */
static void cost_steps(struct lowering *l, uint32_t device, struct lowering_cost *c,
                       struct sharded_step *out)
{
    const struct plan *p = l->plan;
    const struct device_type *type = topology_type(l->topology, device);
    struct cost_split divided = cost_split_of(p, &p->stage[0]), whole = divided;
    struct cost_memory memory = cost_memory(p->optimizer, l->model->element_bytes,
                                            plan_reduce_bytes(p, l->model), whole.framework);
    int64_t n = p->stage[0].tensor_parallel;
    uint32_t op = 0;
    whole.shards = 1;
    c->update_s = 0;
    c->weight_bytes = c->gradient_bytes = c->state_bytes = c->scratch_bytes = 0;
    for (size_t k = 0; k < p->steps; k++) {
        out[k].stash_bytes = converted_bytes(p, &p->step[k], false);
        out[k].shared_bytes = converted_bytes(p, &p->step[k], true);
        for (size_t i = 0; i < p->step[k].ops; i++, op++) {
            const struct plan_shard *shard = &p->shard[op];
            const struct model_op *o = &l->model->op[op];
            struct op_cost cost = cost_op(l->model, type, op, p->microbatch_size, p->optimizer,
                                          shard->work ? &divided : &whole);
            out[k].forward_s += op_cost_forward(&cost);
            out[k].backward_s += op_cost_backward(&cost);
            c->weight_bytes += memory.weights * shard->parameter_bytes;
            c->gradient_bytes += memory.gradients * shard->parameter_bytes;
            c->state_bytes += memory.state * shard->parameter_bytes;
            if (shard->parameter_bytes > 0)
                c->update_s +=
                    cost_op(l->model, type, op, p->microbatch_size, p->optimizer, &whole).update_s *
                    (double)shard->parameter_bytes / (double)o->parameter_bytes;
            out[k].stash_bytes += p->microbatch_size * o->stash_bytes / (shard->output ? n : 1);
        }
    }
}

static enum status shard_step_append(struct lowering *l, uint32_t rank,
                                     const struct lowering_cost *c, const struct sharded_step *step)
{
    struct step_lowering s = {
        .l = l, .list = &l->replay.list[rank], .step = step, .group = l->groups.tensor[0]};
    uint32_t position;
    struct program_op update = list_op(OP_UPDATE, FOR_PIPELINE, 0, PROGRAM_NONE);
    update.seconds = c->update_s;
    PASS(shard_step_forward(&s, l->plan->microbatches == 2));
    PASS(shard_step_backward(&s, l->plan->microbatches == 2));
    PASS(list_append(s.list, &update, &position));
    return wait_for_slot(&s);
}

/* Steps 3 and 4 of lowering (lowering.h) for such a plan. */
enum status lowering_steps(struct lowering *l)
{
    enum status st;
    const struct plan_stage *stage = &l->plan->stage[0];
    struct sharded_step *step = NULL;
    if (l->schedule->asynchronous || l->schedule->split || plan_framework(l->plan))
        return error_set(STATUS_UNSUPPORTED, "a plan with \"steps\" does not support %s %s",
                         plan_framework(l->plan) ? "framework" : "schedule",
                         plan_framework(l->plan) ? l->plan->framework : l->plan->schedule);
    for (uint32_t rank = 0; rank < stage->tensor_parallel; rank++) {
        const struct lowering_cost *c;
        uint32_t device = stage->device[rank];
        TRY(lowering_cost(l, 0, device, &c));
        free(step);
        TRY(ARRAY_NEW(step, l->plan->steps));
        cost_steps(l, device, l->cost[l->topology->type_of[device]], step);
        TRY(shard_step_append(l, rank, c, step));
    }
    st = STATUS_OK;
out:
    free(step);
    return st;
}
