/* Who keeps what of a stage that has replicas, and updates it.
 *
 *   ZeRO 0   gradients are summed everywhere, everyone updates everything
 *   ZeRO 1   every replica gets the sums of its part, updates it, and all gather the parameters
 *   ZeRO 2   the same after every bucket's part of every backward: the sums of its part are all
 *            that a replica keeps
 *   ZeRO 3   nobody keeps all parameters: those of a bucket are gathered before every part of a
 *            pass; or (program_stage.keep) all do from the first forward of an iteration to its
 *            update
 * Groups of neighbouring replicas may each have all parts (program_stage.group); then the replicas
 * that have the same part sum it, once in an iteration. Source: Rajbhandari et al., ZeRO: memory
 * optimizations toward training trillion parameter models, SC 2020, section 5. Which level, how
 * many replicas and where buckets end is in the program (struct program_stage); the parts of the
 * replicas are those of program_zero_part(). While one bucket computes, the gradients of the one
 * before are summed and the parameters of the next gathered: hence two arrays of each, as large as
 * the largest bucket (struct stage_flight). The program counts the same
 * (core/lower/cost_memory.c). */
#include <math.h>
#include <string.h>

#include "core/base/array.h"
#include "core/data/plan.h"
#include "exec/device/cpu/stage_parts.h"
#include "exec/device/cpu/vector.h"

enum status stage_find_shares(struct stage *s)
{
    const struct program_rank *me = &s->program->rank[s->rank];
    const struct program_stage *of = &s->program->stage[s->index];
    enum element half = s->layout.half ? s->layout.half : ELEMENT_BF16;
    s->share = (struct stage_share){
        .shard = {.shards = of->tensor_parallel,
                  .shard = me->shard,
                  .parts = of->expert_parallel,
                  .part = me->replica % of->expert_parallel},
        .replicas = of->replicas,
        .me = me->replica,
        .experts = of->expert_parallel,
        .context = of->context_parallel,
        .position = me->replica % of->context_parallel,
        .sequence = of->sequence && of->tensor_parallel > 1,
        .zero = of->zero,
        .reshards = program_reshards(of),
        .members = program_zero_members(of),
        .place = me->replica % program_zero_members(of),
        .split = of->split,
        .part = s->share.part,
        .reduced = s->program->reduce_bytes == 2 ? half : ELEMENT_FP32,
        .gathered = s->program->number_bytes == 2 ? half : ELEMENT_FP32,
        .buckets = of->buckets,
    };
    if (of->split && of->recompute != RECOMPUTE_NONE)
        return error_set(STATUS_UNSUPPORTED,
                         "stage %u: a split backward pass with recomputation is unsupported",
                         s->index);
    return STATUS_OK;
}

/* ---- buckets */

/* In the order of the ops; nothing is gathered of a bucket without parameters. */
size_t stage_gathered_for(const struct stage *s, size_t b, size_t k)
{
    const struct stage_bucket *p = &s->share.bucket[b];
    if (p->n > 0 && k-- == 0)
        return b;
    for (size_t i = p->low; i < p->high; i++) {
        const struct stage_op *o = &s->layout.op[i];
        bool lent =
            o->layer.shared > 0 && o->owner != NOWHERE && s->layout.op[o->owner].bucket != b;
        for (size_t j = p->low; lent && j < i; j++) /* by an op before it, too */
            lent = s->layout.op[j].layer.shared == 0 || s->layout.op[j].owner != o->owner;
        if (lent && k-- == 0)
            return s->layout.op[o->owner].bucket;
    }
    return NOWHERE;
}

struct stage_bucket *stage_experts_of(const struct stage *s, size_t b)
{
    size_t region = s->share.buckets + (s->share.zero >= 2 ? b : 0);
    return region < s->share.regions ? &s->share.bucket[region] : NULL;
}

/* Experts of bucket b that replicas share, so many parameters. */
static size_t shared_experts(const struct stage *s, size_t b)
{
    const struct stage_bucket *experts = s->share.zero >= 2 ? stage_experts_of(s, b) : NULL;
    return experts && s->share.replicas > s->share.experts ? experts->n : 0;
}

