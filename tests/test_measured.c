/* Runs that others recorded: traces by hand and random ones against a slow count, logs line by
 * line, and what is refused. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/provenance.h"
#include "core/base/random.h"
#include "measured/reader.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/measured_text.h"

/* ---- Kineto */

#define KERNEL(name, ts, dur, more)                                                                \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" ts        \
    ",\"dur\":" dur ",\"args\":{\"device\":0,\"stream\":7" more "}}"
#define STEP(n, ts, dur)                                                                           \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" n                         \
    "\",\"pid\":9,\"tid\":9,"                                                                      \
    "\"ts\":" ts ",\"dur\":" dur "}"

#define HOST(category, name, ts, dur, args)                                                        \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"tid\":1,\"ts\":" ts            \
    ",\"dur\":" dur ",\"args\":{" args "}}"

/* Steps 100 to 200 and 200 to 300 us. Compute 110-140 and 130-150: 40; all-gather 145-165 of which
 * 15 are exposed; an all-to-all by launch 210-230, exposed; a copy 160-170, of which 5 are alone;
 * the kernel from 290 on is cut off. */
/* clang-format off */
static const char by_hand[] =
    "{\"schemaVersion\":1,\"traceEvents\":["
    STEP("3", "200.0", "100") ","
    STEP("2", "100", "100") ","
    KERNEL("gemm", "110.000", "30", ",\"correlation\":5") ","
    KERNEL("relu", "130", "20.000", ",\"correlation\":6") ","
    KERNEL("ncclDevKernel_AllGather_RING_LL(int)", "145", "20",
           ",\"Collective name\":\"_allgather_base\",\"In msg nelems\":10,\"Out msg nelems\":80,"
           "\"Group size\":8,\"dtype\":\"BFloat16\",\"Process Group Description\":\"mesh_dp_shard\"") ","
    KERNEL("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "210", "20", ",\"correlation\":7") ","
    KERNEL("adam", "290", "20", ",\"correlation\":8") ","
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoD (Device -> Device)\",\"ts\":160,"
    "\"dur\":10,\"pid\":0,\"args\":{\"device\":0,\"bytes\":64}},"
    HOST("cpu_op", "autograd::engine::evaluate_function: Relu", "101", "5", "") ","
    HOST("user_annotation", "Optimizer.step#Adam.step", "107", "2", "") ","
    HOST("user_annotation", "nccl:all_to_all", "120", "5", "") ","
    HOST("cuda_runtime", "cudaLaunchKernel", "100", "1", "\"correlation\":5") ","
    HOST("cuda_runtime", "cudaLaunchKernel", "103", "1", "\"correlation\":6") ","
    HOST("cuda_runtime", "cudaLaunchKernel", "121", "1", "\"correlation\":7") ","
    HOST("cuda_runtime", "cudaLaunchKernel", "108", "1", "\"correlation\":8") ","
    "{\"ph\":\"i\",\"name\":\"x\",\"ts\":1,\"s\":\"g\"}],"
    "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":3,\"world_size\":8}}";
/* clang-format on */

static void takes_a_trace_apart_as_by_hand(void **state)
{
    struct measurement m = {0};
    struct run_times t;
    assert_int_equal(read_text(by_hand, &nothing, &m, &t), STATUS_OK);
    assert_int_equal(t.steps, 2);
    near(t.window_s, 100e-6);
    near(t.busy_s, (40 + 10) / 2.0 * 1e-6);
    near(t.comm_s, 40 / 2.0 * 1e-6);
    near(t.exposed_s, (15 + 20) / 2.0 * 1e-6);
    near(t.idle_s, (200 - 50 - 35) / 2.0 * 1e-6);
    near(t.copy_s, 5e-6);
    near(t.copy_alone_s, 2.5e-6);
    near(t.exposed_by_s[FOR_SHARDS], 7.5e-6);
    near(t.exposed_by_s[FOR_EXPERTS], 10e-6);
    near(t.kind_s[SPAN_ALLGATHER], 10e-6);
    near(t.kind_s[SPAN_ALLTOALL], 10e-6);
    near(t.phase_s[PHASE_FORWARD], 15e-6);
    near(t.phase_s[PHASE_BACKWARD], 10e-6);
    near(t.phase_s[PHASE_UPDATE], 5e-6);
    near(t.outside, 10 / 120.0);
    assert_int_equal(m.iterations, 2);
    near(m.iteration_s, 100e-6);
    near(m.bubble_fraction, 115 / 200.0);
    assert_string_equal(m.rank[0].name, "rank 3");
    assert_int_equal(m.calls, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(m.call[i].members, 8);
        near(m.call[i].calls, 0.5);
        near(m.call[i].seconds, 10e-6);
        assert_int_equal(m.call[i].bytes, m.call[i].kind == OP_ALLGATHER ? 160 : 0);
    }
    measurement_free(&m);
}

