/* One rank's messages and collectives, over any transport; and ops beside them.
 *
 * What a message takes of the CPU is what this rank's process has got of it meanwhile, without what
 * it waited awake; where cores are left for the transports' threads, what the calling thread has.
 *
 * Messages are timed as half of a round trip between two ranks, collectives as nccl-tests do: calls
 * one right after the other. Both are ordinary programs of SENDs, RECVs and collectives, so that
 * what is measured is what the executor will use, packing into and out of buffers included.
 *
 * Where payloads are in a GPU's memory all of that is queued there, as in a step, and its times are
 * the GPU's: what the host needs to look after it is in neither. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/calibrate/probe.h"
#include "exec/spin.h"

const struct bench_sum bench_sums[BENCH_SUMS_GPU] = {
    {OP_ALLREDUCE, COLLECTIVE_ALLREDUCE}, {OP_REDUCESCATTER, COLLECTIVE_REDUCESCATTER},
    {OP_ALLGATHER, COLLECTIVE_ALLGATHER}, {OP_ALLTOALL, COLLECTIVE_ALLTOALL},
    {OP_BROADCAST, COLLECTIVE_BROADCAST},
};

/* A repetition is the mean of so many messages, fewer of the large ones. */
enum { ROUNDS = 4, LARGE = 4 << 20, BESIDE = 16, BESIDE_PASSES = 4 };
static const int64_t beside_bytes = 256 << 20;

static size_t link_bench_repeats(int64_t bytes)
{
    return bytes > LARGE ? 1 : ROUNDS;
}

static size_t rounds_n(const struct bench_task *task, size_t sizes)
{
    size_t n = 0;
    for (size_t k = 0; k < sizes; k++)
        n += link_bench_repeats(task->size[k]);
    return n;
}

/* ---- programs */

/* Room for `ops` ops that each depend on the one before, and groups of so many ranks; 0: none. */
static enum status link_bench_make_ops(struct program *p, size_t ranks, size_t ops, size_t members)
{
    size_t groups = members > 0 ? ranks / members : 0;
    *p = (struct program){.ranks = ranks, .groups = groups, .microbatch_size = 1};
    PASS(ARRAY_NEW(p->rank, ranks));
    PASS(ARRAY_NEW(p->op_start, ranks + 1));
    PASS(ARRAY_NEW(p->op, ops + 1));
    PASS(ARRAY_NEW(p->dep, ops));
    PASS(ARRAY_NEW(p->group_start, groups + 1));
    PASS(ARRAY_NEW(p->member, ranks));
    for (size_t g = 1; g <= groups; g++)
        p->group_start[g] = g * members;
    for (uint32_t r = 0; r < ranks; r++) {
        p->rank[r].device = r;
        p->member[r] = r;
    }
    return STATUS_OK;
}

/* One after the other, so that a message's slot is needed only until the answer. */
static void link_bench_append(struct program *p, uint32_t rank, struct program_op op)
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

/* `first` sends a message, `second` one of the same size back, size after size. */
static enum status make_game(const struct bench *b, uint32_t first, uint32_t second,
                             struct program *p)
{
    size_t sizes = bench_messages(b->task);
    PASS(link_bench_make_ops(p, b->ranks, 4 * rounds_n(b->task, sizes), 0));
    for (uint32_t r = 0; r < b->ranks; r++) {
        uint32_t tag = 0;
        for (size_t k = 0; (r == first || r == second) && k < sizes; k++)
            for (size_t i = 0; i < link_bench_repeats(b->task->size[k]); i++, tag++) {
                uint32_t peer = r == first ? second : first;
                struct program_op op = {.kind = r == first ? OP_SEND : OP_RECV,
                                        .microbatch = tag,
                                        .peer = peer,
                                        .peer_stage = peer,
                                        .tag = tag,
                                        .bytes = b->task->size[k]};
                link_bench_append(p, r, op);
                op.kind = r == first ? OP_RECV : OP_SEND;
                link_bench_append(p, r, op);
            }
        end_rank(p, r);
    }
    return program_match(p);
}

