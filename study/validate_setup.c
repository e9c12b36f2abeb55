/* What a validation was asked for, on which machine, and when it did what. */
#define _DEFAULT_SOURCE /* gethostname, uname */
#include "study/validate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/text.h"

static const char format[] = "foreline-validation";
enum { VERSION = 1 };

/* What grid.json has besides its provenance. */
static const struct json_row rows[] = {
    {"request_sha256", JSON_MEMBER(struct validate_setup, request), FIELD_NEED},
    {"began", JSON_MEMBER(struct validate_setup, began), FIELD_NEED},
    {"host", JSON_MEMBER(struct validate_setup, host), FIELD_NEED},
    {"cpu", JSON_MEMBER(struct validate_setup, cpu), FIELD_NEED},
    {"kernel", JSON_MEMBER(struct validate_setup, kernel), FIELD_NEED},
    {"cores", JSON_MEMBER(struct validate_setup, cores), FIELD_NEED},
    {"memory_bytes", JSON_MEMBER(struct validate_setup, memory_bytes), FIELD_NEED},
    {0},
};

void validate_setup_free(struct validate_setup *s)
{
    json_rows_free(rows, s);
    free(s->command);
    free(s->version);
    free(s->predicted);
    free(s->hash);
    free(s->measured);
    *s = (struct validate_setup){0};
}

/* ---- the machine */

/* "model name" of /proc/cpuinfo, else the architecture. */
static enum status cpu_name(const char *machine, char **out)
{
    char line[512], *colon;
    FILE *f = fopen("/proc/cpuinfo", "r");
    const char *name = machine;
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, "model name", 10) && (colon = strchr(line, ':'))) {
            name = colon + 1 + strspn(colon + 1, " ");
            break;
        }
    }
    if (f)
        fclose(f);
    return text_copy(name, out);
}

/* What must be the same for measurements to be compared, and what a reader wants to know of
 * them. */
static enum status describe_machine(struct validate_setup *s)
{
    struct utsname u;
    char kernel[2 * sizeof u.sysname + sizeof u.machine];
    if (uname(&u) != 0)
        return error_set(STATUS_IO, "uname: %s", strerror(errno));
    snprintf(kernel, sizeof kernel, "%s %s %s", u.sysname, u.release, u.machine);
    s->cores = sysconf(_SC_NPROCESSORS_ONLN);
    s->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    PASS(text_copy(u.nodename, &s->host));
    PASS(text_copy(kernel, &s->kernel));
    return cpu_name(u.machine, &s->cpu);
}

/* ---- what was asked for */

/* The same plan twice would be measured twice and predicted twice. */
static enum status check_distinct(const struct validate_job *job, const struct validation *v)
{
    enum status st;
    char(*hex)[DIGEST_HEX] = NULL;
    TRY(ARRAY_NEW(hex, v->points));
    for (size_t i = 0; i < v->points; i++) {
        if (!experiment_value(&job->e, v->point[i].number, "plan"))
            continue;
        TRY(digest_file(v->point[i].plan, hex[i]));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(hex[k], hex[i]))
                FAIL(STATUS_USAGE, "%s and %s are the same plan; give each plan once",
                     v->point[k].plan, v->point[i].plan);
    }
out:
    free(hex);
    return st;
}

/* Everything that predictions and measurements depend on: version, experiment, and the hashes of
 * its points, which have the contents of model, platform and plan files in them. */
static enum status put_request(const struct validate_job *job, const struct validation *v,
                               FILE *out)
{
    enum status st = STATUS_OK;
    char hash[DIGEST_HEX];
    struct point p = {0};
    fprintf(out, "%s\n%s\n", job->by->version, job->e.sha256);
    for (size_t i = 0; i < v->points; i++) {
        st = point_make(&job->e, v->point[i].number, NULL, &p);
        if (st == STATUS_NOMEM)
            return st;
        if (st != STATUS_OK) { /* it fails for what its settings say */
            st = STATUS_OK;
            continue;
        }
        TRY(point_hash(&p, hash));
        fprintf(out, "%s\n", hash);
        point_free(&p);
    }
out:
    point_free(&p);
    return st;
}

