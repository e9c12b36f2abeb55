/* Exports: GOAL text replayed by rules of its own, Chakra traces read back field by field. */
#include "sim/export/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"
#include "sim/workload.h"
#include "tests/chakra_read.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/goal_replay.h"
#include "tests/racks.h"
#include "tests/sample.h"

static const struct provenance by = {.version = "foreline 0", .command = "test", .seed = 7};
static const double latency_s = 1e-6, Bps = 50e9;
static const struct goal_rules rules = {.latency_ns = 1000, .byte_ns = 0.02};

struct setup {
    struct model model;
    struct topology topology;
    struct plan plan;
    struct program program;
    char folder[32];
};

static struct setup set_up(struct model m, size_t stages, uint32_t replicas, uint32_t microbatches,
                           const char *schedule)
{
    struct setup s = {.model = m, .folder = "/tmp/foreline-test-XXXXXX"};
    s.topology = sample_clique(stages * replicas + 1, latency_s, Bps);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, schedule);
    assert_non_null(mkdtemp(s.folder));
    return s;
}

static void lower(struct setup *s)
{
    program_free(&s->program);
    if (plan_lower(&s->plan, &s->model, &s->topology, &s->program) != STATUS_OK)
        fail_msg("%s", error_message());
}

static const char *file_in(const struct setup *s, const char *name, char path[80])
{
    snprintf(path, 80, "%s/%s", s->folder, name);
    return path;
}

static void tear_down(struct setup *s)
{
    char path[80], name[40];
    for (size_t r = 0; r < s->program.ranks; r++) {
        snprintf(name, sizeof name, "foreline.%zu.et", r);
        unlink(file_in(s, name, path));
    }
    unlink(file_in(s, "comm_group.json", path));
    unlink(file_in(s, "p.goal", path));
    assert_int_equal(rmdir(s->folder), 0); /* nothing else is left behind */
    program_free(&s->program);
    plan_free(&s->plan);
    topology_free(&s->topology);
    model_free(&s->model);
}

static char *goal_in(const struct setup *s, const struct exporter *e, const char *algorithm,
                     double unit_s)
{
    const struct collective_options c = {.algorithm = algorithm};
    const struct export_options o = {&c, unit_s};
    char path[80], *text;
    size_t length;
    file_in(s, "p.goal", path);
    if (e->write(&s->program, &s->topology, &o, path, &by) != STATUS_OK ||
        file_read(path, &text, &length) != STATUS_OK)
        fail_msg("%s", error_message());
    return text;
}

static char *goal_of(const struct setup *s, const struct exporter *e, const char *algorithm)
{
    return goal_in(s, e, algorithm, 0);
}

/* Both at once: what the text replays to, and what the analytic engine says. */
static void compare(const struct setup *s, const char *algorithm, const char *what)
{
    const struct simulation_options o = {.collective.algorithm = algorithm};
    struct simulation result = {0};
    double expected = 0;
    if (engine_analytic.run(&s->program, &s->topology, NULL, &o, &result) != STATUS_OK)
        fail_msg("%s", error_message());
    for (size_t i = 0; i < s->program.ops; i++)
        expected = fmax(expected, result.timeline.end_s[i]);
    simulation_free(&result);
    char *text = goal_of(s, &exporter_atlahs, algorithm);
    struct goal_result replayed = goal_replay(text, &rules);
    if (!(fabs(replayed.seconds / expected - 1) <= 1e-6))
        fail_msg("%s: %.12g, expected %.12g", what, replayed.seconds, expected);
    free(text);
}

/* ---- GOAL */

