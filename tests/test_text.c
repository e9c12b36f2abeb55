/* text: letters, columns and what fits into so many, against a slow truth on random bytes. */
#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

static const char *shorten(const char *text, size_t columns)
{
    static char out[512];
    return text_shorten(text, columns, out, sizeof out);
}

static void letters_are_counted_as_they_are_shown(void **state)
{
    assert_int_equal(text_columns(""), 0);
    assert_int_equal(text_columns("Größe"), 5);
    assert_int_equal(text_columns("計画"), 4);
    assert_int_equal(text_columns("e\xcc\x81"), 1);        /* a mark over the letter before */
    assert_int_equal(text_columns("\xf0\x9f\x9a\x80"), 2); /* a rocket */
    assert_int_equal(text_columns("a\xff\xc3"), 3);        /* no letters: "?" each */
    assert_int_equal(text_columns("\xc0\x80\xed\xa0\x80"),
                     5); /* longer than need be; a surrogate */
}

static void what_is_too_long_loses_its_middle(void **state)
{
    assert_string_equal(shorten("stage", 5), "stage");
    assert_string_equal(shorten("transformer.h.11.attn", 11), "trans….attn");
    assert_string_equal(shorten("計画二流水線", 7), "計…線"); /* 2 of 3 columns twice */
    assert_string_equal(shorten("abc", 1), "…");
    assert_string_equal(shorten("a\tb\x7f"
                                "c\xff",
                                9),
                        "a b c?");
    char small[6];
    assert_string_equal(text_shorten("ab計画", 9, small, sizeof small), "ab計");
}

/* Valid UTF-8, by the table of the Unicode standard (3-7), written down again. */
static size_t valid(const unsigned char *b)
{
    size_t n = b[0] < 0x80                   ? 1
               : b[0] >= 0xc2 && b[0] < 0xe0 ? 2
               : b[0] >= 0xe0 && b[0] < 0xf0 ? 3
               : b[0] >= 0xf0 && b[0] < 0xf5 ? 4
                                             : 0;
    unsigned low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    for (size_t k = 1; k < n; k++, low = 0x80, high = 0xbf)
        if (b[k] < low || b[k] > high)
            return 0;
    return n;
}

/* What comes out is UTF-8 without control characters, fits, and is the text itself where that
 * does. */
static void random_bytes_are_shown_within_their_columns(void **state)
{
    static const char *const part[] = {"a", "é", "計", "\xcc\x81", "\xff", "\xe2\x80", "\n", "🚀"};
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        uint64_t r = seed;
        char text[128] = "", out[128];
        for (size_t k = (random_next(&r) % (20)); k > 0; k--)
            strcat(text, part[(random_next(&r) % (8))]);
        size_t columns = 1 + (random_next(&r) % (24)), size = 1 + (random_next(&r) % (sizeof out));
        text_shorten(text, columns, out, size);
        assert_true(strlen(out) < size);
        for (const unsigned char *at = (const unsigned char *)out; *at;) {
            size_t n = valid(at);
            assert_true(n > 0 && *at >= 0x20 && *at != 0x7f);
            at += n;
        }
        if (size == sizeof out && text_columns(text) <= columns)
            assert_int_equal(text_columns(out), text_columns(text));
        assert_true(text_columns(out) <= columns);
    }
}

static void formulas_of_spreadsheets_are_guarded(void **state)
{
    static const struct {
        const char *text, *cell;
    } all[] = {{"=1+1", "'=1+1"},
               {"@SUM(A1)", "'@SUM(A1)"},
               {"-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"},
               {"+x", "'+x"},
               {"-1.5", "-1.5"},
               {"+2e3", "+2e3"},
               {"-", "-"},
               {"", ""},
               {"a=b", "a=b"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *cell = NULL;
        size_t n;
        FILE *to = open_memstream(&cell, &n);
        text_put_guard(to, all[i].text);
        fputs(all[i].text, to);
        fclose(to);
        assert_string_equal(cell, all[i].cell);
        assert_string_equal(text_unguarded(cell), all[i].text);
        free(cell);
    }
    assert_string_equal(text_unguarded("'a'"), "'a'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_are_counted_as_they_are_shown),
        cmocka_unit_test(what_is_too_long_loses_its_middle),
        cmocka_unit_test(random_bytes_are_shown_within_their_columns),
        cmocka_unit_test(formulas_of_spreadsheets_are_guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
