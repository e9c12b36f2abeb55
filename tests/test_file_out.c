/* What is written for each thing that a name can stand for: file, link, device, pipe, directory,
 * socket, our own streams; and that nothing of others is replaced. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/put.h"

static char directory[64];

static const char *in_directory(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int set_up(void **state)
{
    strcpy(directory, "/tmp/foreline-file-out-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static enum status write_text(const char *path, const char *text)
{
    struct file_out out = {0};
    enum status st = file_create(path, &out);
    if (st != STATUS_OK)
        return st;
    fputs(text, out.stream);
    return file_commit(&out);
}

static void expect_text(const char *path, const char *expected)
{
    char *text;
    size_t n;
    assert_int_equal(file_read(path, &text, &n), STATUS_OK);
    assert_string_equal(text, expected);
    free(text);
}

static mode_t mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    return s.st_mode;
}

static void a_file_that_is_replaced_keeps_its_permissions(void **state)
{
    char path[128];
    strcpy(path, in_directory("private"));
    put_text(path, "old");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(write_text(path, "new"), STATUS_OK);
    expect_text(path, "new");
    assert_int_equal(mode_of(path) & 07777, 0600);
}

/* From one folder into another, over a second link, and to a file that is not there yet. */
static void a_link_stays_and_the_file_at_its_end_is_written(void **state)
{
    char link[128], second[128], file[128], folder[128];
    strcpy(folder, in_directory("folder"));
    assert_int_equal(mkdir(folder, 0777), 0);
    snprintf(second, sizeof second, "%.100s/second", folder);
    strcpy(link, in_directory("link"));
    strcpy(file, in_directory("target"));
    assert_int_equal(symlink("folder/second", link), 0);
    assert_int_equal(symlink("../target", second), 0);
    assert_int_equal(write_text(link, "first"), STATUS_OK);
    expect_text(file, "first");
    assert_int_equal(write_text(link, "again"), STATUS_OK);
    expect_text(file, "again");
    assert_true(S_ISLNK(mode_of(link)) && S_ISLNK(mode_of(second)));
    assert_int_equal(unlink(second), 0);
    assert_int_equal(symlink("../link", second), 0);
    assert_int_equal(write_text(link, "circle"), STATUS_IO);
    assert_int_equal(unlink(second), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(unlink(link), 0);
}

/* As root, renaming would take the device away from all programs. */
static void a_device_is_written_into_and_stays(void **state)
{
    char link[128];
    strcpy(link, in_directory("null"));
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(write_text(link, "nothing"), STATUS_OK);
    assert_true(S_ISLNK(mode_of(link)));
    assert_true(S_ISCHR(mode_of("/dev/null")));
    assert_int_equal(unlink(link), 0);
}

/* What goes wrong in between must not take the name of the first failure. */
static void the_first_cause_of_a_failure_is_reported(void **state)
{
    struct file_out out = {0};
    assert_int_equal(file_create("/dev/full", &out), STATUS_OK);
    for (int i = 0; i < 10000; i++)
        fputs("more than a buffer holds ", out.stream);
    fputs("\n", out.stream);
    assert_true(ferror(out.stream));
    assert_int_equal(close(-1), -1); /* errno is EBADF */
    assert_int_equal(file_commit(&out), STATUS_IO);
    assert_message(error_message(), "/dev/full: No space left on device");
}

static void a_pipe_is_written_into_and_stays(void **state)
{
    char path[128], got[8] = "";
    strcpy(path, in_directory("pipe"));
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR); /* so that neither end waits for the other */
    assert_true(fd >= 0);
    assert_int_equal(file_try(path), STATUS_OK);
    assert_int_equal(write_text(path, "through"), STATUS_OK);
    assert_int_equal(read(fd, got, sizeof got), 7);
    assert_memory_equal(got, "through", 7);
    assert_true(S_ISFIFO(mode_of(path)));
    close(fd);
    assert_int_equal(unlink(path), 0);
}

static void directories_and_sockets_are_refused(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", in_directory("socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(write_text(at.sun_path, "x"), STATUS_IO);
    assert_message(error_message(), "is a socket");
    assert_int_equal(file_try(at.sun_path), STATUS_IO);
    assert_true(S_ISSOCK(mode_of(at.sun_path)));
    close(fd);
    assert_int_equal(unlink(at.sun_path), 0);
    assert_int_equal(write_text(directory, "x"), STATUS_IO);
    assert_message(error_message(), "is a directory");
    assert_int_equal(file_try(directory), STATUS_IO);
    assert_int_equal(write_text("", "x"), STATUS_IO);
}

/* Standard output that goes into a file: what is there already stays, as does what follows. */
static void standard_output_is_no_file_to_replace(void **state)
{
    char path[128];
    strcpy(path, in_directory("printed"));
    fflush(stdout);
    int before = dup(STDOUT_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    printf("first ");
    enum status st = write_text("/dev/stdout", "second ");
    enum status named = write_text(path, "third ");
    printf("fourth");
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(fd);
    assert_int_equal(st, STATUS_OK);
    assert_int_equal(named, STATUS_OK);
    expect_text(path, "first second third fourth");
}

static void a_file_beside_replaces_only_what_was_made_here(void **state)
{
    struct file_out out = {0};
    char path[128];
    strcpy(path, in_directory("beside"));
    put_text(path, "of somebody else\n");
    assert_int_equal(file_create_beside(path, "# made here", &out), STATUS_IO);
    assert_message(error_message(), "not written by foreline");
    expect_text(path, "of somebody else\n");
    static const char *const ours[] = {"", "# made here, yesterday\n"};
    for (size_t i = 0; i < 2; i++) {
        put_text(path, ours[i]);
        assert_int_equal(file_create_beside(path, "# made here", &out), STATUS_OK);
        fputs("new", out.stream);
        assert_int_equal(file_commit(&out), STATUS_OK);
        expect_text(path, "new");
    }
    assert_int_equal(file_create_beside(directory, "# made here", &out), STATUS_IO);
}

static void a_name_is_tried_without_a_trace(void **state)
{
    char path[128], command[160];
    strcpy(path, in_directory("tried"));
    assert_int_equal(file_try(path), STATUS_OK);
    assert_int_equal(file_try("/nonexistent/dir/file"), STATUS_IO);
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep tried)\"", directory);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_replaced_keeps_its_permissions),
        cmocka_unit_test(a_link_stays_and_the_file_at_its_end_is_written),
        cmocka_unit_test(a_device_is_written_into_and_stays),
        cmocka_unit_test(the_first_cause_of_a_failure_is_reported),
        cmocka_unit_test(a_pipe_is_written_into_and_stays),
        cmocka_unit_test(directories_and_sockets_are_refused),
        cmocka_unit_test(standard_output_is_no_file_to_replace),
        cmocka_unit_test(a_file_beside_replaces_only_what_was_made_here),
        cmocka_unit_test(a_name_is_tried_without_a_trace),
    };
    return cmocka_run_group_tests_name("file_out", tests, set_up, tear_down);
}
