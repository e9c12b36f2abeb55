/* The passes of one stage. A forward computes ops 0 .. n - 1; a backward ops n - 1 .. 0, each in
 * the steps of backward_op(); with buckets it stops after the first op of each (as forwards do
 * with ZeRO 3), with split backwards the gradients of the weights come later. */
#include "exec/device/cpu/stage_parts.h"

#include <string.h>

#include "exec/device/cpu/half.h"

/* Output of op t, or received tensor t, of the microbatch in the slot. */
static real *stage_value(const struct stage *s, const struct slot *slot, size_t t)
{
    return (s->layout.tensor[t].recomputed ? s->pass.recomputed : slot->data) +
           s->layout.tensor[t].value;
}

/* Where the gradient of tensor t grows: own outputs share `work`, received ones wait in the slot.
 * */
static real *gradient_of(const struct stage *s, const struct slot *slot, size_t t)
{
    if (s->layout.tensor[t].overwritten)
        return stage_value(s, slot, t);
    return (t < s->layout.n ? s->pass.work : slot->data) + s->layout.tensor[t].gradient;
}

/* Number n of the parameters in 16 bits. */
static const real *half_at(const struct stage *s, size_t n)
{
    return s->state.half ? element_at(s->layout.half, s->state.half, n) : NULL;
}

/* Operands of op k for the microbatch in `slot`. */
static struct layer_io stage_operands(struct stage *s, const struct slot *slot, size_t k)
{
    const struct stage_op *o = &s->layout.op[k];
    const real *parameter = s->share.reshards
                                ? s->flight->parameters.data[s->flight->parameters.now]
                                : s->state.version[slot->version].data;
    real *gradient = stage_gradients(s);
    struct layer_io io = {
        .batch = s->layout.batch,
        .y = stage_value(s, slot, k),
        .saved = (o->recomputed ? s->pass.recomputed : slot->data) + o->saved,
        .work = s->pass.work + s->layout.layer_work,
        .parameter = o->alone ? stage_parameters(s, k) : parameter + o->at,
        .shared = parameter + o->shared_at,
        .half = half_at(s, o->at),
        .half_shared = half_at(s, o->shared_at),
        .token = slot->token,
        .target = slot->target,
        .dy = gradient_of(s, slot, k),
        .d_parameter = (o->alone ? s->state.sum : gradient) + o->d_at,
        .d_shared = (o->owner == NOWHERE ? gradient : s->pass.tied) + o->d_shared,
        .scale = s->layout.scale,
        .loss_scale = (real)s->layout.loss_scale,
        .reduction = s->pass.reduction,
        .rows = o->layer.spread.ranks > 1 ? (o->recomputed ? s->pass.rows : slot->rows) + o->rows
                                          : NULL,
        .parts = &s->pass.exchanged,
        .bytes = &s->bytes,
        .routing = o->routing.rows ? &s->layout.op[k].routing : NULL,
        .running = s->state.running && o->layer.running ? s->state.running + o->running : NULL,
        .evaluates = s->program->forward_only,
        .on = s->on.self,
    };
    for (size_t i = 0; i < o->layer.inputs; i++)
        io.x[i] = stage_value(s, slot, o->input[i]);
    layer_borrow(&o->layer, &io);
    return io;
}

static void layer_forward(const struct layer *l, struct layer_io *io)
{
    l->rounds ? half_forward(l, io) : l->kind->forward(l, io);
}

static void layer_backward_input(const struct layer *l, struct layer_io *io)
{
    l->rounds ? half_backward(l, io) : l->kind->backward(l, io);
}

static void layer_backward_weight(const struct layer *l, struct layer_io *io)
{
    l->rounds ? half_backward_weight(l, io) : l->kind->backward_weight(l, io);
}

/* Of whole sequences, the tokens of this replica, in their order: none moves back. */
static void keep_own(const struct stage *s, int32_t *token)
{
    size_t whole = s->layout.data.tokens, own = whole / s->share.context;
    const struct layer at = {.tokens = own, .context = {s->share.context, s->share.position}};
    for (size_t b = 0; b < s->layout.data.samples && s->share.context > 1; b++)
        for (size_t row = 0; row < own; row++)
            token[b * own + row] = token[b * whole + layer_position(&at, row)];
}

/* Tokens and targets (B, T) of a microbatch: drawn in host memory, copied when the GPU computes.
 * Every microbatch of a step has a place of its own, so that none waits for another's copy. */
