#include <stdlib.h>
#include <string.h>

#include "exec/calibrate_run.h"
#include "exec/rendezvous.h"
#include "exec/tcp/socket.h"
#include "exec/transport.h"

const int64_t link_sizes[LINK_SIZES] = {4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                        1 << 20, 4 << 20,  8 << 20};

static const double patience_s = 30;
enum { ROUNDS = 4 }; /* of all sizes; their mean is one repetition */

/* Two ranks: 0 sends message k, 1 sends one of the same size back, for every size. */
struct game {
    struct program program;
    struct program_rank rank[2];
    size_t op_start[3];
    struct program_op op[4 * LINK_SIZES + 1];
    uint32_t dep[4 * LINK_SIZES];
};

static void append(struct game *g, uint32_t rank, enum op_kind kind, size_t k)
{
    struct program *p = &g->program;
    bool first = p->ops == p->op_start[rank];
    p->op[p->ops] = (struct program_op){.kind = (uint8_t)kind,
                                        .stage = rank,
                                        .microbatch = (uint32_t)k,
                                        .peer = 1 - rank,
                                        .peer_stage = 1 - rank,
                                        .tag = (uint32_t)k,
                                        .dep_start = (uint32_t)p->deps,
                                        .bytes = link_sizes[k]};
    if (!first) /* one after the other, so that a slot is needed only until the answer */
        p->dep[p->deps++] = (uint32_t)p->ops - 1;
    p->ops++;
    p->op_start[rank + 1] = p->ops;
}

static enum status game_init(struct game *g)
{
    *g = (struct game){.program = {.ranks = 2, .microbatch_size = 1}};
    g->program.rank = g->rank;
    g->program.op_start = g->op_start;
    g->program.op = g->op;
    g->program.dep = g->dep;
    for (uint32_t r = 0; r < 2; r++) {
        g->op_start[r + 1] = g->op_start[r];
        for (size_t k = 0; k < LINK_SIZES; k++) {
            append(g, r, r == 0 ? OP_SEND : OP_RECV, k);
            append(g, r, r == 0 ? OP_RECV : OP_SEND, k);
        }
    }
    g->op[g->program.ops].dep_start = (uint32_t)g->program.deps;
    return program_match(&g->program); /* allocates the channels */
}

/* One message, packed from and unpacked into `data` as a device does; its time counts. */
static enum status pass(void *t, uint32_t op, bool send, void *data, size_t bytes)
{
    enum status st = STATUS_OK;
    if (send) {
        void *buffer;
        TRY(transport_tcp.send_buffer(t, op, &buffer));
        memcpy(buffer, data, bytes);
        TRY(transport_tcp.send(t, op));
    } else {
        const void *payload;
        TRY(transport_tcp.wait(t, op, patience_s, &payload));
        memcpy(data, payload, bytes);
        transport_tcp.release(t, op);
    }
out:
    return st;
}

/* All sizes once; way_s [LINK_SIZES] half of each round trip. */
static enum status play_once(void *t, const struct program *p, uint32_t me, void *data,
                             double *way_s)
{
    enum status st;
    double start_s;
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
    clock_sleep_until(start_s);
    for (size_t k = 0; k < LINK_SIZES; k++) {
        uint32_t op = (uint32_t)(p->op_start[me] + 2 * k);
        start_s = clock_now();
        TRY(pass(t, op, me == 0, data, (size_t)link_sizes[k]));
        TRY(pass(t, op + 1, me == 1, data, (size_t)link_sizes[k]));
        way_s[k] = (clock_now() - start_s) / 2;
    }
    for (size_t i = p->op_start[me]; i < p->op_start[me + 1]; i++)
        if (p->op[i].kind == OP_SEND)
            TRY(transport_tcp.wait(t, (uint32_t)i, patience_s, NULL));
out:
    return st;
}

static enum status play(struct bench *b, size_t pair, uint32_t me, const struct rendezvous *r)
{
    enum status st;
    struct game g;
    void *t = NULL, *data = calloc(1, (size_t)link_sizes[LINK_SIZES - 1]);
    double way_s[LINK_SIZES], end_s;

    TRY(game_init(&g));
    if (!data) {
        st = error_set(STATUS_NOMEM, "messages");
        goto out;
    }
    TRY(transport_tcp.open(&g.program, me, r, &t));
    for (size_t k = 0; k < (b->repeats + 1) * ROUNDS; k++) { /* the first ones warm up */
        TRY(play_once(t, &g.program, me, data, way_s));
        for (size_t s = 0; me == 0 && k >= ROUNDS && s < LINK_SIZES; s++)
            ways_of(b, pair, s)[k / ROUNDS - 1] += way_s[s] / ROUNDS;
    }
    TRY(transport_tcp.barrier(t, patience_s, &end_s));
out:
    transport_tcp.close(t);
    free(data);
    free(g.program.channel);
    return st;
}

enum status bench_links(struct bench *b, uint32_t rank, const int *listener, const uint16_t *port)
{
    enum status st = STATUS_OK;
    size_t pair = 0;
    for (uint32_t i = 0; i < b->ranks; i++)
        for (uint32_t j = i + 1; j < b->ranks; j++, pair++) {
            uint16_t both[2] = {port[i], port[j]};
            struct rendezvous r = {.rank = rank == j,
                                   .ranks = 2,
                                   .host = "127.0.0.1",
                                   .port = both,
                                   .listener = listener[rank],
                                   .control = -1,
                                   .timeout_s = patience_s};
            pthread_barrier_wait(&b->together);
            if (rank == i || rank == j)
                TRY(play(b, pair, rank == j, &r));
        }
out:
    return st;
}
