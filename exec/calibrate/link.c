/* One rank's messages and collectives, over any transport.
 *
 * What a message takes of the CPU is what this rank's process has got of it meanwhile, waiting
 * asleep; where cores are left for the transports' threads, what the calling thread has.
 *
 * Messages are timed as half of a round trip between two ranks, collectives as nccl-tests do: calls
 * one right after the other. Both are ordinary programs of SENDs, RECVs and collectives, so that
 * what is measured is what the executor will use, packing into and out of buffers included. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/limit.h"
#include "exec/calibrate/probe.h"

const struct bench_sum bench_sums[BENCH_SUMS] = {
    {OP_ALLREDUCE, COLLECTIVE_ALLREDUCE},
    {OP_REDUCESCATTER, COLLECTIVE_REDUCESCATTER},
    {OP_ALLGATHER, COLLECTIVE_ALLGATHER},
    {OP_ALLTOALL, COLLECTIVE_ALLTOALL},
};

/* A repetition is the mean of so many messages, fewer of the large ones. */
enum { ROUNDS = 4, LARGE = 4 << 20 };

static size_t rounds_of(int64_t bytes)
{
    return bytes > LARGE ? 1 : ROUNDS;
}

/* ---- programs */

/* Room for `ops` ops that each depend on the one before, and one group of all ranks. */
static enum status begin(struct program *p, size_t ranks, size_t ops, bool group)
{
    *p = (struct program){.ranks = ranks, .groups = group, .microbatch_size = 1};
    PASS(ARRAY_NEW(p->rank, ranks));
    PASS(ARRAY_NEW(p->op_start, ranks + 1));
    PASS(ARRAY_NEW(p->op, ops + 1));
    PASS(ARRAY_NEW(p->dep, ops));
    PASS(ARRAY_NEW(p->group_start, 2));
    PASS(ARRAY_NEW(p->member, ranks));
    p->group_start[1] = group ? ranks : 0;
    for (uint32_t r = 0; r < ranks; r++) {
        p->rank[r].device = r;
        p->member[r] = r;
    }
    return STATUS_OK;
}

/* One after the other, so that a message's slot is needed only until the answer. */
static void append(struct program *p, uint32_t rank, struct program_op op)
{
    bool first = p->ops == p->op_start[rank];
    op.stage = rank;
    op.count = 1;
    op.dep_start = (uint32_t)p->deps;
    if (!first)
        p->dep[p->deps++] = (uint32_t)p->ops - 1;
    p->op[p->ops++] = op;
}

static void end_rank(struct program *p, uint32_t rank)
{
    p->op_start[rank + 1] = p->ops;
    p->op[p->ops].dep_start = (uint32_t)p->deps; /* of the sentinel, or overwritten */
}

static size_t messages_n(const struct bench_task *task)
{
    size_t n = 0;
    for (size_t k = 0; k < task->sizes; k++)
        n += rounds_of(task->size[k]);
    return n;
}

/* `first` sends a message, `second` one of the same size back, size after size. */
static enum status make_game(const struct bench *b, uint32_t first, uint32_t second,
                             struct program *p)
{
    PASS(begin(p, b->ranks, 4 * messages_n(b->task), false));
    for (uint32_t r = 0; r < b->ranks; r++) {
        uint32_t tag = 0;
        for (size_t k = 0; (r == first || r == second) && k < b->task->sizes; k++)
            for (size_t i = 0; i < rounds_of(b->task->size[k]); i++, tag++) {
                uint32_t peer = r == first ? second : first;
                struct program_op op = {.kind = r == first ? OP_SEND : OP_RECV,
                                        .microbatch = tag,
                                        .peer = peer,
                                        .peer_stage = peer,
                                        .tag = tag,
                                        .bytes = b->task->size[k]};
                append(p, r, op);
                op.kind = r == first ? OP_RECV : OP_SEND;
                append(p, r, op);
            }
        end_rank(p, r);
    }
    return program_match(p);
}

/* In the array of a collective of so many bytes: what an all-to-all brings is a half of its own, and its
 * parts are equal (exec/transport.h). */
static size_t numbers_of(const struct bench *b, enum op_kind kind, int64_t bytes)
{
    size_t n = (size_t)bytes / sizeof(float);
    return kind == OP_ALLTOALL ? 2 * (n - n % b->ranks) : n;
}

/* Every member calls the same collectives of all sizes in the same order. */
static enum status make_collectives(const struct bench *b, enum op_kind kind, struct program *p)
{
    PASS(begin(p, b->ranks, b->ranks * messages_n(b->task), true));
    for (uint32_t r = 0; r < b->ranks; r++) {
        for (size_t k = 0; k < b->task->sizes; k++)
            for (size_t i = 0; i < rounds_of(b->task->size[k]); i++)
                append(p, r,
                       (struct program_op){.kind = (uint8_t)kind,
                                           .microbatch = PROGRAM_NONE,
                                           .tag = PROGRAM_NONE,
                                           .bytes = b->task->size[k]});
        end_rank(p, r);
    }
    return program_match(p);
}

/* ---- one rank's part */

/* A transport that is open for a program. */
struct table {
    const struct transport *how;
    void *self;
    struct program program;
    void *data; /* [2 x largest size] */
};

static enum status sit_down(const struct bench *b, struct table *t)
{
    t->how = b->transport;
    t->data = calloc(2, (size_t)b->task->size[b->task->sizes - 1]);
    if (!t->data)
        return error_set(STATUS_NOMEM, "messages");
    return t->how->open(&t->program, b->rank, &b->meeting, &t->self);
}

