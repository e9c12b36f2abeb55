/* What tests take for said, and what not: the words in order, each by itself. */
#include "cmocka.h"

static const char message[] =
    "x.xml:3: link 'up': bandwidth is -2.5, expected 0 to 10 (--limit a=14)";

static void words_in_order_are_said(void **state)
{
    (void)state;
    assert_true(message_says(message, ""));
    assert_true(message_says(message, "x.xml:3 'up' bandwidth -2.5 0 10 --limit a=14"));
    assert_true(message_says(message, "link expected"));
    assert_false(message_says(message, "expected link"));
    assert_false(message_says(message, "bandwidth bandwidth"));
}

static void other_values_are_not_said(void **state)
{
    static const char *const other[] = {"x.xml:4", "x.xml:33", "'down'", "latency", "2.5",    "-2",
                                        "-2.55",   "1",        "100",    "limits",  "a=1",    "4",
                                        "band",    "width",    "--limi", ".5",      "xml:3 x"};
    (void)state;
    for (size_t k = 0; k < sizeof other / sizeof *other; k++)
        if (message_says(message, other[k]))
            fail_msg("'%s' is taken for said", other[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_in_order_are_said),
                                       cmocka_unit_test(other_values_are_not_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
