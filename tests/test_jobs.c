/* Jobs that run together against what a link that they share can do: a simulator of processors that
 * share (below), closed forms, and enumerated placements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/lower/lower.h"
#include "sim/platform/platform.h"
#include "study/jobs.h"
#include "study/settings.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { JOBS = 4, MOST = 4096 };

static const double uplink_Bps = 5e8;

/* Devices h0, h2, ... in one rack and h1, h3, ... in the other, ports of 1 GB/s, between the racks
 * half of that; no latencies. */
static char *write_racks(size_t n, struct topology *t)
{
    char *path = sample_star_file(1, 0, 1e9); /* a name of its own */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"DijkstraCache\">\n"
          "<prop id=\"memory_bandwidth\" value=\"1e21Bps\"/>\n", /* updates take no time */
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "<host id=\"h%zu\" speed=\"1e24f\"/>\n", i);
    fputs("<router id=\"r0\"/><router id=\"r1\"/>\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<link id=\"port%zu\" bandwidth=\"1GBps\" latency=\"0s\" "
                "sharing_policy=\"SPLITDUPLEX\"/>\n",
                i);
    fputs("<link id=\"up\" bandwidth=\"500MBps\" latency=\"0s\" sharing_policy=\"SPLITDUPLEX\"/>\n",
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "<route src=\"h%zu\" dst=\"r%zu\">"
                "<link_ctn id=\"port%zu\" direction=\"UP\"/></route>\n",
                i, i % 2, i);
    fputs("<route src=\"r0\" dst=\"r1\"><link_ctn id=\"up\" direction=\"UP\"/></route>\n"
          "</zone>\n</platform>\n",
          f);
    fclose(f);
    if (platform_read(path, t) != STATUS_OK)
        fail_msg("%s", error_message());
    return path;
}

struct fixture {
    struct topology topology;
    char *platform;
    struct jobs js;
};

static void lower_job(struct jobs *js, size_t k)
{
    struct loaded_plan *p = &js->job[k].p;
    program_free(&p->program);
    if (plan_lower(&p->plan, &p->model, js->topology, &p->program) != STATUS_OK)
        fail_msg("%s", error_message());
}

/* Job k computes and then sums over the racks' uplink, so many seconds each when it is alone. */
static void set_up(struct fixture *f, size_t n, size_t devices, const double *compute_s,
                   const double *sum_s)
{
    static const char *const names[JOBS] = {"a", "b", "c", "d"};
    *f = (struct fixture){.js = {.n = n, .iterations = 10, .engine = engine_quick()}};
    f->platform = write_racks(devices, &f->topology);
    f->js.topology = &f->topology;
    f->js.platform = f->platform;
    f->js.job = calloc(n, sizeof *f->js.job);
    assert_non_null(f->js.job);
    for (uint32_t k = 0; k < n; k++) {
        struct loaded_plan *p = &f->js.job[k].p;
        f->js.job[k].name = sample_text(names[k]);
        p->model = sample_chain(1, compute_s[k] / 4, 3 * compute_s[k] / 4,
                                4 * llround(sum_s[k] * uplink_Bps / 4), 0);
        p->plan = sample_plan(&p->model, 1, 2, 2, "gpipe");
        p->plan.stage[0].device[0] = 2 * k % (uint32_t)devices;
        p->plan.stage[0].device[1] = (2 * k + 1) % (uint32_t)devices;
        lower_job(&f->js, k);
    }
}

static void tear_down(struct fixture *f)
{
    jobs_free(&f->js);
    topology_free(&f->topology);
    unlink(f->platform);
    free(f->platform);
}

static void run(struct jobs *js)
{
    if (jobs_alone(js) != STATUS_OK || jobs_run(js) != STATUS_OK)
        fail_msg("%s", error_message());
}

/* ---- the slow reference: jobs that compute and share one link, event by event */

struct reference {
    double begin_s[JOBS][MOST], end_s[JOBS][MOST], pairs_s;
};

static double window(const struct jobs *js, const struct reference *r, double *to)
{
    double from = 0;
    *to = INFINITY;
    for (size_t k = 0; k < js->n; k++) {
        from = fmax(from, r->begin_s[k][0]);
        *to = fmin(*to, r->end_s[k][js->job[k].iterations - 1]);
    }
    return from;
}

