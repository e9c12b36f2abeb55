/* child_run: results, every way of not returning, and nothing left behind. */
#include "sim/child.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/process.h"

enum { LARGE = 3 << 20 };

/* Run fn, which must not succeed, and check that the message is `expected`. */
static void expect_death(enum status (*fn)(void *, int), const char *expected)
{
    struct child_output out = {.length = 7};
    assert_int_equal(child_run(fn, NULL, &out), STATUS_EXTERNAL);
    assert_message(error_message(), expected);
    assert_int_equal(out.length, 7);
}

static enum status write_pattern(void *argument, int fd)
{
    enum status st;
    size_t n = *(size_t *)argument;
    unsigned char *data = malloc(n + 1);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    TRY(child_write(fd, data, n));
out:
    free(data);
    return st;
}

static void brings_back_what_the_child_wrote(void **state)
{
    static const size_t sizes[] = {0, 1, 65535, 65536, 65537, LARGE};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct child_output out = {0};
        size_t n = sizes[s];
        assert_int_equal(child_run(write_pattern, &n, &out), STATUS_OK);
        assert_int_equal(out.length, n);
        for (size_t i = 0; i < n; i++)
            if (out.data[i] != (unsigned char)(i * 7 + i / 251))
                fail_msg("byte %zu of %zu", i, n);
        child_output_free(&out);
        assert_null(out.data);
    }
}

static enum status fail_as_usual(void *argument, int fd)
{
    enum status st = child_write(fd, "half", 4);
    return st != STATUS_OK
               ? st
               : error_set(STATUS_INFEASIBLE, "no plan fits %s", (const char *)argument);
}

static void passes_on_status_and_message(void **state)
{
    struct child_output out = {.length = 7};
    char what[] = "16 GiB";
    assert_int_equal(child_run(fail_as_usual, what, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "no plan fits 16 GiB");
    assert_int_equal(out.length, 7);
}

static enum status change_memory(void *argument, int fd)
{
    (void)fd;
    *(int *)argument = 2;
    return STATUS_OK;
}

static void leaves_the_callers_memory_alone(void **state)
{
    int value = 1;
    struct child_output out = {0};
    assert_int_equal(child_run(change_memory, &value, &out), STATUS_OK);
    assert_int_equal(value, 1);
    child_output_free(&out);
}

static enum status abort_after_logging(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    fputs("chatter\n@@first reason,\nsecond line\nBacktrace (displayed in actor maestro):\n"
          "  ->  0# somewhere\n@@Exiting now.\n",
          stderr);
    abort();
}

static void reports_the_first_log_message_of_an_abort(void **state)
{
    expect_death(abort_after_logging, "first reason, second line");
}

static enum status print_and_exit(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    puts("goodbye");
    exit(0);
}

static void takes_an_exit_for_a_failure_even_with_status_0(void **state)
{
    expect_death(print_and_exit, "goodbye");
}

static enum status exit_silently(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    _exit(3);
}

static void names_the_exit_status_when_nothing_was_printed(void **state)
{
    expect_death(exit_silently, "process status 3");
}

static enum status raise_segv(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    raise(SIGSEGV);
    return STATUS_OK;
}

static void names_the_signal_when_nothing_was_printed(void **state)
{
    expect_death(raise_segv, "child process Segmentation");
}

static enum status limit_of_core_files(void *argument, int fd)
{
    (void)argument;
    struct rlimit limit = {1, 1};
    getrlimit(RLIMIT_CORE, &limit);
    return child_write(fd, &limit.rlim_cur, sizeof limit.rlim_cur);
}

static void leaves_no_core_file(void **state)
{
    struct child_output out = {0};
    rlim_t limit = 1;
    assert_int_equal(child_run(limit_of_core_files, NULL, &out), STATUS_OK);
    assert_int_equal(out.length, sizeof limit);
    memcpy(&limit, out.data, sizeof limit);
    assert_int_equal(limit, 0);
    child_output_free(&out);
}

static enum status print_much(void *argument, int fd)
{
    size_t n = LARGE;
    (void)argument;
    for (int i = 0; i < 100000; i++)
        fprintf(stderr, "line %d of far too many\n", i);
    return write_pattern(&n, fd);
}

static void swallows_what_a_successful_child_prints(void **state)
{
    struct child_output out = {0};
    struct diverted d = process_divert();
    enum status st = child_run(print_much, NULL, &out);
    assert_int_equal(process_restore(&d), 0);
    assert_int_equal(st, STATUS_OK);
    assert_int_equal(out.length, LARGE);
    child_output_free(&out);
}

static void leaves_neither_descriptors_nor_children(void **state)
{
    size_t before = process_descriptors();
    enum status (*const fns[])(void *, int) = {abort_after_logging, exit_silently, raise_segv,
                                               limit_of_core_files};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        struct child_output out = {0};
        enum status st = child_run(fns[i], NULL, &out);
        assert_int_equal(st, i < 3 ? STATUS_EXTERNAL : STATUS_OK);
        child_output_free(&out);
    }
    assert_int_equal(process_descriptors(), before);
    assert_true(process_childless());
}

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupts = interrupts + 1;
}

