/* Nsight Systems: tables of activities and databases, hostile ones too. */

#include <sqlite3.h>
#include <stdio.h>

#include "measured/launches.h"

#define MEASURED_FILE "test_measured_nsys.in"
#include "tests/cmocka.h"
#include "tests/measured_text.h"

static void reads_tables_of_nsys(void **state)
{
    struct measurement m = {0};
    struct run_times t[2];
    assert_int_equal(
        read_text("Generating SQLite file\n\nStart (ns),Duration (ns),CorrId,Bytes "
                  "(MB),Device,Strm,Name\n"
                  "1000,500,1,,NVIDIA H100 (0),7,\"void gemm<int, 4>(int, float)\"\n"
                  "1200,800,2,,NVIDIA H100 (0),8,ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(int)\n"
                  "1000,100,3,1.5,NVIDIA H100 (1),7,[CUDA memcpy Host-to-Device]\n"
                  "1500,500,4,,NVIDIA H100 (1),7,relu\n",
                  &nothing, &m, t),
        STATUS_OK);
    near(t[0].busy_s, 500e-9);
    near(t[0].exposed_s, 500e-9);
    near(t[0].exposed_by_s[FOR_SHARDS], 500e-9);
    near(t[1].copy_s, 100e-9);
    near(t[1].idle_s, 500e-9);
    measurement_free(&m);
    refuses("Time (%),Total Time (ns),Instances\n", "cuda_gpu_trace");
    refuses("Start (parsec),Duration (ns),Name\n", "unknown unit");
    refuses("Start (ns),Duration (ns),Name\n1,-1,a\n", ":2: '-1' time");
    remove(file);
}

static void run_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
}

static enum status read_database(const char *sql, struct measurement *m, struct run_times *t)
{
    static const char *const path = "test_measured.db";
    struct measured_run run = {0};
    sqlite3 *db;
    remove(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    run_sql(db, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
                "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclKernel_AllReduce_RING');");
    run_sql(db, sql);
    sqlite3_close(db);
    enum status st = measured_run_read(&path, 1, LAYERS_NONE, &run);
    if (st == STATUS_OK)
        st = measured_run_measure(&run, path, &nothing, m, t);
    measured_run_free(&run);
    remove(path);
    return st;
}

#define KERNELS                                                                                    \
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "      \
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"          \
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 300, 0, 7, 1, 16777216, 1), "             \
    "(200, 600, 0, 8, 2, 16777216, 2), (100, 150, 1, 7, 3, 33554432, 1);"

static void reads_databases_of_nsys(void **state)
{
    struct measurement m = {0};
    struct run_times t[2];
    assert_int_equal(
        read_database(KERNELS
                      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, "
                      "text TEXT, textId INTEGER);"
                      "INSERT INTO NVTX_EVENTS VALUES (0, 400, 16777217, 'iteration 4', NULL), "
                      "(400, 1000, 16777217, 'iteration 5', NULL), "
                      "(10, 20, 16777217, 'iterations', NULL), "
                      "(0, 500, 33554433, 'iteration 4', NULL);",
                      &m, t),
        STATUS_OK);
    assert_int_equal(m.ranks, 2);
    assert_int_equal(t[0].steps, 2);
    near(t[0].window_s, 500e-9);
    near(t[0].busy_s, 100e-9);
    near(t[0].exposed_s, 150e-9);
    assert_int_equal(t[1].steps, 1);
    near(t[1].window_s, 500e-9);
    near(m.iteration_s, 500e-9); /* of the first step alone, which both have */
    measurement_free(&m);
    assert_int_equal(read_database("CREATE TABLE a (b);", &m, t), STATUS_INVALID);
    /* A view that does not end stands where the table is expected. */
    assert_int_equal(
        read_database("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(i) AS "
                      "(SELECT 1 UNION ALL SELECT i FROM n) SELECT * FROM n;",
                      &m, t),
        STATUS_INVALID);
}

/* The first row is of GPU 1, of the later process: rank 0 is the first process on GPU 0
 * nevertheless. */
static void ranks_of_databases_follow_devices(void **state)
{
    struct measurement m = {0};
    struct run_times t[3];
    assert_int_equal(
        read_database("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, "
                      "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid "
                      "INTEGER, demangledName INTEGER);"
                      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
                      "(100, 400, 1, 7, 1, 16777216, 1), (100, 300, 0, 7, 2, 33554432, 1), "
                      "(100, 200, 0, 7, 3, 16777216, 1);",
                      &m, t),
        STATUS_OK);
    near(t[0].busy_s, 100e-9);
    near(t[1].busy_s, 200e-9);
    near(t[2].busy_s, 300e-9);
    assert_message(m.warning[0], "numbers GPU process");
    measurement_free(&m);
}

/* Databases say any time of a launch, the last one that there is, too. */
static void launches_are_of_parts_at_any_time(void **state)
{
    struct launches l = {0};
    struct span s[] = {{.launch = 1}, {.launch = 2}, {.launch = 3}};
    assert_int_equal(launches_add_part(&l, 5, 10, INT64_MAX, ABOUT_PHASE, PHASE_BACKWARD),
                     STATUS_OK);
    assert_int_equal(launches_add(&l, 1, 5, INT64_MAX), STATUS_OK);
    assert_int_equal(launches_add(&l, 2, 5, 10), STATUS_OK);
    assert_int_equal(launches_add(&l, 3, 5, 9), STATUS_OK);
    assert_int_equal(launches_find(&l, s, 3), STATUS_OK);
    assert_int_equal(s[0].phase, PHASE_BACKWARD);
    assert_int_equal(s[1].phase, PHASE_BACKWARD);
    assert_int_equal(s[2].phase, PHASE_FORWARD);
    launches_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tables_of_nsys),
        cmocka_unit_test(reads_databases_of_nsys),
        cmocka_unit_test(ranks_of_databases_follow_devices),
        cmocka_unit_test(launches_are_of_parts_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
