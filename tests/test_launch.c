/* The launcher with real processes, and with every way for them to fail: whatever happens, the
 * message names the cause, and no process and no file is left. */
#include "exec/launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "exec/rendezvous.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/toy.h"

/* All failures but silence end the run within 5 s; the rest is for slow machines. */
static const double limit_s = 5 + 25;

struct fixture {
    struct program p;
    struct model m;
    struct launch_options o;
    char directory[64]; /* TMPDIR of the run */
    char marker[64];    /* in the environment of everything that it starts */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void begin(struct fixture *f, uint32_t ranks)
{
    toy_pipeline(&f->p, ranks, 3, 1000, 1e-3, true);
    toy_model(&f->m, ranks);
    f->o = (struct launch_options){
        .worker = FAKE_WORKER, .device = "fake", .steps = 3, .warmup = 1, .timeout_s = 30};
    snprintf(f->directory, sizeof f->directory, "/tmp/launch-XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->marker, sizeof f->marker, "LAUNCH_TEST=%ld-%s", (long)getpid(),
             f->directory + strlen("/tmp/launch-"));
    setenv("LAUNCH_TEST", f->marker + strlen("LAUNCH_TEST="), 1);
    setenv("TMPDIR", f->directory, 1);
}

/* Contents of /proc/PID/NAME, NUL-terminated; returns the length, 0 when the process is gone. */
static size_t read_proc(const char *pid, const char *name, char *text, size_t room)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    return n;
}

/* Is process `pid` a worker with the marker in its environment? Zombies have none. */
static bool is_marked(const char *pid, const char *marker)
{
    char text[65536];
    read_proc(pid, "comm", text, sizeof text);
    if (strcmp(text, "fake_worker\n") != 0)
        return false;
    size_t n = read_proc(pid, "environ", text, sizeof text), length = strlen(marker);
    for (size_t i = 0; i + length <= n; i++)
        if (!memcmp(text + i, marker, length))
            return true;
    return false;
}

static size_t count_processes(const char *marker)
{
    size_t n = 0;
    DIR *d = opendir("/proc");
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            n += is_marked(e->d_name, marker);
    closedir(d);
    return n;
}

