/* The CPU device: the stages of a rank behind the vtable. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "exec/device.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/stage.h"

static_assert(sizeof(real) == sizeof(float), "boundary messages are fp32");

static bool cpu_device_computes(const struct model *m, uint32_t op)
{
    struct layer l;
    return layer_shape(m, op, 1, &l) == STATUS_OK;
}

/* The stage with this index, the last one if there is none: programs are checked before. */
struct stage *cpu_stage(const struct stage_set *c, uint32_t index)
{
    size_t k = 0;
    while (k + 1 < c->stages && c->stage[k].index != index)
        k++;
    return &c->stage[k];
}

static void cpu_device_close(void *self)
{
    struct stage_set *c = self;
    for (size_t i = 0; c && i < 2 && c->stages > 0; i++) {
        const struct memory *on = &c->stage->on;
        if (c->flight.gradients.data[i])
            on->backend->release(on->self, c->flight.gradients.data[i]);
        if (c->flight.parameters.data[i])
            on->backend->release(on->self, c->flight.parameters.data[i]);
        real *half = i == 0 ? c->flight.reduced : c->flight.gathered;
        if (half)
            on->backend->release(on->self, half);
        if (i == 0 && c->flight.summed)
            on->backend->release(on->self, c->flight.summed);
    }
    for (size_t k = 0; c && k < c->stages; k++)
        stage_close(&c->stage[k]);
    if (c)
        free(c->stage);
    if (c)
        free(c->norm);
    free(c);
}

/* The sums of squares are made in the host's memory. */
static enum status check_norm(const struct backend *on, const struct program *p, uint32_t rank)
{
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1] && on->remote; i++)
        if (p->op[i].purpose == FOR_NORM)
            return error_set(STATUS_UNSUPPORTED,
                             "optimizer %s: GPUs do not support gradient clipping over several "
                             "stages, shards or ZeRO parts yet (foreline simulate does)",
                             p->optimizer);
    return STATUS_OK;
}

/* All stages of the rank, in ascending order. */
enum status cpu_open_on(const struct memory *on, const struct model *m, const struct program *p,
                        uint32_t rank, const struct device_options *o, void **self)
{
    enum status st;
    struct stage_set *c = NULL;
    TRY(check_norm(on->backend, p, rank));
    TRY(ARRAY_NEW(c, 1));
    TRY(ARRAY_NEW(c->stage, p->stages));
    for (uint32_t s = 0; s < p->stages; s++)
        if (program_rank_has(p, rank, s)) {
            TRY(stage_open_on(on, m, p, s, rank, o, &c->stage[c->stages]));
            c->stages++;
        }
    if (c->stages == 0)
        FAIL(STATUS_INVALID, "rank %u: stage %u does not exist, the program has %zu stages", rank,
             p->rank[rank].stage, p->stages);
    TRY(cpu_check_ties(m, c));
    if (on->backend->allocate)
        TRY(stage_open_flight(c));
    *self = c;
    c = NULL;
out:
    cpu_device_close(c);
    return st;
}

static enum status cpu_device_open(const struct model *m, const struct program *p, uint32_t rank,
                                   const struct device_options *o, void **self)
{
    return cpu_open_on(&(struct memory){&backend_cpu, NULL}, m, p, rank, o, self);
}

enum status cpu_check_on(const struct backend *on, const struct model *m, const struct program *p,
                         uint32_t rank)
{
    struct backend places = *on;
    void *self;
    places.allocate = NULL;
    PASS(cpu_open_on(&(struct memory){&places, NULL}, m, p, rank, &(struct device_options){0},
                     &self));
    cpu_device_close(self);
    return STATUS_OK;
}

static enum status cpu_device_check(const struct model *m, const struct program *p, uint32_t rank)
{
    return cpu_check_on(&backend_cpu, m, p, rank);
}

/* What goes between stage s and those that it reads from on the same device, for which the program
 * has no messages: their activations to it, gradients back to them. */
