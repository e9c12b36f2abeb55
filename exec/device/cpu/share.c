/* Who keeps what of a stage that has replicas: the arrays that collectives work on, and updates.
 *
 *   ZeRO 0   gradients are summed everywhere, everyone updates everything
 *   ZeRO 1   every replica gets the sums of its part, updates it, and all gather the parameters
 *   ZeRO 2   the same after every backward: the sums of its part are all that a replica keeps
 *   ZeRO 3   nobody keeps all parameters: they are gathered before every pass
 * Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models,
 * SC 2020. While one pass computes, the gradients of the one before are summed and the parameters
 * of the next gathered: hence two arrays of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost.h"
#include "core/plan.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/cpu/vector.h"
#include "exec/ring.h"

/* ---- what the program says */

static bool is_over_replicas(const struct program_op *o)
{
    return op_is_collective(o) && (o->purpose == FOR_DATA || o->purpose == FOR_SHARDS);
}

static void read_op(struct stage *s, const struct program_op *o)
{
    bool passing = o->microbatch != PROGRAM_NONE; /* belongs to a microbatch, not to the step */
    uint32_t zero = o->kind == OP_REDUCESCATTER ? (passing ? 2 : 1)
                    : o->kind == OP_ALLGATHER   ? (passing ? 3 : 1)
                                                : 0;
    if (is_over_replicas(o))
        s->zero = zero > s->zero ? zero : s->zero;
    s->splits = s->splits || o->kind == OP_BACKWARD_INPUT;
    if (o->kind == OP_BACKWARD && o->part > 0) {
        s->bucketed = o->microbatch;
        s->pieces = o->part + 1u > s->pieces ? o->part + 1u : s->pieces;
    }
}

static enum status find_group(struct stage *s, uint32_t group)
{
    const struct program *p = s->program;
    s->members = p->group_start[group + 1] - p->group_start[group];
    for (s->me = 0; s->me < s->members; s->me++)
        if (p->member[p->group_start[group] + s->me] == s->rank)
            return STATUS_OK;
    return error_set(STATUS_INVALID, "rank %u is no member of group %u", s->rank, group);
}

enum status stage_find_shares(struct stage *s)
{
    enum status st = STATUS_OK;
    const struct program *p = s->program;
    const struct program_rank *me = &p->rank[s->rank];
    s->members = s->pieces = s->shard.shards = 1;
    s->bucketed = PROGRAM_NONE;
    s->shard.shard = me->shard;
    s->recompute = p->recompute ? p->recompute[s->index] : RECOMPUTE_NONE;
    for (size_t r = 0; r < p->ranks; r++)
        if (p->rank[r].stage == me->stage && p->rank[r].replica == me->replica &&
            p->rank[r].shard >= s->shard.shards)
            s->shard.shards = p->rank[r].shard + 1u;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->stage != s->index)
            continue;
        read_op(s, o);
        if (is_over_replicas(o))
            TRY(find_group(s, o->peer));
    }
    if (s->splits && s->recompute != RECOMPUTE_NONE)
        st =
            error_set(STATUS_UNSUPPORTED, "stage %u: split backwards with recomputation", s->index);
out:
    return st;
}

/* ---- pieces */

/* Bytes of the sum that follows part `part` of the backward in buckets. */
static int64_t bucket_bytes(const struct stage *s, size_t part)
{
    const struct program *p = s->program;
    bool next = false;
    for (size_t i = p->op_start[s->rank]; i < p->op_start[s->rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->stage != s->index)
            continue;
        if (next && op_is_collective(o))
            return o->purpose == FOR_DATA ? o->bytes : 0;
        next = o->kind == OP_BACKWARD && o->microbatch == s->bucketed && o->part == part;
    }
    return 0;
}

/* First op of the bucket that ends before op `high`: lowering adds ops from the last to the first
 * until their parameters come to the bucket's bytes, counted as it does. */
static size_t bucket_low(const struct stage *s, size_t high, int64_t bytes)
{
    const struct cost_split split = {(uint32_t)s->shard.shards, 1, false};
    int64_t sum = 0;
    while (high > 0 && sum < bytes) {
        const struct model_op *o = &s->model->op[s->op[--high].index];
        double part = cost_part(o, &split).parameters;
        sum += part < 1 ? (int64_t)(part * (double)o->parameter_bytes) : o->parameter_bytes;
    }
    return high;
}

