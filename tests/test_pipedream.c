/* PipeDream importer: the published profiles, a graph worked by hand, every kind of damage. */
#include "core/base/text.h"
#include "papers/common/importers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

#define COSTS                                                                                      \
    "forward_compute_time=1.500, backward_compute_time=3.000, activation_size=800.0, "             \
    "parameter_size=40.000"
#define NODE(name) name " -- Linear(2, 5) -- " COSTS "\n"

/* Two inputs, a branch, a tuple; declared out of order and with a stage. */
static const char diamond[] =
    "join -- Add(inplace) -- forward_compute_time=0.250, backward_compute_time=0.500, "
    "activation_size=160.0, parameter_size=0.000\n"
    "input -- Input0 -- forward_compute_time=7.000, backward_compute_time=0.000, "
    "activation_size=64.0, parameter_size=0.000\n"
    "left -- LSTM(2, 5) -- forward_compute_time=1.000, backward_compute_time=2.000, "
    "activation_size=[160.0; 32.0; 8.0], parameter_size=400.000 -- stage_id=3\n" NODE("right")
        NODE("other") "\tinput -- left\n"
                      "\tinput -- right\n"
                      "\tleft -- join\n"
                      "\tright -- join\r\n"
                      "\n"
                      "\tother -- join";

static enum status parse(const char *text, size_t length, struct model *out)
{
    const struct import_options o = {.minibatch_size = 8, .device = "V100"};
    return pipedream_read_model("g.txt", text, length, &o, out);
}

static void reads_branches_tuples_inputs_and_stages(void **state)
{
    struct model m = {0};
    assert_int_equal(parse(diamond, strlen(diamond), &m), STATUS_OK);
    assert_int_equal(m.n, 5);
    assert_int_equal(m.edges, 5);
    uint32_t join = model_find(&m, "join"), left = model_find(&m, "left");
    uint32_t input = model_find(&m, "input"), other = model_find(&m, "other");
    assert_int_equal(join, 4); /* after all its producers */
    assert_int_equal(m.in_start[join + 1] - m.in_start[join], 3);
    assert_int_equal(m.in[m.in_start[join]], left); /* arguments in the order of the edges */
    assert_int_equal(m.out_start[input + 1] - m.out_start[input], 2);
    assert_string_equal(m.op[join].kind, "Add");
    assert_string_equal(m.op[input].kind, "Input");
    assert_string_equal(m.op[other].kind, "Linear"); /* a source, but not an input */
    assert_int_equal(m.op[left].output_bytes, (160 + 32 + 8) / 8);
    assert_int_equal(m.op[left].parameter_bytes, 400);
    assert_int_equal(model_attribute(&m.op[left], "stage", -1), 3);
    assert_int_equal(model_attribute(&m.op[join], "stage", -1), -1);
    assert_int_equal(m.profiles, 1);
    assert_string_equal(m.profile[0].device, "V100");
    assert_true(m.profile[0].samples == 8);
    assert_true(m.profile[0].forward_s[left] == 1e-3 && m.profile[0].backward_s[left] == 2e-3);
    assert_true(m.profile[0].forward_s[input] == 0); /* loading data is not computing */
    assert_true(m.op[left].forward_flop == 0);
    model_free(&m);
}

/* The sums come from
 *   awk -F' -- ' '/^\t/{e++;next} {v++; m=$3; gsub(/[a-z_]+=/,"",m); split(m,a,", ");
 *     if ($2 !~ /^Input/) {f+=a[1]; b+=a[2]}  s=a[3]; gsub(/[\[\]]/,"",s); k=split(s,x,"; ");
 *     for(i=1;i<=k;i++) act+=x[i]; p+=a[4]}
 *     END{printf "%d %d %.3f %.3f %.0f %.0f\n", v,e,f,b,act,p}' graph.txt */