static enum status hand_over(const struct stage_set *c, struct stage *s, uint32_t microbatch,
                             bool backward)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < s->layout.producers; i++) {
        const struct stage_link *link = &s->layout.producer[i];
        struct stage *other = cpu_stage(c, link->stage), *from = backward ? s : other,
                     *to = backward ? other : s;
        if (!link->local)
            continue;
        real *data;
        TRY(ARRAY_NEW(data, link->size));
        st = stage_get(from, to->index, microbatch, backward, data);
        if (st == STATUS_OK)
            st = stage_put(to, from->index, microbatch, backward, data);
        free(data);
        TRY(st);
    }
out:
    return st;
}

static enum status cpu_device_backward(const struct stage_set *c, struct stage *s,
                                       const struct program_op *op)
{
    PASS(op->kind == OP_BACKWARD ? stage_backward(s, op->microbatch, op->part)
                                 : stage_backward_input(s, op->microbatch));
    return s->pass.parts == 0 ? hand_over(c, s, op->microbatch, true) : STATUS_OK;
}

/* Inputs from stages of the same rank are handed over when the forward that needs them begins,
 * their gradients when the backward has made them; for those of other ranks the executor calls
 * cpu_device_put() and cpu_device_get(). */
static enum status cpu_device_compute(void *self, uint32_t step, const struct program_op *op,
                                      const struct layer_reduction *reduction)
{
    struct stage *s = cpu_stage(self, op->stage);
    s->pass.reduction = reduction;
    if (op_is_beside(op)) /* the op that follows computes it */
        return STATUS_OK;
    if (op->kind == OP_UPDATE)
        PASS(cpu_sum_ties(self, s->model));
    else
        ((struct stage_set *)self)->tied = false;
    if (op->kind == OP_FORWARD && op->part <= 1)
        PASS(hand_over(self, s, op->microbatch, false));
    switch (op->kind) {
    case OP_FORWARD:
        return stage_forward(s, step, op->microbatch, op->part);
    case OP_BACKWARD:
    case OP_BACKWARD_INPUT:
        return cpu_device_backward(self, s, op);
    case OP_BACKWARD_WEIGHT:
        return stage_backward_weight(s, op->microbatch);
    default:
        s->state.factor = learning_rate_factor(&s->state.policy, step);
        return stage_update(s);
    }
}

static enum status cpu_device_get(void *self, const struct program_op *send, void *data)
{
    return stage_get(cpu_stage(self, send->stage), send->peer_stage, send->microbatch,
                     send->backward, data);
}

static enum status cpu_device_put(void *self, const struct program_op *recv, const void *data)
{
    return stage_put(cpu_stage(self, recv->stage), recv->peer_stage, recv->microbatch,
                     recv->backward, data);
}

/* The executor's arrays are the stage's. */
static enum status cpu_device_array(void *self, const struct program_op *op, uint32_t k,
                                    enum element *e, void **data, size_t *n)
{
    if (op->purpose != FOR_NORM)
        return stage_array(cpu_stage(self, op->stage), op, k, e, data, n);
    real *sums = NULL;
    *e = ELEMENT_FP32;
    *n = 0;
    if (k == 0)
        PASS(cpu_norm_begin(self, &sums, n));
    *data = sums;
    return STATUS_OK;
}

static enum status cpu_device_collected(void *self, const struct program_op *op)
{
    if (op->purpose == FOR_NORM)
        cpu_norm_end(self);
    else
        stage_collected(cpu_stage(self, op->stage), op);
    return STATUS_OK;
}

/* The losses of the stages; only one of them has the loss op, the others add 0. */
static double cpu_device_take_loss(void *self)
{
    struct stage_set *c = self;
    double loss = 0;
    for (size_t k = 0; k < c->stages; k++) {
        loss += c->stage[k].pass.loss;
        c->stage[k].pass.loss = 0;
    }
    return loss;
}

static void take_hits(void *self, double out[LOSS_HITS])
{
    struct stage_set *c = self;
    out[0] = out[1] = 0;
    for (size_t k = 0; k < c->stages; k++)
        for (size_t i = 0; i < LOSS_HITS; i++) {
            out[i] += c->stage[k].pass.hits[i];
            c->stage[k].pass.hits[i] = 0;
        }
}

