/* endpoints.h - where a rank stands in a program, as its transport sees it: the ends of channels
 * that are its own, its places in groups, and the state of its communication ops in a step with the
 * rules of transport.h. What all transports share; each adds its sockets, requests or streams. */
#ifndef EXEC_ENDPOINTS_H
#define EXEC_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "core/program.h"
#include "exec/transport/tcp/window.h"

/* One end of a channel. */
struct link_end {
    uint32_t channel, peer; /* peer: the rank at the other end */
    bool outgoing;
    const struct channel_order *order; /* own ops: order->send or order->recv */
    size_t room; /* buffers: outgoing as many as messages, incoming the window */
};

/* The place of the rank in a group. */
struct link_ring {
    size_t ranks, me;        /* members, own position; ranks == 0: not a member */
    uint32_t next, previous; /* ranks of the neighbours */
};

/* A communication op of the rank in the current step. */
struct link_op {
    bool posted, complete; /* a collective: its last call is not waited for, is complete */
    uint32_t calls;        /* of a collective */
    double start_s, end_s;
    void *buffer; /* the transport's, NULL: none or released */
};

struct endpoints {
    const struct program *program;
    uint32_t rank, step;         /* step of `op`; UINT32_MAX before the first barrier */
    size_t first, ops;           /* own ops are program->op[first .. first + ops) */
    struct link_op *op;          /* [ops] */
    struct channel_order *order; /* [program->channels] */
    size_t n;
    struct link_end *end;   /* [n] in the order of channels */
    uint32_t *of;           /* [program->channels] index in end, or PROGRAM_NONE */
    struct link_ring *ring; /* [program->groups] */
    size_t collectives;     /* in the rank's list: each has one call under way at most */
};

/* The program must be matched and outlive *out. O(ops log ops) and what channel_orders() takes.
 * STATUS_INVALID: a collective of a group that the rank is not in; STATUS_NOMEM. */
enum status endpoints_init(const struct program *p, uint32_t rank,
                           struct endpoints *out) MUST_CHECK;
void endpoints_free(struct endpoints *l); /* accepts {0}; leaves {0} */

/* Of an op of the rank: its state; of a SEND or RECV: the index of its link's end. */
struct link_op *endpoints_op(const struct endpoints *l, uint32_t op);
size_t endpoints_end(const struct endpoints *l, uint32_t op);

/* STATUS_INVALID "rank 1: 0SEND_F3: what"; STATUS_EXTERNAL "...: nothing for 3 s". */
enum status endpoints_misuse(const struct endpoints *l, uint32_t op, const char *what) MUST_CHECK;
enum status endpoints_timed_out(const struct endpoints *l, uint32_t op,
                                double timeout_s) MUST_CHECK;
/* Put rank, op and peer before the message of a failure. Returns st. */
enum status endpoints_locate(const struct endpoints *l, uint32_t op, enum status st);

/* Count a call of a collective. STATUS_INVALID: it may not be made. */
enum status endpoints_call(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* May the op be waited for? STATUS_INVALID: a collective that was not called. */
enum status endpoints_may_wait(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* Op `op`, or its call, ran from start_s to end_s. */
void endpoints_complete(const struct endpoints *l, uint32_t op, double start_s, double end_s);
/* All ops are as they were before the first step, and the next step begins. STATUS_INVALID names
 * one that is not complete or whose buffer was not released. */
enum status endpoints_next_step(struct endpoints *l) MUST_CHECK;

#endif
