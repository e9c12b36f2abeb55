/* Signals leave no temporary files, and what SIGKILL leaves goes with the next temporary folder. */
#include "host/leftover.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "host/folder.h"
#include "tests/cmocka.h"

static char base[] = "/tmp/test-leftover-XXXXXX";

static int enter(void **state)
{
    leftover_watch_files();
    return mkdtemp(base) && !setenv("TMPDIR", base, 1) ? 0 : -1;
}

static int leave(void **state)
{
    return rmdir(base); /* nothing is left in it */
}

static void put_file(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs("x", f) < 0 || fclose(f) != 0)
        _exit(99);
}

/* In a child: a folder with a file in it, and a file that is being written; then the signal. */
static int die_of(int number, char folder[FOLDER_TEMPORARY])
{
    int end[2], how = 0;
    if (pipe(end))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        char own[FOLDER_TEMPORARY], path[FOLDER_FILE], output[128];
        struct file_out f;
        snprintf(output, sizeof output, "%s/result.json", base);
        if (folder_temporary(own) != STATUS_OK || file_create(output, &f) != STATUS_OK)
            _exit(98);
        put_file(folder_file(own, "program.json", path));
        if (write(end[1], own, sizeof own) != (ssize_t)sizeof own)
            _exit(97);
        if (fork() == 0) { /* ends of children are not ours */
            raise(SIGTERM);
            _exit(96);
        }
        (void)wait(NULL);
        if (access(path, F_OK) != 0)
            _exit(95);
        raise(number);
        _exit(94);
    }
    if (read(end[0], folder, FOLDER_TEMPORARY) != FOLDER_TEMPORARY)
        return -1;
    close(end[0]);
    close(end[1]);
    waitpid(child, &how, 0);
    return how;
}

static void no_signal_leaves_anything(void **state)
{
    static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    char folder[FOLDER_TEMPORARY];
    for (size_t k = 0; k < sizeof fatal / sizeof *fatal; k++) {
        int how = die_of(fatal[k], folder);
        assert_true(WIFSIGNALED(how));
        assert_int_equal(WTERMSIG(how), fatal[k]);
        assert_int_not_equal(access(folder, F_OK), 0);
        assert_true(rmdir(base) == 0 && mkdir(base, 0700) == 0);
    }
}

/* At any moment of making and removing, with one thread or beside another. */
static void make_and_remove(bool threads);
static void *work_beside(void *unused)
{
    make_and_remove(false);
    return unused;
}
static void make_and_remove(bool threads)
{
    pthread_t beside;
    char own[FOLDER_TEMPORARY], output[128];
    struct file_out f;
    snprintf(output, sizeof output, "%s/result.json", base);
    if (threads && pthread_create(&beside, NULL, work_beside, NULL) != 0)
        _exit(98);
    for (;;) {
        if (folder_temporary(own) != STATUS_OK || file_create(output, &f) != STATUS_OK)
            _exit(98);
        file_discard(&f);
        folder_remove(own);
    }
}

static void no_moment_is_too_early(void **state)
{
    unsigned int seed = 7;
    for (int k = 0; k < 200; k++) {
        int how = 0;
        pid_t child = fork();
        if (child == 0)
            make_and_remove(k % 2 == 1);
        seed = seed * 1103515245u + 12345u;
        const struct timespec moment = {.tv_nsec = 2000000 + seed / 65536 % 3000 * 1000};
        (void)nanosleep(&moment, NULL);
        kill(child, SIGTERM);
        waitpid(child, &how, 0);
        assert_true(WIFSIGNALED(how));
        if (rmdir(base) != 0)
            fail_msg("child %d has left something in %s", k, base);
        assert_int_equal(mkdir(base, 0700), 0);
    }
}

static void an_ignored_signal_stays_ignored(void **state)
{
    pid_t child = fork();
    int how = 0;
    if (child == 0) {
        char own[FOLDER_TEMPORARY];
        signal(SIGHUP, SIG_IGN); /* nohup */
        if (folder_temporary(own) != STATUS_OK || raise(SIGHUP) || access(own, F_OK))
            _exit(1);
        folder_remove(own);
        _exit(0);
    }
    waitpid(child, &how, 0);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void make_old(const char *path)
{
    struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, hour_ago, 0), 0);
}

static void what_was_killed_is_removed_later_and_what_lives_is_not(void **state)
{
    char killed[FOLDER_TEMPORARY], living[FOLDER_TEMPORARY], next[FOLDER_TEMPORARY];
    char target[128];
    assert_int_equal(WTERMSIG(die_of(SIGKILL, killed)), SIGKILL);
    assert_int_equal(access(killed, F_OK), 0);
    assert_int_equal(folder_temporary(living), STATUS_OK);
    assert_int_not_equal(access(killed, F_OK), 0);
    make_old(living);
    assert_int_equal(folder_temporary(next), STATUS_OK);
    assert_int_equal(access(living, F_OK), 0);
    folder_remove(next);
    folder_remove(living);
    assert_string_equal(living, "");
    folder_remove(living);
    snprintf(target, sizeof target, "cd %s && rm result.json.*", base);
    assert_int_equal(system(target), 0); /* beside its result: it has no folder of its own */
}

static void a_link_in_a_folder_is_not_followed(void **state)
{
    char folder[FOLDER_TEMPORARY], path[FOLDER_FILE], kept[128];
    snprintf(kept, sizeof kept, "%s/kept", base);
    assert_int_equal(mkdir(kept, 0700), 0);
    assert_int_equal(folder_temporary(folder), STATUS_OK);
    assert_int_equal(symlink(kept, folder_file(folder, "link", path)), 0);
    folder_remove(folder);
    assert_int_equal(rmdir(kept), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_signal_leaves_anything),
        cmocka_unit_test(no_moment_is_too_early),
        cmocka_unit_test(an_ignored_signal_stays_ignored),
        cmocka_unit_test(what_was_killed_is_removed_later_and_what_lives_is_not),
        cmocka_unit_test(a_link_in_a_folder_is_not_followed),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
