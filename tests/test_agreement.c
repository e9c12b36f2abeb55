/* What ranks must have been told alike: the first setting that differs is named. */
#include "exec/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "exec/corpus.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/toy.h"

static const char program_path[] = BINARY_DIR "/test_agreement_program.json",
                  model_path[] = BINARY_DIR "/test_agreement_model.json";

struct fixture {
    struct program p;
    struct model m;
    struct agreement a;
};

static void begin(struct fixture *f)
{
    const struct provenance by = {.version = foreline_version, .command = "test"};
    toy_pipeline(&f->p, 2, 3, 1000, 1e-3, true);
    toy_model(&f->m, 2);
    assert_int_equal(program_write(&f->p, program_path, &by), STATUS_OK);
    assert_int_equal(model_write(&f->m, model_path, &by), STATUS_OK);
    f->a = (struct agreement){.program = &f->p,
                              .model = &f->m,
                              .program_path = program_path,
                              .model_path = model_path,
                              .device = "cpu",
                              .transport = "tcp",
                              .learning_rate = 0.01,
                              .steps = 3};
}

static void finish(struct fixture *f)
{
    program_free(&f->p);
    model_free(&f->m);
    unlink(program_path);
    unlink(model_path);
}

static void expect(const struct agreement *a, const char *ours, const char *message)
{
    char text[AGREEMENT];
    assert_int_equal(agreement_write(a, text), STATUS_OK);
    enum status st = agreement_check("rank 1", text, "rank 0", ours);
    assert_int_equal(st, message ? STATUS_INVALID : STATUS_OK);
    if (message)
        assert_message(error_message(), message);
}

static void the_setting_that_differs_is_named_with_both_values(void **state)
{
    struct fixture f;
    char ours[AGREEMENT];
    struct agreement a;
    begin(&f);
    assert_int_equal(agreement_write(&f.a, ours), STATUS_OK);
    a = f.a;
    a.learning_rate = 0.02;
    expect(&a, ours, "rank 1 has --learning-rate 0.02, rank 0 has 0.01");
    a.learning_rate = 0.1 + 0.2; /* differs from 0.3 in the last digit */
    expect(&a, ours, "rank 1 has --learning-rate 0.30000000000000004, rank 0 has 0.01");
    a = f.a;
    a.steps = 4;
    a.graphs = true; /* the first row that differs */
    expect(&a, ours, "rank 1 has --cuda-graphs on, rank 0 has off");
    a = f.a;
    a.device = "paced";
    expect(&a, ours, "rank 1 has --compute paced, rank 0 has real");
    a = f.a;
    a.checkpoint = "/no-such-folder/ck";
    expect(&a, ours, "rank 1 has --checkpoint /no-such-folder/ck, rank 0 has none");
    a = f.a;
    f.p.seed++;
    expect(&a, ours, "rank 1 has seed 1, rank 0 has 0");
    f.p.seed--;
    a.collective = "tree";
    expect(&a, ours, "rank 1 has --collective tree, rank 0 has ring");
    finish(&f);
}

static void spelling_makes_no_difference(void **state)
{
    struct fixture f;
    char ours[AGREEMENT];
    const struct corpus copy = *corpus_shipped();
    begin(&f);
    assert_int_equal(agreement_write(&f.a, ours), STATUS_OK);
    struct agreement a = f.a;
    a.learning_rate = strtod("1e-2", NULL);
    a.policy = "constant";
    a.collective = "auto";
    a.text = &copy;
    expect(&a, ours, NULL);
    a.collective = "ring";
    expect(&a, ours, NULL);
    finish(&f);
}

/* Whatever comes from a worker ends in a message of one printable line. */
static void what_is_no_table_is_refused(void **state)
{
    struct fixture f;
    char ours[AGREEMENT], text[AGREEMENT];
    begin(&f);
    assert_int_equal(agreement_write(&f.a, ours), STATUS_OK);
    for (int fill = 0; fill < 256; fill++) {
        memset(text, fill, sizeof text);
        assert_int_equal(agreement_check("rank 1", text, "rank 0", ours), STATUS_INVALID);
        assert_null(strchr(error_message(), '\n'));
    }
    for (size_t at = 0; at < strlen(ours); at++) { /* every letter counts */
        memcpy(text, ours, AGREEMENT);
        text[at] = 1;
        assert_int_equal(agreement_check("rank 1", text, "rank 0", ours), STATUS_INVALID);
        for (const char *c = error_message(); *c; c++)
            assert_true((unsigned char)*c >= ' ');
    }
    finish(&f);
}

static void a_failure_is_told_behind_the_table_or_alone(void **state)
{
    struct fixture f;
    char ours[AGREEMENT], text[AGREEMENT] = "";
    begin(&f);
    agreement_add_failure("no such file", text);
    assert_int_equal(agreement_write(&f.a, ours), STATUS_OK);
    assert_int_equal(agreement_check("rank 1", text, "rank 0", ours), STATUS_INVALID);
    assert_message(error_message(), "rank 1: no such file");
    memcpy(text, ours, AGREEMENT);
    agreement_add_failure("gone", text);
    assert_int_equal(agreement_check("rank 1", text, "rank 0", ours), STATUS_INVALID);
    assert_message(error_message(), "rank 1: gone");
    FOR_EACH_ALLOC_FAILURE(agreement_write(&f.a, text));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_setting_that_differs_is_named_with_both_values),
        cmocka_unit_test(spelling_makes_no_difference),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(a_failure_is_told_behind_the_table_or_alone),
    };
    return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
