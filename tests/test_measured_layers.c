/* From kernels to layers: traces by hand, what is refused, and every allocation failing in turn. */

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"

#define MEASURED_FILE "test_measured_layers.in"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/measured_text.h"

#define EVENT(category, name, tid, ts, dur, args)                                                  \
    ",{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name "\",\"tid\":" tid ",\"ts\":" ts     \
    ",\"dur\":" dur ",\"args\":{" args "}}"
#define KERNEL(name, ts, dur, launch)                                                              \
    EVENT("kernel", name, "7", ts, dur, "\"device\":0,\"correlation\":" launch)
#define SEQUENCE(n) "\"Sequence number\":" n

/* Two steps of 1000 us. In the first: block a [10, 100] with its part fc [20, 60], block b [100,
 * 200]; a kernel between them is of none. Backward on thread 2: the node of b's op; the
 * checkpoint's of a, which makes fc again; an AccumulateGrad behind it; then the update. The second
 * step has b's forward alone. */
static const char by_hand[] = SOURCE_DIR "/tests/fuzz/corpus/runs/layers.json";

static struct run_profile_options options = {
    .samples = 4, .microbatches = 1, .tensor_parallel = 1, .device = "H100"};

static enum status profile_of(const char *text, enum run_layers layers, struct model *m,
                              struct run_profile_told *told)
{
    struct measured_run run = {0};
    const char *path = text == by_hand ? by_hand : file;
    if (path == file)
        put(file, text);
    enum status st = measured_run_read(&path, 1, layers, &run);
    if (st == STATUS_OK)
        st = measured_run_profile(&run, path, &options, m, told);
    measured_run_free(&run);
    return st;
}

static void has(const struct model *m, const char *name, double forward_us, double backward_us,
                double again_us)
{
    const struct model_profile *p = &m->profile[0];
    uint32_t i = model_find(m, name);
    assert_int_not_equal(i, MODEL_NO_OP);
    near(p->forward_s[i], forward_us * 1e-6);
    near(p->backward_s[i], backward_us * 1e-6);
    near(p->again_s ? p->again_s[i] : 0, again_us * 1e-6);
}

static void finds_the_layers_of_a_trace_by_hand(void **state)
{
    struct model m = {0};
    struct run_profile_told t;
    assert_int_equal(profile_of(by_hand, LAYERS_RANGES, &m, &t), STATUS_OK);
    assert_int_equal(m.n, 4);
    assert_string_equal(m.op[0].name, "a/fc"); /* in the order of their first forwards */
    assert_string_equal(m.op[1].name, "a");
    assert_string_equal(m.op[2].name, "b");
    assert_string_equal(m.op[3].name, "(rest)");
    assert_int_equal(m.edges, 3);
    has(&m, "a/fc", 10 / 2.0, 26 / 2.0, 10 / 2.0);
    has(&m, "a", (2 + 2) / 2.0, 0, 0);
    has(&m, "b", (30 + 70) / 2.0, 50 / 2.0, 0);
    has(&m, "(rest)", 4 / 2.0, 0, 0);
    near(t.rest_s, 2e-6);
    near(t.update_s, 20e-6);
    near(t.comm_s, 50e-6);
    near(t.all_s, (10 + 26 + 10 + 4 + 100 + 50 + 4) / 2.0 * 1e-6);
    assert_int_equal(t.layers, 3);
    assert_false(t.updates);
    assert_string_equal(m.profile[0].device, "H100");
    near(m.profile[0].samples, 4);
    model_free(&m);
    options.microbatches = 2; /* of a step */
    assert_int_equal(profile_of(by_hand, LAYERS_RANGES, &m, &t), STATUS_OK);
    has(&m, "b", 25, 12.5, 0);
    near(t.update_s, 20e-6);
    options.microbatches = 1;
    model_free(&m);
}

/* Ops of the host are numbered in every step anew; those of nodes are none. */
static void takes_ops_in_their_order(void **state)
{
    struct model m = {0};
    struct run_profile_told t;
    assert_int_equal(profile_of(by_hand, LAYERS_OPS, &m, &t), STATUS_OK);
    has(&m, "aten::linear.0", 5, 18, 0); /* with what the checkpoint made again */
    has(&m, "aten::relu.0", 50, 25, 0);
    has(&m, "aten::sum.0", 2, 0, 0);
    assert_int_equal(m.n, 4); /* what block a did beside an op is the rest */
    model_free(&m);
}

