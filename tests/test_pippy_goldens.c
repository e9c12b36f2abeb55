/* PiPPy's graph split on the published inputs: presolved sizes and objectives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "model/import.h"
#include "papers/pippy/pippy.h"
#include "tests/cmocka.h"

static const char *workloads(void)
{
    const char *given = getenv("FORELINE_WORKLOADS");
    return given ? given : WORKLOADS_DIR;
}

static bool are_here(const char *path)
{
    FILE *f = fopen(path, "r");
    if (f)
        fclose(f);
    else
        print_message("no %s: set FORELINE_WORKLOADS\n", path);
    return f != NULL;
}

/* Solve by ideals and check against the golden; NAN: infeasible. With `branch` GLPK has to agree.
 */
static void check(struct pippy_graph *g, size_t stages, size_t nodes, size_t kept, double golden,
                  bool branch)
{
    struct objective_request r = {.stages = stages};
    struct pippy_problem p;
    enum pippy_verdict verdict;
    size_t ideals;
    uint32_t *cluster = calloc(g->nodes, sizeof *cluster), *at = calloc(g->nodes, sizeof *at);
    assert_non_null(cluster);
    assert_non_null(at);
    assert_int_equal(pippy_presolve(g, stages, &p), STATUS_OK);
    assert_int_equal(p.nodes, nodes);
    assert_int_equal(p.kept, kept);
    for (int exact = 0; exact < (branch ? 2 : 1); exact++) {
        if (exact == 0)
            assert_int_equal(pippy_ideals(&p, &r, PIPPY_IDEALS, cluster, &verdict, &ideals),
                             STATUS_OK);
        else
            assert_int_equal(pippy_branch(&p, &r, cluster, &verdict), STATUS_OK);
        assert_int_equal(verdict, isnan(golden) ? PIPPY_INFEASIBLE : PIPPY_OPTIMAL);
        if (isnan(golden))
            continue;
        double value;
        for (size_t v = 0; v < g->nodes; v++)
            at[v] = cluster[p.cluster_of[v]];
        assert_int_equal(pippy_value(g, &p, at, &value), STATUS_OK);
        if (!(fabs(value - golden) <= 1e-7 * fabs(golden)))
            fail_msg("%zu stages: %.12g, golden %.12g", stages, value, golden);
    }
    pippy_problem_free(&p);
    free(cluster);
    free(at);
}

static void profiles_give_the_published_objectives(void **state)
{
    static const struct {
        const char *name;
        bool parameters;
        size_t stages, nodes, edges, presolved_nodes, presolved_edges;
        double objective; /* SEEDS.md 3.5 */
        bool branch;
    } row[] = {
        {"vgg16", false, 2, 41, 41, 4, 4, NAN, true},
        {"vgg16", false, 4, 41, 41, 4, 4, NAN, true},
        {"alexnet", false, 2, 23, 23, 4, 4, NAN, true},
        {"alexnet", false, 4, 23, 23, 4, 4, NAN, true},
        {"vgg16", true, 2, 57, 57, 19, 19, -1541406738, true},
        {"vgg16", true, 4, 57, 57, 19, 19, NAN, true},
        {"alexnet", true, 2, 31, 31, 11, 11, NAN, true},
        {"alexnet", true, 4, 31, 31, 11, 11, NAN, true},
        {"gnmt", false, 2, 48, 58, 35, 45, -24857640, true},
        {"gnmt", false, 4, 48, 58, 35, 45, -42631203, true},
        {"resnet50", false, 2, 177, 193, 56, 72, -2508783687, true},
        {"resnet50", false, 4, 177, 193, 56, 72, NAN, true},
        {"resnet50", true, 2, 284, 300, 142, 158, -2658926748, true},
        {"resnet50", true, 4, 284, 300, 142, 158, NAN, false},
        {"densenet121", true, 2, 671, 729, 307, 365, -1796833644, true},
        {"densenet121", true, 4, 671, 729, 307, 365, -2535424360, false},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char path[4096];
        const struct import_options options = {.minibatch_size = 1};
        struct model m;
        struct pippy_graph g;
        snprintf(path, sizeof path, "%s/pipedream/profiles/%s/graph.txt", workloads(), row[i].name);
        if (!are_here(path))
            skip();
        assert_int_equal(model_import(path, &options, &m), STATUS_OK);
        assert_int_equal(pippy_graph_of(&m, row[i].parameters, &g), STATUS_OK);
        assert_int_equal(g.nodes, row[i].nodes);
        assert_int_equal(g.edges, row[i].edges);
        check(&g, row[i].stages, row[i].presolved_nodes, row[i].presolved_edges, row[i].objective,
              row[i].branch);
        pippy_graph_free(&g);
        model_free(&m);
    }
}

