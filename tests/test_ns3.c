/* Packets by ns-3 beside fluid flows: where both must agree, what is refused; patterns of flows. */
#include "sim/ns3.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/random.h"
#include "core/data/paths.h"
#include "sim/engines.h"
#include "sim/network_models.h"
#include "sim/pattern.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { RANKS = 4 };

struct star {
    struct topology t;
    char *path;
};

static struct star star_make(double latency_s, double bandwidth_Bps)
{
    struct star s = {.path = sample_star_file(RANKS, latency_s, bandwidth_Bps)};
    if (platform_read(s.path, &s.t) != STATUS_OK)
        fail_msg("%s", error_message());
    return s;
}

static void star_free(struct star *s)
{
    unlink(s->path);
    free(s->path);
    topology_free(&s->t);
}

static double last_end(const struct star *s, const struct pattern *p, const struct engine *e,
                       const struct simulation_options *o)
{
    double end_s[128], last_s = 0;
    assert_true(p->n <= 128);
    if (pattern_simulate(p, &s->t, s->path, e, o, end_s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t f = 0; f < p->n; f++)
        last_s = fmax(last_s, end_s[f]);
    return last_s;
}

/* One connection sends for so long that its start is small: bytes over bandwidth, and the heads of
 * packets: 40 + 2 of 9000 bytes. */
static void single_flows_are_within_three_per_cent_of_fluid(void **state)
{
    uint64_t draw = 42;
    for (int trial = 0; trial < 6; trial++) {
        double Bps = 1e7 * pow(10, 3 * random_unit(draw, (uint64_t)(3 * trial)));
        double latency_s = 1e-6 * pow(10, random_unit(draw, (uint64_t)(3 * trial + 1)));
        double bytes = fmax(2e6, 400 * latency_s * Bps) * (1 + random_unit(draw, (uint64_t)trial));
        struct pattern_flow flow = {0, 1 + (uint32_t)trial % 3, (int64_t)bytes};
        const struct pattern p = {RANKS, 1, &flow};
        struct star s = star_make(latency_s, Bps);
        double packets_s = last_end(&s, &p, &engine_ns3, NULL), fluid_s = latency_s + bytes / Bps;
        if (packets_s < fluid_s || packets_s > 1.03 * fluid_s)
            fail_msg("%.0f bytes at %g B/s, %g s: %.9g, fluid %.9g", bytes, Bps, latency_s,
                     packets_s, fluid_s);
        star_free(&s);
    }
}

/* Incast of equal flows: the receiver's port is full from the first to the last packet. */
static void a_port_is_shared_and_the_same_seed_gives_the_same_times(void **state)
{
    struct star s = star_make(2e-6, 1e8);
    struct pattern p;
    const struct simulation_options o = {.paths.seed = 7};
    assert_int_equal(pattern_make(4, RANKS, 2000000, 0, &p), STATUS_OK);
    double once = last_end(&s, &p, &engine_ns3, &o), again = last_end(&s, &p, &engine_ns3, &o);
    double fluid = last_end(&s, &p, &engine_analytic, NULL);
    assert_near(fluid, 3 * 0.02 + 2e-6, 1e-9);
    assert_true(once == again); /* to the last digit */
    if (once < fluid || once > 1.03 * fluid)
        fail_msg("%.9g, fluid %.9g", once, fluid);
    pattern_free(&p);
    star_free(&s);
}

static void what_is_too_large_or_not_there_is_refused(void **state)
{
    struct star s = star_make(2e-6, 1e8);
    struct pattern_flow flow = {0, 1, 20000000000};
    const struct pattern p = {RANKS, 1, &flow};
    double end_s;
    assert_int_equal(pattern_simulate(&p, &s.t, s.path, &engine_ns3, NULL, &end_s),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_message(), "2.23e+06, expected at most 500000"));
    flow.bytes = 3000000000;
    assert_int_equal(pattern_simulate(&p, &s.t, s.path, &engine_ns3, NULL, &end_s),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_message(), "at most"));
    flow.bytes = 1000;
    const struct simulation_options ecmp = {.paths.policy = PATHS_ECMP};
    assert_true(pattern_simulate(&p, &s.t, s.path, &engine_ns3, &ecmp, &end_s) != STATUS_OK);
    star_free(&s);
}

