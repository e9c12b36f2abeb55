/* Texts of optimizers and of policies of the learning rate: numbers by hand, and what is wrong. */
#include <math.h>
#include <string.h>

#include "core/cost/cost.h"
#include "core/strategy/optimizer.h"
#include "exec/learning_rate.h"
#include "tests/cmocka.h"

static void assert_says(enum status st, const char *what)
{
    assert_int_equal(st, STATUS_INVALID);
    if (!message_says(error_message(), what))
        fail_msg("'%s' does not say '%s'", error_message(), what);
}

static void optimizers_have_their_numbers(void **state)
{
    struct optimizer o;
    assert_int_equal(optimizer_of("sgd:momentum=0.9,nesterov=1,decay=1e-4,clip=0.5", &o),
                     STATUS_OK);
    assert_false(o.adam);
    assert_true(o.momentum == 0.9 && o.nesterov == 1 && o.decay == 1e-4 && o.clip == 0.5);
    assert_true(o.loss_scale == 1);
    assert_int_equal(optimizer_of("adam:decay=0.01,loss-scale=128", &o), STATUS_OK);
    assert_true(o.adam && o.decay == 0.01 && o.loss_scale == 128 && o.clip == 0);
    assert_says(optimizer_of("adma", &o), "adam");
    assert_says(optimizer_of("", &o), "optimizer");
    assert_says(optimizer_of("adam:momentum=0.9", &o), "adam 'momentum'; decay");
    assert_says(optimizer_of("sgd:momentum=1", &o), "momentum '1'");
    assert_says(optimizer_of("sgd:momentum=0.5,momentum=0.5", &o), "twice");
    assert_says(optimizer_of("sgd:nesterov=1", &o), "nesterov");
    assert_says(optimizer_of("adam:moment-bits=24", &o), "16 or 32");
    assert_says(optimizer_of("sgd:moment-bits=16", &o), "sgd 'moment-bits'");
    assert_says(optimizer_of("sgd:momentum", &o), "expected KEY=NUMBER");
    assert_says(optimizer_of("sgd:", &o), "expected KEY=NUMBER");
    assert_says(optimizer_of("sgd:decay=nan", &o), "decay");
}

static void state_is_what_the_optimizer_keeps(void **state)
{
    static const struct {
        const char *text;
        int moments;
    } all[] = {{"sgd", 0},  {"sgd:decay=1e-4", 0}, {"sgd:momentum=0", 0}, {"sgd:momentum=0.9", 1},
               {"adam", 2}, {"adam:decay=0.01", 2}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        assert_int_equal(optimizer_moments(all[k].text), all[k].moments);
        assert_int_equal(cost_memory(all[k].text, 4, 4, NULL).state, all[k].moments);
    }
    /* of each parameter of 2 bytes: a copy of 4 and two moments of 4 or 2 */
    assert_int_equal(cost_memory("adam:moment-bits=32", 2, 4, NULL).state, (4 + 2 * 4) / 2);
    assert_int_equal(cost_memory("adam:decay=0.1,moment-bits=16", 2, 4, NULL).state, 8 / 2);
    assert_int_equal(cost_memory("adam:moment-bits=16", 4, 4, NULL).state, 1);
}

static double factor(const char *text, uint32_t step)
{
    struct learning_rate r;
    if (learning_rate_parse(text, &r) != STATUS_OK)
        fail_msg("%s", error_message());
    return learning_rate_factor(&r, step);
}

/* PipeDream's runtime: 0.1 every 30 epochs, (1 - epoch / epochs)^2, 0.97^(epoch / epochs), and in
 * the first 5 epochs (1 + step + epoch * length) / (5 length), step counted within the epoch. */
static void rates_follow_their_policies(void **state)
{
    enum { LENGTH = 7, EPOCHS = 90 };
    for (uint32_t epoch = 0; epoch < 2 * EPOCHS; epoch++)
        for (uint32_t k = 0; k < LENGTH; k++) {
            uint32_t at = epoch * LENGTH + k;
            double warm = epoch < 5 ? (1.0 + k + epoch * LENGTH) / (5.0 * LENGTH) : 1;
            double part = (double)epoch / EPOCHS;
            double ten = epoch < 30    ? 1
                         : epoch < 60  ? 0.1
                         : epoch < 90  ? 0.01
                         : epoch < 120 ? 0.001
                         : epoch < 150 ? 1e-4
                                       : 1e-5;
            assert_true(fabs(factor("step:epoch=7", at) - ten) < 1e-15);
            assert_true(fabs(factor("step:epoch=7,warmup=5", at) - (epoch < 5 ? warm : ten)) <
                        1e-15);
            assert_true(fabs(factor("polynomial:epoch=7,epochs=90", at) -
                             (part < 1 ? (1 - part) * (1 - part) : 0)) < 1e-15);
            assert_true(fabs(factor("exponential:epoch=7,epochs=90", at) - exp(part * log(0.97))) <
                        1e-15);
            assert_true(fabs(factor("constant:epoch=7,warmup=5", at) - warm) < 1e-15);
            assert_true(factor("constant", at) == 1);
        }
    assert_true(factor("step:every=1,factor=0.5", 3) == 0.125);
    assert_true(factor("polynomial:epochs=4,power=1", 3) == 0.25);
    assert_true(factor("exponential", 2) == 0.97 * 0.97);
    const struct learning_rate none = {RATE_CONSTANT};
    assert_true(learning_rate_factor(&none, 12345) == 1);
}

static void wrong_policies_are_named(void **state)
{
    struct learning_rate r;
    assert_says(learning_rate_parse("polynomial", &r), "epochs=N");
    assert_says(learning_rate_parse("steps", &r), "step");
    assert_says(learning_rate_parse("step:power=2", &r), "step 'power'");
    assert_says(learning_rate_parse("step:epoch=0", &r), "expected 1 to");
    assert_says(learning_rate_parse("exponential:factor=2", &r), "expected 0 to 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_have_their_numbers),
        cmocka_unit_test(state_is_what_the_optimizer_keeps),
        cmocka_unit_test(rates_follow_their_policies),
        cmocka_unit_test(wrong_policies_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
