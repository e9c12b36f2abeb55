/* A team of forked ranks: numbers come back, and whoever dies is named while the others end. */
#define _GNU_SOURCE
#include "exec/team.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"

static const double limit_s = 60;

static void nobody_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no children */
}

static enum status add_after_each_other(struct team_member *me, void *context)
{
    const double *first = context;
    for (uint32_t turn = 0; turn < me->ranks; turn++) {
        if (turn == me->rank)
            me->number[turn] = (turn ? me->number[turn - 1] : *first) + 1;
        pthread_barrier_wait(me->together);
    }
    return STATUS_OK;
}

static enum status note_cores(struct team_member *me, void *context)
{
    cpu_set_t *all = context, own;
    size_t n = (size_t)CPU_COUNT(all);
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return error_set(STATUS_IO, "sched_getaffinity");
    for (size_t cpu = 0, k = 0; k < n; cpu++)
        if (CPU_ISSET(cpu, all))
            me->number[me->rank * n + k++] = CPU_ISSET(cpu, &own) != 0;
    return STATUS_OK;
}

/* As many members as there are cores, and fewer: no core is two members', none is nobody's, and
 * everybody has one. More members: all have all. */
static void members_have_cores_of_their_own(void **state)
{
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    size_t n = (size_t)CPU_COUNT(&all), most = n + 1 < TEAM_MOST ? n + 1 : TEAM_MOST;
    for (size_t ranks = 1; ranks <= most; ranks++) {
        double *has = calloc(ranks * n, sizeof *has);
        assert_non_null(has);
        assert_int_equal(team_run(ranks, ranks * n, limit_s, note_cores, &all, has), STATUS_OK);
        for (size_t cpu = 0; cpu < n; cpu++) {
            double members = 0;
            for (size_t r = 0; r < ranks; r++)
                members += has[r * n + cpu];
            assert_true(members == (ranks <= n ? 1 : (double)ranks));
        }
        for (size_t r = 0; r < ranks; r++) {
            double cpus = 0;
            for (size_t cpu = 0; cpu < n; cpu++)
                cpus += has[r * n + cpu];
            assert_true(cpus >= 1);
        }
        free(has);
    }
    cpu_set_t after;
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&all, &after));
}

static void members_share_numbers_and_meet(void **state)
{
    double number[4] = {-1, -1, -1, -1}, first = 10;
    assert_int_equal(team_run(3, 4, limit_s, add_after_each_other, &first, number), STATUS_OK);
    assert_true(number[0] == 11 && number[1] == 12 && number[2] == 13 && number[3] == 0);
    nobody_is_left();
}

/* Rank 1 goes, as told; the others wait for it at the barrier for ever. */
static enum status wait_for_one_that_goes(struct team_member *me, void *context)
{
    const int *how = context;
    if (me->rank == 1 && *how > 0)
        raise(*how);
    if (me->rank == 1 && *how == 0)
        _exit(7);
    if (me->rank == 1)
        return error_set(STATUS_INVALID, "no tea left");
    pthread_barrier_wait(me->together);
    return STATUS_OK;
}

static void check_end(int how, enum status st, const char *message)
{
    double number[1] = {-1};
    assert_int_equal(team_run(3, 1, limit_s, wait_for_one_that_goes, &how, number), st);
    assert_message(error_message(), message);
    assert_true(number[0] == -1); /* untouched */
    nobody_is_left();
}

static void a_rank_that_dies_or_fails_is_named_and_ends_the_others(void **state)
{
    check_end(SIGKILL, STATUS_EXTERNAL, "rank 1 killed by signal 9");
    check_end(SIGTERM, STATUS_EXTERNAL, "rank 1 killed by signal 15");
    check_end(0, STATUS_EXTERNAL, "1 exited 7");
    check_end(-1, STATUS_INVALID, "rank 1: no tea left");
}

/* Rank 0 sees that rank 1 is gone and says so before rank 1 has ended. */
static enum status blame_and_die(struct team_member *me, void *context)
{
    (void)context;
    if (me->rank == 0)
        return error_set(STATUS_IO, "rank 1 does not answer");
    clock_sleep_until(clock_now() + 0.1);
    raise(SIGKILL);
    return STATUS_OK;
}

static void a_cause_that_comes_after_its_symptom_is_told(void **state)
{
    double number[1];
    assert_int_equal(team_run(2, 1, limit_s, blame_and_die, NULL, number), STATUS_EXTERNAL);
    assert_message(error_message(), "rank 1 killed by signal 9");
    nobody_is_left();
}

static enum status stop(struct team_member *me, void *context)
{
    (void)context;
    if (me->rank == 1)
        raise(SIGSTOP);
    pthread_barrier_wait(me->together);
    return STATUS_OK;
}

static void a_stopped_rank_ends_everything_at_the_limit(void **state)
{
    double number[1];
    assert_int_equal(team_run(2, 1, 0.3, stop, NULL, number), STATUS_EXTERNAL);
    assert_message(error_message(), "2 ranks 0.3 s");
    nobody_is_left();
}

static void a_team_has_1_to_64_members(void **state)
{
    double number[1], first = 0;
    assert_int_equal(team_run(0, 1, limit_s, add_after_each_other, &first, number), STATUS_INVALID);
    assert_int_equal(team_run(TEAM_MOST + 1, 1, limit_s, add_after_each_other, &first, number),
                     STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_share_numbers_and_meet),
        cmocka_unit_test(members_have_cores_of_their_own),
        cmocka_unit_test(a_rank_that_dies_or_fails_is_named_and_ends_the_others),
        cmocka_unit_test(a_cause_that_comes_after_its_symptom_is_told),
        cmocka_unit_test(a_stopped_rank_ends_everything_at_the_limit),
        cmocka_unit_test(a_team_has_1_to_64_members),
    };
    return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