static void two_stages_are_the_lines_that_one_would_write(void **state)
{
    struct setup s = set_up(sample_chain(2, 1e-3, 2e-3, 0, 500), 2, 1, 1, "1f1b");
    lower(&s);
    char *text = goal_of(&s, &exporter_atlahs, "ring");
    assert_string_equal(
        text, "// foreline 0: test, seed 7\n"
              "// port at 5e+10 bytes/s, in units of 1 ns: -L 1000 -G 0.02 -o 0 -g 0 -O 0 -S "
              "2000000000\n"
              "num_ranks 2\n"
              "\nrank 0 {\n"
              "l1: calc 1000000 cpu 0\n"
              "l2: send 500b to 1 tag 0 cpu 1\n"
              "l2 requires l1\n"
              "l3: recv 500b from 1 tag 1 cpu 1\n"
              "l4: calc 2000000 cpu 0\n"
              "l4 requires l1\n"
              "l4 requires l3\n"
              "l5: calc 0 cpu 0\n"
              "l5 requires l4\n"
              "}\n"
              "\nrank 1 {\n"
              "l1: recv 500b from 0 tag 0 cpu 1\n"
              "l2: calc 1000000 cpu 0\n"
              "l2 requires l1\n"
              "l3: calc 2000000 cpu 0\n"
              "l3 requires l2\n"
              "l4: send 500b to 0 tag 1 cpu 1\n"
              "l4 requires l3\n"
              "l5: calc 0 cpu 0\n"
              "l5 requires l3\n"
              "}\n");
    free(text);
    tear_down(&s);
}

/* Large sizes, so that the byte that LogGP does not charge is less than 1e-6. */
static void rings_replay_to_the_closed_form(void **state)
{
    for (uint32_t n = 2; n <= 8; n++) {
        struct setup s = set_up(sample_chain(1, 1e-3, 2e-3, 64000000, 0), 1, n, 2 * n, "gpipe");
        lower(&s);
        char *text = goal_of(&s, &exporter_goal, "ring");
        assert_null(strstr(text, "cpu"));
        struct goal_result r = goal_replay(text, &rules);
        assert_int_equal(r.sends, 2 * n * (n - 1));
        assert_int_equal(r.recvs, r.sends);
        double ring_s = 2.0 * (n - 1) / n * 64e6 / Bps + 2 * (n - 1) * latency_s;
        assert_near(r.seconds / (2 * 3e-3 + ring_s + 4 * 64e6 / 1e12), 1, 1e-6);
        free(text);
        compare(&s, "ring", "ring");
        tear_down(&s);
    }
}

/* Two nodes of four with ways out for several rings, whose flows inside a node meet: there are no
 * whole rings to take step by step, and the flows of the phase are exported. */
static void rings_that_share_edges_replay_to_the_analytic_time(void **state)
{
    struct topology_tier tier[] = {{(char *)"nvlink", latency_s, Bps},
                                   {(char *)"nic", latency_s, Bps}};
    for (uint32_t nics = 1; nics <= 4; nics++) {
        struct setup s = set_up(sample_chain(1, 1e-3, 2e-3, 64000000, 0), 1, 8, 8, "gpipe");
        topology_free(&s.topology);
        s.topology = racks_nodes(2, 4, "gpu", tier);
        s.topology.type[0].nics = nics;
        s.topology.type[0].memory_Bps = 1e12;
        lower(&s);
        char *text = goal_of(&s, &exporter_atlahs, "ring");
        struct goal_result r = goal_replay(text, &rules);
        assert_true(r.sends > 0);
        assert_int_equal(r.sends, r.recvs);
        free(text);
        compare(&s, "ring", "rings side by side");
        tear_down(&s);
    }
}

static void pipelines_replay_to_the_analytic_time(void **state)
{
    static const char *const schedule[] = {"sequential", "gpipe", "1f1b", "zb-h1"};
    for (size_t k = 0; k < sizeof schedule / sizeof *schedule; k++)
        for (uint32_t replicas = 1; replicas <= 3; replicas++) {
            struct setup s = set_up(sample_chain(4, 1e-3, 2e-3, 64000000, 8000000), 4, replicas,
                                    6 * replicas, schedule[k]);
            lower(&s);
            compare(&s, "ring", schedule[k]);
            tear_down(&s);
        }
}

