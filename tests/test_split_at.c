/* Cutting by hand: stages begin at the named ops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

struct fixture {
    struct model m;
    struct topology t;
};

static enum status cut(const struct fixture *f, const char *list, size_t layers, size_t stages,
                       struct plan *out)
{
    const struct partition_algorithm *manual;
    struct partition_request r = {.stages = stages,
                                  .replicas = 1,
                                  .microbatches = 4,
                                  .microbatch_size = 1,
                                  .schedule = "1f1b",
                                  .optimizer = "sgd",
                                  .model = "m",
                                  .platform = "p",
                                  .split_at = list,
                                  .layers_per_stage = layers};
    enum status st = partition_find("manual", &manual);
    return st == STATUS_OK ? partition_run(manual, &f->m, &f->t, &r, out) : st;
}

static enum status split(const struct fixture *f, const char *list, size_t stages, struct plan *out)
{
    return cut(f, list, 0, stages, out);
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){sample_chain(12, 1e-3, 2e-3, 1000, 1000), sample_clique(4, 1e-6, 1e9)};
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    model_free(&f->m);
    topology_free(&f->t);
    return 0;
}

static void stages_begin_at_the_named_ops_in_any_order(void **state)
{
    const struct fixture *f = *state;
    char list[64];
    struct plan p = {0};
    strcpy(list, f->m.op[9].name);
    strcat(strcat(list, ","), f->m.op[2].name);
    assert_int_equal(partition_split_stages(list), 3);
    assert_int_equal(split(f, list, 3, &p), STATUS_OK);
    assert_int_equal(p.stages, 3);
    assert_int_equal(p.stage[0].ops, 2);
    assert_int_equal(p.stage[1].ops, 7);
    assert_int_equal(p.stage[2].op[0], 9);
    assert_true(isnan(p.objective_s));
    plan_free(&p);
}

static void assert_refused(const struct fixture *f, const char *list, size_t stages,
                           const char *what)
{
    struct plan p = {0};
    assert_int_equal(split(f, list, stages, &p), STATUS_USAGE);
    if (!message_says(error_message(), what))
        fail_msg("%s: %s", list ? list : "nothing", error_message());
}

static void lists_that_make_no_sense_are_refused(void **state)
{
    const struct fixture *f = *state;
    const char *first = f->m.op[0].name, *third = f->m.op[2].name;
    char twice[64];
    strcpy(twice, third);
    strcat(strcat(twice, ","), third);
    assert_refused(f, NULL, 2, "0 layers 2");
    assert_refused(f, first, 2, "is the first op");
    assert_refused(f, twice, 3, "twice");
    assert_refused(f, third, 3, "the splits make 2");
    assert_refused(f, "", 2, "empty");
    assert_refused(f, ",", 3, "empty");
}

static void an_unknown_op_gets_the_nearest_name(void **state)
{
    struct fixture *f = *state;
    struct model m = sample_chain(3, 1e-3, 1e-3, 0, 0);
    static const char *const name[] = {"embedding", "linear1", "linear2"};
    struct model kept = f->m;
    for (size_t i = 0; i < 3; i++) {
        free(m.op[i].name);
        m.op[i].name = strdup(name[i]);
        m.op[i].block = 0;
        assert_non_null(m.op[i].name);
    }
    f->m = m;
    assert_refused(f, "linear", 2, "did you mean 'linear1'?");
    assert_refused(f, "embeding", 2, "did you mean 'embedding'?");
    assert_refused(f, "xyz", 2, "foreline model show");
    assert_false(message_says(error_message(), "did you mean"));
    f->m = kept;
    model_free(&m);
}

/* Five layers of two ops between two ops of none: by default as many as layers / stages. */
static void stages_begin_at_every_so_many_layers(void **state)
{
    static const struct {
        size_t stages, layers, first[4];
    } good[] = {{2, 0, {0, 5}}, {3, 0, {0, 3, 5}}, {3, 2, {0, 5, 9}}, {2, 4, {0, 9}}, {1, 0, {0}}};
    const struct fixture *chain = *state;
    struct fixture f = {sample_chain(12, 1e-3, 2e-3, 1000, 1000), chain->t};
    struct plan p = {0};
    for (size_t i = 1; i < 11; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%zu.%c", (i - 1) / 2, i % 2 ? 'a' : 'b');
        free(f.m.op[i].name);
        f.m.op[i].name = strdup(name);
        f.m.op[i].block = 0;
        assert_non_null(f.m.op[i].name);
    }
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        assert_int_equal(cut(&f, NULL, good[k].layers, good[k].stages, &p), STATUS_OK);
        for (size_t s = 0; s < good[k].stages; s++)
            assert_int_equal(p.stage[s].op[0], good[k].first[s]);
        plan_free(&p);
    }
    assert_int_equal(cut(&f, NULL, 2, 4, &p), STATUS_USAGE);
    assert_message(error_message(), "5 layers 4 2");
    model_free(&f.m);
}

/* Layers of an op each between an embedding and a head: where these make slots equal, a stage has
 * equally many ops. */
static void embedding_and_head_are_slots_where_layers_alone_do_not_divide(void **state)
{
    enum { MOST = 70 };
    struct fixture f = {{0}, sample_clique(MOST, 1e-6, 1e9)};
    size_t equal = 0;
    for (size_t layers = 2; layers <= MOST; layers++) {
        f.m = sample_chain(layers + 2, 1e-3, 2e-3, 1000, 1000);
        for (size_t i = 1; i <= layers; i++) {
            char name[16];
            snprintf(name, sizeof name, "h%zu.a", i - 1);
            free(f.m.op[i].name);
            f.m.op[i].name = strdup(name);
            f.m.op[i].block = 0;
            assert_non_null(f.m.op[i].name);
        }
        for (size_t stages = 2; stages < layers; stages++) {
            struct plan p = {0};
            bool slots = layers % stages > 0 && (layers + 2) % stages == 0;
            assert_int_equal(cut(&f, NULL, 0, stages, &p), STATUS_OK);
            for (size_t s = 0; s < stages; s++) {
                size_t ends = (s == 0 ? 1U : 0U) + (s + 1 == stages ? 1U : 0U),
                       each = layers / stages, rest = s + 1 == stages ? layers % stages : 0;
                assert_int_equal(p.stage[s].ops,
                                 slots ? (layers + 2) / stages : each + rest + ends);
            }
            equal += slots;
            plan_free(&p);
        }
        model_free(&f.m);
    }
    assert_true(equal > MOST);
    topology_free(&f.t);
}

static void survives_every_failing_allocation(void **state)
{
    const struct fixture *f = *state;
    struct plan p = {0};
    FOR_EACH_ALLOC_FAILURE(split(f, f->m.op[5].name, 2, &p))
    assert_int_equal(p.stage[1].op[0], 5);
    plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_begin_at_the_named_ops_in_any_order),
        cmocka_unit_test(lists_that_make_no_sense_are_refused),
        cmocka_unit_test(an_unknown_op_gets_the_nearest_name),
        cmocka_unit_test(stages_begin_at_every_so_many_layers),
        cmocka_unit_test(embedding_and_head_are_slots_where_layers_alone_do_not_divide),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
