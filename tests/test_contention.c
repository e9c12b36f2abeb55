/* Links that are shared: what SimGrid says of oversubscribed spines and of collectives that meet,
 * against arithmetic. Ports of 1 GB/s, no latencies but where said, so that bytes are nanoseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"
#include "topologies/write.h"

enum { MEGA = 1000000, RACKS = 2 };

static const double forward_s = 1e-3, backward_s = 2e-3;

/* Devices h0, h2, ... in one rack and h1, h3, ... in the other: ports of 1 GB/s to the rack's
 * switch, which has `uplink` GB/s to the spine. */
static void write_racks(const char *path, size_t n, double uplink)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"DijkstraCache\">\n",
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "<host id=\"h%zu\" speed=\"1Tf\"/>\n", i);
    fputs("<router id=\"r0\"/><router id=\"r1\"/><router id=\"spine\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<link id=\"port%zu\" bandwidth=\"1GBps\" latency=\"0s\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i);
    for (int r = 0; r < RACKS; r++)
        fprintf(f,
                "<link id=\"up%d\" bandwidth=\"%gGBps\" latency=\"0s\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                r, uplink);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<route src=\"h%zu\" dst=\"r%zu\">"
                "<link_ctn id=\"port%zu\" direction=\"UP\"/></route>\n",
                i, i % RACKS, i);
    for (int r = 0; r < RACKS; r++)
        fprintf(f,
                "<route src=\"r%d\" dst=\"spine\">"
                "<link_ctn id=\"up%d\" direction=\"UP\"/></route>\n",
                r, r);
    fputs("</zone>\n</platform>\n", f);
    fclose(f);
}

static struct lowered set_up(size_t stages, uint32_t replicas, int64_t parameter_bytes,
                             double uplink)
{
    struct lowered s = {
        .model = sample_chain(stages, forward_s, backward_s, parameter_bytes, 0),
        .topology = sample_clique(stages * replicas, 0, 1e9),
        .platform = sample_star_file(stages * replicas, 0, 1e9),
    };
    s.plan = sample_plan(&s.model, stages, replicas, replicas, "gpipe");
    if (uplink > 0)
        write_racks(s.platform, stages * replicas, uplink);
    return s;
}

static void place(struct lowered *s, size_t stage, const uint32_t *device)
{
    struct plan_stage *p = &s->plan.stage[stage];
    memcpy(p->device, device, p->devices * sizeof *device);
}

static void tear_down(struct lowered *s)
{
    unlink(s->platform);
    lowered_free(s);
}