static void append_collective(struct program *p, uint32_t rank, enum op_kind kind, size_t members,
                              int64_t bytes)
{
    link_bench_append(p, rank,
                      (struct program_op){.kind = (uint8_t)kind,
                                          .peer = rank / (uint32_t)members,
                                          .microbatch = PROGRAM_NONE,
                                          .tag = PROGRAM_NONE,
                                          .bytes = bytes});
}

/* Every member calls the same collectives of all sizes in the same order. */
static enum status make_collectives(const struct bench *b, enum op_kind kind, size_t members,
                                    struct program *p)
{
    PASS(link_bench_make_ops(p, b->ranks, b->ranks * rounds_n(b->task, b->task->sizes), members));
    for (uint32_t r = 0; r < b->ranks; r++) {
        for (size_t k = 0; k < b->task->sizes; k++)
            for (size_t i = 0; i < link_bench_repeats(b->task->size[k]); i++)
                append_collective(p, r, kind, members, b->task->size[k]);
        end_rank(p, r);
    }
    return program_match(p);
}

static enum status make_beside(const struct bench *b, int64_t bytes, struct program *p)
{
    PASS(link_bench_make_ops(p, b->ranks, b->ranks * BESIDE, b->ranks));
    for (uint32_t r = 0; r < b->ranks; r++) {
        for (size_t i = 0; i < BESIDE; i++)
            append_collective(p, r, OP_ALLREDUCE, b->ranks, bytes);
        end_rank(p, r);
    }
    return program_match(p);
}

/* ---- one rank's part */

/* A transport that is open for a program. */
struct link_table {
    struct bench *bench;
    const struct transport *how;
    void *self;
    struct program program;
    void *data; /* [largest op], twice for an all-to-all */
};

static enum status sit_down(struct bench *b, struct link_table *t)
{
    size_t most = 0;
    for (size_t k = 0; k < t->program.ops; k++) {
        const struct program_op *op = &t->program.op[k];
        size_t bytes = (size_t)op->bytes * (op->kind == OP_ALLTOALL ? 2 : 1);
        most = bytes > most ? bytes : most;
    }
    t->bench = b;
    t->how = b->transport;
    t->data = b->on.backend->allocate(b->on.self, most);
    if (!t->data)
        return error_set(STATUS_NOMEM, "out of memory: message buffer of %zu bytes", most);
    return t->how->open(&t->program, b->rank, &b->meeting, &t->self);
}

static void stand_up(struct link_table *t)
{
    if (t->how)
        t->how->close(t->self);
    if (t->data)
        t->bench->on.backend->release(t->bench->on.self, t->data);
    program_free(&t->program);
}

/* One message, packed from and unpacked into `data` as a device does; its time counts. */
static enum status link_bench_send(const struct link_table *t, uint32_t op)
{
    size_t bytes = (size_t)t->program.op[op].bytes;
    const struct memory *on = &t->bench->on;
    if (t->program.op[op].kind == OP_SEND) {
        void *buffer;
        PASS(t->how->send_buffer(t->self, op, &buffer));
        on->backend->copy(on->self, buffer, t->data, bytes);
        PASS(t->how->send(t->self, op));
    } else {
        const void *payload;
        PASS(t->how->follow ? t->how->follow(t->self, op, &payload)
                            : t->how->wait(t->self, op, limit_wait(WAIT_MEASURE), &payload));
        on->backend->copy(on->self, t->data, payload, bytes);
        t->how->release(t->self, op);
    }
    return STATUS_OK;
}

/* Ops first .. last are over; *seconds from the beginning of the first to the end of the last, as
 * the transport has it. */
