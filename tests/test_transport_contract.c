/* What every transport promises: messages, collectives, deadlines, dead peers. Run on TCP and local
 * with the ranks as threads; on MPI every process of mpirun is one rank and the world has two to
 * four.
 *
 * Usage: test_transport_contract [TRANSPORT [dead]]; `dead` plays only the scene in which a rank
 * dies, because MPI ends the others too. */
#include "exec/transport.h"

#include <signal.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/contract.h"
#include "tests/fault.h"
#include "tests/toy.h"

#ifdef WITH_MPI
#include <mpi.h>
#endif

const struct transport *transport;
uint32_t low = 2, high = MAX_RANKS, self;
bool alone;

struct mesh new_mesh(void)
{
    return (struct mesh){.transport = transport, .alone = alone, .self = self};
}

void idle(struct program *p, uint32_t n)
{
    while (p->ranks < n)
        toy_rank(p);
}

/* ---- point to point */

static void messages_of_all_sizes_arrive_in_order_in_both_directions(void **state)
{
    static const int64_t bytes[] = {0, 1, 23, 24, 25, 4096, 65537, MIB, 3, 0};
    enum { SIZES = sizeof bytes / sizeof *bytes };
    for (uint32_t ranks = low; ranks <= high; ranks++) {
        struct mesh m = new_mesh();
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
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    toy_begin(&m.program, 0, NULL);
    for (uint32_t r = 0; r < 2; r++) {
        toy_rank(&m.program);
        toy_send(&m.program, 1 - r, 0, 64 * MIB, NULL);
        toy_recv(&m.program, 1 - r, 0, 64 * MIB);
    }
    idle(&m.program, low);
    toy_finish(&m.program);
    play_all(&m, a, exchange_messages, 1);
    mesh_close(&m);
}

/* Rank 0 sends 0 .. 9; on rank 1 an op per message uses them in the order 9 .. 0. */
static void messages_used_in_reverse_order_do_not_block(void **state)
{
    enum { MESSAGES = 10 };
    static const size_t reverse[] = {9,  8,  7,  6,  5,  4,  3,  2,  1,  0,
                                     10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {[1] = {.order = reverse}};
    uint32_t recv[MESSAGES];
    toy_begin(&m.program, 0, NULL);
    toy_rank(&m.program);
    for (uint32_t k = 0; k < MESSAGES; k++)
        toy_send(&m.program, 1, k, 1000, NULL);
    toy_rank(&m.program);
    for (uint32_t k = 0; k < MESSAGES; k++)
        recv[k] = toy_recv(&m.program, 0, k, 1000);
    for (uint32_t k = MESSAGES; k-- > 0;) {
        struct program_op op = {.kind = OP_FORWARD, .microbatch = k};
        toy_op(&m.program, op, (uint32_t[]){recv[k], UINT32_MAX});
    }
    idle(&m.program, low);
    toy_finish(&m.program);
    play_all(&m, a, exchange_messages, 3);
    mesh_close(&m);
}

/* ---- what goes wrong */

static enum status wait_for_nothing(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    if (a->rank == 0)
        TRY(transport->wait(t, 0, 0.05, NULL));
out:
    if (!alone)
        pthread_barrier_wait(a->together);
    return st;
}

static void a_peer_that_never_answers_is_named_at_the_deadline(void **state)
{
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    pthread_barrier_t together;
    toy_begin(&m.program, 0, NULL);
    toy_rank(&m.program);
    toy_recv(&m.program, 1, 5, 100);
    toy_rank(&m.program);
    toy_send(&m.program, 0, 5, 100, NULL);
    idle(&m.program, low);
    toy_finish(&m.program);
    mesh_open(&m);
    pthread_barrier_init(&together, NULL, (unsigned)m.program.ranks);
    for (uint32_t r = 0; r < m.program.ranks; r++)
        a[r] =
            (struct actor){.mesh = &m, .rank = r, .act = wait_for_nothing, .together = &together};
    play(a, m.program.ranks);
    if (!alone || self == 0) {
        assert_int_equal(a[0].st, STATUS_EXTERNAL);
        assert_message(a[0].message, "0 0RECV_F5 1 complete 0.05 s");
    }
    if (!alone || self == 1)
        assert_int_equal(a[1].st, STATUS_OK);
    pthread_barrier_destroy(&together);
    mesh_close(&m);
}

static enum status pass_two_barriers(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    (void)a;
    TRY(transport->barrier(t, patience_s, &start_s));
    TRY(transport->barrier(t, patience_s, &start_s));
out:
    return st;
}

static void a_step_without_its_messages_is_misuse(void **state)
{
    static const uint32_t group[][2] = {
        {0, UINT32_MAX}, {1, UINT32_MAX}, {2, UINT32_MAX}, {3, UINT32_MAX}};
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    toy_begin(&m.program, high, (const uint32_t *const[]){group[0], group[1], group[2], group[3]});
    for (uint32_t r = 0; r < high; r++) {
        toy_rank(&m.program);
        toy_collective(&m.program, OP_ALLREDUCE, r, 3);
    }
    toy_finish(&m.program);
    mesh_open(&m);
    for (uint32_t r = 0; r < high; r++)
        a[r] = (struct actor){.mesh = &m, .rank = r, .act = pass_two_barriers};
    play(a, high);
    for (uint32_t r = 0; r < high; r++)
        if (!alone || r == self) {
            assert_int_equal(a[r].st, STATUS_INVALID);
            assert_non_null(strstr(a[r].message, "ALLREDUCE: not complete or not released"));
        }
    mesh_close(&m);
}

/* All ranks allocate the same, so that they fail together. */
static enum status open_and_close(struct mesh *m)
{
    void *t = NULL;
    enum status st = transport->open(&m->program, self, &m->r[self], &t);
    transport->close(t);
    return st;
}

static void open_releases_everything_when_memory_runs_out(void **state)
{
    static const uint32_t group[] = {0, 1, 2, 3, UINT32_MAX};
    uint32_t members[MAX_RANKS + 1];
    struct mesh m = new_mesh();
    if (!alone)
        skip(); /* TCP's is in test_tcp_faults.c, local's in test_local.c */
    memcpy(members, group, sizeof members);
    members[high] = UINT32_MAX;
    toy_begin(&m.program, 1, (const uint32_t *const[]){members});
    for (uint32_t r = 0; r < high; r++) {
        toy_rank(&m.program);
        toy_send(&m.program, (r + 1) % high, 0, 1000, NULL);
        toy_recv(&m.program, (r + high - 1) % high, 0, 1000);
        toy_collective(&m.program, OP_ALLREDUCE, 0, 1000);
    }
    toy_finish(&m.program);
    mesh_open(&m);
    FOR_EACH_ALLOC_FAILURE(open_and_close(&m));
    mesh_close(&m);
}

static enum status die_or_wait(struct actor *a, void *t)
{
    enum status st;
    double start_s;
    TRY(transport->barrier(t, patience_s, &start_s));
    if (a->rank == 1 && alone)
        raise(SIGKILL);
    if (a->rank == 0)
        TRY(transport->wait(t, 0, patience_s, NULL));
out:
    return st;
}

/* As threads, rank 1 closes its transport; as a process, it is killed. */
static void a_dead_peer_ends_the_wait_and_is_named(void **state)
{
    struct mesh m = new_mesh();
    struct actor a[MAX_RANKS] = {0};
    toy_begin(&m.program, 0, NULL);
    toy_rank(&m.program);
    toy_recv(&m.program, 1, 5, 100);
    toy_rank(&m.program);
    toy_send(&m.program, 0, 5, 100, NULL);
    idle(&m.program, low);
    toy_finish(&m.program);
    mesh_open(&m);
    for (uint32_t r = 0; r < m.program.ranks; r++)
        a[r] = (struct actor){.mesh = &m, .rank = r, .act = die_or_wait};
    play(a, m.program.ranks);
    if (!alone || self == 0) {
        assert_int_equal(a[0].st, STATUS_IO);
        assert_non_null(strstr(a[0].message, "rank 0: 0RECV_F5 with rank 1: "));
    }
    mesh_close(&m);
}

/* ---- which transport */

#ifdef WITH_MPI
static int start_mpi(int *argc, char ***argv)
{
    int level, rank, ranks;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    transport = &transport_mpi;
    alone = true;
    self = (uint32_t)rank;
    low = high = (uint32_t)ranks;
    return ranks < 2 || ranks > MAX_RANKS;
}
#endif

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive_in_order_in_both_directions),
        cmocka_unit_test(two_large_messages_cross),
        cmocka_unit_test(messages_used_in_reverse_order_do_not_block),
        cmocka_unit_test(collectives_are_their_serial_reference_bit_for_bit),
        cmocka_unit_test(averages_minima_and_maxima_are_those_of_a_plain_loop),
        cmocka_unit_test(every_algorithm_gives_the_sums_on_all_members),
        cmocka_unit_test(collectives_of_64_mib_are_their_serial_reference),
        cmocka_unit_test(reduce_scatter_and_all_gather_are_an_all_reduce_bit_for_bit),
        cmocka_unit_test(an_op_may_be_called_as_often_as_its_count),
        cmocka_unit_test(calls_in_one_are_calls_and_end_in_time),
        cmocka_unit_test(wrong_calls_and_a_step_without_any_are_misuse),
        cmocka_unit_test(collectives_of_overlapping_groups_run_in_list_order),
        cmocka_unit_test(messages_and_collectives_do_not_disturb_each_other),
        cmocka_unit_test(a_peer_that_never_answers_is_named_at_the_deadline),
        cmocka_unit_test(a_step_without_its_messages_is_misuse),
        cmocka_unit_test(open_releases_everything_when_memory_runs_out),
    };
    const struct CMUnitTest death[] = {
        cmocka_unit_test(a_dead_peer_ends_the_wait_and_is_named),
        cmocka_unit_test(a_dead_peer_ends_a_collective_on_all_members),
    };
    const char *name = argc > 1 ? argv[1] : "tcp";
    bool dead = argc > 2 && !strcmp(argv[2], "dead");
    transport = !strcmp(name, "local") ? &transport_local : &transport_tcp;
#ifdef WITH_MPI
    if (!strcmp(name, "mpi") && start_mpi(&argc, &argv))
        return 2;
#endif
    if (strcmp(name, transport->name) != 0)
        return 2;
    int failed = dead ? cmocka_run_group_tests_name(name, death, NULL, NULL)
                      : cmocka_run_group_tests_name(name, tests, NULL, NULL);
#ifdef WITH_MPI
    if (alone && failed == 0)
        MPI_Finalize();
#endif
    return failed;
}
