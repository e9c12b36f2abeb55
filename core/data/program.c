/* Programs as data: release, names of ops, and which ends of communication belong together. */
#include "core/data/program.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/data/collective_kind.h"
#include "core/data/plan.h"

const char *const op_phase_names[OP_PHASES] = {"forward", "backward", "update"};
const char *const op_reduction_names[REDUCTIONS] = {"sum", "avg", "min", "max"};

const uint8_t op_collective[OP_KINDS] = {
    [OP_ALLREDUCE] = COLLECTIVE_ALLREDUCE,
    [OP_ALLGATHER] = COLLECTIVE_ALLGATHER,
    [OP_REDUCESCATTER] = COLLECTIVE_REDUCESCATTER,
    [OP_ALLTOALL] = COLLECTIVE_ALLTOALL,
    [OP_BROADCAST] = COLLECTIVE_BROADCAST,
    [OP_REDUCE] = COLLECTIVE_REDUCE,
    [OP_GATHER] = COLLECTIVE_GATHER,
    [OP_SCATTER] = COLLECTIVE_SCATTER,
};

const char *const op_purpose_names[OP_PURPOSES] = {
    [FOR_PIPELINE] = "pipeline", [FOR_DATA] = "data",     [FOR_TIES] = "ties",
    [FOR_SHARDS] = "shards",     [FOR_TENSOR] = "tensor", [FOR_EXPERTS] = "experts",
    [FOR_CONTEXT] = "context",   [FOR_HOST] = "host",     [FOR_NORM] = "norm",
};

const char *const op_purpose_words[OP_PURPOSES] = {
    [FOR_PIPELINE] = "pipeline transfers",
    [FOR_DATA] = "gradient reduction",
    [FOR_TIES] = "reduction of tied weights",
    [FOR_SHARDS] = "ZeRO collectives",
    [FOR_TENSOR] = "tensor-parallel collectives",
    [FOR_EXPERTS] = "expert all-to-all",
    [FOR_CONTEXT] = "context-parallel exchange",
    [FOR_HOST] = "host transfers",
    [FOR_NORM] = "gradient norm",
};

/* Owned: everything that a program points to. */
void program_free(struct program *p)
{
    for (size_t r = 0; p->rank && r < p->ranks; r++)
        free(p->rank[r].name);
    free(p->rank);
    free(p->op_start);
    free(p->op);
    free(p->dep);
    free(p->group_start);
    free(p->member);
    free(p->device_start);
    free(p->device);
    free(p->channel);
    free(p->stage_start);
    free(p->stage_op);
    free(p->stage);
    free(p->bucket);
    free(p->optimizer);
    free(p->schedule);
    operators_free(&p->operators);
    free(p->copies.channel_start);
    free(p->copies.channel);
    free(p->copies.channel_replica);
    free(p->copies.device_start);
    free(p->copies.device);
    free(p->copies.group_replica);
    free(p->copies.class_of);
    free(p->copies.class_size);
    *p = (struct program){0};
}

enum status program_plain_stages(struct program *p)
{
    PASS(ARRAY_NEW(p->stage, p->stages));
    PASS(ARRAY_NEW(p->bucket, p->stages));
    p->buckets = p->stages;
    for (uint32_t s = 0; s < p->stages; s++)
        p->stage[s] = (struct program_stage){
            .own = strategy_at_least_usual(&p->stage[s].own), .bucket = s, .buckets = 1};
    return STATUS_OK;
}

/* Its first stage, and with several stages per rank those that its ops name. */
bool program_rank_has(const struct program *p, uint32_t rank, uint32_t stage)
{
    bool found = p->rank[rank].stage == stage;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1] && !found; i++)
        found = p->op[i].stage == stage;
    return found;
}

/* Stages ascending, ops of each ascending. */
size_t program_rank_ops(const struct program *p, uint32_t rank, uint32_t *op)
{
    size_t n = 0;
    for (uint32_t s = 0; s < p->stages; s++) {
        if (!program_rank_has(p, rank, s))
            continue;
        for (size_t k = p->stage_start[s]; k < p->stage_start[s + 1]; k++, n++)
            if (op)
                op[n] = p->stage_op[k];
    }
    return n;
}

