/* What a message and an all-reduce take between two ranks on this machine, over a transport, beside
 * bench/messages_mpi.c.
 *
 *     messages tcp|local
 *
 * Half of a round trip, and a sum of floats; calls follow one another, packing not counted. The
 * median of each size counts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/statistics.h"
#include "exec/cores.h"
#include "exec/team.h"
#include "exec/transport.h"

enum { RANKS = 2, SIZES = 7, REPEATS = 60 };
static const double timeout_s = 60;

static int64_t size_of(size_t k)
{
    return (int64_t)4096 << 2 * k;
}

/* REPEATS round trips of each size, then an all-reduce that is called as often as one likes. */
static enum status make_program(struct program *p)
{
    size_t ops = 2 * SIZES * REPEATS + SIZES;
    *p = (struct program){.ranks = RANKS, .groups = 1, .microbatch_size = 1};
    PASS(ARRAY_NEW(p->rank, RANKS));
    PASS(ARRAY_NEW(p->op_start, RANKS + 1));
    PASS(ARRAY_NEW(p->op, RANKS * ops + 1));
    PASS(ARRAY_NEW(p->dep, RANKS * ops));
    PASS(ARRAY_NEW(p->group_start, 2));
    PASS(ARRAY_NEW(p->member, RANKS));
    p->group_start[1] = RANKS;
    for (uint32_t r = 0; r < RANKS; r++) {
        p->rank[r].device = p->member[r] = r;
        for (size_t i = 0; i < ops; i++) {
            struct program_op op = {.stage = r, .count = 1, .dep_start = (uint32_t)p->deps};
            uint32_t tag = (uint32_t)(i / 2);
            if (i > 0)
                p->dep[p->deps++] = (uint32_t)p->ops - 1;
            if (i < 2 * SIZES * REPEATS) {
                op.kind = i % 2 == r ? OP_SEND : OP_RECV;
                op.peer = op.peer_stage = 1 - r;
                op.microbatch = op.tag = tag;
                op.bytes = size_of(tag / REPEATS);
            } else {
                op.kind = OP_ALLREDUCE;
                op.microbatch = op.tag = PROGRAM_NONE;
                op.bytes = size_of(i - 2 * SIZES * REPEATS);
            }
            p->op[p->ops++] = op;
        }
        p->op_start[r + 1] = p->ops;
        p->op[p->ops].dep_start = (uint32_t)p->deps;
    }
    return program_match(p);
}

struct game {
    const struct transport *how;
    const struct program *program;
};

static enum status turn(const struct game *g, void *self, uint32_t op)
{
    void *buffer;
    const void *data;
    if (g->program->op[op].kind == OP_RECV) {
        PASS(g->how->wait(self, op, timeout_s, &data));
        g->how->release(self, op);
        return STATUS_OK;
    }
    PASS(g->how->send_buffer(self, op, &buffer));
    return g->how->send(self, op);
}

static enum status sum(const struct game *g, void *self, uint32_t op, float *data)
{
    size_t n = (size_t)g->program->op[op].bytes / sizeof *data;
    if (g->how->call)
        return g->how->call(self, op, ELEMENT_FP32, data, n, timeout_s);
    PASS(g->how->collective(self, op, ELEMENT_FP32, data, n));
    return g->how->wait(self, op, timeout_s, NULL);
}

