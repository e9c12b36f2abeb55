/* The TCP transport when something is wrong: dead, silent, hostile and unknown peers, no memory. */
#include "exec/transport.h"

#include <math.h>
#include <poll.h>
#include <string.h>

#include "core/base/clock.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/mesh.h"
#include "tests/toy.h"

static enum status leave_after_the_barrier(struct actor *a, void *t)
{
    (void)a;
    double start_s;
    return transport_tcp.barrier(t, patience_s, &start_s);
}

static enum status wait_for_the_first_recv(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
    TRY(transport_tcp.wait(t, (uint32_t)a->mesh->program.op_start[a->rank], patience_s, NULL));
out:
    return st;
}

static void a_dead_peer_wakes_the_waiter_and_is_named(void **state)
{
    struct mesh m = {0};
    toy_begin(&m.program, 0, NULL);
    toy_rank(&m.program);
    toy_recv(&m.program, 1, 5, 100);
    toy_rank(&m.program);
    toy_send(&m.program, 0, 5, 100, NULL);
    toy_finish(&m.program);
    mesh_open(&m);
    struct actor a[2] = {{.mesh = &m, .rank = 0, .act = wait_for_the_first_recv},
                         {.mesh = &m, .rank = 1, .act = leave_after_the_barrier}};
    play(a, 2);
    assert_int_equal(a[0].st, STATUS_IO);
    assert_non_null(strstr(a[0].message, "rank 0: 0RECV_F5 with rank 1: connection closed"));
    assert_int_equal(a[1].st, STATUS_OK);
    mesh_close(&m);
}

/* Rank 0 reduces alone; rank 1 is alive but does not take part. */
static enum status reduce_alone(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    float data[3] = {0};
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
    if (a->rank == 0) {
        TRY(transport_tcp.collective(t, 0, ELEMENT_FP32, data, 3));
        TRY(transport_tcp.wait(t, 0, 0.05, NULL));
    }
out:
    pthread_barrier_wait(a->together);
    return st;
}

static void every_wait_has_a_deadline(void **state)
{
    static const uint32_t group[] = {0, 1, UINT32_MAX};
    struct mesh m = {0};
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, 2);
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    toy_rank(&m.program);
    toy_collective(&m.program, OP_ALLREDUCE, 0, 3);
    toy_rank(&m.program);
    toy_collective(&m.program, OP_ALLREDUCE, 0, 3);
    toy_finish(&m.program);
    mesh_open(&m);
    struct actor a[2] = {{.mesh = &m, .rank = 0, .act = reduce_alone, .together = &together},
                         {.mesh = &m, .rank = 1, .act = reduce_alone, .together = &together}};
    play(a, 2);
    assert_int_equal(a[0].st, STATUS_EXTERNAL);
    assert_message(a[0].message, "0 0ALLREDUCE 0 complete 0.05 s");
    assert_int_equal(a[1].st, STATUS_OK);
    pthread_barrier_destroy(&together);
    mesh_close(&m);
}

static enum status pass_two_barriers(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    (void)a;
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
out:
    return st;
}

static void a_step_without_its_messages_is_misuse(void **state)
{
    static const uint32_t group[] = {0, UINT32_MAX};
    struct mesh m = {0};
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    toy_rank(&m.program);
    toy_collective(&m.program, OP_ALLREDUCE, 0, 3);
    toy_finish(&m.program);
    mesh_open(&m);
    struct actor a[1] = {{.mesh = &m, .rank = 0, .act = pass_two_barriers}};
    play(a, 1);
    assert_int_equal(a[0].st, STATUS_INVALID);
    assert_message(a[0].message, "0 0ALLREDUCE complete");
    mesh_close(&m);
}

static enum status open_only(struct actor *a, void *t)
{
    (void)a;
    (void)t;
    return STATUS_OK;
}

static void a_missing_peer_ends_open_at_the_deadline(void **state)
{
    struct mesh m = {0};
    toy_pipeline(&m.program, 2, 1, 10, 0, false);
    mesh_open(&m);
    m.r[0].timeout_s = 0.1;
    struct actor a[1] = {{.mesh = &m, .rank = 0, .act = open_only}};
    play(a, 1);
    assert_int_equal(a[0].st, STATUS_EXTERNAL);
    assert_message(a[0].message, "0 2 connections");
    mesh_close(&m);
}

/* ---- hostile peers: rank 1 is real, rank 0 is this test */

