/* Where everything is. Memory is planned before any is taken, so that a stage that does not fit
 * says so at once and a GPU can take all of it in one piece:
 *   1. place_parameters   copies of tied weights, then own parameters op by op; buckets
 *   2. stage_place_slot   (layout_slot.c) what a microbatch keeps from forward to backward,
 *                         messages included
 *   3. stage_place_gradients (layout_gradient.c) outputs' gradients share `work`
 *   4. check, reserve and allocate; start values
 * and given back by stage_close(). */
#include "exec/device/cpu/stage_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/data/plan.h"
#include "core/strategy/optimizer.h"

/* ---- parameters */

/* All borrowers of an owner borrow the same, so that the gradients that the stages sum are one
 * array of one size. */
static enum status check_ties(const struct stage *s, const struct stage_op *o)
{
    const struct model *m = s->model;
    const struct model_op *op = &m->op[o->index];
    for (uint32_t i = op->shares + 1; i < m->n; i++) {
        if (m->op[i].shares != op->shares || i == o->index)
            continue;
        if (m->op[i].shared_bytes != op->shared_bytes)
            return error_set(STATUS_UNSUPPORTED,
                             "ops '%s' and '%s' share %lld and %lld bytes of the parameters of "
                             "'%s', expected the same number of bytes",
                             op->name, m->op[i].name, (long long)op->shared_bytes,
                             (long long)m->op[i].shared_bytes, m->op[op->shares].name);
    }
    return STATUS_OK;
}

/* What an op borrows must be all that a shard of the owner has of its first part. */
static enum status check_shards(const struct stage *s, const struct stage_op *o)
{
    struct layer owner;
    const struct model_op *op = &s->model->op[o->index];
    if (s->share.shard.shards < 2)
        return STATUS_OK;
    PASS(layer_shape(s->model, op->shares, s->layout.batch, &owner));
    PASS(layer_divide(s->model, op->shares, &s->share.shard, s->layout.batch, &owner));
    if ((o->layer.borrows ? owner.parameters : owner.part[0].n) != o->layer.shared)
        return error_set(
            STATUS_UNSUPPORTED,
            "ops '%s' and '%s' share parameters, but split them differently over shards", op->name,
            s->model->op[op->shares].name);
    return STATUS_OK;
}

/* Who op k borrows from within the stage: the owner, or the first borrower, which has a copy;
 * NOWHERE: it is that itself. */
static uint32_t find_lender(const struct stage *s, size_t k)
{
    const struct model *m = s->model;
    uint32_t shares = m->op[s->layout.op[k].index].shares, owner = stage_find(s, shares);
    for (size_t j = 0; j < k && owner == NOWHERE; j++)
        if (m->op[s->layout.op[j].index].shares == shares)
            owner = (uint32_t)j;
    return owner;
}

/* Copies of what other stages own come first: their gradients are in the bucket of the first op. */
static enum status place_copies(struct stage *s)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        o->owner = NOWHERE;
        if (o->layer.shared == 0)
            continue;
        o->owner = find_lender(s, k);
        o->second =
            o->owner != NOWHERE && s->layout.op[o->owner].index != s->model->op[o->index].shares;
        PASS(check_ties(s, o));
        PASS(check_shards(s, o));
        if (o->owner != NOWHERE)
            continue;
        if (s->share.zero >= 2)
            return error_set(
                STATUS_UNSUPPORTED,
                "op '%s' shares parameters with another stage, which is unsupported with ZeRO %u",
                s->model->op[o->index].name, s->share.zero);
        if (s->program->asynchronous)
            return error_set(STATUS_UNSUPPORTED,
                             "op '%s' shares parameters with another stage, but without a pipeline "
                             "flush the two stages update at different times",
                             s->model->op[o->index].name);
        o->shared = o->d_shared = s->layout.parameters;
        s->layout.parameters = size_plus(s->layout.parameters, o->layer.shared);
    }
    return STATUS_OK;
}