enum status stage_cut_pieces(struct stage *s)
{
    size_t high = s->n, end = s->parameters;
    s->piece = calloc(s->pieces, sizeof *s->piece);
    if (!s->piece)
        return error_set(STATUS_NOMEM, "%zu buckets", s->pieces);
    for (size_t b = 0; b < s->pieces; b++) {
        struct stage_piece *piece = &s->piece[b];
        bool last = b + 1 == s->pieces;
        piece->low = last ? 0 : bucket_low(s, high, bucket_bytes(s, b));
        piece->first = last ? 0 : s->op[piece->low].parameter;
        piece->n = end - piece->first;
        struct ring_part own = {0, piece->n};
        if (s->zero > 0)
            own = ring_part(piece->n, s->members, ring_owned(s->members, s->me));
        piece->own = own.first;
        piece->own_n = own.n;
        piece->at = s->owned_n;
        s->owned_n += own.n;
        high = piece->low;
        end = piece->first;
    }
    return STATUS_OK;
}

void stage_copy_owned(struct stage *s, real *whole, real *owned, bool to_owned)
{
    for (const struct stage_piece *p = s->piece; p < s->piece + s->pieces; p++) {
        real *a = whole + p->first + p->own, *b = owned + p->at;
        s->on.backend->copy(s->on.self, to_owned ? b : a, to_owned ? a : b, p->own_n * sizeof *a);
    }
}

/* ---- passes */

/* Room for one more version of the parameters; the newest is in use. */
static enum status add_version(struct stage *s, size_t *out)
{
    enum status st;
    size_t v = 0;
    while (v < s->versions && (v == s->newest || s->version[v].users > 0))
        v++;
    if (v == s->versions) { /* as many as microbatches are in flight, and one: there is room */
        TRY(stage_allocate_data(s, s->parameters, sizeof(real), &s->version[v].data));
        s->versions++;
    }
    *out = v;
    st = STATUS_OK;
out:
    return st;
}

enum status stage_begin_pass(struct stage *s, struct slot *slot, bool forward)
{
    if (forward) {
        slot->version = (uint32_t)s->newest;
        s->version[s->newest].users++;
    }
    if (s->zero == 3 && !s->gathered)
        return error_set(STATUS_INVALID, "stage %u: a pass before its parameters", s->index);
    s->gathered = false;
    const real *parameter = s->version[slot->version].data;
    if (s->half && s->half_of != parameter) {
        s->on.backend->half->narrow(s->on.self, s->half, parameter, s->parameters);
        s->half_of = parameter;
    }
    return STATUS_OK;
}

void stage_end_pass(struct stage *s, struct slot *slot)
{
    s->version[slot->version].users--;
}

/* ---- collectives */

/* Gradients of what is borrowed within the stage join their owner's, if those are in the piece;
 * zero afterwards, so that doing it again changes nothing. */
static void fold(struct stage *s, const struct stage_piece *piece)
{
    for (size_t k = 0; k < s->n; k++) {
        const struct stage_op *o = &s->op[k];
        if (o->owner == NOWHERE || !o->layer.tied || o->owner < piece->low ||
            o->shared >= piece->first + piece->n)
            continue;
        real *tied = s->tied + o->d_shared;
        s->on.backend->add(s->on.self, s->gradient + o->shared, tied, o->layer.shared);
        s->on.backend->zero(s->on.self, tied, o->layer.shared * sizeof *tied);
    }
}

static void fold_all(struct stage *s)
{
    for (size_t b = 0; b < s->pieces; b++)
        fold(s, &s->piece[b]);
}

