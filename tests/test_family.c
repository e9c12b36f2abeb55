/* What is seen of other processes: at rest, stuck, stopped, and what they were started with. */
#define _GNU_SOURCE /* syscall */
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "host/family.h"
#include "tests/cmocka.h"

enum { PATIENCE_S = 20 }; /* of the test: it ends as soon as what it waits for is there */

static void rest(void)
{
    for (;;)
        pause();
}

static void work(void)
{
    for (;;)
        (void)getppid();
}

/* Whether something has come. */
static void look(void)
{
    for (;;)
        clock_sleep_until(clock_now() + 1e-4);
}

/* A futex that nobody wakes. */
static void wait_in_futex(void)
{
    static int word;
    for (;;)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

/* A process that does one thing and has a child that does another; it ends with this one. */
static pid_t start(void (*parent)(void), void (*child)(void))
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    pid_t below = fork();
    (below == 0 ? child : parent)();
    _exit(0);
}

static void end(pid_t pid)
{
    family_kill(pid, 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static pid_t child_of(pid_t pid)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    for (double end_s = clock_now() + PATIENCE_S; child == 0 && clock_now() < end_s;) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%d", &child) != 1)
            child = 0;
        if (f)
            fclose(f);
    }
    assert_true(child > 0);
    return child;
}

static void children_that_do_nothing_rest_and_one_that_works_does_not(void **state)
{
    size_t n = 0;
    struct family_watch calm = {0}, busy = {0};
    pid_t quiet = start(rest, rest), loud = start(rest, work);
    child_of(loud);
    bool rests = false, works = true;
    for (double end_s = clock_now() + PATIENCE_S; !rests && clock_now() < end_s;) {
        rests = family_rests_long(&calm, quiet, 2, &n);
        size_t others;
        works = works && !family_rests_long(&busy, loud, 2, &others);
        clock_sleep_until(clock_now() + 0.02);
    }
    end(quiet);
    end(loud);
    assert_true(rests && works);
    assert_int_equal(n, 1);
}

/* Who sleeps or looks in vain below one that rests; not who computes, or whose parent does
 * anything. */
static void one_that_waits_for_a_parent_that_rests_is_stuck(void **state)
{
    static const struct {
        void (*parent)(void), (*child)(void);
        enum family_wait does;
    } pairs[] = {
        {rest, wait_in_futex, FAMILY_SLEEPS}, {rest, look, FAMILY_LOOKS},
        {rest, work, FAMILY_WORKS},           {work, wait_in_futex, FAMILY_WORKS},
        {look, wait_in_futex, FAMILY_WORKS},  {look, look, FAMILY_WORKS},
    };
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    struct family_watch waits[PAIRS] = {{0}}, idle[2] = {{0}};
    pid_t parent[PAIRS], child[PAIRS];
    bool told = access("/proc/self/syscall", R_OK) == 0; /* not everywhere */
    bool rests = false, wrong = false;
    size_t stuck = 0;
    for (size_t k = 0; k < PAIRS; k++) {
        parent[k] = start(pairs[k].parent, pairs[k].child);
        child[k] = child_of(parent[k]);
    }
    for (double end_s = clock_now() + PATIENCE_S; (stuck < 2 || !rests) && clock_now() < end_s;) {
        stuck = 0;
        for (size_t k = 0; k < PAIRS; k++) {
            enum family_wait does = family_waits_long(&waits[k], child[k]);
            stuck += does != FAMILY_WORKS;
            wrong = wrong || (does != FAMILY_WORKS && does != pairs[k].does);
        }
        rests = family_idle_long(&idle[0], parent[0]);
        wrong = wrong || family_idle_long(&idle[1], parent[PAIRS - 1]);
        clock_sleep_until(clock_now() + 0.02);
    }
    for (size_t k = 0; k < PAIRS; k++)
        end(parent[k]);
    assert_false(wrong);
    assert_true(rests && (stuck == 2 || !told));
}

static void a_stopped_child_is_seen_from_above(void **state)
{
    struct family_watch w = {0};
    pid_t parent = start(rest, rest), child = child_of(parent);
    assert_int_equal(family_stopped(parent, 1), 0);
    kill(child, SIGSTOP);
    bool stopped = false;
    for (double end_s = clock_now() + PATIENCE_S; !stopped && clock_now() < end_s;) {
        stopped = family_stopped_long(&w, parent, 1);
        clock_sleep_until(clock_now() + 0.02);
    }
    pid_t seen = family_stopped(parent, 1);
    end(parent);
    assert_true(stopped);
    assert_int_equal(seen, child);
}

static void variables_are_those_of_the_start(void **state)
{
    char value[8] = "";
    int said[2];
    assert_int_equal(pipe(said), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(said[1], 1);
        execle("/bin/sh", "sh", "-c", "echo; kill -STOP $$", (char *)NULL,
               (char *const[]){"RANKS=9", "RANK=longer than that", "PATH=/usr/bin:/bin", NULL});
        _exit(1);
    }
    assert_int_equal(read(said[0], value, 1), 1); /* it has begun */
    bool found = family_variable(pid, "RANK", value, sizeof value);
    char other[8];
    bool none = !family_variable(pid, "RAN", other, sizeof other);
    end(pid);
    close(said[0]);
    close(said[1]);
    assert_true(found && none);
    assert_string_equal(value, "longer ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_that_do_nothing_rest_and_one_that_works_does_not),
        cmocka_unit_test(one_that_waits_for_a_parent_that_rests_is_stuck),
        cmocka_unit_test(a_stopped_child_is_seen_from_above),
        cmocka_unit_test(variables_are_those_of_the_start),
    };
    if (limits_set("wait=0.1333") != STATUS_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
