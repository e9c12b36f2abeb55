/* The arrays that collectives of a stage work on: gradients and parameters as they are, or copies
 * of them in 16 bits where the program's sums and gathers are of such numbers. */
#include "exec/device/cpu/stage_parts.h"

/* ZeRO 2, 3 */
static struct stage_pair *gradient_pair(struct stage *s)
{
    return s->share.split ? &s->state.halved : &s->flight->gradients;
}

/* Gradients of what is borrowed within the stage join their lender's, if those are in the bucket
 * (copies are in the last one); zero afterwards, so that doing it again changes nothing. */
static void bucket_fold_borrowed(struct stage *s, size_t bucket)
{
    for (size_t k = 0; k < s->layout.n; k++) {
        const struct stage_op *o = &s->layout.op[k];
        const struct stage_op *lender = &s->layout.op[o->owner];
        if (o->layer.shared == 0 || o->owner == NOWHERE ||
            (o->second ? s->share.buckets - 1 : lender->bucket) != bucket)
            continue;
        real *tied = s->pass.tied + o->d_shared;
        s->on.backend->add(s->on.self,
                           stage_gradients(s) + (o->second ? lender->d_shared : lender->d_at), tied,
                           o->layer.shared);
        s->on.backend->zero(s->on.self, tied, o->layer.shared * sizeof *tied);
    }
}

void stage_fold(struct stage *s)
{
    for (size_t b = 0; b < s->share.buckets; b++)
        bucket_fold_borrowed(s, b);
}

/* Gradients of the parameters of op `owner` that stages share: numbers *first .. *first + *n - 1 of
 * the stage's. */
static enum status find_tied(const struct stage *s, uint32_t owner, size_t *first, size_t *n)
{
    const struct model *m = s->model;
    uint32_t mine = stage_find(s, owner);
    for (uint32_t i = 0; i < m->n; i++) { /* the borrowers agree on how much: check_ties() */
        uint32_t k = m->op[i].shares == owner ? stage_find(s, i) : NOWHERE;
        if (m->op[i].shares != owner || (mine == NOWHERE && k == NOWHERE))
            continue;
        *first = mine == NOWHERE ? s->layout.op[k].shared : s->layout.op[mine].parameter;
        *n = mine == NOWHERE             ? s->layout.op[k].layer.shared
             : layer_borrows(m, i)       ? s->layout.op[mine].layer.parameters
             : s->share.shard.shards > 1 ? s->layout.op[mine].layer.part[0].n
                                         : (size_t)(m->op[i].shared_bytes / m->element_bytes);
        return STATUS_OK;
    }
    return error_set(STATUS_INVALID, "stage %u has no tied parameters of op %u", s->index, owner);
}

/* Bucket that a collective of ZeRO 2 or 3 is for, checked by core/data/program_check.h. */
static size_t bucket_of(const struct program_op *op)
{
    return op->part > 0 ? op->part - 1u : 0;
}

/* Number n of an array in 16 bits. */
static void *half_number(const real *data, size_t n)
{
    return element_at(ELEMENT_BF16, data, n);
}

/* What a collective works on of `array` [n], whose numbers it has as `e`, of 16 bits, at number
 * `at` of `half`. */
static void *in_half(const struct stage *s, enum element e, const real *array, size_t n,
                     const real *half, size_t at)
{
    s->on.backend->narrow(s->on.self, e, half_number(half, at), array, n);
    return half_number(half, at);
}

enum status stage_tied(struct stage *s, uint32_t owner, real **gradient, size_t *n)
{
    size_t first;
    stage_fold(s);
    PASS(find_tied(s, owner, &first, n));
    *gradient = s->state.gradient + first;
    return STATUS_OK;
}

/* Gradients of tied weights: the whole of them, as each member has its own. */
static enum status next_tied(struct stage *s, uint32_t owner, void **data, size_t *n)
{
    real *gradient;
    PASS(stage_tied(s, owner, &gradient, n));
    *data = s->share.reduced == ELEMENT_FP32
                ? gradient
                : in_half(s, s->share.reduced, gradient, *n, s->state.reduced,
                          (size_t)(gradient - s->state.gradient));
    return STATUS_OK;
}