static void published_profiles_sum_up_as_awk_says(void **state)
{
    static const struct {
        const char *network;
        size_t nodes, edges;
        double forward_ms, backward_ms;
        int64_t activation_bytes, parameter_bytes;
    } expected[] = {
        {"alexnet", 23, 23, 44.801, 40.520, 1278713860, 244403360},
        {"densenet121", 429, 487, 177.404, 148.751, 12527921156, 31915424},
        {"gnmt", 48, 58, 33.533, 55.883, 409159680, 775063808},
        {"resnet18", 71, 79, 107.446, 152.296, 8582569988, 46758048},
        {"resnet50", 177, 193, 182.488, 260.931, 19308728324, 102228128},
        {"squeezenet1_0", 68, 76, 113.247, 172.119, 12476317700, 4993696},
        {"vgg16", 41, 41, 233.902, 438.633, 14759219204, 553430176},
    };
    const char *workloads = getenv("FORELINE_WORKLOADS");
    workloads = workloads ? workloads : WORKLOADS_DIR;
    if (access(workloads, R_OK) != 0) {
        print_message("no workloads in %s\n", workloads);
        skip();
    }
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char path[4096];
        const struct import_options o = {.minibatch_size = 1};
        struct model m = {0};
        snprintf(path, sizeof path, "%s/pipedream/profiles/%s/graph.txt", workloads,
                 expected[i].network);
        if (model_import(path, &o, &m) != STATUS_OK)
            fail_msg("%s", error_message());
        double forward_s = 0, backward_s = 0;
        int64_t activations = 0, parameters = 0;
        for (size_t k = 0; k < m.n; k++) {
            forward_s += m.profile[0].forward_s[k];
            backward_s += m.profile[0].backward_s[k];
            activations += m.op[k].output_bytes;
            parameters += m.op[k].parameter_bytes;
        }
        assert_int_equal(m.n, expected[i].nodes);
        assert_int_equal(m.edges, expected[i].edges);
        assert_true(fabs(forward_s * 1e3 - expected[i].forward_ms) < 1e-6);
        assert_true(fabs(backward_s * 1e3 - expected[i].backward_ms) < 1e-6);
        assert_int_equal(activations, expected[i].activation_bytes);
        assert_int_equal(parameters, expected[i].parameter_bytes);
        model_free(&m);
    }
}

