/* What files seem to be that readers of another kind are given. */
#include "core/base/looks.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

static void names_what_foreline_reads_and_writes(void **state)
{
    static const char *const cases[][2] = {
        {"{\"format\": \"foreline-plan\", \"version\": 1}", "looks foreline-plan"},
        {"  {\n \"format\":\"foreline-program\"", "looks foreline-program"},
        {"{\"traceEvents\": []}", "looks --trace wrote"},
        {"<?xml version='1.0'?>\n<!-- <svg> --><platform version=\"4.1\">",
         "; looks like a platform (XML)"},
        {"<a/>", "; it looks like XML"},
        {"# why?\n\nmodel: gpt-tiny\n", "looks experiment YAML"},
        {"SQLite format 3", "database sweep wrote"},
        {"{}", ""},
        {"[1, 2]", ""},
        {"", ""},
        {"#", ""},
        {"words", ""},
        {"{\"format\": \"foreline-\"}", ""},
        {"{\"format\": \"foreline-"
         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
         "looks foreline-abcdefghijklmnopqrst"},
    };
    char out[LOOKS];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (*cases[i][1])
            assert_message(looks_like(cases[i][0], strlen(cases[i][0]), out), cases[i][1]);
        else
            assert_string_equal(looks_like(cases[i][0], strlen(cases[i][0]), out), "");
}

/* No NUL behind the text, and none of it beyond what is looked at. */
static void reads_no_further_than_its_length(void **state)
{
    enum { LARGE = 1 << 17 };
    char out[LOOKS], *text = malloc(LARGE);
    (void)state;
    assert_non_null(text);
    memset(text, 'x', LARGE);
    for (size_t n = LARGE - 8; n <= LARGE; n++)
        assert_string_equal(looks_like(text + LARGE - n, n, out), "");
    memset(text, ' ', LARGE);
    text[LARGE - 1] = '<';
    assert_string_equal(looks_like(text, LARGE, out), "");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_foreline_reads_and_writes),
        cmocka_unit_test(reads_no_further_than_its_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
