/* The TCP transport: messages, windows, collectives. */
#include "exec/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exec/tcp/window.h"
#include "tests/mesh.h"
#include "tests/toy.h"

enum { MAX_RANKS = MESH_RANKS, MIB = 1 << 20 };

/* ---- point to point */

static void messages_of_all_sizes_arrive_in_order_in_both_directions(void **state)
{
    (void)state;
    static const int64_t bytes[] = {0, 1, 23, 24, 25, 4096, 65537, MIB, 3, 0};
    enum { SIZES = sizeof bytes / sizeof *bytes };
    for (uint32_t ranks = 2; ranks <= MAX_RANKS; ranks++) {
        struct mesh m = {0};
        struct actor a[MAX_RANKS] = {0};
        toy_begin(&m.program, 0, NULL);
        for (uint32_t r = 0; r < ranks; r++) {
            toy_rank(&m.program);
            for (uint32_t k = 0; k < SIZES; k++)
                for (uint32_t peer = 0; peer < ranks; peer++)
                    if (peer != r) {
                        toy_send(&m.program, peer, k, bytes[k], NULL);
                        toy_recv(&m.program, peer, k, bytes[k]);
                    }
        }
        toy_finish(&m.program);
        play_all(&m, a, exchange_messages, 3);
        mesh_close(&m);
    }
}

static void two_large_messages_cross(void **state)
{
    (void)state;
    struct mesh m = {0};
    struct actor a[MAX_RANKS] = {0};
    toy_begin(&m.program, 0, NULL);
    for (uint32_t r = 0; r < 2; r++) {
        toy_rank(&m.program);
        toy_send(&m.program, 1 - r, 0, 64 * MIB, NULL);
        toy_recv(&m.program, 1 - r, 0, 64 * MIB);
    }
    toy_finish(&m.program);
    play_all(&m, a, exchange_messages, 1);
    mesh_close(&m);
}

/* Rank 0 sends 0 .. 9; on rank 1 an op per message uses them in the order 9 .. 0. */
static void backwards_program(struct program *p, uint32_t messages)
{
    uint32_t recv[64];
    toy_begin(p, 0, NULL);
    toy_rank(p);
    for (uint32_t k = 0; k < messages; k++)
        toy_send(p, 1, k, 1000, NULL);
    toy_rank(p);
    for (uint32_t k = 0; k < messages; k++)
        recv[k] = toy_recv(p, 0, k, 1000);
    for (uint32_t k = messages; k-- > 0;) {
        struct program_op op = {.kind = OP_FORWARD, .microbatch = k};
        toy_op(p, op, (uint32_t[]){recv[k], UINT32_MAX});
    }
    toy_finish(p);
}

static void messages_used_in_reverse_order_do_not_block(void **state)
{
    (void)state;
    static const size_t reverse[] = {9,  8,  7,  6,  5,  4,  3,  2,  1,  0,
                                     10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    struct mesh m = {0};
    struct actor a[MAX_RANKS] = {[1] = {.order = reverse}};
    backwards_program(&m.program, 10);
    play_all(&m, a, exchange_messages, 3);
    mesh_close(&m);
}

/* ---- windows */

static size_t window_of(const struct program *p)
{
    struct channel_order *order;
    assert_int_equal(channel_orders(p, &order), STATUS_OK);
    size_t window = order[0].window;
    channel_orders_free(order, p->channels);
    return window;
}

static void windows_hold_what_must_wait_and_two_more(void **state)
{
    (void)state;
    struct program p;
    backwards_program(&p, 10);
    assert_int_equal(window_of(&p), 10); /* all ten are there before the first is used */
    program_free(&p);

    toy_begin(&p, 0, NULL);
    toy_rank(&p);
    for (uint32_t k = 0; k < 20; k++)
        toy_send(&p, 1, k, 8, NULL);
    toy_rank(&p);
    for (uint32_t k = 0; k < 20; k++) { /* used one by one as they come */
        uint32_t r = toy_recv(&p, 0, k, 8);
        struct program_op op = {.kind = OP_FORWARD, .microbatch = k};
        toy_op(&p, op, (uint32_t[]){r, UINT32_MAX});
    }
    toy_finish(&p);
    assert_int_equal(window_of(&p), 1 + 2);
    program_free(&p);

    toy_begin(&p, 0, NULL);
    toy_rank(&p);
    for (uint32_t k = 0; k < 20; k++)
        toy_send(&p, 1, k, 8, NULL);
    toy_rank(&p);
    for (uint32_t k = 0; k < 20; k += 2) { /* sent as 0 1 2 3 ..., used as 1 0 3 2 ... */
        uint32_t odd = toy_recv(&p, 0, k + 1, 8);
        toy_op(&p, (struct program_op){.kind = OP_FORWARD}, (uint32_t[]){odd, UINT32_MAX});
        uint32_t even = toy_recv(&p, 0, k, 8);
        toy_op(&p, (struct program_op){.kind = OP_FORWARD}, (uint32_t[]){even, UINT32_MAX});
    }
    toy_finish(&p);
    assert_int_equal(window_of(&p), 2 + 2);
    program_free(&p);
}

/* ---- collectives */

static float value(uint32_t rank, size_t i)
{
    return (float)((rank * 2654435761u + i * 40503u) % 2001) - 1000; /* sums are exact */
}

/* All ALLREDUCEs of the list on a->data, one after the other in list order, posted together. */
static enum status reduce_all(struct actor *a, void *t)
{
    enum status st = STATUS_OK;
    const struct program *p = &a->mesh->program;
    size_t first = p->op_start[a->rank], last = p->op_start[a->rank + 1];
    double start_s;
    for (size_t step = 0; step < a->steps; step++) {
        float *data = a->data;
        TRY(transport_tcp.barrier(t, patience_s, &start_s));
        for (size_t k = first; k < last; k++) {
            size_t n = (size_t)p->op[k].bytes / 4;
            TRY(transport_tcp.allreduce(t, (uint32_t)k, data, n));
            data += n;
        }
        for (size_t k = first; k < last; k++)
            TRY(transport_tcp.wait(t, (uint32_t)k, patience_s, NULL));
    }
    TRY(transport_tcp.barrier(t, patience_s, &start_s));
out:
    return st;
}

static void check_sum(uint32_t ranks, size_t n)
{
    static const uint32_t everyone[] = {0, 1, 2, 3};
    uint32_t group[MAX_RANKS + 1];
    struct mesh m = {0};
    struct actor a[MAX_RANKS] = {0};
    memcpy(group, everyone, sizeof everyone);
    group[ranks] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < ranks; r++) {
        toy_rank(&m.program);
        toy_allreduce(&m.program, 0, n);
        a[r].data = malloc((n + 1) * sizeof(float));
        for (size_t i = 0; i < n; i++)
            a[r].data[i] = value(r, i);
    }
    toy_finish(&m.program);
    play_all(&m, a, reduce_all, 1);
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < ranks; r++)
            sum += value(r, i);
        for (uint32_t r = 0; r < ranks; r++)
            assert_true(a[r].data[i] == sum);
    }
    for (uint32_t r = 0; r < ranks; r++)
        free(a[r].data);
    mesh_close(&m);
}

