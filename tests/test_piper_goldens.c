/* Piper on the published inputs: never worse than the published planner. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "papers/piper/piper.h"
#include "tests/cmocka.h"

static char directory[4096];

static bool workloads_are_here(void)
{
    const char *given = getenv("FORELINE_WORKLOADS");
    snprintf(directory, sizeof directory, "%s", given ? given : WORKLOADS_DIR);
    char path[4200];
    snprintf(path, sizeof path, "%s/goldens.json", directory);
    FILE *f = fopen(path, "r");
    if (f)
        fclose(f);
    else
        print_message("no %s: set FORELINE_WORKLOADS\n", path);
    return f != NULL;
}

static double number(const struct json_at *object, const char *key)
{
    double value = NAN;
    assert_int_equal(json_may_real(object, key, -1e30, 1e30, &value), STATUS_OK);
    return value;
}

/* One record that is not about a model this folder lacks (those with more layers). */
static void check_record(const struct json_at *record, const struct json_at *params)
{
    const double gib = 1 << 30;
    char *input = NULL, path[8300];
    assert_int_equal(json_need_text(record, "input", &input), STATUS_OK);
    snprintf(path, sizeof path, "%s/%s", directory, input);
    struct objective_request r = {.spec = path,
                                  .devices = (size_t)number(params, "devices"),
                                  .memory_bytes = number(params, "memGiB") * gib,
                                  .levels = 1,
                                  .bandwidth_Bps = {number(params, "bwGiBps") * gib},
                                  .batch = (size_t)number(params, "mbsInBatch")};
    const struct piper_limits limits = {PIPER_IDEALS, PIPER_STATES};
    struct piper_input in;
    struct piper_plan plan = {0};
    struct piper_outcome o;
    assert_int_equal(piper_read(&r, &in), STATUS_OK);
    enum status st = piper_search(&in, &r, &limits, &plan, &o);
    double golden = number(record, "objective"), value;
    if (isnan(golden)) { /* the published one runs out of memory */
        assert_int_equal(st, STATUS_INFEASIBLE);
        assert_message(error_message(), "would be enough");
    } else {
        assert_int_equal(st, STATUS_OK);
        assert_int_equal(piper_evaluate(&in, &plan, &value), STATUS_OK);
        assert_true(value == o.value);
        if (!(value <= golden * (1 + 1e-9)))
            fail_msg("%s: %.12g, golden %.12g", path, value, golden);
        assert_true(o.lower_bound >= value * (1 - 1e-9) && o.lower_bound <= value);
        print_message("%s devices %zu memory %g GiB: %.9g, golden %.9g\n", input, r.devices,
                      r.memory_bytes / gib, value, golden);
    }
    piper_plan_free(&plan);
    piper_input_free(&in);
    free(input);
}

static void is_never_worse_than_the_published_planner(void **state)
{
    if (!workloads_are_here())
        skip();
    struct json_document d;
    struct json_at root, records, params;
    char path[4200];
    size_t n, checked = 0;
    snprintf(path, sizeof path, "%s/goldens.json", directory);
    assert_int_equal(json_read(path, NULL, 0, &d), STATUS_OK);
    root = json_root(&d);
    assert_int_equal(json_field(&root, "records", &records), STATUS_OK);
    assert_int_equal(json_get_array(&records, 100000, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++) {
        struct json_at record = json_item(&records, i);
        char *peer = NULL;
        assert_int_equal(json_need_text(&record, "peer", &peer), STATUS_OK);
        if (!strcmp(peer, "piper")) {
            assert_int_equal(json_field(&record, "params", &params), STATUS_OK);
            if (number(&params, "layers") == 0) {
                check_record(&record, &params);
                checked++;
            }
        }
        free(peer);
    }
    assert_true(checked > 0);
    json_document_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_never_worse_than_the_published_planner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
