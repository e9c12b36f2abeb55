/* Who keeps what of a stage that has replicas: the arrays that collectives work on, and updates.
 *
 *   ZeRO 0   gradients are summed everywhere, everyone updates everything
 *   ZeRO 1   every replica gets the sums of its part, updates it, and all gather the parameters
 *   ZeRO 2   the same after every backward: the sums of its part are all that a replica keeps
 *   ZeRO 3   nobody keeps all parameters: they are gathered before every pass
 * Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models,
 * SC 2020, section 5. Which level, how many replicas and where buckets end is in the program
 * (struct program_stage); the parts of the replicas are those of program_zero_part(). While one
 * pass computes, the gradients of the one before are summed and the parameters of the next
 * gathered: hence two arrays of each. */
#include <math.h>
#include <string.h>

#include "core/array.h"
#include "core/plan.h"
#include "exec/device/cpu/stage_parts.h"
#include "exec/device/cpu/vector.h"

enum status stage_find_shares(struct stage *s)
{
    const struct program_rank *me = &s->program->rank[s->rank];
    const struct program_stage *of = &s->program->stage[s->index];
    s->share = (struct stage_share){
        .shard = {.shards = of->shards, .shard = me->shard},
        .replicas = of->replicas,
        .me = me->replica,
        .zero = of->zero,
        .recompute = of->recompute,
        .split = of->split,
        .buckets = of->buckets,
    };
    if (of->split && of->recompute != RECOMPUTE_NONE)
        return error_set(STATUS_UNSUPPORTED, "stage %u: split backwards with recomputation",
                         s->index);
    return STATUS_OK;
}

/* ---- buckets */

/* Where the program's buckets are in the array of parameters. Copies of what other stages own come
 * first there (layout.c): they are in the last bucket, as the program says. */
enum status stage_cut_buckets(struct stage *s)
{
    const struct program_bucket *bucket = s->program->bucket + s->program->stage[s->index].bucket;
    size_t high = s->layout.n, end = s->layout.parameters;
    PASS(ARRAY_NEW(s->share.bucket, s->share.buckets));
    for (size_t b = 0; b < s->share.buckets; b++) {
        struct stage_bucket *to = &s->share.bucket[b];
        if (bucket[b].low >= high && bucket[b].low > 0)
            return error_set(STATUS_INVALID, "stage %u: bucket %zu begins at op %u of %zu",
                             s->index, b, bucket[b].low, s->layout.n);
        to->low = high = bucket[b].low;
        to->first = high > 0 ? s->layout.op[high].parameter : 0;
        to->n = end - to->first;
        to->own = s->share.zero > 0 ? program_zero_part(to->n, s->share.replicas, s->share.me)
                                    : (struct program_range){0, to->n};
        to->at = s->layout.owned_n;
        s->layout.owned_n += to->own.n;
        end = to->first;
    }
    return STATUS_OK;
}

void stage_copy_owned(struct stage *s, real *whole, real *owned, bool to_owned)
{
    for (const struct stage_bucket *p = s->share.bucket; p < s->share.bucket + s->share.buckets;
         p++) {
        real *a = whole + p->first + p->own.first, *b = owned + p->at;
        s->on.backend->copy(s->on.self, to_owned ? b : a, to_owned ? a : b, p->own.n * sizeof *a);
    }
}

/* ---- passes */

/* Room for one more version of the parameters; the newest is in use. */
static enum status add_version(struct stage *s, size_t *out)
{
    size_t v = 0;
    while (v < s->state.versions && (v == s->state.newest || s->state.version[v].users > 0))
        v++;
    if (v ==
        s->state.versions) { /* as many as microbatches are in flight, and one: there is room */
        PASS(stage_allocate_data(s, s->layout.parameters, sizeof(real), &s->state.version[v].data));
        s->state.versions++;
    }
    *out = v;
    return STATUS_OK;
}

/* Without flush (PipeDream, Narayanan et al., SOSP 2019: weight stashing) the backward of a
 * microbatch takes the version that its forward has taken. */
enum status stage_begin_pass(struct stage *s, struct slot *slot, bool forward)
{
    if (forward) {
        slot->version = (uint32_t)s->state.newest;
        s->state.version[s->state.newest].users++;
    }
    if (s->share.zero == 3 && !s->state.gathered)
        return error_set(STATUS_INVALID, "stage %u: a pass before its parameters", s->index);
    s->state.gathered = false;
    const real *parameter = s->state.version[slot->version].data;
    if (s->state.half && s->state.half_of != parameter) {
        s->on.backend->half->narrow(s->on.self, s->state.half, parameter, s->layout.parameters);
        s->state.half_of = parameter;
    }
    return STATUS_OK;
}

void stage_end_pass(struct stage *s, struct slot *slot)
{
    s->state.version[slot->version].users--;
}

/* ---- collectives */

/* Gradients of what is borrowed within the stage join their owner's, if those are in the piece;
 * zero afterwards, so that doing it again changes nothing. */
static void fold(struct stage *s, const struct stage_bucket *piece)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        if (o->owner == NOWHERE || !o->layer.tied || o->owner < piece->low ||
            o->shared >= piece->first + piece->n)
            continue;
        real *tied = s->pass.tied + o->d_shared;
        s->on.backend->add(s->on.self, s->state.gradient + o->shared, tied, o->layer.shared);
        s->on.backend->zero(s->on.self, tied, o->layer.shared * sizeof *tied);
    }
}