static void finds_the_ops_that_launched_kernels(void **state)
{
    static const struct {
        const char *name;
        int phase;
        double us;
    } want[] = {{"gemm", PHASE_FORWARD, 15},
                {"ncclDevKernel_AllGather_RING_LL(int)", PHASE_UNKNOWN, 10},
                {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", PHASE_FORWARD, 10},
                {"Relu", PHASE_BACKWARD, 10},
                {"adam", PHASE_UPDATE, 5}};
    struct measured_run run = {0};
    struct run_op *op;
    size_t n;
    char name[64];
    put(file, by_hand);
    assert_int_equal(measured_run_read(&file, 1, LAYERS_NONE, &run), STATUS_OK);
    assert_int_equal(measured_run_ops(&run, 0, &op, &n), STATUS_OK);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < 5; i++) {
        size_t k = 0;
        while (k < n && strcmp(run_name(&run, op[k].name, name, sizeof name), want[i].name) != 0)
            k++;
        assert_true(k < n);
        assert_int_equal(op[k].phase, want[i].phase);
        near(op[k].seconds, want[i].us * 1e-6);
        near(op[k].calls, 0.5);
        assert_true(k == 0 || op[k - 1].seconds >= op[k].seconds);
    }
    free(op);
    measured_run_free(&run);
}

static void leaves_out_what_has_no_time_and_says_how_much(void **state)
{
    struct measurement m = {0};
    struct run_times t;
    assert_int_equal(
        read_text("[" KERNEL("a", "1", "2", "") "," KERNEL("b", "5", "-2", "") "," KERNEL(
                      "c", "NaN", "2", "") "," KERNEL("d", "\"7\"", "1",
                                                      "") "," KERNEL("e", "1e300", "1", "") "]",
                  &nothing, &m, &t),
        STATUS_OK);
    near(t.busy_s, 3e-6);
    near(t.window_s, 7e-6);
    assert_int_equal(m.warnings, 4);
    assert_message(m.warning[0], "2 event without");
    assert_message(m.warning[1], "1 event before");
    assert_message(m.warning[3], "1 no NCCL RCCL");
    measurement_free(&m);
}

/* Times of the slow count: a byte for each nanosecond. */
static void equals_a_slow_count_on_random_traces(void **state)
{
    enum { END = 4000, EVENTS = 60 };
    uint64_t r = 7;
    for (int round = 0; round < 200; round++) {
        unsigned char ns[END] = {0};
        struct measurement m = {0};
        struct run_times t;
        char *text;
        size_t length;
        FILE *f = open_memstream(&text, &length);
        long steps = 1 + (long)(random_next(&r) % 4);
        fputs("{\"traceEvents\":[", f);
        for (long k = 0; k < steps; k++)
            fprintf(f, STEP("%ld", "%.3f", "%.3f") ",", k, (double)(500 + k * 3000 / steps) / 1e3,
                    (double)(3000 / steps) / 1e3);
        for (int i = 0; i < EVENTS; i++) {
            long start = (long)(random_next(&r) % (END - 200)), n = (long)(random_next(&r) % 200);
            bool comm = random_next(&r) % 3 == 0;
            fprintf(f, KERNEL("%s", "%.3f", "%.3f", "") "%s", comm ? "rcclAllReduce" : "gemm",
                    (double)start / 1e3, (double)n / 1e3, i + 1 < EVENTS ? "," : "]}");
            for (long k = start; k < start + n; k++)
                ns[k] |= comm ? 2 : 1;
        }
        fclose(f);
        assert_int_equal(read_text(text, &nothing, &m, &t), STATUS_OK);
        long end = 500 + (steps - 1) * 3000 / steps + 3000 / steps, count[4] = {0};
        for (long k = 500; k < end; k++)
            count[ns[k]]++;
        const double per = 1e-9 / (double)steps;
        near(t.busy_s + 1, (double)(count[1] + count[3]) * per + 1);
        near(t.comm_s + 1, (double)(count[2] + count[3]) * per + 1);
        near(t.exposed_s + 1, (double)count[2] * per + 1);
        near(t.idle_s + 1, (double)count[0] * per + 1);
        near(t.busy_s + t.exposed_s + t.idle_s, t.window_s);
        measurement_free(&m);
        free(text);
    }
}

