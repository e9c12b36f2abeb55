/* Other programs get their words as they are and few variables, and do not take forever. */
#include "host/tool.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "tests/cmocka.h"

static void expect(const char *const *words, const char *const *variables, const char *printed)
{
    const struct tool t = {words, variables, -1, -1, -1, 20};
    char *text = NULL;
    size_t n;
    bool cut;
    int code;
    assert_int_equal(tool_text(&t, 1 << 16, &code, &text, &n, &cut), STATUS_OK);
    assert_int_equal(code, 0);
    assert_false(cut);
    assert_int_equal(n, strlen(text));
    assert_string_equal(text, printed);
    free(text);
}

static void words_arrive_as_they_are(void **state)
{
    const char *const words[] = {"printf", "%s|",      "a b", "-n", "x\ny", "$(id)",
                                 "`id`",   "';id;'\"", "*",   "",   NULL};
    expect(words, NULL, "a b|-n|x\ny|$(id)|`id`|';id;'\"|*||");
}

static void the_environment_is_not_ours(void **state)
{
    const char *const words[] = {
        "sh", "-c", "echo \"$GIT_DIR-$GIT_EXTERNAL_DIFF-$LC_ALL-$MORE-${PATH:+path}\"", NULL};
    const char *const variables[] = {"MORE=1", NULL};
    setenv("GIT_DIR", "/evil", 1);
    setenv("GIT_EXTERNAL_DIFF", "/evil", 1);
    setenv("LC_ALL", "C", 1);
    expect(words, variables, "--C.UTF-8-1-path\n");
    unsetenv("GIT_DIR");
}

static void a_program_that_hangs_is_killed(void **state)
{
    const char *const words[] = {"sleep", "60", NULL};
    const struct tool t = {words, NULL, -1, -1, -1, 0.2};
    char *text = NULL;
    size_t n;
    bool cut;
    int code;
    double began_s = clock_now();
    assert_int_equal(tool_run(&t, &code), STATUS_EXTERNAL);
    assert_message(error_message(), "sleep took longer than 0.2 s");
    assert_int_equal(tool_text(&t, 100, &code, &text, &n, &cut), STATUS_EXTERNAL);
    assert_true(clock_now() - began_s < 30);
    assert_null(text);
}

static void a_program_that_prints_forever_is_cut(void **state)
{
    const char *const words[] = {"yes", NULL};
    const struct tool t = {words, NULL, -1, -1, -1, 20};
    char *text = NULL;
    size_t n;
    bool cut;
    int code;
    assert_int_equal(tool_text(&t, 100000, &code, &text, &n, &cut), STATUS_OK);
    assert_true(cut);
    assert_int_equal(n, 100000);
    free(text);
}

static void failures_have_a_status(void **state)
{
    const char *const missing[] = {"foreline-no-such-program", NULL};
    const char *const fails[] = {"sh", "-c", "exit 3", NULL};
    const char *const dies[] = {"sh", "-c", "kill -9 $$", NULL};
    int code = 0;
    struct tool t = {missing, NULL, -1, -1, -1, 20};
    assert_int_equal(tool_run(&t, &code), STATUS_UNSUPPORTED);
    t.words = fails;
    assert_int_equal(tool_run(&t, &code), STATUS_OK);
    assert_int_equal(code, 3);
    t.words = dies;
    assert_int_equal(tool_run(&t, &code), STATUS_OK);
    assert_int_equal(code, 137);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_arrive_as_they_are),
        cmocka_unit_test(the_environment_is_not_ours),
        cmocka_unit_test(a_program_that_hangs_is_killed),
        cmocka_unit_test(a_program_that_prints_forever_is_cut),
        cmocka_unit_test(failures_have_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
