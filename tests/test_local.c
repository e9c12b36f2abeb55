/* The local transport beyond the contract: what it refuses, and what happens without memory. */
#include "exec/transport.h"

#include <string.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/mesh.h"
#include "tests/toy.h"

static const struct transport *const transport = &transport_local;

static void a_rank_without_what_ranks_share_is_refused(void **state)
{
    struct program p;
    void *t = NULL;
    toy_pipeline(&p, 2, 1, 10, 0, false);
    assert_int_equal(transport->open(&p, 0, &RENDEZVOUS_NONE, &t), STATUS_INVALID);
    assert_message(error_message(), "one process");
    assert_null(t);
    program_free(&p);
}

/* A step of one rank with a collective. */
static enum status one_step(const struct program *p)
{
    enum status st;
    void *shared = NULL, *t = NULL;
    struct rendezvous r = RENDEZVOUS_NONE;
    float data[3] = {1, 2, 3};
    double start_s;
    TRY(transport->share(p, &shared));
    r.shared = shared;
    TRY(transport->open(p, 0, &r, &t));
    TRY(transport->barrier(t, patience_s, &start_s));
    TRY(transport->collective(t, 0, ELEMENT_FP32, data, 3));
    TRY(transport->wait(t, 0, patience_s, NULL));
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    transport->close(t);
    transport->unshare(shared);
    return st;
}

static void everything_is_released_when_memory_runs_out(void **state)
{
    static const uint32_t group[] = {0, UINT32_MAX};
    struct program p;
    toy_begin(&p, 1, (const uint32_t *const[]){group});
    toy_rank(&p);
    toy_collective(&p, OP_ALLREDUCE, 0, 3);
    toy_finish(&p);
    FOR_EACH_ALLOC_FAILURE(one_step(&p));
    program_free(&p);
}

/* Rank 0 would wait for 60 s for a rank that failed before it had a transport. */
static enum status pass_a_barrier(struct actor *a, void *t)
{
    double start_s;
    transport->leave(a->mesh->shared, 1);
    return transport->barrier(t, patience_s, &start_s);
}

static void nobody_waits_for_a_rank_that_never_opens(void **state)
{
    struct mesh m = {.transport = transport};
    toy_pipeline(&m.program, 2, 1, 10, 0, false);
    mesh_open(&m);
    struct actor a[1] = {{.mesh = &m, .rank = 0, .act = pass_a_barrier}};
    play(a, 1);
    assert_int_equal(a[0].st, STATUS_IO);
    assert_message(a[0].message, "rank 0: barrier of step 0 with rank 1: has");
    mesh_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_what_ranks_share_is_refused),
        cmocka_unit_test(everything_is_released_when_memory_runs_out),
        cmocka_unit_test(nobody_waits_for_a_rank_that_never_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