static void other_algorithms_replay_to_their_closed_forms(void **state)
{
    static const char *const algorithm[] = {"tree", "switch", "direct"};
    for (size_t k = 0; k < sizeof algorithm / sizeof *algorithm; k++)
        for (uint32_t n = 2; n <= 8; n *= 2) {
            struct setup s = set_up(sample_chain(1, 1e-3, 2e-3, 64000000, 0), 1, n, n, "gpipe");
            if (k == 2) { /* all-to-all: experts over all replicas */
                s.model.op[0].exchange_bytes = 64000000;
                s.plan.stage[0].expert_parallel = n;
            }
            lower(&s);
            compare(&s, algorithm[k], algorithm[k]);
            tear_down(&s);
        }
}

static void sharded_states_and_buckets_replay_to_the_analytic_time(void **state)
{
    for (uint32_t zero = 0; zero <= 3; zero++) {
        struct setup s = set_up(sample_chain(4, 1e-3, 2e-3, 64000000, 8000000), 1, 4, 8, "1f1b");
        s.plan.zero = zero;
        s.plan.bucket_bytes = zero == 0 ? 64000000 : 0;
        lower(&s);
        compare(&s, "ring", "zero");
        tear_down(&s);
    }
}

/* The analytic engine's time, as if nobody shared a port, under ATLAHS' rules, and under
 * LogGOPSim's the time that it published: 265.2 ms over 64 ranks (docs/reference/bench.md). */
static void the_published_pipeline_replays_to_both_times(void **state)
{
    const struct workload_kind *pipe;
    const struct goal_rules loggopsim = {
        .latency_ns = 1000, .byte_ns = 0.02, .receiver_busy = true};
    struct workload w = {0};
    struct topology none = {0};
    struct setup s = set_up(sample_chain(1, 0, 0, 0, 0), 1, 1, 1, "gpipe");
    assert_int_equal(workload_find("pipe", &pipe), STATUS_OK);
    assert_int_equal(workload_make(pipe, 64, &none, &w), STATUS_OK);
    assert_int_equal(plan_lower(&w.plan, &w.model, &w.topology, &s.program), STATUS_OK);
    topology_free(&s.topology);
    s.topology = w.topology;
    w.topology = (struct topology){0};
    size_t links = s.topology.links;
    s.topology.links = 0;
    compare(&s, "ring", "pipe");
    s.topology.links = links;
    char *text = goal_of(&s, &exporter_goal, "ring");
    const double published_s = goal_replay(text, &loggopsim).seconds;
    assert_near(published_s, 265.2e-3, 0.05e-3);
    assert_message(text, "-G number --export goal:0.02ns=FILE 1");
    free(text);
    /* In units of 20 ps a byte takes one, and all times are 50 times as many. */
    const struct goal_rules whole = {.latency_ns = 50000, .byte_ns = 1, .receiver_busy = true};
    text = goal_in(&s, &exporter_goal, "ring", 20e-12);
    assert_near(goal_replay(text, &whole).seconds / 50, published_s, 1e-6 * published_s);
    assert_non_null(strstr(text, "in units of 0.02 ns: -L 50000 -G 1 -o 0"));
    free(text);
    workload_free(&w);
    tear_down(&s);
}

/* ---- Chakra */

