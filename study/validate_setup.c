#define _DEFAULT_SOURCE /* gethostname, uname */
#include "study/validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/compare.h"
#include "core/digest.h"
#include "core/file.h"
#include "core/json.h"
#include "core/statistics.h"
#include "core/text.h"

static const char format[] = "foreline-validation";
static const char written[] = "# written ";
enum { VERSION = 1 };

void validate_time(char text[VALIDATE_TIME])
{
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(text, VALIDATE_TIME, "%Y-%m-%dT%H:%M:%SZ", &utc))
        snprintf(text, VALIDATE_TIME, "unknown");
}

void validate_setup_free(struct validate_setup *s)
{
    free(s->command);
    free(s->version);
    free(s->host);
    free(s->cpu);
    free(s->kernel);
    free(s->began);
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

static enum status describe_machine(struct validate_setup *s)
{
    enum status st;
    struct utsname u;
    char kernel[2 * sizeof u.sysname + sizeof u.machine];
    if (uname(&u) != 0)
        return error_set(STATUS_IO, "uname: %s", strerror(errno));
    snprintf(kernel, sizeof kernel, "%s %s %s", u.sysname, u.release, u.machine);
    s->cores = sysconf(_SC_NPROCESSORS_ONLN);
    s->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    TRY(text_copy(u.nodename, &s->host));
    TRY(text_copy(kernel, &s->kernel));
    TRY(cpu_name(u.machine, &s->cpu));
out:
    return st;
}

/* ---- what was asked for */

static enum status file_hash(const char *path, char hex[DIGEST_HEX])
{
    enum status st;
    char *text = NULL;
    size_t length;
    TRY(file_read(path, &text, &length));
    digest_hex(text, length, hex);
out:
    free(text);
    return st;
}

/* The same plan twice would be measured twice and predicted twice. */
static enum status check_distinct(const struct validate_job *job)
{
    enum status st = STATUS_OK;
    char(*hex)[DIGEST_HEX] = calloc(job->operands + 1, sizeof *hex);
    if (!hex)
        return error_set(STATUS_NOMEM, "%zu plans", job->operands);
    for (size_t i = 0; i < job->operands; i++) {
        TRY(file_hash(job->operand[i], hex[i]));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(hex[k], hex[i])) {
                st = error_set(STATUS_USAGE, "%s and %s are the same plan", job->operand[k],
                               job->operand[i]);
                goto out;
            }
    }
out:
    free(hex);
    return st;
}

/* Everything that predictions and measurements depend on, as text. */
static enum status put_request(const struct validate_job *job, const struct validation *v,
                               FILE *out)
{
    enum status st = STATUS_OK;
    char hex[DIGEST_HEX], *path = NULL;
    struct topology t = {0};
    const struct point_run *r = &job->run;
    fprintf(out,
            "%s\nengine %s, device %s, compute %s, %zu steps after %zu, %zu repeats, seed %llu\n",
            job->by->version, r->engine, r->device, r->compute ? r->compute : "-", r->steps,
            r->warmup, job->repeats, (unsigned long long)job->seed);
    if (job->grid)
        fprintf(out, "model %s\n", job->plan.model);
    if (job->grid && access(job->plan.model, F_OK) == 0) { /* a file, not a name */
        TRY(file_hash(job->plan.model, hex));
        fprintf(out, "%s\n", hex);
    }
    for (size_t a = 0; job->grid && a < job->grid->axes; a++) {
        const struct grid_axis *axis = &job->grid->axis[a];
        for (size_t i = 0; i < axis->n; i++) {
            fprintf(out, "%s %s", axis->key, axis->value[i]);
            if (!strcmp(axis->key, "platform")) {
                TRY(load_topology(axis->value[i], &t, &path));
                TRY(file_hash(path, hex));
                fprintf(out, " %s", hex);
                topology_free(&t);
                free(path);
                path = NULL;
            }
            putc('\n', out);
        }
    }
    for (size_t i = 0; i < job->operands; i++) {
        TRY(file_hash(v->point[i].plan, hex));
        fprintf(out, "plan %s %s\n", v->point[i].plan, hex);
    }
out:
    topology_free(&t);
    free(path);
    return st;
}

static enum status hash_request(const struct validate_job *job, const struct validation *v,
                                char hex[DIGEST_HEX])
{
    enum status st;
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (!f)
        return error_set(STATUS_NOMEM, "out of memory");
    st = put_request(job, v, f);
    if (fclose(f) != 0 && st == STATUS_OK)
        st = error_set(STATUS_NOMEM, "out of memory");
    if (st == STATUS_OK)
        digest_hex(text, length, hex);
    free(text);
    return st;
}

/* ---- grid.json */

