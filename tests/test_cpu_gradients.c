/* Backward against central differences, in a build of the layers where `real` is double. */
#include "exec/device/cpu/stage_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/layer_call.h"
#include "tests/tiny.h"
#include "tests/whole_gradient.h"

static const double tolerance = 1e-5;

static void check_layers(struct model *m)
{
    for (uint32_t op = 0; op < m->n; op++) {
        struct call *c = new_call(m, op);
        double worst = worst_of_call(c);
        free(c);
        if (!(worst < tolerance))
            fail_msg("%s: worst relative error %g", m->op[op].name, worst);
    }
    model_free(m);
}

static void backward_of_every_layer_is_its_derivative(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    check_layers(&m);
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    check_layers(&m);
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    check_layers(&m);
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    check_layers(&m);
}

static void parameter_gradients_are_added_to(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    for (uint32_t op = 0; op < m.n; op++) {
        struct call *c = new_call(&m, op);
        real once[CALL_ROOM];
        c->layer.kind->forward(&c->layer, &c->io);
        layer_backward(&c->layer, &c->io);
        memcpy(once, c->d_parameter, sizeof once);
        layer_backward(&c->layer, &c->io);
        for (size_t i = 0; i < c->layer.parameters; i++)
            assert_true(fabs(c->d_parameter[i] - 2 * once[i]) <= 1e-12 * (1 + fabs(once[i])));
        free(c);
    }
    model_free(&m);
}

/* ---- whole models */

static void check_whole_model(struct model *m)
{
    check_whole_model_by(step_width, m);
}

static void gradient_of_a_whole_gpt_is_its_derivative(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(2, true, &m), STATUS_OK);
    check_whole_model(&m);
    assert_int_equal(tiny_gpt(2, false, &m), STATUS_OK);
    check_whole_model(&m);
}

static void gradient_of_a_whole_bert_is_its_derivative(void **state)
{
    struct model m;
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    check_whole_model(&m);
}

/* Blocks 2 and 3 borrow the first layer of block 1's MLP, as ALBERT shares layers. */
static void gradients_of_all_borrowers_reach_the_owner(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(3, true, &m), STATUS_OK);
    tiny_share(&m, 17, 7);
    tiny_share(&m, 27, 7);
    check_whole_model(&m);
}

static void gradient_of_a_whole_mlp_is_its_derivative(void **state)
{
    struct model m;
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    check_whole_model(&m);
}

/* With thousands of rectifiers and largest numbers, steps of 1e-5 cross a kink of one now and
 * then. */
static void check_zoo(const char *spec)
{
    struct model m;
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    check_whole_model_by(1e-6, &m);
}

static void gradient_of_networks_for_images_is_their_derivative(void **state)
{
    if (test_everything())
        check_zoo("alexnet:side=63,width=2,hidden=8,classes=256");
    check_zoo("vgg:depth=11,side=32,width=2,hidden=8,classes=256");
    check_zoo("resnet:depth=18,side=64,width=2,classes=256");
}

static void gradient_of_lstms_that_attend_is_their_derivative(void **state)
{
    check_zoo("gnmt:layers=3,hidden=6,tokens=5,vocabulary=256");
    check_zoo("gnmt:layers=2,hidden=6,tokens=5,vocabulary=256,bidirectional=1");
}

/* At the start all logits are close to 0, so the mean loss is close to log(vocabulary): the weights
 * of all targets add up to one whatever the objective. */
static void loss_of_an_untrained_model_is_that_of_guessing(void **state)
{
    enum status (*const build[])(struct model *) = {tiny_bert, tiny_mlp};
    for (size_t i = 0; i < 3; i++) {
        struct model m;
        struct program p;
        struct stage s;
        assert_int_equal(i < 2 ? build[i](&m) : tiny_gpt(1, true, &m), STATUS_OK);
        assert_int_equal(tiny_whole(&m, WHOLE_MICROBATCHES, "sgd", &p), STATUS_OK);
        assert_int_equal(stage_open(&m, &p, 0, corpus_shipped(), 1e-3, &s), STATUS_OK);
        assert_true(fabs(model_loss(&s, false) - log(TINY_VOCABULARY)) < 0.05);
        stage_close(&s);
        program_free(&p);
        model_free(&m);
    }
}

/* ---- optimizers */

static const double rate = 0.125;

/* A parameter of a list [n], and what is kept of it: what an update does by the definition. `norm`
 * is that of all gradients. */
struct one {
    double p, g, norm, moment[2];
    uint32_t t; /* from 1 */
};

