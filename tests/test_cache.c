/* The cache of generated platforms: what it keeps, for how long, and that nothing needs it. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "topologies/cache.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static char base[] = "/tmp/test-cache-XXXXXX", xdg[64], platforms[96];

static int enter(void **state)
{
    if (!mkdtemp(base))
        return -1;
    snprintf(xdg, sizeof xdg, "%s/xdg", base);
    snprintf(platforms, sizeof platforms, "%s/foreline/platforms", xdg);
    return mkdir(xdg, 0700) || setenv("XDG_CACHE_HOME", xdg, 1) || unsetenv("HOME") ||
           setenv("TMPDIR", base, 1);
}

static int remove_one(const char *path, const struct stat *s, int what, struct FTW *ftw)
{
    return remove(path);
}

static int leave(void **state)
{
    return nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static char *put(const char *name, const char *text, size_t n)
{
    char *path = NULL;
    if (cache_file(name, text, n, &path) != STATUS_OK)
        fail_msg("%s", error_message());
    return path;
}

static size_t count(const char *folder, const char *begins)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        n += !strncmp(e->d_name, begins, strlen(begins));
    if (d)
        closedir(d);
    return n;
}

static void the_same_text_is_one_file_and_another_text_another(void **state)
{
    char *a = put("x", "one", 3), *b = put("x", "one", 3), *c = put("x", "two", 3);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    assert_memory_equal(a, platforms, strlen(platforms));
    free(a);
    free(b);
    free(c);
}

static void a_long_name_is_cut(void **state)
{
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    char *path = put(name, "text", 4);
    assert_int_equal(access(path, R_OK), 0);
    free(path);
}

/* Each in a child, so that nobody uses it any more. */
static void fill(size_t files, size_t bytes, char mark)
{
    char *text = malloc(bytes), name[32];
    assert_non_null(text);
    memset(text, mark, bytes);
    for (size_t i = 0; i < files; i++) {
        int how = -1;
        char *path = NULL;
        snprintf(name, sizeof name, "fill%c%zu", mark, i);
        memcpy(text, name, strlen(name));
        pid_t child = fork();
        if (child == 0)
            _exit(cache_file(name, text, bytes, &path) != STATUS_OK);
        waitpid(child, &how, 0);
        assert_int_equal(how, 0);
    }
    free(text);
}

static void what_was_used_longest_ago_goes_and_only_what_is_ours(void **state)
{
    enum { MIB = 1 << 20 };
    char kept[160], foreign[160], forged[160];
    assert_int_equal(limits_set("cache=4"), STATUS_OK);
    fill(3, MIB, 'a');
    snprintf(foreign, sizeof foreign, "%s/notes.xml", platforms);
    snprintf(forged, sizeof forged, "%s/notes-0123456789abcdef.xml", platforms);
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(k ? forged : foreign, "w");
        assert_non_null(f);
        fputs("mine", f);
        fclose(f);
    }
    char *text = calloc(1, MIB);
    assert_non_null(text);
    char *used = put("used", text, MIB); /* by this process, as long as it lives */
    snprintf(kept, sizeof kept, "%s", used);
    fill(6, MIB, 'b');
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(access(foreign, F_OK), 0);
    assert_int_equal(access(forged, F_OK), 0);
    assert_int_equal(count(platforms, "filla"), 0);
    size_t left = count(platforms, "fillb");
    assert_in_range(left, 2, 3); /* of 4 MiB, one is in use */
    free(used);
    free(text);
    assert_int_equal(limits_set("cache=256"), STATUS_OK);
}

/* Whoever has no cache works all the same, and leaves nothing. */
static void without(const char *variable, const char *value, const char *limits)
{
    int how = -1;
    pid_t child = fork();
    if (child == 0) {
        char *path = NULL, text[16] = "";
        setenv("XDG_CACHE_HOME", "/dev/null/x", 1);
        setenv(variable, value, 1);
        if (limits_set(limits) != STATUS_OK || cache_file("x", "other", 5, &path) != STATUS_OK)
            _exit(1);
        FILE *f = fopen(path, "r");
        if (!f || !fgets(text, sizeof text, f) || strcmp(text, "other") != 0 ||
            count(base, "foreline-tmp-") != 1 || count(platforms, "x-") != 2)
            _exit(2);
        exit(0);
    }
    waitpid(child, &how, 0);
    assert_int_equal(how, 0);
    assert_int_equal(count(base, "foreline-tmp-"), 0);
}

static void its_absence_is_no_error(void **state)
{
    without("HOME", "/dev/null", "cache=256");
    without("HOME", "/proc", "cache=256");
    without("XDG_CACHE_HOME", xdg, "cache=0");
}

static enum status once(void)
{
    char *path = NULL;
    enum status st = cache_file("faults", "text of it", 10, &path);
    free(path);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(once());
    FOR_EACH_ALLOC_FAILURE(once());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_text_is_one_file_and_another_text_another),
        cmocka_unit_test(its_absence_is_no_error),
        cmocka_unit_test(a_long_name_is_cut),
        cmocka_unit_test(what_was_used_longest_ago_goes_and_only_what_is_ours),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
