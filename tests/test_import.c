/* Importers of JSON graphs (placement, Piper), and choosing a format by content. */
#include "model/import.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/edges.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

enum { PATH = 4096 };

#define CORPUS SOURCE_DIR "/tests/fuzz/corpus/import/"

static const struct import_options plain = {.minibatch_size = 1};
static const char scratch[] = BINARY_DIR "/test_import.txt";

static enum status import(const char *text, struct model *out)
{
    put_text(scratch, text);
    return model_import(scratch, &plain, out);
}

static bool has_edge(const struct model *m, const char *from, const char *to)
{
    uint32_t a = model_find(m, from), b = model_find(m, to);
    assert_true(a != MODEL_NO_OP && b != MODEL_NO_OP);
    for (size_t k = m->in_start[b]; k < m->in_start[b + 1]; k++)
        if (m->in[k] == a)
            return true;
    return false;
}

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", value, expected);
}

/* ---- placement */

/* A weight w and the op a in colour 1 with a's gradient; b reads a; loss is backward only. */
static void a_colour_is_one_op_with_its_weights_and_gradients(void **state)
{
    const struct import_options o = {.minibatch_size = 8, .device = "V100"};
    struct model m = {0};
    assert_int_equal(model_import(CORPUS "placement.json", &o, &m), STATUS_OK);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.edges, 2);
    assert_true(has_edge(&m, "a", "b") && has_edge(&m, "b", "loss"));
    assert_int_equal(sample_op(&m, "a")->parameter_bytes, 640);
    assert_int_equal(sample_op(&m, "a")->stash_bytes, 10);
    assert_int_equal(sample_op(&m, "a")->output_bytes, 10);
    assert_int_equal(model_attribute(sample_op(&m, "a"), "nodes", 0), 3);
    assert_int_equal(sample_op(&m, "b")->parameter_bytes, 0); /* weights are nodes here */
    assert_int_equal(sample_op(&m, "b")->stash_bytes, 6);
    assert_int_equal(sample_op(&m, "b")->output_bytes, 5); /* the loss reads it */
    assert_int_equal(m.profiles, 2);
    assert_string_equal(m.profile[0].device, "V100");
    assert_string_equal(m.profile[1].device, "cpu");
    uint32_t a = model_find(&m, "a"), loss = model_find(&m, "loss");
    assert_close(m.profile[0].samples, 8);
    assert_close(m.profile[0].forward_s[a], 1e-3);
    assert_close(m.profile[0].backward_s[a], 3e-3);
    assert_close(m.profile[1].backward_s[a], 30e-3);
    assert_close(m.profile[0].forward_s[loss], 0);
    assert_close(m.profile[0].backward_s[loss], 4e-3);
    assert_non_null(strstr(m.note, "6 nodes in 3 ops"));
    assert_non_null(strstr(m.note, "1 nodes may not be on accelerators"));
    model_free(&m);
}

static void nodes_can_be_kept_apart(void **state)
{
    const struct import_options o = {.minibatch_size = 1, .nodes_apart = true};
    struct model m = {0};
    assert_int_equal(model_import(CORPUS "placement.json", &o, &m), STATUS_OK);
    assert_int_equal(m.n, 6);
    assert_int_equal(m.edges, 5);
    assert_int_equal(m.element_bytes, 1);
    assert_true(has_edge(&m, "loss", "b'"));
    assert_int_equal(sample_op(&m, "w")->parameter_bytes, 640);
    assert_int_equal(sample_op(&m, "a")->parameter_bytes, 80);
    assert_int_equal(sample_op(&m, "b")->output_bytes, 40);
    assert_close(m.profile[0].backward_s[model_find(&m, "b'")], 5e-3);
    assert_close(m.profile[0].forward_s[model_find(&m, "b'")], 0);
    model_free(&m);
}