static void numbers_are_exact(void **state)
{
    int64_t ns;
    uint64_t r = 3;
    assert_true(reader_ns("1694128201429795.125", 1000, &ns));
    assert_true(ns == INT64_C(1694128201429795125));
    assert_true(reader_ns("0.0005", 1000, &ns) && ns == 1);
    assert_true(reader_ns("0.0004", 1000, &ns) && ns == 0);
    assert_true(reader_ns("-2.5", 1000, &ns) && ns == -2500);
    assert_true(reader_ns("1.5e3", 1000, &ns) && ns == 1500000);
    assert_true(reader_ns("12.9", 1, &ns) && ns == 13);
    assert_false(reader_ns("", 1000, &ns));
    assert_false(reader_ns("1x", 1000, &ns));
    assert_false(reader_ns("99999999999999999999", 1000, &ns));
    for (int i = 0; i < 10000; i++) {
        char text[64];
        int64_t want = (int64_t)(random_next(&r) >> 2);
        snprintf(text, sizeof text, "%lld.%03lld", (long long)(want / 1000),
                 (long long)(want % 1000));
        if (want / 1000 < INT64_MAX / 10 / 1000 - 10) {
            assert_true(reader_ns(text, 1000, &ns));
            assert_true(ns == want);
        }
    }
}

/* Short numbers are read without strtod(), and to the same bits. */
static void numbers_in_lines_are_those_of_strtod(void **state)
{
    uint64_t r = 5;
    double v;
    for (int i = 0; i < 20000; i++) {
        char text[64], line[80];
        int digits = (int)(random_next(&r) % 19), point = (int)(random_next(&r) % 20), n = 0;
        for (int k = 0; k <= digits; k++) {
            if (k == point)
                text[n++] = '.';
            text[n++] = (char)('0' + random_next(&r) % 10);
        }
        n += snprintf(text + n, sizeof text - (size_t)n, i % 7 ? "" : "e%d", i % 90 - 45);
        snprintf(line, sizeof line, "a step: %s| b", text);
        assert_true(reader_number(line, "step", &v));
        double want = strtod(text, NULL);
        assert_memory_equal(&v, &want, sizeof v);
    }
    assert_true(reader_number("tps: 1,234.5, x", "tps:", &v) && v == 1234.5);
    assert_false(reader_number("tps: .", "tps:", &v));
    assert_false(reader_number("tps: inf", "tps:", &v));
    assert_false(reader_number("tps:", "tps:", &v));
}

static void ranks_of_several_files_are_one_run(void **state)
{
    static const char *const path[] = {"test_measured.a", "test_measured.b"};
    const char *const twice[] = {path[0], path[0]};
    struct measured_run run = {0};
    struct measurement m = {0};
    put(path[0], "{\"distributedInfo\":{\"rank\":1,\"world_size\":2},\"traceEvents\":[" STEP(
                     "1", "0", "50") "," KERNEL("a", "1", "2", "") "]}");
    gzFile z = gzopen(path[1], "wb");
    gzputs(z, "{\"distributedInfo\":{\"rank\":0,\"world_size\":2},\"traceEvents\":[" STEP(
                  "1", "7", "60") "," KERNEL("a", "10", "2", "") "]}");
    gzclose(z);
    assert_int_equal(measured_run_read(path, 2, LAYERS_NONE, &run), STATUS_OK);
    assert_int_equal(measured_run_measure(&run, path[0], &nothing, &m, NULL), STATUS_OK);
    assert_string_equal(m.rank[0].name, "rank 0");
    assert_string_equal(m.rank[1].name, "rank 1");
    near(m.iteration_s, 60e-6); /* the longer one */
    measured_run_free(&run);
    measurement_free(&m);
    assert_int_equal(measured_run_read(twice, 2, LAYERS_NONE, &run), STATUS_INVALID);
    assert_message(error_message(), "rank 1 is in two of the files");
    put(path[0], "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n"
                 "1000,500,1,H100 (9223372036854775807),7,gemm\n");
    assert_int_equal(measured_run_read(path, 1, LAYERS_NONE, &run), STATUS_INVALID);
    assert_message(error_message(), "rank 9223372036854775807 expected 2147483647");
    remove(path[0]);
    remove(path[1]);
}

