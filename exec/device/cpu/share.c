/* Who keeps what of a stage that has replicas: the arrays that collectives work on, and updates.
 *
 *   ZeRO 0   gradients are summed everywhere, everyone updates everything
 *   ZeRO 1   every replica gets the sums of its part, updates it, and all gather the parameters
 *   ZeRO 2   the same after every bucket's part of every backward: the sums of its part are all that
 *            a replica keeps
 *   ZeRO 3   nobody keeps all parameters: those of a bucket are gathered before every part of a pass
 * Source: Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter models,
 * SC 2020, section 5. Which level, how many replicas and where buckets end is in the program
 * (struct program_stage); the parts of the replicas are those of program_zero_part(). While one
 * bucket computes, the gradients of the one before are summed and the parameters of the next
 * gathered: hence two arrays of each, as large as the largest bucket (struct stage_flight). The
 * program counts the same (core/lower/cost.c). */
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
        .part = s->share.part,
        .buckets = of->buckets,
    };
    if (of->split && of->recompute != RECOMPUTE_NONE)
        return error_set(STATUS_UNSUPPORTED, "stage %u: split backwards with recomputation",
                         s->index);
    return STATUS_OK;
}

/* ---- buckets */

/* The k-th of the buckets, and lenders of its ops' weights among them, that ZeRO 3 gathers for
 * bucket b; NOWHERE: there are not so many. In the order of the ops; nothing is gathered of a
 * bucket without parameters. */
static size_t gathered_for(const struct stage *s, size_t b, size_t k)
{
    const struct stage_bucket *p = &s->share.bucket[b];
    if (p->n > 0 && k-- == 0)
        return b;
    for (size_t i = p->low; i < p->high; i++) {
        const struct stage_op *o = &s->layout.op[i];
        bool lent = o->layer.tied && o->owner != NOWHERE && s->layout.op[o->owner].bucket != b;
        for (size_t j = p->low; lent && j < i; j++) /* by an op before it, too */
            lent = !s->layout.op[j].layer.tied || s->layout.op[j].owner != o->owner;
        if (lent && k-- == 0)
            return s->layout.op[o->owner].bucket;
    }
    return NOWHERE;
}

/* Where in the arrays of its passes an op's parameters and gradients are: at their own place, or
 * (ZeRO 3, and gradients with ZeRO 2) in an array of the op's bucket, behind which follow the
 * buckets that it borrows from. */
static void place_op(struct stage *s, struct stage_op *o)
{
    const struct stage_bucket *mine = &s->share.bucket[o->bucket];
    o->at = s->share.zero == 3 ? o->parameter - mine->first : o->parameter;
    o->d_at = s->share.zero >= 2 ? o->parameter - mine->first : o->parameter;
    o->shared_at = o->shared;
    if (s->share.zero < 3 || !o->layer.tied)
        return;
    size_t offset = 0, owner = o->owner == NOWHERE ? o->bucket : s->layout.op[o->owner].bucket;
    for (size_t k = 0, b; (b = gathered_for(s, o->bucket, k)) != NOWHERE && b != owner; k++)
        offset += s->share.bucket[b].n;
    o->shared_at = offset + o->shared - s->share.bucket[owner].first;
}

/* What this replica keeps of n numbers: as transports leave it (struct device_options). */
static struct program_range own_part(const struct stage *s, size_t n)
{
    if (s->share.zero == 0)
        return (struct program_range){0, n};
    if (!s->share.part)
        return program_zero_part(n, s->share.replicas, s->share.me);
    const struct ring_part own = s->share.part(n, s->share.replicas, s->share.me);
    return (struct program_range){own.first, own.n};
}

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
        to->high = high;
        to->low = high = bucket[b].low;
        for (size_t k = to->low; k < to->high; k++)
            s->layout.op[k].bucket = b;
        to->first = high > 0 ? s->layout.op[high].parameter : 0;
        to->n = end - to->first;
        to->own = own_part(s, to->n);
        to->at = s->layout.owned_n;
        s->layout.owned_n += to->own.n;
        end = to->first;
    }
    for (size_t k = 0; k < s->layout.n; k++)
        place_op(s, &s->layout.op[k]);
    for (size_t b = 0, q; b < s->share.buckets; b++)
        for (size_t k = 0; (q = gathered_for(s, b, k)) != NOWHERE; k++)
            s->share.bucket[b].gathered += s->share.bucket[q].n;
    return STATUS_OK;
}

