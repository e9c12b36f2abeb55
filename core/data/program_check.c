/* Is what a program says of itself consistent, and can its lists run to their ends? */
#include "core/data/program_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/ready.h"
#include "core/data/plan.h"
#include "core/data/program_posted.h"

struct order_replay {
    const struct program *p;
    size_t *at;      /* [ranks] index of the next op */
    size_t *arrived; /* [groups] members waiting at their next collective */
    bool *counted;   /* [ranks] is counted in arrived[] */
    struct ready ready;
};

/* Has the rank passed all of its ops? */
static bool replay_is_finished(const struct order_replay *s, uint32_t rank)
{
    return s->at[rank] == s->p->op_start[rank + 1];
}

/* All members of the group stand at their collective: let them pass. */
static bool pass_collective(struct order_replay *s, uint32_t rank, const struct program_op *o)
{
    const struct program *p = s->p;
    size_t first = p->group_start[o->peer], last = p->group_start[o->peer + 1];
    if (!s->counted[rank]) {
        s->counted[rank] = true;
        s->arrived[o->peer]++;
    }
    if (s->arrived[o->peer] < last - first)
        return false;
    s->arrived[o->peer] = 0;
    for (size_t k = first; k < last; k++) {
        s->counted[p->member[k]] = false;
        s->at[p->member[k]]++;
        ready_put(&s->ready, p->member[k]);
    }
    return true;
}

/* Pass the ops of a rank up to one that waits for another rank. A message is passed by both
 * sides at once, by whichever comes second. */
static void replay_advance_rank(struct order_replay *s, uint32_t rank)
{
    const struct program *p = s->p;
    while (!replay_is_finished(s, rank)) {
        const struct program_op *o = &p->op[s->at[rank]];
        if (op_computes(o)) {
            s->at[rank]++;
        } else if (op_is_message(o)) {
            if (s->at[o->peer] != o->match)
                return;
            s->at[rank]++;
            s->at[o->peer]++;
            ready_put(&s->ready, o->peer);
        } else if (!pass_collective(s, rank, o)) {
            return;
        }
    }
}

/* The rank that `rank` waits for. */
static uint32_t replay_waits_for(const struct order_replay *s, uint32_t rank)
{
    const struct program *p = s->p;
    const struct program_op *o = &p->op[s->at[rank]];
    if (!op_is_collective(o))
        return o->peer;
    for (size_t k = p->group_start[o->peer]; k < p->group_start[o->peer + 1]; k++)
        if (!s->counted[p->member[k]] || p->op[s->at[p->member[k]]].peer != o->peer)
            return p->member[k];
    return rank;
}

/* Names the circle of waiting ranks that `start` is on or leads to: after as many steps as there
 * are ranks, the walk is on the circle. */
static enum status deadlock(const struct order_replay *s, uint32_t start)
{
    char text[800] = "", label[OP_LABEL];
    const struct program *p = s->p;
    uint32_t rank = start;
    for (size_t step = 0; step < p->ranks && !replay_is_finished(s, rank); step++)
        rank = replay_waits_for(s, rank); /* certainly on the cycle, or at a rank that has ended */
    uint32_t first = rank;
    do {
        size_t n = strlen(text);
        if (replay_is_finished(s, rank)) {
            snprintf(text + n, sizeof text - n, "rank %u (%s) has ended", rank, p->rank[rank].name);
            break;
        }
        const struct program_op *o = &p->op[s->at[rank]];
        uint32_t next = replay_waits_for(s, rank);
        snprintf(text + n, sizeof text - n, "rank %u (%s) at %s waits for rank %u", rank,
                 p->rank[rank].name, op_label(o, label), next);
        n = strlen(text);
        if (!op_is_collective(o))
            snprintf(text + n, sizeof text - n, " tag %u", o->tag);
        n = strlen(text);
        rank = next;
        if (rank != first)
            snprintf(text + n, sizeof text - n, "; ");
    } while (rank != first);
    return error_set(STATUS_INVALID, "deadlock: %s", text);
}

/* Runs every list as far as it can, and again when another rank has moved it on. Steps: (1) all
 * ranks are ready; (2) take a ready rank and advance it to its first op that has to wait; ranks
 * that this lets pass become ready; (3) when no rank is ready, those that have not ended wait
 * for each other. Every op is passed once: O(ops + members of the collectives). */
static enum status program_replay_order(const struct program *p)
{
    enum status st;
    struct order_replay s = {.p = p};
    uint32_t rank;