/* Own ones of the ops whose experts are spread, or of the others. */
static void place_own(struct stage *s, bool spread)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        if ((o->layer.spread.ranks > 1) != spread)
            continue;
        o->parameter = s->layout.parameters;
        s->layout.parameters = size_plus(s->layout.parameters, o->layer.parameters);
    }
}

/* What op k borrows is its lender's; gradients of all that borrow from one grow in one place. */
static void place_borrowed(struct stage *s, size_t k)
{
    struct stage_op *o = &s->layout.op[k];
    const struct stage_op *lender = &s->layout.op[o->owner]; /* comes before */
    size_t j = o->owner + 1;
    while (j < k && (s->layout.op[j].layer.shared == 0 || s->layout.op[j].owner != o->owner))
        j++;
    o->shared = o->second ? lender->shared : lender->parameter;
    o->d_shared = j < k ? s->layout.op[j].d_shared : s->layout.tied_size;
    s->layout.tied_size = size_plus(s->layout.tied_size, j < k ? 0 : o->layer.shared);
}

static enum status place_parameters(struct stage *s)
{
    PASS(place_copies(s));
    place_own(s, false);
    s->layout.dense_n = s->layout.parameters;
    place_own(s, true);
    for (size_t k = 0; k < s->layout.n; k++) {
        struct stage_op *o = &s->layout.op[k];
        if (o->layer.shared > 0 && o->owner != NOWHERE)
            place_borrowed(s, k);
    }
    return stage_cut_buckets(s);
}

static enum status layout_start_arrays(const struct stage *s, const struct layer *l, uint32_t op,
                                       size_t n, real *parameter)
{
    bool remote = s->on.backend->remote;
    real *host = parameter;
    if (remote)
        PASS(ARRAY_NEW(host, n));
    layer_start(l, s->program->seed, op, n, host);
    if (remote) {
        s->on.backend->copy(s->on.self, parameter, host, n * sizeof *host);
        free(host);
    }
    return STATUS_OK;
}

/* An op's start values are made in host memory, and the own part of them is kept. */
static enum status start_owned(struct stage *s, const struct stage_op *o)
{
    real *host;
    PASS(ARRAY_NEW(host, o->layer.parameters));
    layer_start(&o->layer, s->program->seed, o->index, o->layer.parameters, host);
    stage_keep_owned(s, o->parameter, o->layer.parameters, host);
    free(host);
    return STATUS_OK;
}

static enum status start_parameters(struct stage *s)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        const struct layer *l = &o->layer;
        if (s->state.owned)
            PASS(start_owned(s, o));
        if (s->share.reshards)
            continue;
        PASS(layout_start_arrays(s, l, o->index, l->parameters, s->state.parameter + o->parameter));
        if (l->shared == 0 || o->owner != NOWHERE)
            continue;
        struct layer owner;
        uint32_t index = s->model->op[o->index].shares;
        PASS(layer_shape(s->model, index, s->layout.batch, &owner));
        PASS(layer_divide(s->model, index, &s->share.shard, s->layout.batch, &owner));
        PASS(layout_start_arrays(s, &owner, index, l->shared, s->state.parameter + o->shared));
    }
    return STATUS_OK;
}

/* ---- memory */

enum status stage_allocate(struct stage *s, size_t n, size_t size, void *out)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (!p)
        return error_set(STATUS_NOMEM, "stage %u: out of memory: %zu x %zu bytes", s->index, n,
                         size);
    s->bytes += (int64_t)(n * size);
    memcpy(out, &p, sizeof p);
    return STATUS_OK;
}

enum status stage_allocate_data(struct stage *s, size_t n, size_t size, void *out)
{
    void *p = n <= SIZE_MAX / size ? s->on.backend->allocate(s->on.self, n * size) : NULL;
    if (!p)
        return error_set(STATUS_NOMEM, "stage %u: out of memory: %zu x %zu bytes", s->index, n,
                         size);
    s->bytes += (int64_t)(n * size);
    memcpy(out, &p, sizeof p);
    return STATUS_OK;
}