uint32_t program_rank_of(const struct program *p, size_t op)
{
    size_t low = 0, high = p->ranks;
    while (high - low > 1) { /* op_start[low] <= op < op_start[high] */
        size_t middle = (low + high) / 2;
        if (p->op_start[middle] <= op)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Copies of passes come and go; those of the update have a place of their own. */
int64_t program_host_bytes(const struct program *p, size_t rank)
{
    int64_t held = 0, most = 0;
    for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
        const struct program_op *o = &p->op[i];
        if (o->kind != OP_COPY || o->microbatch == PROGRAM_NONE)
            continue;
        held += o->backward ? -o->bytes : o->bytes;
        most = held > most ? held : most;
    }
    return p->rank[rank].host_bytes + most;
}

/* What a phase is called after. */
static const uint8_t op_phase_kind[OP_PHASES] = {OP_FORWARD, OP_BACKWARD, OP_UPDATE};

const char *op_label(const struct program_op *o, char text[OP_LABEL])
{
    static const char *const names[OP_KINDS] = {
        [OP_FORWARD] = "F",           [OP_BACKWARD] = "B",
        [OP_BACKWARD_INPUT] = "I",    [OP_BACKWARD_WEIGHT] = "W",
        [OP_UPDATE] = "UPDATE",       [OP_SEND] = "SEND",
        [OP_RECV] = "RECV",           [OP_ALLREDUCE] = "ALLREDUCE",
        [OP_ALLGATHER] = "ALLGATHER", [OP_REDUCESCATTER] = "REDUCESCATTER",
        [OP_ALLTOALL] = "ALLTOALL",   [OP_BROADCAST] = "BROADCAST",
        [OP_REDUCE] = "REDUCE",       [OP_GATHER] = "GATHER",
        [OP_SCATTER] = "SCATTER",     [OP_COPY] = "COPY",
    };
    const char *name = o->kind < OP_KINDS ? names[o->kind] : "?";
    if (o->kind == OP_COMPUTE)
        snprintf(text, OP_LABEL, "%s%u", names[op_phase_kind[o->phase]], o->tag);
    else if (op_is_message(o) && o->microbatch != PROGRAM_NONE)
        snprintf(text, OP_LABEL, "%u%s_%c%u", o->stage, name, o->backward ? 'B' : 'F',
                 o->microbatch);
    else if (o->microbatch != PROGRAM_NONE)
        snprintf(text, OP_LABEL, "%u%s%u", o->stage, name, o->microbatch);
    else
        snprintf(text, OP_LABEL, "%u%s", o->stage, name);
    return text;
}

/* ---- passes in parts */

uint32_t program_parts(const struct program_stage *s, enum op_kind pass)
{
    return pass == OP_BACKWARD                               ? s->buckets + s->again
           : pass == OP_FORWARD && (s->zero == 3 || s->keep) ? s->buckets
                                                             : 1;
}

/* Buckets first .. *end - 1 have ops of one unit: all but `first` are made again by themselves. */
static uint32_t end_of_unit(const struct program *p, const struct program_stage *s, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < s->buckets && p->bucket[s->bucket + end].again)
        end++;
    return end;
}

uint32_t program_part_bucket(const struct program *p, const struct program_stage *s,
                             enum op_kind pass, uint32_t part, bool *completes)
{
    uint32_t first = 0, at = part - 1; /* bucket, and parts from its first one on */
    bool backward = pass == OP_BACKWARD;
    if (completes)
        *completes = backward;
    if (!backward)
        return s->buckets - part;
    if (s->again == 0)
        return at;
    for (uint32_t end; first < s->buckets; first = end) {
        end = end_of_unit(p, s, first);
        uint32_t again = end - first - 1;
        if (at < again && completes)
            *completes = false;
        if (at < again)
            return end - 1 - at;
        at -= again;
        if (at < end - first)
            return first + at;
        at -= end - first;
    }
    return s->buckets - 1;
}

/* ---- matching */

struct endpoint {
    uint32_t from, to, tag, op;
};

static int by_message(const void *a, const void *b)
{
    const struct endpoint *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->tag < y->tag ? -1 : x->tag > y->tag;
}

static bool same_message(const struct endpoint *a, const struct endpoint *b)
{
    return by_message(a, b) == 0;
}