/* As many iterations of each as js has simulated; returns for how long two jobs sum at once between
 * `from` and `to`, r->pairs_s: the same of each two, together. */
static double refer(const struct jobs *js, const double *compute_s, const double *sum_s,
                    struct reference *r, double from, double to)
{
    double now = 0, shared_s = 0, left[JOBS], sums[JOBS] = {0};
    size_t at[JOBS] = {0}, live = js->n;
    for (size_t k = 0; k < js->n; k++)
        left[k] = js->job[k].start_s + compute_s[k];
    r->pairs_s = 0;
    for (size_t k = 0; k < js->n; k++)
        r->begin_s[k][0] = js->job[k].start_s;
    while (live > 0) {
        double step = INFINITY;
        int users = 0;
        for (size_t k = 0; k < js->n; k++)
            users += at[k] < js->job[k].iterations && sums[k] > 0;
        for (size_t k = 0; k < js->n; k++)
            if (at[k] < js->job[k].iterations)
                step = fmin(step, sums[k] > 0 ? sums[k] * users : left[k]);
        double inside_s = fmax(0, fmin(now + step, to) - fmax(now, from));
        shared_s += users > 1 ? inside_s : 0;
        r->pairs_s += users * (users - 1) / 2 * inside_s;
        now += step;
        for (size_t k = 0; k < js->n; k++) {
            if (at[k] == js->job[k].iterations)
                continue;
            bool summing = sums[k] > 0;
            double *of = summing ? &sums[k] : &left[k];
            *of -= summing ? step / users : step;
            if (*of > 1e-12)
                continue;
            *of = 0;
            if (!summing) {
                sums[k] = sum_s[k];
                continue;
            }
            r->end_s[k][at[k]++] = now;
            r->begin_s[k][at[k]] = now;
            left[k] = compute_s[k];
            live -= at[k] == js->job[k].iterations;
        }
    }
    return shared_s;
}

/* Two to four jobs of random lengths, sizes and starts. */
static void slowdowns_and_shared_time_are_those_of_a_link_that_is_shared_fairly(void **state)
{
    (void)state;
    static struct reference r;
    uint64_t seed = 42;
    for (int round = 0; round < 24; round++) {
        size_t n = 2 + random_below(&seed, JOBS - 1);
        double compute_s[JOBS], sum_s[JOBS], to, kept[MOST];
        for (size_t k = 0; k < n; k++) {
            compute_s[k] = 1e-6 * (2000 + random_below(&seed, 20000));
            sum_s[k] = 1e-6 * (2000 + random_below(&seed, 20000));
        }
        struct fixture f;
        set_up(&f, n, 2 * JOBS, compute_s, sum_s);
        for (size_t k = 0; k < n; k++)
            f.js.job[k].start_s = 1e-6 * random_below(&seed, 100000);
        bool judge = round % 4 == 0;
        f.js.engine = judge ? engine_judge() : engine_quick();
        double tolerance = judge ? 1e-5 : 1e-8; /* SimGrid's steps of 1 ns add up */
        run(&f.js);
        if (jobs_find_links(&f.js) != STATUS_OK)
            fail_msg("%s", error_message());
        refer(&f.js, compute_s, sum_s, &r, 0, 0);
        double from = window(&f.js, &r, &to);
        double shared_s = refer(&f.js, compute_s, sum_s, &r, from, to);
        for (size_t k = 0; k < n; k++) {
            size_t counted;
            double mean_s = jobs_count(r.begin_s[k], r.end_s[k], f.js.job[k].iterations, from, to,
                                       kept, &counted);
            assert_near(f.js.job[k].alone_s, compute_s[k] + sum_s[k], 1e-7);
            assert_int_equal(f.js.job[k].counted, counted);
            assert_true(counted >= f.js.iterations);
            assert_near(f.js.job[k].together_s, mean_s, tolerance * mean_s);
        }
        assert_int_equal(f.js.links, 2); /* both directions */
        for (size_t l = 0; l < 2; l++) {
            double pairs_s = 0;
            for (size_t k = 0; k < n * n; k++)
                pairs_s += f.js.link[l].pair_s[k];
            assert_near(pairs_s, r.pairs_s, tolerance * r.pairs_s);
            assert_near(f.js.link[l].shared_s, shared_s, tolerance * shared_s);
            /* it is full; by mean rates at least two of n shares are seen */
            assert_true(f.js.link[l].load <= 1 + 1e-9 &&
                        f.js.link[l].load >= 2.0 / (double)n - 1e-6);
            for (size_t k = 0; k < n; k++)
                assert_near(f.js.link[l].bytes[k], sum_s[k] * uplink_Bps, 8);
        }
        tear_down(&f);
    }
}

