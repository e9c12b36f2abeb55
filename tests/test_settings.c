/* settings: the table is well-formed, names get the nearest known one, and every constraint on a
 * plan is kept or refused by every algorithm. */
#include "study/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "study/planning.h"
#include "tests/cmocka.h"

/* ---- the table */

/* Of every row, with "_" for "-" and two letters swapped: it is found, and it is the hint. */
static void keys_may_have_underscores_and_hints_know_aliases(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_table_n; i++) {
        char key[64];
        const struct setting *s = &settings_table[i];
        snprintf(key, sizeof key, "%s", s->name);
        for (char *at = key; *at; at++)
            *at = *at == '-' ? '_' : *at;
        assert_ptr_equal(setting_find(key, s->takers), setting_find(s->name, s->takers));
    }
    const taker_set plan = settings_takers("plan"), run = settings_takers("run");
    static const char *const alias[][3] = {
        {"tp", "tensor-paralel-size", "tensor-parallel"},
        {"pp", "ppp", "pp"},
        {"dp", "dpx", "dp"},
        {"cp", "cpp", "context-parallel"},
        {"ep", "epp", "expert-parallel"},
        {"gbs", "gbss", "gbs"},
        {"global_batch_size", "global-batch-sise", "global-batch-size"}};
    for (size_t i = 0; i < sizeof alias / sizeof *alias; i++) {
        assert_non_null(setting_find(alias[i][0], plan));
        assert_null(setting_find(alias[i][0], run));
        assert_string_equal(setting_nearest(alias[i][1], plan), alias[i][2]);
    }
    assert_non_null(setting_find("dp", settings_takers("validate")));
}

static void no_taker_has_two_rows_of_one_name(void **state)
{
    assert_true(settings_table_n <= SETTINGS_MOST);
    for (size_t i = 0; i < settings_table_n; i++)
        for (size_t k = i + 1; k < settings_table_n; k++)
            if (!strcmp(settings_table[i].name, settings_table[k].name) &&
                (settings_table[i].takers & settings_table[k].takers))
                fail_msg("%s: rows %zu and %zu", settings_table[i].name, i, k);
}

static void every_default_is_a_value(void **state)
{
    for (size_t i = 0; i < settings_table_n; i++) {
        const struct setting *s = &settings_table[i];
        struct arguments a = {0};
        assert_true(s->takers != 0 && s->help && (s->unit || s->type == SETTING_FLAG));
        if (s->standard && setting_set(s, s->standard, &a) != STATUS_OK)
            fail_msg("%s: %s", s->name, error_message());
    }
}

static void counts_may_have_decimal_prefixes(void **state)
{
    static const struct {
        const char *text;
        size_t value;
    } cases[] = {{"128K", 128000}, {"2M", 2000000}, {"1.5k", 1500}, {"1e3", 1000}, {"4Ki", 4096}};
    static const char *const wrong[] = {"1.5", "128KB", "K", "1e-3", "2m", "-1K", "0x10", "1e300"};
    const struct setting *batch = setting_find("batch", settings_takers("plan"));
    const struct setting *tokens = setting_find("train-tokens", settings_takers("plan"));
    struct arguments a = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(setting_set(batch, cases[i].text, &a), STATUS_OK);
        assert_int_equal(a.batch, cases[i].value);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (setting_set(batch, wrong[i], &a) == STATUS_OK)
            fail_msg("%s is %zu", wrong[i], a.batch);
    assert_int_equal(setting_set(tokens, "1.5T", &a), STATUS_OK);
    assert_true(a.train_tokens == 1.5e12);
    assert_int_equal(setting_set(tokens, "1TB", &a), STATUS_USAGE);
    assert_message(error_message(), "'1TB' a 1e12 1T");
}

static void values_out_of_range_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"stages", "0"},     {"stages", "two"},        {"stages", "-1"},      {"stages", "1.5"},
        {"zero", "4"},       {"recompute", "some"},    {"optimizer", "adma"}, {"schedule", "2f2b"},
        {"executable", "1"}, {"replicas", "10000001"}, {"bucket", "large"},   {"time-limit", "5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct arguments a = {0};
        assert_int_equal(arguments_set(&a, TAKES(KEY_PLAN), wrong[i][0], wrong[i][1]),
                         STATUS_USAGE);
        assert_true(strstr(error_message(), wrong[i][0]) == error_message());
        assert_false(arguments_given(&a, wrong[i][0]));
    }
}

/* ---- names */

static void the_nearest_name_is_offered(void **state)
{
    struct arguments a = {0};
    assert_int_equal(arguments_set(&a, TAKES(KEY_PLAN), "microbatches", "90M"), STATUS_USAGE);
    assert_message(error_message(), "90M 10000000"); /* as it was typed */
    assert_int_equal(arguments_set(&a, TAKES(KEY_POINT) | TAKES(KEY_PLAN), "plan.stagse", "2"),
                     STATUS_USAGE);
    assert_message(error_message(), "did you mean 'stages'?");
    assert_int_equal(arguments_set(&a, TAKES(KEY_POINT), "engnie", "simgrid"), STATUS_USAGE);
    assert_message(error_message(), "did you mean 'engine'?");
    assert_int_equal(arguments_set(&a, TAKES(KEY_POINT), "colour", "red"), STATUS_USAGE);
    assert_false(message_says(error_message(), "did you mean"));
    assert_int_equal(arguments_set(&a, TAKES(KEY_POINT), "engine", "simgird"), STATUS_USAGE);
    assert_message(error_message(), "did you mean 'simgrid'?");
}

