#include "exec/device/cpu/stage.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan.h"

void stage_close(struct stage *s)
{
    const struct backend *b = s->on.backend;
    for (size_t i = 0; i < s->producers; i++)
        free(s->producer[i].tensor);
    for (size_t i = 0; i < s->consumers; i++)
        free(s->consumer[i].tensor);
    for (size_t i = 0; s->slot && i < s->program->microbatches && s->slot[i].data; i++) {
        b->release(s->on.self, s->slot[i].data);
        b->release(s->on.self, s->slot[i].token);
        b->release(s->on.self, s->slot[i].target);
    }
    free(s->producer);
    free(s->consumer);
    free(s->op);
    free(s->tensor);
    free(s->begun);
    free(s->next);
    free(s->remote_start);
    free(s->remote);
    void *const data[] = {s->gradient, s->other_gradient, s->other_parameter,
                          s->moment,   s->square,         s->sum,
                          s->owned,    s->tied,           s->work,
                          s->half};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        if (data[i])
            b->release(s->on.self, data[i]);
    for (size_t v = 0; v < s->versions; v++)
        b->release(s->on.self, s->version[v].data);
    free(s->version);
    free(s->piece);
    free(s->filled);
    free(s->slot);
    free(s->slot_of);
    *s = (struct stage){0};
}

static real *value_of(const struct stage *s, const struct slot *slot, size_t t)
{
    return (s->tensor[t].remade ? s->remade : slot->data) + s->tensor[t].value;
}

/* Number n of the parameters in bf16. */
static const real *half_at(const struct stage *s, size_t n)
{
    return s->half ? (const real *)(const void *)((const uint16_t *)(const void *)s->half + n)
                   : NULL;
}

/* Operands of op k for the microbatch in `slot`. */
static struct layer_io operands(const struct stage *s, const struct slot *slot, size_t k)
{
    const struct stage_op *o = &s->op[k];
    const real *parameter = s->version[slot->version].data;
    struct layer_io io = {
        .batch = s->batch,
        .y = value_of(s, slot, k),
        .saved = (o->again ? s->remade : slot->data) + o->saved,
        .work = s->work + s->layer_work,
        .parameter = parameter + o->parameter,
        .shared = parameter + o->shared,
        .half = half_at(s, o->parameter),
        .half_shared = half_at(s, o->shared),
        .token = slot->token,
        .target = slot->target,
        .dy = s->work + s->tensor[k].gradient,
        .d_parameter = s->gradient + o->parameter,
        .d_shared = (o->owner == NOWHERE ? s->gradient : s->tied) + o->d_shared,
        .scale = s->scale,
        .sums = s->sums,
        .on = s->on.self,
    };
    for (size_t i = 0; i < o->layer.inputs; i++)
        io.x[i] = value_of(s, slot, o->input[i]);
    return io;
}

static void read_data(const struct stage *s, const struct slot *slot, uint32_t step,
                      uint32_t microbatch)
{
    size_t n = s->data.samples * s->data.tokens;
    bool remote = s->on.backend->remote;
    int32_t *token = remote ? s->filled : slot->token;
    int32_t *target = remote ? s->filled + n : slot->target;
    batch_fill(s->corpus, &s->data, s->program->seed, step, microbatch, token, target);
    if (!remote)
        return;
    s->on.backend->copy(s->on.self, slot->token, token, n * sizeof *token);
    s->on.backend->copy(s->on.self, slot->target, target, n * sizeof *target);
}

/* Sum a tensor over the shards, in fp32. */
static void sum_shards(const struct stage *s, real *data, size_t size)
{
    const struct backend_half *b = s->on.backend->half;
    real *wide = s->work + s->wide;
    if (!s->halves) {
        s->sums->sum(s->sums->self, data, size);
        return;
    }
    b->widen(s->on.self, wide, data, 2 * size);
    s->sums->sum(s->sums->self, wide, 2 * size);
    b->narrow(s->on.self, data, wide, 2 * size);
}

/* Forward of op k; returns its unweighted loss. */
static double forward_op(const struct stage *s, const struct slot *slot, size_t k)
{
    const struct layer *l = &s->op[k].layer;
    struct layer_io io = operands(s, slot, k);
    l->kind->forward(l, &io);
    if (l->sums_output)
        sum_shards(s, io.y, s->tensor[k].size);
    return io.loss;
}

enum status stage_forward(struct stage *s, uint32_t step, uint32_t microbatch)
{
    enum status st;
    struct slot *slot;
    if (s->producers > 0)
        TRY(stage_slot(s, microbatch, SLOT_FILLING, &slot));
    else
        TRY(stage_take_slot(s, microbatch, &slot));
    if (slot->received != s->producers)
        return error_set(STATUS_INVALID, "stage %u: forward of microbatch %u has %zu of %zu inputs",
                         s->index, microbatch, slot->received, s->producers);
    TRY(stage_begin_pass(s, slot, true));
    if (s->reads_data)
        read_data(s, slot, step, microbatch);
    for (size_t k = 0; k < s->n; k++)
        s->loss += forward_op(s, slot, k) * s->loss_scale;
    slot->state = SLOT_FORWARDED;
out:
    return st;
}

/* ---- backward */

static real *gradient_of(const struct stage *s, const struct slot *slot, size_t t)
{
    return (t < s->n ? s->work : slot->data) + s->tensor[t].gradient;
}

/* Add a consumer's share; the first one is simply the value. */
static void contribute(struct stage *s, const struct slot *slot, size_t t, const real *share)
{
    real *gradient = gradient_of(s, slot, t);
    if (s->begun[t] && s->halves)
        s->on.backend->half->add(s->on.self, gradient, share, 2 * s->tensor[t].size);
    else if (s->begun[t])
        s->on.backend->add(s->on.self, gradient, share, s->tensor[t].size);
    else
        s->on.backend->copy(s->on.self, gradient, share, s->tensor[t].size * sizeof *share);
    s->begun[t] = true;
}