/* Is the collective of those replicas that have the same experts? */
static bool is_of_experts(const struct stage *s, const struct program_op *op)
{
    const struct program *p = s->program;
    return s->share.regions > s->share.buckets &&
           p->group_start[op->peer + 1] - p->group_start[op->peer] < s->share.replicas;
}

/* What a collective FOR_DATA or FOR_SHARDS of ZeRO 2 or 3 is of: a bucket's own, or its experts. */
static struct stage_bucket *region_of(const struct stage *s, const struct program_op *op)
{
    return is_of_experts(s, op) ? stage_experts_of(s, bucket_of(op))
                                : &s->share.bucket[bucket_of(op)];
}

/* Where experts follow in the array of their bucket. */
static size_t behind(const struct stage *s, const struct program_op *op, bool parameters)
{
    const struct stage_bucket *p = &s->share.bucket[bucket_of(op)];
    return !is_of_experts(s, op) ? 0 : parameters ? p->gathered : p->n;
}

/* ZeRO 2, 3: gradients of a bucket. The other array takes over, so that the next part need not
 * wait; of experts it has, if the bucket has something else. */
static void next_flying(struct stage *s, const struct program_op *op, void **data, size_t *n)
{
    struct stage_pair *pair = gradient_pair(s);
    struct stage_bucket *p = region_of(s, op);
    if (!is_of_experts(s, op))
        bucket_fold_borrowed(s, bucket_of(op));
    if (!is_of_experts(s, op) || s->share.bucket[bucket_of(op)].n == 0)
        pair->now ^= 1;
    real *gradient = pair->data[pair->now ^ 1] + behind(s, op, false);
    *n = p->n;
    *data = s->share.reduced == ELEMENT_FP32
                ? gradient
                : in_half(s, s->share.reduced, gradient, p->n, s->flight->reduced, 0);
}

/* What replicas reduce next: the gradients of the bucket that the backward has come to. */
static void next_reduced(struct stage *s, const struct program_op *op, void **data, size_t *n)
{
    size_t bucket = is_of_experts(s, op) ? s->share.buckets : s->pass.part;
    struct stage_bucket *p = &s->share.bucket[bucket];
    bucket_fold_borrowed(s, bucket);
    real *gradient = s->state.gradient + p->first;
    *n = p->n;
    p->op = op;
    if (s->share.reduced == ELEMENT_FP32)
        *data = gradient;
    else
        *data = in_half(s, s->share.reduced, gradient, p->n, s->state.reduced, p->first);
}

/* ZeRO 3: array k that is gathered for a bucket, with the own part filled in. */
static void next_gathered(struct stage *s, const struct program_op *op, uint32_t k, void **data,
                          size_t *n)
{
    struct stage_pair *pair = &s->flight->parameters;
    size_t bucket = bucket_of(op), offset = behind(s, op, true);
    bool experts = is_of_experts(s, op);
    size_t b = experts ? (k == 0 ? 0 : (size_t)NOWHERE) : stage_gathered_for(s, bucket, k);
    if (b == NOWHERE)
        return;
    for (uint32_t i = 0; i < k; i++)
        offset += s->share.bucket[stage_gathered_for(s, bucket, i)].n;
    const struct stage_bucket *p = experts ? region_of(s, op) : &s->share.bucket[b];
    const real *own = s->state.owned + p->at;
    real *array = pair->data[pair->now ^ 1] + offset;
    *n = p->n;
    if (s->share.gathered == ELEMENT_FP32) {
        s->on.backend->copy(s->on.self, array + p->own.first, own, p->own.n * sizeof(real));
        *data = array;
    } else {
        in_half(s, s->share.gathered, own, p->own.n, s->flight->gathered, offset + p->own.first);
        *data = half_number(s->flight->gathered, offset);
    }
}

/* Are parameters gathered a bucket at a time, and stay? */
static bool bucket_is_kept(const struct stage *s)
{
    return s->program->stage[s->index].keep;
}

/* Where numbers are in 16 bits on their way to other replicas. */
static real *gathered_half(const struct stage *s)
{
    return s->share.zero == 1 ? s->state.reduced : s->flight->gathered;
}

