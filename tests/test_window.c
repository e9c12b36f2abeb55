/* How many messages a receiver must be able to hold. */
#include "exec/window.h"

#include "tests/cmocka.h"
#include "tests/toy.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_hold_what_must_wait_and_two_more),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