/* Kinds of attributes: int32 7, int64 9, bool 27, string 29. */
static void check_node(const struct program *p, uint32_t rank, size_t i,
                       const struct chakra_node *n)
{
    const struct program_op *o = &p->op[i];
    size_t base = p->op_start[rank];
    char label[OP_LABEL], group[16];
    assert_string_equal(n->name, op_label(o, label));
    assert_int_equal(chakra_attr_of(n, "is_cpu_op", 27)->value, 0);
    for (uint32_t d = o->dep_start; d < o[1].dep_start; d++)
        assert_true(chakra_waits_for(n, p->dep[d] - base));
    if (op_computes(o)) {
        assert_int_equal(n->type, 4);
        assert_int_equal(n->duration, (uint64_t)llround(o->seconds * 1e6));
        assert_true(chakra_attr_of(n, "seconds", 3)->real == o->seconds);
        for (size_t k = i; k-- > base;) /* and for the compute op before */
            if (op_computes(&p->op[k])) {
                assert_true(chakra_waits_for(n, k - base));
                break;
            }
        return;
    }
    /* Of an all-gather what one member brings: ASTRA-sim takes it so. */
    uint64_t brought =
        o->kind == OP_ALLGATHER ? p->group_start[o->peer + 1] - p->group_start[o->peer] : 1;
    assert_int_equal(chakra_attr_of(n, "comm_size", 9)->value,
                     ((uint64_t)o->bytes + brought - 1) / brought);
    if (op_is_collective(o)) {
        assert_int_equal(n->type, 7);
        assert_int_equal(chakra_attr_of(n, "comm_type", 9)->value, o->kind == OP_ALLREDUCE   ? 0
                                                                   : o->kind == OP_ALLGATHER ? 2
                                                                                             : 7);
        snprintf(group, sizeof group, "%u", o->peer + 1);
        assert_string_equal(chakra_attr_of(n, "pg_name", 29)->text, group);
        return;
    }
    bool sends = o->kind == OP_SEND;
    assert_int_equal(n->type, sends ? 5 : 6);
    assert_int_equal(chakra_attr_of(n, "comm_src", 7)->value, sends ? rank : o->peer);
    assert_int_equal(chakra_attr_of(n, "comm_dst", 7)->value, sends ? o->peer : rank);
    assert_int_equal(chakra_attr_of(n, "comm_tag", 7)->value, o->tag);
}

static void check_trace(const struct setup *s, uint32_t rank)
{
    char path[80], name[40], *data, version[16] = "";
    size_t length;
    snprintf(name, sizeof name, "foreline.%u.et", rank);
    if (file_read(file_in(s, name, path), &data, &length) != STATUS_OK)
        fail_msg("%s", error_message());
    struct chakra_bytes all = {(unsigned char *)data, (unsigned char *)data + length};
    struct chakra_bytes metadata = chakra_piece(&all);
    assert_int_equal(chakra_varint(&metadata), 1 << 3 | 2);
    chakra_text_of(chakra_piece(&metadata), version, sizeof version);
    assert_string_equal(version, "0.0.4");
    assert_int_equal(chakra_varint(&metadata), 2 << 3 | 2);
    struct chakra_attr generator = chakra_attr(chakra_piece(&metadata));
    assert_string_equal(generator.name, "generator");
    assert_string_equal(generator.text, "foreline 0");
    for (size_t i = s->program.op_start[rank]; i < s->program.op_start[rank + 1]; i++) {
        struct chakra_node n = chakra_node(chakra_piece(&all));
        assert_int_equal(n.id, i - s->program.op_start[rank]);
        check_node(&s->program, rank, i, &n);
    }
    assert_ptr_equal(all.at, all.end);
    free(data);
}

static void traces_hold_every_op_with_its_fields(void **state)
{
    for (uint32_t zero = 0; zero <= 1; zero++) {
        struct setup s = set_up(sample_chain(4, 1e-3, 2e-3, 4000000, 3000000000), 2, 2, 6, "1f1b");
        char path[80], *text;
        size_t length;
        s.plan.zero = zero;
        lower(&s);
        assert_int_equal(exporter_chakra.write(&s.program, &s.topology, NULL, s.folder, &by),
                         STATUS_OK);
        for (uint32_t r = 0; r < 4; r++)
            check_trace(&s, r);
        assert_int_equal(file_read(file_in(&s, "comm_group.json", path), &text, &length),
                         STATUS_OK);
        assert_string_equal(text, "{\n  \"1\": [0, 1],\n  \"2\": [2, 3]\n}\n");
        free(text);
        tear_down(&s);
    }
}

