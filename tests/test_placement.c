/* The placement format and its score: loads worked by hand, both split formats, every kind of
 * damage. */
#include "papers/placement/problem.h"

#include <math.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

static const char model[] = BINARY_DIR "/test_placement_model.json";
static const char split[] = BINARY_DIR "/test_placement_split.json";

/* 1 -> 2 -> 3 forward, 13 -> 12 -> 11 backward, colours 1, 2, 3; node 1 also feeds 3. */
#define HEAD "{\"maxSizePerFPGA\": 100, \"maxFPGAs\": 3, \"maxCPUs\": 1,\n\"nodes\": [\n"
#define NODE(id, cpu, fpga, size, backward, colour)                                                \
    "{\"id\": " #id ", \"cpuLatency\": " #cpu ", \"fpgaLatency\": " #fpga ", \"size\": " #size     \
    ", \"isBackwardNode\": " #backward ", \"supportedOnFpga\": 1, \"colorClass\": " #colour "}"
#define EDGE(a, b, c) "{\"sourceId\": " #a ", \"destId\": " #b ", \"cost\": " #c "}"

#define FRONT NODE(1, 10, 1, 5, 0, 1) "," NODE(2, 20, 2, 5, 0, 2) "," NODE(3, 30, 4, 5, 0, 3)

#define MIRROR NODE(13, 30, 8, 5, 1, 3) "," NODE(12, 20, 16, 5, 1, 2) "," NODE(11, 10, 32, 5, 1, 1)

#define AHEAD EDGE(1, 2, 0.5) "," EDGE(1, 3, 0.5) "," EDGE(2, 3, 0.25) "," EDGE(3, 13, 0.125)

#define BACK EDGE(13, 12, 0.0625) "," EDGE(12, 11, 0.03125)

static const char six[] = HEAD FRONT "," MIRROR "],\n\"edges\": [" AHEAD "," BACK "]}\n";

static enum status score(const char *text, double *value)
{
    const struct objective_request r = {.spec = model, .memory_bytes = NAN};
    put_text(model, six);
    put_text(split, text);
    return placement_score(&r, split, value);
}

static void loads_count_a_tensor_once_per_group(void **state)
{
    double value = 0;
    /* fpga1: 1 + 32, sends node 1 once although it goes to two groups, receives node 12:
     * 33 + 0.5 + 0.03125; fpga2: 18 + 0.5 + 0.25 + 0.0625 + 0.03125; fpga3: 12 + ... */
    assert_int_equal(score("{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 11]}, {\"nodes\": [2, 12]},"
                           "{\"nodes\": [3, 13]}]}",
                           &value),
                     STATUS_OK);
    assert_true(value == 33.53125);
    /* Two colours together: 1, 11, 3, 13 = 45, sends 1 and 13, receives 2 and 12. */
    assert_int_equal(
        score("{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 11, 3, 13]}, {\"nodes\": [2, 12]}]}",
              &value),
        STATUS_OK);
    assert_true(value == 45 + 0.5 + 0.0625 + 0.25 + 0.03125);
}

static void a_cpu_pays_no_transfers_but_its_partner_does(void **state)
{
    double value = 0;
    assert_int_equal(score("{\"cpus\": [{\"load\": -1, \"nodes\": [2, 12]}], \"fpgas\": "
                           "[{\"nodes\": [1, 3, 11, 13]}]}",
                           &value),
                     STATUS_OK);
    assert_true(value == 45 + 0.5 + 0.0625 + 0.25 + 0.03125);
    assert_int_equal(score("{\"cpus\": [{\"nodes\": [1, 2, 3]}], \"fpgas\": []}", &value),
                     STATUS_OK);
    assert_true(value == 120);
}

static void own_format_names_devices_and_backward_nodes_follow(void **state)
{
    double value = 0;
    assert_int_equal(score("{\"parts\": [{\"ops\": [\"1\"], \"device\": \"fpga1\"}, {\"ops\": [2], "
                           "\"device\": \"fpga2\"}, {\"ops\": [\"3\"]}]}",
                           &value),
                     STATUS_OK);
    assert_true(value == 33.53125);
    assert_int_equal(score("{\"parts\": [{\"ops\": [1, 2], \"device\": \"cpu\"}, {\"ops\": [3], "
                           "\"device\": \"fpga1\"}]}",
                           &value),
                     STATUS_OK);
    assert_true(value == 60);
}

