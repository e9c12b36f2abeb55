/* Encoders that share layers, pool their first token or are put together otherwise, and a network
 * that makes images, trained to the parameters of one process however they are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/import.h"
#include "tests/trained.h"

static const char unet[] = "unet:side=32,width=4,groups=2,classes=256";

/* Every stage has a copy of the layer, and gradients are summed over all its uses: stage by stage,
 * which regroups the sum. */
static void shared_layers_train_as_one_process(void **state)
{
    (void)state;
    static const char *const how[] = {"pp=2",       "pp=4",      "pp=4 gpipe",  "pp=2 full",
                                      "pp=2 zb-h1", "pp=2 dp=2", "dp=2 zero=2", "dp=4 zero=3",
                                      "tp=2",       "pp=2 tp=2"};
    COMPARE("albert.json:tokens=16", how, 1e-5);
    COMPARE("albert_groups.json:tokens=16", how, 1e-5);
}

/* Stages of as many ops each, so that cuts go through the shared layers: what all stages that have
 * a use of an owner's parameters sum, and the parameters of one process. */
static void stages_sum_what_they_share(const struct model *m, const struct trained *one,
                                       size_t stages, const char *how, uint32_t replicas)
{
    enum { MOST = 4 };
    const uint32_t as_many[MOST] = {replicas, replicas, replicas, replicas};
    size_t first[MOST], used[MOST] = {0}, sums = 0, expected = 0;
    for (size_t s = 0; s < stages; s++)
        first[s] = m->n * s / stages;
    const struct partition_uneven cut = {as_many, first};
    struct partition_request r = request_of(how);
    struct trained t;
    r.stages = stages;
    r.uneven = &cut;
    train(m, how, &r, STEPS, &t);
    for (uint32_t owner = 0; owner < m->n; owner++) {
        size_t stages_with = 0;
        memset(used, 0, sizeof used);
        for (uint32_t i = 0; i < m->n; i++)
            for (size_t s = stages; s-- > 0;)
                if (i >= first[s]) {
                    used[s] |= i == owner || m->op[i].shares == owner;
                    break;
                }
        for (size_t s = 0; s < stages; s++)
            stages_with += used[s];
        expected += stages_with > 1 ? stages_with * replicas : 0;
    }
    for (size_t i = 0; i < t.mesh.program.ops; i++)
        sums += op_is_collective(&t.mesh.program.op[i]) && t.mesh.program.op[i].purpose == FOR_TIES;
    print_message("%zu stages, %s, %u replicas: %zu sums, parameters %.2g apart\n", stages, how,
                  replicas, sums, distance(&t, one));
    assert_int_equal(sums, expected);
    assert_true(sums > 6 * replicas);
    assert_true(distance(&t, one) <= 1e-5);
    trained_free(&t);
}

static void every_stage_sums_what_it_shares(void **state)
{
    (void)state;
    const struct import_options o = {.minibatch_size = 1, .choices = ":tokens=16"};
    const struct partition_request alone = request_of("");
    struct model m = {0};
    struct trained one;
    assert_int_equal(model_import(SOURCE_DIR "/tests/models/albert.json", &o, &m), STATUS_OK);
    train(&m, "one", &alone, STEPS, &one);
    stages_sum_what_they_share(&m, &one, 2, "1f1b", 1);
    stages_sum_what_they_share(&m, &one, 4, "1f1b", 1);
    stages_sum_what_they_share(&m, &one, 4, "gpipe full", 1);
    stages_sum_what_they_share(&m, &one, 4, "zb-h1", 1);
    stages_sum_what_they_share(&m, &one, 2, "1f1b", 2);
    trained_free(&one);
    model_free(&m);
}

/* To the bit. */
static void cuts_train_as_one_process(void **state)
{
    (void)state;
    static const char *const how[] = {"pp=2", "pp=4 gpipe", "pp=2 full", "pp=2 zb-h1"};
    static const char *const models[] = {"bert_classes.json:tokens=16", "convbert.json:tokens=16",
                                         "mobilebert.json:tokens=16", "xlnet.json:tokens=16", unet};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        COMPARE(models[k], how, 0);
}

static void replicas_train_as_one_process(void **state)
{
    (void)state;
    static const char *const how[] = {"dp=2", "pp=2 dp=2", "dp=4 zero=3"};
    static const char *const models[] = {"bert_classes.json:tokens=16", "convbert.json:tokens=16",
                                         "mobilebert.json:tokens=16", "xlnet.json:tokens=16", unet};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        COMPARE(models[k], how, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_layers_train_as_one_process),
        cmocka_unit_test(every_stage_sums_what_it_shares),
        cmocka_unit_test(cuts_train_as_one_process),
        cmocka_unit_test(replicas_train_as_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