static void fold_all(struct stage *s)
{
    for (size_t b = 0; b < s->share.buckets; b++)
        fold(s, &s->share.bucket[b]);
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
        *data = s->state.gradient +
                (mine == NOWHERE ? s->layout.op[k].shared : s->layout.op[mine].parameter);
        *n = mine == NOWHERE             ? s->layout.op[k].layer.shared
             : s->share.shard.shards > 1 ? s->layout.op[mine].layer.part[0].n
                                         : (size_t)(m->op[i].shared_bytes / m->element_bytes);
        return STATUS_OK;
    }
    return error_set(STATUS_INVALID, "stage %u holds no tied parameters of op %u", s->index, owner);
}

/* What replicas reduce next: the gradients of the bucket that the backward has come to. With ZeRO 2
 * and 3 the other array takes over, so that the next pass need not wait. */
static void next_reduced(struct stage *s, real **data, size_t *n)
{
    const struct stage_bucket *p = &s->share.bucket[s->pass.part];
    fold(s, p);
    *data = s->state.gradient + p->first;
    *n = p->n;
    if (s->share.zero < 2)
        return;
    s->state.gradient = s->state.other_gradient;
    s->state.other_gradient = *data;
}

/* Arrays that a collective works on, by purpose:
 *   FOR_TIES     the gradients of one owner's shared parameters
 *   FOR_DATA     the gradients of a bucket
 *   FOR_SHARDS   ZeRO 1, 2: the parameters of one bucket after the other; ZeRO 3: all, of which the
 *                own parts are filled in here */
enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, real **data,
                        size_t *n)
{
    *data = NULL;
    *n = 0;
    if (op->purpose == FOR_TIES)
        return k == 0 ? tied_gradients(s, op->tag, data, n) : STATUS_OK;
    if (op->purpose == FOR_DATA && k == 0) {
        next_reduced(s, data, n);
    } else if (op->purpose == FOR_SHARDS && s->share.zero == 3 && k == 0) {
        stage_copy_owned(s, s->state.other_parameter, s->state.owned, false);
        *data = s->state.other_parameter;
        *n = s->layout.parameters;
    } else if (op->purpose == FOR_SHARDS && s->share.zero < 3 && k < s->share.buckets) {
        *data = s->state.parameter + s->share.bucket[k].first;
        *n = s->share.bucket[k].n;
    }
    return STATUS_OK;
}

/* A collective has ended. ZeRO 2, 3: the own part of what was reduced is added to `sum` and the
 * array is cleared for the pass after next; ZeRO 3: gathered parameters become those of the next
 * pass. */
void stage_collected(struct stage *s, const struct program_op *op)
{
    const struct stage_bucket *p = s->share.bucket;
    s->state.half_of = NULL; /* parameters may be other ones now */
    if (s->share.zero >= 2 && op->purpose == FOR_DATA) {
        s->on.backend->add(s->on.self, s->state.sum, s->state.other_gradient + p->own.first,
                           p->own.n);
        s->on.backend->zero(s->on.self, s->state.other_gradient,
                            s->layout.parameters * sizeof(real));
    } else if (s->share.zero == 3 && op->purpose == FOR_SHARDS) {
        s->state.version[0].data = s->state.other_parameter;
        s->state.other_parameter = s->state.parameter;
        s->state.parameter = s->state.version[0].data;
        s->state.gathered = true;
    }
}

/* ---- update */

/* Microbatches between forward and backward keep the parameters that they have seen. */
static enum status next_version(struct stage *s)
{
    size_t next;
    if (!s->program->asynchronous || s->state.version[s->state.newest].users == 0)
        return STATUS_OK;
    PASS(add_version(s, &next));
    s->on.backend->copy(s->on.self, s->state.version[next].data, s->state.parameter,
                        s->layout.parameters * sizeof(real));
    s->state.newest = next;
    s->state.parameter = s->state.version[next].data;
    return STATUS_OK;
}

static void update_bucket(struct stage *s, const struct stage_bucket *p, struct optimizer_step o)
{
    size_t first = p->first + p->own.first;
    o.n = p->own.n;
    o.parameter = s->state.owned ? s->state.owned + p->at : s->state.parameter + first;
    o.gradient = s->state.sum ? s->state.sum + p->at : s->state.gradient + first;
    if (s->state.moment) {
        o.moment = s->state.moment + p->at;
        o.square = s->state.square + p->at;
    }
    s->on.backend->update(s->on.self, &o);
}

/* The optimizer's step on the own part of every bucket. Bias corrections count updates, not steps:
 * without flush there is one after every microbatch. */
enum status stage_update(struct stage *s)
{
    struct optimizer_step o = {.rate = (real)s->state.learning_rate};
    PASS(next_version(s));
    fold_all(s);
    s->state.half_of = NULL;
    s->state.updates++;
    if (s->state.moment) {
        o.rate = (real)(s->state.learning_rate / (1 - pow(ADAM_BETA1, s->state.updates)));
        o.unbias = (real)(1 / sqrt(1 - pow(ADAM_BETA2, s->state.updates)));
    }
    for (size_t b = 0; b < s->share.buckets; b++)
        update_bucket(s, &s->share.bucket[b], o);
    if (s->state.sum)
        s->on.backend->zero(s->on.self, s->state.sum, s->layout.owned_n * sizeof(real));
    else
        s->on.backend->zero(s->on.self, s->state.gradient, s->layout.parameters * sizeof(real));
    s->pass.part = 0;
    return STATUS_OK;
}