/* number: median and least of a message of each size, then of a sum. */
static enum status play(const struct game *g, const struct rendezvous *r, double *number)
{
    enum status st;
    void *self = NULL;
    float *data = NULL;
    double start_s, taken[REPEATS];
    uint32_t op = (uint32_t)g->program->op_start[r->rank];
    TRY(ARRAY_NEW(data, (size_t)size_of(SIZES - 1) / sizeof *data));
    TRY(g->how->open(g->program, r->rank, r, &self));
    TRY(g->how->barrier(self, timeout_s, &start_s));
    for (size_t how = 0; how < 2; how++)
        for (size_t k = 0; k < SIZES; k++) {
            for (size_t i = 0; i < REPEATS; i++) {
                double begin_s = clock_now();
                if (how == 0) {
                    TRY(turn(g, self, op++));
                    TRY(turn(g, self, op++));
                    taken[i] = (clock_now() - begin_s) / 2;
                    continue;
                }
                TRY(sum(g, self, op, data));
                taken[i] = clock_now() - begin_s;
            }
            op += how == 1;
            if (r->rank == 0) {
                double *row = number + 2 * (how * SIZES + k);
                row[0] = median(taken, REPEATS);
                row[1] = taken[0];
                for (size_t i = 1; i < REPEATS; i++)
                    row[1] = taken[i] < row[1] ? taken[i] : row[1];
            }
        }
    for (op = (uint32_t)g->program->op_start[r->rank]; op < g->program->op_start[r->rank + 1]; op++)
        if (g->program->op[op].kind == OP_SEND)
            TRY(g->how->wait(self, op, timeout_s, NULL));
    TRY(g->how->barrier(self, timeout_s, &start_s));
out:
    g->how->close(self);
    free(data);
    return st;
}

static enum status be_process(struct team_member *me, void *context)
{
    const struct rendezvous meeting = team_meeting(me);
    return play(context, &meeting, me->number);
}

struct player {
    const struct game *game;
    struct rendezvous meeting;
    double *number;
    pthread_t id;
    enum status st;
    char message[256];
};

static void *be_thread(void *context)
{
    struct player *p = context;
    cores_bind(p->meeting.rank, RANKS);
    p->st = play(p->game, &p->meeting, p->number);
    if (p->st != STATUS_OK) {
        snprintf(p->message, sizeof p->message, "%s", error_message());
        p->game->how->leave(p->meeting.shared, p->meeting.rank);
    }
    return NULL;
}

static enum status run_threads(const struct game *g, double *number)
{
    enum status st;
    struct player p[RANKS] = {0};
    void *shared = NULL;
    TRY(g->how->share(g->program, &shared));
    for (uint32_t r = 0; r < RANKS; r++) {
        p[r] = (struct player){.game = g, .number = number};
        p[r].meeting = (struct rendezvous){.rank = r,
                                           .ranks = RANKS,
                                           .listener = -1,
                                           .control = -1,
                                           .shared = shared,
                                           .timeout_s = timeout_s};
        if (pthread_create(&p[r].id, NULL, be_thread, &p[r]))
            return error_set(STATUS_NOMEM, "thread");
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        pthread_join(p[r].id, NULL);
        if (st == STATUS_OK && p[r].st != STATUS_OK)
            st = error_set(p[r].st, "%s", p[r].message);
    }
out:
    g->how->unshare(shared);
    return st;
}

int main(int argc, char **argv)
{
    bool local = argc == 2 && !strcmp(argv[1], "local");
    struct program p = {0};
    struct game g = {local ? &transport_local : &transport_tcp, &p};
    double number[4 * SIZES] = {0};
    if (argc != 2 || (!local && strcmp(argv[1], "tcp") != 0)) {
        fprintf(stderr, "usage: messages tcp|local\n");
        return 2;
    }
    enum status st = make_program(&p);
    if (st == STATUS_OK)
        st = local ? run_threads(&g, number)
                   : team_run(RANKS, 4 * SIZES, timeout_s, be_process, &g, number);
    if (st != STATUS_OK)
        fprintf(stderr, "messages: %s\n", error_message());
    for (size_t k = 0; k < 2 * SIZES && st == STATUS_OK; k++)
        printf("%-10s %9lld bytes %10.2f us, least %10.2f\n", k < SIZES ? "message" : "all-reduce",
               (long long)size_of(k % SIZES), 1e6 * number[2 * k], 1e6 * number[2 * k + 1]);
    program_free(&p);
    return st != STATUS_OK;
}
