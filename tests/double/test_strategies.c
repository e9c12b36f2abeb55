/* Strategies drawn at random, executed on the double by threads over the transports that a GPU has:
 * the losses of one process on the CPU. */
#include <stdlib.h>

#include "exec/transport.h"
#include "tests/cmocka.h"
#include "tests/strategy_run.h"

enum { STEPS_TRAINED = 3, ROUNDS = 6 };
static const double learning_rate = 1e-2, tolerance = 1e-5;

static const char *const models[] = {
    "tmlp:layers=3,batch=8,seq=4,hidden=12",
    "ttransformer:layers=1,batch=8,seq=6,hidden=16,inner=24,heads=4",
    "tmoe:layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4",
    "tmlp2:layers=2,batch=8,seq=4,hidden=12,inner=20",
    "rmoe:ops=1,layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4,classes=256",
    "rswitch:ops=1,layers=2,batch=8,seq=6,hidden=16,inner=24,heads=4,experts=4,classes=256",
    "vmoe:ops=1,layers=2,batch=8,seq=9,hidden=16,inner=24,heads=4,experts=4",
    "vswitch:ops=1,layers=2,batch=8,seq=9,hidden=16,inner=24,heads=4,experts=4",
};
enum { MODELS = sizeof models / sizeof *models, SHORT = 3 };

static void compare(const char *model, const struct trained *alone, size_t round,
                    struct strategy_edges *edges, uint64_t *dice)
{
    static struct trained t;
    static const struct transport *const over[] = {&transport_local_cuda, &transport_nccl,
                                                   &transport_tcp};
    size_t ranks = round % 3 == 2 ? 4 : 2, way = round % 4 == 3 ? 1 + round / 4 % 2 : 0;
    struct drawn d;
    strategy_draw(model, ranks, (round ^ round / 2) % 2, edges, dice, &d);
    train(&d, &device_cuda, over[way], learning_rate, STEPS_TRAINED, &t);
    double apart = losses_apart(alone, &t, STEPS_TRAINED);
    if (apart > tolerance)
        fail_msg("%s on %zu ranks, round %zu: losses %g apart", model, ranks, round, apart);
    forget(&t);
    strategy_free(&d);
}

/* As many rounds, or, all: until every form of every tensor has been read in every form. */
static void compare_model(const char *model, bool all)
{
    static struct trained alone;
    struct strategy_edges edges;
    struct drawn d;
    uint64_t dice = 31;
    size_t round = 0;
    strategy_edges_init(model, &edges);
    strategy_draw(model, 1, false, NULL, &dice, &d);
    train(&d, &device_sharded, &transport_local, learning_rate, STEPS_TRAINED, &alone);
    strategy_free(&d);
    for (; all ? edges.had < edges.all : round < ROUNDS; round++)
        compare(model, &alone, round, &edges, &dice);
    print_message("%s: %zu of %zu forms read in %zu strategies\n", model, edges.had, edges.all,
                  round);
    forget(&alone);
    free(edges.is);
}

static void losses_are_those_of_one_process_on_the_cpu(void **state)
{
    for (size_t m = 0; m < SHORT; m++)
        compare_model(models[m], false);
}

static void every_form_of_every_model(void **state)
{
    for (size_t m = 0; m < MODELS; m++)
        compare_model(models[m], true);
}

/* With any argument every model's forms, else some of three. */
int main(int argc, char **argv)
{
    const struct CMUnitTest more[] = {cmocka_unit_test(every_form_of_every_model)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_one_process_on_the_cpu)};
    (void)argv;
    if (argc > 1)
        return cmocka_run_group_tests(more, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
