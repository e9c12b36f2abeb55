/* endpoints.h - where a rank stands in a program, as its transport sees it, and the rules of
 * transport.h: the ends of channels that are its own with their buffers, its seats in groups, the
 * state of its communication ops in a step, the calls of collectives in their order, and the first
 * failure. Transports add only what moves bytes: sockets, requests, streams, threads.
 *
 * A transport's struct begins with its struct endpoints. Nothing here locks: a transport with
 * threads holds its mutex. */
#ifndef EXEC_ENDPOINTS_H
#define EXEC_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"
#include "exec/rendezvous.h"
#include "exec/rounds.h"
#include "exec/window.h"

/* One end of a channel. */
struct link_end {
    uint32_t channel, peer; /* peer: the rank at the other end */
    bool outgoing;
    const struct channel_order *order; /* own ops: order->send or order->recv */
    size_t room; /* buffers: outgoing as many as messages, incoming the window */
    size_t next; /* outgoing: position of the next SEND to be posted */
};

/* Buffers of one end: those of an incoming one are made at once, those of an outgoing one when they
 * are first needed, so that a step that needs few has few. */
struct link_pool {
    size_t bytes, room;    /* of a buffer; how many there may be */
    size_t made, free;     /* of data[]; of unused[] */
    void **data, **unused; /* [room] all that have been made; those not in use */
};

/* The seat of the rank in a group. */
struct link_group {
    size_t ranks, me;       /* members, own position; ranks == 0: not a member */
    const uint32_t *member; /* [ranks] their ranks; of the program */
    size_t first;           /* number of the first member among the members of all groups */
};

/* A communication op of the rank in the current step. */
struct link_op {
    bool posted, complete; /* a collective: its last call is not waited for, is complete */
    uint32_t calls;        /* of a collective */
    double start_s, end_s;
    void *buffer; /* NULL: none or released */
};

/* A call of a collective, made and not yet over. */
struct link_call {
    uint32_t op;
    enum element element;
    void *data;
    size_t n;
};

enum { ENDPOINTS_REASON = 512 };

struct endpoints {
    const struct program *program;
    uint32_t rank, step; /* step of `op`; UINT32_MAX before the first barrier */
    const struct rounds_algorithm *algorithm;
    size_t gathers;              /* of struct rounds_call; 0 until the transport says other */
    size_t first, ops;           /* own ops are program->op[first .. first + ops) */
    struct link_op *op;          /* [ops] */
    struct channel_order *order; /* [program->channels] */
    size_t n;
    struct link_end *end;     /* [n] in the order of channels */
    uint32_t *of;             /* [program->channels] index in end, or PROGRAM_NONE */
    struct link_group *group; /* [program->groups] */
    bool *gives, *takes;    /* [members of all groups]: does the rank ever, to and from that one? */
    size_t collectives;     /* in the rank's list: each has one call under way at most */
    size_t called, served;  /* calls of this step, and those of them that are over */
    struct link_call *call; /* [collectives] call k at k % collectives */
    enum status failure;    /* the first; STATUS_OK: none */
    char reason[ENDPOINTS_REASON];
};

/* What rank `rank` has to do with others. The program must be matched and outlive *out;
 * r->algorithm says how collectives are done. O(ops log ops + rounds) and what channel_orders()
 * takes. STATUS_INVALID: a collective of a group that the rank is not in; STATUS_NOMEM. */
enum status endpoints_init(const struct program *p, uint32_t rank, const struct rendezvous *r,
                           struct endpoints *out) MUST_CHECK;
void endpoints_free(struct endpoints *l); /* accepts {0}; leaves {0} */

/* Of an op of the rank: its state; of a SEND or RECV: the index of its link's end. */
struct link_op *endpoints_op(const struct endpoints *l, uint32_t op);
size_t endpoints_end(const struct endpoints *l, uint32_t op);
/* transport.h's times(), of a struct that begins with endpoints. */
void endpoints_times(void *endpoints, uint32_t op, double *start_s, double *end_s);

/* ---- buffers */

enum status link_pool_init(const struct link_end *end, struct link_pool *out) MUST_CHECK;
void link_pool_free(struct link_pool *p); /* accepts {0}; leaves {0} */
/* A buffer that is not in use; NULL: there is none. */
void *link_pool_take(struct link_pool *p);
/* The same, made where there is none and there may be one more. STATUS_NOMEM. */
enum status link_pool_make(struct link_pool *p, void **data) MUST_CHECK;
void link_pool_give(struct link_pool *p, void *data);

/* ---- rules */

/* May SEND `op` be packed? STATUS_INVALID: it has been. */
enum status endpoints_may_pack(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* Note that a packed SEND is posted. STATUS_INVALID: it has no buffer, or is out of order. */
enum status endpoints_post(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* Count a call of a collective. STATUS_INVALID: it may not be made. */
enum status endpoints_count_call(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* The same, and put it behind the others. */
enum status endpoints_call(struct endpoints *l, uint32_t op, enum element e, void *data,
                           size_t n) MUST_CHECK;
/* The oldest call that is not over; NULL: none. */
const struct link_call *endpoints_next_call(const struct endpoints *l);
/* As the rounds see a call of this rank; of an op that is a collective. */
struct rounds_call endpoints_rounds(const struct endpoints *l, uint32_t op, size_t n);
/* May the op be waited for? STATUS_INVALID: a collective that was not called. */
enum status endpoints_may_wait(const struct endpoints *l, uint32_t op) MUST_CHECK;
/* Op `op`, or its call, ran from start_s to end_s. */
void endpoints_complete(const struct endpoints *l, uint32_t op, double start_s, double end_s);
/* All ops are as they were before the first step, and the next step begins. STATUS_INVALID names
 * one that is not complete or whose buffer was not released. */
enum status endpoints_next_step(struct endpoints *l) MUST_CHECK;

/* ---- what goes wrong */

/* STATUS_INVALID "rank 1: 0SEND_F3: what"; STATUS_EXTERNAL "...: timeout: not complete after
 * 3 s". */
enum status endpoints_misuse(const struct endpoints *l, uint32_t op, const char *what) MUST_CHECK;
enum status endpoints_timed_out(const struct endpoints *l, uint32_t op,
                                double timeout_s) MUST_CHECK;
/* Put rank, op and peer before the message of a failure. Returns st. */
enum status endpoints_locate(const struct endpoints *l, uint32_t op, enum status st);
/* Keep a failure of op with `peer` whose reason is error_message(), for whoever calls next; the
 * first one counts. Returns whether it is the first. */
bool endpoints_fail(struct endpoints *l, enum status st, uint32_t op, uint32_t peer);
/* The failure that was kept, with its message; STATUS_OK: none. */
enum status endpoints_failure(const struct endpoints *l);

#endif