static enum status write_setup(const struct validate_job *job, const struct validation *v,
                               const struct validate_setup *s, const char *request,
                               const char *path)
{
    enum status st;
    struct file_out f = {0};
    TRY(file_create(path, &f));
    struct json_writer w = {.stream = f.stream};
    json_put_header(&w, format, VERSION, job->by);
    json_put_string(&w, "request_sha256", request);
    json_put_string(&w, "began", s->began);
    json_put_string(&w, "host", s->host);
    json_put_string(&w, "cpu", s->cpu);
    json_put_string(&w, "kernel", s->kernel);
    json_put_integer(&w, "cores", s->cores);
    json_put_integer(&w, "memory_bytes", s->memory_bytes);
    json_put_string(&w, "engine", job->run.engine);
    json_put_string(&w, "device", job->run.device);
    json_put_string(&w, "compute", job->run.compute);
    json_put_integer(&w, "steps", (int64_t)job->run.steps);
    json_put_integer(&w, "warmup", (int64_t)job->run.warmup);
    json_put_integer(&w, "repeats", (int64_t)job->repeats);
    json_open_array(&w, "plans", false);
    for (size_t i = 0; i < v->points; i++)
        json_put_string(&w, NULL, v->point[i].plan);
    json_close(&w);
    json_close(&w);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

static enum status read_setup(const char *path, struct validate_setup *s, char **request)
{
    enum status st;
    struct json_document d = {0};
    struct json_at root, by;
    TRY(json_read(path, format, VERSION, &d));
    root = json_root(&d);
    TRY(json_field(&root, "provenance", &by));
    TRY(json_need_text(&by, "command", &s->command));
    TRY(json_need_text(&by, "version", &s->version));
    TRY(json_need_text(&root, "request_sha256", request));
    TRY(json_need_text(&root, "began", &s->began));
    TRY(json_need_text(&root, "host", &s->host));
    TRY(json_need_text(&root, "cpu", &s->cpu));
    TRY(json_need_text(&root, "kernel", &s->kernel));
    TRY(json_need_integer(&root, "cores", 0, INT64_MAX, &s->cores));
    TRY(json_need_integer(&root, "memory_bytes", 0, INT64_MAX, &s->memory_bytes));
out:
    json_document_free(&d);
    return st;
}

static enum status check_same(const char *path, const struct validate_setup *old,
                              const struct validate_setup *now, const char *request,
                              const char *old_request)
{
    if (strcmp(old->host, now->host) != 0 || strcmp(old->cpu, now->cpu) != 0)
        return error_set(STATUS_INVALID, "%s: begun on %s (%s), this is %s (%s)", path, old->host,
                         old->cpu, now->host, now->cpu);
    if (strcmp(request, old_request) != 0)
        return error_set(STATUS_INVALID,
                         "%s: another grid, version or platform (%s, by `%s`): choose another -o",
                         path, old->version, old->command);
    return STATUS_OK;
}

enum status validate_open(const struct validate_job *job, const struct validation *v,
                          struct validate_setup *out)
{
    enum status st;
    char path[VALIDATE_PATH], now[VALIDATE_TIME], request[DIGEST_HEX], *old_request = NULL;
    struct validate_setup fresh = {0}, s = {0};
    TRY(validate_path(job->directory, "", "grid", ".json", path));
    TRY(check_distinct(job));
    TRY(hash_request(job, v, request));
    TRY(describe_machine(&fresh));
    if (access(path, F_OK) == 0) {
        TRY(read_setup(path, &s, &old_request));
        TRY(check_same(path, &s, &fresh, request, old_request));
    } else {
        validate_time(now);
        TRY(text_copy(now, &fresh.began));
        TRY(text_copy(job->by->command, &fresh.command));
        TRY(text_copy(job->by->version, &fresh.version));
        TRY(write_setup(job, v, &fresh, request, path));
        s = fresh;
        fresh = (struct validate_setup){0};
    }
    *out = s;
    s = (struct validate_setup){0};
out:
    free(old_request);
    validate_setup_free(&fresh);
    validate_setup_free(&s);
    return st;
}

/* ---- when */

/* Times and loads of "TIME\tRUN\tPLAN\tREPEAT\tLOAD\t..." lines. A line that was cut off ends them.
 */
static enum status read_runs(const char *path, const char *text, struct validate_setup *s)
{
    enum status st = STATUS_OK;
    size_t lines = 0, n = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    double *load = calloc(lines + 1, sizeof *load);
    if (!load)
        return error_set(STATUS_NOMEM, "%zu runs", lines);
    size_t number = 0;
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        char time[VALIDATE_TIME];
        number++;
        if (*at == '#')
            continue;
        if (sscanf(at, "%31[^\t\n]\t%*u\t%*[^\t\n]\t%*u\t%lf", time, &load[n]) != 2) {
            st = error_set(STATUS_PARSE, "%s:%zu: expected time, run, plan, repeat, load", path,
                           number);
            goto out;
        }
        if (n++ == 0)
            TRY(text_copy(time, &s->measured));
    }
    s->runs = n;
    if (n == 0)
        goto out;
    qsort(load, n, sizeof *load, by_value);
    for (int k = 0; k < 3; k++)
        s->load[k] = quantile_sorted(load, n, 0.5 * k);
out:
    free(load);
    return st;
}

enum status validate_read_times(const char *directory, struct validate_setup *out)
{
    enum status st;
    char path[VALIDATE_PATH], time[VALIDATE_TIME], hex[DIGEST_HEX], *text = NULL;
    size_t length;
    TRY(validate_path(directory, "", "predictions", ".tsv", path));
    TRY(file_read(path, &text, &length));
    size_t known = sizeof written - 1;
    if (strncmp(text, written, known) != 0) {
        st = error_set(STATUS_PARSE, "%s:1: expected '%s...'", path, written);
        goto out;
    }
    snprintf(time, sizeof time, "%.*s", (int)strcspn(text + known, ",\n") % VALIDATE_TIME,
             text + known);
    digest_hex(text, length, hex);
    TRY(text_copy(time, &out->predicted));
    TRY(text_copy(hex, &out->hash));
    free(text);
    text = NULL;
    TRY(validate_path(directory, "", "runs", ".tsv", path));
    if (access(path, F_OK) != 0)
        goto out; /* no run was made */
    TRY(file_read(path, &text, &length));
    TRY(read_runs(path, text, out));
out:
    free(text);
    return st;
}