static void stand_up(struct table *t)
{
    if (t->how)
        t->how->close(t->self);
    free(t->data);
    program_free(&t->program);
}

/* One message, packed from and unpacked into `data` as a device does; its time counts. */
static enum status pass(const struct table *t, uint32_t op)
{
    size_t bytes = (size_t)t->program.op[op].bytes;
    if (t->program.op[op].kind == OP_SEND) {
        void *buffer;
        PASS(t->how->send_buffer(t->self, op, &buffer));
        memcpy(buffer, t->data, bytes);
        PASS(t->how->send(t->self, op));
    } else {
        const void *payload;
        PASS(t->how->wait(t->self, op, limit(LIMIT_measure), &payload));
        memcpy(t->data, payload, bytes);
        t->how->release(t->self, op);
    }
    return STATUS_OK;
}

static enum status start_together(const struct table *t)
{
    double start_s;
    enum status st = t->how->barrier(t->self, limit(LIMIT_measure), &start_s);
    if (st == STATUS_OK)
        clock_sleep_until(start_s);
    return st;
}

/* CPU seconds that this rank's compute cannot have. */
static double taken(const struct bench *b)
{
    bool spare = sysconf(_SC_NPROCESSORS_ONLN) >= 2 * (long)b->ranks;
    return spare ? clock_thread_cpu() : clock_cpu();
}

/* All sizes; halves of round trips, over the rounds: repetition k of way_s, taken_s [size][repeats];
 * both may be NULL. */
static enum status play(const struct bench *b, const struct table *t, double *way_s,
                        double *taken_s)
{
    const struct bench_task *task = b->task;
    uint32_t rank = b->rank;
    const struct program *p = &t->program;
    uint32_t op = (uint32_t)p->op_start[rank];
    PASS(start_together(t));
    if (p->op_start[rank + 1] == op)
        return STATUS_OK; /* a pair of others */
    for (size_t k = 0; k < task->sizes; k++) {
        size_t rounds = rounds_of(task->size[k]);
        double before_s = taken(b);
        for (size_t i = 0; i < rounds; i++, op += 2) {
            double start_s = clock_now();
            PASS(pass(t, op));
            PASS(pass(t, op + 1));
            if (way_s)
                way_s[k * b->repeats] += (clock_now() - start_s) / 2 / (double)rounds;
            uint32_t sent = p->op[op].kind == OP_SEND ? op : op + 1;
            PASS(t->how->wait(t->self, sent, limit(LIMIT_measure), NULL));
        }
        if (taken_s)
            taken_s[k * b->repeats] = (taken(b) - before_s) / 2 / (double)rounds;
    }
    return STATUS_OK;
}

/* All ranks open the transport, since barriers are of all; only the two have messages. Games after
 * the first count. */
static enum status bench_pair(struct bench *b, size_t pair, uint32_t first, uint32_t second)
{
    enum status st;
    struct table t = {0};
    TRY(make_game(b, first, second, &t.program));
    TRY(sit_down(b, &t));
    TRY(play(b, &t, NULL, NULL)); /* warms up */
    for (size_t k = 0; k < b->repeats; k++)
        TRY(play(b, &t, b->rank == first ? ways_of(b, pair, 0) + k : NULL,
                 b->rank == first ? taken_of(b, pair, 0) + k : NULL));
    TRY(start_together(&t));
out:
    stand_up(&t);
    return st;
}

/* Pair by pair, so that no two messages share this machine's memory. */
enum status bench_links(struct bench *b)
{
    size_t pair = 0;
    for (uint32_t i = 0; i < b->ranks; i++)
        for (uint32_t j = i + 1; j < b->ranks; j++, pair++) {
            b->together(b->context);
            PASS(bench_pair(b, pair, i, j));
        }
    return STATUS_OK;
}

/* As nccl-tests do: one right after the other, so that each begins when the slowest member is done
 * with the one before. */
static enum status sum(const struct bench *b, const struct table *t, double *call_s, size_t stride)
{
    uint32_t op = (uint32_t)t->program.op_start[b->rank];
    PASS(start_together(t));
    for (size_t k = 0; k < b->task->sizes; k++) {
        size_t rounds = rounds_of(b->task->size[k]);
        size_t n = numbers_of(b, (enum op_kind)t->program.op[op].kind, b->task->size[k]);
        double start_s = clock_now();
        for (size_t i = 0; i < rounds; i++, op++) {
            PASS(t->how->collective(t->self, op, ELEMENT_FP32, t->data, n));
            PASS(t->how->wait(t->self, op, limit(LIMIT_measure), NULL));
        }
        if (call_s)
            call_s[k * stride] = (clock_now() - start_s) / (double)rounds;
    }
    return STATUS_OK;
}

/* A transport is opened for each kind of collective and closed before the next one begins. */
enum status bench_collectives(struct bench *b)
{
    enum status st = STATUS_OK;
    struct table t = {0};
    for (size_t s = 0; s < BENCH_SUMS && b->ranks > 1; s++) {
        b->together(b->context);
        TRY(make_collectives(b, bench_sums[s].op, &t.program));
        TRY(sit_down(b, &t));
        TRY(sum(b, &t, NULL, 0)); /* warms up */
        for (size_t k = 0; k < b->repeats; k++)
            TRY(sum(b, &t, sums_of(b, s, 0, b->rank) + k, b->ranks * b->repeats));
        TRY(start_together(&t));
        stand_up(&t);
        t = (struct table){0};
    }
out:
    stand_up(&t);
    return st;
}

enum status bench_rank(struct bench *b)
{
    PASS(bench_ops(b));
    PASS(bench_links(b));
    return bench_collectives(b);
}