/* Parameters that stay: those of a bucket, with the own part in its place. */
static void next_kept(struct stage *s, const struct program_op *op, void **data, size_t *n)
{
    const struct stage_bucket *p = region_of(s, op);
    *n = p->n;
    *data = s->state.parameter + p->first;
    if (s->share.gathered == ELEMENT_FP32)
        return;
    in_half(s, s->share.gathered, s->state.owned + p->at, p->own.n, gathered_half(s), p->own.first);
    *data = gathered_half(s);
}

/* The own part of a bucket, reduced: what is summed over the groups of replicas, and where its copy
 * in 16 bits is. */
static real *own_sum(const struct stage *s, const struct stage_bucket *p, void **half)
{
    bool summed = s->share.zero >= 2;
    if (s->share.reduced != ELEMENT_FP32)
        *half = summed ? half_number(s->flight->summed, 0)
                       : half_number(s->state.reduced, p->first + p->own.first);
    return summed ? s->state.sum + p->at : s->state.gradient + p->first + p->own.first;
}

/* Hybrid sharding: what the replica has of the sums of its group. */
static void next_own(struct stage *s, const struct program_op *op, void **data, size_t *n)
{
    const struct stage_bucket *p = &s->share.bucket[bucket_of(op)];
    void *half = NULL;
    real *own = own_sum(s, p, &half);
    *n = p->own.n;
    *data = own;
    if (s->share.reduced == ELEMENT_FP32)
        return;
    s->on.backend->narrow(s->on.self, s->share.reduced, half, own, p->own.n);
    *data = half;
}

/* Is it a sum over groups of replicas, of what they have reduced? */
static bool sums_groups(const struct stage *s, const struct program_op *op)
{
    return s->share.zero > 0 && op->purpose == FOR_DATA && op->kind == OP_ALLREDUCE;
}

/* ZeRO 1, 2: the k-th bucket that has parameters; NOWHERE: there are not so many. */
static size_t spread_bucket(const struct stage *s, const struct program_op *op, uint32_t k)
{
    bool experts = is_of_experts(s, op);
    for (size_t b = experts ? s->share.buckets : 0;
         b < (experts ? s->share.regions : s->share.buckets); b++)
        if (s->share.bucket[b].n > 0 && k-- == 0)
            return b;
    return NOWHERE;
}

/* ZeRO 1, 2: array k of the parameters. In 16 bits all replicas, their owner too, have what was
 * gathered, bucket after bucket in one place; only the owner's state.owned is not rounded. */
static void next_spread(struct stage *s, const struct program_op *op, uint32_t k, void **data,
                        size_t *n)
{
    bool whole = s->share.gathered == ELEMENT_FP32;
    real *half = gathered_half(s);
    size_t b = spread_bucket(s, op, k);
    if (k > 0 && !whole) {
        const struct stage_bucket *last = &s->share.bucket[spread_bucket(s, op, k - 1)];
        s->on.backend->widen(s->on.self, s->share.gathered, s->state.parameter + last->first, half,
                             last->n);
    }
    if (b == NOWHERE)
        return;
    const struct stage_bucket *p = &s->share.bucket[b];
    *n = p->n;
    *data = s->state.parameter + p->first;
    if (whole)
        return;
    in_half(s, s->share.gathered, s->state.owned + p->at, p->own.n, half, p->own.first);
    *data = half;
}

/* Arrays that a collective works on, by purpose:
 *   FOR_TIES     the gradients of one owner's shared parameters
 *   FOR_DATA     the gradients of a bucket; between groups of replicas the own part of them
 *   FOR_SHARDS   ZeRO 1, 2: the parameters of one bucket after the other; ZeRO 3: of the op's
 *                bucket, then of those that it borrows from; where they stay, of the op's bucket
 *   FOR_PIPELINE messages that came in parts */