static void without_weight_nodes_parameters_are_what_exceeds_the_output(void **state)
{
    struct model m = {0};
    assert_int_equal(import("{\"nodes\": [{\"id\": -3, \"fpgaLatency\": 1, \"size\": 100},"
                            "{\"id\": 4, \"fpgaLatency\": 2, \"size\": 30}],"
                            "\"edges\": [{\"sourceId\": -3, \"destId\": 4, \"size\": 60}]}",
                            &m),
                     STATUS_OK);
    assert_int_equal(sample_op(&m, "node-3")->parameter_bytes, 40);
    assert_int_equal(sample_op(&m, "node-3")->stash_bytes, 60);
    assert_int_equal(sample_op(&m, "node4")->parameter_bytes, 30);
    assert_int_equal(m.profiles, 1);
    assert_string_equal(m.profile[0].device, ""); /* so the CPU has no profile of its own */
    assert_non_null(strstr(m.note, "forward times only"));
    model_free(&m);
}

static void colours_on_a_cycle_are_fused(void **state)
{
    struct model m = {0}; /* a0 -> b -> a1 with a0 and a1 of one colour; then c, twice */
    assert_int_equal(model_import(CORPUS "colour-cycle.json", &plain, &m), STATUS_OK);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.edges, 1);
    assert_true(has_edge(&m, "b", "c"));
    assert_close(m.profile[0].forward_s[model_find(&m, "b")], 12e-3);
    assert_non_null(strstr(m.note, "4 edges have no size"));
    model_free(&m);
}

static void repeated_names_get_their_ids(void **state)
{
    struct model m = {0};
    assert_int_equal(import("{\"nodes\": [{\"id\": 0, \"name\": \"x\", \"fpgaLatency\": 1},"
                            "{\"id\": 5, \"name\": \"x\", \"fpgaLatency\": 1},"
                            "{\"id\": 6, \"name\": \"y\", \"fpgaLatency\": 1}], \"edges\": []}",
                            &m),
                     STATUS_OK);
    assert_string_equal(m.op[0].name, "x#0");
    assert_string_equal(m.op[1].name, "x#5");
    assert_string_equal(m.op[2].name, "y");
    model_free(&m);
}

/* ---- Piper */

static void a_recomputing_configuration_tells_forward_from_backward(void **state)
{
    const struct import_options o = {.minibatch_size = 2};
    struct model m = {0};
    assert_int_equal(model_import(CORPUS "piper.json", &o, &m), STATUS_OK);
    assert_int_equal(m.n, 2);
    assert_string_equal(m.op[0].name, "L#0");
    assert_string_equal(m.op[0].kind, "L");
    assert_true(has_edge(&m, "L#0", "L#1"));
    assert_int_equal(m.op[0].parameter_bytes, 80);
    assert_int_equal(m.op[0].stash_bytes, 48); /* of the plain configuration */
    assert_int_equal(m.op[0].output_bytes, 16);
    assert_int_equal(m.profiles, 2); /* degree 4 is not for all */
    assert_int_equal(m.profile[0].tensor_parallel, 1);
    assert_int_equal(m.profile[1].tensor_parallel, 2);
    assert_close(m.profile[0].samples, 2);
    assert_close(m.profile[0].forward_s[0], 1); /* 4 s with another forward pass, 3 s without */
    assert_close(m.profile[0].backward_s[0], 2);
    assert_close(m.profile[0].forward_s[1], 2); /* no such configuration: a third */
    assert_close(m.profile[1].forward_s[0] + m.profile[1].backward_s[0], 1.5);
    assert_non_null(strstr(m.note, "a third"));
    model_free(&m);
}

static void sizes_of_nodes_that_run_split_only_are_multiplied_up(void **state)
{
    struct model m = {0};
    assert_int_equal(model_import(CORPUS "piper-split-only.json", &plain, &m), STATUS_OK);
    assert_int_equal(m.op[0].parameter_bytes, 20);
    assert_int_equal(m.op[0].stash_bytes, 10);
    assert_int_equal(m.profile[0].tensor_parallel, 2);
    assert_message(m.note, "without parallelism");
    model_free(&m);
}

/* ---- formats */

static void the_format_is_found_by_content_from_a_pipe_too(void **state)
{
    static const struct {
        const char *file;
        size_t ops;
    } row[] = {
        {"placement.json", 3}, {"piper.json", 2}, {"foreline.json", 2}, {"pipedream.txt", 3}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char path[PATH];
        struct model m = {0}, piped = {0};
        snprintf(path, sizeof path, "%s%s", CORPUS, row[i].file);
        assert_int_equal(model_import(path, &plain, &m), STATUS_OK);
        assert_non_null(freopen(path, "r", stdin));
        assert_int_equal(model_import("-", &plain, &piped), STATUS_OK);
        assert_int_equal(piped.n, m.n);
        assert_int_equal(piped.edges, m.edges);
        for (size_t k = 0; k < m.n; k++)
            assert_string_equal(piped.op[k].name, m.op[k].name);
        assert_true(m.n >= row[i].ops);
        model_free(&m);
        model_free(&piped);
    }
}