/* Add the shares of other stages whose last reader comes after op `reader`. */
static void settle(struct stage *s, const struct slot *slot, size_t t, uint32_t reader)
{
    if (t >= s->n)
        return; /* received: its producer adds up */
    for (; s->next[t] < s->remote_start[t + 1]; s->next[t]++) {
        const struct remote *r = &s->remote[s->next[t]];
        if (r->consumer < reader)
            return;
        contribute(s, slot, t, slot->data + r->area);
    }
}

/* `halves`: only what other ops wait for; the rest is owed. */
static void backward_op(struct stage *s, const struct slot *slot, size_t k, bool halves)
{
    const struct stage_op *o = &s->op[k];
    const struct layer *l = &o->layer;
    struct layer_io io = operands(s, slot, k);
    bool direct[LAYER_INPUTS] = {false};
    if (o->again && s->recompute == RECOMPUTE_SELECTIVE)
        forward_op(s, slot, k);
    settle(s, slot, k, o->index);
    if (!s->begun[k]) /* nobody reads the output */
        s->on.backend->zero(s->on.self, gradient_of(s, slot, k), s->tensor[k].size * sizeof(real));
    for (size_t i = 0; i < l->inputs; i++) {
        settle(s, slot, o->input[i], o->index);
        direct[i] = !s->begun[o->input[i]];
        io.dx[i] = direct[i] ? gradient_of(s, slot, o->input[i])
                             : s->work + s->scratch + i * s->scratch_size;
    }
    l->kind->backward(l, &io);
    for (size_t i = 0; i < l->inputs && l->sums_input; i++)
        sum_shards(s, io.dx[i], s->tensor[o->input[i]].size);
    if (l->kind->backward_weight && halves)
        s->on.backend->copy(s->on.self, slot->data + o->kept, io.dy,
                            s->tensor[k].size * sizeof *io.dy);
    else if (l->kind->backward_weight)
        l->kind->backward_weight(l, &io);
    for (size_t i = 0; i < l->inputs; i++)
        if (direct[i])
            s->begun[o->input[i]] = true;
        else
            contribute(s, slot, o->input[i], io.dx[i]);
}

static enum status begin_backward(struct stage *s, struct slot *slot)
{
    enum status st;
    if (slot->returned != s->consumers)
        return error_set(STATUS_INVALID,
                         "stage %u: backward of microbatch %u has %zu of %zu gradients", s->index,
                         slot->microbatch, slot->returned, s->consumers);
    TRY(stage_begin_pass(s, slot, false));
    memset(s->begun, 0, s->tensors * sizeof *s->begun);
    memcpy(s->next, s->remote_start, s->n * sizeof *s->next);
    for (size_t k = 0; k < s->n && s->recompute == RECOMPUTE_FULL; k++)
        forward_op(s, slot, k);
out:
    return st;
}

/* Ops high - 1 .. low. */
static enum status backward(struct stage *s, struct slot *slot, size_t high, size_t low,
                            bool halves)
{
    enum status st = STATUS_OK;
    if (high == s->n)
        TRY(begin_backward(s, slot));
    for (size_t k = high; k-- > low;)
        backward_op(s, slot, k, halves);
    if (low > 0)
        goto out;
    slot->state = SLOT_DONE;
    slot->owes_weights = halves;
    if (!halves)
        stage_end_pass(s, slot);
    stage_release_slot(s, slot);
out:
    return st;
}

enum status stage_backward(struct stage *s, uint32_t microbatch, uint32_t part)
{
    enum status st;
    struct slot *slot;
    TRY(stage_slot(s, microbatch, SLOT_FORWARDED, &slot));
    if (part == 0 && !s->halfway) {
        TRY(backward(s, slot, s->n, 0, false));
        goto out;
    }
    if (part < 1 || part > s->pieces || part - 1 != (s->halfway ? s->part + 1 : 0))
        return error_set(STATUS_INVALID, "stage %u: part %u of the backward of microbatch %u",
                         s->index, part, microbatch);
    s->part = part - 1;
    TRY(backward(s, slot, s->part > 0 ? s->piece[s->part - 1].low : s->n, s->piece[s->part].low,
                 false));
    s->halfway = part < s->pieces;
out:
    return st;
}

enum status stage_backward_input(struct stage *s, uint32_t microbatch)
{
    if (!s->splits)
        return error_set(STATUS_INVALID, "stage %u: the program has no halves of backwards",
                         s->index);
    struct slot *slot;
    enum status st = stage_slot(s, microbatch, SLOT_FORWARDED, &slot);
    return st == STATUS_OK ? backward(s, slot, s->n, 0, true) : st;
}

enum status stage_backward_weight(struct stage *s, uint32_t microbatch)
{
    enum status st;
    struct slot *slot;
    TRY(stage_slot(s, microbatch, SLOT_DONE, &slot));
    if (!slot->owes_weights)
        return error_set(STATUS_INVALID, "stage %u: weight gradients of microbatch %u twice",
                         s->index, microbatch);
    for (size_t k = s->n; k-- > 0;) {
        const struct layer_kind *kind = s->op[k].layer.kind;
        struct layer_io io = operands(s, slot, k);
        io.dy = slot->data + s->op[k].kept;
        if (kind->backward_weight)
            kind->backward_weight(&s->op[k].layer, &io);
    }
    slot->owes_weights = false;
    stage_end_pass(s, slot);
    stage_release_slot(s, slot);
out:
    return st;
}