static enum status open_pair(struct cpu *c, size_t n, struct stage_pair *pair)
{
    const struct memory *on = &c->stage->on;
    for (size_t i = 0; i < 2 && n > 0; i++) {
        pair->data[i] = on->backend->allocate(on->self, n * sizeof(real));
        if (!pair->data[i])
            return error_set(STATUS_NOMEM, "no memory for two buckets of %zu numbers", n);
        c->flight.bytes += (int64_t)(n * sizeof(real));
    }
    return STATUS_OK;
}

enum status stage_open_flight(struct cpu *c)
{
    size_t gradients = 0, parameters = 0;
    const struct memory *on = &c->stage->on;
    for (struct stage *s = c->stage; s < c->stage + c->stages; s++) {
        s->flight = &c->flight;
        for (size_t b = 0; b < s->share.buckets && s->share.zero >= 2; b++) {
            const struct stage_bucket *p = &s->share.bucket[b];
            gradients = !s->share.split && p->n > gradients ? p->n : gradients;
            parameters = s->share.zero == 3 && p->gathered > parameters ? p->gathered : parameters;
        }
    }
    if (gradients + parameters > 0 && on->backend->reserve)
        PASS(on->backend->reserve(on->self, 2 * (gradients + parameters) * sizeof(real), 4));
    PASS(open_pair(c, gradients, &c->flight.gradients));
    return open_pair(c, parameters, &c->flight.parameters);
}

/* Numbers `first` .. first + n - 1 of the stage's parameters; this replica keeps its part. */
void stage_keep_owned(struct stage *s, size_t first, size_t n, const real *parameter)
{
    for (const struct stage_bucket *p = s->share.bucket; p < s->share.bucket + s->share.buckets;
         p++) {
        size_t own = p->first + p->own.first, end = own + p->own.n;
        size_t from = own > first ? own : first, to = end < first + n ? end : first + n;
        if (from < to)
            s->on.backend->copy(s->on.self, s->state.owned + p->at + (from - own),
                                parameter + (from - first), (to - from) * sizeof *parameter);
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
void stage_begin_pass(struct stage *s, struct slot *slot, bool forward)
{
    if (!forward)
        return;
    slot->version = (uint32_t)s->state.newest;
    s->state.version[s->state.newest].users++;
}

enum status stage_begin_part(struct stage *s, const struct slot *slot, size_t bucket)
{
    bool sharded = s->share.zero == 3;
    size_t n = sharded ? s->share.bucket[bucket].gathered : s->layout.parameters;
    if (sharded && n > 0 && s->state.gathered != bucket + 1)
        return error_set(STATUS_INVALID, "stage %u: a pass before its parameters", s->index);
    if (n > 0)
        s->state.gathered = 0;
    const real *parameter = sharded ? s->flight->parameters.data[s->flight->parameters.now]
                                    : s->state.version[slot->version].data;
    if (s->state.half && (sharded || s->state.half_of != parameter)) {
        s->on.backend->half->narrow(s->on.self, s->state.half, parameter, n);
        s->state.half_of = parameter;
    }
    return STATUS_OK;
}

const real *stage_parameters(const struct stage *s, size_t k)
{
    return (s->share.zero == 3 ? s->flight->parameters.data[s->flight->parameters.now]
                               : s->state.parameter) +
           s->layout.op[k].at;
}

/* ZeRO 2, 3 */
static struct stage_pair *gradient_pair(struct stage *s)
{
    return s->share.split ? &s->state.halved : &s->flight->gradients;
}

real *stage_gradients(const struct stage *s)
{
    if (s->share.zero < 2)
        return s->state.gradient;
    const struct stage_pair *pair = s->share.split ? &s->state.halved : &s->flight->gradients;
    return pair->data[pair->now];
}

void stage_end_pass(struct stage *s, struct slot *slot)
{
    s->state.version[slot->version].users--;
}

/* ---- collectives */

/* Gradients of what is borrowed within the stage join their owner's, if those are in the bucket;
 * zero afterwards, so that doing it again changes nothing. */
static void fold(struct stage *s, size_t bucket)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        if (o->owner == NOWHERE || !o->layer.tied || s->layout.op[o->owner].bucket != bucket)
            continue;
        real *tied = s->pass.tied + o->d_shared;
        s->on.backend->add(s->on.self, stage_gradients(s) + s->layout.op[o->owner].d_at, tied,
                           o->layer.shared);
        s->on.backend->zero(s->on.self, tied, o->layer.shared * sizeof *tied);
    }
}

