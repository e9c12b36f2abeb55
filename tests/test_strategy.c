/* strategy: every row of strategy.def says what a search does about it, and every value of
 * every knob is the same again after it was written as an option or into a file. */
#include "core/strategy/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/provenance.h"
#include "core/base/text.h"
#include "core/data/plan.h"
#include "study/settings.h"
#include "tests/cmocka.h"

static uint32_t random_below(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (uint32_t)(((uint64_t)*state * n) >> 32);
}

static const taker_set plans = TAKES(PLAN_AUTO) | TAKES(PLAN_CUT);

static void every_knob_says_what_the_search_tries_or_why_nothing(void **state)
{
    for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        if (!k->searched == !k->fixed)
            fail_msg("%s: says neither or both", k->name);
        print_message("%-18s %s %s\n", k->name,
                      k->searched ? "tried:" : "as given:", k->searched ? k->searched : k->fixed);
    }
}

static void options_and_aliases_are_of_one_knob(void **state)
{
    for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        char words[128], *word[8];
        const struct setting *s = k->option ? setting_find(k->option, plans) : NULL;
        assert_true(!k->option || (s && s->knob == k && strategy_find(k->option) == k));
        snprintf(words, sizeof words, "%s", k->alias ? k->alias : "");
        size_t n = text_split(words, " ", word, 8);
        for (size_t a = 0; a < n; a++)
            if (strategy_find(word[a]) != k || setting_find(word[a], plans) != s)
                fail_msg("%s is not %s", word[a], k->name);
    }
}

/* A value that the knob may have. */
static double drawn(const struct strategy_knob *k, uint32_t *random)
{
    if (k->kind == FIELD_BOOL)
        return random_below(random, 2);
    if (k->special == STRATEGY_MODULES)
        return 1 + random_below(random, (1u << PLAN_MODULES) - 1);
    if (k->option && !strcmp(k->option, "reduce-dtype"))
        return random_below(random, 2) ? DATA_fp32 : DATA_bf16;
    if (k->word)
        return random_below(random, (uint32_t)k->words);
    double most = k->most < 1e6 ? k->most : 1e6,
           above = random_below(random, 1 << 20) / 1048576.0 * (most - k->least);
    if (k->kind == FIELD_DOUBLE)
        return k->least + above;
    return (k->kind == FIELD_INT64 ? 65536 : 1) * (k->least + floor(above));
}

static void files_keep_every_value(void **state)
{
    uint32_t random = 1;
    for (int trial = 0; trial < 100; trial++)
        for (int scope = STRATEGY_PLAN; scope <= STRATEGY_STAGE; scope++) {
            union {
                struct strategy plan;
                struct strategy_stage stage;
            } wrote = {0}, read = {0};
            struct json_row rows[STRATEGY_KNOBS + 1];
            struct json_document d = {0};
            char *text = NULL;
            size_t size;
            FILE *f = open_memstream(&text, &size);
            struct json_writer w = {.stream = f};
            read.stage =
                scope == STRATEGY_STAGE ? strategy_at_least_usual(&read.stage) : read.stage;
            wrote = read;
            for (size_t i = 0; i < STRATEGY_KNOBS; i++)
                if ((int)strategy_knobs[i].scope == scope && random_below(&random, 2))
                    strategy_put(&strategy_knobs[i], drawn(&strategy_knobs[i], &random), &wrote);
            strategy_rows((enum strategy_scope)scope, rows);
            json_put_header(&w, plan_format, PLAN_VERSION, &(struct provenance){.command = "test"});
            json_rows_write(&w, rows, &wrote);
            json_close(&w);
            fclose(f);
            assert_int_equal(json_parse("test", text, size, plan_format, PLAN_VERSION, &d),
                             STATUS_OK);
            struct json_at root = json_root(&d);
            if (json_rows_read(&root, rows, &read) != STATUS_OK)
                fail_msg("%s: %s", text, error_message());
            const struct strategy_knob *other =
                strategy_differs((enum strategy_scope)scope, UINT64_MAX, &wrote, &read);
            if (other)
                fail_msg("%s: %s differs", text, other->name);
            json_document_free(&d);
            free(text);
        }
}

