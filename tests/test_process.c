/* Whose a process number is: of this process, of a child, of one that is gone, of strangers. */
#define _GNU_SOURCE /* unshare */
#include "host/process.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"

static pid_t sleeper(void)
{
    pid_t pid = fork();
    for (; pid == 0;)
        pause();
    return pid;
}

/* What the child itself would say. */
static struct process_id told_by(pid_t *pid)
{
    int end[2];
    struct process_id id = {0};
    assert_int_equal(pipe(end), 0);
    *pid = fork();
    if (*pid == 0) {
        id = process_self();
        ssize_t n = write(end[1], &id, sizeof id);
        for (; n > 0;)
            pause();
    }
    assert_int_equal(read(end[0], &id, sizeof id), sizeof id);
    close(end[0]);
    close(end[1]);
    return id;
}

static int end_of(pid_t pid)
{
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static void a_process_is_known_while_it_lives(void **state)
{
    pid_t pid;
    struct process_id id = told_by(&pid);
    assert_int_equal(id.pid, pid);
    assert_int_equal(process_look(&id), PROCESS_LIVES);
    process_end(&id);
    assert_int_equal(end_of(pid), SIGKILL);
    assert_int_equal(process_look(&id), PROCESS_GONE);
    assert_int_equal(process_hold(&id), -1);
}

/* Each of these numbers could be a bystander's. */
static void nobody_else_is_ended_in_its_place(void **state)
{
    pid_t pid;
    const struct process_id id = told_by(&pid);
    struct process_id other[6] = {id, id, id, id, id, id};
    other[0].start++;
    other[1].space++;
    other[2].boot++;
    other[3].start = 0;
    other[4].boot = 0;
    other[5].pid = (uint32_t)getppid();
    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        assert_int_not_equal(process_look(&other[k]), PROCESS_LIVES);
        assert_int_equal(process_hold(&other[k]), -1);
        process_end(&other[k]);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    }
    process_signal(-1, SIGKILL);
    kill(pid, SIGKILL);
    end_of(pid);
}

static void a_child_is_held_only_by_its_parent(void **state)
{
    pid_t mine = sleeper();
    assert_int_equal(process_hold_child(getppid(), mine), -1);
    int held = process_hold_child(getpid(), mine);
    assert_true(held >= 0);
    process_signal(held, SIGTERM);
    assert_int_equal(end_of(mine), SIGTERM);
    process_signal(held, SIGTERM); /* it is gone */
    close(held);
}

/* In a PID namespace of its own whose /proc is still the one outside, numbers are others'. */
static void another_namespace_is_not_believed(void **state)
{
    int how = -1;
    pid_t between = fork();
    if (between == 0) {
        struct process_id outside = process_self();
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            _exit(77);
        pid_t first = fork();
        if (first == 0)
            _exit(process_sees_own() || process_look(&outside) != PROCESS_UNKNOWN ||
                  process_self().start != 0 || process_hold_child(getppid(), 1) != -1);
        waitpid(first, &how, 0);
        _exit(WIFEXITED(how) ? WEXITSTATUS(how) : 99);
    }
    waitpid(between, &how, 0);
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == 77) {
        print_message("skipped: no PID namespaces here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_known_while_it_lives),
        cmocka_unit_test(nobody_else_is_ended_in_its_place),
        cmocka_unit_test(a_child_is_held_only_by_its_parent),
        cmocka_unit_test(another_namespace_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