static enum status hash_request(const struct validate_job *job, const struct validation *v,
                                char **hash)
{
    enum status st;
    char hex[DIGEST_HEX];
    struct file_text t;
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, put_request(job, v, t.stream)));
    digest_hex(t.text, t.length, hex);
    TRY(text_copy(hex, hash));
out:
    free(t.text);
    return st;
}

/* ---- the folder */

/* As text, so that it can be given to `foreline sweep` and to `foreline validate` again. */
static enum status write_experiment(const struct validate_job *job)
{
    struct file_out f;
    PASS(validate_create(job->directory, "experiment.yml", &f));
    fputs(job->e.text, f.stream);
    return file_commit(&f);
}

/* Of a validation that was begun before. */
static enum status read_setup(const char *path, struct validate_setup *s)
{
    enum status st;
    struct json_document d = {0};
    struct json_at root, by;
    TRY(json_read(path, format, VERSION, &d));
    root = json_root(&d);
    TRY(json_field(&root, "provenance", &by));
    TRY(json_need_text(&by, "command", &s->command));
    TRY(json_need_text(&by, "version", &s->version));
    TRY(json_check_keys(&root, "", JSON_TABLES(rows)));
    TRY(json_rows_read(&root, rows, s));
out:
    json_document_free(&d);
    return st;
}

/* Measurements of two machines must not be in one table, and predictions of two versions
 * neither. */
static enum status check_same(const char *path, const struct validate_setup *old,
                              const struct validate_setup *now)
{
    if (strcmp(old->host, now->host) != 0 || strcmp(old->cpu, now->cpu) != 0)
        return error_set(STATUS_INVALID,
                         "%s: validation was begun on %s (%s), but this machine is %s (%s); choose "
                         "another -o DIR",
                         path, old->host, old->cpu, now->host, now->cpu);
    if (strcmp(old->request, now->request) != 0)
        return error_set(
            STATUS_INVALID,
            "%s: validation was begun with other plans, another version or platform (by "
            "%s, `%s`); choose another -o DIR",
            path, old->version, old->command);
    return STATUS_OK;
}

/* A folder without grid.json has nothing of a validation, so files of the names that we are going
 * to write are somebody else's. The experiment may be there already, with the same text. */
static enum status check_free(const struct validate_job *job)
{
    static const char *const name[] = {"predictions.tsv", "runs.tsv",    "results.tsv",
                                       "report.md",       "scatter.svg", "bars.svg"};
    enum status st;
    char path[VALIDATE_PATH], *text = NULL;
    size_t length;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        TRY(validate_path(job->directory, "", name[i], "", path));
        if (validate_exists(path))
            goto taken;
    }
    TRY(validate_path(job->directory, "", "experiment", ".yml", path));
    if (!validate_exists(path))
        goto out;
    TRY(file_read(path, &text, &length));
    if (strcmp(text, job->e.text) == 0)
        goto out;
taken:
    st = error_set(STATUS_IO,
                   "%s: exists and was not written by foreline, so it is not overwritten; choose "
                   "another -o DIR",
                   path);
out:
    free(text);
    return st;
}

/* What is begun now: the request, the machine, the time. */
static enum status validate_describe_setup(const struct validate_job *job,
                                           const struct validation *v, struct validate_setup *s)
{
    char now[CLOCK_UTC];
    PASS(hash_request(job, v, &s->request));
    PASS(describe_machine(s));
    PASS(text_copy(clock_utc(NULL, now), &s->began));
    PASS(text_copy(job->by->command, &s->command));
    return text_copy(job->by->version, &s->version);
}

