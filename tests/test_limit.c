/* Limits: what a text changes, what it must not be, and the table of the documentation. */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "tests/cmocka.h"

static void a_text_changes_those_that_it_names(void **state)
{
    assert_int_equal(limits_set(NULL), STATUS_OK);
    assert_null(getenv(limits_variable));
    assert_true(limit(LIMIT_start) == 20 && limit_platform(1024) == 1024);
    assert_int_equal(limits_set("start=1min,platform=0.5,start=250ms"), STATUS_OK);
    assert_true(limit(LIMIT_start) == 0.25 && limit_platform(1024) == 512);
    assert_true(limit_wait(WAIT_STOPPED) == 3 && limit_bytes(1.5) == 3 << 19);
    assert_string_equal(getenv(limits_variable), "platform=0.5,start=0.25s");
    assert_int_equal(limits_set("start=20s,platform=1"), STATUS_OK);
    assert_null(getenv(limits_variable));
    setenv(limits_variable, "platform=0.5,start=0.25s", 1); /* of a parent that had others */
    assert_int_equal(limits_inherit(), STATUS_OK);
    assert_true(limit(LIMIT_start) == 0.25 && limit_platform(1024) == 512);
    unsetenv(limits_variable);
    assert_int_equal(limits_set("start=20s,platform=1"), STATUS_OK);
}

static void what_is_malformed_changes_nothing(void **state)
{
    static const char *const tries[][2] = {
        {"", "expected NAME=VALUE"},
        {",", "expected NAME=VALUE"},
        {"star=3s", "did you mean"},
        {"start", "expected start=20s"},
        {"start=", "start: time"},
        {"start=3", "unit missing"},
        {"start=0s", "more than 0"},
        {"start=1e7s", "at most 1e+06 s"},
        {"start=nan", "start: 'nan' time"},
        {"platform=-1", "expected a number"},
        {"platform=0", "expected a number above 0"},
        {"cache=-1", "of at least 0"},
        {"wait=x", "wait number"},
        {"platform=1048577", "at most 1048576"},
        {"exit=1s,platform=x", "platform: "},
    };
    char large[1100];
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        assert_int_equal(limits_check(tries[k][0]), STATUS_USAGE);
        assert_int_equal(limits_set(tries[k][0]), STATUS_USAGE);
        if (!message_says(error_message(), tries[k][1]))
            fail_msg("'%s' does not say '%s'", error_message(), tries[k][1]);
    }
    memset(large, 'a', sizeof large);
    large[sizeof large - 1] = '\0';
    assert_int_equal(limits_set(large), STATUS_USAGE);
    assert_true(limit(LIMIT_exit) == 30 && limit(LIMIT_start) == 20);
    assert_null(getenv(limits_variable));
    setenv(limits_variable, "platform", 1);
    assert_int_equal(limits_inherit(), STATUS_USAGE);
    assert_message(error_message(), "FORELINE_LIMITS: platform");
    unsetenv(limits_variable);
}

/* Of a command that is told the standard again, where the environment says something else. */
static void the_environment_says_what_counts(void **state)
{
    setenv(limits_variable, "start=60s", 1);
    assert_int_equal(limits_inherit(), STATUS_OK);
    assert_int_equal(limits_set("start=20s"), STATUS_OK);
    assert_null(getenv(limits_variable));
}

static void the_documentation_has_the_table(void **state)
{
    char *text, row[LIMIT_ROW];
    size_t length;
    assert_int_equal(file_read(SOURCE_DIR "/docs/limits.md", &text, &length), STATUS_OK);
    for (size_t i = 0; i < LIMITS; i++)
        if (!strstr(text, limit_row(i, row)))
            fail_msg("docs/limits.md lacks: %s", row);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_changes_those_that_it_names),
        cmocka_unit_test(what_is_malformed_changes_nothing),
        cmocka_unit_test(the_environment_says_what_counts),
        cmocka_unit_test(the_documentation_has_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