/* Three updates of every parameter with known gradients; expected() is the next value. */
static void check_optimizer(const char *optimizer, double (*expected)(struct one *))
{
    struct model m;
    struct program p;
    struct stage s;
    real *gradient;
    enum element of;
    void *array;
    size_t n;
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    assert_int_equal(tiny_whole(&m, 1, optimizer, &p), STATUS_OK);
    assert_int_equal(stage_open(&m, &p, 0, corpus_shipped(), 0.125, &s), STATUS_OK);
    const struct program_op sum = {.kind = OP_ALLREDUCE, .purpose = FOR_DATA};
    struct one *all = calloc(s.layout.parameters, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < s.layout.parameters; i++)
        all[i].p = s.state.parameter[i];
    for (uint32_t t = 1; t <= 3; t++) {
        double squares = 0;
        assert_int_equal(stage_array(&s, &sum, 0, &of, &array, &n), STATUS_OK);
        gradient = array;
        assert_int_equal(n, s.layout.parameters);
        for (size_t i = 0; i < n; i++) {
            assert_true(gradient[i] == 0); /* update() leaves none behind */
            gradient[i] = random_unit(t, i) - 0.5;
            squares += gradient[i] * gradient[i];
        }
        for (size_t i = 0; i < n; i++) {
            all[i].g = gradient[i];
            all[i].norm = sqrt(squares);
            all[i].t = t;
            all[i].p = expected(&all[i]);
        }
        assert_int_equal(stage_update(&s), STATUS_OK);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(s.state.parameter[i] - all[i].p) < 1e-12);
    }
    free(all);
    stage_close(&s);
    program_free(&p);
    model_free(&m);
}

/* Algorithm 1 of the paper, line by line. */
static double adam(struct one *o)
{
    double *moment = o->moment;
    moment[0] = 0.9 * moment[0] + (1 - 0.9) * o->g;
    moment[1] = 0.999 * moment[1] + (1 - 0.999) * o->g * o->g;
    double m = moment[0] / (1 - pow(0.9, o->t)), v = moment[1] / (1 - pow(0.999, o->t));
    return o->p - rate * m / (sqrt(v) + 1e-8);
}

/* Loshchilov & Hutter, algorithm 2: the decay does not go through the moments. */
static double adamw(struct one *o)
{
    double decayed = rate * 0.05 * o->p;
    return adam(o) - decayed;
}

static double sgd(struct one *o)
{
    return o->p - rate * o->g;
}

static double with_decay(struct one *o)
{
    return o->p - rate * (o->g + 0.05 * o->p);
}

static double with_momentum(struct one *o)
{
    double g = o->g + 0.05 * o->p;
    o->moment[0] = o->t == 1 ? g : 0.9 * o->moment[0] + g;
    return o->p - rate * o->moment[0];
}

static double nesterov(struct one *o)
{
    o->moment[0] = o->t == 1 ? o->g : 0.9 * o->moment[0] + o->g;
    return o->p - rate * (o->g + 0.9 * o->moment[0]);
}

static double clipped(struct one *o)
{
    return o->p - rate * o->g * fmin(1, 0.5 / o->norm);
}

static double divided(struct one *o)
{
    return o->p - rate * o->g / 3; /* the loss was multiplied by 3 */
}

static void optimizers_take_the_steps_of_their_definition(void **state)
{
    check_optimizer("adam", adam);
    check_optimizer("adam:decay=0.05", adamw);
    check_optimizer("sgd", sgd);
    check_optimizer("sgd:decay=0.05", with_decay);
    check_optimizer("sgd:momentum=0.9,decay=0.05", with_momentum);
    check_optimizer("sgd:momentum=0.9,nesterov=1", nesterov);
    check_optimizer("sgd:clip=0.5", clipped);
    check_optimizer("sgd:clip=1e6", sgd);
    check_optimizer("sgd:loss-scale=3", divided);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_of_every_layer_is_its_derivative),
        cmocka_unit_test(parameter_gradients_are_added_to),
        cmocka_unit_test(gradient_of_a_whole_gpt_is_its_derivative),
        cmocka_unit_test(gradient_of_a_whole_bert_is_its_derivative),
        cmocka_unit_test(gradients_of_all_borrowers_reach_the_owner),
        cmocka_unit_test(gradient_of_a_whole_mlp_is_its_derivative),
        cmocka_unit_test(gradient_of_networks_for_images_is_their_derivative),
        cmocka_unit_test(gradient_of_lstms_that_attend_is_their_derivative),
        cmocka_unit_test(loss_of_an_untrained_model_is_that_of_guessing),
        cmocka_unit_test(optimizers_take_the_steps_of_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