struct array {
    bool wanted;
    real **data;
    size_t n;
};

enum { ARRAYS = 14 };

/* Do others take part in sums of the gradients of the stage, or in gathers of its parameters? */
static bool layout_is_shared(const struct stage *s)
{
    const struct program *p = s->program;
    bool any = false;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1] && !any; i++)
        any = p->op[i].stage == s->index && op_is_collective(&p->op[i]) &&
              (p->op[i].purpose == FOR_DATA || p->op[i].purpose == FOR_TIES);
    return any;
}

/* Room for what is made again, and for outputs that only the forward reads: these are where
 * gradients are in the backward, which makes none of them unless it makes something again. */
static size_t remade_size(const struct stage *s)
{
    bool again = s->layout.recomputed_size > s->layout.rows;
    for (size_t k = 0; k < s->layout.n; k++)
        again = again || s->layout.op[k].recomputed;
    return again ? s->layout.recomputed_size : 0;
}

/* What a stage allocates once, besides versions of its parameters. */
static void list_arrays(struct stage *s, struct array array[ARRAYS])
{
    int moments = optimizer_moments(s->program->optimizer);
    bool halved = s->share.zero >= 2 && s->share.split;
    size_t halves = halved ? stage_flying(s, 0, false) : 0;
    bool gathers_half = s->share.gathered != ELEMENT_FP32;
    bool half = s->share.reduced != ELEMENT_FP32 || (s->share.zero == 1 && gathers_half);
    size_t half_n = s->layout.parameters;
    for (size_t b = 0; b < s->share.buckets && s->share.reshards; b++) {
        size_t n = s->share.bucket[b].gathered;
        half_n = b == 0 || n > half_n ? n : half_n;
    }
    const struct array all[ARRAYS] = {
        {!s->share.reshards, &s->state.version[0].data, s->layout.parameters},
        {s->share.zero < 2, &s->state.gradient, s->layout.parameters},
        {halved, &s->state.halved.data[0], halves}, /* of one bucket */
        {halved, &s->state.halved.data[1], halves},
        {moments > 0, &s->state.moment, s->layout.owned_n},
        {moments > 1, &s->state.square, s->layout.owned_n},
        {s->share.zero >= 2, &s->state.sum, s->layout.owned_n},
        {gathers_half ? s->share.zero >= 1 : s->share.reshards, &s->state.owned, s->layout.owned_n},
        {s->share.zero < 2 && half && layout_is_shared(s), &s->state.reduced,
         s->layout.parameters / 2 + 1},
        {true, &s->pass.tied, s->layout.tied_size},
        {halved && s->share.sequence, &s->pass.whole, stage_whole_parameters(s)},
        {true, &s->pass.work, size_plus(s->layout.work_size, remade_size(s))},
        {s->layout.half != ELEMENT_FP32, &s->state.half, half_n / 2 + 1},
    };
    memcpy(array, all, sizeof all);
}

/* Better one clear line now than a killed process later. */
static enum status layout_check_memory(const struct stage *s, const struct array array[ARRAYS])
{
    size_t need = s->layout.slot_size, most = 0;
    for (size_t b = 0; b < s->share.buckets && s->share.zero >= 2; b++) {
        size_t n = stage_flying(s, b, false) + (s->share.reshards ? stage_flying(s, b, true) : 0);
        most = n > most ? n : most;
    }
    need = size_plus(need, size_times(2, most));
    for (size_t i = 0; i < ARRAYS; i++)
        need = size_plus(need, array[i].wanted ? array[i].n : 0);
    need = size_times(need, sizeof(real));
    double have = s->on.backend->memory_bytes(s->on.self);
    if ((double)need < have)
        return STATUS_OK;
    return error_set(STATUS_NOMEM,
                     "out of memory: stage %u needs at least %.3g GB, this machine has %.3g GB",
                     s->index, (double)need / 1e9, have / 1e9);
}

