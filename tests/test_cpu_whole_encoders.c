/* Whole encoders, from tokens to loss, against central differences: layers that share their
 * parameters, poolers and classes, and those that are put together otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "model/import.h"
#include "model/zoo.h"
#include "tests/whole_gradient.h"

/* Small steps: rectifiers have kinks. */
static const double step = 1e-6;

static void check_file(const char *name)
{
    char path[4096];
    const struct import_options o = {.minibatch_size = 1, .choices = ":tokens=7,layers=3"};
    struct model m = {0};
    snprintf(path, sizeof path, "%s/tests/models/%s.json", SOURCE_DIR, name);
    if (model_import(path, &o, &m) != STATUS_OK)
        fail_msg("%s: %s", name, error_message());
    check_whole_model_by(step, &m);
}

static void gradient_of_a_shared_layer_is_that_of_all_its_uses(void **state)
{
    (void)state;
    check_file("albert");
    check_file("albert_groups");
}

static void gradients_of_encoders_are_their_derivatives(void **state)
{
    (void)state;
    check_file("bert_classes");
    check_file("convbert");
    check_file("mobilebert");
    check_file("xlnet");
}

static void gradient_of_a_network_that_makes_images_is_its_derivative(void **state)
{
    (void)state;
    struct model m;
    if (zoo_build("unet:side=32,width=2,groups=1,classes=256", &m) != STATUS_OK)
        fail_msg("%s", error_message());
    check_directions(1e-7, 16, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_of_a_shared_layer_is_that_of_all_its_uses),
        cmocka_unit_test(gradients_of_encoders_are_their_derivatives),
        cmocka_unit_test(gradient_of_a_network_that_makes_images_is_its_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
