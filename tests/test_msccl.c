/* Files of MSCCL that are wrong in other ways than their algorithm, and text that is no file. */
#include "topologies/msccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/collective/collective.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/racks.h"
#include "tests/random_plan.h"

/* Two ranks exchange halves: rank 0 sums chunk 0, rank 1 chunk 1. */
static const char sound[] =
    "<algo name='x' ngpus='2' nchunksperloop='2' coll='allreduce' inplace='1'>\n"
    "<gpu id='0' i_chunks='2' o_chunks='2' s_chunks='0'>\n"
    "<tb id='0' send='1' recv='1' chan='0'>\n"
    "<step s='0' type='s' srcbuf='i' srcoff='1' dstbuf='i' dstoff='1' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "<step s='1' type='rrcs' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "<step s='2' type='r' srcbuf='i' srcoff='0' dstbuf='i' dstoff='1' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "</tb></gpu>\n"
    "<gpu id='1' i_chunks='2' o_chunks='2' s_chunks='0'>\n"
    "<tb id='0' send='0' recv='0' chan='0'>\n"
    "<step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "<step s='1' type='rrcs' srcbuf='i' srcoff='1' dstbuf='i' dstoff='1' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "<step s='2' type='r' srcbuf='i' srcoff='1' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
    "deps='-1' hasdep='0'/>\n"
    "</tb></gpu></algo>\n";

static char path[64];

static void write_file(const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void a_sound_file_is_two_phases(void **state)
{
    struct steps_algorithm a;
    write_file(sound, sizeof sound - 1);
    assert_int_equal(msccl_read(path, &a), STATUS_OK);
    assert_int_equal(a.kind, COLLECTIVE_ALLREDUCE);
    assert_int_equal(a.phases, 2);
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(a.flow[k].from, k % 2);
        assert_int_equal(a.flow[k].to, 1 - k % 2);
        assert_true(a.flow[k].chunks > 0.999 && a.flow[k].chunks < 1.001);
    }
    assert_true(collective_follows(&a, COLLECTIVE_ALLREDUCE, 8, 2));
    assert_false(collective_follows(&a, COLLECTIVE_ALLREDUCE, 8, 3));
    assert_false(collective_follows(&a, COLLECTIVE_ALLGATHER, 8, 2));
    a.least_bytes = 4, a.most_bytes = 7;
    assert_true(collective_follows(&a, COLLECTIVE_ALLREDUCE, 7, 2));
    assert_false(collective_follows(&a, COLLECTIVE_ALLREDUCE, 8, 2));
    assert_false(collective_follows(&a, COLLECTIVE_ALLREDUCE, 3, 2));
    steps_free(&a);
}

/* The sound file with the first `from` in it replaced, and what is said of it. */
static void wrong_values_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"algo", "algorithm", "mismatched tag"},
        {"ngpus='2'", "", ":1: <algo> ngpus"},
        {"ngpus='2'", "ngpus='3'", ":1: 2 ngpus 3"},
        {"ngpus='2'", "ngpus='1'", "expected 2 to 1024"},
        {"ngpus='2'", "ngpus='99999999999999999999'", "expected 2 to 1024"},
        {"nchunksperloop='2'", "nchunksperloop='0'", "expected 1 to"},
        {"nchunksperloop='2'", "nchunksperloop='1048576'", "too many"},
        {"allreduce", "allsort", ":1: coll='allsort', expected"},
        {"id='0'", "id='1'", ":2: id='1', expected 0 to 0"},
        {"s_chunks='0'", "s_chunks='1048576'", "too many"},
        {"send='1'", "send='0'", ":3: rank 0: send itself"},
        {"send='1'", "send='2'", ":3: send='2', expected -1 to 1"},
        {"send='1'", "send='-1'", ":4: rank 0 sends chunk 1, but no block"},
        {"chan='0'", "chan='1'", ":4: rank 0 sends chunk 1, but no block"},
        {"chan='0'", "chan='-1'", "expected 0 to"},
        {"s='0' type", "s='1' type", ":4: s='1', expected 0 to 0"},
        {"type='s'", "type='t'", ":4: type 't', expected"},
        {"type='s'", "type='nop'", "rank 1 adds chunk 1 to chunk 0"},
        {"srcbuf='i'", "srcbuf='x'", ":4: srcbuf='x', expected i, o or s"},
        {"srcbuf='i'", "srcbuf='s'", ":4: rank 0: chunk 1 its scratch buffer, which has 0"},
        {"srcoff='1'", "srcoff='4294967295'", ":4: srcoff"},
        {"srcoff='1'", "srcoff='2'", ":4: rank 0: chunk 2 its input buffer, which has 2"},
        {"srcoff='1'", "srcoff='0'", "adds chunk 1 to chunk 0"},
        {"cnt='1'", "cnt='0'", ":4: cnt='0', expected 1 or more"},
        {"cnt='1'", "cnt='2'", ":4: rank 0: chunk 2 its input buffer, which has 2"},
        {"srcoff='1' dstbuf='i' dstoff='1' cnt='1'", "srcoff='0' dstbuf='i' dstoff='0' cnt='2'",
         "receives 1 chunks, but sends 2"},
        {"depid='-1' deps='-1'", "depid='1' deps='0'",
         ":4: rank 0: waits for step 0 of block 1, which not"},
        {"depid='-1' deps='-1'", "depid='0' deps='2'", "never signals"},
        {"<gpu", "<!DOCTYPE x [<!ENTITY a 'b'>]><gpu", ""},
        {"</tb></gpu>\n<gpu", "</tb><tb id='1' send='1' recv='-1' chan='0'/></gpu>\n<gpu",
         "two blocks of rank 0 send to rank 1 on channel 0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[8192];
        struct steps_algorithm a;
        const char *at = strstr(sound, cases[k].from);
        assert_non_null(at);
        int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sound), sound, cases[k].to,
                         at + strlen(cases[k].from));
        write_file(text, (size_t)n);
        assert_int_equal(msccl_read(path, &a), STATUS_PARSE);
        if (!message_says(error_message(), cases[k].says))
            fail_msg("'%s' does not say '%s'", error_message(), cases[k].says);
    }
}

