/* The executor: ranks as threads over real sockets, with a device that checks every call. */
#include "exec/executor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/transport/tcp/socket.h"
#include "tests/cmocka.h"
#include "tests/fake_device.h"
#include "tests/fault.h"
#include "tests/toy.h"

enum { MAX_RANKS = 4 };
static const double patience_s = 60;

struct actor {
    const struct program *p;
    struct rendezvous r;
    uint32_t steps;
    struct executor_step step; /* the last one */
    enum status st;
    char message[1024];
    pthread_t thread;
};

static enum status act(struct actor *a, void **device, void **transport)
{
    enum status st;
    struct executor_progress progress = {0};
    const struct device_options options = {0};
    struct executor e = {.program = a->p,
                         .rank = a->r.rank,
                         .device = &device_fake,
                         .transport = &transport_tcp,
                         .timeout_s = patience_s,
                         .progress = &progress};
    TRY(device_fake.open(NULL, a->p, a->r.rank, &options, device));
    TRY(transport_tcp.open(a->p, a->r.rank, &a->r, transport));
    e.device_self = *device;
    e.transport_self = *transport;
    for (uint32_t s = 0; s < a->steps; s++)
        TRY(executor_run(&e, s, &a->step));
    TRY(executor_finish(&e));
out:
    return st;
}

static void *actor_main(void *argument)
{
    struct actor *a = argument;
    void *device = NULL, *transport = NULL;
    a->st = act(a, &device, &transport);
    if (a->st != STATUS_OK)
        snprintf(a->message, sizeof a->message, "%s", error_message());
    transport_tcp.close(transport);
    device_fake.close(device);
    return NULL;
}

static void play(const struct program *p, struct actor *a, uint32_t steps)
{
    uint16_t port[MAX_RANKS];
    for (uint32_t r = 0; r < p->ranks; r++) {
        a[r] = (struct actor){.p = p, .steps = steps};
        a[r].r = (struct rendezvous){.rank = r,
                                     .ranks = (uint32_t)p->ranks,
                                     .host = "127.0.0.1",
                                     .port = port,
                                     .listener = -1,
                                     .control = -1,
                                     .timeout_s = patience_s};
        assert_int_equal(socket_listen(&a[r].r.listener, &port[r]), STATUS_OK);
        assert_int_equal(executor_step_init(&a[r].step, p, r), STATUS_OK);
    }
    for (uint32_t r = 0; r < p->ranks; r++)
        assert_int_equal(pthread_create(&a[r].thread, NULL, actor_main, &a[r]), 0);
    for (uint32_t r = 0; r < p->ranks; r++) {
        pthread_join(a[r].thread, NULL);
        socket_close(&a[r].r.listener);
    }
}

static void actors_free(struct actor *a, size_t n)
{
    for (size_t r = 0; r < n; r++)
        executor_step_free(&a[r].step);
}

static void runs_every_op_with_the_right_inputs(void **state)
{
    for (uint32_t ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int reduce = 0; reduce < 2; reduce++) {
            struct program p;
            struct actor a[MAX_RANKS];
            toy_pipeline(&p, ranks, 5, 10000, 0, reduce);
            play(&p, a, 4);
            for (uint32_t r = 0; r < ranks; r++)
                if (a[r].st != STATUS_OK)
                    fail_msg("%u ranks: %s", ranks, a[r].message);
            assert_true(a[ranks - 1].step.loss == 100 - 3);
            actors_free(a, ranks);
            program_free(&p);
        }
}

static void op_times_respect_the_program(void **state)
{
    enum { RANKS = 3 };
    struct program p;
    struct actor a[MAX_RANKS];
    toy_pipeline(&p, RANKS, 4, 100000, 0, true);
    play(&p, a, 2);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct executor_step *s = &a[r].step;
        assert_int_equal(a[r].st, STATUS_OK);
        assert_true(s->start_s == a[0].step.start_s); /* all ranks begin together */
        for (size_t i = p.op_start[r]; i < p.op_start[r + 1]; i++) {
            size_t k = i - p.op_start[r];
            if (p.op[i].kind == OP_RECV) /* without an op of its own in the list's order */
                continue;
            assert_true(s->op_start_s[k] >= s->start_s);
            assert_true(s->op_end_s[k] >= s->op_start_s[k]);
            assert_true(s->op_end_s[k] <= s->end_s);
            for (uint32_t d = p.op[i].dep_start; d < p.op[i + 1].dep_start; d++)
                assert_true(s->op_start_s[k] >= s->op_end_s[p.dep[d] - p.op_start[r]]);
        }
        for (size_t i = p.op_start[r]; i < p.op_start[r + 1]; i++) {
            if (p.op[i].kind != OP_RECV) /* its last byte cannot come before the SEND began */
                continue;
            uint32_t peer = p.op[i].peer, send = p.op[i].match;
            assert_true(s->op_end_s[i - p.op_start[r]] >=
                        a[peer].step.op_start_s[send - p.op_start[peer]]);
        }
    }
    actors_free(a, RANKS);
    program_free(&p);
}

static void a_failing_device_ends_all_ranks_with_rank_op_and_step(void **state)
{
    struct program p;
    struct actor a[MAX_RANKS];
    toy_pipeline(&p, 2, 2, 1000, 0, false);
    setenv("FAKE", "1 7 error", 1); /* 2 forward, 2 backward, update; the second call of step 1 */
    play(&p, a, 3);
    unsetenv("FAKE");
    assert_int_equal(a[1].st, STATUS_UNSUPPORTED);
    assert_message(a[1].message, "rank 1 (toy1) at 1F1 step 1: out of luck");
    assert_int_equal(a[0].st, STATUS_IO);
    assert_non_null(strstr(a[0].message, "with rank 1"));
    actors_free(a, 2);
    program_free(&p);
}

static enum status init_and_free(const struct program *p)
{
    struct executor_step s = {0};
    enum status st = executor_step_init(&s, p, 0);
    executor_step_free(&s);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct program p;
    toy_pipeline(&p, 2, 2, 1000, 0, false);
    FOR_EACH_ALLOC_FAILURE(init_and_free(&p));
    program_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_every_op_with_the_right_inputs),
        cmocka_unit_test(op_times_respect_the_program),
        cmocka_unit_test(a_failing_device_ends_all_ranks_with_rank_op_and_step),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
