/* What a rank has to do with others in a program, and the rules that all transports share. */
#include "exec/endpoints.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"

/* ---- ends and seats */

/* Channels are directed: each is an outgoing end on one rank and an incoming one on another. */
static enum status find_ends(struct endpoints *l)
{
    const struct program *p = l->program;
    uint32_t n = 0;
    for (size_t c = 0; c < p->channels; c++)
        l->n += p->channel[c].from == l->rank || p->channel[c].to == l->rank;
    PASS(ARRAY_NEW(l->of, p->channels));
    PASS(ARRAY_NEW(l->end, l->n));
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

/* Where the rank sits in each group; groups without it keep zeros. */
static enum status find_seats(struct endpoints *l)
{
    const struct program *p = l->program;
    size_t members = p->groups > 0 ? p->group_start[p->groups] : 0;
    PASS(ARRAY_NEW(l->group, p->groups));
    PASS(ARRAY_NEW(l->gives, members));
    PASS(ARRAY_NEW(l->takes, members));
    for (size_t g = 0; g < p->groups; g++)
        for (size_t first = p->group_start[g], i = first; i < p->group_start[g + 1]; i++)
            if (p->member[i] == l->rank)
                l->group[g] = (struct link_group){.ranks = p->group_start[g + 1] - first,
                                                  .me = i - first,
                                                  .member = p->member + first,
                                                  .first = first};
    return STATUS_OK;
}

static void add_partners(struct endpoints *l, const struct link_group *g,
                         const struct rounds_call *c)
{
    for (size_t k = 0; rounds_do(c->kind) && k < rounds_count(c); k++) {
        struct round r = rounds_at(c, k);
        if (r.to != ROUND_NOBODY)
            l->gives[g->first + r.to] = true;
        if (r.from != ROUND_NOBODY)
            l->takes[g->first + r.from] = true;
    }
}

/* Whom the rank meets in the rounds of its collectives. */
static enum status find_partners(struct endpoints *l)
{
    const struct program *p = l->program;
    for (uint32_t i = (uint32_t)l->first; i < l->first + l->ops; i++) {
        if (!op_is_collective(&p->op[i]))
            continue;
        const struct link_group *g = &l->group[p->op[i].peer];
        l->collectives++;
        if (g->ranks == 0)
            return error_set(STATUS_INVALID, "rank %u is not a member of process group %u", l->rank,
                             p->op[i].peer);
        struct rounds_call c = endpoints_rounds(l, i, 0);
        for (c.gathers = 0; c.gathers <= g->ranks; c.gathers += g->ranks) /* not, and yes */
            add_partners(l, g, &c);
    }
    return STATUS_OK;
}

enum status endpoints_init(const struct program *p, uint32_t rank, const struct rendezvous *r,
                           struct endpoints *out)
{
    enum status st;
    struct endpoints l = {.program = p,
                          .rank = rank,
                          .step = UINT32_MAX,
                          .algorithm = r->algorithm,
                          .first = p->op_start[rank],
                          .ops = p->op_start[rank + 1] - p->op_start[rank]};
    TRY(ARRAY_NEW(l.op, l.ops));
    TRY(channel_orders(p, &l.order));
    TRY(find_ends(&l));
    TRY(find_seats(&l));
    TRY(find_partners(&l));
    TRY(ARRAY_NEW(l.call, l.collectives));
    MOVE(out, l);
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
    free(l->group);
    free(l->gives);
    free(l->takes);
    free(l->call);
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

void endpoints_times(void *endpoints, uint32_t op, double *start_s, double *end_s)
{
    *start_s = endpoints_op(endpoints, op)->start_s;
    *end_s = endpoints_op(endpoints, op)->end_s;
}

/* ---- buffers */

enum status link_pool_make(struct link_pool *p, void **data)
{
    *data = link_pool_take(p);
    if (*data)
        return STATUS_OK;
    if (!(*data = malloc(p->bytes + 1))) /* not zeroed: memory that is not needed stays untouched */
        return error_set(STATUS_NOMEM, "out of memory: message of %zu bytes", p->bytes);
    p->data[p->made++] = *data;
    return STATUS_OK;
}

enum status link_pool_init(const struct link_end *end, struct link_pool *out)
{
    void *data;
    *out = (struct link_pool){.bytes = end->order->bytes, .room = end->room};
    PASS(ARRAY_NEW(out->data, end->room));
    PASS(ARRAY_NEW(out->unused, end->room));
    while (!end->outgoing && out->made < end->room)
        PASS(link_pool_make(out, &data));
    for (; out->free < out->made; out->free++)
        out->unused[out->free] = out->data[out->free];
    return STATUS_OK;
}

void link_pool_free(struct link_pool *p)
{
    for (size_t i = 0; p->data && i < p->made; i++)
        free(p->data[i]);
    free(p->data);
    free(p->unused);
    *p = (struct link_pool){0};
}

void *link_pool_take(struct link_pool *p)
{
    return p->free > 0 ? p->unused[--p->free] : NULL;
}

void link_pool_give(struct link_pool *p, void *data)
{
    p->unused[p->free++] = data;
}

/* ---- what goes wrong */

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
    return endpoints_locate(
        l, op,
        error_set(
            STATUS_EXTERNAL,
            "timeout: communication is not complete after %g s; raise --timeout if ops take longer",
            timeout_s));
}

bool endpoints_fail(struct endpoints *l, enum status st, uint32_t op, uint32_t peer)
{
    char label[OP_LABEL];
    if (l->failure != STATUS_OK)
        return false;
    l->failure = st;
    snprintf(l->reason, sizeof l->reason, "rank %u: %s with rank %u: %.300s", l->rank,
             op_label(&l->program->op[op], label), peer, error_message());
    return true;
}

enum status endpoints_failure(const struct endpoints *l)
{
    return l->failure == STATUS_OK ? STATUS_OK : error_set(l->failure, "%s", l->reason);
}

/* ---- rules */

enum status endpoints_may_pack(const struct endpoints *l, uint32_t op)
{
    const struct link_op *o = endpoints_op(l, op);
    return o->posted || o->complete || o->buffer ? endpoints_misuse(l, op, "sent twice in a step")
                                                 : STATUS_OK;
}

/* Channels have no tags but the order of the list: both ends go through it in step. */
enum status endpoints_post(const struct endpoints *l, uint32_t op)
{
    struct link_end *end = &l->end[endpoints_end(l, op)];
    struct link_op *o = endpoints_op(l, op);
    if (!o->buffer || o->posted)
        return endpoints_misuse(l, op, "sent without a buffer");
    if (end->order->send[end->next] != op)
        return endpoints_misuse(l, op, "sent out of order");
    end->next = (end->next + 1) % end->order->n;
    o->posted = true;
    return STATUS_OK;
}

enum status endpoints_count_call(const struct endpoints *l, uint32_t op)
{
    struct link_op *o = endpoints_op(l, op);
    if (!rounds_do(l->program->op[op].kind))
        return endpoints_misuse(l, op, "unsupported by all transports");
    if (o->posted)
        return endpoints_misuse(l, op, "called again before its last call was waited for");
    o->posted = true;
    o->complete = false;
    o->calls++;
    return STATUS_OK;
}

enum status endpoints_call(struct endpoints *l, uint32_t op, enum element e, void *data, size_t n)
{
    enum status st = endpoints_count_call(l, op);
    if (st == STATUS_OK)
        l->call[l->called++ % l->collectives] = (struct link_call){op, e, data, n};
    return st;
}

const struct link_call *endpoints_next_call(const struct endpoints *l)
{
    return l->served < l->called ? &l->call[l->served % l->collectives] : NULL;
}

struct rounds_call endpoints_rounds(const struct endpoints *l, uint32_t op, size_t n)
{
    const struct program_op *o = &l->program->op[op];
    return (struct rounds_call){.algorithm = l->algorithm,
                                .kind = o->kind,
                                .ranks = l->group[o->peer].ranks,
                                .me = l->group[o->peer].me,
                                .n = n,
                                .gathers = l->gathers,
                                .reduction = o->reduction};
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

/* A step without its messages would leave the other end waiting in the next one: it is refused
 * here, where the rank can still be told which op it was. */
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
    for (size_t k = 0; k < l->n; k++)
        l->end[k].next = 0;
    l->called = l->served = 0;
    l->step++;
    return STATUS_OK;
}