/* Gradients of the parameters of op `owner` that stages share. */
static enum status tied_gradients(struct stage *s, uint32_t owner, real **data, size_t *n)
{
    const struct model *m = s->model;
    uint32_t mine = stage_find(s, owner);
    fold_all(s);
    for (uint32_t i = 0; i < m->n; i++) { /* the borrowers agree on how much: check_ties() */
        uint32_t k = m->op[i].shares == owner ? stage_find(s, i) : NOWHERE;
        if (m->op[i].shares != owner || (mine == NOWHERE && k == NOWHERE))
            continue;
        *data = s->gradient + (mine == NOWHERE ? s->op[k].shared : s->op[mine].parameter);
        *n = mine == NOWHERE       ? s->op[k].layer.shared
             : s->shard.shards > 1 ? s->op[mine].layer.part[0].n
                                   : (size_t)(m->op[i].shared_bytes / m->element_bytes);
        return STATUS_OK;
    }
    return error_set(STATUS_INVALID, "stage %u holds no tied parameters of op %u", s->index, owner);
}

static void summed(struct stage *s, real **data, size_t *n)
{
    const struct stage_piece *p = &s->piece[s->part];
    fold(s, p);
    *data = s->gradient + p->first;
    *n = p->n;
    if (s->zero < 2)
        return;
    s->gradient = s->other_gradient;
    s->other_gradient = *data;
}

enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, real **data,
                        size_t *n)
{
    *data = NULL;
    *n = 0;
    if (op->purpose == FOR_TIES)
        return k == 0 ? tied_gradients(s, op->tag, data, n) : STATUS_OK;
    if (op->purpose == FOR_DATA && k == 0) {
        summed(s, data, n);
    } else if (op->purpose == FOR_SHARDS && s->zero == 3 && k == 0) {
        stage_copy_owned(s, s->other_parameter, s->owned, false);
        *data = s->other_parameter;
        *n = s->parameters;
    } else if (op->purpose == FOR_SHARDS && s->zero < 3 && k < s->pieces) {
        *data = s->parameter + s->piece[k].first;
        *n = s->piece[k].n;
    }
    return STATUS_OK;
}

void stage_collected(struct stage *s, const struct program_op *op)
{
    const struct stage_piece *p = s->piece;
    s->half_of = NULL; /* parameters may be other ones now */
    if (s->zero >= 2 && op->purpose == FOR_DATA) {
        s->on.backend->add(s->on.self, s->sum, s->other_gradient + p->own, p->own_n);
        s->on.backend->zero(s->on.self, s->other_gradient, s->parameters * sizeof(real));
    } else if (s->zero == 3 && op->purpose == FOR_SHARDS) {
        s->version[0].data = s->other_parameter;
        s->other_parameter = s->parameter;
        s->parameter = s->version[0].data;
        s->gathered = true;
    }
}

/* ---- update */

/* Microbatches between forward and backward keep the parameters that they have seen. */
static enum status next_version(struct stage *s)
{
    enum status st = STATUS_OK;
    size_t next;
    if (!s->program->asynchronous || s->version[s->newest].users == 0)
        return STATUS_OK;
    TRY(add_version(s, &next));
    s->on.backend->copy(s->on.self, s->version[next].data, s->parameter,
                        s->parameters * sizeof(real));
    s->newest = next;
    s->parameter = s->version[next].data;
out:
    return st;
}

static void update_piece(struct stage *s, const struct stage_piece *p, struct optimizer_step o)
{
    size_t first = p->first + p->own;
    o.n = p->own_n;
    o.parameter = s->owned ? s->owned + p->at : s->parameter + first;
    o.gradient = s->sum ? s->sum + p->at : s->gradient + first;
    if (s->moment) {
        o.moment = s->moment + p->at;
        o.square = s->square + p->at;
    }
    s->on.backend->update(s->on.self, &o);
}

enum status stage_update(struct stage *s)
{
    enum status st;
    struct optimizer_step o = {.rate = (real)s->learning_rate};
    TRY(next_version(s));
    fold_all(s);
    s->half_of = NULL;
    s->updates++;
    if (s->moment) {
        o.rate = (real)(s->learning_rate / (1 - pow(ADAM_BETA1, s->updates)));
        o.unbias = (real)(1 / sqrt(1 - pow(ADAM_BETA2, s->updates)));
    }
    for (size_t b = 0; b < s->pieces; b++)
        update_piece(s, &s->piece[b], o);
    if (s->sum)
        s->on.backend->zero(s->on.self, s->sum, s->owned_n * sizeof(real));
    else
        s->on.backend->zero(s->on.self, s->gradient, s->parameters * sizeof(real));
    s->part = 0;
out:
    return st;
}