static void read_data(const struct stage *s, const struct slot *slot, uint32_t step,
                      uint32_t microbatch)
{
    size_t n = s->layout.data.samples * s->layout.data.tokens;
    bool remote = s->on.backend->remote;
    int32_t *filled = remote ? s->pass.filled + 2 * n * (microbatch / stage_streams(s)) : NULL;
    int32_t *token = remote ? filled : slot->token;
    int32_t *target = remote ? filled + n : slot->target;
    batch_fill(s->corpus, &s->layout.data, s->program->seed, step, microbatch, token, target);
    keep_own(s, token);
    keep_own(s, target);
    if (!remote)
        return;
    s->on.backend->copy(s->on.self, slot->token, token, n * sizeof *token);
    s->on.backend->copy(s->on.self, slot->target, target, n * sizeof *target);
}

/* Is op k + 1 one that may be computed with op k, whose output it reads? Nothing comes between
 * them. */
static bool is_followed(const struct stage *s, size_t k, size_t high)
{
    const struct stage_op *o = &s->layout.op[k], *next = o + 1;
    return k + 1 < high && o->layer.kind->forward_with && next->layer.inputs == 1 &&
           next->input[0] == k && !o->gathers && !o->scatters && !o->layer.reduces_output &&
           !next->gathers && !next->scatters && !next->layer.reduces_output;
}

/* Forwards of ops low .. high - 1, whose losses count, or the same again. */
static void forwards(struct stage *s, const struct slot *slot, size_t low, size_t high, bool again)
{
    for (size_t k = low; k < high; k++) {
        const struct stage_op *o = &s->layout.op[k];
        const struct layer *l = &o->layer;
        struct layer_io io = stage_operands(s, slot, k);
        real *own = io.y;
        io.again = again;
        if (l->inputs > 0 && s->layout.tensor[o->input[0]].overwritten)
            io.dx[0] = gradient_of(s, slot, o->input[0]);
        if (is_followed(s, k, high)) {
            struct layer_io next = stage_operands(s, slot, k + 1);
            next.again = again;
            if (l->kind->forward_with(l, &io, &o[1].layer, &next)) {
                k++;
                continue;
            }
        }
        stage_rows_forward(s, slot, k, &io);
        layer_forward(l, &io);
        stage_rows_made(s, k, &io, own);
        if (l->reduces_output && !o->scatters)
            stage_sum_shards(s, io.y, s->layout.tensor[k].size);
        if (again)
            continue;
        s->pass.loss += io.loss * s->layout.loss_scale;
        for (size_t i = 0; i < LOSS_HITS; i++)
            s->pass.hits[i] += io.hits[i] * s->layout.loss_scale;
    }
}

/* ZeRO 3: part 1 begins at the first op; the slot is filling until the last part is complete. */
static enum status forward_part(struct stage *s, struct slot *slot, uint32_t part)
{
    const struct program_stage *of = &s->program->stage[s->index];
    uint32_t parts = part > 0 ? program_parts(of, OP_FORWARD) : 1;
    bool whole = part == 0 && (!s->share.reshards || s->share.buckets == 1);
    if (!whole && (part < 1 || part > parts || part - 1 != slot->parts))
        return error_set(STATUS_INVALID,
                         "stage %u: part %u of the forward pass of microbatch %u runs out of order",
                         s->index, part, slot->microbatch);
    size_t bucket = whole ? 0 : program_part_bucket(s->program, of, OP_FORWARD, part, NULL);
    size_t low = whole ? 0 : s->share.bucket[bucket].low,
           high = whole ? s->layout.n : s->share.bucket[bucket].high;
    PASS(stage_begin_part(s, slot, bucket));
    forwards(s, slot, low, high, false);
    slot->parts = part;
    if (part == 0 || part == parts) {
        slot->state = SLOT_FORWARDED;
        stage_forget(s, slot);
    }
    return STATUS_OK;
}

enum status stage_forward(struct stage *s, uint32_t step, uint32_t microbatch, uint32_t part)
{
    struct slot *slot;
    if (s->layout.producers > 0)
        PASS(stage_slot(s, microbatch, SLOT_FILLING, &slot));
    else
        PASS(stage_take_slot(s, microbatch, &slot));
    if (slot->received != s->layout.producers)
        return error_set(
            STATUS_INVALID,
            "stage %u: forward pass of microbatch %u starts with only %zu of %zu inputs received",
            s->index, microbatch, slot->received, s->layout.producers);
    if (part <= 1) {
        stage_begin_pass(s, slot, true);
        if (s->layout.reads_data)
            read_data(s, slot, step, microbatch);
    }
    return forward_part(s, slot, part);
}