static void names_the_line_of_every_fault(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "g.txt:1: no node in the file"},
        {"\n\n", "g.txt:1: no node in the file"},
        {NODE("a") "\ta -- b\n" NODE("b"),
         "g.txt:2: edge before its node: node 'b' is declared only in line 3"},
        {NODE("a") "\ta -- b\n", "g.txt:2: the edge names an unknown node 'b'"},
        {NODE("a") NODE("b") NODE("a"), "g.txt:3: node 'a' is declared twice, first in line 1"},
        {NODE("a") NODE("b") "\ta -- b\n\ta -- b\n",
         "g.txt:4: edge 'a -- b' is declared twice, first in line 3"},
        {NODE("a") "\ta -- a\n", "g.txt:2: edge 'a -- a' is part of a cycle"},
        {NODE("s") NODE("a") NODE("b") "\ts -- a\n\ta -- b\n\tb -- a\n",
         "g.txt:5: edge 'a -- b' is part of a cycle"},
        {NODE("a") "\ta\n", "g.txt:2: expected an edge 'name -- name', found 'a'"},
        {NODE("a") "\t -- a\n", "g.txt:2: '' is not a node name (1 to 255 characters, no blanks)"},
        {"a -- Linear\n", "g.txt:1: expected 'name -- description -- forward_compute_time=...', "
                          "found 'Linear'"},
        {"a b -- Linear -- " COSTS,
         "g.txt:1: 'a b' is not a node name (1 to 255 characters, no blanks)"},
        {"a -- (2, 5) -- " COSTS,
         "g.txt:1: a description starts with a type of 1 to 255 characters, not '(2, 5)'"},
        {"a -- Linear -- forward_compute_time=1.0",
         "g.txt:1: expected 'backward_compute_time=', found ''"},
        {"a -- Linear -- forward_compute_time=-1, backward_compute_time=1, activation_size=1, "
         "parameter_size=1",
         "g.txt:1: forward_compute_time: '-1' is not a number from 0 to 1e+15"},
        {"a -- Linear -- forward_compute_time=1e999, backward_compute_time=1, activation_size=1, "
         "parameter_size=1",
         "g.txt:1: forward_compute_time: '1e999' is not a number from 0 to 1e+15"},
        {"a -- Linear -- forward_compute_time=1, backward_compute_time=nan, activation_size=1, "
         "parameter_size=1",
         "g.txt:1: backward_compute_time: 'nan' is not a number from 0 to 1e+15"},
        {"a -- Linear -- forward_compute_time=1, backward_compute_time=1, activation_size=[1; 2, "
         "parameter_size=1",
         "g.txt:1: activation_size: no ']' ends '[1; 2'"},
        {"a -- Linear -- forward_compute_time=1, backward_compute_time=1, activation_size=[1; ], "
         "parameter_size=1",
         "g.txt:1: activation_size: '' is not a number from 0 to 1e+14"},
        {"a -- Linear -- forward_compute_time=1, backward_compute_time=1, "
         "activation_size=[9e13; 9e13], parameter_size=1",
         "g.txt:1: activation_size: more than 1e+14 bytes"},
        {"a -- Linear -- forward_compute_time=1, backward_compute_time=1, activation_size=1, "
         "parameter_size=",
         "g.txt:1: parameter_size: '' is not a number from 0 to 1e+14"},
        {"a -- Linear -- backward_compute_time=1, forward_compute_time=1, activation_size=1, "
         "parameter_size=1",
         "g.txt:1: expected 'forward_compute_time=', found 'backward_compute_time=1'"},
        {"a -- Linear -- " COSTS " -- stage=1", "g.txt:1: expected 'stage_id=', found 'stage=1'"},
        {"a -- Linear -- " COSTS " -- stage_id=1.5",
         "g.txt:1: stage_id: 1.5 is not a whole number"},
        {"a\x1b -- Linear -- " COSTS, "g.txt:1: byte 0x1b at column 2 is not printable ASCII"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model m = {.n = 7};
        assert_int_equal(parse(bad[i].text, strlen(bad[i].text), &m), STATUS_PARSE);
        assert_message(error_message(), bad[i].message);
        assert_int_equal(m.n, 7);
    }
}

static void survives_truncation_at_every_byte(void **state)
{
    size_t accepted = 0;
    for (size_t n = 0; n < strlen(diamond); n++) {
        char *copy = malloc(n + 1); /* exact size, so that the sanitizer sees reads past the end */
        memcpy(copy, diamond, n);
        struct model m = {0};
        enum status st = parse(copy, n, &m);
        assert_true(st == STATUS_OK || st == STATUS_PARSE);
        accepted += st == STATUS_OK;
        model_free(&m);
        free(copy);
    }
    assert_true(accepted > 0); /* fewer whole lines are a graph, too */
}

static void survives_changed_bytes(void **state)
{
    srand(1);
    for (int trial = 0; trial < 5000; trial++) {
        char text[sizeof diamond];
        memcpy(text, diamond, sizeof diamond);
        for (int k = rand() % 4; k >= 0; k--)
            text[(size_t)rand() % (sizeof diamond - 1)] = (char)(rand() % 256);
        struct model m = {0};
        enum status st = parse(text, sizeof diamond - 1, &m);
        assert_true(st == STATUS_OK || st == STATUS_PARSE);
        model_free(&m);
    }
}