/* As arguments_put() writes them for a command line. */
static void options_keep_every_value(void **state)
{
    uint32_t random = 2;
    for (int trial = 0; trial < 100; trial++)
        for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
            const struct strategy_knob *k = &strategy_knobs[i];
            struct arguments a = {0}, b = {0};
            const struct setting *s = k->option ? setting_find(k->option, plans) : NULL;
            char *text = NULL, *word[2];
            size_t size;
            FILE *f = open_memstream(&text, &size);
            double value = drawn(k, &random);
            if (s) {
                size_t row = (size_t)(s - settings_table);
                strategy_put(k, value, (char *)&a + s->offset - k->offset);
                a.given[row / 64] |= UINT64_C(1) << row % 64;
                assert_int_equal(arguments_put(&a, plans, f), STATUS_OK);
            }
            fclose(f);
            if (s) {
                int n = 1;
                word[0] = text + 1;
                if (arguments_parse(&b, plans, &n, word) != STATUS_OK || n != 0)
                    fail_msg("%s: %s", text, error_message());
                assert_true(b.chosen == UINT64_C(1) << i);
                if (strategy_get(k, (char *)&b + s->offset - k->offset) != value)
                    fail_msg("%s: not %g", text, value);
            }
            free(text);
        }
}

static void what_differs_is_named_if_it_is_in_the_set(void **state)
{
    uint32_t random = 3;
    for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        struct strategy_stage a = {0}, b = {0};
        struct strategy p = {0}, q = {0};
        const void *x = k->scope == STRATEGY_PLAN ? (void *)&p : (void *)&a;
        void *y = k->scope == STRATEGY_PLAN ? (void *)&q : (void *)&b;
        double value = 0;
        while (value == 0)
            value = drawn(k, &random);
        strategy_put(k, value, y);
        assert_ptr_equal(strategy_differs(k->scope, UINT64_MAX, x, y), k);
        assert_null(strategy_differs(k->scope, ~(UINT64_C(1) << i), x, y));
    }
}

/* Below the least, above the most; a stage's degrees must be said. */
static void what_is_out_of_range_is_named(void **state)
{
    const struct strategy none = {0};
    const struct strategy_stage usual = strategy_at_least_usual(&(struct strategy_stage){0});
    assert_null(strategy_beyond(&none, &usual));
    for (size_t i = 0; i < STRATEGY_KNOBS; i++) {
        const struct strategy_knob *k = &strategy_knobs[i];
        const bool plan = k->scope == STRATEGY_PLAN;
        const double wrong[] = {k->most + 1, k->least / 2, 0};
        const bool is_wrong[] = {k->most > 0 && k->kind != FIELD_INT64,
                                 k->least > 1 || (k->least > 0 && k->kind == FIELD_DOUBLE),
                                 k->degree && !plan};
        for (int way = 0; way < 3; way++) {
            struct strategy shared = none;
            struct strategy_stage own = usual;
            strategy_put(k, wrong[way], plan ? (void *)&shared : &own);
            if (is_wrong[way] && strategy_beyond(&shared, &own) != k)
                fail_msg("%s of %g", k->name, wrong[way]);
        }
    }
}

/* Experts, sequences and ZeRO over some of 8 replicas; all of them alike with anything else. */
static void replicas_are_in_groups_where_some_share(void **state)
{
    const struct strategy_stage all = {
        .replicas = 8, .tensor_parallel = 2, .expert_parallel = 1, .context_parallel = 1};
    struct strategy_stage experts = all, sequences = all;
    experts.expert_parallel = sequences.context_parallel = 4;
    assert_false(strategy_groups_replicas(&(struct strategy){.zero = 3, .zero_keep = true}, &all));
    assert_true(strategy_groups_replicas(&(struct strategy){.zero = 3, .zero_group = 4}, &all));
    assert_true(strategy_groups_replicas(&(struct strategy){0}, &experts));
    assert_true(strategy_groups_replicas(&(struct strategy){0}, &sequences));
    assert_int_equal(strategy_streams(&all), 8);
    assert_int_equal(strategy_streams(&sequences), 2);
    assert_int_equal(strategy_streams(&(struct strategy_stage){.replicas = 8}), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_knob_says_what_the_search_tries_or_why_nothing),
        cmocka_unit_test(options_and_aliases_are_of_one_knob),
        cmocka_unit_test(files_keep_every_value),
        cmocka_unit_test(options_keep_every_value),
        cmocka_unit_test(what_differs_is_named_if_it_is_in_the_set),
        cmocka_unit_test(what_is_out_of_range_is_named),
        cmocka_unit_test(replicas_are_in_groups_where_some_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