/* ---- backward */

/* Add a consumer's share; the first one is simply the value. */
static void contribute(struct stage *s, const struct slot *slot, size_t t, const real *share)
{
    real *gradient = gradient_of(s, slot, t);
    if (s->pass.begun[t] && s->layout.half)
        s->on.backend->add_half(s->on.self, s->layout.half, gradient, share,
                                2 * s->layout.tensor[t].size);
    else if (s->pass.begun[t])
        s->on.backend->add(s->on.self, gradient, share, s->layout.tensor[t].size);
    else
        s->on.backend->copy(s->on.self, gradient, share, s->layout.tensor[t].size * sizeof *share);
    s->pass.begun[t] = true;
}

/* Add the shares of other stages whose last reader comes after op `reader`. */
static void stage_add_shares(struct stage *s, const struct slot *slot, size_t t, uint32_t reader)
{
    if (t >= s->layout.n)
        return; /* received: its producer adds up */
    for (; s->pass.next[t] < s->layout.remote_start[t + 1]; s->pass.next[t]++) {
        const struct stage_remote *r = &s->layout.remote[s->pass.next[t]];
        if (r->consumer < reader)
            return;
        contribute(s, slot, t, slot->data + r->area);
    }
}

/* The gradient of the input of the op before k, made with that of its output, which is k's
 * input. */
static bool stage_op_joins(struct stage *s, const struct slot *slot, size_t k, struct layer_io *io)
{
    const struct stage_op *o = &s->layout.op[k], *before = o - 1;
    uint32_t t = before->input[0];
    if (!o->joins)
        return false;
    struct layer_io of = stage_operands(s, slot, k - 1);
    of.dx[0] = gradient_of(s, slot, t);
    bool joined = o->layer.kind->backward_with(&o->layer, io, &before->layer, &of);
    s->pass.begun[t] = s->pass.begun[t] || joined;
    return joined;
}

/* One op's backward:
 *   1. its output's gradient is complete: add what stages behind have sent for later readers
 *   2. gradients of the inputs, straight into their places where they are the first share or the
 *      layer can add, else into scratch
 *   3. tensor parallelism: reduce them over the shards, or scatter them; what shards have parts of
 *      the rows of is gathered before it is used
 *   4. gradients of the weights; with `halves` dy, and what has been gathered of the input, are
 *      kept for stage_backward_weight() instead
 *   5. add the shares in scratch
 * Or, where the layout allows for it, the op before is computed with it: of 2, the gradient of that
 * one's input alone. Returns the number of ops, up to 2, none before `low`. */
static size_t backward_op(struct stage *s, const struct slot *slot, size_t k, size_t low,
                          bool halves)
{
    const struct stage_op *o = &s->layout.op[k];
    const struct layer *l = &o->layer;
    struct layer_io io = stage_operands(s, slot, k);
    bool direct[LAYER_INPUTS] = {false};
    stage_add_shares(s, slot, k, o->index);
    if (!s->pass.begun[k]) /* nobody reads the output */
        s->on.backend->zero(s->on.self, gradient_of(s, slot, k),
                            s->layout.tensor[k].size * sizeof(real));
    for (size_t i = 0; i < l->inputs; i++) {
        stage_add_shares(s, slot, o->input[i], o->index);
        io.adds = l->kind->adds && s->pass.begun[o->input[i]] && !l->reduces_input && !o->gathers;
        direct[i] = !s->pass.begun[o->input[i]] || io.adds;
        io.dx[i] = direct[i] ? gradient_of(s, slot, o->input[i])
                             : s->pass.work + s->layout.scratch + i * s->layout.scratch_size;
    }
    real *const own[LAYER_INPUTS] = {io.dx[0], io.dx[1]};
    bool joined = k > low && stage_op_joins(s, slot, k, &io);
    stage_rows_backward(s, slot, k, &io);
    if (!joined)
        layer_backward_input(l, &io);
    for (size_t i = 0; i < l->inputs && l->reduces_input && !o->gathers; i++)
        stage_sum_shards(s, io.dx[i], s->layout.tensor[o->input[i]].size);
    stage_rows_returned(s, slot, k, halves, &io, own);
    if (o->delays && halves)
        s->on.backend->copy(s->on.self, slot->data + o->kept, io.dy,
                            stage_kept(s, k) * sizeof *io.dy);
    else if (l->kind->backward_weight)
        layer_backward_weight(l, &io);
    for (size_t i = 0; i < l->inputs; i++)
        if (direct[i])
            s->pass.begun[o->input[i]] = true;
        else
            contribute(s, slot, o->input[i], io.dx[i]);
    return joined ? 2 : 1;
}