struct hostile {
    struct mesh m;
    struct actor victim;
    int data, star; /* connections to the victim */
};

static void hello(struct hostile *h, int *fd)
{
    struct star_hello hello = {.magic = STAR_MAGIC, .version = STAR_VERSION, .role = STAR_CHANNEL};
    memcpy(hello.token, h->m.r[1].token, TOKEN);
    assert_int_equal(socket_connect("127.0.0.1", h->m.port[1], INFINITY, fd), STATUS_OK);
    assert_int_equal(socket_write(*fd, &hello, sizeof hello, INFINITY), STATUS_OK);
}

static void hostile_open(struct hostile *h, uint32_t messages,
                         enum status (*act)(struct actor *, void *))
{
    *h = (struct hostile){.data = -1, .star = -1};
    toy_begin(&h->m.program, 0, NULL);
    toy_rank(&h->m.program);
    for (uint32_t k = 0; k < messages; k++)
        toy_send(&h->m.program, 1, k, 100, NULL);
    toy_rank(&h->m.program);
    for (uint32_t k = 0; k < messages; k++) {
        uint32_t r = toy_recv(&h->m.program, 0, k, 100);
        toy_op(&h->m.program, (struct program_op){.kind = OP_FORWARD}, (uint32_t[]){r, UINT32_MAX});
    }
    toy_finish(&h->m.program);
    mesh_open(&h->m);
    h->victim = (struct actor){.mesh = &h->m, .rank = 1, .act = act};
    assert_int_equal(pthread_create(&h->victim.thread, NULL, actor_main, &h->victim), 0);
    hello(h, &h->data);
    assert_int_equal(socket_poll(h->m.r[0].listener, POLLIN, INFINITY), STATUS_OK);
    assert_int_equal(socket_accept_now(h->m.r[0].listener, &h->star), STATUS_OK);
    struct star_hello star;
    assert_int_equal(socket_read(h->star, &star, sizeof star, INFINITY), STATUS_OK);
    assert_int_equal(star.role, STAR_CENTRE);
}

static void answer_barrier(struct hostile *h)
{
    struct star_word word;
    assert_int_equal(socket_read(h->star, &word, sizeof word, INFINITY), STATUS_OK);
    word.moment_s = clock_now();
    assert_int_equal(socket_write(h->star, &word, sizeof word, INFINITY), STATUS_OK);
}

static void hostile_close(struct hostile *h, const char *reason)
{
    pthread_join(h->victim.thread, NULL);
    socket_close(&h->data);
    socket_close(&h->star);
    mesh_close(&h->m);
    assert_int_equal(h->victim.st, STATUS_IO);
    if (!message_says(h->victim.message, reason))
        fail_msg("'%s' does not say '%s'", h->victim.message, reason);
}

static void check_head(struct tcp_head head, const char *reason)
{
    struct hostile h;
    hostile_open(&h, 1, wait_for_the_first_recv);
    answer_barrier(&h);
    assert_int_equal(socket_write(h.data, &head, sizeof head, INFINITY), STATUS_OK);
    hostile_close(&h, reason);
}

static void heads_that_the_program_does_not_foresee_are_refused(void **state)
{
    const struct tcp_head good = {TCP_MAGIC, TCP_DATA, 0, 0, 100};
    struct tcp_head bad = good;
    bad.magic = 0x12345678;
    check_head(bad, "1RECV_F0 0 message 0x12345678");
    bad = good;
    bad.kind = TCP_PART;
    check_head(bad, "message of kind 2, expected kind 0");
    bad = good;
    bad.tag = 77;
    check_head(bad, "message with tag 77, expected tag 0");
    bad = good;
    bad.step = 1;
    check_head(bad, "message of step 1, expected step 0");
    bad = good;
    bad.bytes = UINT64_MAX;
    check_head(bad, "message of 18446744073709551615 bytes, expected 100");
}

static void a_message_that_ends_early_is_a_dead_peer(void **state)
{
    const struct tcp_head head = {TCP_MAGIC, TCP_DATA, 0, 0, 100};
    struct hostile h;
    hostile_open(&h, 1, wait_for_the_first_recv);
    answer_barrier(&h);
    assert_int_equal(socket_write(h.data, &head, sizeof head, INFINITY), STATUS_OK);
    assert_int_equal(socket_write(h.data, "abc", 3, INFINITY), STATUS_OK);
    socket_shutdown(h.data);
    hostile_close(&h, "connection closed");
}