/* The files say the same in either form, in another order. */
static void are_the_same_trace(const char *path, const char *other)
{
    struct model a = {0}, b = {0};
    assert_int_equal(model_import(path, &plain, &a), STATUS_OK);
    assert_int_equal(model_import(other, &plain, &b), STATUS_OK);
    assert_int_equal(b.n, 3); /* c is communication */
    assert_int_equal(b.edges, 3);
    assert_true(has_edge(&b, "a#1", "b#2") && has_edge(&b, "b#2", "d#4") &&
                has_edge(&b, "a#1", "d#4"));
    assert_close(sample_op(&b, "b#2")->forward_flop, 300);
    assert_close(b.profile[0].forward_s[model_find(&b, "d#4")], 40e-6);
    assert_string_equal(a.note, b.note);
    assert_message(b.note, "1 communication 512 bytes");
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.edges, b.edges);
    for (size_t i = 0; i < a.n; i++) {
        assert_string_equal(a.op[i].name, b.op[i].name);
        assert_true(a.op[i].forward_flop == b.op[i].forward_flop);
        assert_true(a.profile[0].forward_s[i] == b.profile[0].forward_s[i]);
    }
    model_free(&a);
    model_free(&b);
}

static void a_trace_of_chakra_is_the_same_model_in_json_and_in_protocol_buffers(void **state)
{
    (void)state;
    are_the_same_trace(CORPUS "chakra.et", CORPUS "chakra.json");
    are_the_same_trace(CORPUS "chakra.et", CORPUS "chakra-jsonizer.json");
}

