/* Reasons of refused plans are counted, whatever numbers and names are in them. */
#include "study/refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"

/* By hand: one counter for each reason. */
static void the_most_frequent_reason_is_named(void **state)
{
    enum { KINDS = 5, TRIALS = 200 };
    static const char *const kind[KINDS] = {"stage %d has %d ops", "op '%d' of stage %d",
                                            "no 'x%d' beside %d", "%d", "%d of %d"};
    (void)state;
    srand(1);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct refusals r = {0};
        size_t count[KINDS] = {0}, order[KINDS] = {0}, most = 0;
        size_t n = (size_t)rand() % 60;
        for (size_t i = 0; i < n; i++) {
            char text[64];
            size_t k = (size_t)rand() % KINDS;
            snprintf(text, sizeof text, kind[k], rand() % 1000, rand() % 1000);
            refusals_add(&r, text);
            order[k] = count[k]++ ? order[k] : i;
        }
        for (size_t k = 1; k < KINDS; k++)
            if (count[k] > count[most] || (count[k] == count[most] && order[k] < order[most]))
                most = k;
        char words[REFUSALS_WORDS], counts[64];
        refusals_most(&r, words);
        snprintf(counts, sizeof counts, " (%zu of %zu refused plans)", count[most], n);
        assert_true(n == 0 ? !*words : strstr(words, counts) != NULL);
    }
}

static void more_reasons_than_there_is_room_for_are_counted(void **state)
{
    struct refusals r = {0};
    char text[] = "a reason   ", words[REFUSALS_WORDS];
    (void)state;
    for (int i = 0; i < 2 * REFUSAL_REASONS; i++) {
        text[strlen(text) - 1] = (char)('a' + i % 26);
        text[strlen(text) - 2] = (char)('a' + i / 26);
        refusals_add(&r, text);
    }
    refusals_add(&r, "a reason aa");
    assert_int_equal(r.reasons, REFUSAL_REASONS);
    assert_non_null(strstr(refusals_most(&r, words), "(2 of 65 refused plans)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_reason_is_named),
        cmocka_unit_test(more_reasons_than_there_is_room_for_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