static struct simulation simulate(struct lowered *s, const struct engine *e, const char *algorithm)
{
    struct simulation result = {0};
    const struct simulation_options options = {.collective.algorithm = algorithm};
    program_free(&s->program);
    if (plan_lower(&s->plan, &s->model, &s->topology, &s->program) != STATUS_OK ||
        e->run(&s->program, &s->topology, s->platform, &options, &result) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    return result;
}

/* Seconds of the all-reduce of a stage's gradients, from and to. */
static void all_reduce(const struct lowered *s, const struct simulation *of, uint32_t stage,
                       double *from, double *to)
{
    for (size_t i = 0; i < s->program.ops; i++)
        if (s->program.op[i].kind == OP_ALLREDUCE && s->program.op[i].stage == stage) {
            *from = of->timeline.start_s[i];
            *to = of->timeline.end_s[i];
            return;
        }
    fail_msg("no all-reduce of stage %u", stage);
}

static double all_reduce_s(struct lowered *s, const struct engine *e, const char *algorithm)
{
    double from = 0, to = 0;
    struct simulation result = simulate(s, e, algorithm);
    all_reduce(s, &result, 0, &from, &to);
    simulation_free(&result);
    return to - from;
}

static double link_bytes(const struct simulation *of, const char *name)
{
    for (size_t k = 0; k < of->links; k++)
        if (!strcmp(of->link[k].name, name))
            return of->link[k].bytes;
    fail_msg("no link %s", name);
    return 0;
}

/* Eight replicas with 8 MB, neighbours of the ring in different racks. Every edge carries 2 * 7/8 *
 * 8 MB = 14 MB, 14 ms at a port's 1 GB/s. Four of the eight edges leave each rack, 56 MB in all:
 * its uplink, 4 GB/s without oversubscription, needs 14 ms; 2 GB/s (2:1) 28 ms; 1 GB/s (4:1) 56 ms.
 * The analytic engine sees ports only. */
static void a_ring_over_an_oversubscribed_spine_takes_its_bytes_over_the_uplink(void **state)
{
    const double uplink[] = {4, 2, 1}, expected[] = {14e-3, 28e-3, 56e-3};
    for (size_t k = 0; k < 3; k++) {
        struct lowered s = set_up(1, 8, 8 * MEGA, uplink[k]);
        struct simulation result = simulate(&s, &engine_simgrid, "ring");
        double from = 0, to = 0;
        all_reduce(&s, &result, 0, &from, &to);
        assert_near(from, forward_s + backward_s, 1e-9);
        assert_near(to - from, expected[k], 1e-6 * expected[k]);
        assert_near(link_bytes(&result, "up0_UP"), 56e6, 1);
        assert_near(link_bytes(&result, "up0_DOWN"), 56e6, 1);
        simulation_free(&result);
        assert_near(all_reduce_s(&s, &engine_analytic, "ring"), 14e-3, 1e-9);
        tear_down(&s);
    }
}

/* The same with the replicas of a rack side by side: one edge leaves each rack, and 1 GB/s is what
 * it needs. */
static void a_ring_that_goes_rack_by_rack_does_not_feel_the_spine(void **state)
{
    struct lowered s = set_up(1, 8, 8 * MEGA, 1);
    place(&s, 0, (const uint32_t[]){0, 2, 4, 6, 1, 3, 5, 7});
    assert_near(all_reduce_s(&s, &engine_simgrid, "ring"), 14e-3, 14e-9);
    tear_down(&s);
}

/* Two stages of two replicas, one in each rack, 12 MB each: over two ranks 12 MB go each way, 12 ms
 * on an uplink of 1 GB/s. Stage 1 is ready after its backward at 4 ms, stage 0 at 6 ms. Until then
 * stage 1 has sent 2 MB; its other 10 MB take 20 ms at half the speed: 26 ms. Stage 0 has sent 10
 * MB as well by then; the last 2 MB go at full speed: 28 ms, when all 24 MB have passed. */
static void two_all_reduces_over_one_uplink_share_it(void **state)
{
    double from = 0, to = 0;
    struct lowered s = set_up(2, 2, 12 * MEGA, 1);
    place(&s, 0, (const uint32_t[]){0, 1});
    place(&s, 1, (const uint32_t[]){2, 3});
    struct simulation result = simulate(&s, &engine_simgrid, "ring");
    all_reduce(&s, &result, 1, &from, &to);
    assert_near(from, 4e-3, 1e-9);
    assert_near(to, 26e-3, 1e-8);
    all_reduce(&s, &result, 0, &from, &to);
    assert_near(from, 6e-3, 1e-9);
    assert_near(to, 28e-3, 1e-8);
    simulation_free(&result);
    write_racks(s.platform, 4, 2); /* enough for both */
    result = simulate(&s, &engine_simgrid, "ring");
    all_reduce(&s, &result, 1, &from, &to);
    assert_near(to, 16e-3, 1e-8);
    all_reduce(&s, &result, 0, &from, &to);
    assert_near(to, 18e-3, 1e-8);
    simulation_free(&result);
    tear_down(&s);
}

/* n members with S bytes on ports of their own: a ring sends 2 (n - 1) / n S through each, a
 * reducing switch S. n = 64: 1.96875 times less. Graham et al., COMHPC 2016. */
static void a_reducing_switch_halves_the_traffic(void **state)
{
    struct lowered s = set_up(1, 64, 64 * MEGA, 0);
    const double ring = 2 * 63 / 64.0 * 64e-3;
    assert_near(all_reduce_s(&s, &engine_simgrid, "ring"), ring, 1e-6 * ring);
    assert_near(all_reduce_s(&s, &engine_simgrid, "switch"), 64e-3, 1e-6 * 64e-3);
    assert_near(all_reduce_s(&s, &engine_analytic, "ring"), ring, 1e-9 * ring);
    assert_near(all_reduce_s(&s, &engine_analytic, "switch"), 64e-3, 1e-9 * 64e-3);
    tear_down(&s);
}

/* Two nodes of four GPUs, each node with a port of 1 GB/s, 80 MB. What leaves a node:
 *   ring          one edge, 2 * 7/8 S              140 MB
 *   hierarchical  four rings of two over S / 4,
 *                 2 * 1/2 * S/4 each                80 MB, and 2 * 3/4 S inside at 100 GB/s: 1.2 ms
 *   switch        S / 4 of each of four             80 MB, and S inside at the same time
 * Latencies add less than 1 ms. */
static void what_leaves_a_node_depends_on_the_algorithm(void **state)
{
    static const struct {
        const char *algorithm;
        double bytes, seconds;
    } expected[] = {
        {"ring", 140e6, 140e-3}, {"hierarchical", 80e6, 81.2e-3}, {"switch", 80e6, 80e-3}};
    struct lowered s = set_up(1, 8, 80 * MEGA, 0);
    topology_free(&s.topology);
    unlink(s.platform);
    free(s.platform);
    s.platform = NULL;
    if (topology_resolve("leaf-spine:nodes=2,gpus=4,rack=2,nic=8Gbps,nvlink=100GBps",
                         &s.platform) != STATUS_OK ||
        platform_read(s.platform, &s.topology) != STATUS_OK)
        fail_msg("%s", error_message());
    for (size_t k = 0; k < 3; k++) {
        double from = 0, to = 0;
        struct simulation result = simulate(&s, &engine_simgrid, expected[k].algorithm);
        all_reduce(&s, &result, 0, &from, &to);
        assert_near(link_bytes(&result, "n0-nic_UP"), expected[k].bytes, 1);
        assert_near(to - from, expected[k].seconds, 1e-3);
        assert_true(to - from >= expected[k].bytes / 1e9);
        simulation_free(&result);
    }
    program_free(&s.program);
    plan_free(&s.plan);
    topology_free(&s.topology);
    model_free(&s.model);
    free(s.platform);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_over_an_oversubscribed_spine_takes_its_bytes_over_the_uplink),
        cmocka_unit_test(a_ring_that_goes_rack_by_rack_does_not_feel_the_spine),
        cmocka_unit_test(two_all_reduces_over_one_uplink_share_it),
        cmocka_unit_test(a_reducing_switch_halves_the_traffic),
        cmocka_unit_test(what_leaves_a_node_depends_on_the_algorithm),
    };
    return cmocka_run_group_tests_name("contention", tests, NULL, NULL);
}
