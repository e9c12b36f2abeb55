/* Shipped models on shipped platforms: the engines agree where nothing is shared, differ where it
 * is. */
#include <math.h>
#include <stdlib.h>

#include "core/lower/lower.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "topologies/write.h"

static struct lowered set_up(const char *model, const char *platform, size_t stages,
                             uint32_t replicas, const char *schedule)
{
    struct lowered s = {0};
    const struct partition_algorithm *balanced;
    struct partition_request request = {.stages = stages,
                                        .replicas = replicas,
                                        .microbatches = 8 * replicas,
                                        .microbatch_size = 4,
                                        .schedule = schedule,
                                        .optimizer = "adam",
                                        .model = model,
                                        .platform = platform,
                                        .seed = 1};
    if (zoo_build(model, &s.model) != STATUS_OK ||
        topology_resolve(platform, &s.platform) != STATUS_OK ||
        platform_read(s.platform, &s.topology) != STATUS_OK ||
        partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, &s.model, &s.topology, &request, &s.plan) != STATUS_OK ||
        plan_lower(&s.plan, &s.model, &s.topology, &s.program) != STATUS_OK)
        fail_msg("%s", error_message());
    return s;
}

static double seconds_on(const struct engine *e, const struct lowered *s)
{
    struct simulation result = {0};
    double last = 0;
    if (e->run(&s->program, &s->topology, s->platform, NULL, &result) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t i = 0; i < result.timeline.n; i++)
        last = fmax(last, result.timeline.end_s[i]);
    simulation_free(&result);
    return last;
}

static void agree(const char *model, size_t stages, const char *schedule)
{
    struct lowered s = set_up(model, "two-racks", stages, 1, schedule);
    double a = seconds_on(&engine_analytic, &s), b = seconds_on(&engine_simgrid, &s);
    if (!(fabs(a - b) < 1e-6 * b))
        fail_msg("%s, %s, %zu stages: analytic %.9g s, simgrid %.9g s", model, schedule, stages, a,
                 b);
    lowered_free(&s);
}

/* Nothing is shared: an mlp is a chain, so that stages talk to their neighbours only, over NVLink
 * and through both racks; gpt2 has skips, but the four GPUs of a node have a link for every pair.
 */
static void engines_agree_on_uncontended_chains_of_two_racks(void **state)
{
    static const char *const schedule[] = {"gpipe", "1f1b"};
    for (size_t k = 0; k < 2; k++) {
        for (size_t stages = 2; stages <= 16; stages *= 2)
            agree("mlp:layers=12,hidden=4096", stages, schedule[k]);
        for (size_t stages = 2; stages <= 4; stages++) {
            agree("gpt2-small", stages, schedule[k]);
            agree("bert-base", stages, schedule[k]);
        }
    }
}

/* Four stages of four replicas, one replica per node: the four rings of a node share its NIC, on
 * either engine; where the links are not known they cannot. */
static void replicas_share_the_nic_of_their_node(void **state)
{
    struct lowered s = set_up("gpt2-small", "two-racks", 4, 4, "1f1b");
    double a = seconds_on(&engine_analytic, &s), b = seconds_on(&engine_simgrid, &s);
    size_t links = s.topology.links;
    s.topology.links = 0;
    double alone = seconds_on(&engine_analytic, &s);
    s.topology.links = links;
    if (!(fabs(a - b) < 1e-6 * b && b > 1.1 * alone))
        fail_msg("analytic %.9g s, simgrid %.9g s, %.9g s without links", a, b, alone);
    lowered_free(&s);
}

/* A NIC for every GPU of the DGX, one for a node elsewhere, none that anybody could share on a
 * machine that is one node. One all-reduce over everything then takes the same on both engines. */
