/* Faults at known times: what is said of them, and what SimGrid makes of them, worked out by hand.
 * Two ranks, compute ops of 1 s, messages of 1 MB, a wire of 1 MB/s. */
#include "core/data/faults.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/toy.h"

enum { MB = 1000000 };

static const char path[] = BINARY_DIR "/test_faults.xml";

struct scene {
    struct program program;
    struct topology topology;
};

static void open_scene(struct scene *s)
{
    put_text(
        path,
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n"
        "<host id=\"toy0\" speed=\"1Gf\"/>\n<host id=\"toy1\" speed=\"1Gf\"/>\n"
        "<link id=\"wire\" bandwidth=\"1MBps\" latency=\"0s\" sharing_policy=\"SPLITDUPLEX\"/>\n"
        "<route src=\"toy0\" dst=\"toy1\"><link_ctn id=\"wire\" direction=\"UP\"/></route>\n"
        "</zone>\n</platform>\n");
    assert_int_equal(platform_read(path, &s->topology), STATUS_OK);
    toy_pipeline(&s->program, 2, 1, MB, 1, false);
}

static void close_scene(struct scene *s)
{
    program_free(&s->program);
    topology_free(&s->topology);
}

/* End of the message from rank 0, NAN when the simulation fails; *outcome is of the faults. */
static double arrival(struct scene *s, const struct engine *engine, const struct faults *f,
                      enum status *outcome)
{
    struct simulation out = {0};
    const struct simulation_options o = {.faults = f};
    double end_s = NAN;
    *outcome = engine->run(&s->program, &s->topology, path, &o, &out);
    if (*outcome != STATUS_OK)
        return NAN;
    for (size_t i = s->program.op_start[1]; i < s->program.ops; i++)
        if (s->program.op[i].kind == OP_RECV)
            end_s = out.timeline.end_s[i];
    *outcome = faults_outcome(f, &s->program, &out.timeline);
    simulation_free(&out);
    return end_s;
}

static double arrival_with(enum fault_kind kind, const char *list, const struct engine *engine,
                           enum status *outcome)
{
    struct scene s;
    struct faults f = {0};
    open_scene(&s);
    assert_int_equal(faults_add(&f, kind, list), STATUS_OK);
    double end_s = arrival(&s, engine, &f, outcome);
    faults_free(&f);
    close_scene(&s);
    return end_s;
}

static void a_link_is_slow_from_its_time_on(void **state)
{
    static const struct {
        const char *list;
        double end_s;
    } slow[] = {{"link:wire=2@9", 2},
                {"link:wire=2@0", 3},
                {"link:wire=2@1.5", 2.5},
                {"link:wire=4@1500ms", 3.5},
                {"link:wire=2@1.5,link:wire=2@1.75s", 3.25}};
    for (size_t k = 0; k < sizeof slow / sizeof *slow; k++) {
        enum status st;
        double end_s = arrival_with(FAULT_SLOW, slow[k].list, &engine_simgrid, &st);
        assert_int_equal(st, STATUS_OK);
        if (!(fabs(end_s - slow[k].end_s) < 1e-6))
            fail_msg("%s: %g s instead of %g", slow[k].list, end_s, slow[k].end_s);
    }
}

static void a_failed_link_or_a_killed_rank_ends_the_iteration_unless_it_is_over(void **state)
{
    static const struct {
        enum fault_kind kind;
        const char *list, *message;
    } end[] = {{FAULT_FAIL, "wire@1.5", "link wire failed at 1.5 s: 0SEND_F0 of rank 0"},
               {FAULT_FAIL, "wire@3.5s", "link wire failed at 3.5 s: 1SEND_B0 of rank 1"},
               {FAULT_FAIL, "wire@90", NULL},
               {FAULT_KILL, "0@0.5", "0 toy0 killed 500 ms 0F0"},
               {FAULT_KILL, "toy1@2.5", "1 toy1 killed 2.5 s 1F0"},
               {FAULT_KILL, "toy1@90", NULL}};
    for (size_t k = 0; k < sizeof end / sizeof *end; k++) {
        enum status st;
        arrival_with(end[k].kind, end[k].list, &engine_simgrid, &st);
        assert_int_equal(st, end[k].message ? STATUS_EXTERNAL : STATUS_OK);
        if (end[k].message)
            assert_message(error_message(), end[k].message);
    }
}

