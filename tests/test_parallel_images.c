/* Networks for images and recurrent ones, trained to the parameters of one process however they are
 * spread. */

#include "tests/cmocka.h"
#include "tests/trained.h"

static const char vgg[] = "vgg:depth=11,side=32,width=4,hidden=32,classes=256";
/* The last blocks have 2 x 2 positions: normalised over two numbers, as those of smaller images
 * would be, gradients are nothing but rounding, of which Adam makes steps. */
static const char resnet[] = "resnet:depth=18,side=64,width=4,classes=256";
static const char gnmt[] = "gnmt:layers=3,hidden=16,tokens=8,vocabulary=256";
static const char *const models[] = {vgg, resnet, gnmt};
enum { MODELS = sizeof models / sizeof *models };

/* Cut into stages, and with what is made again, to the bit. */
static void stages_train_as_one_process(void **state)
{
    static const char *const how[] = {"pp=2",           "pp=4 gpipe", "pp=2 full",
                                      "pp=2 selective", "pp=2 zb-h1", "pp=4 chunks=2 interleaved"};
    for (size_t k = 0; k < MODELS; k++)
        COMPARE(models[k], how, 0);
}

/* Every replica has microbatches of its own, which batch normalisation sees as one process does. */
static void replicas_train_as_one_process(void **state)
{
    static const char *const how[] = {
        "dp=2", "dp=4", "pp=2 dp=2", "dp=2 zero=1 bucket=10000", "dp=2 zero=2", "dp=4 zero=3"};
    for (size_t k = 0; k < MODELS; k++)
        COMPARE(models[k], how, 1e-5);
}

/* Products of VGG's classifier, and every head, are divided; convolutions and LSTMs are computed by
 * each. */
static void shards_train_as_one_process(void **state)
{
    static const char *const how[] = {"tp=2", "tp=4", "pp=2 dp=2 tp=2"};
    COMPARE(vgg, how, 1e-5);
    COMPARE(resnet, how, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_train_as_one_process),
        cmocka_unit_test(replicas_train_as_one_process),
        cmocka_unit_test(shards_train_as_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