static struct model two_ops(const char *second)
{
    struct model m = {.element_bytes = 4};
    assert_int_equal(ARRAY_NEW(m.op, 2), STATUS_OK);
    m.n = 2;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(text_copy(i ? second : "fc", &m.op[i].name), STATUS_OK);
        assert_int_equal(text_copy("linear", &m.op[i].kind), STATUS_OK);
        m.op[i].shares = MODEL_NO_OP;
        m.op[i].parameter_bytes = i ? 300 : 100;
    }
    assert_int_equal(text_copy("two", &m.name), STATUS_OK);
    assert_int_equal(model_finish(&m, NULL, 0, "two"), STATUS_OK);
    return m;
}

static void gives_times_to_the_ops_of_a_model(void **state)
{
    struct run_profile_told t;
    struct model m = two_ops("a");
    for (int twice = 0; twice < 2; twice++) { /* the second profile stands in place of the first */
        assert_int_equal(profile_of(by_hand, LAYERS_RANGES, &m, &t), STATUS_OK);
        assert_int_equal(m.profiles, 1);
        has(&m, "fc", 5, 13, 5);
        has(&m, "a", 2, 0, 0);
        near(m.profile[0].update_s[0], 5e-6); /* by parameters */
        near(m.profile[0].update_s[1], 15e-6);
        near(t.rest_s, (100 + 50 + 4) / 2.0 * 1e-6); /* b is no op of the model */
        assert_int_equal(t.silent, 0);
        assert_true(t.updates);
    }
    model_free(&m);
    m = two_ops("z");
    assert_int_equal(profile_of(by_hand, LAYERS_RANGES, &m, &t), STATUS_OK);
    assert_int_equal(t.silent, 1);
    assert_string_equal(t.first_silent, "z");
    model_free(&m);
}

/* Without a GPU the outermost ops of the host compute. */
static void takes_a_trace_of_a_processor(void **state)
{
    struct model m = {0};
    struct run_profile_told t;
    static const char host[] = "{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"x\"}" EVENT(
        "user_annotation", "a", "1", "10", "90", "")
        EVENT("cpu_op", "aten::mm", "1", "20", "30", SEQUENCE("1"))
            EVENT("cpu_op", "aten::empty", "1", "21", "5", "")
                EVENT("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "1", "100",
                      "50", SEQUENCE("1")) EVENT("cpu_op", "aten::mm", "1", "110", "30", "") "]}";
    assert_int_equal(profile_of(host, LAYERS_RANGES, &m, &t), STATUS_OK);
    assert_int_equal(m.n, 1);
    has(&m, "a", 30, 50, 0);
    model_free(&m);
}