static enum status wait_for_the_last_recv(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    uint32_t last = (uint32_t)a->mesh->program.op_start[a->rank + 1] - 2;
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
    TRY(transport_tcp.wait(t, last, patience_s, NULL));
out:
    return st;
}

static void more_messages_than_granted_are_refused(void **state)
{
    struct hostile h;
    char payload[100] = {0};
    hostile_open(&h, 10, wait_for_the_last_recv); /* a window of 3 */
    answer_barrier(&h);
    for (uint32_t k = 0; k < 4; k++) {
        struct tcp_head head = {TCP_MAGIC, TCP_DATA, k, 0, 100};
        assert_int_equal(socket_write(h.data, &head, sizeof head, INFINITY), STATUS_OK);
        if (k < 3)
            assert_int_equal(socket_write(h.data, payload, sizeof payload, INFINITY), STATUS_OK);
    }
    hostile_close(&h, "1RECV_F3 0 messages 3");
}

static void strangers_are_ignored(void **state)
{
    struct mesh m = {0};
    int stranger = -1, liar = -1;
    struct star_hello lie = {.magic = STAR_MAGIC, .version = STAR_VERSION, .token = {9}};
    toy_pipeline(&m.program, 2, 2, 1000, 0, false);
    mesh_open(&m);
    assert_int_equal(socket_connect("127.0.0.1", m.port[0], INFINITY, &stranger), STATUS_OK);
    assert_int_equal(socket_write(stranger, "GET / HTTP/1.0\r\n\r\n", 18, INFINITY), STATUS_OK);
    socket_shutdown(stranger);
    assert_int_equal(socket_connect("127.0.0.1", m.port[0], INFINITY, &liar), STATUS_OK);
    assert_int_equal(socket_write(liar, &lie, sizeof lie, INFINITY), STATUS_OK);
    struct actor a[2] = {
        {.mesh = &m, .rank = 0, .act = exchange_messages, .steps = 2},
        {.mesh = &m, .rank = 1, .act = exchange_messages, .steps = 2},
    };
    play(a, 2);
    assert_int_equal(a[0].st, STATUS_OK);
    assert_int_equal(a[1].st, STATUS_OK);
    socket_close(&stranger);
    socket_close(&liar);
    mesh_close(&m);
}

/* ---- memory */

/* Open and close rank 1 of a program in which everything that it waits for has been sent before. */
static enum status open_and_close(struct mesh *m)
{
    void *t = NULL;
    int fd = -1, ring = -1;
    struct star_hello hello = {.magic = STAR_MAGIC, .version = STAR_VERSION};
    memcpy(hello.token, m->r[1].token, TOKEN);
    enum status st = socket_connect("127.0.0.1", m->port[1], INFINITY, &fd);
    if (st == STATUS_OK)
        st = socket_connect("127.0.0.1", m->port[1], INFINITY, &ring);
    hello.role = STAR_CHANNEL;
    if (st == STATUS_OK)
        st = socket_write(fd, &hello, sizeof hello, INFINITY);
    hello.role = STAR_GROUP;
    if (st == STATUS_OK)
        st = socket_write(ring, &hello, sizeof hello, INFINITY);
    if (st == STATUS_OK)
        st = transport_tcp.open(&m->program, 1, &m->r[1], &t);
    transport_tcp.close(t);
    socket_close(&fd);
    socket_close(&ring);
    return st;
}

static void open_releases_everything_when_memory_runs_out(void **state)
{
    struct mesh m = {0};
    toy_pipeline(&m.program, 2, 2, 1000, 0, true);
    mesh_open(&m);
    FOR_EACH_ALLOC_FAILURE(open_and_close(&m));
    mesh_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_peer_wakes_the_waiter_and_is_named),
        cmocka_unit_test(every_wait_has_a_deadline),
        cmocka_unit_test(a_step_without_its_messages_is_misuse),
        cmocka_unit_test(a_missing_peer_ends_open_at_the_deadline),
        cmocka_unit_test(heads_that_the_program_does_not_foresee_are_refused),
        cmocka_unit_test(a_message_that_ends_early_is_a_dead_peer),
        cmocka_unit_test(more_messages_than_granted_are_refused),
        cmocka_unit_test(strangers_are_ignored),
        cmocka_unit_test(open_releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("tcp_faults", tests, NULL, NULL);
}