static void fold_all(struct stage *s)
{
    for (size_t b = 0; b < s->share.buckets; b++)
        fold(s, b);
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

/* Bucket that a collective of ZeRO 2 or 3 is for, checked by core/check.h. */
static size_t bucket_of(const struct program_op *op)
{
    return op->part > 0 ? op->part - 1u : 0;
}

/* What replicas reduce next: the gradients of the bucket that the backward has come to. With ZeRO 2
 * and 3 the other array takes over, so that the next part need not wait. */
static void next_reduced(struct stage *s, const struct program_op *op, real **data, size_t *n)
{
    size_t bucket = s->share.zero < 2 ? s->pass.part : bucket_of(op);
    fold(s, bucket);
    *data = stage_gradients(s) + (s->share.zero < 2 ? s->share.bucket[bucket].first : 0);
    *n = s->share.bucket[bucket].n;
    if (s->share.zero >= 2)
        gradient_pair(s)->now ^= 1;
}

/* ZeRO 3: array k that is gathered for a bucket, with the own part filled in. */
static void next_gathered(struct stage *s, size_t bucket, uint32_t k, real **data, size_t *n)
{
    struct stage_pair *pair = &s->flight->parameters;
    size_t b = gathered_for(s, bucket, k), offset = 0;
    if (b == NOWHERE)
        return;
    for (uint32_t i = 0; i < k; i++)
        offset += s->share.bucket[gathered_for(s, bucket, i)].n;
    const struct stage_bucket *p = &s->share.bucket[b];
    *data = pair->data[pair->now ^ 1] + offset;
    *n = p->n;
    s->on.backend->copy(s->on.self, *data + p->own.first, s->state.owned + p->at,
                        p->own.n * sizeof(real));
}

/* Arrays that a collective works on, by purpose:
 *   FOR_TIES     the gradients of one owner's shared parameters
 *   FOR_DATA     the gradients of a bucket
 *   FOR_SHARDS   ZeRO 1, 2: the parameters of one bucket after the other; ZeRO 3: of the op's
 *                bucket, then of those that it borrows from */
enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, real **data,
                        size_t *n)
{
    *data = NULL;
    *n = 0;
    if (op->purpose == FOR_TIES)
        return k == 0 ? tied_gradients(s, op->tag, data, n) : STATUS_OK;
    if (op->purpose == FOR_DATA && k == 0) {
        next_reduced(s, op, data, n);
    } else if (op->purpose == FOR_SHARDS && s->share.zero == 3) {
        next_gathered(s, bucket_of(op), k, data, n);
    } else if (op->purpose == FOR_SHARDS) {
        for (size_t b = 0; b < s->share.buckets && !*data; b++) {
            if (s->share.bucket[b].n == 0 || k-- > 0)
                continue;
            *data = s->state.parameter + s->share.bucket[b].first;
            *n = s->share.bucket[b].n;
        }
    }
    return STATUS_OK;
}

/* A collective has ended. ZeRO 2, 3: the own part of what was reduced is added to `sum` and the
 * array is cleared for the bucket after next; ZeRO 3: gathered parameters become those of the next
 * part of a pass. */
void stage_collected(struct stage *s, const struct program_op *op)
{
    s->state.half_of = NULL; /* parameters may be other ones now */
    if (s->share.zero >= 2 && op->purpose == FOR_DATA) {
        const struct stage_bucket *p = &s->share.bucket[bucket_of(op)];
        const struct stage_pair *pair = gradient_pair(s);
        real *reduced = pair->data[pair->now ^ 1];
        s->on.backend->add(s->on.self, s->state.sum + p->at, reduced + p->own.first, p->own.n);
        s->on.backend->zero(s->on.self, reduced, p->n * sizeof *reduced);
    } else if (s->share.zero == 3 && op->purpose == FOR_SHARDS) {
        s->flight->parameters.now ^= 1;
        s->state.gathered = bucket_of(op) + 1;
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
    if (s->share.zero < 2)
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