static void rejects_nul_bytes_and_endless_lines_and_numbers(void **state)
{
    enum { LONG = 1 << 24 };
    struct model m = {0};
    char nul[] = NODE("a") NODE("b");
    nul[2] = '\0';
    assert_int_equal(parse(nul, sizeof nul - 1, &m), STATUS_PARSE);
    assert_message(error_message(), "g.txt:1: byte 0x00 at column 3 is not printable ASCII");

    char *text = malloc(LONG);
    memset(text, 'x', LONG);
    assert_int_equal(parse(text, LONG, &m), STATUS_PARSE);
    assert_true(strlen(error_message()) < 200);
    memcpy(text, "a -- ", 5);
    assert_int_equal(parse(text, LONG, &m), STATUS_PARSE);
    static const char before[] = "a -- Linear -- forward_compute_time=";
    memset(text, '1', LONG);
    memcpy(text, before, sizeof before - 1);
    assert_int_equal(parse(text, LONG, &m), STATUS_PARSE);
    assert_true(strlen(error_message()) < 200);
    memset(text, '\n', LONG);
    assert_int_equal(parse(text, LONG, &m), STATUS_PARSE);
    free(text);
}

static void a_long_cycle_is_found_in_linear_time(void **state)
{
    enum { N = 20000, ROOM = N * 200 };
    char *text = malloc(ROOM);
    size_t used = 0;
    for (int i = 0; i < N; i++)
        used += (size_t)snprintf(text + used, ROOM - used, "n%d -- Linear(2, 5) -- " COSTS "\n", i);
    for (int i = 0; i < N; i++)
        used += (size_t)snprintf(text + used, ROOM - used, "\tn%d -- n%d\n", i, (i + 1) % N);
    struct model m = {0};
    assert_int_equal(parse(text, used, &m), STATUS_PARSE);
    assert_message(error_message(), "is part of a cycle");
    free(text);
}

static void rejects_a_minibatch_below_one_sample(void **state)
{
    struct import_options o = {.minibatch_size = 0};
    struct model m = {0};
    assert_int_equal(pipedream_read_model("g.txt", diamond, strlen(diamond), &o, &m),
                     STATUS_INVALID);
    o.minibatch_size = INFINITY;
    assert_int_equal(pipedream_read_model("g.txt", diamond, strlen(diamond), &o, &m),
                     STATUS_INVALID);
}

static void import_tells_formats_apart(void **state)
{
    const struct import_options o = {.minibatch_size = 8};
    const struct provenance by = {.version = "test", .command = "test"};
    struct model m = {0}, again = {0};
    put_text("test_pipedream.txt", diamond);
    assert_int_equal(model_import("test_pipedream.txt", &o, &m), STATUS_OK);
    assert_int_equal(model_write(&m, "test_pipedream.json", &by), STATUS_OK);
    assert_int_equal(model_import("test_pipedream.json", &o, &again), STATUS_OK);
    assert_int_equal(again.n, m.n);
    assert_int_equal(again.edges, m.edges);
    model_free(&again);
    model_free(&m);

    put_text("test_pipedream.txt", "hello\n");
    assert_int_equal(model_import("test_pipedream.txt", &o, &m), STATUS_PARSE);
    char known[TEXT_LIST], expected[TEXT_LIST + 128];
    snprintf(expected, sizeof expected, "test_pipedream.txt:1 foreline JSON %s",
             text_list(importers, importers_n, known));
    assert_message(error_message(), expected);
    assert_int_equal(model_import("does/not/exist", &o, &m), STATUS_IO);
    remove("test_pipedream.txt");
    remove("test_pipedream.json");
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct model m = {0};
    FOR_EACH_ALLOC_FAILURE(parse(diamond, strlen(diamond), &m));
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_branches_tuples_inputs_and_stages),
        cmocka_unit_test(published_profiles_sum_up_as_awk_says),
        cmocka_unit_test(names_the_line_of_every_fault),
        cmocka_unit_test(survives_truncation_at_every_byte),
        cmocka_unit_test(survives_changed_bytes),
        cmocka_unit_test(rejects_nul_bytes_and_endless_lines_and_numbers),
        cmocka_unit_test(a_long_cycle_is_found_in_linear_time),
        cmocka_unit_test(rejects_a_minibatch_below_one_sample),
        cmocka_unit_test(import_tells_formats_apart),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("pipedream", tests, NULL, NULL);
}