static void faults_are_one_line_with_their_place(void **state)
{
#define N(fields)       "{\"id\": 1, \"fpgaLatency\": 1" fields "}"
#define M               "{\"id\": 2, \"fpgaLatency\": 1}"
#define E(a, b)         "{\"sourceId\": " #a ", \"destId\": " #b "}"
#define G(nodes, edges) "{\"maxFPGAs\": 1, \"nodes\": [" nodes "],\n \"edges\": [" edges "]}"
#define P(lists)                                                                                   \
    "{\"mbsInBatch\": 1, \"nodes\": [{\"id\": 1,\n \"TMPCs\": " lists "}], \"edges\": []}"
#define W(nodes) "{\"workload_graph\":\n[" nodes "]}"
    static const struct {
        const char *text, *line, *what;
    } row[] = {
        {"{\"a\": 1}", ":1:", "model format"},
        {"{\"attn_heads\": 4,\n \"attn_size\": 4}", ":1:", "\"hidden\" is missing"},
        {"{\"model_type\": \"albert\",\n \"num_hidden_groups\": 0}", ":2:", "expected 1 to"},
        {"{\"nodes\": 3}", ":1:", "model format"},
        {"{\"nodes\": [], \"edges\": []}", ":1:", "model format"},
        {"{\"format\": \"foreline-plan\", \"version\": 1}", ":1:", "expected foreline-model"},
        {"{\"nodes\": [", ":1:", "expected"},
        {G("", ""), ":1:", "no nodes"},
        {G(N("") "," N(""), ""), ":1:", "id 1 is given to two nodes"},
        {G("7", ""), ":1:", "expected an object"},
        {G("{\"id\": 1}", ""), ":1:", "\"fpgaLatency\" is missing"},
        {G(N(", \"size\": -1"), ""), ":1:", "size"},
        {G(N(", \"size\": 1e300"), ""), ":1:", "size"},
        {G(N(", \"colorClass\": \"x\""), ""), ":1:", "colorClass"},
        {G(N(", \"isBackwardNode\": 2"), ""), ":1:", "isBackwardNode"},
        {G(N(", \"name\": 4"), ""), ":1:", "name"},
        {G(N("") "," M, E(1, 2) "," E(2, 1)), ":2:", "part of a cycle"},
        {G(N(""), E(1, 1)), ":2:", "to itself"},
        {G(N(""), E(1, 9)), ":2:", "no node has the id 9"},
        {G(N("") "," M, "{\"sourceId\": 1}"), ":2:", "\"destId\" is missing"},
        {G(N(", \"isBackwardNode\": 1") "," M, E(1, 2)), ":2:", "forward node reads"},
        {P("{}"), ":2:", "at least one configuration"},
        {P("[]"), ":2:", "at least one configuration"},
        {P("{\"1\": []}"), ":2:", "empty list"},
        {P("{\"0\": [{}]}"), ":2:", "degree"},
        {P("{\"02\": [{}]}"), ":2:", "degree"},
        {P("{\"1\": [{}]}"), ":2:", "\"timePerSample\" is missing"},
        {P("{\"1\": 5}"), ":2:", "expected an array"},
        {W("{\"Id\": 1}"), ":2:", "\"NodeType\" is missing"},
        {W("{\"Id\": -1, \"NodeType\": 4}"), ":2:", "-1 is out of range"},
        {W("{\"Id\": 1, \"NodeType\": 8}"), ":2:", "8 is out of range"},
        {W("{\"Id\": 1, \"NodeType\": 4, \"runtime\": -3}"), ":2:", "-3 is out of range"},
        {W("{\"Id\": 1, \"NodeType\": 4, \"data_deps\": [-2]}"), ":2:", "data_deps[0]"},
        {W("{\"Id\": 1, \"NodeType\": 4, \"data_deps\": [1]}"), ":", "node 1 itself"},
        {W("{\"Id\": 1, \"NodeType\": 4},{\"Id\": 1, \"NodeType\": 4}"), ":", "node 1 twice"},
        {"{}\n{\"id\": \"1\"}", ":2:", "\"type\" is missing"},
        {"{}\n{\"id\": \"x\", \"type\": \"COMP_NODE\"}", ":2:", "expected a whole number"},
        {"{}\n{\"type\": \"COMP_NODE\"}{\"type\": \"COMP_NODE\"}", ":", "node 0 twice"},
        {"{}\n{\"type\": \"COMP_NODE\"}}", ":2:", "unexpected token"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct model m = {0};
        assert_int_equal(import(row[i].text, &m), STATUS_PARSE);
        const char *said = error_message();
        bool here = !strncmp(said, scratch, strlen(scratch)) &&
                    !strncmp(said + strlen(scratch), row[i].line, strlen(row[i].line));
        if (!here || !message_says(said, row[i].what) || strchr(said, '\n'))
            fail_msg("'%s' does not say '%s'", said, row[i].what);
    }
}

static void no_degree_for_all_nodes_is_an_error(void **state)
{
    struct model m = {0};
    const char *config = "[{\"timePerSample\": 1, \"parameterSize\": 0, \"memoryUsageA\": 0}]";
    char text[512];
    snprintf(text, sizeof text,
             "{\"nodes\": [{\"id\": 0, \"TMPCs\": {\"1\": %s}}, {\"id\": 1, \"TMPCs\": {\"2\": "
             "%s}}], \"edges\": []}",
             config, config);
    assert_int_equal(import(text, &m), STATUS_PARSE);
    assert_message(error_message(), "no tensor-parallel degree");
}

static void a_minibatch_below_one_sample_is_refused(void **state)
{
    static const char *const file[] = {CORPUS "placement.json", CORPUS "piper.json"};
    const struct import_options o = {.minibatch_size = 0.5};
    for (size_t i = 0; i < 2; i++) {
        struct model m = {0};
        assert_int_equal(model_import(file[i], &o, &m), STATUS_INVALID);
    }
}

static void survives_every_failing_allocation(void **state)
{
    static const char *const file[] = {CORPUS "placement.json", CORPUS "colour-cycle.json",
                                       CORPUS "piper.json", CORPUS "foreline.json",
                                       CORPUS "chakra.json"};
    const struct import_options o = {.minibatch_size = 1, .device = "V100"};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        struct model m = {0};
        FOR_EACH_ALLOC_FAILURE(model_import(file[i], &o, &m))
        assert_true(m.n > 0);
        model_free(&m);
    }
}

/* ---- components */