    TRY(ready_init(&s.ready, (uint32_t)p->ranks));
    TRY(ARRAY_COPY(s.at, p->op_start, p->ranks));
    TRY(ARRAY_NEW(s.arrived, p->groups));
    TRY(ARRAY_NEW(s.counted, p->ranks));
    for (uint32_t r = 0; r < p->ranks; r++)
        ready_put(&s.ready, r);
    while (ready_take(&s.ready, &rank))
        replay_advance_rank(&s, rank);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (!replay_is_finished(&s, r)) {
            st = deadlock(&s, r);
            goto out;
        }
out:
    free(s.counted);
    free(s.arrived);
    free(s.at);
    ready_free(&s.ready);
    return st;
}

/* The op of the same rank, stage and microbatch that `o` must depend on, OP_KINDS for none. */
static enum op_kind predecessor(const struct program_op *o)
{
    return o->kind == OP_BACKWARD || o->kind == OP_BACKWARD_INPUT ? OP_FORWARD
           : o->kind == OP_BACKWARD_WEIGHT                        ? OP_BACKWARD_INPUT
                                                                  : OP_KINDS;
}

/* Both ends of a message, or neighbours in a collective: equal sizes, equal kinds. */
static enum status check_sides(const struct program *p, uint32_t rank, const struct program_op *o)
{
    char label[OP_LABEL];
    if (o->match == PROGRAM_NONE)
        return error_set(STATUS_INVALID, "rank %u: %s uses a process group that the rank is not in",
                         rank, op_label(o, label));
    const struct program_op *other = &p->op[o->match];
    if (other->bytes != o->bytes)
        return error_set(STATUS_INVALID, "rank %u: %s has %lld bytes, but its peer has %lld", rank,
                         op_label(o, label), (long long)o->bytes, (long long)other->bytes);
    if (op_is_collective(o) &&
        (other->kind != o->kind || other->count != o->count || other->reduction != o->reduction))
        return error_set(STATUS_INVALID,
                         "rank %u: %s and the same collective of the next rank differ in their %s",
                         rank, op_label(o, label),
                         other->kind != o->kind     ? "kind"
                         : other->count != o->count ? "number of calls"
                                                    : "reduction");
    return STATUS_OK;
}

/* Dependencies are earlier ops of the rank, a pass depends on the one that it continues, and the
 * sides of communication agree. */
static enum status program_check_op(const struct program *p, uint32_t rank, size_t i)
{
    const struct program_op *o = &p->op[i];
    char label[OP_LABEL];
    enum op_kind wanted = predecessor(o);
    bool follows = wanted == OP_KINDS;
    for (uint32_t d = o->dep_start; d < o[1].dep_start; d++) {
        const struct program_op *before = &p->op[p->dep[d]];
        if (p->dep[d] < p->op_start[rank] || p->dep[d] >= i)
            return error_set(STATUS_INVALID,
                             "rank %u: %s depends on an op that does not come before it", rank,
                             op_label(o, label));
        follows = follows || (before->kind == wanted && before->stage == o->stage &&
                              before->microbatch == o->microbatch);
    }
    if (!follows)
        return error_set(
            STATUS_INVALID, "rank %u: %s does not depend on its %s", rank, op_label(o, label),
            wanted == OP_FORWARD ? "forward pass" : "input-gradient half of the backward pass");
    return op_computes(o) ? STATUS_OK : check_sides(p, rank, o);
}

/* Stash bytes after op `o` when there were `held` before. */
static int64_t held_after(const struct program_op *o, int64_t held)
{
    if (o->kind == OP_FORWARD || o->kind == OP_BACKWARD_INPUT)
        return held + o->bytes;
    return op_computes(o) && o->kind != OP_COMPUTE ? held - o->bytes : held;
}

/* FORWARD takes, BACKWARD_INPUT what waits for the other half, the last BACKWARD of the microbatch
 * gives back: never below zero, zero at the end. */
static enum status check_stashes(const struct program *p, uint32_t rank)
{
    int64_t held = 0;
    char label[OP_LABEL];
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        held = held_after(&p->op[i], held);
        if (held < 0)
            return error_set(STATUS_INVALID, "rank %u: %s frees memory that was not allocated",
                             rank, op_label(&p->op[i], label));
    }
    if (held > 0)
        return error_set(STATUS_INVALID, "rank %u: %lld bytes of activations are never freed", rank,
                         (long long)held);
    return STATUS_OK;
}

/* Most bytes of stashes of one stage at once, the first op at which it has them, and the stage of
 * the rank that comes next, PROGRAM_NONE: there is none. */