/* Collect the SEND (kind OP_SEND) or RECV ends, sorted; *end is malloc'd. */
static enum status program_list_ends(const struct program *p, enum op_kind kind,
                                     struct endpoint **end, size_t *n)
{
    size_t count = 0;
    for (size_t i = 0; i < p->ops; i++)
        count += p->op[i].kind == kind;
    struct endpoint *e;
    size_t k = 0;
    PASS(ARRAY_NEW(e, count));
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (o->kind != kind)
                continue;
            if (o->peer >= p->ranks || o->peer == r) {
                char label[OP_LABEL];
                free(e);
                return error_set(STATUS_INVALID,
                                 "rank %u: %s: peer rank is %u, expected another rank below %u", r,
                                 op_label(o, label), o->peer, (unsigned)p->ranks);
            }
            e[k++] = kind == OP_SEND ? (struct endpoint){r, o->peer, o->tag, (uint32_t)i}
                                     : (struct endpoint){o->peer, r, o->tag, (uint32_t)i};
        }
    qsort(e, k, sizeof *e, by_message);
    *end = e;
    *n = k;
    return STATUS_OK;
}

/* Always a failure: one end of a message, and what it lacks. */
static enum status unmatched(const struct program *p, const struct endpoint *e, const char *missing)
{
    char label[OP_LABEL];
    uint32_t rank = program_rank_of(p, e->op);
    return error_set(STATUS_INVALID, "rank %u (%s): %s to/from rank %u tag %u has no matching %s",
                     rank, p->rank[rank].name, op_label(&p->op[e->op], label),
                     rank == e->from ? e->to : e->from, e->tag, missing);
}

/* The k-th SEND and the k-th RECV of the sorted ends belong together; the first difference names
 * what has no other side. */
static enum status match_messages(struct program *p)
{
    enum status st;
    struct endpoint *send = NULL, *recv = NULL;
    size_t sends, recvs;

    TRY(program_list_ends(p, OP_SEND, &send, &sends));
    TRY(program_list_ends(p, OP_RECV, &recv, &recvs));
    for (size_t k = 0; k < sends || k < recvs; k++) {
        if (k > 0 && k < sends && same_message(&send[k], &send[k - 1])) {
            st = unmatched(p, &send[k], "RECV of its own (tag is used twice)");
            goto out;
        }
        if (k >= recvs || (k < sends && by_message(&send[k], &recv[k]) < 0)) {
            st = unmatched(p, &send[k], "RECV");
            goto out;
        }
        if (k >= sends || by_message(&send[k], &recv[k]) > 0) {
            st = unmatched(p, &recv[k], "SEND");
            goto out;
        }
        p->op[send[k].op].match = recv[k].op;
        p->op[recv[k].op].match = send[k].op;
    }
out:
    free(recv);
    free(send);
    return st;
}

/* Whom rank r sends to: peer[], each once and ascending; seen[] is r + 1 for these afterwards. */
static size_t find_peers(const struct program *p, uint32_t r, uint32_t *seen, uint32_t *peer)
{
    size_t n = 0;
    for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
        if (p->op[i].kind == OP_SEND && seen[p->op[i].peer] != r + 1) {
            seen[p->op[i].peer] = r + 1;
            peer[n++] = p->op[i].peer;
        }
    if (n > 1)
        qsort(peer, n, sizeof *peer, order_by_id);
    return n;
}

/* Channels in the order of (from, to); messages are matched. */
static enum status number_channels(struct program *p)
{
    enum status st;
    uint32_t *seen = NULL; /* [ranks]; peers and channels to them follow, [ranks] each */
    struct program_channel *channel = NULL;
    size_t channels = 0;
    TRY(ARRAY_NEW(seen, 3 * p->ranks));
    uint32_t *peer = seen + p->ranks, *id = peer + p->ranks;
    for (uint32_t r = 0; r < p->ranks; r++) {
        for (size_t k = 0, n = find_peers(p, r, seen, peer); k < n; k++) {
            TRY(ARRAY_ROOM(channel, channels));
            id[peer[k]] = (uint32_t)channels;
            channel[channels++] = (struct program_channel){r, peer[k]};
        }
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            if (p->op[i].kind == OP_SEND)
                p->op[i].channel = p->op[p->op[i].match].channel = id[p->op[i].peer];
    }
    free(p->channel);
    p->channel = channel;
    p->channels = channels;
    channel = NULL;
out:
    free(channel);
    free(seen);
    return st;
}