/* Wait until `n` marked processes exist; false: they never did. */
static bool wait_for_processes(const char *marker, size_t n)
{
    for (double end = now() + limit_s; now() < end;) {
        if (count_processes(marker) == n)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return false;
}

/* No process, no file. A worker that is killed while it exits under LeakSanitizer leaves that
 * tool's tracer, a clone of it with its own parent, for a moment: wait for that to end by itself.
 */
static void finish(struct fixture *f)
{
    assert_true(wait_for_processes(f->marker, 0));
    if (rmdir(f->directory))
        fail_msg("%s: %s", f->directory, strerror(errno));
    program_free(&f->p);
    model_free(&f->m);
}

/* ---- runs that succeed */

static void check_measurement(const struct fixture *f, const struct measurement *m)
{
    assert_string_equal(m->engine, "tcp");
    assert_int_equal(m->iterations, 3);
    assert_int_equal(m->losses, 4);
    for (size_t s = 0; s < 4; s++)
        assert_true(m->loss[s] == 100.0 - (double)s);
    assert_int_equal(m->ranks, f->p.ranks);
    for (size_t r = 0; r < m->ranks; r++) {
        assert_int_equal(m->rank[r].peak_bytes, 1000 + r);
        assert_true(m->rank[r].busy_s >= 0 && m->rank[r].idle_s >= 0);
    }
    assert_int_equal(m->links, f->p.channels);
    for (size_t k = 0; k < m->links; k++) {
        assert_true(m->link[k].bytes == 3 * 1000);
        assert_true(m->link[k].busy_fraction > 0 && m->link[k].busy_fraction <= 1);
    }
    assert_true(m->iteration_s > 0);
    assert_true(m->cpu_s > 0);
}

static void a_run_is_measured(void **state)
{
    /* of 32 times 1, then of 32 times 1 and 32 times 2, and so on; by sha256sum */
    static const char *const sha256[] = {
        "72cd6e8422c407fb6d098690f1130b7ded7ec2f7f5e1d30bd9d521f015363793",
        "f818afd37a6dc3bc92fb44731011277006db4efa6e9023cd7468c02335d22a4d",
    };
    for (uint32_t ranks = 1; ranks <= 3; ranks++) {
        struct fixture f;
        struct measurement m = {0};
        struct timeline t = {0};
        begin(&f, ranks);
        if (launch_run(&f.p, &f.m, &f.o, &m, &t) != STATUS_OK)
            fail_msg("%s", error_message());
        check_measurement(&f, &m);
        assert_int_equal(strlen(m.parameters_sha256), 64);
        if (ranks <= 2)
            assert_string_equal(m.parameters_sha256, sha256[ranks - 1]);
        assert_int_equal(t.n, f.p.ops);
        assert_true(t.step >= 1 && t.step <= 3); /* step 0 was the warm-up */
        assert_true(t.monotonic_s > now() - 60 && t.monotonic_s < now());
        assert_true(fabs(t.unix_s - (double)time(NULL)) < 60);
        for (size_t i = 0; i < t.n; i++) {
            assert_true(t.start_s[i] >= 0 && t.end_s[i] >= t.start_s[i]);
            if (f.p.op[i].kind == OP_RECV)
                assert_true(t.start_s[i] == t.start_s[f.p.op[i].match]);
        }
        timeline_free(&t);
        measurement_free(&m);
        finish(&f);
    }
}

/* ---- GPUs */

/* The run must fail, with `words` in the message, where each @ is this machine's name, and leave
 * nothing. */
static void must_fail(struct fixture *f, const char *fake, enum status want, const char *words)
{
    char machine[MACHINE], reason[512];
    size_t n = 0;
    machine_name(machine);
    for (const char *at = words; *at; at++)
        n += (size_t)snprintf(reason + n, sizeof reason - n, "%.*s", *at == '@' ? MACHINE : 1,
                              *at == '@' ? machine : at);
    struct measurement m = {0};
    if (fake)
        setenv("FAKE", fake, 1);
    enum status st = launch_run(&f->p, &f->m, &f->o, &m, NULL);
    unsetenv("FAKE");
    if (st == STATUS_OK)
        fail_msg("the run succeeded with FAKE='%s'", fake ? fake : "");
    if (!message_says(error_message(), reason))
        fail_msg("FAKE='%s': '%s' does not say '%s'", fake ? fake : "", error_message(), reason);
    assert_int_equal(st, want);
    assert_null(m.engine);
    finish(f);
}

static void the_measurement_says_which_gpu_each_rank_had(void **state)
{
    struct fixture f;
    struct measurement m = {0}, read = {0};
    char text[MEASURED_HARDWARE], path[96], notes[1024] = "", machine[MACHINE];
    const struct provenance by = {.version = "v", .command = "c"};
    begin(&f, 3);
    f.o.notes = fmemopen(notes, sizeof notes, "w");
    assert_non_null(f.o.notes);
    setenv("FAKE_GPUS", "abz", 1);
    enum status st = launch_run(&f.p, &f.m, &f.o, &m, NULL);
    unsetenv("FAKE_GPUS");
    fclose(f.o.notes);
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
    machine_name(machine);
    char want[256];
    snprintf(want, sizeof want, "rank 1 (toy1): GPU 1 of %s, Fake 100, GPU-b, 0000:19:00.0\n",
             machine);
    if (!strstr(notes, want) ||
        !strstr(notes, "\ndriver 580.82.07 (CUDA 13.0), CUDA 13.0, cuBLAS 13.0.2, NCCL 2.28.9, "
                       "NCCL_ALGO=Ring\n"))
        fail_msg("%s", notes);
    snprintf(path, sizeof path, "%s/m.json", f.directory);
    assert_int_equal(measurement_write(&m, path, &by), STATUS_OK);
    assert_int_equal(measurement_read(path, &read), STATUS_OK);
    assert_int_equal(read.gpus, 3);
    assert_string_equal(read.gpu[2].uuid, "GPU-z");
    assert_string_equal(read.gpu[2].peers, "self atomic");
    assert_int_equal(read.gpu[2].rank, 2);
    assert_int_equal(read.gpu[2].memory_bytes, 80000000000);
    assert_string_equal(measurement_hardware(&read, text),
                        "3 x Fake 100; driver 580.82.07, CUDA 13.0, cuBLAS 13.0.2, NCCL 2.28.9; "
                        "NCCL_ALGO=Ring");
    bool warned = false; /* rank 2 has another NCCL */
    for (size_t k = 0; k < read.warnings; k++)
        warned = warned || strstr(read.warning[k], "rank 2 has driver 580.82.07, CUDA 13.0, cuBLAS "
                                                   "13.0.2, NCCL 2.19.3; rank 0 has driver");
    assert_true(warned);
    measurement_free(&read);
    measurement_free(&m);
    unlink(path);
    finish(&f);
}

static void two_ranks_on_one_gpu_are_refused_unless_told(void **state)
{
    struct fixture f;
    struct measurement m = {0};
    begin(&f, 3);
    setenv("FAKE_GPUS", "aba", 1);
    must_fail(&f, NULL, STATUS_INVALID,
              "0 toy0 2 toy2 GPU number 2 8 Fake 100 GPU-a FORELINE_SHARE_GPU=1");
    begin(&f, 3);
    setenv("FORELINE_SHARE_GPU", "1", 1);
    enum status st = launch_run(&f.p, &f.m, &f.o, &m, NULL);
    unsetenv("FORELINE_SHARE_GPU");
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
    measurement_free(&m);
    finish(&f);
    begin(&f, 3);
    setenv("FAKE_GPUS", "ab!", 1);
    must_fail(&f, NULL, STATUS_UNSUPPORTED, "rank 2 (toy2 on @): no GPU: the driver is too old");
    begin(&f, 2);
    setenv("FAKE_GPUS", "--", 1);
    if (launch_run(&f.p, &f.m, &f.o, &m, NULL) != STATUS_OK)
        fail_msg("%s", error_message());
    unsetenv("FAKE_GPUS");
    assert_int_equal(m.gpus, 0);
    assert_null(m.software.driver);
    measurement_free(&m);
    finish(&f);
}

/* ---- runs that fail */

static void a_killed_worker_is_named_at_any_moment(void **state)
{
    enum { RANKS = 3 };
    static const unsigned calls[] = {0, 1, 3, 6, 7, 12, 27}; /* 7 calls in a step, 4 steps */
    for (unsigned rank = 0; rank < RANKS; rank++)
        for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
            struct fixture f;
            char fake[64], reason[64];
            begin(&f, RANKS);
            snprintf(fake, sizeof fake, "%u %u kill", rank, calls[k]);
            snprintf(reason, sizeof reason, "rank %u (toy%u on @) killed by signal 9", rank, rank);
            must_fail(&f, fake, STATUS_EXTERNAL, reason);
        }
}