static void distances_are_those_worked_by_hand(void **state)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {{"stages", "stages", 0},  {"stagse", "stages", 1}, {"", "abc", 3},
                 {"kitten", "sitting", 3}, {"a", "b", 1},           {"abcd", "acbd", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t best = cases[i].distance;
        if (cases[i].distance < strlen(cases[i].b)) {
            assert_false(text_is_nearer(cases[i].a, cases[i].b, &best));
            best++;
            assert_true(text_is_nearer(cases[i].a, cases[i].b, &best));
        }
        assert_int_equal(best, cases[i].distance);
    }
}

/* ---- constraints */

struct world {
    struct model model;
    struct topology topology;
    char *platform;
    size_t kept, refused;
};

static int open_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    *state = w;
    return !w || load_model("gpt-tiny", &w->model) != STATUS_OK ||
           load_topology("laptop", &w->topology, &w->platform) != STATUS_OK;
}

static int close_world(void **state)
{
    struct world *w = *state;
    model_free(&w->model);
    topology_free(&w->topology);
    free(w->platform);
    free(w);
    return 0;
}

/* What a plan says about a setting, as it would be given; NULL: nothing. */
static const char *said(const struct plan *p, const char *name, char text[64])
{
    const struct plan_stage *first = &p->stage[0];
    size_t chunks = 0;
    for (size_t s = 0; s < p->stages; s++)
        chunks += p->stage[s].device[0] == first->device[0];
    const struct {
        const char *name;
        size_t value;
    } counts[] = {{"stages", p->stages},
                  {"replicas", first->replicas},
                  {"tensor-parallel", first->tensor_parallel},
                  {"expert-parallel", first->expert_parallel},
                  {"chunks", chunks},
                  {"zero", p->zero},
                  {"bucket", (size_t)p->bucket_bytes},
                  {"microbatches", p->microbatches},
                  {"microbatch-size", p->microbatch_size},
                  {"batch", (size_t)p->microbatches * p->microbatch_size},
                  {"seed", (size_t)p->seed}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(counts[i].name, name)) {
            snprintf(text, 64, "%zu", counts[i].value);
            return text;
        }
    if (!strcmp(name, "schedule"))
        return p->schedule;
    if (!strcmp(name, "optimizer"))
        return p->optimizer;
    if (!strcmp(name, "reduce-dtype"))
        return data_type_names[p->reduce_dtype];
    if (!strcmp(name, "recompute"))
        return plan_recompute_names[first->recompute];
    if (!strcmp(name, "sequence-parallel"))
        return p->sequence_parallel ? "true" : "false";
    return NULL;
}

struct wish {
    const struct setting *setting;
    const char *value;
};

/* Plan with these wishes: the plan has them, or there is one line that says why not. */
static void plan_with(struct world *w, const char *algorithm, const struct wish *wish, size_t n)
{
    char text[64];
    struct plan p = {0};
    struct arguments a = arguments_defaults(TAKES(PLAN_AUTO) | TAKES(PLAN_CUT));
    struct evaluation_context context = {.model = &w->model,
                                         .topology = &w->topology,
                                         .platform = w->platform,
                                         .engine = &engine_analytic};
    a.model = "gpt-tiny";
    a.platform = "laptop";
    a.algorithm = algorithm;
    a.search.finalists = 1;
    enum status st = STATUS_OK;
    for (size_t i = 0; i < n && st == STATUS_OK; i++)
        st = setting_set(wish[i].setting, wish[i].value, &a);
    if (st == STATUS_OK)
        st = plan_check_given(&a);
    if (st == STATUS_OK)
        st = plan_make(&a, &context, &p);
    if (st != STATUS_OK) {
        assert_true(*error_message() && !strchr(error_message(), '\n'));
        w->refused++;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *got = said(&p, wish[i].setting->name, text);
        if (got && strcmp(got, wish[i].value) != 0)
            fail_msg("%s: --%s %s became %s", algorithm, wish[i].setting->name, wish[i].value, got);
    }
    w->kept++;
    plan_free(&p);
}

enum { VALUES = 8 };

