/* The database of a sweep: what is put in comes out, once; other files are taken in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/provenance.h"
#include "sweep/database.h"

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
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    return experiment_parse("e.yml", text, strlen(text), NULL, &e) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    experiment_free(&e);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static struct sweep_database *open_new(const char *name)
{
    struct sweep_database *db = NULL;
    int64_t id = 0;
    assert_int_equal(database_open(in_dir(name), &db), STATUS_OK);
    assert_int_equal(database_begin(db, &e, &by, &id), STATUS_OK);
    assert_int_equal(id, 1);
    return db;
}

static struct sweep_result sample(double seconds)
{
    struct sweep_result r = {.status = SWEEP_OK,
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

static void put(struct sweep_database *db, const char *hash, const struct sweep_result *r)
{
    const struct experiment_setting **setting;
    size_t n;
    assert_int_equal(experiment_settings(&e, 1, &setting, &n), STATUS_OK);
    assert_int_equal(database_put(db, hash, setting, n, r), STATUS_OK);
    free(setting);
}

static bool get(struct sweep_database *db, const char *hash, struct sweep_result *r)
{
    bool found = false;
    assert_int_equal(database_get(db, hash, &found, r), STATUS_OK);
    return found;
}

static void gives_back_what_was_put(void **state)
{
    struct sweep_database *db = open_new("a.db");
    struct sweep_result in = sample(1.0 / 3), out = {0};
    (void)state;
    assert_false(get(db, "x", &out));
    put(db, "x", &in);
    database_close(db);
    db = open_new("a.db");
    assert_true(get(db, "x", &out));
    assert_memory_equal(&in, &out, sizeof in);
    in.status = SWEEP_FAILED;
    strcpy(in.reason, "again");
    put(db, "x", &in);
    assert_true(get(db, "x", &out));
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(database_check(db), STATUS_OK);
    database_close(db);
}

static void takes_over_what_it_lacks(void **state)
{
    struct sweep_database *a = open_new("here.db"), *b = open_new("there.db");
    struct sweep_result here = sample(1), there = sample(2), lost = {.status = SWEEP_FAILED}, out;
    size_t added = 0;
    (void)state;
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
    assert_int_equal(out.status, SWEEP_OK);
    assert_int_equal(database_merge(a, in_dir("there.db"), &added), STATUS_OK);
    assert_int_equal(added, 0);
    database_close(a);
}

static void lets_one_process_write(void **state)
{
    struct sweep_database *db = open_new("one.db");
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct sweep_database *second = NULL;
        bool refused = database_open(in_dir("one.db"), &second) == STATUS_IO &&
                       strstr(error_message(), "another sweep writes to it, process") != NULL;
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
    struct sweep_database *db = open_new("b.db");
    size_t added;
    (void)state;
    FILE *to = fopen(in_dir("text.db"), "w");
    assert_non_null(to);
    for (int i = 0; i < 1000; i++)
        fputs("no database ", to);
    fclose(to);
    assert_int_equal(database_merge(db, in_dir("text.db"), &added), STATUS_IO);
    assert_int_equal(database_merge(db, in_dir("empty.db"), &added), STATUS_IO);
    put(db, "x", &(struct sweep_result){0}); /* it goes on as before */
    database_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_put),
        cmocka_unit_test(takes_over_what_it_lacks),
        cmocka_unit_test(lets_one_process_write),
        cmocka_unit_test(refuses_a_merge_with_something_else),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