/* The gradients of the outputs are there; what grows in the backward is empty. */
static void clear_backward(struct stage *s)
{
    memset(s->pass.begun, 0, s->layout.tensors * sizeof *s->pass.begun);
    memcpy(s->pass.next, s->layout.remote_start, s->layout.n * sizeof *s->pass.next);
}

static enum status begin_backward(struct stage *s, struct slot *slot)
{
    if (slot->returned != s->layout.consumers)
        return error_set(STATUS_INVALID,
                         "stage %u: backward pass of microbatch %u starts with only %zu of %zu "
                         "output gradients received",
                         s->index, slot->microbatch, slot->returned, s->layout.consumers);
    stage_begin_pass(s, slot, false);
    clear_backward(s);
    return STATUS_OK;
}

/* Are gradients complete behind the backward of this microbatch? */
static bool completes(const struct stage *s, const struct slot *slot)
{
    const struct program *p = s->program;
    size_t streams = s->share.replicas / s->share.context;
    return s->share.zero >= 2 || p->asynchronous || slot->microbatch + streams >= p->microbatches;
}

/* Ops high - 1 .. low; those of a unit are made again when the backward first needs them, with ZeRO
 * 3 as far as they are in the bucket: the others have been. */
static void backwards(struct stage *s, struct slot *slot, size_t high, size_t low, bool halves)
{
    size_t there = s->share.reshards ? low : 0;
    for (size_t k = high; k > low;) {
        const struct stage_op *last = &s->layout.op[--k], *o = &s->layout.op[last->remakes];
        for (; o <= last; o = &s->layout.op[o->unit_high])
            if (o->recomputed && o->needed == k)
                forwards(s, slot, o->unit_low > there ? o->unit_low : there, o->unit_high, true);
        k -= backward_op(s, slot, k, low, halves) - 1;
    }
}

static void stage_op_backward(struct stage *s, struct slot *slot, size_t high, size_t low,
                              bool halves)
{
    if (halves)
        stage_set_apart(s);
    backwards(s, slot, high, low, halves);
    if (s->share.sequence && completes(s, slot))
        stage_sum_whole(s, low, high);
    if (low > 0)
        return;
    slot->state = SLOT_DONE;
    slot->owes_weights = halves;
    if (!halves)
        stage_end_pass(s, slot);
    stage_release_slot(s, slot);
}

static enum status whole_backward(struct stage *s, struct slot *slot, bool halves)
{
    PASS(begin_backward(s, slot));
    PASS(stage_begin_part(s, slot, 0));
    stage_op_backward(s, slot, s->layout.n, 0, halves);
    return STATUS_OK;
}

/* One part (program_part_bucket()). */
static enum status backward_part(struct stage *s, struct slot *slot, uint32_t part)
{
    const struct program_stage *of = &s->program->stage[s->index];
    bool completes;
    size_t b = program_part_bucket(s->program, of, OP_BACKWARD, part, &completes);
    const struct stage_bucket *bucket = &s->share.bucket[b];
    if (part == 1)
        PASS(begin_backward(s, slot));
    PASS(stage_begin_part(s, slot, b));
    if (completes) {
        s->pass.part = b;
        stage_op_backward(s, slot, bucket->high, bucket->low, false);
    } else {
        forwards(s, slot, bucket->low, bucket->high, true);
    }
    s->pass.parts = part < program_parts(of, OP_BACKWARD) ? part : 0;
    return STATUS_OK;
}

enum status stage_backward(struct stage *s, uint32_t microbatch, uint32_t part)
{
    struct slot *slot;
    PASS(stage_slot(s, microbatch, SLOT_FORWARDED, &slot));
    if (part == 0 && s->pass.parts == 0 && (s->share.zero < 2 || s->share.buckets == 1))
        return whole_backward(s, slot, false);
    if (part < 1 || part > program_parts(&s->program->stage[s->index], OP_BACKWARD) ||
        part - 1 != s->pass.parts)
        return error_set(
            STATUS_INVALID,
            "stage %u: part %u of the backward pass of microbatch %u runs out of order", s->index,
            part, microbatch);
    return backward_part(s, slot, part);
}

