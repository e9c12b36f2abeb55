/* Looks into the files of a directory, and puts measurements and traces in the order of their
 * plans. */
#include "study/report_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "plots/figure.h"

enum { MAX_FILES = 4096 };

void contents_free(struct contents *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->file[i].path);
        free(c->file[i].command);
    }
    for (size_t i = 0; i < c->measurements; i++)
        measurement_free(&c->m[i]);
    free(c->file);
    free(c->m);
    free(c->name);
    free(c->command);
    free(c->samples_per_s);
    free(c->order);
    free(c->trace);
    *c = (struct contents){0};
}

/* ---- what is there */

static bool report_file_ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcmp(path + n - k, suffix) == 0;
}

/* The command that made a file, in the object `where` of it. */
static enum status read_command(const struct json_at *root, const char *where, struct found *f)
{
    struct json_at object, command;
    if (json_field(root, where, &object) != STATUS_OK ||
        json_field(&object, "command", &command) != STATUS_OK ||
        json_kind(&command) != JSON_IS_TEXT)
        return STATUS_OK;
    return json_get_copy(&command, &f->command);
}

/* By content: a name says little about a JSON file. */
static enum status look_into(struct found *f)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    struct json_at events;
    f->what = report_file_ends_in(f->path, ".tsv") ? TABLE : OTHER;
    if (!report_file_ends_in(f->path, ".json") || json_read(f->path, NULL, 0, &d) != STATUS_OK)
        return STATUS_OK;
    struct json_at root = json_root(&d);
    if (json_check_format(&d, "foreline-measurement", 1) == STATUS_OK) {
        f->what = MEASUREMENT;
        st = read_command(&root, "provenance", f);
    } else if (json_check_format(&d, "foreline-timeline", 1) == STATUS_OK) {
        f->what = TIMELINE;
        st = read_command(&root, "provenance", f);
    } else if (json_field(&root, "traceEvents", &events) == STATUS_OK) {
        f->what = TRACE;
        st = read_command(&root, "otherData", f);
    }
    json_document_free(&d);
    return st;
}

/* The files of a directory in the order of their names and, if `deeper`, those of the directories
 * in it. Hidden files and earlier pages are left out. */
static enum status add_directory(struct contents *c, const char *directory, bool deeper)
{
    enum status st = STATUS_OK;
    struct dirent **entry = NULL;
    int n = scandir(directory, &entry, NULL, alphasort);
    if (n < 0)
        return error_set(STATUS_IO, "%s: %s", directory, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat s;
        if (entry[i]->d_name[0] == '.' || text_begins(entry[i]->d_name, "report.html"))
            continue; /* a page does not tell of itself */
        snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
        if (stat(path, &s) != 0)
            continue;
        if (S_ISDIR(s.st_mode) && deeper)
            TRY(add_directory(c, path, false));
        if (!S_ISREG(s.st_mode))
            continue;
        if (c->n == MAX_FILES)
            FAIL(STATUS_INVALID, "%s: more than %d files", directory, MAX_FILES);
        TRY(text_copy(path, &c->file[c->n].path));
        TRY(look_into(&c->file[c->n++]));
    }
out:
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
    return st;
}

/* ---- their order */

bool contents_alike(const struct contents *c, size_t a, size_t b)
{
    const char *x = c->m[a].engine, *y = c->m[b].engine;
    return a == b || (x && y && strcmp(x, y) == 0 && measurement_same_plan(&c->m[a], &c->m[b]));
}

const char *contents_plan_name(const struct contents *c, size_t i, char *text, size_t room)
{
    const char *plan = c->m[i].plan;
    style_plan_name(plan && *plan ? plan : c->name[i], text, room);
    return text;
}

/* Files alike are repeats: their median counts, as in pictures. */
static enum status find_rates(struct contents *c)
{
    double *alike;
    PASS(ARRAY_NEW(alike, c->measurements));
    for (size_t i = 0; i < c->measurements; i++) {
        size_t n = 0;
        for (size_t k = 0; k < c->measurements; k++)
            if (contents_alike(c, i, k) && c->m[k].samples_per_s > 0)
                alike[n++] = c->m[k].samples_per_s;
        c->samples_per_s[i] = n > 0 ? median(alike, n) : 0;
    }
    free(alike);
    return STATUS_OK;
}