static enum status link_bench_finish(const struct link_table *t, uint32_t first, uint32_t last,
                                     double *seconds)
{
    double start_s, end_s, ignored_s;
    for (uint32_t op = first; op <= last; op++)
        PASS(t->how->wait(t->self, op, limit_wait(WAIT_MEASURE), NULL));
    t->how->times(t->self, first, &start_s, &ignored_s);
    t->how->times(t->self, last, &ignored_s, &end_s);
    *seconds = end_s - start_s;
    return STATUS_OK;
}

/* Nothing is queued any more, in no rank. */
static enum status start_together(const struct link_table *t)
{
    double start_s, ignored_s;
    PASS(t->bench->watch->take(t->bench, &ignored_s));
    enum status st = t->how->barrier(t->self, limit_wait(WAIT_MEASURE), &start_s);
    if (st == STATUS_OK)
        clock_sleep_until(start_s);
    return st;
}

/* CPU seconds that this rank's compute cannot have. */
static double taken(const struct bench *b)
{
    bool spare = sysconf(_SC_NPROCESSORS_ONLN) >= 2 * (long)b->ranks;
    return (spare ? clock_thread_cpu() : clock_cpu()) - spin_spent_s;
}

/* All sizes; halves of round trips, over the rounds: repetition k of way_s, taken_s
 * [size][repeats]; both may be NULL. */