static enum status profile_of_database(const char *sql, enum run_layers layers, struct model *m)
{
    static const char *const path = "test_measured_layers.db";
    struct measured_run run = {0};
    struct run_profile_told t;
    sqlite3 *db;
    remove(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    enum status st = measured_run_read(&path, 1, layers, &run);
    if (st == STATUS_OK)
        st = measured_run_profile(&run, path, &options, m, &t);
    measured_run_free(&run);
    remove(path);
    return st;
}

#define ACTIVITY                                                                                   \
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"                                 \
    "INSERT INTO StringIds VALUES (1, 'gemm');"                                                    \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "      \
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"          \
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 300, 0, 7, 1, 16777216, 1), "             \
    "(300, 340, 0, 7, 2, 16777216, 1), (100, 150, 1, 7, 1, 33554432, 1);"
#define LAUNCHES                                                                                   \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, globalTid INTEGER, correlationId "   \
    "INTEGER);"                                                                                    \
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (20, 16777217, 1), (60, 16777218, 2), "        \
    "(25, 33554433, 1);"
#define NVTX(rows)                                                                                 \
    "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId "  \
    "INTEGER); INSERT INTO NVTX_EVENTS VALUES " rows ";"

/* Two processes, whose launches have the same numbers; layer a of the first took 200 ns, of the
 * second 50. */
static void takes_ranges_of_nvtx(void **state)
{
    struct model m = {0};
    static const char ranges[] = ACTIVITY LAUNCHES NVTX(
        "(0, 1000, 16777217, 'iteration 1', NULL), (10, 30, 16777217, 'a', NULL), "
        "(12, 28, 16777217, 'aten::mm, seq = 3, op_id = 1', NULL), (10, 30, 33554433, 'a', NULL), "
        "(50, 70, 16777218, 'autograd::engine::evaluate_function: MmBackward0, seq = 3, op_id = "
        "9', NULL)");
    assert_int_equal(profile_of_database(ranges, LAYERS_RANGES, &m), STATUS_OK);
    assert_int_equal(m.n, 1);
    has(&m, "a", (200 + 50) / 2.0 / 1e3, 40 / 2.0 / 1e3, 0);
    model_free(&m);
    assert_int_equal(profile_of_database(ranges, LAYERS_OPS, &m), STATUS_OK);
    has(&m, "aten::mm.0", 0.2, 0.04, 0);
    has(&m, "(rest)", 0.05 / 2, 0, 0); /* that of the second process has no op */
    model_free(&m);
    assert_int_equal(profile_of_database(ACTIVITY, LAYERS_RANGES, &m), STATUS_INVALID);
    assert_message(error_message(), "launches not recorded");
    assert_int_equal(profile_of_database(ACTIVITY LAUNCHES, LAYERS_RANGES, &m), STATUS_INVALID);
    assert_message(error_message(), "no ranges of a model");
}

/* Names that differ in their last letter alone. */
static void tells_long_names_of_nvtx_apart(void **state)
{
    enum { ZEROS = 600 };
    struct model m = {0};
    char name[ZEROS + 2];
    memset(name, '0', ZEROS);
    name[ZEROS + 1] = '\0';
    static const char ranges[] =
        ACTIVITY LAUNCHES NVTX("(0, 1000, 16777217, 'iteration 1', NULL), "
                               "(10, 30, 16777217, hex(zeroblob(300)) || 'a', NULL), "
                               "(50, 70, 16777218, hex(zeroblob(300)) || 'b', NULL)");
    assert_int_equal(profile_of_database(ranges, LAYERS_RANGES, &m), STATUS_OK);
    name[ZEROS] = 'a';
    has(&m, name, 0.2, 0, 0);
    name[ZEROS] = 'b';
    has(&m, name, 0.04, 0, 0);
    model_free(&m);
    static const char longer[] =
        ACTIVITY LAUNCHES NVTX("(10, 30, 16777217, hex(zeroblob(600000)), NULL)");
    assert_int_equal(profile_of_database(longer, LAYERS_RANGES, &m), STATUS_PARSE);
    assert_message(error_message(), "too big");
}

static void says_what_has_no_layers(void **state)
{
    struct run_profile_told t;
    struct model m = two_ops("z");
    static const char alone[] =
        "{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"x\"}" KERNEL("gemm", "1", "2", "1") "]}";
    assert_int_equal(profile_of(alone, LAYERS_RANGES, &m, &t), STATUS_INVALID);
    assert_message(error_message(), "--profile ops");
    assert_int_equal(profile_of("step,step_time (ms)\n1,5\n2,6\n", LAYERS_RANGES, &m, &t),
                     STATUS_INVALID);
    assert_message(error_message(), "no layers");
    free(m.op[0].name);
    assert_int_equal(text_copy("y", &m.op[0].name), STATUS_OK);
    assert_int_equal(profile_of(by_hand, LAYERS_RANGES, &m, &t), STATUS_INVALID);
    assert_message(error_message(), "an op of two 'y'");
    assert_int_equal(m.profiles, 0);
    model_free(&m);
}

static enum status whole(enum run_layers layers)
{
    struct model m = {0};
    struct run_profile_told t;
    struct measured_run run = {0};
    const char *path = by_hand;
    enum status st = measured_run_read(&path, 1, layers, &run);
    if (st == STATUS_OK)
        st = measured_run_profile(&run, path, &options, &m, &t);
    measured_run_free(&run);
    model_free(&m);
    return st;
}

static void survives_each_allocation_failing(void **state)
{
    for (enum run_layers l = LAYERS_RANGES; l <= LAYERS_OPS; l++)
        FOR_EACH_ALLOC_FAILURE(whole(l));
    remove(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_layers_of_a_trace_by_hand),
        cmocka_unit_test(takes_ops_in_their_order),
        cmocka_unit_test(gives_times_to_the_ops_of_a_model),
        cmocka_unit_test(takes_a_trace_of_a_processor),
        cmocka_unit_test(takes_ranges_of_nvtx),
        cmocka_unit_test(tells_long_names_of_nvtx_apart),
        cmocka_unit_test(says_what_has_no_layers),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