struct stash_pool {
    int64_t most;
    uint32_t at, next;
};

/* Copies to the host that may not be complete: of the last forward, and of the one before it. */
struct leaving {
    uint32_t microbatch[2];
    int64_t bytes[2];
};

/* Bytes on the device behind op `o`. What leaves is there until an op waits for its copy: the next
 * forward but one, or its way back (core/lower/offload.c). */
static int64_t held_beside(const struct program_op *o, int64_t held, struct leaving *l)
{
    if (o->kind == OP_FORWARD && o->bytes > 0) {
        held -= l->bytes[1];
        *l = (struct leaving){.microbatch = {0, l->microbatch[0]}, .bytes = {0, l->bytes[0]}};
    }
    if (o->kind != OP_COPY || o->microbatch == PROGRAM_NONE)
        return held_after(o, held);
    if (!o->backward) {
        l->microbatch[0] = o->microbatch;
        l->bytes[0] = o->bytes;
        return held;
    }
    for (int k = 0; k < 2; k++)
        if (l->bytes[k] > 0 && l->microbatch[k] == o->microbatch) {
            l->bytes[k] = 0;
            return held; /* it goes and comes */
        }
    return held + o->bytes;
}

/* Of one stage, or of all stages of the rank together: PROGRAM_NONE. */
static struct stash_pool pool_of(const struct program *p, uint32_t rank, uint32_t stage)
{
    int64_t held = 0;
    struct leaving leaving = {0};
    struct stash_pool pool = {.most = -1, .at = PROGRAM_NONE, .next = PROGRAM_NONE};
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->stage > stage && o->stage < pool.next)
            pool.next = o->stage;
        bool own = o->stage == stage || stage == PROGRAM_NONE;
        if (!own || !(op_computes(o) || o->kind == OP_COPY))
            continue;
        int64_t after = held_beside(o, held, &leaving);
        int64_t most = o->kind == OP_COMPUTE ? o->bytes : after > held ? after : held;
        if (most > pool.most) {
            pool.most = most;
            pool.at = (uint32_t)i;
        }
        held = after;
    }
    return pool;
}

void program_held(const struct program *p, uint32_t rank, int64_t *held)
{
    struct leaving leaving = {0};
    int64_t now = 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o) || o->kind == OP_COPY)
            now = held_beside(o, now, &leaving);
        *held++ = now;
    }
}

/* Does a framework allocate for this rank? Then all of its stages share one pool. What is copied to
 * the host is followed by stages. */
static bool program_check_is_shared(const struct program *p, uint32_t rank)
{
    bool copies = false;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++)
        copies |= p->op[i].kind == OP_COPY && p->op[i].microbatch != PROGRAM_NONE;
    return p->attained && !copies;
}

/* Stages of a rank are of different sizes: what one has given back is no room for another, unless a
 * framework's allocator makes it so. Scratch counts once: passes of a stage do not overlap. */
int64_t program_peak(const struct program *p, uint32_t rank, uint32_t *op)
{
    int64_t most = 0;
    uint32_t at = PROGRAM_NONE;
    uint32_t s = program_check_is_shared(p, rank) ? PROGRAM_NONE : p->rank[rank].stage;
    do {
        struct stash_pool pool = pool_of(p, rank, s);
        most += pool.most > 0 ? pool.most : 0;
        if (pool.at != PROGRAM_NONE && (at == PROGRAM_NONE || pool.at > at))
            at = pool.at;
        s = pool.next;
    } while (s != PROGRAM_NONE && !program_check_is_shared(p, rank));
    if (op)
        *op = at;
    return program_static_bytes(&p->rank[rank]) + most +
           (at == PROGRAM_NONE ? 0 : p->rank[rank].scratch_bytes);
}

/* ---- how stages are divided (struct program_stage) */