/* ---- logs and tables */

static void reads(const char *text, const struct run_options *o, const char *format, size_t n,
                  double iteration_s, double samples_per_s)
{
    struct measurement m = {0};
    if (read_text(text, o, &m, NULL) != STATUS_OK)
        fail_msg("%s: %s", format, error_message());
    assert_string_equal(m.engine, format);
    assert_int_equal(m.iterations, n);
    near(m.iteration_s, iteration_s);
    near(m.samples_per_s + 1, samples_per_s + 1);
    assert_int_equal(m.ranks, 0);
    measurement_free(&m);
}

static void reads_the_lines_of_frameworks(void **state)
{
    const struct run_options plan = {.samples = 16, .tokens = 16 * 2048, .devices = 8};
    const struct run_options later = {.warmup = 1};
    static const char megatron[] =
        "using world size: 8\n"
        " iteration        1/    50 | consumed samples:  16 | elapsed time per iteration (ms): "
        "9000.5 |"
        " learning rate: 1.5E-05 | global batch size:    16 | lm loss: 9.1E+00 |\n"
        " iteration        2/    50 | consumed samples:  32 | elapsed time per iteration (ms): "
        "500.0 |"
        " learning rate: 1.5E-05 | global batch size:    16 |\n";
    reads(megatron, &nothing, "megatron", 2, 4.75025, 16 / 4.75025);
    reads(megatron, &later, "megatron", 1, 0.5, 32);
    reads("\033[32mTraining epoch 0, iteration 7/9\033[0m | lr: 3e-05 | global_batch_size: 8 | "
          "global_step: 7 | train_step_timing in s: 0.25\n",
          &nothing, "nemo", 1, 0.25, 32);
    reads("Epoch 0: 1%| | 1/9 [00:01<, global_step=1.000, train_step_timing in s=1.0]\r"
          "Epoch 0: 2%| | 2/9 [00:01<, global_step=2.000, train_step_timing in s=0.50]\r"
          "Epoch 0: 2%| | 2/9 [00:01<, global_step=2.000, train_step_timing in s=0.50]\n",
          &nothing, "nemo", 2, 0.75, 0);
    reads("[config.py:957:print]   train_batch_size ............. 32\n"
          "[timer.py:215:stop] epoch=0/micro_step=3/global_step=3, RunningAvgSamplesPerSec=7.8, "
          "CurrSamplesPerSec=8.0, MemAllocated=5GB\n",
          &nothing, "deepspeed", 1, 4, 8);
    reads("[timer.py:189:stop] 0/40, SamplesPerSec=64, MemAllocated=0.26GB\n", &plan, "deepspeed",
          1, 0.25, 64);
    reads("steps: 10 loss: 8.1 iter time (s): 0.5 samples/sec: 32\n", &nothing, "deepspeed", 1, 0.5,
          0);
    reads("[rank0]:[titan] - INFO - \033[31mstep: 10  \033[32mloss:  7.1  memory: 47.5GiB(50%)  "
          "tps: 8,192  tflops: 300.00  mfu: 40%\n",
          &plan, "torchtitan", 1, 0.5, 32);
    refuses("step: 10  loss:  7.1  tps: 8,192  mfu: 40%\n", "--plan");
}

static void reads_tables_of_steps(void **state)
{
    reads("step,step_time (ms),loss\n1,100,3\n2,300,2\n3,200,2\n", &nothing, "csv", 3, 0.2, 0);
    reads("# rank\titeration\titeration_s\tbatch\n0\t1\t2\t8\n1\t1\t4\t8\n", &nothing, "csv", 1, 4,
          2);
    reads("\"elapsed_us\";\"note\"\n\"1000\";\"a;b\"\"c\"\n", &nothing, "csv", 1, 1e-3, 0);
    refuses("step,step_time (ms)\n1,x\n", "test_measured.in:2: 'x' number");
    refuses("step,step_time (ms)\n1,2,3\n", "test_measured.in:2 3 header");
    refuses("step,step_time (ms)\n", "no steps no ranks");
}

/* ---- faults */