enum status stage_array(struct stage *s, const struct program_op *op, uint32_t k, enum element *e,
                        void **data, size_t *n)
{
    *data = NULL;
    *n = 0;
    *e = op->purpose == FOR_SHARDS ? s->share.gathered : s->share.reduced;
    if (op->purpose == FOR_PIPELINE) {
        *e = ELEMENT_FP32;
        stage_received(s, op, k, data, n);
        return STATUS_OK;
    }
    if (op->purpose == FOR_TIES)
        return k == 0 ? next_tied(s, op->tag, data, n) : STATUS_OK;
    if (sums_groups(s, op) && k == 0)
        next_own(s, op, data, n);
    else if (op->purpose == FOR_DATA && k == 0 && s->share.zero >= 2)
        next_flying(s, op, data, n);
    else if (op->purpose == FOR_DATA && k == 0)
        next_reduced(s, op, data, n);
    else if (op->purpose == FOR_SHARDS && s->share.reshards)
        next_gathered(s, op, k, data, n);
    else if (op->purpose == FOR_SHARDS && !bucket_is_kept(s))
        next_spread(s, op, k, data, n);
    else if (op->purpose == FOR_SHARDS && k == 0)
        next_kept(s, op, data, n);
    return STATUS_OK;
}

/* Sums that were made in 16 bits are gradients again: ZeRO 0, 1 of the bucket that the op was
 * called for, as far as this replica has them. */
static void widen_sums(struct stage *s, const struct program_op *op)
{
    const struct stage_bucket *p = s->share.bucket;
    size_t first, n;
    while (op->purpose == FOR_DATA && p + 1 < s->share.bucket + s->share.regions && p->op != op)
        p++;
    if (op->purpose == FOR_DATA) {
        first = p->first + p->own.first;
        n = p->own.n;
    } else if (find_tied(s, op->tag, &first, &n) != STATUS_OK) {
        return; /* it was found before the sum */
    }
    s->on.backend->widen(s->on.self, s->share.reduced, s->state.gradient + first,
                         half_number(s->state.reduced, first), n);
}

/* A collective has ended. ZeRO 2, 3: the own part of what was reduced is added to `sum` and the
 * array is cleared for the bucket after next; ZeRO 3: gathered parameters become those of the next
 * part of a pass. */
void stage_collected(struct stage *s, const struct program_op *op)
{
    const struct backend *b = s->on.backend;
    if (op->purpose == FOR_PIPELINE)
        return;
    s->state.half_of = NULL; /* parameters may be other ones now */
    bool keeps = bucket_is_kept(s) && op->purpose == FOR_SHARDS;
    const struct stage_bucket *of =
        s->share.zero >= 2 || keeps ? region_of(s, op) : &s->share.bucket[bucket_of(op)];
    if (sums_groups(s, op)) {
        void *half = NULL;
        real *own = own_sum(s, of, &half);
        if (half)
            b->widen(s->on.self, s->share.reduced, own, half, of->own.n);
    } else if (keeps) {
        if (s->share.gathered != ELEMENT_FP32)
            b->widen(s->on.self, s->share.gathered, s->state.parameter + of->first,
                     gathered_half(s), of->n);
    } else if (s->share.zero >= 2 && op->purpose == FOR_DATA) {
        const struct stage_pair *pair = gradient_pair(s);
        real *reduced = pair->data[pair->now ^ 1] + behind(s, op, false),
             *own = reduced + of->own.first;
        if (s->share.reduced != ELEMENT_FP32)
            b->widen(s->on.self, s->share.reduced, own,
                     half_number(s->flight->reduced, of->own.first), of->own.n);
        b->add(s->on.self, s->state.sum + of->at, own, of->own.n);
        b->zero(s->on.self, reduced, of->n * sizeof *reduced);
    } else if (s->share.reshards && op->purpose == FOR_SHARDS) {
        struct stage_pair *pair = &s->flight->parameters;
        bool experts = is_of_experts(s, op);
        size_t bucket = bucket_of(op), from = behind(s, op, true),
               n = experts ? of->n : s->share.bucket[bucket].gathered;
        if (s->share.gathered != ELEMENT_FP32)
            b->widen(s->on.self, s->share.gathered, pair->data[pair->now ^ 1] + from,
                     half_number(s->flight->gathered, from), n);
        if (from + n < stage_flying(s, bucket, true))
            return; /* experts follow */
        pair->now ^= 1;
        s->state.gathered = bucket + 1;
    } else if (s->share.reduced != ELEMENT_FP32 && op->purpose != FOR_SHARDS) {
        widen_sums(s, op);
    }
}
