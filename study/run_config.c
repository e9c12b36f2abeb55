#define _DEFAULT_SOURCE /* realpath */
/* A run as a YAML file: reads it, and makes the folder of what the run leaves. */
#include "study/run_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/path.h"
#include "core/base/text.h"
#include "exec/launch/hosts.h"
#include "study/frameworks/port.h"
#include "study/papers.h"
#include "study/point.h"
#include "study/revision.h"

enum { SAME_SECOND = 100, START_FIELD = 22 /* of /proc/PID/stat: starttime */ };
static const char plan_prefix[] = "plan.";

/* ---- reading */

struct target {
    struct arguments *run, *make;
};

static bool is_run_option(const char *key)
{
    const struct setting *s = setting_find(key, TAKES(KEY_RUN));
    return s && (s->takers & (TAKES(RUN_REAL) | TAKES(RUN_PACED)));
}

static enum status run_config_set_key(const struct target *t, const char *key, const char *value)
{
    bool of_run = is_run_option(key);
    if (of_run && arguments_given(t->run, setting_find(key, TAKES(KEY_RUN))->name))
        return error_set(STATUS_USAGE, "%s: already given on the command line with --%s", key, key);
    return arguments_set(of_run ? t->run : t->make, TAKES(KEY_RUN) | TAKES(KEY_PLAN), key, value);
}

/* On copies: all is set again later, from texts that stay. */
static enum status run_config_check(void *context, const char *key, const char *value)
{
    const struct target *t = context;
    struct arguments run = *t->run, make = *t->make;
    return run_config_set_key(&(struct target){&run, &make}, key, value);
}

/* A run has one value of everything: lists, cases and finalists are of experiments. */
static enum status check_single(const struct experiment *e)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].n > 1 || e->axis[i].cases)
            return error_set(
                STATUS_PARSE,
                "%s:%zu: %s: got a list, expected one value (foreline sweep takes lists)", e->path,
                e->axis[i].line, e->axis[i].name);
    if (e->finalists > 0)
        return error_set(STATUS_PARSE, "%s: key 'finalists' is supported by foreline sweep only",
                         e->path);
    return STATUS_OK;
}

/* A plan that is imported has no other options than foreline plan import. */
static enum status check_import(const struct run_config *c)
{
    for (size_t i = 0; i < c->file.axes; i++) {
        const char *name = c->file.axis[i].name;
        if (!strncmp(name, plan_prefix, strlen(plan_prefix)) &&
            !setting_find(name + strlen(plan_prefix), TAKES(PLAN_IMPORT)))
            return error_set(STATUS_PARSE, "%s:%zu: %s is not an option of 'plan import'; drop it",
                             c->file.path, c->file.axis[i].line, name);
    }
    return STATUS_OK;
}

/* What only the whole file can show: is there exactly one source of the plan, and can the folder be
 * called so? Options of the plan mean something to its algorithm only when a plan is made. */
static enum status check_whole(const struct run_config *c)
{
    const struct arguments *a = &c->make;
    const char *path = c->file.path;
    if (!path_is_name(c->file.name)) /* the file's own */
        return error_set(STATUS_PARSE, "%s: name: '%s' is not a valid folder name", path,
                         c->file.name);
    if (a->plan_file && (a->model || a->platform))
        return error_set(STATUS_PARSE,
                         "%s: key '%s' has no effect: the plan file names its %s; drop this key",
                         path, a->model ? "model" : "platform", a->model ? "model" : "platform");
    for (size_t i = 0; a->plan_file && i < c->file.axes; i++)
        if (!strncmp(c->file.axis[i].name, plan_prefix, strlen(plan_prefix)))
            return error_set(STATUS_PARSE,
                             "%s:%zu: key '%s' has no effect on a finished plan file; drop this "
                             "key or the key 'plan'",
                             path, c->file.axis[i].line, c->file.axis[i].name);
    if (a->plan_file && a->import_file)
        return error_set(STATUS_PARSE, "%s: keys 'plan' and 'import' cannot be combined", path);
    if (!a->plan_file && (!a->model || !a->platform))
        return error_set(STATUS_PARSE,
                         "%s: expected the key 'plan', or the keys 'model' and 'platform'", path);
    const char *const file = a->plan_file ? a->plan_file : a->import_file;
    if (file && access(file, R_OK) != 0)
        return error_set(STATUS_IO, "%s: %s: %s", path, file, strerror(errno));
    if (a->import_file)
        return check_import(c);
    if (!a->plan_file)
        PASS(plan_check_given(a));
    return STATUS_OK;
}