/* A table of 1,440 configurations was one run of as many iterations. */
static void refuses_tables_of_configurations(void **state)
{
    refuses("# GPUs,global batch,# layers,iteration time (ms)\n2,16,24,370\n2,16,24,371\n"
            "8,32,48,220\n",
            "test_measured.in:4 configuration 2 ('# GPUs' '# 8 2");
    refuses("step,tp,seconds\n1,1,2\n2,2,3\n", ":3 configuration 2 ('tp' 2 1");
    /* What changes from step to step is no configuration; nor is a batch that grows. */
    reads("step,loss,lr,dp_comm_ms,global_step,GPUs,seconds\n1,3,0.1,10,1,8,1\n2,2,0.2,20,2,8,3\n",
          &nothing, "csv", 2, 2, 0);
}

static void refuses_what_is_no_run(void **state)
{
    refuses("", "a run");
    refuses("hello\nworld\n", "a run");
    refuses("{\"traceEvents\":[", "file is truncated");
    refuses("{\"traceEvents\":[{\"ph\":\"X\" \"cat\"", "test_measured.in:1: byte 0x22 ','");
    refuses("{\"traceEvents\":[]} x", "after the end");
    refuses("{\"traceEvents\":[]}", "no GPU activity");
    refuses("{\"a\":1}", "traceEvents");
    refuses("{\"a\":\"\001\"}", "control character");
    refuses("{\"traceEvents\":[1]}", "event object");
    refuses("{\"a\":tru}", "'tru' value");
    refuses("{\"a\":[1,]}", "byte 0x5d a value");
    char deep[400] = "{\"a\":";
    memset(deep + 5, '[', sizeof deep - 6);
    refuses(deep, "nested more than 64 deep");
    const char *const missing = "no/such";
    struct measured_run run = {0};
    assert_int_equal(measured_run_read(&missing, 1, LAYERS_NONE, &run), STATUS_IO);
    gzFile z = gzopen(file, "wb");
    gzputs(z, by_hand);
    gzclose(z);
    FILE *f = fopen(file, "r+");
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    assert_int_equal(ftruncate(fileno(f), ftell(f) - 40), 0);
    fclose(f);
    assert_int_equal(measured_run_read(&file, 1, LAYERS_NONE, &run), STATUS_IO);
    assert_message(error_message(), "truncated");
}

static enum status import_and_trace(void)
{
    const struct provenance by = {"test", "test", NULL, 0};
    struct measured_run run = {0};
    struct measurement m = {0};
    enum status st;
    TRY(measured_run_read(&file, 1, LAYERS_NONE, &run));
    TRY(measured_run_measure(&run, file, &nothing, &m, NULL));
    TRY(measured_run_trace(&run, 0, "test_measured.out", &by));
    TRY(measured_run_trace(&run, 0, "test_measured.out.gz", &by));
out:
    measured_run_free(&run);
    measurement_free(&m);
    return st;
}

/* A packed timeline unpacks to the plain one. */
static void packs_timelines_by_their_names(void **state)
{
    static const char *const name[] = {"test_measured.out", "test_measured.out.gz"};
    const struct provenance by = {"test", "test", NULL, 0};
    struct measured_run run = {0};
    char *text[2];
    put(file, by_hand);
    assert_int_equal(measured_run_read(&file, 1, LAYERS_NONE, &run), STATUS_OK);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(measured_run_trace(&run, 0, name[k], &by), STATUS_OK);
        gzFile z = gzopen(name[k], "rb");
        assert_int_equal(gzdirect(z), k == 0);
        text[k] = calloc(1, 65536);
        assert_true(gzread(z, text[k], 65535) > 1000);
        gzclose(z);
        remove(name[k]);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
    measured_run_free(&run);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    put(file, by_hand);
    FOR_EACH_ALLOC_FAILURE(import_and_trace());
    remove("test_measured.out");
    remove("test_measured.out.gz");
    remove(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_trace_apart_as_by_hand),
        cmocka_unit_test(finds_the_ops_that_launched_kernels),
        cmocka_unit_test(leaves_out_what_has_no_time_and_says_how_much),
        cmocka_unit_test(equals_a_slow_count_on_random_traces),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(numbers_in_lines_are_those_of_strtod),
        cmocka_unit_test(ranks_of_several_files_are_one_run),
        cmocka_unit_test(reads_the_lines_of_frameworks),
        cmocka_unit_test(reads_tables_of_steps),
        cmocka_unit_test(refuses_tables_of_configurations),
        cmocka_unit_test(refuses_what_is_no_run),
        cmocka_unit_test(packs_timelines_by_their_names),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