/* Equal jobs of c seconds of compute and sums of m, the second d later, d <= c: the first sums
 * alone for d, then both share: c + 2 m - d; from d = m on they never meet. */
static void two_equal_jobs_take_the_closed_form_time(void **state)
{
    (void)state;
    const double compute_s[] = {12e-3, 12e-3}, sum_s[] = {8e-3, 8e-3};
    for (int step = 0; step <= 12; step++)
        for (int judge = 0; judge < 2; judge++) {
            struct fixture f;
            set_up(&f, 2, 4, compute_s, sum_s);
            f.js.engine = judge ? engine_judge() : engine_quick();
            f.js.job[1].start_s = step * 1e-3;
            run(&f.js);
            double expected_s = 20e-3 + fmax(0, 8e-3 - step * 1e-3);
            for (size_t k = 0; k < 2; k++)
                assert_near(f.js.job[k].together_s, expected_s, 1e-7);
            tear_down(&f);
        }
}

/* Traffic of r B/s over an uplink of C: a job's sum of m seconds takes m C / (C - r), but 2 m at
 * most. The traffic comes as messages, so that each iteration may be off by about one. */
static void traffic_takes_its_rate_of_the_link(void **state)
{
    (void)state;
    const double compute_s[] = {10e-3}, sum_s[] = {10e-3}, share[] = {0.1, 0.25, 0.4, 0.5, 0.7};
    for (size_t i = 0; i < sizeof share / sizeof *share; i++)
        for (int judge = 0; judge < 2; judge++) {
            struct fixture f;
            set_up(&f, 1, 4, compute_s, sum_s);
            f.js.engine = judge ? engine_judge() : engine_quick();
            f.js.flows = 1;
            f.js.flow = calloc(1, sizeof *f.js.flow);
            assert_non_null(f.js.flow);
            f.js.flow[0] = (struct jobs_flow){2, 3, share[i] * uplink_Bps};
            run(&f.js);
            double expected_s = 10e-3 + fmin(20e-3, 10e-3 / (1 - share[i]));
            assert_near(f.js.job[0].together_s, expected_s, 0.02 * expected_s);
            if (share[i] < 0.5)
                assert_near(f.js.sent_Bps, share[i] * uplink_Bps, 0.02 * share[i] * uplink_Bps);
            tear_down(&f);
        }
}

/* Random plans, on both engines: an iteration of many is the one alone, and a second job on other
 * ports of a switch changes nothing. */
static void iterations_are_those_of_the_plan_alone(void **state)
{
    (void)state;
    uint64_t seed = 7;
    char *path = sample_star_file(16, 2e-6, 1e9);
    for (int done = 0; done < 30;) {
        struct topology t = {0};
        struct jobs js = {.n = 2, .iterations = 3, .engine = engine_quick(), .platform = path};
        js.engine = done % 5 == 0 ? engine_judge() : engine_quick();
        js.job = calloc(2, sizeof *js.job);
        if (!js.job || platform_read(path, &t) != STATUS_OK)
            fail_msg("%s", error_message());
        js.topology = &t;
        bool fine = true;
        for (size_t k = 0; k < 2; k++) {
            struct loaded_plan *p = &js.job[k].p;
            p->model = random_model(&seed);
            p->plan = random_plan(&seed, &p->model, 8);
            for (size_t s = 0; s < p->plan.stages; s++)
                for (size_t d = 0; k > 0 && d < p->plan.stage[s].devices; d++)
                    p->plan.stage[s].device[d] += 8;
            fine &= plan_lower(&p->plan, &p->model, &t, &p->program) == STATUS_OK &&
                    !p->program.asynchronous;
        }
        if (fine) {
            run(&js);
            for (size_t k = 0; k < 2; k++)
                assert_near(js.job[k].together_s, js.job[k].alone_s, 1e-6 * js.job[k].alone_s);
            done++;
        }
        jobs_free(&js);
        topology_free(&t);
    }
    unlink(path);
    free(path);
}