/* Every op of the stage is in exactly one bucket, from the last op down to op 0. */
static enum status check_buckets(const struct program *p, uint32_t s)
{
    const struct program_stage *stage = &p->stage[s];
    size_t ops = p->stage_start[s + 1] - p->stage_start[s];
    if (stage->buckets < 1 || stage->bucket > p->buckets ||
        stage->buckets > p->buckets - stage->bucket)
        return error_set(
            STATUS_INVALID,
            "stage %u: got %u buckets, expected 1 to %zu (the buckets that the program lists)", s,
            stage->buckets, p->buckets);
    const struct program_bucket *bucket = &p->bucket[stage->bucket];
    size_t above = ops > 0 ? ops : 1;
    uint32_t again = 0;
    for (uint32_t b = 0; b < stage->buckets; above = bucket[b].low, b++) {
        bool last = b + 1 == stage->buckets;
        again += bucket[b].again;
        if (bucket[b].again &&
            (b == 0 || !program_reshards(stage) || !strategy_repeats_units(&stage->own)))
            return error_set(STATUS_INVALID, "stage %u: recomputing bucket %u separately needs %s",
                             s, b,
                             b == 0                     ? "a bucket before it"
                             : !program_reshards(stage) ? "ZeRO 3 without key 'keep'"
                                                        : "recomputed layers or modules");
        if (bucket[b].bytes < 0 || bucket[b].low >= above || last != (bucket[b].low == 0))
            return error_set(STATUS_INVALID,
                             "stage %u: bucket %u begins at op %u and has %lld bytes, expected 0 "
                             "bytes or more, and a begin before the previous bucket's (of the last "
                             "bucket: op 0 of %zu)",
                             s, b, bucket[b].low, (long long)bucket[b].bytes, ops);
    }
    if (again != stage->again)
        return error_set(
            STATUS_INVALID,
            "stage %u: %u buckets are marked as recomputed, expected the %u that the stage states",
            s, again, stage->again);
    if (stage->buckets + again > UINT8_MAX)
        return error_set(
            STATUS_INVALID,
            "stage %u: backward pass has %u parts (%u buckets, %u of them recomputed), "
            "expected at most %d",
            s, stage->buckets + again, stage->buckets, again, UINT8_MAX);
    return STATUS_OK;
}

/* Levels and counts for themselves; passes in two halves do not come in parts. */
static enum status check_stage(const struct program *p, uint32_t s)
{
    const struct program_stage *stage = &p->stage[s];
    if (stage->replicas < 1 || stage->tensor_parallel < 1 || stage->zero > 3)
        return error_set(STATUS_INVALID,
                         "stage %u: got %u replicas, %u shards and ZeRO %u, expected at least 1 "
                         "replica, at least 1 shard and ZeRO 0 to 3",
                         s, stage->replicas, stage->tensor_parallel, stage->zero);
    if (stage->recompute >= RECOMPUTE_KINDS ||
        (stage->recompute_modules > 0 && stage->recompute != RECOMPUTE_SELECTIVE))
        return error_set(
            STATUS_INVALID,
            "stage %u: key 'recompute_modules' needs key 'recompute' to be 'selective'", s);
    if (stage->keep && stage->zero != 1 && stage->zero != 3)
        return error_set(
            STATUS_INVALID,
            "stage %u: key 'keep' (gathered parameters stay) needs ZeRO 1 or 3, got ZeRO %u", s,
            stage->zero);
    if (stage->group > 0 && stage->zero == 0)
        return error_set(STATUS_INVALID,
                         "stage %u: ZeRO groups (key 'group') need ZeRO 1 to 3, got ZeRO 0", s);
    if (stage->group > 0 && (stage->group >= stage->replicas || stage->group < 2 ||
                             stage->replicas % stage->group != 0))
        return error_set(STATUS_INVALID,
                         "stage %u: got ZeRO groups of %u replicas, expected a divisor of %u "
                         "replicas between 2 and half of them",
                         s, stage->group, stage->replicas);
    if (stage->zero > 0 && stage->replicas < 2)
        return error_set(STATUS_INVALID, "stage %u: ZeRO %u needs more than one replica", s,
                         stage->zero);
    if (stage->buckets > 1 && (stage->replicas < 2 || stage->split))
        return error_set(STATUS_INVALID, "stage %u: got %u gradient buckets, expected one with %s",
                         s, stage->buckets,
                         stage->split ? "backward passes that are split in two halves"
                                      : "a single replica");
    return check_buckets(p, s);
}

/* A collective over gradients or parameters that replicas share: is it of the kind that its stage's
 * ZeRO level wants? */
static bool fits_zero(const struct program_stage *stage, const struct program_op *o)
{
    bool passing = o->microbatch != PROGRAM_NONE;
    if (!op_is_collective(o))
        return true;
    bool wanted = o->kind == (stage->zero > 0 ? OP_REDUCESCATTER : OP_ALLREDUCE) ||
                  (o->kind == OP_ALLREDUCE && stage->group > 0);
    if (o->purpose == FOR_DATA)
        return wanted && (stage->zero < 2 || passing);
    return o->purpose != FOR_SHARDS ||
           (o->kind == OP_ALLGATHER && stage->zero > 0 && passing == (stage->zero == 3));
}

