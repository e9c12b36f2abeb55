/* What plan prints of a search: whole lines, and figures that can be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/load.h"
#include "study/planning.h"
#include "tests/cmocka.h"

/* The ranking of nothing, of which so many shapes have different replicas. */
static char *ranking(size_t uneven, size_t stuck, size_t left)
{
    struct arguments a = arguments_defaults(settings_takers("plan"));
    const struct auto_result r = {
        .uneven = uneven, .uneven_stuck = stuck, .uneven_left = left, .tried = 7};
    struct model m = {0};
    struct topology t = {0};
    char *platform = NULL, *text = NULL;
    size_t n;
    a.model = "mlp";
    a.wide = true;
    a.platform = "laptop";
    if (load_model(a.model, &m) != STATUS_OK || load_topology("laptop", &t, &platform) != STATUS_OK)
        fail_msg("%s", error_message());
    const struct evaluation_context context = {.model = &m, .topology = &t, .platform = platform};
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    plan_print_ranking(&r, &a, &context, to);
    assert_int_equal(fclose(to), 0);
    model_free(&m);
    topology_free(&t);
    free(platform);
    return text;
}

static void no_line_begins_in_the_middle_of_a_sentence(void **state)
{
    for (size_t k = 0; k < 8; k++) {
        char *text = ranking(k & 1 ? 5 : 0, k & 2 ? 1038 : 0, k & 4 ? 3 : 0);
        for (const char *line = text; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (*line && strchr(",;", line[strspn(line, " ")]) && line[strspn(line, " ")])
                fail_msg("%zu: a line begins with '%.30s'", k, line);
        }
        assert_int_equal(!(k & 2), !strstr(text, ", 1038 more cannot run"));
        assert_int_equal(!(k & 4), !strstr(text, ", 3 not tried"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_line_begins_in_the_middle_of_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