static void all_reduce_equals_a_serial_sum(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 5, 1000, 262147};
    for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            check_sum(ranks, sizes[k]);
}

static void all_reduce_gives_all_ranks_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t group[] = {0, 1, 2, UINT32_MAX};
    enum { N = 10007, RANKS = 3 };
    struct mesh m = {0};
    struct actor a[MAX_RANKS] = {0};
    toy_begin(&m.program, 1, (const uint32_t *const[]){group});
    srand(1);
    for (uint32_t r = 0; r < RANKS; r++) {
        toy_rank(&m.program);
        toy_allreduce(&m.program, 0, N);
        a[r].data = malloc(N * sizeof(float));
        for (size_t i = 0; i < N; i++)
            a[r].data[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    toy_finish(&m.program);
    play_all(&m, a, reduce_all, 2);
    assert_memory_equal(a[0].data, a[1].data, N * sizeof(float));
    assert_memory_equal(a[0].data, a[2].data, N * sizeof(float));
    for (uint32_t r = 0; r < RANKS; r++)
        free(a[r].data);
    mesh_close(&m);
}

/* Replicas {0, 1} and {2, 3} reduce, then {0, 2} and {1, 3}: the second sum needs the first. */
static void collectives_of_overlapping_groups_run_in_list_order(void **state)
{
    (void)state;
    static const uint32_t g0[] = {0, 1, UINT32_MAX}, g1[] = {2, 3, UINT32_MAX};
    static const uint32_t g2[] = {0, 2, UINT32_MAX}, g3[] = {1, 3, UINT32_MAX};
    struct mesh m = {0};
    struct actor a[MAX_RANKS] = {0};
    float data[MAX_RANKS][2];
    toy_begin(&m.program, 4, (const uint32_t *const[]){g0, g1, g2, g3});
    for (uint32_t r = 0; r < 4; r++) {
        toy_rank(&m.program);
        toy_allreduce(&m.program, r / 2, 1);
        toy_allreduce(&m.program, 2 + r % 2, 1);
        data[r][0] = data[r][1] = (float)(1 << 4 * r);
        a[r].data = data[r];
    }
    toy_finish(&m.program);
    play_all(&m, a, reduce_all, 1);
    assert_true(data[0][0] == 0x11 && data[1][0] == 0x11 && data[2][0] == 0x1100);
    assert_true(data[0][1] == 0x101 && data[2][1] == 0x101 && data[3][1] == 0x1010);
    mesh_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive_in_order_in_both_directions),
        cmocka_unit_test(two_large_messages_cross),
        cmocka_unit_test(messages_used_in_reverse_order_do_not_block),
        cmocka_unit_test(windows_hold_what_must_wait_and_two_more),
        cmocka_unit_test(all_reduce_equals_a_serial_sum),
        cmocka_unit_test(all_reduce_gives_all_ranks_the_same_bits),
        cmocka_unit_test(collectives_of_overlapping_groups_run_in_list_order),
    };
    return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