/* A driver file of PipeDream is read as what it says in foreline's words, line by line. */
static enum status run_config_read_file(const char *path, const struct experiment_check *checks,
                                        struct run_config *c)
{
    enum status st;
    char *text = NULL, *said = NULL;
    size_t length;
    TRY(file_read_most(path, MOST_ARGUMENTS, &text, &length));
    TRY(papers_translate_driver(path, text, length, &said));
    TRY(experiment_parse(path, said ? said : text, said ? strlen(said) : length, checks, &c->file));
    if (said)
        MOVE(&c->driver, text);
out:
    free(said);
    free(text);
    return st;
}

/* Two passes: while the file is read every setting is checked alone, so that its line is known;
 * then all are set, from texts that live as long as *out. */
enum status run_config_read(const char *path, struct arguments *run, struct run_config *out)
{
    enum status st;
    struct run_config c = {
        .make = arguments_defaults(TAKES(KEY_PLAN) | TAKES(KEY_RUN) | TAKES(PLAN_AUTO))};
    struct arguments options = *run;
    struct target t = {&options, &c.make};
    const struct experiment_check checks = {run_config_check, &t};
    const struct experiment_setting **setting = NULL;
    size_t n;
    TRY(run_config_read_file(path, &checks, &c));
    TRY(check_single(&c.file));
    TRY(experiment_settings(&c.file, 0, &setting, &n));
    for (size_t i = 0; i < n; i++) { /* what comes of a driver file is seen from here already */
        const char *key = setting[i]->key, *value;
        TRY(setting_seen(key, setting[i]->value, c.driver ? "" : path, &c.file.arena, &value));
        TRY(run_config_set_key(&t, key, value));
    }
    TRY(check_whole(&c));
    *run = options;
    MOVE(out, c);
out:
    free(setting);
    run_config_free(&c);
    return st;
}

void run_config_free(struct run_config *c)
{
    experiment_free(&c->file);
    free(c->driver);
    *c = (struct run_config){0};
}

/* ---- the folder */

const char *run_config_path(const struct run_config *c, const char *name, char path[RUN_PATH])
{
    snprintf(path, RUN_PATH, "%.*s/%s", RUN_PATH - 64, c->directory, name);
    return path;
}

/* NAME-20261121-175003 (UTC, so that folders of several machines sort by time), with a number when
 * there was one in the same second; absolute. */
