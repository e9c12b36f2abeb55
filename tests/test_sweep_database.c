/* The database of a sweep: what is put in comes out, once; other files are taken in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "core/base/provenance.h"
#include "study/database_handle.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const struct provenance by = {"foreline test", "test", NULL, 7};
static char dir[] = "/tmp/foreline-database-XXXXXX";
static struct experiment e;

static const char *in_dir(const char *name)
{
    static char path[2][128];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof *path, "%s/%s", dir, name);
    return path[turn];
}

static int set_up(void **state)
{
    static const char text[] = "model: m\nplan.stages: [1, 2]\n";
    if (!mkdtemp(dir))
        return -1;
    return experiment_parse("e.yml", text, strlen(text), NULL, &e) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[64];
    experiment_free(&e);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static enum status take_finding(void *context, sqlite3_stmt *s)
{
    const struct database *db = context;
    const char *text = database_text(s, 0);
    return !strcmp(text, "ok") ? STATUS_OK
                               : error_set(STATUS_IO, "%s: damaged: %s", db->path, text);
}

static enum status check(struct database *db)
{
    return database_run(db, "PRAGMA integrity_check", take_finding, db, "");
}

static struct database *open_new(const char *name)
{
    struct database *db = NULL;
    int64_t id = 0;
    assert_int_equal(database_open(in_dir(name), &db), STATUS_OK);
    assert_int_equal(database_begin(db, &e, &by, &id), STATUS_OK);
    assert_int_equal(id, 1);
    return db;
}

static struct point_result sample(double seconds)
{
    struct point_result r = {.status = POINT_OK,
                             .iteration_s = seconds,
                             .samples_per_s = 1 / seconds,
                             .time.bubble_s = 0.1,
                             .headroom_bytes = -5,
                             .stages = 3,
                             .cpu_s = 0.25};
    strcpy(r.engine, "analytic");
    strcpy(r.bottleneck, "compute 100 %, it's \"all\"");
    return r;
}

static void put(struct database *db, const char *hash, const struct point_result *r)
{
    const struct experiment_setting **setting;
    size_t n;
    assert_int_equal(experiment_settings(&e, 1, &setting, &n), STATUS_OK);
    assert_int_equal(database_put(db, hash, setting, n, r), STATUS_OK);
    free(setting);
}

static bool get(struct database *db, const char *hash, struct point_result *r)
{
    bool found = false;
    assert_int_equal(database_get(db, hash, &found, r), STATUS_OK);
    return found;
}

static void gives_back_what_was_put(void **state)
{
    struct database *db = open_new("a.db");
    struct point_result in = sample(1.0 / 3), out = {0};
    assert_false(get(db, "x", &out));
    put(db, "x", &in);
    database_close(db);
    db = open_new("a.db");
    assert_true(get(db, "x", &out));
    assert_memory_equal(&in, &out, sizeof in);
    in.status = POINT_FAILED;
    strcpy(in.reason, "again");
    put(db, "x", &in);
    assert_true(get(db, "x", &out));
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(check(db), STATUS_OK);
    database_close(db);
}

static void takes_over_what_it_lacks(void **state)
{
    struct database *a = open_new("here.db"), *b = open_new("there.db");
    struct point_result here = sample(1), there = sample(2), lost = {.status = POINT_FAILED}, out;
    size_t added = 0;
    put(a, "both", &here);
    put(b, "both", &there);
    put(b, "new", &there);
    put(a, "failed", &lost);
    put(b, "failed", &there);
    database_close(b);
    assert_int_equal(database_merge(a, in_dir("there.db"), &added), STATUS_OK);
    assert_int_equal(added, 1);
    assert_true(get(a, "both", &out));
    assert_true(out.iteration_s == 1);
    assert_true(get(a, "new", &out));
    assert_true(out.iteration_s == 2);
    assert_true(get(a, "failed", &out)); /* what failed here and not there is replaced */
    assert_int_equal(out.status, POINT_OK);
    assert_int_equal(database_merge(a, in_dir("there.db"), &added), STATUS_OK);
    assert_int_equal(added, 0);
    database_close(a);
}