size_t stage_flying(const struct stage *s, size_t b, bool parameters)
{
    const struct stage_bucket *p = &s->share.bucket[b];
    return (parameters ? p->gathered : p->n) + shared_experts(s, b);
}

/* ZeRO 2, 3: experts follow what else the arrays of their bucket have. */
static void place_experts(struct stage *s, struct stage_op *o)
{
    const struct stage_bucket *mine = &s->share.bucket[o->bucket],
                              *experts = stage_experts_of(s, o->bucket);
    size_t offset = o->parameter - experts->first;
    o->alone = shared_experts(s, o->bucket) == 0;
    o->at = !s->share.reshards ? o->parameter : offset + (o->alone ? experts->at : mine->gathered);
    o->d_at = offset + (o->alone ? experts->at : mine->n);
}

/* Where in the arrays of its passes an op's parameters and gradients are: at their own place, or
 * (ZeRO 3, and gradients with ZeRO 2) in an array of the op's bucket, behind which follow the
 * buckets that it borrows from. */
static void place_op(struct stage *s, struct stage_op *o)
{
    const struct stage_bucket *mine = &s->share.bucket[o->bucket];
    if (o->layer.spread.ranks > 1 && s->share.zero >= 2) {
        place_experts(s, o);
        return;
    }
    o->at = s->share.reshards ? o->parameter - mine->first : o->parameter;
    o->d_at = s->share.zero >= 2 ? o->parameter - mine->first : o->parameter;
    o->shared_at = o->shared;
    if (!s->share.reshards || o->layer.shared == 0)
        return;
    size_t offset = 0, owner = o->owner == NOWHERE ? o->bucket : s->layout.op[o->owner].bucket;
    for (size_t k = 0, b; (b = stage_gathered_for(s, o->bucket, k)) != NOWHERE && b != owner; k++)
        offset += s->share.bucket[b].n;
    o->shared_at = offset + o->shared - s->share.bucket[owner].first;
}

/* What replica `me` of those that have the same n numbers keeps: as transports leave it (struct
 * device_options). */
static struct program_range share_own_part(const struct stage *s, size_t n, uint32_t replicas,
                                           uint32_t me)
{
    if (s->share.zero == 0 || replicas == 1)
        return (struct program_range){0, n};
    if (!s->share.part)
        return program_zero_part(n, replicas, me);
    const struct ring_part own = s->share.part(n, replicas, me);
    return (struct program_range){own.first, own.n};
}

static void place_region(struct stage *s, struct stage_bucket *to, uint32_t replicas, uint32_t me)
{
    to->own = share_own_part(s, to->n, replicas, me);
    to->at = s->layout.owned_n;
    s->layout.owned_n += to->own.n;
}

/* First parameter of op `k` and those behind it that all replicas have. */
static size_t dense_from(const struct stage *s, size_t k)
{
    while (k < s->layout.n && s->layout.op[k].layer.spread.ranks > 1)
        k++;
    return k < s->layout.n ? s->layout.op[k].parameter : s->layout.dense_n;
}

/* First parameter of the spread experts of op `k` and those behind it. */
static size_t experts_from(const struct stage *s, size_t k)
{
    while (k < s->layout.n && s->layout.op[k].layer.spread.ranks < 2)
        k++;
    return k < s->layout.n ? s->layout.op[k].parameter : s->layout.parameters;
}

/* Where the program's buckets are in the array of parameters. Copies of what other stages own come
 * first there (layout.c): they are in the last bucket, as the program says. */
