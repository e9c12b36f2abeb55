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
#include <string.h>

#include "core/array.h"
#include "core/plan.h"
#include "exec/device/cpu/stage.h"
#include "exec/device/cpu/vector.h"

enum status stage_find_shares(struct stage *s)
{
    const struct program_rank *me = &s->program->rank[s->rank];
    const struct program_stage *of = &s->program->stage[s->index];
    s->members = of->replicas;
    s->me = me->replica;
    s->shard = (struct layer_shard){.shards = of->shards, .shard = me->shard};
    s->zero = of->zero;
    s->recompute = of->recompute;
    s->splits = of->split;
    s->pieces = of->buckets;
    if (of->split && of->recompute != RECOMPUTE_NONE)
        return error_set(STATUS_UNSUPPORTED, "stage %u: split backwards with recomputation",
                         s->index);
    return STATUS_OK;
}

/* ---- buckets */

/* Where the program's buckets are in the array of parameters. Copies of what other stages own come
 * first there (layout.c): they are in the last bucket, as the program says. */
enum status stage_cut_pieces(struct stage *s)
{
    enum status st;
    const struct program_bucket *bucket = s->program->bucket + s->program->stage[s->index].bucket;
    size_t high = s->n, end = s->parameters;
    TRY(ARRAY_NEW(s->piece, s->pieces));
    for (size_t b = 0; b < s->pieces; b++) {
        struct stage_piece *piece = &s->piece[b];
        if (bucket[b].low >= high && bucket[b].low > 0)
            return error_set(STATUS_INVALID, "stage %u: bucket %zu begins at op %u of %zu",
                             s->index, b, bucket[b].low, s->n);
        piece->low = bucket[b].low;
        piece->first = piece->low > 0 ? s->op[piece->low].parameter : 0;
        piece->n = end - piece->first;
        struct program_range own = {0, piece->n};
        if (s->zero > 0)
            own = program_zero_part(piece->n, s->members, s->me);
        piece->own = own.first;
        piece->own_n = own.n;
        piece->at = s->owned_n;
        s->owned_n += own.n;
        high = piece->low;
        end = piece->first;
    }
out:
    return st;
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
