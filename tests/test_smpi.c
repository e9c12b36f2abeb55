/* The executor on SimGrid's MPI against the SimGrid engine, where flows share a link. The command
 * and whole pipelines: emulate_smpi.sh. */
#include "sim/smpi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/toy.h"

enum { PAIRS = 3, BYTES = 50000000 }; /* SMPI sends 16 bytes more */
static const double link_bytes_per_s = 1e9, latency_s = 3 * 10e-6, compute_s = 2e-3;

/* PAIRS hosts on either side of one link, all routes three hops long. */
static const char path[] = BINARY_DIR "/test_smpi.xml";

static void write_platform(void)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
          "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n"
          "<zone id=\"z\" routing=\"Floyd\"><router id=\"s0\"/><router id=\"s1\"/>\n",
          f);
    for (int r = 0; r < 2 * PAIRS; r++)
        fprintf(f,
                "<host id=\"toy%d\" speed=\"1Gf\"/><link id=\"l%d\" bandwidth=\"100GBps\" "
                "latency=\"10us\" sharing_policy=\"SPLITDUPLEX\"/>\n",
                r, r);
    fputs("<link id=\"up\" bandwidth=\"1GBps\" latency=\"10us\" sharing_policy=\"SPLITDUPLEX\"/>\n",
          f);
    for (int r = 0; r < 2 * PAIRS; r++)
        fprintf(
            f, "<route src=\"toy%d\" dst=\"s%d\"><link_ctn id=\"l%d\" direction=\"UP\"/></route>\n",
            r, r / PAIRS, r);
    fputs("<route src=\"s0\" dst=\"s1\"><link_ctn id=\"up\" direction=\"UP\"/></route>\n"
          "</zone></platform>\n",
          f);
    assert_int_equal(fclose(f), 0);
}

/* Rank r computes and sends to rank PAIRS + r, which computes then; pair r starts `late_s` r later.
 */
static void crossing(struct program *p, double late_s)
{
    static const uint32_t first[] = {0, UINT32_MAX};
    toy_begin(p, 0, NULL);
    p->microbatches = 1;
    for (uint32_t r = 0; r < 2 * PAIRS; r++) {
        struct program_op op = {.kind = OP_FORWARD, .seconds = compute_s + late_s * (r % PAIRS)};
        op.peer = op.peer_stage = op.tag = PROGRAM_NONE;
        toy_rank(p);
        uint32_t own[2] = {first[0], UINT32_MAX};
        own[0] = r < PAIRS ? toy_op(p, op, NULL) : toy_recv(p, r - PAIRS, 0, BYTES);
        if (r < PAIRS)
            toy_send(p, PAIRS + r, 0, BYTES, own);
        else
            toy_op(p, op, own);
    }
    toy_finish(p);
}

static double end_of(const struct engine *e, const struct program *p)
{
    struct topology t = {0};
    struct simulation s = {0};
    double end_s = 0;
    if (platform_read(path, &t) != STATUS_OK || e->run(p, &t, path, NULL, &s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t i = 0; i < p->ops; i++)
        end_s = fmax(end_s, s.timeline.end_s[i]);
    simulation_free(&s);
    topology_free(&t);
    return end_s;
}

static void compare(double late_s, double expected_s)
{
    struct program p;
    write_platform();
    crossing(&p, late_s);
    double a = end_of(&engine_simgrid, &p), b = end_of(&engine_smpi, &p);
    program_free(&p);
    if (fabs(a - expected_s) > 1e-9 || fabs(b - a) > 1e-6 * a)
        fail_msg("simgrid %.9g s, smpi %.9g s, expected %.9g s", a, b, expected_s);
}

static void flows_that_start_together_share_the_link(void **state)
{
    compare(0, 2 * compute_s + PAIRS * BYTES / link_bytes_per_s + latency_s);
}

/* 1 ms alone, 1 ms in two, then three: the last message ends when all bytes are through. */
static void flows_that_start_one_after_the_other_share_the_link(void **state)
{
    compare(1e-3, 2 * compute_s + PAIRS * BYTES / link_bytes_per_s + latency_s + 2e-3);
}

static void a_missing_worker_is_named(void **state)
{
    char before[4096];
    struct program p;
    struct simulation s = {0};
    snprintf(before, sizeof before, "%s", getenv("FORELINE_WORKER_SMPI"));
    setenv("FORELINE_WORKER_SMPI", "/nowhere/worker.so", 1);
    crossing(&p, 0);
    assert_int_equal(engine_smpi.run(&p, NULL, "none.xml", NULL, &s), STATUS_IO);
    assert_message(error_message(), "/nowhere/worker.so: No such file");
    setenv("FORELINE_WORKER_SMPI", before, 1);
    assert_int_equal(engine_smpi.run(&p, NULL, "none.xml", NULL, &s), STATUS_EXTERNAL);
    program_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_that_start_together_share_the_link),
        cmocka_unit_test(flows_that_start_one_after_the_other_share_the_link),
        cmocka_unit_test(a_missing_worker_is_named),
    };
    setenv("FORELINE_WORKER_SMPI", BINARY_DIR "/bin/foreline-worker-smpi.so", 1);
    if (access(BINARY_DIR "/bin/foreline-worker-smpi.so", R_OK)) {
        printf("skipped: foreline-worker-smpi.so is not built (libsimgrid-dev)\n");
        return 77;
    }
    return cmocka_run_group_tests_name("smpi", tests, NULL, NULL);
}