/* The experiment is written before grid.json, whose presence says that both are there. */
enum status validate_open(const struct validate_job *job, const struct validation *v,
                          struct validate_setup *out)
{
    static const char *const folder[] = {"", "plans", "predicted", "measured"};
    enum status st = STATUS_OK;
    char path[VALIDATE_PATH];
    struct validate_setup now = {0};
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        TRY(validate_make_directory(job->directory, folder[i]));
    TRY(validate_path(job->directory, "", "grid", ".json", path));
    TRY(check_distinct(job, v));
    TRY(validate_describe_setup(job, v, &now));
    if (validate_exists(path)) {
        TRY(read_setup(path, out));
        TRY(check_same(path, out, &now));
    } else {
        TRY(check_free(job));
        TRY(write_experiment(job));
        TRY(json_write(path, format, VERSION, job->by, rows, &now));
        MOVE(out, now);
    }
out:
    validate_setup_free(&now);
    return st;
}

/* ---- when */

static const char runs_heading[] = "# began_utc\trun\tplan\trepeat\tload_1min\tresult\n";

/* A line at the end of runs.tsv, in one write: a log that grows while runs last is not replaced as
 * other files are (core/base/file.h), and a line that a crash has cut is not read (read_runs()).
 * Control characters of messages become blanks, or lines would not be lines. */
enum status validate_log(const char *directory, const char *fmt, ...)
{
    char path[VALIDATE_PATH], line[VALIDATE_PATH];
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(line, sizeof line, fmt, arguments);
    va_end(arguments);
    PASS(validate_path(directory, "", "runs", ".tsv", path));
    bool is_new = !validate_exists(path);
    FILE *f = fopen(path, "a");
    if (!f)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    for (char *c = line; *c; c++) /* one line, whatever the messages of others have in them */
        *c = (unsigned char)*c < ' ' && *c != '\t' ? ' ' : *c;
    fprintf(f, "%s%s\n", is_new ? runs_heading : "", line);
    int cause = file_flush(f);
    fclose(f);
    return cause == 0 ? STATUS_OK : error_set(STATUS_IO, "%s: %s", path, strerror(cause));
}

/* Times and loads of "TIME\tRUN\tPLAN\tREPEAT\tLOAD\t..." lines. A line that was cut off ends them.
 */
static enum status read_runs(const char *path, const char *text, struct validate_setup *s)
{
    enum status st = STATUS_OK;
    double *load = NULL;
    size_t number = 0, n = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        char time[CLOCK_UTC];
        number++;
        if (*at == '#')
            continue;
        TRY(ARRAY_ROOM(load, n));
        if (sscanf(at, "%31[^\t\n]\t%*u\t%*[^\t\n]\t%*u\t%lf", time, &load[n]) != 2)
            FAIL(STATUS_PARSE,
                 "%s:%zu: expected columns time, run, plan, repeat, load, separated by tabs", path,
                 number);
        if (n++ == 0)
            TRY(text_copy(time, &s->measured));
    }
    s->runs = n;
    for (int k = 0; k < 3 && n > 0; k++)
        s->load[k] = quantile(load, n, 0.5 * k);
out:
    free(load);
    return st;
}

enum status validate_read_times(const char *directory, struct validate_setup *out)
{
    enum status st;
    char path[VALIDATE_PATH], time[CLOCK_UTC], hex[DIGEST_HEX], *text = NULL;
    size_t length;
    TRY(validate_path(directory, "", "predictions", ".tsv", path));
    TRY(file_read(path, &text, &length));
    if (sscanf(text, "# written %31[^,\n]", time) != 1)
        FAIL(STATUS_PARSE, "%s:1: expected '# written TIME'", path);
    digest_hex(text, length, hex);
    TRY(text_copy(time, &out->predicted));
    TRY(text_copy(hex, &out->hash));
    free(text);
    text = NULL;
    TRY(validate_path(directory, "", "runs", ".tsv", path));
    if (!validate_exists(path))
        goto out; /* no run was made */
    TRY(file_read(path, &text, &length));
    TRY(read_runs(path, text, out));
out:
    free(text);
    return st;
}