/* The k-th collective of a member on a group belongs to the k-th of every other member. */
static enum status match_group(struct program *p, uint32_t g)
{
    size_t first = p->group_start[g], n = p->group_start[g + 1] - first;
    uint32_t rank0 = p->member[first];
    for (size_t k = 0; k < n; k++) {
        uint32_t rank = p->member[first + k], next = p->member[first + (k + 1) % n];
        size_t mine = p->op_start[rank], other = p->op_start[next];
        size_t mine_end = p->op_start[rank + 1], other_end = p->op_start[next + 1];
        for (;; mine++, other++) {
            while (mine < mine_end && !(op_is_collective(&p->op[mine]) && p->op[mine].peer == g))
                mine++;
            while (other < other_end &&
                   !(op_is_collective(&p->op[other]) && p->op[other].peer == g))
                other++;
            if (mine == mine_end || other == other_end)
                break;
            p->op[mine].match = (uint32_t)other;
        }
        if ((mine == mine_end) != (other == other_end))
            return error_set(STATUS_INVALID,
                             "ranks %u and %u issue different numbers of collectives on process "
                             "group %u (whose first rank is %u)",
                             rank, next, g, rank0);
    }
    return STATUS_OK;
}

/* Groups of a program that is not folded are on the devices of their ranks. */
static enum status program_find_devices(struct program *p)
{
    if (p->device_start)
        return STATUS_OK;
    PASS(ARRAY_NEW(p->device_start, p->groups + 1));
    PASS(ARRAY_NEW(p->device, p->groups ? p->group_start[p->groups] : 0));
    for (size_t g = 0; g < p->groups; g++) {
        p->device_start[g + 1] = p->group_start[g + 1];
        for (size_t k = p->group_start[g]; k < p->group_start[g + 1]; k++)
            p->device[k] = p->rank[p->member[k]].device;
    }
    return STATUS_OK;
}

/* Every collective is on a group that exists; forget which ones belong together. */
static enum status program_check_groups(struct program *p)
{
    for (size_t k = 0; p->groups > 0 && k < p->group_start[p->groups]; k++)
        if (p->member[k] >= p->ranks)
            return error_set(STATUS_INVALID,
                             "process group has rank %u, but the program has only %zu ranks",
                             p->member[k], p->ranks);
    for (size_t i = 0; i < p->ops; i++) {
        struct program_op *o = &p->op[i];
        if (!op_is_collective(o))
            continue;
        o->match = PROGRAM_NONE;
        if (o->peer >= p->groups) {
            char label[OP_LABEL];
            return error_set(STATUS_INVALID, "rank %u: %s: process group %u does not exist",
                             program_rank_of(p, i), op_label(o, label), o->peer);
        }
    }
    return STATUS_OK;
}

/* Groups, devices, channels, collectives: what follows when messages are matched. */
enum status program_link(struct program *p)
{
    if (p->ops >= PROGRAM_NONE)
        return error_set(
            STATUS_INVALID,
            "program has %zu ops, expected at most %u; use fewer microbatches or ranks", p->ops,
            PROGRAM_NONE - 1);
    PASS(program_check_groups(p));
    PASS(program_find_devices(p));
    PASS(number_channels(p));
    for (uint32_t g = 0; g < p->groups; g++)
        PASS(match_group(p, g));
    return STATUS_OK;
}

/* Of a program from a file nothing is known: messages are matched by sorting both ends. */
enum status program_match(struct program *p)
{
    if (p->ops >= PROGRAM_NONE)
        return error_set(
            STATUS_INVALID,
            "program has %zu ops, expected at most %u; use fewer microbatches or ranks", p->ops,
            PROGRAM_NONE - 1);
    for (size_t i = 0; i < p->ops; i++)
        p->op[i].match = p->op[i].channel = PROGRAM_NONE;
    PASS(program_check_groups(p));
    PASS(match_messages(p));
    return program_link(p);
}