/* Values to try, texts that live as long as the table or the program. */
static size_t values_of(const struct setting *s, const char *value[VALUES])
{
    static const char *const counts[] = {"1", "2", "3", "4", "7", "16"};
    static const char *const zero[] = {"0", "1", "2", "3"};
    static const char *const recompute[] = {"none", "selective", "full"};
    size_t n = 0;
    if (!strcmp(s->name, "algorithm") || !strcmp(s->name, "split-at") ||
        !strcmp(s->name, "time-limit"))
        return 0;
    if (s->type == SETTING_FLAG)
        value[n++] = "true";
    for (size_t i = 0; s->type == SETTING_COUNT && i < 6; i++)
        value[n++] = counts[i];
    for (size_t i = 0; s->type == SETTING_NUMBER && i < 4; i++)
        value[n++] = zero[i];
    for (size_t i = 0; s->type == SETTING_WORD && s->word && i < VALUES && s->word(i); i++)
        value[n++] = s->word(i);
    for (size_t i = 0; !strcmp(s->name, "recompute") && i < 3; i++)
        value[n++] = recompute[i];
    if (!strcmp(s->name, "optimizer"))
        value[n++] = "sgd";
    if (s->type == SETTING_BYTES)
        value[n++] = "65536";
    return n;
}

static const char *algorithm_at(size_t i)
{
    return i < partition_algorithms_n ? partition_algorithms[i]->name : NULL;
}

static void every_option_is_obeyed_or_refused_by_every_algorithm(void **state)
{
    struct world *w = *state;
    const char *value[VALUES];
    for (size_t k = 0; algorithm_at(k); k++)
        for (size_t i = 0; i < settings_table_n; i++) {
            const struct setting *s = &settings_table[i];
            if (!(s->takers & TAKES(KEY_PLAN)) && strcmp(s->name, "seed") != 0)
                continue;
            if (!(s->takers & (TAKES(PLAN_AUTO) | TAKES(PLAN_CUT))))
                continue;
            size_t n = values_of(s, value);
            for (size_t v = 0; v < n; v++)
                plan_with(w, algorithm_at(k), &(struct wish){s, value[v]}, 1);
        }
    print_message("%zu plans kept their option, %zu were refused\n", w->kept, w->refused);
    assert_true(w->kept > 100 && w->refused > 10);
}

static void several_options_are_obeyed_or_refused_together(void **state)
{
    struct world *w = *state;
    static const char *const names[] = {"stages",       "replicas",        "tensor-parallel",
                                        "microbatches", "microbatch-size", "batch",
                                        "schedule",     "chunks",          "zero",
                                        "recompute",    "bucket",          "optimizer"};
    const char *value[VALUES];
    uint32_t random = 1;
    for (size_t trial = 0; trial < 300; trial++) {
        struct wish wish[3];
        size_t used[3];
        for (size_t i = 0; i < 3; i++) {
            random = random * 1664525 + 1013904223;
            used[i] = (random >> 8) % (sizeof names / sizeof *names);
            wish[i].setting = setting_find(names[used[i]], TAKES(KEY_PLAN));
            size_t n = values_of(wish[i].setting, value);
            wish[i].value = value[(random >> 16) % n];
        }
        if (used[0] == used[1] || used[0] == used[2] || used[1] == used[2])
            continue;
        plan_with(w, algorithm_at(trial % partition_algorithms_n), wish, 3);
    }
    assert_true(w->kept > 20 && w->refused > 20);
}

/* As they are for --help all: a heading that stands twice would be a subject out of order. */
static void prints_each_option_once_under_headings(void **state)
{
    char *text = NULL;
    size_t length, options = 0, printed = 0;
    const taker_set takers = settings_takers("plan");
    FILE *out = open_memstream(&text, &length);
    (void)state;
    assert_non_null(out);
    settings_print(takers, out);
    fclose(out);
    for (size_t i = 0; i < settings_table_n; i++)
        options += (settings_table[i].takers & takers) != 0 && !settings_table[i].hidden;
    for (const char *at = text; (at = strstr(at, "\n  --")); at++)
        printed++;
    assert_int_equal(printed, options);
    const char *before = text;
    static const char *const heading[] = {
        "model and platform",   "parallelism", "schedule", "memory", "search",
        "published objectives", "output"};
    for (size_t i = 0; i < sizeof heading / sizeof *heading; i++) {
        char line[64];
        snprintf(line, sizeof line, "\n%s:\n", heading[i]);
        const char *at = strstr(text, line);
        assert_non_null(at);
        assert_true(at >= before);
        assert_null(strstr(at + 1, line));
        before = at;
    }
    const char *memory = strstr(text, "\nmemory:"), *search = strstr(text, "\nsearch:");
    assert_true(strstr(text, "  --recompute ") > memory && strstr(text, "  --recompute ") < search);
    assert_true(strstr(text, "  --replicas ") < memory);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_each_option_once_under_headings),
        cmocka_unit_test(no_taker_has_two_rows_of_one_name),
        cmocka_unit_test(keys_may_have_underscores_and_hints_know_aliases),
        cmocka_unit_test(every_default_is_a_value),
        cmocka_unit_test(counts_may_have_decimal_prefixes),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(the_nearest_name_is_offered),
        cmocka_unit_test(distances_are_those_worked_by_hand),
        cmocka_unit_test_setup_teardown(every_option_is_obeyed_or_refused_by_every_algorithm,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(several_options_are_obeyed_or_refused_together, open_world,
                                        close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
