/* Both engines on the same programs: closed forms, contention worked by hand, agreement. */
#include "sim/engines.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

static double iteration(const struct simulation *s)
{
    double last = 0;
    for (size_t i = 0; i < s->timeline.n; i++)
        last = fmax(last, s->timeline.end_s[i]);
    return last;
}

static struct lowered set_up(struct model m, size_t stages, uint32_t replicas,
                             uint32_t microbatches, const char *schedule, double latency_s,
                             double bandwidth_Bps)
{
    struct lowered s = {.model = m};
    s.topology = sample_clique(stages * replicas + 1, latency_s, bandwidth_Bps);
    s.platform = sample_star_file(stages * replicas + 1, latency_s, bandwidth_Bps);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, schedule);
    lower(&s);
    return s;
}

static void tear_down(struct lowered *s)
{
    unlink(s->platform);
    lowered_free(s);
}

static double seconds_on(const struct engine *e, const struct lowered *s)
{
    struct simulation result = {0};
    if (e->run(&s->program, &s->topology, s->platform, NULL, &result) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    double t = iteration(&result);
    simulation_free(&result);
    return t;
}

/* Without communication cost an iteration of equal stages takes (M + P - 1)(f + b) with either
 * schedule (Huang et al. 2019; Narayanan et al. 2021). f = 1 ms, b = 2 ms per stage. */
static void equal_stages_take_the_closed_form_time(void **state)
{
    static const char *const names[] = {"gpipe", "1f1b"};
    for (size_t e = 0; e < engines_fluid(); e++)
        for (size_t k = 0; k < 2; k++)
            for (size_t stages = 1; stages <= 8; stages *= 2)
                for (uint32_t microbatches = 1; microbatches <= 16; microbatches *= 4) {
                    struct model m =
                        sample_chain(8, 1e-3 * (double)stages / 8, 2e-3 * (double)stages / 8, 0, 0);
                    struct lowered s = set_up(m, stages, 1, microbatches, names[k], 0, 1e9);
                    double expected = ((double)microbatches + (double)stages - 1) * 3e-3;
                    double got = seconds_on(engines[e], &s);
                    if (fabs(got - expected) > 1e-9 * expected)
                        fail_msg("%s %s P=%zu M=%u: %.12g, expected %.12g", engines[e]->name,
                                 names[k], stages, microbatches, got, expected);
                    tear_down(&s);
                }
}

/* Two stages, one microbatch of 1 MB over 1 GB/s and 10 us: f + 1.01 ms + f + b + 1.01 ms + b. */
static void a_message_takes_latency_plus_bytes_over_bandwidth(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct lowered s =
            set_up(sample_chain(2, 1e-3, 2e-3, 0, 1000000), 2, 1, 1, "1f1b", 1e-5, 1e9);
        assert_near(seconds_on(engines[e], &s), 6e-3 + 2 * 1.01e-3, 1e-9);
        tear_down(&s);
    }
}

/* Ring all-reduce of S = 8 MB over n = 4 ranks at 1 GB/s, 10 us after one forward and backward of
 * 3 ms: 2 (n - 1) / n S / B + 2 (n - 1) alpha = 12 ms + 60 us. */
static void a_ring_all_reduce_takes_the_closed_form_time(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct lowered s =
            set_up(sample_chain(1, 1e-3, 2e-3, 8000000, 0), 1, 4, 4, "gpipe", 1e-5, 1e9);
        double update = 8e6 * 4 / 1e12; /* sgd: 4 bytes of traffic per parameter byte at 1 TB/s */
        assert_near(seconds_on(engines[e], &s), 3e-3 + 12.06e-3 + update, 1e-8);
        tear_down(&s);
    }
}

static void rings_over_more_than_64_ranks_take_the_closed_form_time(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct lowered s =
            set_up(sample_chain(1, 1e-3, 2e-3, 80000000, 0), 1, 80, 80, "gpipe", 1e-5, 1e9);
        double update = 8e7 * 4 / 1e12;
        assert_near(seconds_on(engines[e], &s), 3e-3 + 158.0 / 80 * 80e-3 + 158 * 1e-5 + update,
                    1e-7);
        tear_down(&s);
    }
}

/* Random chains without contention: every stage has its own port and neighbours talk one to one, so
 * that the engines may differ only where a port carries a forward and a backward message together.
 */