static enum status run_config_make_directory(struct run_config *c)
{
    char stamp[CLOCK_UTC], path[RUN_PATH], base[RUN_PATH];
    if (mkdir(c->make.run.folder, 0777) != 0 && errno != EEXIST)
        return error_set(STATUS_IO, "%s: %s", c->make.run.folder, strerror(errno));
    if (!realpath(c->make.run.folder, base))
        return error_set(STATUS_IO, "%s: %s", c->make.run.folder, strerror(errno));
    if (strlen(base) + strlen(c->file.name) + 128 > RUN_PATH)
        return error_set(STATUS_INVALID,
                         "%.60s...: path of the run folder is too long, expected at most %zu bytes",
                         base, RUN_PATH - 128 - strlen(c->file.name));
    clock_utc("%Y%m%d-%H%M%S", stamp);
    for (int k = 1; k < SAME_SECOND; k++) {
        int n = snprintf(path, sizeof path, "%.*s/%.1024s-%s", RUN_PATH - 1200, base, c->file.name,
                         stamp);
        if (k > 1)
            snprintf(path + n, sizeof path - (size_t)n, "-%d", k);
        if (mkdir(path, 0777) == 0) {
            snprintf(c->directory, sizeof c->directory, "%s", path);
            return STATUS_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
}

/* ---- files of the folder: each appears only when it is complete (core/base/file.h) */

static enum status run_config_put_text(const struct run_config *c, const char *name,
                                       const char *text)
{
    char path[RUN_PATH];
    struct file_out f;
    PASS(file_create(run_config_path(c, name, path), &f));
    fputs(text, f.stream);
    return file_commit(&f);
}

static enum status copy_file(const struct run_config *c, const char *from, const char *name)
{
    enum status st;
    char *text = NULL;
    size_t length;
    TRY(file_read(from, &text, &length));
    TRY(run_config_put_text(c, name, text));
out:
    free(text);
    return st;
}

/* The revision of the working directory, and what differs from it. */
static enum status put_git(const struct run_config *c)
{
    char path[RUN_PATH];
    struct file_out f;
    PASS(file_create(run_config_path(c, "git", path), &f));
    revision_put(f.stream);
    return file_commit(&f);
}

/* The hostfile, or what this machine is, with the nodes that Slurm gave. */
static enum status put_machines(const struct run_config *c, const char *hosts)
{
    char text[2048];
    struct utsname u;
    if (hosts && hosts_is_list(hosts))
        return run_config_put_text(c, "machines", hosts);
    if (hosts)
        return copy_file(c, hosts, "machines");
    if (uname(&u) != 0)
        return error_set(STATUS_IO, "uname: %s", strerror(errno));
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    snprintf(text, sizeof text, "%.200s: %.60s %.100s %.60s, %ld cores%s%.1024s\n", u.nodename,
             u.sysname, u.release, u.machine, sysconf(_SC_NPROCESSORS_ONLN),
             nodes ? "\nSLURM_JOB_NODELIST=" : "", nodes ? nodes : "");
    return run_config_put_text(c, "machines", text);
}

/* Ends this process, of which all workers are, if it is still the one of this number: by its
 * start. */
static enum status put_terminate(const struct run_config *c)
{
    char path[RUN_PATH], start[32] = "", stat[1024] = "";
    struct file_out f;
    struct utsname u;
    FILE *self = fopen("/proc/self/stat", "r");
    const char *behind = self && fgets(stat, sizeof stat, self) ? strrchr(stat, ')') : NULL;
    if (self)
        fclose(self);
    for (int field = 2; behind && field < START_FIELD; field++)
        behind = strchr(behind + 1, ' ');
    if (!behind || sscanf(behind, "%31s", start) != 1 || uname(&u) != 0)
        return error_set(STATUS_IO, "/proc/self/stat: cannot read the start time of this process");
    PASS(file_create(run_config_path(c, "terminate", path), &f));
    fputs("#!/bin/sh\n# Ends the run that this folder is of, with all its workers: sh terminate\n"
          "[ $(uname -n) = ",
          f.stream);
    text_put_word(u.nodename, f.stream);
    fputs(" ] || exec ssh ", f.stream);
    text_put_word(u.nodename, f.stream);
    fprintf(f.stream,
            " sh <\"$0\"\nruns() { [ \"$(sed 's/.*) //' /proc/%ld/stat 2>/dev/null | cut -d' ' "
            "-f%d)\" = %s ]; }\n"
            "runs || { echo 'the run is over'; exit 0; }\nkill -TERM %ld\n"
            "for wait in 1 2 3 4 5 6 7 8 9 10; do runs || exit 0; sleep 1; done\n"
            "echo 'the run does not end'; exit 1\n",
            (long)getpid(), START_FIELD - 2, start, (long)getpid());
    return file_commit(&f);
}

/* The plan that is run: made here with the provenance of this command, or a copy for the record. */
static enum status run_config_put_plan(const struct run_config *c, const struct provenance *by,
                                       FILE *notes, char *plan)
{
    struct provenance seeded = *by;
    seeded.seed = c->make.seed;
    run_config_path(c, "plan.json", plan);
    if (c->make.import_file) {
        struct arguments a = c->make;
        a.output = plan;
        return port_import(&a, &c->make.import_file, 1, &seeded, notes, notes);
    }
    if (!c->make.plan_file)
        return point_plan(&c->make, plan, &seeded);
    enum status st = copy_file(c, c->make.plan_file, "plan.json");
    /* the copy cannot refer to files beside the original */
    snprintf(plan, RUN_PATH, "%s", c->make.plan_file);
    return st;
}

/* Whatever fails once the folder is there is written into it as the outcome. */
enum status run_config_begin(struct run_config *c, const char *hosts, const struct provenance *by,
                             FILE *notes, char *plan)
{
    enum status st;
    char text[8192], here[2048] = "";
    TRY(run_config_make_directory(c));
    TRY(run_config_put_text(c, "config.yml", c->file.text));
    if (c->driver)
        TRY(run_config_put_text(c, "driver.yml", c->driver));
    if (!getcwd(here, sizeof here))
        here[0] = '\0';
    snprintf(text, sizeof text, "%.4000s\n%.200s\nin %s\n", by->command, by->version, here);
    TRY(run_config_put_text(c, "command", text));
    TRY(put_git(c));
    TRY(put_machines(c, hosts));
    TRY(put_terminate(c));
    TRY(run_config_put_plan(c, by, notes, plan));
out:
    if (st != STATUS_OK && *c->directory) {
        enum status ended = run_config_end(c, st);
        (void)ended; /* the first error is told */
    }
    return st;
}

/* The file "outcome" has one line. Writing it must not hide why the run failed. */
enum status run_config_end(const struct run_config *c, enum status st)
{
    char text[1200];
    snprintf(text, sizeof text, "%s%s\n",
             st == STATUS_OK ? "done" : "failed: ", st == STATUS_OK ? "" : error_message());
    enum status written = run_config_put_text(c, "outcome", text);
    if (st == STATUS_OK)
        return written;
    text[strcspn(text, "\n")] = '\0';
    return error_set(st, "%s", text + strlen("failed: ")); /* the run's error, not the file's */
}

/* ---- dry runs */

static enum status tell_plan(const struct run_config *c, FILE *out)
{
    struct arguments made = c->make;
    char *import = NULL;
    made.import_file = made.run.folder = NULL; /* no options of plan */
    fputs("foreline plan", out);
    if (c->make.import_file) {
        PASS(path_absolute(c->make.import_file, &import));
        fputs(" import ", out);
        text_put_word(import, out);
        free(import);
    }
    PASS(arguments_put(&made, TAKES(KEY_PLAN) | TAKES(KEY_RUN), out));
    fputs(" -o plan.json\n", out);
    return STATUS_OK;
}

/* A script of the command lines that do the same, in whatever folder it is run. */
enum status run_config_tell(const struct run_config *c, const struct arguments *run, FILE *out)
{
    struct arguments options = *run;
    char *plan = NULL;
    options.run.config = NULL;
    options.run.dry_run = false;
    fprintf(out, "# folder %s/%s-YYYYMMDD-HHMMSS\n", c->make.run.folder, c->file.name);
    if (c->make.plan_file)
        PASS(path_absolute(c->make.plan_file, &plan));
    else
        PASS(tell_plan(c, out));
    fputs("foreline run ", out);
    text_put_word(plan ? plan : "plan.json", out);
    free(plan);
    PASS(arguments_put(&options, TAKES(RUN_REAL) | TAKES(RUN_PACED), out));
    fprintf(out, "%s%s\n", run->output ? "" : " -o measurement.json",
            run->trace ? "" : " --trace trace.json");
    return STATUS_OK;
}