enum status stage_cut_buckets(struct stage *s)
{
    const struct program_bucket *bucket = s->program->bucket + s->program->stage[s->index].bucket;
    size_t high = s->layout.n, end = s->layout.dense_n;
    bool experts = s->layout.dense_n < s->layout.parameters;
    s->share.regions = s->share.buckets + (!experts             ? 0
                                           : s->share.zero >= 2 ? s->share.buckets
                                                                : 1);
    PASS(ARRAY_NEW(s->share.bucket, s->share.regions));
    for (size_t b = 0; b < s->share.buckets; b++) {
        struct stage_bucket *to = &s->share.bucket[b];
        if (bucket[b].low >= high && bucket[b].low > 0)
            return error_set(STATUS_INVALID,
                             "stage %u: bucket %zu begins at op %u, expected one of its %zu ops",
                             s->index, b, bucket[b].low, s->layout.n);
        to->high = high;
        to->low = high = bucket[b].low;
        for (size_t k = to->low; k < to->high; k++)
            s->layout.op[k].bucket = b;
        to->first = high > 0 ? dense_from(s, high) : 0;
        to->n = end - to->first;
        place_region(s, to, s->share.members, s->share.place);
        end = to->first;
    }
    end = s->layout.parameters;
    for (size_t r = s->share.buckets; r < s->share.regions; r++) {
        struct stage_bucket *to = &s->share.bucket[r];
        to->first = s->share.zero >= 2 ? experts_from(s, s->share.bucket[r - s->share.buckets].low)
                                       : s->layout.dense_n;
        to->n = end - to->first;
        place_region(s, to, s->share.replicas / s->share.experts, s->share.me / s->share.experts);
        end = to->first;
    }
    for (size_t b = 0, q; b < s->share.buckets; b++)
        for (size_t k = 0; (q = stage_gathered_for(s, b, k)) != NOWHERE; k++)
            s->share.bucket[b].gathered += s->share.bucket[q].n;
    for (size_t k = 0; k < s->layout.n; k++)
        place_op(s, &s->layout.op[k]);
    return STATUS_OK;
}