static void a_stopped_worker_is_named(void **state)
{
    struct fixture f;
    begin(&f, 2);
    f.o.timeout_s = 600; /* where the network is slow: that of emulations is multiplied */
    must_fail(&f, "1 9 stop", STATUS_EXTERNAL, "rank 1 (toy1 on @): timeout: no heartbeat for ");
}

static void a_worker_that_gets_nowhere_is_named(void **state)
{
    struct fixture f;
    begin(&f, 2);
    f.o.timeout_s = 3;
    must_fail(&f, "1 9 hang", STATUS_EXTERNAL, "1 toy1 progress");
}

static void a_worker_that_exits_is_named_with_its_status(void **state)
{
    struct fixture f;
    begin(&f, 2);
    must_fail(&f, "0 5 exit", STATUS_EXTERNAL, "0 toy0 exited 3");
    begin(&f, 2);
    must_fail(&f, "1 0 exit", STATUS_EXTERNAL, "1 toy1 3 starting");
}

static void an_error_of_a_worker_is_passed_on(void **state)
{
    struct fixture f;
    begin(&f, 3);
    must_fail(&f, "1 10 error", STATUS_UNSUPPORTED,
              "rank 1 (toy1) at 1F2 step 1: out of luck (on @)");
    begin(&f, 2);
    must_fail(&f, "1 0 error", STATUS_UNSUPPORTED, "rank 1 (toy1 on @): out of luck");
}

static void what_cannot_start_is_said_in_one_line(void **state)
{
    struct fixture f;
    begin(&f, 2);
    f.o.worker = "/nowhere/foreline-worker";
    must_fail(&f, NULL, STATUS_IO, "/nowhere/foreline-worker: No such file or directory");
    begin(&f, 2);
    f.o.worker = "/bin/false";
    must_fail(&f, NULL, STATUS_EXTERNAL, "exited status 1");
    begin(&f, 2);
    f.o.device = "abacus";
    must_fail(&f, NULL, STATUS_UNSUPPORTED, "worker device 'abacus'");
    begin(&f, 2);
    f.o.text = "/nowhere/text";
    must_fail(&f, NULL, STATUS_IO, "/nowhere/text");
    begin(&f, 2);
    f.o.steps = 0;
    must_fail(&f, NULL, STATUS_INVALID, "0 steps after 1");
    begin(&f, 2);
    f.o.timeout_s = -1;
    must_fail(&f, NULL, STATUS_INVALID, "--timeout -1 s");
    begin(&f, 2);
    f.p.stage_op[1] = 7;
    must_fail(&f, NULL, STATUS_INVALID, "program 7 2");
}

