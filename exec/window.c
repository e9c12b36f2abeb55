/* Windows of channels: from the order of the receiver's list, how many messages it holds at
 * once. */
#include "exec/window.h"

#include <stdlib.h>

#include "core/base/array.h"

/* First op that depends on each op: user[i], or the end of the rank's list. */
static void find_users(const struct program *p, uint32_t *user)
{
    for (size_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            user[i] = (uint32_t)p->op_start[r + 1];
    for (size_t i = p->ops; i-- > 0;)
        for (uint32_t d = p->op[i].dep_start; d < p->op[i + 1].dep_start; d++)
            user[p->dep[d]] = (uint32_t)i;
}

/* Slots needed by message k: itself and the earlier ones that are not given back before it. */
static size_t held_at_arrival(const struct channel_order *c, const uint32_t *user, size_t k)
{
    size_t held = 1;
    for (size_t i = 0; i < k; i++)
        held += user[c->recv[i]] >= user[c->recv[k]];
    return held;
}

/* Slots taken when the receiver's list has reached the RECV of message k. */
static size_t held_at_post(const struct channel_order *c, const uint32_t *user, size_t k)
{
    size_t held = 0;
    for (size_t i = 0; i < c->n; i++)
        held += c->recv[i] <= c->recv[k] && user[c->recv[i]] > c->recv[k];
    return held;
}

/* Two more than what cannot block: the sender seldom waits for credit then. */
static void set_window(const struct program *p, const uint32_t *user, struct channel_order *c)
{
    size_t need = 0;
    for (size_t k = 0; k < c->n; k++) {
        size_t arrival = held_at_arrival(c, user, k), post = held_at_post(c, user, k);
        size_t most = arrival > post ? arrival : post;
        need = most > need ? most : need;
        size_t bytes = (size_t)p->op[c->send[k]].bytes;
        c->bytes = bytes > c->bytes ? bytes : c->bytes;
    }
    c->window = need + 2 < c->n ? need + 2 : c->n;
}

/* Fill in the ops of every channel; the arrays are in place. */
static void window_collect(const struct program *p, struct channel_order *order)
{
    for (size_t c = 0; c < p->channels; c++)
        order[c].n = 0;
    for (size_t i = 0; i < p->ops; i++) {
        if (p->op[i].kind != OP_SEND)
            continue;
        struct channel_order *c = &order[p->op[i].channel];
        c->send[c->n] = (uint32_t)i;
        c->recv[c->n++] = p->op[i].match;
    }
}

enum status channel_orders(const struct program *p, struct channel_order **out)
{
    enum status st;
    struct channel_order *order = NULL;
    uint32_t *user = NULL;
    TRY(ARRAY_NEW(order, p->channels + 1));
    TRY(ARRAY_NEW(user, p->ops + 1));
    for (size_t i = 0; i < p->ops; i++) /* those that are no SENDs count in one entry more */
        order[p->op[i].kind == OP_SEND ? p->op[i].channel : p->channels].n++;
    for (size_t c = 0; c < p->channels; c++) {
        TRY(ARRAY_NEW(order[c].send, 2 * order[c].n));
        order[c].recv = order[c].send + order[c].n;
    }
    find_users(p, user);
    window_collect(p, order);
    for (size_t c = 0; c < p->channels; c++)
        set_window(p, user, &order[c]);
    MOVE(out, order);
out:
    free(user);
    channel_orders_free(order, p->channels);
    return st;
}

void channel_orders_free(struct channel_order *order, size_t channels)
{
    for (size_t c = 0; order && c < channels; c++)
        free(order[c].send);
    free(order);
}