static enum status join_once(const struct program_part *part)
{
    struct program_joined j;
    PASS(program_join(part, 2, &j));
    program_joined_free(&j);
    return STATUS_OK;
}

static void joining_releases_all_when_memory_runs_out(void **state)
{
    (void)state;
    const double s[] = {1e-3, 1e-3};
    struct fixture f;
    set_up(&f, 2, 4, s, s);
    const struct program_part part[] = {{&f.js.job[0].p.program, 2, 0, 0},
                                        {&f.js.job[1].p.program, 3, 1, 0}};
    FOR_EACH_ALLOC_FAILURE(join_once(part));
    tear_down(&f);
}

/* ---- placement */

static double slowdowns(struct jobs *js, const double *alone_s)
{
    double sum = 0;
    if (jobs_run(js) != STATUS_OK)
        fail_msg("%s", error_message());
    for (size_t k = 0; k < js->n; k++)
        sum += js->job[k].together_s / alone_s[k];
    return sum;
}

/* The least of all ways to put two jobs of two devices on five. */
static double enumerate(struct jobs *js, const double *alone_s)
{
    double least = INFINITY;
    for (uint32_t code = 0; code < 5 * 5 * 5 * 5; code++) {
        const uint32_t d[4] = {code % 5, code / 5 % 5, code / 25 % 5, code / 125};
        if (d[0] == d[1] || d[0] == d[2] || d[0] == d[3] || d[1] == d[2] || d[1] == d[3] ||
            d[2] == d[3])
            continue;
        for (size_t k = 0; k < 4; k++)
            js->job[k / 2].p.plan.stage[0].device[k % 2] = d[k];
        lower_job(js, 0);
        lower_job(js, 1);
        least = fmin(least, slowdowns(js, alone_s));
    }
    return least;
}

static void search_finds_the_best_of_all_placements(void **state)
{
    (void)state;
    const double compute_s[] = {9e-3, 12e-3}, sum_s[] = {8e-3, 5e-3};
    struct fixture f;
    set_up(&f, 2, 5, compute_s, sum_s);
    f.js.iterations = 3;
    run(&f.js);
    const double alone_s[] = {f.js.job[0].alone_s, f.js.job[1].alone_s};
    double least = enumerate(&f.js, alone_s);
    assert_true(least < 1.9); /* within a rack a sum takes half as long as over the uplink */
    for (uint64_t seed = 0; seed < 4; seed++) {
        for (size_t k = 0; k < 4; k++)
            f.js.job[k / 2].p.plan.stage[0].device[k % 2] = (uint32_t)k;
        lower_job(&f.js, 0);
        lower_job(&f.js, 1);
        assert_int_equal(jobs_alone(&f.js), STATUS_OK);
        assert_int_equal(jobs_place(&f.js, "search", 60, seed), STATUS_OK);
        assert_int_equal(jobs_check(&f.js), STATUS_OK);
        assert_near(slowdowns(&f.js, alone_s), least, 1e-9 * least);
    }
    tear_down(&f);
}

static void expect_devices(const struct jobs *js, const uint32_t *device)
{
    for (size_t k = 0; k < 2 * js->n; k++)
        assert_int_equal(js->job[k / 2].p.plan.stage[0].device[k % 2], device[k]);
}

static void packed_and_spread_are_what_they_say(void **state)
{
    (void)state;
    const double s[] = {1e-3, 1e-3};
    struct fixture f;
    set_up(&f, 2, 8, s, s);
    assert_int_equal(jobs_place(&f.js, "spread", 0, 0), STATUS_OK);
    expect_devices(&f.js, (const uint32_t[]){0, 4, 2, 6});
    assert_int_equal(jobs_place(&f.js, "packed", 0, 0), STATUS_OK);
    expect_devices(&f.js, (const uint32_t[]){0, 1, 2, 3});
    f.js.job[0].p.plan.stage[0].device[0] = 7; /* the order within a job stays */
    lower_job(&f.js, 0);
    assert_int_equal(jobs_place(&f.js, "packed", 0, 0), STATUS_OK);
    expect_devices(&f.js, (const uint32_t[]){1, 0, 2, 3});
    tear_down(&f);
}

