/* Encoders that share layers, pool their first token or are put together otherwise, and a network that makes
 * images, trained to the parameters of one process however they are cut. */
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

/* Every stage has a copy of the layer, and gradients are summed over all its uses: stage by stage, which
 * regroups the sum. */
static void shared_layers_train_as_one_process(void **state)
{
    (void)state;
    static const char *const how[] = {"pp=2",        "pp=4",        "pp=4 gpipe",
                                      "pp=2 full",   "pp=2 zb-h1",  "pp=2 dp=2",
                                      "dp=2 zero=2", "dp=4 zero=3", "pp=2 dp=2 zero=1 bucket=10000",
                                      "tp=2",        "pp=2 tp=2"};
    COMPARE("albert.json:tokens=16", how, 1e-5);
    COMPARE("albert_groups.json:tokens=16", how, 1e-5);
}

/* Cuts go through the shared layers: each of their six ops with parameters is summed over all stages. */
static void every_stage_sums_what_it_shares(void **state)
{
    (void)state;
    enum { STAGES = 4, SHARED = 6 };
    const struct import_options o = {.minibatch_size = 1, .choices = ":tokens=16"};
    const struct partition_request r = request_of("pp=4");
    struct model m = {0};
    struct trained t;
    size_t sums = 0;
    assert_int_equal(model_import(SOURCE_DIR "/tests/models/albert.json", &o, &m), STATUS_OK);
    train(&m, "pp=4", &r, 1, &t);
    for (size_t i = 0; i < t.mesh.program.ops; i++)
        sums += op_is_collective(&t.mesh.program.op[i]) && t.mesh.program.op[i].purpose == FOR_TIES;
    assert_true(sums >= STAGES * SHARED);
    trained_free(&t);
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