static void ways_out_of_a_node_are_counted(void **state)
{
    static const struct {
        const char *platform;
        double nics;
    } row[] = {{"dgx-a100-x2", 8}, {"dgx-h100-x4", 8}, {"hidup-8xv100", 1},
               {"pipedream-a", 1}, {"two-racks", 1},   {"laptop", 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct topology t = {0};
        char *path;
        assert_int_equal(topology_resolve(row[i].platform, &path), STATUS_OK);
        assert_int_equal(platform_read(path, &t), STATUS_OK);
        for (size_t k = 0; k < t.types; k++)
            assert_true(t.type[k].nics == row[i].nics);
        struct lowered s = set_up("gpt2-small", row[i].platform, 1, (uint32_t)t.n, "1f1b");
        double a = seconds_on(&engine_analytic, &s), b = seconds_on(&engine_simgrid, &s);
        if (fabs(a - b) > 0.02 * b)
            fail_msg("%s: analytic %.9g s, simgrid %.9g s", row[i].platform, a, b);
        lowered_free(&s);
        topology_free(&t);
        free(path);
    }
}

/* 8 GPUs behind links of 24 GB/s share the port of their node: what leaves it is the port's, and
 * where that is wide enough their own, without a step where the one becomes narrower than the
 * other. Where the links are not known the closed form says it, which is compared with the
 * flows. */
static void what_leaves_a_node_grows_with_its_port(void **state)
{
    static const double port_GBps[] = {12.5, 24, 24.0625, 25, 37.5, 48, 60, 187, 192, 200};
    double before = INFINITY;
    for (size_t i = 0; i < sizeof port_GBps / sizeof *port_GBps; i++) {
        char name[128];
        double port = port_GBps[i], ways = fmin(port / fmin(port, 24), 8);
        snprintf(name, sizeof name, "leaf-spine:nodes=2,gpus=8,type=A100,nic=%gGBps", port);
        struct lowered s = set_up("gpt2-small", name, 1, 16, "1f1b");
        double seen = s.topology.type[0].nics;
        if (!(fabs(seen - ways) < 1e-9 * ways))
            fail_msg("%s: %.9g ways out of a node, not %.9g", name, seen, ways);
        double flows = seconds_on(&engine_analytic, &s);
        size_t links = s.topology.links;
        s.topology.links = 0;
        double closed = seconds_on(&engine_analytic, &s);
        s.topology.links = links;
        if (!(fabs(closed - flows) < 0.02 * flows) || !(closed < before * (1 + 1e-9)))
            fail_msg("%s: %.9g s, flows %.9g s, less wide %.9g s", name, closed, flows, before);
        before = closed;
        lowered_free(&s);
    }
}

static void every_platform_runs_a_pipeline_over_all_its_devices(void **state)
{
    char **name;
    size_t n;
    assert_int_equal(topology_list(&name, &n), STATUS_OK);
    assert_true(n >= 6);
    for (size_t i = 0; i < n; i++) {
        struct topology t = {0};
        char *path;
        assert_int_equal(topology_resolve(name[i], &path), STATUS_OK);
        assert_int_equal(platform_read(path, &t), STATUS_OK);
        struct lowered s = set_up("gpt2-small", name[i], t.n, 1, "1f1b");
        double a = seconds_on(&engine_analytic, &s), b = seconds_on(&engine_simgrid, &s);
        if (!(b > 0.95 * a && a > 0))
            fail_msg("%s: analytic %.9g s, simgrid %.9g s", name[i], a, b);
        lowered_free(&s);
        topology_free(&t);
        free(path);
        free(name[i]);
    }
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_agree_on_uncontended_chains_of_two_racks),
        cmocka_unit_test(replicas_share_the_nic_of_their_node),
        cmocka_unit_test(ways_out_of_a_node_are_counted),
        cmocka_unit_test(what_leaves_a_node_grows_with_its_port),
        cmocka_unit_test(every_platform_runs_a_pipeline_over_all_its_devices),
    };
    return cmocka_run_group_tests_name("shipped", tests, NULL, NULL);
}