/* Parts that ops of this kind may have; 0: they come whole. */
static uint32_t program_check_most_parts(const struct program_stage *stage,
                                         const struct program_op *o)
{
    bool shared = o->purpose == FOR_DATA || o->purpose == FOR_SHARDS;
    if (op_is_collective(o) && (o->purpose == FOR_CONTEXT || o->purpose == FOR_TENSOR))
        return program_parts(stage, o->backward ? OP_BACKWARD : OP_FORWARD);
    if (o->kind == OP_BACKWARD || (o->kind == OP_FORWARD && (stage->zero == 3 || stage->keep)))
        return program_parts(stage, (enum op_kind)o->kind);
    bool parted = stage->zero >= 2 || (stage->keep && o->kind == OP_ALLGATHER) ||
                  (stage->group > 0 && o->kind == OP_ALLREDUCE);
    return op_is_collective(o) && shared && parted ? stage->buckets : 0;
}

/* Does the rank's list do what the program says of its stages? */
static enum status check_division(const struct program *p, uint32_t rank)
{
    char label[OP_LABEL];
    const struct program_rank *r = &p->rank[rank];
    if (r->stage >= p->stages || r->replica >= p->stage[r->stage].replicas ||
        r->shard >= p->stage[r->stage].tensor_parallel)
        return error_set(STATUS_INVALID, "rank %u: stage %u has no replica %u, shard %u", rank,
                         r->stage, r->replica, r->shard);
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->stage >= p->stages)
            return error_set(STATUS_INVALID, "rank %u: stage %u does not exist", rank, o->stage);
        const struct program_stage *stage = &p->stage[o->stage];
        if (op_is_beside(o) &&
            (o->kind == OP_UPDATE || (o->purpose != FOR_CONTEXT && o->purpose != FOR_TENSOR)))
            return error_set(STATUS_INVALID,
                             "rank %u: %s cannot overlap with compute; only context- and "
                             "tensor-parallel ops can",
                             rank, op_label(o, label));
        bool half = o->kind == OP_BACKWARD_INPUT || o->kind == OP_BACKWARD_WEIGHT;
        if (!fits_zero(stage, o))
            return error_set(STATUS_INVALID, "rank %u: %s is not allowed in a stage with ZeRO %u",
                             rank, op_label(o, label), stage->zero);
        if (half && !stage->split)
            return error_set(
                STATUS_INVALID,
                "rank %u: %s is half of a backward pass, which this stage does not split", rank,
                op_label(o, label));
        if (o->part > 0 && o->part > program_check_most_parts(stage, o))
            return error_set(STATUS_INVALID, "rank %u: %s: got part %u, expected at most %u", rank,
                             op_label(o, label), o->part, program_check_most_parts(stage, o));
        bool completes = false;
        uint32_t bucket = o->part > 0 && o->kind == OP_BACKWARD && !op_is_beside(o)
                              ? program_part_bucket(p, stage, OP_BACKWARD, o->part, &completes)
                              : 0;
        int64_t bytes =
            completes ? program_reduced_bytes(p, p->bucket[stage->bucket + bucket].bytes) : 0;
        if (bytes > 0 && (i + 1 == p->op_start[rank + 1] || o[1].purpose != FOR_DATA ||
                          !op_is_collective(&o[1]) || o[1].bytes != bytes))
            return error_set(STATUS_INVALID,
                             "rank %u: after %s, no collective reduces the %lld bytes of bucket %u",
                             rank, op_label(o, label), (long long)bytes, bucket);
    }
    return STATUS_OK;
}

/* Halves of backwards are of the stages that say so, and of all of them. */
static enum status program_check_halves_of(const struct program *p)
{
    enum status st;
    bool *halves;
    TRY(ARRAY_NEW(halves, p->stages));
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_BACKWARD_INPUT && p->op[i].stage < p->stages)
            halves[p->op[i].stage] = true;
    for (uint32_t s = 0; s < p->stages; s++)
        if (p->stage[s].split && !halves[s])
            FAIL(STATUS_INVALID,
                 "stage %u: its backward passes are marked as split, but the program has no "
                 "input-gradient passes for it",
                 s);
out:
    free(halves);
    return st;
}

enum status program_check(const struct program *p)
{
    for (uint32_t s = 0; s < p->stages; s++)
        PASS(check_stage(p, s));
    PASS(program_check_halves_of(p));
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (!p->captured) /* whose stage says nothing */
            PASS(check_division(p, r));
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            PASS(program_check_op(p, r, i));
        PASS(check_stashes(p, r));
    }
    return p->captured ? program_replay_posted(p) : program_replay_order(p);
}
