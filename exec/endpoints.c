#include "exec/endpoints.h"

#include <stdlib.h>

#include "exec/ring.h"

static enum status find_ends(struct endpoints *l)
{
    const struct program *p = l->program;
    for (size_t c = 0; c < p->channels; c++)
        l->n += p->channel[c].from == l->rank || p->channel[c].to == l->rank;
    l->of = malloc((p->channels + 1) * sizeof *l->of);
    l->end = calloc(l->n + 1, sizeof *l->end);
    if (!l->of || !l->end)
        return error_set(STATUS_NOMEM, "%zu links", l->n);
    uint32_t n = 0;
    for (uint32_t c = 0; c < p->channels; c++) {
        bool outgoing = p->channel[c].from == l->rank;
        l->of[c] = PROGRAM_NONE;
        if (!outgoing && p->channel[c].to != l->rank)
            continue;
        l->of[c] = n;
        l->end[n++] = (struct link_end){.channel = c,
                                        .peer = outgoing ? p->channel[c].to : p->channel[c].from,
                                        .outgoing = outgoing,
                                        .order = &l->order[c],
                                        .room = outgoing ? l->order[c].n : l->order[c].window};
    }
    return STATUS_OK;
}

static enum status find_rings(struct endpoints *l)
{
    const struct program *p = l->program;
    l->ring = calloc(p->groups + 1, sizeof *l->ring);
    if (!l->ring)
        return error_set(STATUS_NOMEM, "%zu groups", p->groups);
    for (size_t g = 0; g < p->groups; g++) {
        const uint32_t *member = p->member + p->group_start[g];
        size_t n = p->group_start[g + 1] - p->group_start[g];
        for (size_t i = 0; i < n; i++)
            if (member[i] == l->rank)
                l->ring[g] = (struct link_ring){n, i, member[(i + 1) % n], member[(i + n - 1) % n]};
    }
    for (size_t i = l->first; i < l->first + l->ops; i++) {
        if (!op_is_collective(&p->op[i]))
            continue;
        l->collectives++;
        size_t ranks = l->ring[p->op[i].peer].ranks;
        if (ranks == 0)
            return error_set(STATUS_INVALID, "rank %u is no member of group %u", l->rank,
                             p->op[i].peer);
    }
    return STATUS_OK;
}

enum status endpoints_init(const struct program *p, uint32_t rank, struct endpoints *out)
{
    enum status st = STATUS_OK;
    struct endpoints l = {.program = p,
                          .rank = rank,
                          .step = UINT32_MAX,
                          .first = p->op_start[rank],
                          .ops = p->op_start[rank + 1] - p->op_start[rank]};
    l.op = calloc(l.ops + 1, sizeof *l.op);
    if (!l.op) {
        st = error_set(STATUS_NOMEM, "%zu ops", l.ops);
        goto out;
    }
    TRY(channel_orders(p, &l.order));
    TRY(find_ends(&l));
    TRY(find_rings(&l));
    *out = l;
    l = (struct endpoints){0};
out:
    endpoints_free(&l);
    return st;
}

void endpoints_free(struct endpoints *l)
{
    channel_orders_free(l->order, l->program ? l->program->channels : 0);
    free(l->op);
    free(l->end);
    free(l->of);
    free(l->ring);
    *l = (struct endpoints){0};
}

struct link_op *endpoints_op(const struct endpoints *l, uint32_t op)
{
    return &l->op[op - l->first];
}

size_t endpoints_end(const struct endpoints *l, uint32_t op)
{
    return l->of[l->program->op[op].channel];
}

enum status endpoints_misuse(const struct endpoints *l, uint32_t op, const char *what)
{
    char label[OP_LABEL];
    return error_set(STATUS_INVALID, "rank %u: %s: %s", l->rank,
                     op_label(&l->program->op[op], label), what);
}

enum status endpoints_locate(const struct endpoints *l, uint32_t op, enum status st)
{
    char label[OP_LABEL];
    const struct program_op *o = &l->program->op[op];
    return error_context(st, "rank %u: %s with %s %u", l->rank, op_label(o, label),
                         op_is_collective(o) ? "group" : "rank", o->peer);
}

enum status endpoints_timed_out(const struct endpoints *l, uint32_t op, double timeout_s)
{
    return endpoints_locate(l, op, error_set(STATUS_EXTERNAL, "nothing for %g s", timeout_s));
}

enum status endpoints_call(const struct endpoints *l, uint32_t op)
{
    struct link_op *o = endpoints_op(l, op);
    if (!ring_does(&l->program->op[op]))
        return endpoints_misuse(l, op, "no transport does this");
    if (o->posted)
        return endpoints_misuse(l, op, "called before the last call was waited for");
    o->posted = true;
    o->complete = false;
    o->calls++;
    return STATUS_OK;
}

enum status endpoints_may_wait(const struct endpoints *l, uint32_t op)
{
    if (op_is_collective(&l->program->op[op]) && endpoints_op(l, op)->calls == 0)
        return endpoints_misuse(l, op, "waited for, but not called");
    return STATUS_OK;
}

void endpoints_complete(const struct endpoints *l, uint32_t op, double start_s, double end_s)
{
    struct link_op *o = endpoints_op(l, op);
    if (o->calls <= 1)
        o->start_s = start_s;
    o->end_s = end_s;
    o->complete = true;
}

enum status endpoints_next_step(struct endpoints *l)
{
    for (size_t i = 0; i < l->ops; i++) {
        struct link_op *o = &l->op[i];
        const struct program_op *p = &l->program->op[l->first + i];
        if (l->step != UINT32_MAX && !op_computes(p) && (!o->complete || o->buffer))
            return endpoints_misuse(l, (uint32_t)(l->first + i),
                                    "not complete or not released at barrier");
        *o = (struct link_op){0};
    }
    l->step++;
    return STATUS_OK;
}