/* An array in flight, of reals; nothing when n is 0. */
static enum status open_flight(struct stage_set *c, size_t n, real **data)
{
    const struct memory *on = &c->stage->on;
    if (n == 0)
        return STATUS_OK;
    *data = on->backend->allocate(on->self, n * sizeof(real));
    if (!*data)
        return error_set(STATUS_NOMEM, "out of memory: bucket of %zu bytes", n * sizeof(real));
    c->flight.bytes += (int64_t)(n * sizeof(real));
    return STATUS_OK;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Reals that n numbers in 16 bits take. */
static size_t half_room(size_t n)
{
    return n > 0 ? n / 2 + 1 : 0;
}

enum status stage_open_flight(struct stage_set *c)
{
    size_t gradients = 0, parameters = 0, reduced = 0, gathered = 0,
           summed = 0; /* of the largest bucket */
    const struct memory *on = &c->stage->on;
    for (struct stage *s = c->stage; s < c->stage + c->stages; s++) {
        s->flight = &c->flight;
        for (size_t b = 0; b < s->share.buckets && s->share.zero >= 2; b++) {
            const struct stage_bucket *p = &s->share.bucket[b];
            size_t all = stage_flying(s, b, false), n = stage_flying(s, b, s->share.reshards);
            gradients = larger(s->share.split ? 0 : all, gradients);
            parameters = larger(s->share.reshards ? n : 0, parameters);
            reduced = larger(s->share.reduced != ELEMENT_FP32 ? half_room(all) : 0, reduced);
            bool hybrid = s->share.members < s->share.replicas && s->share.reduced != ELEMENT_FP32;
            summed = larger(hybrid ? half_room(p->own.n) : 0, summed);
            gathered = larger(s->share.gathered != ELEMENT_FP32 ? half_room(n) : 0, gathered);
        }
    }
    size_t room = 2 * (gradients + parameters) + reduced + gathered + summed;
    if (room > 0 && on->backend->reserve)
        PASS(on->backend->reserve(on->self, room * sizeof(real), 7));
    for (size_t i = 0; i < 2; i++) {
        PASS(open_flight(c, gradients, &c->flight.gradients.data[i]));
        PASS(open_flight(c, parameters, &c->flight.parameters.data[i]));
    }
    PASS(open_flight(c, reduced, &c->flight.reduced));
    PASS(open_flight(c, summed, &c->flight.summed));
    return open_flight(c, gathered, &c->flight.gathered);
}

/* Numbers `first` .. first + n - 1 of the stage's parameters; this replica keeps its part. */
void stage_keep_owned(struct stage *s, size_t first, size_t n, const real *parameter)
{
    for (const struct stage_bucket *p = s->share.bucket; p < s->share.bucket + s->share.regions;
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
    bool sharded = s->share.reshards;
    size_t n = sharded ? stage_flying(s, bucket, true) : s->layout.parameters;
    if (sharded && n > 0 && s->state.gathered != bucket + 1)
        return error_set(
            STATUS_INVALID,
            "stage %u: the program runs a pass before it gathers the parameters of the pass",
            s->index);
    if (n > 0)
        s->state.gathered = 0;
    const real *parameter = sharded ? s->flight->parameters.data[s->flight->parameters.now]
                                    : s->state.version[slot->version].data;
    if (s->state.half && (sharded || s->state.half_of != parameter)) {
        s->on.backend->narrow(s->on.self, s->layout.half, s->state.half, parameter, n);
        s->state.half_of = parameter;
    }
    return STATUS_OK;
}

const real *stage_parameters(const struct stage *s, size_t k)
{
    const struct stage_op *o = &s->layout.op[k];
    const real *all = !s->share.reshards ? s->state.parameter
                      : o->alone         ? s->state.owned
                                         : s->flight->parameters.data[s->flight->parameters.now];
    return all + o->at;
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
    s->state.since++;
}

/* Without flush an update is by the mean of the microbatches that it comes after; the weight of one
 * is that of an update after each. */
static void take_mean(struct stage *s, double *scale)
{
    uint32_t microbatches = s->program->asynchronous ? s->state.since : 1;
    s->state.since = 0;
    if (microbatches > 1)
        *scale /= microbatches;
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
    if (s->state.moment)
        o.moment = s->state.moment + p->at;
    if (s->state.square)
        o.square = s->state.square + p->at;
    if (o.clears && s->state.half)
        o.half = element_at(s->layout.half, s->state.half, first);
    s->on.backend->update(s->on.self, &o);
}

/* Gradients are scaled down, so that the norm of all is at most optimizer.clip: this stage has them
 * all, or norm.c has asked all ranks. The sum is in double, in the order of the parameters. */
static double clipped(const struct stage *s, double scale)
{
    double squares = 0, most = s->state.optimizer.clip;
    for (size_t i = 0; i < s->layout.parameters; i++)
        squares += (double)s->state.gradient[i] * (double)s->state.gradient[i];
    double norm = scale * sqrt(squares);
    return norm > most ? most / norm : 1;
}

/* The optimizer's step on the own part of every bucket. Bias corrections count updates, not steps:
 * without flush there is one after every microbatch. */
enum status stage_update(struct stage *s)
{
    const struct optimizer *by = &s->state.optimizer;
    double rate = s->state.learning_rate * s->state.factor;
    struct optimizer_step o = {.rate = (real)rate,
                               .decay = (real)(by->adam ? rate * by->decay : by->decay),
                               .momentum = (real)by->momentum,
                               .nesterov = by->nesterov > 0,
                               .as = s->layout.half};
    double scale = s->state.scale;
    PASS(next_version(s));
    take_mean(s, &scale);
    if (s->share.zero < 2)
        stage_fold(s);
    /* without ZeRO the own part is all, which passes use: what follows an update is made with it */
    o.clears = s->on.backend->update_finishes && s->share.zero == 0;
    if (s->state.is_clipped)
        scale *= s->state.clipped;
    else if (by->clip > 0 && s->on.backend->clip)
        o.clipped = s->on.backend->clip(s->on.self, s->state.gradient, s->layout.parameters, scale,
                                        by->clip);
    else if (by->clip > 0)
        scale *= clipped(s, scale);
    o.scale = (real)scale;
    s->state.is_clipped = false;
    s->state.half_of = NULL;
    s->state.updates++;
    if (s->state.square) {
        o.rate = (real)(rate / (1 - pow(ADAM_BETA1, s->state.updates)));
        o.unbias = (real)(1 / sqrt(1 - pow(ADAM_BETA2, s->state.updates)));
    }
    for (size_t b = 0; b < s->share.regions; b++)
        update_bucket(s, &s->share.bucket[b], o);
    if (o.clears)
        s->state.half_of = s->state.half ? s->state.parameter : NULL;
    else if (s->state.sum)
        s->on.backend->zero(s->on.self, s->state.sum, s->layout.owned_n * sizeof(real));
    else
        s->on.backend->zero(s->on.self, s->state.gradient, s->layout.parameters * sizeof(real));
    s->pass.part = 0;
    return STATUS_OK;
}
