#include "core/program.h"

#include <stdio.h>
#include <stdlib.h>

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
    free(p->channel);
    free(p->stage_start);
    free(p->stage_op);
    free(p->optimizer);
    *p = (struct program){0};
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

const char *op_label(const struct program_op *o, char text[OP_LABEL])
{
    static const char *const names[OP_KINDS] = {
        [OP_FORWARD] = "F", [OP_BACKWARD] = "B", [OP_UPDATE] = "UPDATE",
        [OP_SEND] = "SEND", [OP_RECV] = "RECV",  [OP_ALLREDUCE] = "ALLREDUCE",
    };
    const char *name = o->kind < OP_KINDS ? names[o->kind] : "?";
    if (o->kind == OP_SEND || o->kind == OP_RECV)
        snprintf(text, OP_LABEL, "%u%s_%c%u", o->stage, name, o->backward ? 'B' : 'F',
                 o->microbatch);
    else if (o->microbatch != PROGRAM_NONE)
        snprintf(text, OP_LABEL, "%u%s%u", o->stage, name, o->microbatch);
    else
        snprintf(text, OP_LABEL, "%u%s", o->stage, name);
    return text;
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
static enum status collect(const struct program *p, enum op_kind kind, struct endpoint **end,
                           size_t *n)
{
    size_t count = 0;
    for (size_t i = 0; i < p->ops; i++)
        count += p->op[i].kind == kind;
    struct endpoint *e = calloc(count + 1, sizeof *e);
    if (!e)
        return error_set(STATUS_NOMEM, "program of %zu ops", p->ops);
    size_t k = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (o->kind != kind)
                continue;
            if (o->peer >= p->ranks || o->peer == r) {
                char label[OP_LABEL];
                free(e);
                return error_set(STATUS_INVALID, "rank %u: %s: peer %u does not exist", r,
                                 op_label(o, label), o->peer);
            }
            e[k++] = kind == OP_SEND ? (struct endpoint){r, o->peer, o->tag, (uint32_t)i}
                                     : (struct endpoint){o->peer, r, o->tag, (uint32_t)i};
        }
    qsort(e, k, sizeof *e, by_message);
    *end = e;
    *n = k;
    return STATUS_OK;
}

static enum status unmatched(const struct program *p, const struct endpoint *e, const char *missing)
{
    char label[OP_LABEL];
    uint32_t rank = program_rank_of(p, e->op);
    return error_set(STATUS_INVALID, "rank %u (%s): %s to/from rank %u tag %u has no matching %s",
                     rank, p->rank[rank].name, op_label(&p->op[e->op], label),
                     rank == e->from ? e->to : e->from, e->tag, missing);
}

static enum status match_messages(struct program *p)
{
    enum status st;
    struct endpoint *send = NULL, *recv = NULL;
    size_t sends, recvs, channels = 0;

    TRY(collect(p, OP_SEND, &send, &sends));
    TRY(collect(p, OP_RECV, &recv, &recvs));
    for (size_t k = 0; k < sends || k < recvs; k++) {
        if (k > 0 && k < sends && same_message(&send[k], &send[k - 1])) {
            st = unmatched(p, &send[k], "RECV of its own (tag used twice)");
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
        bool first = k == 0 || send[k].from != send[k - 1].from || send[k].to != send[k - 1].to;
        channels += first;
        p->op[send[k].op].match = recv[k].op;
        p->op[recv[k].op].match = send[k].op;
        p->op[send[k].op].channel = p->op[recv[k].op].channel = (uint32_t)(channels - 1);
    }
    free(p->channel);
    p->channel = calloc(channels + 1, sizeof *p->channel);
    if (!p->channel) {
        st = error_set(STATUS_NOMEM, "%zu channels", channels);
        goto out;
    }
    p->channels = channels;
    for (size_t k = 0; k < sends; k++)
        p->channel[p->op[send[k].op].channel] = (struct program_channel){send[k].from, send[k].to};
out:
    free(recv);
    free(send);
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
            while (mine < mine_end && !(p->op[mine].kind >= OP_ALLREDUCE && p->op[mine].peer == g))
                mine++;
            while (other < other_end &&
                   !(p->op[other].kind >= OP_ALLREDUCE && p->op[other].peer == g))
                other++;
            if (mine == mine_end || other == other_end)
                break;
            p->op[mine].match = (uint32_t)other;
        }
        if ((mine == mine_end) != (other == other_end))
            return error_set(STATUS_INVALID,
                             "group %u: ranks %u and %u do not take part equally often (group of "
                             "rank %u)",
                             g, rank, next, rank0);
    }
    return STATUS_OK;
}

enum status program_match(struct program *p)
{
    enum status st = STATUS_OK;
    if (p->ops >= PROGRAM_NONE)
        return error_set(STATUS_INVALID, "a program of %zu ops is too large", p->ops);
    for (size_t i = 0; i < p->ops; i++)
        p->op[i].match = p->op[i].channel = PROGRAM_NONE;
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind >= OP_ALLREDUCE && p->op[i].peer >= p->groups) {
            char label[OP_LABEL];
            return error_set(STATUS_INVALID, "rank %u: %s: group %u does not exist",
                             program_rank_of(p, i), op_label(&p->op[i], label), p->op[i].peer);
        }
    TRY(match_messages(p));
    for (uint32_t g = 0; g < p->groups; g++)
        TRY(match_group(p, g));
out:
    return st;
}