/* Slow reference: u and v share a component when each reaches the other. */
static void components_agree_with_reachability(void **state)
{
    enum { N = 9 };
    uint32_t seed = 12345;
    for (size_t round = 0; round < 400; round++) {
        struct model_edge arc[2 * N];
        bool reach[N][N] = {{false}};
        uint32_t component[N];
        size_t count, arcs = round % (2 * N);
        for (size_t e = 0; e < arcs; e++) {
            seed = seed * 1664525 + 1013904223;
            arc[e] = (struct model_edge){(seed >> 8) % N, (seed >> 20) % N};
            reach[arc[e].from][arc[e].to] = true;
        }
        for (size_t k = 0; k < N; k++)
            for (size_t i = 0; i < N; i++)
                for (size_t j = 0; j < N; j++)
                    reach[i][j] = reach[i][j] || (reach[i][k] && reach[k][j]);
        assert_int_equal(edges_components(N, arc, arcs, component, &count), STATUS_OK);
        for (size_t i = 0; i < N; i++) {
            assert_true(component[i] < count);
            for (size_t j = 0; j < N; j++)
                assert_int_equal(component[i] == component[j],
                                 i == j || (reach[i][j] && reach[j][i]));
        }
    }
}

/* ---- published files */

static const char *workloads(void)
{
    const char *given = getenv("FORELINE_WORKLOADS");
    return given ? given : WORKLOADS_DIR;
}

/* ResNet-50 has 25,557,032 parameters; times are sums of fpgaLatency over the file. */
static void published_graphs_have_the_parameters_of_their_networks(void **state)
{
    static const struct {
        const char *file;
        size_t ops;
        int64_t parameters;
        double forward_s, backward_s;
    } row[] = {
        {"placement/operators/resnet50_inference.json", 176, 25557032, 0.325131989461, 0},
        {"placement/layers/resnet50_training.json", 177, 25685032, 0.20145, 0.260931},
        {"placement/layers/bert24_training.json", 32, 398735168, 0.092406, 0.125407},
        {"placement/operators/bert_l-3_training.json", 138, 7395778, 0.049352568946, 0.0736346549},
        {"piper/resnet.json", 177, 25557032, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char path[PATH];
        struct model m = {0};
        snprintf(path, sizeof path, "%s/%s", workloads(), row[i].file);
        if (access(path, R_OK) != 0) {
            print_message("no %s: set FORELINE_WORKLOADS\n", path);
            skip();
        }
        assert_int_equal(model_import(path, &plain, &m), STATUS_OK);
        assert_int_equal(m.n, row[i].ops);
        assert_int_equal(model_parameters(&m), row[i].parameters);
        double forward_s = 0, backward_s = 0;
        for (size_t k = 0; k < m.n; k++) {
            forward_s += m.profile[0].forward_s[k];
            backward_s += m.profile[0].backward_s[k];
        }
        if (!isnan(row[i].forward_s)) {
            assert_true(fabs(forward_s - row[i].forward_s) <= 1e-9);
            assert_true(fabs(backward_s - row[i].backward_s) <= 1e-9);
        }
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_colour_is_one_op_with_its_weights_and_gradients),
        cmocka_unit_test(nodes_can_be_kept_apart),
        cmocka_unit_test(without_weight_nodes_parameters_are_what_exceeds_the_output),
        cmocka_unit_test(colours_on_a_cycle_are_fused),
        cmocka_unit_test(repeated_names_get_their_ids),
        cmocka_unit_test(a_recomputing_configuration_tells_forward_from_backward),
        cmocka_unit_test(sizes_of_nodes_that_run_split_only_are_multiplied_up),
        cmocka_unit_test(the_format_is_found_by_content_from_a_pipe_too),
        cmocka_unit_test(a_trace_of_chakra_is_the_same_model_in_json_and_in_protocol_buffers),
        cmocka_unit_test(faults_are_one_line_with_their_place),
        cmocka_unit_test(no_degree_for_all_nodes_is_an_error),
        cmocka_unit_test(a_minibatch_below_one_sample_is_refused),
        cmocka_unit_test(survives_every_failing_allocation),
        cmocka_unit_test(components_agree_with_reachability),
        cmocka_unit_test(published_graphs_have_the_parameters_of_their_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