/* A collective of several calls is as many nodes, each after the one before. */
static void calls_in_a_row_are_nodes_in_a_row(void **state)
{
    struct setup s = set_up(sample_chain(1, 1e-3, 2e-3, 0, 0), 1, 2, 2, "1f1b");
    char path[80], *data;
    size_t length, calls = 0;
    s.model.op[0].exchange_bytes = 1000;
    s.plan.stage[0].expert_parallel = 2;
    lower(&s);
    assert_int_equal(exporter_chakra.write(&s.program, &s.topology, NULL, s.folder, &by),
                     STATUS_OK);
    assert_int_equal(file_read(file_in(&s, "foreline.0.et", path), &data, &length), STATUS_OK);
    struct chakra_bytes all = {(unsigned char *)data, (unsigned char *)data + length};
    chakra_piece(&all);
    for (uint64_t id = 0; all.at < all.end; id++) {
        struct chakra_node n = chakra_node(chakra_piece(&all));
        assert_int_equal(n.id, id);
        if (n.type != 7)
            continue;
        assert_int_equal(chakra_attr_of(&n, "comm_type", 9)->value, 6);
        assert_true(chakra_waits_for(&n, id - 1));
        calls++;
    }
    assert_int_equal(calls, 4); /* there and back, forward and backward */
    free(data);
    tear_down(&s);
}

/* ---- errors */

static void refuses_unknown_formats_and_folded_programs(void **state)
{
    const struct exporter *e;
    const char *path;
    double unit_s;
    assert_int_equal(export_parse("goal=a=b", &e, &path, &unit_s), STATUS_OK);
    assert_ptr_equal(e, &exporter_goal);
    assert_string_equal(path, "a=b");
    assert_int_equal(export_parse("atlahs:20us=a", &e, &path, &unit_s), STATUS_OK);
    assert_near(unit_s, 20e-6, 1e-18);
    assert_int_equal(export_parse("chakra:1ns=a", &e, &path, &unit_s), STATUS_INVALID);
    assert_int_equal(export_parse("goal:1=a", &e, &path, &unit_s), STATUS_INVALID);
    assert_int_equal(export_parse("goal", &e, &path, &unit_s), STATUS_INVALID);
    assert_int_equal(export_parse("goal=", &e, &path, &unit_s), STATUS_INVALID);
    assert_int_equal(export_parse("paje=x", &e, &path, &unit_s), STATUS_INVALID);
    assert_message(error_message(), "export format 'paje'; goal, atlahs, chakra");
    struct setup s = set_up(sample_chain(1, 1e-3, 2e-3, 100, 0), 1, 2, 2, "1f1b");
    assert_int_equal(plan_lower_folded(&s.plan, &s.model, &s.topology, NULL, &s.program),
                     STATUS_OK);
    for (size_t k = 0; k < exporters_n; k++)
        assert_int_equal(exporters[k]->write(&s.program, &s.topology, NULL, "/tmp/x", &by),
                         STATUS_UNSUPPORTED);
    lower(&s);
    for (size_t k = 0; k < exporters_n; k++)
        assert_int_equal(exporters[k]->write(&s.program, &s.topology, NULL, "/nonexistent/x", &by),
                         STATUS_IO);
    tear_down(&s);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct setup s = set_up(sample_chain(2, 1e-3, 2e-3, 1000, 1000), 2, 2, 2, "1f1b");
    char path[80];
    lower(&s);
    FOR_EACH_ALLOC_FAILURE(
        exporter_goal.write(&s.program, &s.topology, NULL, file_in(&s, "p.goal", path), &by));
    FOR_EACH_ALLOC_FAILURE(exporter_chakra.write(&s.program, &s.topology, NULL, s.folder, &by));
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_are_the_lines_that_one_would_write),
        cmocka_unit_test(rings_replay_to_the_closed_form),
        cmocka_unit_test(rings_that_share_edges_replay_to_the_analytic_time),
        cmocka_unit_test(pipelines_replay_to_the_analytic_time),
        cmocka_unit_test(other_algorithms_replay_to_their_closed_forms),
        cmocka_unit_test(sharded_states_and_buckets_replay_to_the_analytic_time),
        cmocka_unit_test(the_published_pipeline_replays_to_both_times),
        cmocka_unit_test(traces_hold_every_op_with_its_fields),
        cmocka_unit_test(calls_in_a_row_are_nodes_in_a_row),
        cmocka_unit_test(refuses_unknown_formats_and_folded_programs),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}