static enum status interrupt_the_parent(void *argument, int fd)
{
    (void)argument;
    for (int i = 0; i < 20; i++) {
        enum status st = child_write(fd, "x", 1);
        if (st != STATUS_OK)
            return st;
        kill(getppid(), SIGINT);
    }
    return STATUS_OK;
}

static enum status interrupt_itself(void *argument, int fd)
{
    (void)argument;
    (void)fd;
    raise(SIGINT);
    return STATUS_OK;
}

static void survives_signals_that_kill_the_child(void **state)
{
    struct sigaction old, handle = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &handle, &old);
    struct child_output out = {0};
    assert_int_equal(child_run(interrupt_the_parent, NULL, &out), STATUS_OK);
    assert_int_equal(out.length, 20);
    assert_true(interrupts > 0);
    child_output_free(&out);
    expect_death(interrupt_itself, "child process Interrupt");
    sigaction(SIGINT, &old, NULL);
}

static enum status sleep_forever(void *argument, int fd)
{
    (void)fd;
    int alive = *(int *)argument;
    enum status st = child_write(alive, "!", 1);
    while (st == STATUS_OK)
        pause();
    return st;
}

static void dies_with_its_parent(void **state)
{
    int alive[2]; /* the child holds the write end until it is gone */
    char c;
    assert_int_equal(pipe(alive), 0);
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        struct child_output out = {0};
        close(alive[0]);
        _exit((int)child_run(sleep_forever, &alive[1], &out));
    }
    close(alive[1]);
    assert_int_equal(read(alive[0], &c, 1), 1);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    struct pollfd end = {.fd = alive[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 30000), 1);
    assert_int_equal(read(alive[0], &c, 1), 0);
    close(alive[0]);
}

struct ticks {
    int n, last; /* asked so often; stop at this one */
};

static bool count_tick(void *context)
{
    struct ticks *t = context;
    return ++t->n < t->last;
}

static void a_watch_ends_the_child_when_it_says_so(void **state)
{
    int alive[2]; /* the child holds the write end until it is gone */
    char c[2];
    struct ticks ticks = {0, 3};
    const struct child_watch watch = {count_tick, &ticks, 1};
    struct child_output out = {0};
    assert_int_equal(pipe(alive), 0);
    assert_int_equal(child_run_watched(sleep_forever, &alive[1], &watch, &out), STATUS_EXTERNAL);
    assert_message(error_message(), "stopped");
    assert_int_equal(ticks.n, 3);
    assert_null(out.data);
    close(alive[1]);
    assert_true(read(alive[0], c, 2) <= 1); /* at most its "!", then the end: nobody is left */
    assert_int_equal(read(alive[0], c, 1), 0);
    close(alive[0]);
}

static enum status write_constant(void *argument, int fd)
{
    static const unsigned char zeros[300000];
    (void)argument;
    return child_write(fd, zeros, sizeof zeros);
}

static enum status run_constant(void)
{
    struct child_output out = {0};
    enum status st = child_run(write_constant, NULL, &out);
    child_output_free(&out);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    size_t before = process_descriptors();
    FOR_EACH_ALLOC_FAILURE(run_constant());
    assert_int_equal(process_descriptors(), before);
    assert_true(process_childless());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brings_back_what_the_child_wrote),
        cmocka_unit_test(passes_on_status_and_message),
        cmocka_unit_test(leaves_the_callers_memory_alone),
        cmocka_unit_test(reports_the_first_log_message_of_an_abort),
        cmocka_unit_test(takes_an_exit_for_a_failure_even_with_status_0),
        cmocka_unit_test(names_the_exit_status_when_nothing_was_printed),
        cmocka_unit_test(names_the_signal_when_nothing_was_printed),
        cmocka_unit_test(leaves_no_core_file),
        cmocka_unit_test(swallows_what_a_successful_child_prints),
        cmocka_unit_test(leaves_neither_descriptors_nor_children),
        cmocka_unit_test(survives_signals_that_kill_the_child),
        cmocka_unit_test(dies_with_its_parent),
        cmocka_unit_test(a_watch_ends_the_child_when_it_says_so),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
