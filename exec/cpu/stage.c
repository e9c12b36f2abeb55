#include "exec/cpu/stage.h"

#include <stdlib.h>
#include <string.h>

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
    void *const data[] = {s->parameter, s->gradient, s->moment, s->square, s->tied, s->work};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        if (data[i])
            b->release(s->on.self, data[i]);
    free(s->filled);
    free(s->slot);
    free(s->slot_of);
    *s = (struct stage){0};
}

/* Operands of op k for the microbatch in `slot`. */
static struct layer_io operands(const struct stage *s, const struct slot *slot, size_t k)
{
    const struct stage_op *o = &s->op[k];
    struct layer_io io = {
        .batch = s->batch,
        .y = slot->data + s->tensor[k].value,
        .saved = slot->data + o->saved,
        .work = s->work + s->layer_work,
        .parameter = s->parameter + o->parameter,
        .shared = s->parameter + o->shared,
        .token = slot->token,
        .target = slot->target,
        .dy = s->work + s->tensor[k].gradient,
        .d_parameter = s->gradient + o->parameter,
        .d_shared = (o->owner == NOWHERE ? s->gradient : s->tied) + o->d_shared,
        .scale = s->scale,
        .on = s->on.self,
    };
    for (size_t i = 0; i < o->layer.inputs; i++)
        io.x[i] = slot->data + s->tensor[o->input[i]].value;
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
    if (s->reads_data)
        read_data(s, slot, step, microbatch);
    for (size_t k = 0; k < s->n; k++) {
        struct layer_io io = operands(s, slot, k);
        s->op[k].layer.kind->forward(&s->op[k].layer, &io);
        s->loss += io.loss * (double)s->scale;
    }
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
    if (s->begun[t])
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

static enum status backward(struct stage *s, uint32_t microbatch, bool halves)
{
    enum status st;
    struct slot *slot;
    TRY(stage_slot(s, microbatch, SLOT_FORWARDED, &slot));
    if (slot->returned != s->consumers)
        return error_set(STATUS_INVALID,
                         "stage %u: backward of microbatch %u has %zu of %zu gradients", s->index,
                         microbatch, slot->returned, s->consumers);
    memset(s->begun, 0, s->tensors * sizeof *s->begun);
    memcpy(s->next, s->remote_start, s->n * sizeof *s->next);
    for (size_t k = s->n; k-- > 0;)
        backward_op(s, slot, k, halves);
    slot->state = SLOT_DONE;
    slot->owes_weights = halves;
    stage_release_slot(s, slot);
out:
    return st;
}

enum status stage_backward(struct stage *s, uint32_t microbatch)
{
    return backward(s, microbatch, false);
}

enum status stage_backward_input(struct stage *s, uint32_t microbatch)
{
    if (!s->splits)
        return error_set(STATUS_INVALID, "stage %u: the program has no halves of backwards",
                         s->index);
    return backward(s, microbatch, true);
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
    stage_release_slot(s, slot);
out:
    return st;
}