static void splits_that_the_checker_refuses_say_why(void **state)
{
    static const struct {
        const char *split, *reason;
        enum status status;
    } bad[] = {
        {"{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 2, 3, 13, 12]}, {\"nodes\": [11]}]}",
         "same colorClass", STATUS_INFEASIBLE},
        {"{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 2]}]}", "node 3 is on no device",
         STATUS_INFEASIBLE},
        {"{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 2]}, {\"nodes\": [3, 2]}]}", "two devices",
         STATUS_PARSE},
        {"{\"cpus\": [], \"fpgas\": [{\"nodes\": [1, 2, 3, 4]}]}", "no node 4", STATUS_PARSE},
        {"{\"fpgas\": []}", "\"cpus\" is missing", STATUS_PARSE},
        {"{\"parts\": [{\"ops\": [\"x\"]}]}", "'x' is not the id", STATUS_PARSE},
        {"{\"parts\": [{\"ops\": [1], \"device\": \"gpu0\"}]}", "device 'gpu0'", STATUS_PARSE},
        {"[]", "expected an object", STATUS_PARSE},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = -1;
        assert_int_equal(score(bad[i].split, &value), bad[i].status);
        assert_message(error_message(), bad[i].reason);
        assert_true(value < 0);
    }
    const struct objective_request one = {.spec = model, .memory_bytes = NAN, .devices = 1};
    double value;
    put_text(split, "{\"cpus\": [], \"fpgas\": [{\"nodes\": [1]}, {\"nodes\": [2, 3]}]}");
    assert_int_equal(placement_score(&one, split, &value), STATUS_INFEASIBLE);
    assert_message(error_message(), "2 accelerators");
}

static void malformed_models_name_line_and_column(void **state)
{
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"{\"nodes\": []}", ":1:11: nodes: the graph has no nodes"},
        {HEAD "{\"id\": 1}], \"edges\": []}", ":3:1: nodes[0]: \"cpuLatency\" is missing"},
        {HEAD NODE(1, -1, 1, 0, 0, 1) "], \"edges\": []}", ":3:25: nodes[0].cpuLatency: -1"},
        {HEAD NODE(1, 1, 1, 0, 2, 1) "], \"edges\": []}", "isBackwardNode: expected true or"},
        {HEAD NODE(1, 1, 1, 0, 0, 1) ",\n" NODE(1, 1, 1, 0, 0, 1) "], \"edges\": []}",
         ":4:1: nodes[1]: id 1 is given to two nodes"},
        {HEAD NODE(1, 1, 1, 0, 0, 1) "],\n\"edges\": [" EDGE(1, 9, 1) "]}",
         ":4:37: edges[0].destId: no node has the id 9"},
        {HEAD NODE(1, 1, 1, 0, 0, 1) "],\n\"edges\": [" EDGE(1, 1, 1) ", " EDGE(1, 1, 2) "]}",
         "edges[1]: node 1 has out-edges of cost 1 and of cost 2"},
        {"{\"nodes\": 3}", "nodes: expected an array"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const struct objective_request r = {.spec = model, .memory_bytes = NAN};
        struct placement_problem p = {0};
        put_text(model, bad[i].text);
        assert_int_equal(placement_read(&r, &p), STATUS_PARSE);
        if (!message_says(error_message(), bad[i].reason))
            fail_msg("%s", error_message());
        assert_null(p.id);
    }
}

static void options_replace_the_devices_and_memory_of_the_file(void **state)
{
    struct placement_problem p = {0};
    struct objective_request r = {.spec = model, .memory_bytes = NAN};
    put_text(model, six);
    assert_int_equal(placement_read(&r, &p), STATUS_OK);
    assert_int_equal(p.accelerators, 3);
    assert_true(p.memory_bytes == 100 && p.cost[0] == 0.5 && p.cost[5] == 0);
    assert_int_equal(p.colours, 3);
    placement_free(&p);
    r.devices = 7;
    r.memory_bytes = 12;
    assert_int_equal(placement_read(&r, &p), STATUS_OK);
    assert_int_equal(p.accelerators, 7);
    assert_int_equal(p.cpus, 1);
    assert_true(p.memory_bytes == 12);
    placement_free(&p);
    placement_free(&p);
}

static enum status read_all(void)
{
    const struct objective_request r = {.spec = model, .memory_bytes = NAN};
    double value;
    return placement_score(&r, split, &value);
}

static void scoring_survives_failing_allocations(void **state)
{
    put_text(model, six);
    put_text(split, "{\"parts\": [{\"ops\": [1, 2], \"device\": \"cpu\"}, {\"ops\": [3]}]}");
    FOR_EACH_ALLOC_FAILURE(read_all());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_count_a_tensor_once_per_group),
        cmocka_unit_test(a_cpu_pays_no_transfers_but_its_partner_does),
        cmocka_unit_test(own_format_names_devices_and_backward_nodes_follow),
        cmocka_unit_test(splits_that_the_checker_refuses_say_why),
        cmocka_unit_test(malformed_models_name_line_and_column),
        cmocka_unit_test(options_replace_the_devices_and_memory_of_the_file),
        cmocka_unit_test(scoring_survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