static void what_does_not_exist_is_refused(void **state)
{
    enum status st;
    arrival_with(FAULT_FAIL, "air@1", &engine_simgrid, &st);
    assert_int_equal(st, STATUS_USAGE);
    assert_message(error_message(), "platform link 'air'");
    arrival_with(FAULT_KILL, "2@1", &engine_simgrid, &st);
    assert_int_equal(st, STATUS_USAGE);
    arrival_with(FAULT_FAIL, "wire@1", &engine_analytic, &st);
    assert_int_equal(st, STATUS_UNSUPPORTED);
    assert_true(arrival_with(FAULT_KILL, "0@0.5", &engine_analytic, &st) == 2);
    assert_int_equal(st, STATUS_EXTERNAL);
}

static void malformed_faults_are_refused(void **state)
{
    static const char *const bad[] = {"",     "a",     "@1",     "a@",    "a@-1",  "a@1x",
                                      "a@1,", "a@nan", "a@1e7s", "a@inf", "a@1,b", ",a@1"};
    static const char *const slow[] = {"link:a@1",     "a=2@1",        "link:=2@1",   "link:a=@1",
                                       "link:a=0.5@1", "link:a=nan@1", "link:a=2",    "link:a=2x@1",
                                       "lin:a=2@1",    "link:a=2@",    "link:a=1e9@1"};
    struct faults f = {0};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(faults_add(&f, FAULT_FAIL, bad[k]), STATUS_USAGE);
        assert_int_equal(faults_add(&f, FAULT_KILL, bad[k]), STATUS_USAGE);
    }
    for (size_t k = 0; k < sizeof slow / sizeof *slow; k++)
        assert_int_equal(faults_add(&f, FAULT_SLOW, slow[k]), STATUS_USAGE);
    assert_int_equal(f.n, 0);
    char *longest = malloc(1001);
    memset(longest, 'a', 1000);
    strcpy(longest + 998, "@1");
    assert_int_equal(faults_add(&f, FAULT_FAIL, longest), STATUS_USAGE);
    free(longest);
    faults_free(&f);
}

static void check_rest(const char *list, size_t links, const char *rest)
{
    struct faults f = {0};
    char *others = NULL;
    assert_int_equal(faults_take_slow(&f, list, &others), STATUS_OK);
    assert_int_equal(f.n, links);
    assert_true(faults_of_links(&f) == (links > 0));
    if (rest)
        assert_string_equal(others, rest);
    else
        assert_null(others);
    free(others);
    faults_free(&f);
}

static void links_are_taken_out_of_what_is_slow(void **state)
{
    check_rest("r0=2", 0, "r0=2");
    check_rest("", 0, "");
    check_rest("link:a=2@1", 1, NULL);
    check_rest("r0=2,link:a=2@1,stage:1=3,link:b=1@0", 2, "r0=2,stage:1=3");
    check_rest("link:a=2@1,r0=2", 1, "r0=2");
}

static enum status take(void)
{
    struct faults f = {0};
    char *rest = NULL;
    enum status st = faults_take_slow(&f, "r0=2,link:a=2@1,link:b=1@0", &rest);
    free(rest);
    faults_free(&f);
    return st;
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(take());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_slow_from_its_time_on),
        cmocka_unit_test(a_failed_link_or_a_killed_rank_ends_the_iteration_unless_it_is_over),
        cmocka_unit_test(what_does_not_exist_is_refused),
        cmocka_unit_test(malformed_faults_are_refused),
        cmocka_unit_test(links_are_taken_out_of_what_is_slow),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