static void settings_are_parsed_or_refused(void **state)
{
    struct ns3_settings x;
    assert_int_equal(ns3_settings_parse("tcp=cubic,window=1MiB,mtu=1500,queue=64,rto=10ms", &x),
                     STATUS_OK);
    assert_string_equal(x.tcp, "TcpCubic");
    assert_near(x.window_bytes, 1 << 20, 0);
    assert_near(x.mtu_bytes, 1500, 0);
    assert_near(x.queue, 64, 0);
    assert_near(x.rto_s, 0.01, 0);
    static const char *const bad[] = {"tcp",     "tcp=ip",    "mtu=1",    "mtu=1e9",
                                      "queue=0", "window=1s", "speed=10", "rto=1GB",
                                      "rto=0s",  "window=",   "="};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        if (ns3_settings_check(bad[k]) != STATUS_USAGE)
            fail_msg("'%s' is taken", bad[k]);
    assert_int_equal(ns3_settings_use(NULL), STATUS_OK);
    assert_int_equal(ns3_settings_use("mtu=1500"), STATUS_UNSUPPORTED); /* one kind a process */
}

/* LV08's latency and bandwidth, of one flow: 13.01 latencies, 0.97 of the bandwidth. Its window of
 * 4 MiB and its traffic back do not count here. */
static void lv08_has_its_factors(void **state)
{
    struct star s = star_make(1e-5, 1e9);
    struct pattern_flow flow = {0, 1, 0};
    const struct pattern p = {RANKS, 1, &flow};
    const struct simulation_options lv08 = {.network_model = "lv08"},
                                    none = {.network_model = "lv07"};
    for (flow.bytes = 1000; flow.bytes < 1000000000; flow.bytes *= 10) {
        double bytes = (double)flow.bytes;
        assert_near(last_end(&s, &p, &engine_simgrid, NULL), 1e-5 + bytes / 1e9, 2e-9);
        double want = 13.01e-5 + bytes / 0.97e9;
        assert_near(last_end(&s, &p, &engine_simgrid, &lv08), want, 1e-6 * want + 2e-9);
    }
    double end_s;
    flow.bytes = 1;
    assert_int_equal(pattern_simulate(&p, &s.t, s.path, &engine_simgrid, &none, &end_s),
                     STATUS_INVALID);
    star_free(&s);
}

/* Bytes that each rank sends and gets, against the sentence of each pattern. */
static void patterns_are_what_they_say(void **state)
{
    for (uint32_t n = 2; n < 12; n++)
        for (size_t i = 0; pattern_name(i); i++) {
            struct pattern p;
            int64_t sent[12] = {0}, got[12] = {0}, bytes = 32 * 27720; /* divides by all n - 1 */
            assert_int_equal(pattern_make(i, n, bytes, 3, &p), STATUS_OK);
            for (size_t f = 0; f < p.n; f++) {
                assert_true(p.flow[f].from < n && p.flow[f].to < n);
                assert_true(p.flow[f].from != p.flow[f].to);
                sent[p.flow[f].from] += p.flow[f].bytes;
                got[p.flow[f].to] += p.flow[f].bytes;
            }
            for (uint32_t r = 0; r < n; r++) {
                bool all = !strcmp(pattern_name(i), "single")   ? r == 0
                           : !strcmp(pattern_name(i), "tree")   ? r > 0
                           : !strcmp(pattern_name(i), "incast") ? r > 0
                                                                : true;
                assert_true(sent[r] == (all ? bytes : 0));
                if (!strcmp(pattern_name(i), "ring") || !strcmp(pattern_name(i), "all-to-all"))
                    assert_true(got[r] == bytes);
            }
            pattern_free(&p);
        }
}

static void files_of_flows_are_read_or_refused_with_their_line(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {{"0 1 5\n# none\n\n2 1 7 # bytes\n", NULL}, {"0 1\n", ":1: expected FROM TO"},
                 {"0 1 5\n1 1 5\n", ":2: expected two"},     {"0 1 0\n", ":1: expected two"},
                 {"0 2000 1\n", ":1: expected FROM TO"},     {"# none\n", ":1: no flows"},
                 {"0 1 5 6\n", ":1: expected FROM TO"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char path[] = "/tmp/foreline-flows-XXXXXX";
        struct pattern p = {0};
        FILE *f = fdopen(mkstemp(path), "w");
        assert_non_null(f);
        fputs(cases[k].text, f);
        assert_int_equal(fclose(f), 0);
        enum status st = pattern_read(path, &p);
        if (cases[k].says ? st != STATUS_PARSE || !strstr(error_message(), cases[k].says)
                          : st != STATUS_OK || p.n != 2 || p.ranks != 3 || p.flow[1].bytes != 7)
            fail_msg("'%s': %s", cases[k].text, error_message());
        pattern_free(&p);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_parsed_or_refused),
        cmocka_unit_test(single_flows_are_within_three_per_cent_of_fluid),
        cmocka_unit_test(a_port_is_shared_and_the_same_seed_gives_the_same_times),
        cmocka_unit_test(what_is_too_large_or_not_there_is_refused),
        cmocka_unit_test(lv08_has_its_factors),
        cmocka_unit_test(patterns_are_what_they_say),
        cmocka_unit_test(files_of_flows_are_read_or_refused_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