enum status stage_backward_input(struct stage *s, uint32_t microbatch)
{
    if (!s->share.split)
        return error_set(STATUS_INVALID,
                         "stage %u: got a separate input-gradient pass, but the program does not "
                         "split the backward pass",
                         s->index);
    struct slot *slot;
    enum status st = stage_slot(s, microbatch, SLOT_FORWARDED, &slot);
    return st == STATUS_OK ? whole_backward(s, slot, true) : st;
}

/* What the backwards in halves have left out, from the gradients that they have kept. */
static void stage_weights(struct stage *s, const struct slot *slot)
{
    for (size_t k = s->layout.n; k-- > 0;) {
        const struct stage_op *o = &s->layout.op[k];
        struct layer_io io = stage_operands(s, slot, k);
        io.dy = slot->data + o->kept;
        if (o->gathers)
            io.x[0] = slot->data + o->gathered;
        if (o->delays)
            layer_backward_weight(&o->layer, &io);
    }
}

enum status stage_backward_weight(struct stage *s, uint32_t microbatch)
{
    struct slot *slot;
    PASS(stage_slot(s, microbatch, SLOT_DONE, &slot));
    if (!slot->owes_weights)
        return error_set(STATUS_INVALID,
                         "stage %u: weight gradients of microbatch %u are computed twice", s->index,
                         microbatch);
    stage_weights(s, slot);
    slot->owes_weights = false;
    stage_end_pass(s, slot);
    stage_release_slot(s, slot);
    return STATUS_OK;
}

/* ---- rehearsal */

static void stage_sum_nothing(void *self, enum element e, void *data, size_t n)
{
    (void)self, (void)e, (void)data, (void)n;
}

static void move_nothing(void *self, enum layer_move how, enum element e, void *data, size_t n)
{
    (void)self, (void)how, (void)e, (void)data, (void)n;
}

/* As if all members sent the same. */
static void exchange_nothing(void *self, enum op_purpose purpose, enum op_kind kind, void *data,
                             size_t n)
{
    const struct stage *s = self;
    (void)purpose;
    if (kind == OP_ALLTOALL)
        s->on.backend->copy(s->on.self, (real *)data + n / 2, data, n / 2 * sizeof(real));
}

static void fail_nothing(void *self, enum status st)
{
    (void)self, (void)st;
}

/* Gradients, wherever the passes have added to them, are zero again. */
static void clear_gradients(struct stage *s)
{
    size_t n = s->layout.parameters;
    if (s->share.zero >= 2 && !s->share.split) {
        n = 0;
        for (size_t b = 0; b < s->share.buckets; b++)
            n = s->share.bucket[b].n > n ? s->share.bucket[b].n : n;
    }
    s->on.backend->zero(s->on.self, stage_gradients(s), n * sizeof(real));
    s->on.backend->zero(s->on.self, s->pass.tied, s->layout.tied_size * sizeof(real));
    if (s->state.sum) /* experts that no other replica has add to it at once */
        s->on.backend->zero(s->on.self, s->state.sum, s->layout.owned_n * sizeof(real));
}

/* A forward and a backward of whatever is in the slot, which makes again what it does in steps
 * (numbers of rows and experts would be any others'), and an update by gradients of zero: the
 * optimizer's moments stay zero and the parameters what they are. */
enum status stage_rehearse(struct stage *s)
{
    const struct layer_reduction alone = {.self = s,
                                          .sum = stage_sum_nothing,
                                          .exchange = exchange_nothing,
                                          .move = move_nothing,
                                          .fail = fail_nothing};
    struct slot *slot;
    PASS(stage_take_slot(s, 0, &slot));
    s->pass.reduction = &alone;
    s->state.gathered = 1; /* ZeRO 3: as if */
    PASS(stage_begin_part(s, slot, 0));
    forwards(s, slot, 0, s->layout.n, false);
    clear_backward(s);
    backwards(s, slot, s->layout.n, 0, s->share.split);
    if (s->share.split)
        stage_weights(s, slot);
    s->pass.reduction = NULL;
    s->pass.loss = s->pass.hits[0] = s->pass.hits[1] = 0;
    clear_gradients(s);
    double decay = s->state.optimizer.decay;
    s->state.optimizer.decay = 0; /* gradients are zero, parameters are not */
    enum status st = stage_update(s);
    s->state.optimizer.decay = decay;
    PASS(st);
    s->state.updates = s->state.since = 0;
    s->state.gathered = 0;
    s->stash.slot_of[0] = 0;
    slot->state = SLOT_EMPTY;
    return STATUS_OK;
}