/* Rank 1 is given a copy of the program with one more line at its end. */
/* What the system's loader does with a worker whose libraries are not there. */
static void a_missing_library_is_told_as_that(void **state)
{
    struct fixture f;
    char worker[96];
    begin(&f, 2);
    snprintf(worker, sizeof worker, "%s-worker", f.directory);
    put_text(worker, "#!/bin/sh\nexit 127\n");
    assert_int_equal(chmod(worker, 0700), 0);
    f.o.worker = worker;
    f.o.device = "cuda";
    must_fail(&f, NULL, STATUS_EXTERNAL, "127 libcublas libnccl.so.2 CUDA docs/reference/cuda.md");
    unlink(worker);
}

static void a_rank_with_another_program_is_refused(void **state)
{
    struct fixture f;
    char script[128], copy[128];
    begin(&f, 2);
    snprintf(script, sizeof script, "%s/worker", f.directory);
    snprintf(copy, sizeof copy, "%s/copy", f.directory);
    FILE *s = fopen(script, "w");
    assert_non_null(s);
    fprintf(s,
            "#!/bin/sh\n"
            "program=$2\n"
            "if [ $RANK = 1 ]; then\n"
            "  (cat \"$2\"; echo) >%s\n"
            "  program=%s\n"
            "fi\n"
            "shift 2\n"
            "exec %s --program \"$program\" \"$@\"\n",
            copy, copy, FAKE_WORKER);
    assert_int_equal(fclose(s), 0);
    assert_int_equal(chmod(script, 0700), 0);
    f.o.worker = script;
    struct measurement m = {0};
    assert_int_equal(launch_run(&f.p, &f.m, &f.o, &m, NULL), STATUS_INVALID);
    assert_message(error_message(), " has plan sha256:");
    unlink(script);
    unlink(copy);
    finish(&f);
}

/* ---- launchers that end */

/* Run in a child process that is told to stop by `signal`; exit status: did the message say so? */
static int interrupted_run(struct fixture *f, int signal, const char *reason)
{
    int status;
    setenv("FAKE", "1 9 hang", 1);
    pid_t child = fork();
    if (child == 0) {
        struct measurement m = {0};
        enum status st = launch_run(&f->p, &f->m, &f->o, &m, NULL);
        _exit(st == STATUS_EXTERNAL && message_says(error_message(), reason) ? 0 : 1);
    }
    unsetenv("FAKE");
    assert_true(wait_for_processes(f->marker, f->p.ranks));
    assert_int_equal(kill(child, signal), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(wait_for_processes(f->marker, 0));
    return status;
}

static void a_launcher_that_is_told_to_stop_cleans_up(void **state)
{
    struct fixture f;
    begin(&f, 2);
    int status = interrupted_run(&f, SIGTERM, "interrupted signal 15");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    finish(&f);
    begin(&f, 2);
    status = interrupted_run(&f, SIGINT, "interrupted signal 2");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    finish(&f);
}

static void workers_die_with_a_killed_launcher(void **state)
{
    struct fixture f;
    begin(&f, 3);
    int status = interrupted_run(&f, SIGKILL, "");
    assert_true(WIFSIGNALED(status));
    /* nobody was left to remove the directory, unless the run had begun */
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s/foreline-*", f.directory);
    assert_int_equal(system(command), 0);
    finish(&f);
}

/* ---- memory */

static enum status run_and_free(struct fixture *f)
{
    struct measurement m = {0};
    struct timeline t = {0};
    enum status st = launch_run(&f->p, &f->m, &f->o, &m, &t);
    measurement_free(&m);
    timeline_free(&t);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct fixture f;
    begin(&f, 2);
    f.o.steps = 1;
    f.o.warmup = 0;
    FOR_EACH_ALLOC_FAILURE(run_and_free(&f));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_measured),
        cmocka_unit_test(the_measurement_says_which_gpu_each_rank_had),
        cmocka_unit_test(two_ranks_on_one_gpu_are_refused_unless_told),
        cmocka_unit_test(a_killed_worker_is_named_at_any_moment),
        cmocka_unit_test(a_stopped_worker_is_named),
        cmocka_unit_test(a_worker_that_gets_nowhere_is_named),
        cmocka_unit_test(a_worker_that_exits_is_named_with_its_status),
        cmocka_unit_test(an_error_of_a_worker_is_passed_on),
        cmocka_unit_test(what_cannot_start_is_said_in_one_line),
        cmocka_unit_test(a_missing_library_is_told_as_that),
        cmocka_unit_test(a_rank_with_another_program_is_refused),
        cmocka_unit_test(a_launcher_that_is_told_to_stop_cleans_up),
        cmocka_unit_test(workers_die_with_a_killed_launcher),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
