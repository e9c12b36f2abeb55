/* The table of operators: types are those of names, found when a model is finished. */
#include <stdlib.h>
#include <string.h>

#include "core/data/model.h"
#include "tests/cmocka.h"

static char *copy(const char *text)
{
    char *own = malloc(strlen(text) + 1);
    assert_non_null(own);
    return strcpy(own, text);
}

static void every_row_is_found_by_its_name(void **state)
{
    (void)state;
    for (int k = OPERATOR_UNKNOWN + 1; k < OPERATORS; k++)
        assert_int_equal(operator_find(operator_table[k].name), k);
}

static void other_names_are_unknown_and_have_no_traits(void **state)
{
    static const char *const names[] = {"", "Conv2d", "linea", "linearly", "Linear", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct model_op op = {.kind = (char *)(uintptr_t)names[i]};
        assert_int_equal(operator_find(names[i]), OPERATOR_UNKNOWN);
        assert_false(model_op_is(&op, UINT32_MAX));
    }
}

static void an_op_of_no_model_is_looked_up(void **state)
{
    const struct model_op op = {.kind = (char *)(uintptr_t) "residual"};
    (void)state;
    assert_int_equal(model_op_type(&op), OPERATOR_residual);
    assert_true(model_op_is(&op, OPERATOR_STREAM));
    assert_false(model_op_is(&op, OPERATOR_ATTENTION));
}

/* A type that somebody has left there is not believed. */
static void a_finished_model_has_the_types_of_its_kinds(void **state)
{
    static const char *const kinds[] = {"loss", "Conv2d", "attention"};
    static const enum operator_type types[] = {OPERATOR_loss, OPERATOR_UNKNOWN, OPERATOR_attention};
    struct model m = {.element_bytes = 4, .n = 3};
    (void)state;
    m.op = calloc(m.n, sizeof *m.op);
    assert_non_null(m.op);
    for (size_t i = 0; i < m.n; i++) {
        char name[] = {(char)('a' + i), 0};
        m.op[i] = (struct model_op){.name = copy(name),
                                    .kind = copy(kinds[i]),
                                    .type = OPERATOR_gelu,
                                    .shares = MODEL_NO_OP};
    }
    m.name = copy("three");
    assert_int_equal(model_finish(&m, NULL, 0, "three"), STATUS_OK);
    for (size_t i = 0; i < m.n; i++)
        assert_int_equal(m.op[i].type, types[i]);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_found_by_its_name),
        cmocka_unit_test(other_names_are_unknown_and_have_no_traits),
        cmocka_unit_test(an_op_of_no_model_is_looked_up),
        cmocka_unit_test(a_finished_model_has_the_types_of_its_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
