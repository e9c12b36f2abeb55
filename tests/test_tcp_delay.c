/* Latencies and link speeds that the TCP transport adds for an emulated network. Only lower bounds:
 * a busy machine is later, never earlier. */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "exec/transport.h"
#include "tests/cmocka.h"
#include "tests/mesh.h"
#include "tests/toy.h"

enum { MESSAGES = 4, BYTES = 1000, FLOATS = 600 };
static const struct delay slow = {.latency_s = 0.02, .per_byte_s = 1e-5}; /* 10 ms a message */
static const double slack_s = 1e-6;

static enum status refuse(struct actor *a, const char *what)
{
    return error_set(STATUS_INVALID, "rank %u: %s", a->rank, what);
}

/* Rank 0 sends everything at once; on rank 1 one message follows the other. */
static enum status pass(struct actor *a, void *t)
{
    enum status st;
    const struct program *p = &a->mesh->program;
    double ignored_s, start_s, end_s, before_s = 0;
    TRY(transport_tcp.barrier(t, patience_s, &ignored_s));
    for (uint32_t i = (uint32_t)p->op_start[a->rank]; i < p->op_start[a->rank + 1]; i++) {
        void *to;
        const void *from;
        if (p->op[i].kind == OP_SEND) {
            TRY(transport_tcp.send_buffer(t, i, &to));
            memset(to, 0, BYTES);
            TRY(transport_tcp.send(t, i));
            continue;
        }
        TRY(transport_tcp.wait(t, i, patience_s, &from));
        double now_s = clock_now();
        transport_tcp.release(t, i);
        transport_tcp.times(t, i, &start_s, &end_s);
        if (now_s < end_s - slack_s)
            return refuse(a, "told before the message was there");
        if (end_s - start_s < slow.latency_s + BYTES * slow.per_byte_s - slack_s)
            return refuse(a, "latency or pace missing");
        if (before_s > 0 && end_s - before_s < BYTES * slow.per_byte_s - slack_s)
            return refuse(a, "two messages at the same time on one link");
        before_s = end_s;
    }
    for (uint32_t i = (uint32_t)p->op_start[a->rank]; i < p->op_start[a->rank + 1]; i++)
        if (p->op[i].kind == OP_SEND)
            TRY(transport_tcp.wait(t, i, patience_s, NULL));
    TRY(transport_tcp.barrier(t, patience_s, &ignored_s));
out:
    return st;
}

/* Two rounds, a half of the array in each. */
static enum status sum(struct actor *a, void *t)
{
    enum status st;
    uint32_t op = (uint32_t)a->mesh->program.op_start[a->rank];
    float data[FLOATS] = {0};
    double ignored_s, start_s, end_s;
    TRY(transport_tcp.barrier(t, patience_s, &ignored_s));
    TRY(transport_tcp.collective(t, op, ELEMENT_FP32, data, FLOATS));
    TRY(transport_tcp.wait(t, op, patience_s, NULL));
    transport_tcp.times(t, op, &start_s, &end_s);
    if (end_s - start_s < 2 * (slow.latency_s + FLOATS * 2 * slow.per_byte_s) - slack_s)
        return refuse(a, "a round without its delay");
    TRY(transport_tcp.barrier(t, patience_s, &ignored_s));
out:
    return st;
}

static void act(struct mesh *m, enum status (*what)(struct actor *, void *))
{
    struct actor a[2];
    mesh_open(m);
    for (uint32_t k = 0; k < 2; k++) {
        m->r[k].delay = calloc(2, sizeof *m->r[k].delay);
        m->r[k].delay[1 - k] = slow;
        a[k] = (struct actor){.mesh = m, .rank = k, .act = what, .steps = 1};
    }
    play(a, 2);
    for (uint32_t k = 0; k < 2; k++) {
        free(m->r[k].delay);
        if (a[k].st != STATUS_OK)
            fail_msg("%s", a[k].message);
    }
    mesh_close(m);
}

static void messages_take_their_latency_and_follow_each_other(void **state)
{
    struct mesh m = {0};
    toy_begin(&m.program, 0, NULL);
    toy_rank(&m.program);
    for (uint32_t k = 0; k < MESSAGES; k++)
        toy_send(&m.program, 1, k, BYTES, NULL);
    toy_rank(&m.program);
    for (uint32_t k = 0; k < MESSAGES; k++)
        toy_recv(&m.program, 0, k, BYTES);
    toy_finish(&m.program);
    act(&m, pass);
}

static void rounds_of_a_sum_are_delayed_one_after_the_other(void **state)
{
    struct mesh m = {0};
    static const uint32_t both[] = {0, 1, UINT32_MAX};
    static const uint32_t *const groups[] = {both};
    toy_begin(&m.program, 1, groups);
    for (uint32_t k = 0; k < 2; k++) {
        toy_rank(&m.program);
        toy_collective(&m.program, OP_ALLREDUCE, 0, FLOATS);
    }
    toy_finish(&m.program);
    act(&m, sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_take_their_latency_and_follow_each_other),
        cmocka_unit_test(rounds_of_a_sum_are_delayed_one_after_the_other),
    };
    return cmocka_run_group_tests_name("tcp_delay", tests, NULL, NULL);
}