static enum status digest_parameters(const struct stage *s, size_t k, uint8_t out[DIGEST])
{
    const struct layer *l = &s->layout.op[k].layer;
    size_t bytes = l->parameters * sizeof(real);
    const real *parameter = stage_parameters(s, k);
    if (!s->on.backend->remote) {
        digest_bytes(parameter, bytes, out);
        return STATUS_OK;
    }
    real *host;
    PASS(ARRAY_NEW(host, l->parameters));
    s->on.backend->copy(s->on.self, host, parameter, bytes);
    digest_bytes(host, bytes, out);
    free(host);
    return STATUS_OK;
}

/* ZeRO 3: a bucket's parameters are there, its experts too, until the next bucket's are. */
static enum status cpu_device_gathered(void *self, const struct program_op *op)
{
    struct stage *s = cpu_stage(self, op->stage);
    const struct stage_bucket *b = &s->share.bucket[op->part > 0 ? op->part - 1 : 0];
    if (s->share.reshards && s->state.gathered != (op->part > 0 ? op->part : 1))
        return STATUS_OK;
    for (size_t k = b->low; k < b->high && s->state.digest; k++)
        if (s->layout.op[k].layer.parameters > 0)
            PASS(digest_parameters(s, k, s->state.digest[k]));
    return STATUS_OK;
}

/* Parameters are hashed as they are in memory: shards and ranks with the same part agree. */
static enum status cpu_device_digest(void *self, uint32_t op, uint8_t out[DIGEST])
{
    const struct stage_set *c = self;
    size_t i = 0;
    while (i + 1 < c->stages && stage_find(&c->stage[i], op) == NOWHERE)
        i++;
    const struct stage *s = &c->stage[i];
    uint32_t k = stage_find(s, op);
    if (k == NOWHERE)
        return error_set(STATUS_INVALID, "op %u is not in stage %u", op, s->index);
    const struct layer *l = &s->layout.op[k].layer;
    memset(out, 0, DIGEST);
    if (l->parameters == 0)
        return STATUS_OK;
    if (!s->share.reshards || s->layout.op[k].alone)
        return digest_parameters(s, k, out);
    memcpy(out, s->state.digest[k], DIGEST);
    return STATUS_OK;
}

/* Of arrays; the code, the model and BLAS's buffers are not counted. */
static int64_t cpu_device_peak_bytes(void *self)
{
    const struct stage_set *c = self;
    int64_t bytes = c->flight.bytes;
    for (size_t k = 0; k < c->stages; k++) /* nothing is given back before close() */
        bytes += c->stage[k].bytes;
    return bytes;
}

static const struct layer_routing *routing(void *self, uint32_t op, size_t *experts)
{
    const struct stage_set *c = self;
    for (size_t i = 0; i < c->stages; i++) {
        uint32_t k = stage_find(&c->stage[i], op);
        if (k == NOWHERE || !c->stage[i].layout.op[k].routing.rows)
            continue;
        *experts = c->stage[i].layout.op[k].layer.moe.experts;
        return &c->stage[i].layout.op[k].routing;
    }
    return NULL;
}

const struct device device_cpu = {
    .name = "cpu",
    .describe = cpu_describe,
    .stepped = &device_sharded,
    .computes = cpu_device_computes,
    .check = cpu_device_check,
    .open = cpu_device_open,
    .close = cpu_device_close,
    .compute = cpu_device_compute,
    .get = cpu_device_get,
    .put = cpu_device_put,
    .array = cpu_device_array,
    .collected = cpu_device_collected,
    .gathered = cpu_device_gathered,
    .take_loss = cpu_device_take_loss,
    .take_hits = take_hits,
    .digest = cpu_device_digest,
    .peak_bytes = cpu_device_peak_bytes,
    .routing = routing,
    .state = cpu_state,
    .save = cpu_save,
    .load = cpu_load,
};