/* Does measurement a come before b? Runs first, then the faster one, then the first file. */
static bool comes_before(const struct contents *c, size_t a, size_t b)
{
    bool run_a = c->m[a].engine && !engine_predicts(c->m[a].engine);
    bool run_b = c->m[b].engine && !engine_predicts(c->m[b].engine);
    double x = c->samples_per_s[a], y = c->samples_per_s[b];
    return run_a != run_b ? run_a : x > y || x < y ? x > y : a < b;
}

/* Is there a measurement of the same plan that comes before? */
static bool is_second(const struct contents *c, size_t i)
{
    for (size_t k = 0; k < c->measurements; k++)
        if (comes_before(c, k, i) && measurement_same_plan(&c->m[k], &c->m[i]))
            return true;
    return false;
}

/* Insertion, as files are few; second ones of a plan behind all first ones. */
static void put_in_order(struct contents *c)
{
    for (int second = 0; second < 2; second++)
        for (size_t i = 0, n = 0; i < c->measurements; i++) {
            size_t at = (second ? c->representatives : 0) + n, first = at - n;
            if (is_second(c, i) != second)
                continue;
            for (; at > first && comes_before(c, i, c->order[at - 1]); at--)
                c->order[at] = c->order[at - 1];
            c->order[at] = i;
            n++;
            c->representatives += !second;
        }
}

/* Which measurement, in their order, the command that made a trace has written, too;
 * c->measurements: none. */
static size_t measurement_of(const struct contents *c, const struct found *trace)
{
    size_t k = 0;
    while (k < c->measurements && !(trace->command && c->command[c->order[k]] &&
                                    strcmp(c->command[c->order[k]], trace->command) == 0))
        k++;
    return k;
}

static void add_traces(struct contents *c, size_t k)
{
    for (size_t i = 0; i < c->n; i++) {
        bool added = false;
        for (size_t j = 0; j < c->traces; j++)
            added |= c->trace[j] == i;
        if (!added && c->file[i].what == TRACE && measurement_of(c, &c->file[i]) == k)
            c->trace[c->traces++] = i;
    }
}

/* In the order of the measurements; behind a run its first prediction, to be seen over it. */
static void order_traces(struct contents *c)
{
    for (size_t k = 0; k <= c->measurements; k++) {
        const struct measurement *run = k < c->representatives ? &c->m[c->order[k]] : NULL;
        size_t before = c->traces;
        add_traces(c, k);
        if (!run || !run->engine || engine_predicts(run->engine))
            continue;
        size_t after = c->traces;
        for (size_t j = k + 1; j < c->measurements && after > before && c->traces == after; j++)
            if (measurement_same_plan(run, &c->m[c->order[j]]))
                add_traces(c, j);
    }
}

enum status contents_read(const char *directory, struct contents *c)
{
    size_t useful = 0;
    PASS(ARRAY_NEW(c->file, MAX_FILES));
    PASS(add_directory(c, directory, true));
    PASS(ARRAY_NEW(c->m, c->n));
    PASS(ARRAY_NEW(c->name, c->n));
    PASS(ARRAY_NEW(c->command, c->n));
    for (size_t i = 0; i < c->n; i++) {
        useful += c->file[i].what != OTHER;
        if (c->file[i].what != MEASUREMENT)
            continue;
        PASS(measurement_read(c->file[i].path, &c->m[c->measurements]));
        c->command[c->measurements] = c->file[i].command;
        c->name[c->measurements++] = c->file[i].path;
    }
    if (useful == 0)
        return error_set(STATUS_INVALID, "%s: folder has no measurement, trace or table",
                         directory);
    PASS(ARRAY_NEW(c->samples_per_s, c->measurements));
    PASS(ARRAY_NEW(c->order, c->measurements));
    PASS(ARRAY_NEW(c->trace, c->n));
    PASS(find_rates(c));
    put_in_order(c);
    order_traces(c);
    return STATUS_OK;
}