/* Is a slot of this stage in use when op o runs, or until then? */
static bool uses_slot(const struct stage *s, const struct program_op *o)
{
    return o->microbatch < s->program->microbatches && !op_is_collective(o) &&
           o->kind != OP_UPDATE && o->stage == s->index;
}

/* Most slots in use at once by any rank that has this stage; at [2 * microbatches] is scratch: one
 * behind the first and the last op of each microbatch. O(ops). */
static size_t most_slots(const struct stage *s, size_t *at)
{
    const struct program *p = s->program;
    size_t most = 0, *first = at, *last = at + p->microbatches;
    for (size_t r = 0; r < p->ranks; r++) {
        size_t live = 0;
        memset(at, 0, 2 * p->microbatches * sizeof *at);
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (!uses_slot(s, o))
                continue;
            first[o->microbatch] = first[o->microbatch] ? first[o->microbatch] : i + 1;
            last[o->microbatch] = i + 1;
        }
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            if (!uses_slot(s, &p->op[i]))
                continue;
            live += first[p->op[i].microbatch] == i + 1;
            most = live > most ? live : most;
            live -= last[p->op[i].microbatch] == i + 1;
        }
    }
    return most;
}

/* Tell a backend that wants to know how much the stage will allocate, and with how many slots: all
 * of them are then allocated at once. */
static enum status layout_reserve(const struct stage *s, const struct array array[ARRAYS],
                                  size_t *out)
{
    size_t *at;
    *out = 0;
    if (!s->on.backend->reserve)
        return STATUS_OK;
    PASS(ARRAY_NEW(at, 2 * (size_t)s->program->microbatches));
    size_t slots = most_slots(s, at);
    free(at);
    *out = slots;
    size_t tokens = s->layout.reads_data ? s->layout.data.samples * s->layout.data.tokens : 0;
    size_t slot = s->layout.slot_size * sizeof(real) + 2 * tokens * sizeof(int32_t);
    size_t versions = s->program->asynchronous ? slots : 0, fixed = 0;
    for (size_t i = 0; i < ARRAYS; i++)
        fixed = size_plus(fixed, array[i].wanted ? array[i].n * sizeof(real) : 0);
    fixed = size_plus(fixed, size_times(versions, s->layout.parameters * sizeof(real)));
    return s->on.backend->reserve(s->on.self, size_plus(fixed, size_times(slots, slot)),
                                  ARRAYS + versions + 3 * slots);
}

static enum status layout_allocate(struct stage *s, const struct array array[ARRAYS])
{
    s->state.versions = 1;
    for (size_t i = 0; i < ARRAYS; i++)
        if (array[i].wanted)
            PASS(stage_allocate_data(s, array[i].n, sizeof(real), array[i].data));
    s->state.parameter = s->state.version[0].data;
    s->pass.recomputed = s->pass.work + (remade_size(s) > 0 ? s->layout.work_size : 0);
    return STATUS_OK;
}

/* Places to make data in, one for each microbatch of this replica. */
static enum status allocate_filled(struct stage *s)
{
    size_t own = s->program->microbatches / stage_streams(s) + 1;
    size_t bytes = size_times(2 * own * sizeof *s->pass.filled,
                              size_times(s->layout.data.samples, s->layout.data.tokens));
    s->pass.filled = s->on.backend->allocate_host(s->on.self, bytes);
    return s->pass.filled
               ? STATUS_OK
               : error_set(STATUS_NOMEM, "stage %u: out of memory: buffer of %zu bytes for tokens",
                           s->index, bytes);
}

/* Means from 0, variances from 1. */
static enum status allocate_running(struct stage *s)
{
    for (size_t k = 0; k < s->layout.n && !s->on.backend->remote; k++) {
        s->layout.op[k].running = s->state.running_n;
        s->state.running_n += s->layout.op[k].layer.running;
    }
    if (s->state.running_n == 0)
        return STATUS_OK;
    PASS(stage_allocate(s, s->state.running_n, sizeof *s->state.running, &s->state.running));
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        for (size_t i = o->layer.running / 2; i < o->layer.running; i++)
            s->state.running[o->running + i] = 1;
    }
    return STATUS_OK;
}