/* A block that waits for itself waits for ever. */
static void loops_are_found(void **state)
{
    char text[8192];
    struct steps_algorithm a;
    const char *at = strstr(sound, "depid='-1' deps='-1' hasdep='0'");
    int n = snprintf(text, sizeof text, "%.*sdepid='0' deps='0' hasdep='1'%s", (int)(at - sound),
                     sound, at + strlen("depid='-1' deps='-1' hasdep='0'"));
    write_file(text, (size_t)n);
    assert_int_equal(msccl_read(path, &a), STATUS_PARSE);
    assert_non_null(
        strstr(error_message(), "rank 0, thread block 0 waits for step 0 of thread block 0"));
}

/* A block that waits for another is sent something meanwhile: woken for nothing, it waits on. */
static void who_waits_is_woken_again(void **state)
{
    static const char text[] =
        "<algo name='x' ngpus='2' nchunksperloop='2' coll='reduce' inplace='1'>\n"
        "<gpu id='0'><tb id='0' send='-1' recv='1' chan='0'>\n"
        "<step s='0' type='rrc' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='1' "
        "deps='0' hasdep='0'/></tb>\n"
        "<tb id='1' send='-1' recv='1' chan='1'>\n"
        "<step s='0' type='rrc' srcbuf='i' srcoff='1' dstbuf='i' dstoff='1' cnt='1' depid='-1' "
        "deps='-1' hasdep='1'/></tb></gpu>\n"
        "<gpu id='1'><tb id='0' send='0' recv='-1' chan='0'>\n"
        "<step s='0' type='s' srcbuf='i' srcoff='0' dstbuf='i' dstoff='0' cnt='1' depid='-1' "
        "deps='-1' hasdep='1'/></tb>\n"
        "<tb id='1' send='0' recv='-1' chan='1'>\n"
        "<step s='0' type='s' srcbuf='i' srcoff='1' dstbuf='i' dstoff='1' cnt='1' depid='0' "
        "deps='0' hasdep='0'/></tb></gpu></algo>\n";
    struct steps_algorithm a;
    write_file(text, sizeof text - 1);
    alarm(10); /* it would go around for ever */
    if (msccl_read(path, &a) != STATUS_OK)
        fail_msg("%s", error_message());
    alarm(0);
    assert_int_equal(a.phases, 1);
    assert_true(a.flow[0].chunks > 1.999 && a.flow[0].chunks < 2.001);
    steps_free(&a);
}

static enum status read_once(void)
{
    struct steps_algorithm a = {0};
    enum status st = msccl_read(path, &a);
    steps_free(&a);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    write_file(sound, sizeof sound - 1);
    FOR_EACH_ALLOC_FAILURE(read_once());
}

/* Digits, quotes and other bytes changed at random: refused or sound, nothing else. */
static void any_text_is_taken_or_refused(void **state)
{
    uint64_t seed = 20;
    size_t sound_still = 0;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof sound];
        memcpy(text, sound, sizeof sound);
        for (uint32_t k = random_below(&seed, 3) + 1; k > 0; k--) {
            char *at = text + random_below(&seed, sizeof sound - 1);
            for (int tries = 0;
                 tries < 400 && random_below(&seed, 8) > 0 && (*at < '0' || *at > '9'); tries++)
                at = text + random_below(&seed, sizeof sound - 1);
            *at = random_below(&seed, 8) == 0 ? (char)(1 + random_below(&seed, 127))
                                              : (char)('0' + random_below(&seed, 10));
        }
        write_file(text, sizeof sound - 1);
        enum status st = read_once();
        assert_true(st == STATUS_OK || st == STATUS_PARSE);
        sound_still += st == STATUS_OK;
    }
    assert_true(sound_still > 0 && sound_still < 3000);
}

static void the_flows_are_a_shape(void **state)
{
    static const struct topology_tier tiers[2] = {{"fast", 2e-6, 100e9}, {"slow", 10e-6, 10e9}};
    struct topology t = racks_nodes(2, 1, "device", tiers);
    struct collective_group g;
    struct collective_shape s;
    struct steps_algorithm a;
    write_file(sound, sizeof sound - 1);
    assert_int_equal(msccl_read(path, &a), STATUS_OK);
    struct collective_options o = {.steps = &a, .algorithm = "ring"};
    assert_int_equal(collective_group_make(&t, racks_all(), 2, &g), STATUS_OK);
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLREDUCE, 8000000, &o, &s), STATUS_OK);
    assert_ptr_equal(s.algorithm, &collective_file);
    assert_true(s.seconds > 0.999999 * (2 * 10e-6 + 8e6 / 10e9));
    assert_true(s.seconds < 1.000001 * (2 * 10e-6 + 8e6 / 10e9));
    collective_shape_free(&s);
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLGATHER, 8000000, &o, &s), STATUS_OK);
    assert_string_equal(s.algorithm->name, "ring");
    collective_shape_free(&s);
    collective_group_free(&g);
    topology_free(&t);
    steps_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_is_two_phases),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(loops_are_found),
        cmocka_unit_test(who_waits_is_woken_again),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(any_text_is_taken_or_refused),
        cmocka_unit_test(the_flows_are_a_shape),
    };
    snprintf(path, sizeof path, "msccl-%ld.xml", (long)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
