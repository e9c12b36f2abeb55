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

#include "tests/trained.h"

static const char unet[] = "unet:side=32,width=4,groups=2,classes=256";

/* Every stage has a copy of the layer, and gradients are summed over all its uses: stage by stage, which
 * regroups the sum. */
static void shared_layers_train_as_one_process(void **state)
{
    (void)state;
    static const char *const how[] = {"pp=2",        "pp=4",        "pp=4 gpipe",
                                      "pp=2 full",   "pp=2 zb-h1",  "pp=2 dp=2",
                                      "dp=2 zero=2", "dp=4 zero=3", "dp=2 zero=1 bucket=10000",
                                      "tp=2",        "pp=2 tp=2"};
    COMPARE("albert.json:tokens=16", how, 1e-5);
    COMPARE("albert_groups.json:tokens=16", how, 1e-5);
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
        cmocka_unit_test(cuts_train_as_one_process),
        cmocka_unit_test(replicas_train_as_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