static enum status play(const struct bench *b, const struct link_table *t, double *way_s,
                        double *taken_s)
{
    const struct bench_task *task = b->task;
    uint32_t rank = b->rank;
    const struct program *p = &t->program;
    uint32_t op = (uint32_t)p->op_start[rank];
    PASS(start_together(t));
    if (p->op_start[rank + 1] == op)
        return STATUS_OK; /* a pair of others */
    for (size_t k = 0; k < bench_messages(task); k++) {
        size_t rounds = link_bench_repeats(task->size[k]);
        double before_s = taken(b), both_s = 0;
        for (size_t i = 0; i < rounds; i++, op += 2) {
            double start_s = clock_now();
            PASS(link_bench_send(t, op));
            PASS(link_bench_send(t, op + 1));
            both_s += clock_now() - start_s;
            uint32_t sent = p->op[op].kind == OP_SEND ? op : op + 1;
            if (!t->how->follow)
                PASS(t->how->wait(t->self, sent, limit_wait(WAIT_MEASURE), NULL));
        }
        if (t->how->follow)
            PASS(link_bench_finish(t, op - 2 * (uint32_t)rounds, op - 1, &both_s));
        if (way_s)
            way_s[k * b->repeats] = both_s / 2 / (double)rounds;
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
    struct link_table t = {0};
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

static enum status link_bench_call(const struct link_table *t, uint32_t op)
{
    const struct program_op *o = &t->program.op[op];
    size_t members = t->program.group_start[1], n = (size_t)o->bytes / sizeof(float);
    if (o->kind == OP_ALLTOALL)
        n = 2 * (n - n % members); /* equal parts, and what they bring */
    return t->how->collective(t->self, op, ELEMENT_FP32, t->data, n);
}

/* As nccl-tests do: one right after the other, so that each begins when the slowest member is done
 * with the one before. */
static enum status link_bench_collective(const struct bench *b, const struct link_table *t,
                                         double *call_s, size_t stride)
{
    uint32_t op = (uint32_t)t->program.op_start[b->rank];
    PASS(start_together(t));
    for (size_t k = 0; k < b->task->sizes; k++) {
        size_t rounds = link_bench_repeats(b->task->size[k]);
        double start_s = clock_now(), all_s;
        for (size_t i = 0; i < rounds; i++, op++) {
            PASS(link_bench_call(t, op));
            if (!t->how->follow)
                PASS(t->how->wait(t->self, op, limit_wait(WAIT_MEASURE), NULL));
        }
        all_s = clock_now() - start_s;
        if (t->how->follow)
            PASS(link_bench_finish(t, op - (uint32_t)rounds, op - 1, &all_s));
        if (call_s)
            call_s[k * stride] = all_s / (double)rounds;
    }
    return STATUS_OK;
}

/* A transport is opened for each kind of collective and closed before the next one begins. */
static enum status bench_series(struct bench *b, size_t layout, size_t kind)
{
    enum status st;
    size_t series = layout * bench_kinds(b->task) + kind;
    struct link_table t = {0};
    b->together(b->context);
    TRY(make_collectives(b, bench_sums[kind].op, bench_members(b, layout), &t.program));
    TRY(sit_down(b, &t));
    TRY(link_bench_collective(b, &t, NULL, 0)); /* warms up */
    for (size_t k = 0; k < b->repeats; k++)
        TRY(link_bench_collective(b, &t, sums_of(b, series, 0, b->rank) + k,
                                  b->ranks * b->repeats));
    TRY(start_together(&t));
out:
    stand_up(&t);
    return st;
}

enum status bench_collectives(struct bench *b)
{
    for (size_t l = 0; l < bench_layouts(b) && b->ranks > 1; l++)
        for (size_t k = 0; k < bench_kinds(b->task); k++)
            PASS(bench_series(b, l, k));
    return STATUS_OK;
}

/* ---- ops beside collectives */

static enum status some_passes(struct bench *b, const struct bed *bed, double *seconds)
{
    double begin_s = clock_now(), ignored_s;
    for (size_t k = 0; k < BESIDE_PASSES; k++)
        PASS(bed_pass(b, bed, &ignored_s));
    *seconds = clock_now() - begin_s;
    return STATUS_OK;
}

/* Passes over a layer that take a seconds alone take s beside all-reduces. While both go on, o
 * seconds, a pass is 1 + x times as long, so that s = o + a - o / (1 + x). */
static enum status beside_once(struct bench *b, const struct link_table *t, const struct bed *bed,
                               double *slower)
{
    uint32_t first = (uint32_t)t->program.op_start[b->rank], last = first + BESIDE - 1;
    double alone_s, together_s, begin_s, start_s, end_s, ignored_s;
    PASS(start_together(t));
    PASS(some_passes(b, bed, &alone_s));
    for (uint32_t op = first; op <= last; op++)
        PASS(link_bench_call(t, op));
    begin_s = clock_now();
    PASS(some_passes(b, bed, &together_s));
    PASS(link_bench_finish(t, first, last, &ignored_s));
    t->how->times(t->self, first, &start_s, &ignored_s);
    t->how->times(t->self, last, &ignored_s, &end_s);
    double both_s = fmin(end_s, begin_s + together_s) - fmax(start_s, begin_s);
    double work_s = both_s + alone_s - together_s; /* of the op in that time, as if it were alone */
    *slower = both_s > 0 && work_s > 0 ? fmax(0, both_s / work_s - 1) : 0;
    return STATUS_OK;
}

enum status bench_beside(struct bench *b)
{
    enum status st = STATUS_OK;
    const struct probe *p = bench_heaviest(b->task);
    const int64_t largest = b->task->size[b->task->sizes - 1];
    double *slower = calls_of(b, 2 * b->task->probes + FIGURE_BESIDE, b->rank);
    struct link_table t = {0};
    struct bed *bed = NULL;
    if (!b->task->gpus || b->ranks < 2 || !p)
        return STATUS_OK;
    b->together(b->context);
    TRY(make_beside(b, largest < beside_bytes ? largest : beside_bytes, &t.program));
    TRY(bed_open(b, p, &bed));
    TRY(sit_down(b, &t));
    TRY(beside_once(b, &t, bed, slower)); /* warms up */
    for (size_t k = 0; k < b->repeats; k++)
        TRY(beside_once(b, &t, bed, &slower[k]));
    TRY(start_together(&t));
out:
    bed_close(bed);
    stand_up(&t);
    return st;
}

enum status bench_rank(struct bench *b)
{
    PASS(bench_ops(b));
    PASS(bench_links(b));
    PASS(bench_collectives(b));
    return bench_beside(b);
}