static void engines_agree_on_uncontended_chains(void **state)
{
    srand(7);
    for (int trial = 0; trial < 20; trial++) {
        size_t stages = 2 + (size_t)rand() % 6;
        struct model m = sample_chain(stages, 1e-3, 2e-3, 1000, 100000);
        for (size_t i = 0; i < m.n; i++) {
            m.profile[0].forward_s[i] *= 0.5 + rand() / (double)RAND_MAX;
            m.profile[0].backward_s[i] *= 0.5 + rand() / (double)RAND_MAX;
        }
        struct lowered s = set_up(m, stages, 1, 1 + (uint32_t)rand() % 20,
                                  trial % 2 ? "1f1b" : "gpipe", 1e-5, 1e9);
        double a = seconds_on(&engine_analytic, &s), b = seconds_on(&engine_simgrid, &s);
        if (fabs(a - b) > 5e-3 * b)
            fail_msg("trial %d: analytic %.9g, simgrid %.9g", trial, a, b);
        tear_down(&s);
    }
}

/* Four hosts, two on each side of one shared uplink of 1 GB/s; two stages of two replicas, each
 * pipeline crossing it with 10 MB at the same time. Alone 10 ms, shared 20 ms: forward 1 ms,
 * 20 ms, forward 1 + backward 2 ms, 20 ms, backward 2 ms. The analytic engine
 * sees no contention on a topology without links. */
static void two_flows_over_one_uplink_halve(void **state)
{
    struct lowered s = set_up(sample_chain(2, 1e-3, 2e-3, 0, 10000000), 2, 2, 2, "gpipe", 0, 1e9);
    FILE *f = fopen(s.platform, "w");
    assert_non_null(f);
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"DijkstraCache\">\n",
          f);
    for (int i = 0; i < 4; i++)
        fprintf(f, "<host id=\"h%d\" speed=\"1Tf\"/>\n", i);
    fputs("<router id=\"left\"/><router id=\"right\"/>\n", f);
    for (int i = 0; i < 4; i++)
        fprintf(f,
                "<link id=\"l%d\" bandwidth=\"1GBps\" latency=\"0us\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i);
    fputs("<link id=\"up\" bandwidth=\"1GBps\" latency=\"0us\" sharing_policy=\"SPLITDUPLEX\"/>\n",
          f);
    for (int i = 0; i < 4; i++) /* even: stage 0, left; odd: stage 1, right */
        fprintf(f,
                "<route src=\"h%d\" dst=\"%s\"><link_ctn id=\"l%d\" direction=\"UP\"/></route>\n",
                i, i % 2 ? "right" : "left", i);
    fputs("<route src=\"left\" dst=\"right\"><link_ctn id=\"up\" direction=\"UP\"/></route>\n"
          "</zone>\n</platform>\n",
          f);
    fclose(f);
    assert_near(seconds_on(&engine_simgrid, &s), 46e-3, 1e-9);
    assert_near(seconds_on(&engine_analytic, &s), 26e-3, 1e-9);

    struct simulation result = {0};
    assert_int_equal(engine_simgrid.run(&s.program, &s.topology, s.platform, NULL, &result),
                     STATUS_OK);
    double bytes = -1, busy = -1;
    for (size_t k = 0; k < result.links; k++)
        if (!strcmp(result.link[k].name, "up_UP")) {
            bytes = result.link[k].bytes;
            busy = result.link[k].busy_fraction;
        }
    assert_near(bytes, 2e7, 0);
    assert_near(busy, 20.0 / 46, 1e-9);
    simulation_free(&result);
    tear_down(&s);
}

static void simgrid_reports_a_missing_host_and_a_bad_platform_in_one_line(void **state)
{
    struct lowered s = set_up(sample_chain(2, 1e-3, 2e-3, 0, 1), 2, 1, 1, "1f1b", 0, 1e9);
    struct simulation result = {0};
    free(s.program.rank[0].name);
    s.program.rank[0].name = sample_text("nobody");
    assert_int_equal(engine_simgrid.run(&s.program, &s.topology, s.platform, NULL, &result),
                     STATUS_INVALID);
    assert_message(error_message(), "has no host 'nobody'");
    assert_int_equal(engine_simgrid.run(&s.program, &s.topology, "/nonexistent.xml", NULL, &result),
                     STATUS_IO);
    assert_message(error_message(), "/nonexistent.xml: No such file");
    assert_null(strchr(error_message(), '\n'));
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stages_take_the_closed_form_time),
        cmocka_unit_test(a_message_takes_latency_plus_bytes_over_bandwidth),
        cmocka_unit_test(a_ring_all_reduce_takes_the_closed_form_time),
        cmocka_unit_test(rings_over_more_than_64_ranks_take_the_closed_form_time),
        cmocka_unit_test(engines_agree_on_uncontended_chains),
        cmocka_unit_test(two_flows_over_one_uplink_halve),
        cmocka_unit_test(simgrid_reports_a_missing_host_and_a_bad_platform_in_one_line),
    };
    return cmocka_run_group_tests_name("engines", tests, NULL, NULL);
}