enum status stage_layout(struct stage *s)
{
    uint32_t microbatches = s->program->microbatches;
    struct array array[ARRAYS];
    size_t slots;
    PASS(place_parameters(s));
    stage_part_rows(s);
    PASS(stage_place_slot(s));
    PASS(stage_place_gradients(s));
    for (size_t k = 0; k < s->layout.n; k++)
        if (s->layout.op[k].layer.moe.slots > 0)
            PASS(ARRAY_NEW(s->layout.op[k].routing.rows, s->layout.op[k].layer.moe.experts));
    if (!s->on.backend->allocate)
        return STATUS_OK;
    PASS(stage_allocate(s, microbatches + 1, sizeof *s->state.version, &s->state.version));
    list_arrays(s, array);
    PASS(layout_check_memory(s, array));
    PASS(layout_reserve(s, array, &slots));
    PASS(layout_allocate(s, array));
    PASS(allocate_running(s));
    if (s->on.backend->remote && s->layout.reads_data)
        PASS(allocate_filled(s));
    PASS(stage_allocate(s, microbatches, sizeof *s->stash.slot, &s->stash.slot));
    PASS(stage_allocate(s, microbatches, sizeof *s->stash.slot_of, &s->stash.slot_of));
    for (size_t k = 0; k < slots; k++)
        PASS(stage_allocate_slot(s, &s->stash.slot[k]));
    if (s->share.reshards)
        PASS(ARRAY_NEW(s->state.digest, s->layout.n));
    return start_parameters(s);
}

/* ---- and back */

static void free_rows(const struct stage *s, struct layer_array *rows)
{
    for (size_t k = 0; rows && k < s->layout.spread; k++)
        free(rows[k].data);
    free(rows);
}

void stage_close(struct stage *s)
{
    const struct backend *b = s->on.backend;
    for (size_t i = 0; i < s->layout.producers; i++)
        free(s->layout.producer[i].tensor);
    for (size_t i = 0; i < s->layout.consumers; i++)
        free(s->layout.consumer[i].tensor);
    for (size_t i = 0; s->stash.slot && i < s->program->microbatches && s->stash.slot[i].data;
         i++) {
        free_rows(s, s->stash.slot[i].rows);
        b->release(s->on.self, s->stash.slot[i].data);
        b->release(s->on.self, s->stash.slot[i].token);
        b->release(s->on.self, s->stash.slot[i].target);
    }
    free_rows(s, s->pass.rows);
    free(s->pass.exchanged.data);
    for (size_t k = 0; s->layout.op && k < s->layout.n; k++)
        free(s->layout.op[k].routing.rows);
    free(s->layout.producer);
    free(s->layout.consumer);
    free(s->layout.op);
    free(s->layout.tensor);
    free(s->pass.begun);
    free(s->pass.next);
    free(s->layout.remote_start);
    free(s->layout.remote);
    void *const data[] = {s->state.gradient,
                          s->state.halved.data[0],
                          s->state.halved.data[1],
                          s->state.moment,
                          s->state.square,
                          s->state.sum,
                          s->state.owned,
                          s->state.reduced,
                          s->pass.tied,
                          s->pass.whole,
                          s->pass.work,
                          s->state.half};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        if (data[i])
            b->release(s->on.self, data[i]);
    for (size_t v = 0; v < s->state.versions; v++)
        b->release(s->on.self, s->state.version[v].data);
    free(s->state.version);
    free(s->state.running);
    free(s->state.digest);
    free(s->share.bucket);
    if (s->pass.filled)
        b->release_host(s->on.self, s->pass.filled);
    free(s->stash.slot);
    free(s->stash.slot_of);
    *s = (struct stage){0};
}