/* ---- operator graphs, in bytes: memory = size, weight = size of the edge */

static double real(const struct json_at *object, const char *key)
{
    double value = NAN;
    assert_int_equal(json_may_real(object, key, -1e30, 1e30, &value), STATUS_OK);
    return value;
}

static struct pippy_graph read_operators(const char *path)
{
    struct json_document d;
    struct json_at root, nodes, edges;
    struct pippy_graph g = {0};
    assert_int_equal(json_read(path, NULL, 0, &d), STATUS_OK);
    root = json_root(&d);
    assert_int_equal(json_field(&root, "nodes", &nodes), STATUS_OK);
    assert_int_equal(json_field(&root, "edges", &edges), STATUS_OK);
    assert_int_equal(json_get_array(&nodes, 10000, &g.nodes), STATUS_OK);
    assert_int_equal(json_get_array(&edges, 10000, &g.edges), STATUS_OK);
    g.memory = arena_new(&g.owned, g.nodes, sizeof *g.memory);
    g.edge = arena_new(&g.owned, g.edges, sizeof *g.edge);
    double *id = calloc(g.nodes, sizeof *id);
    assert_true(g.memory && g.edge && id);
    for (size_t v = 0; v < g.nodes; v++) {
        struct json_at node = json_item(&nodes, v);
        double size = real(&node, "size");
        g.memory[v] = isnan(size) ? 0 : size;
        id[v] = real(&node, "id");
    }
    for (size_t e = 0; e < g.edges; e++) {
        struct json_at edge = json_item(&edges, e);
        g.edge[e] = (struct pippy_edge){.weight = real(&edge, "size"), .count = 1};
        while (id[g.edge[e].from] != real(&edge, "sourceId"))
            g.edge[e].from++;
        while (id[g.edge[e].to] != real(&edge, "destId"))
            g.edge[e].to++;
    }
    free(id);
    json_document_free(&d);
    return g;
}

/* The same through the importer and the objective, as the command line goes. */
static void check_command(const char *path, const struct json_at *record, size_t stages)
{
    const struct import_options options = {.minibatch_size = 1,
                                           .nodes_apart = objective_pippy.nodes_apart};
    struct model m = {0};
    struct objective_result out = {0};
    char sizes[64];
    double golden = real(record, "objective");
    assert_int_equal(model_import(path, &options, &m), STATUS_OK);
    const struct objective_request r = {.spec = path, .model = &m, .stages = stages};
    assert_int_equal(objective_solve(&objective_pippy, "milp", &r, &out), STATUS_OK);
    snprintf(sizes, sizeof sizes, "(%.0f and %.0f after presolve);", real(record, "n"),
             real(record, "m"));
    assert_non_null(strstr(out.note, sizes));
    if (isnan(golden)) { /* a plan all the same, and the reason */
        assert_int_equal(out.parts, stages);
        assert_non_null(strstr(out.note, "infeasible, balanced split instead: no "));
        assert_false(out.proved_optimal);
    } else {
        assert_true(fabs(out.value - golden) <= 1e-4 * fabs(golden));
        assert_true(out.proved_optimal);
    }
    objective_result_free(&out);
    model_free(&m);
}

static void operator_graphs_give_the_published_objectives(void **state)
{
    char path[4096];
    struct json_document d;
    struct json_at root, records, params;
    size_t n, checked = 0;
    snprintf(path, sizeof path, "%s/goldens.json", workloads());
    if (!are_here(path))
        skip();
    assert_int_equal(json_read(path, NULL, 0, &d), STATUS_OK);
    root = json_root(&d);
    assert_int_equal(json_field(&root, "records", &records), STATUS_OK);
    assert_int_equal(json_get_array(&records, 100000, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++) {
        struct json_at record = json_item(&records, i);
        char *peer = NULL, *input = NULL;
        assert_int_equal(json_need_text(&record, "peer", &peer), STATUS_OK);
        if (!strcmp(peer, "pippy-milp")) {
            assert_int_equal(json_need_text(&record, "input", &input), STATUS_OK);
            assert_int_equal(json_field(&record, "params", &params), STATUS_OK);
            snprintf(path, sizeof path, "%s/%s", workloads(), input);
            struct pippy_graph g = read_operators(path);
            size_t stages = (size_t)real(&params, "K");
            check(&g, stages, (size_t)real(&record, "n"), (size_t)real(&record, "m"),
                  real(&record, "objective"), stages == 2);
            pippy_graph_free(&g);
            check_command(path, &record, stages);
            checked++;
        }
        free(peer);
        free(input);
    }
    assert_int_equal(checked, 8);
    json_document_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_give_the_published_objectives),
        cmocka_unit_test(operator_graphs_give_the_published_objectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