static void lets_one_process_write(void **state)
{
    struct database *db = open_new("one.db");
    pid_t pid = fork();
    if (pid == 0) {
        struct database *second = NULL;
        bool refused = database_open(in_dir("one.db"), &second) == STATUS_IO &&
                       message_says(error_message(), "another sweep is writing");
        _exit(refused ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    database_close(db);
    database_close(open_new("one.db"));
}

static void refuses_a_merge_with_something_else(void **state)
{
    struct database *db = open_new("b.db");
    size_t added;
    FILE *to = fopen(in_dir("text.db"), "w");
    assert_non_null(to);
    for (int i = 0; i < 1000; i++)
        fputs("no database ", to);
    fclose(to);
    assert_int_equal(database_merge(db, in_dir("text.db"), &added), STATUS_IO);
    assert_int_equal(database_merge(db, in_dir("empty.db"), &added), STATUS_IO);
    put(db, "x", &(struct point_result){0}); /* it goes on as before */
    database_close(db);
}

/* ---- reading */

static void tell_one(void *context, const struct database_source *s)
{
    size_t *told = context;
    *told += s->points;
    assert_string_equal(s->version, by.version);
    assert_string_equal(s->command, by.command);
}

/* Everything that reads, once. */
static enum status read_all(const char *path, size_t *n, size_t *told)
{
    enum status st;
    struct database *db = NULL;
    struct experiment read = {0};
    size_t *number = NULL;
    char(*hash)[DIGEST_HEX] = NULL;
    int64_t id;
    TRY(database_open_to_read(path, &db));
    TRY(database_experiment(db, &read, &id));
    TRY(database_members(db, id, false, &read, n, &number, &hash));
    *told = 0;
    TRY(database_sources(db, id, tell_one, told));
    assert_int_equal(read.points, 2);
    assert_string_equal(read.name, "e");
    for (size_t i = 0; i < *n; i++) {
        assert_int_equal(number[i], i);
        assert_string_equal(hash[i], i ? "h1" : "h0");
    }
out:
    free(number);
    free(hash);
    experiment_free(&read);
    database_close(db);
    return st;
}

static void write_two(const char *name)
{
    static const size_t number[] = {0, 1};
    static const char hash[][DIGEST_HEX] = {"h0", "h1"};
    const struct point_result r = sample(1);
    struct database *db = open_new(name);
    assert_int_equal(database_add_members(db, 1, false, 2, number, hash), STATUS_OK);
    put(db, "h0", &r);
    put(db, "h1", &r);
    put(db, "another experiment's", &r);
    database_close(db);
}

static void reads_the_experiment_its_points_and_who_made_them(void **state)
{
    size_t n = 0, told = 0;
    struct database *db = NULL;
    write_two("read.db");
    assert_int_equal(read_all(in_dir("read.db"), &n, &told), STATUS_OK);
    assert_int_equal(n, 2);
    assert_int_equal(told, 2);
    assert_true(database_is(in_dir("read.db")));
    assert_false(database_is(dir));
    assert_int_equal(database_open_to_read(in_dir("no.db"), &db), STATUS_IO);
    assert_int_equal(access(in_dir("no.db"), F_OK), -1);
    db = open_new("read.db"); /* while another writes */
    assert_int_equal(read_all(in_dir("read.db"), &n, &told), STATUS_OK);
    database_close(db);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    size_t n, told;
    write_two("nomem.db");
    FOR_EACH_ALLOC_FAILURE(read_all(in_dir("nomem.db"), &n, &told))
}

/* ---- SQLite without memory */

static sqlite3_mem_methods memory;
static long sqlite_countdown = LONG_MAX;

static void *sqlite_malloc_or_not(int size)
{
    return sqlite_countdown-- == 0 ? NULL : memory.xMalloc(size);
}

static void *sqlite_realloc_or_not(void *p, int size)
{
    return sqlite_countdown-- == 0 ? NULL : memory.xRealloc(p, size);
}

/* Before SQLite is used. */
static void come_between(void)
{
    sqlite3_mem_methods ours;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &memory), SQLITE_OK);
    ours = memory;
    ours.xMalloc = sqlite_malloc_or_not;
    ours.xRealloc = sqlite_realloc_or_not;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours), SQLITE_OK);
}

static enum status write_and_read(const char *path)
{
    enum status st;
    const struct experiment_setting **setting = NULL;
    const struct point_result in = sample(2);
    struct point_result out;
    struct database *db = NULL;
    int64_t id;
    size_t n, told;
    bool found;
    static const size_t number[] = {0, 1};
    static const char hash[][DIGEST_HEX] = {"h0", "h1"};
    TRY(experiment_settings(&e, 1, &setting, &n));
    TRY(database_open(path, &db));
    TRY(database_begin(db, &e, &by, &id));
    TRY(database_add_members(db, id, false, 2, number, hash));
    TRY(database_put(db, "h0", setting, n, &in));
    TRY(database_get(db, "h0", &found, &out));
    if (!found || memcmp(&in, &out, sizeof in) != 0)
        fail_msg("a row that was put is another");
    database_close(db);
    db = NULL;
    TRY(read_all(path, &n, &told));
out:
    free(setting);
    database_close(db);
    return st;
}

/* SQLite does without some allocations; without the others it says so, and the file stays sound. */
static void what_sqlite_cannot_allocate_is_an_error_and_no_damage(void **state)
{
    long k = 0, refused = 0;
    bool left = true;
    for (; left; k += 1 + k / 40) { /* about 300 of some thousands */
        char path[64];
        struct database *db = NULL;
        snprintf(path, sizeof path, "%s", in_dir("short.db"));
        sqlite_countdown = k;
        enum status st = write_and_read(path);
        left = sqlite_countdown < 0;
        sqlite_countdown = LONG_MAX;
        if (st != STATUS_OK && st != STATUS_NOMEM)
            fail_msg("allocation %ld: status %d, %s", k, (int)st, error_message());
        if (!left)
            assert_int_equal(st, STATUS_OK);
        refused += st == STATUS_NOMEM;
        assert_int_equal(database_open(path, &db), STATUS_OK);
        assert_int_equal(check(db), STATUS_OK);
        database_close(db);
        if (k % 2)
            unlink(path);
    }
    assert_true(refused > 20);
}

int main(void)
{
    come_between();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_put),
        cmocka_unit_test(takes_over_what_it_lacks),
        cmocka_unit_test(lets_one_process_write),
        cmocka_unit_test(refuses_a_merge_with_something_else),
        cmocka_unit_test(reads_the_experiment_its_points_and_who_made_them),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
        cmocka_unit_test(what_sqlite_cannot_allocate_is_an_error_and_no_damage),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