/* ---- refusals */

static void a_device_of_two_jobs_is_refused_with_both(void **state)
{
    (void)state;
    const double s[] = {1e-3, 1e-3};
    struct fixture f;
    set_up(&f, 2, 4, s, s);
    f.js.job[1].p.plan.stage[0].device[1] = 1;
    lower_job(&f.js, 1);
    assert_int_equal(jobs_check(&f.js), STATUS_INVALID);
    assert_non_null(strstr(error_message(), "jobs a and b both run on device h1"));
    tear_down(&f);
    const double three[] = {1e-3, 1e-3, 1e-3};
    set_up(&f, 3, 4, three, three); /* the third is on the first one's devices */
    assert_int_equal(jobs_place(&f.js, "packed", 0, 0), STATUS_INVALID);
    assert_message(error_message(), "the jobs 6 devices together");
    tear_down(&f);
}

static void read_traffic(struct fixture *f, const char *text, enum status expected,
                         const char *message)
{
    char path[] = "/tmp/foreline-traffic-XXXXXX";
    int fd = mkstemp(path);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    assert_non_null(to);
    fputs(text, to);
    fclose(to);
    free(f->js.flow);
    f->js.flow = NULL;
    f->js.flows = 0;
    assert_int_equal(jobs_read_traffic(path, &f->js), expected);
    if (message && !message_says(error_message(), message))
        fail_msg("'%s' does not say '%s'", error_message(), message);
    unlink(path);
}

static void traffic_is_a_table_or_a_matrix(void **state)
{
    (void)state;
    const double s[] = {1e-3};
    struct fixture f;
    set_up(&f, 1, 4, s, s);
    read_traffic(&f, "from,to,rate\nh2,h3,1Gbps\nh0,h1,5e6\n", STATUS_OK, NULL);
    assert_int_equal(f.js.flows, 2);
    assert_int_equal(f.js.flow[0].to, 1);
    assert_near(f.js.flow[0].Bps, 5e6, 0);
    assert_near(f.js.flow[1].Bps, 125e6, 0);
    read_traffic(&f, "host,h1,h3\nh0,1000,0\nh2,,2000\n", STATUS_OK, NULL);
    assert_int_equal(f.js.flows, 2);
    assert_int_equal(f.js.flow[1].from, 2);
    assert_int_equal(f.js.flow[1].to, 3);
    assert_near(f.js.flow[1].Bps, 2000, 0);
    read_traffic(&f, "from,to,rate\nh0,h9,1\n", STATUS_PARSE, "has no device 'h9'");
    read_traffic(&f, "from,to,rate\nh0,h1,fast\n", STATUS_PARSE, "rate 'fast'");
    read_traffic(&f, "from,to,rate\nh0,h1,-1\n", STATUS_PARSE, "rate '-1'");
    read_traffic(&f, "from,to,rate\nh0,h0,1\n", STATUS_PARSE, "h0 to itself");
    read_traffic(&f, "from,to,rate\nh0,h1,1\nh0,h1,2\n", STATUS_PARSE, "twice");
    read_traffic(&f, "from,to,rate\nh0,h1,0\n", STATUS_INVALID, "no traffic");
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slowdowns_and_shared_time_are_those_of_a_link_that_is_shared_fairly),
        cmocka_unit_test(two_equal_jobs_take_the_closed_form_time),
        cmocka_unit_test(traffic_takes_its_rate_of_the_link),
        cmocka_unit_test(iterations_are_those_of_the_plan_alone),
        cmocka_unit_test(joining_releases_all_when_memory_runs_out),
        cmocka_unit_test(search_finds_the_best_of_all_placements),
        cmocka_unit_test(packed_and_spread_are_what_they_say),
        cmocka_unit_test(a_device_of_two_jobs_is_refused_with_both),
        cmocka_unit_test(traffic_is_a_table_or_a_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
