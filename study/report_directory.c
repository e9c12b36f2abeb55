/* A page about what is in a directory: measurements, traces and tables. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/breakdown.h"
#include "core/compare.h"
#include "core/digest.h"
#include "core/file.h"
#include "core/json.h"
#include "core/text.h"
#include "core/units.h"
#include "plots/kind.h"
#include "plots/page.h"
#include "study/report_page.h"

enum { MAX_FILES = 4096, MAX_DETAILS = 4, TABLE_ROWS = 200 };

enum what { OTHER, MEASUREMENT, TRACE, TABLE };

struct found {
    char *path;
    enum what what;
};

struct contents {
    size_t n, measurements;
    struct found *file;    /* [n] */
    struct measurement *m; /* [measurements] */
    const char **name;     /* [measurements] paths */
};

static void contents_free(struct contents *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->file[i].path);
    for (size_t i = 0; i < c->measurements; i++)
        measurement_free(&c->m[i]);
    free(c->file);
    free(c->m);
    free(c->name);
    *c = (struct contents){0};
}

/* ---- what is there */

static bool ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcmp(path + n - k, suffix) == 0;
}

/* By content: a name says little about a JSON file. */
static enum what look_into(const char *path)
{
    struct json_document d = {0};
    struct json_at events;
    enum what what = OTHER;
    if (ends_in(path, ".tsv"))
        return TABLE;
    if (!ends_in(path, ".json") || json_read(path, NULL, 0, &d) != STATUS_OK)
        return OTHER;
    struct json_at root = json_root(&d);
    if (json_check_format(&d, "foreline-measurement", 1) == STATUS_OK)
        what = MEASUREMENT;
    else if (json_field(&root, "traceEvents", &events) == STATUS_OK)
        what = TRACE;
    json_document_free(&d);
    return what;
}

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
        if (entry[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
        if (stat(path, &s) != 0)
            continue;
        if (S_ISDIR(s.st_mode) && deeper)
            TRY(add_directory(c, path, false));
        if (!S_ISREG(s.st_mode))
            continue;
        if (c->n == MAX_FILES) {
            st = error_set(STATUS_INVALID, "%s: more than %d files", directory, MAX_FILES);
            goto out;
        }
        TRY(text_copy(path, &c->file[c->n].path));
        c->file[c->n].what = look_into(path);
        c->n++;
    }
out:
    for (int i = 0; i < n; i++)
        free(entry[i]);
    free(entry);
    return st;
}

static enum status read_contents(const char *directory, struct contents *c)
{
    enum status st = STATUS_OK;
    c->file = calloc(MAX_FILES, sizeof *c->file);
    if (!c->file)
        return error_set(STATUS_NOMEM, "out of memory");
    TRY(add_directory(c, directory, true));
    c->m = calloc(c->n + 1, sizeof *c->m);
    c->name = calloc(c->n + 1, sizeof *c->name);
    if (!c->m || !c->name) {
        st = error_set(STATUS_NOMEM, "out of memory");
        goto out;
    }
    size_t useful = 0;
    for (size_t i = 0; i < c->n; i++) {
        useful += c->file[i].what != OTHER;
        if (c->file[i].what != MEASUREMENT)
            continue;
        TRY(measurement_read(c->file[i].path, &c->m[c->measurements]));
        c->name[c->measurements++] = c->file[i].path;
    }
    if (useful == 0) {
        st = error_set(STATUS_INVALID, "%s: no measurement, trace or table in it", directory);
        goto out;
    }
out:
    return st;
}

/* ---- sections */

static const char *print(enum unit unit, double value)
{
    static char text[8][UNITS_TEXT];
    static unsigned next;
    return units_print(unit, value, text[next++ % 8]);
}

static void put_measurements(FILE *to, const struct contents *c)
{
    static const char *const head[] = {"file",      "engine",  "plan",   "model", "platform",
                                       "iteration", "samples", "bubble", "MFU",   "memory"};
    enum { COLUMNS = sizeof head / sizeof *head };
    page_heading(to, "Setup and figures");
    page_table_open(to);
    page_row(to, "th", head, COLUMNS);
    for (size_t i = 0; i < c->measurements; i++) {
        const struct measurement *m = &c->m[i];
        char samples[32], bubble[32], mfu[32];
        size_t full = measurement_fullest(m);
        snprintf(samples, sizeof samples, "%.4g /s", m->samples_per_s);
        snprintf(bubble, sizeof bubble, "%.1f %%", 100 * m->bubble_fraction);
        snprintf(mfu, sizeof mfu, m->mfu > 0 ? "%.1f %%" : "", 100 * m->mfu);
        const char *const cell[COLUMNS] = {
            c->name[i],
            m->engine,
            m->plan,
            m->model,
            m->platform,
            print(UNIT_SECONDS, m->iteration_s),
            samples,
            bubble,
            mfu,
            full == m->ranks ? "" : measurement_overfull(m) > 0 ? "does not fit" : "fits"};
        page_row(to, "td", cell, COLUMNS);
    }
    page_table_close(to);
    for (size_t i = 0; i < c->measurements && i < MAX_DETAILS; i++) {
        char text[BREAKDOWN_TEXT], line[BREAKDOWN_TEXT + 300];
        snprintf(line, sizeof line, "%.250s: %s", c->name[i], breakdown_bottleneck(&c->m[i], text));
        page_paragraph(to, "", line);
    }
}

static void put_comparison(FILE *to, const struct contents *c)
{
    static const char *const head[] = {"plan",      "predicted by", "measured by",
                                       "predicted", "measured",     "error"};
    struct comparisons pairs = {0};
    if (compare_measurements(c->m, c->name, c->measurements, &pairs) != STATUS_OK)
        return; /* nothing pairs */
    page_heading(to, "Predicted against measured");
    page_table_open(to);
    page_row(to, "th", head, 6);
    for (size_t i = 0; i < pairs.n; i++) {
        const struct comparison *p = &pairs.item[i];
        for (size_t k = 0; k < p->plans; k++) {
            char error[32];
            snprintf(error, sizeof error, "%+.2f %%", 100 * p->plan[k].error);
            const char *const cell[] = {p->plan[k].plan,
                                        p->predicted_by,
                                        p->measured_by,
                                        print(UNIT_SECONDS, p->plan[k].predicted_s),
                                        print(UNIT_SECONDS, p->plan[k].measured_s),
                                        error};
            page_row(to, "td", cell, 6);
        }
    }
    page_table_close(to);
    for (size_t i = 0; i < pairs.n; i++) {
        const struct comparison *p = &pairs.item[i];
        char line[300];
        snprintf(line, sizeof line,
                 "%.60s against %.60s: %zu plans, absolute error mean %.2f %%, median %.2f %%, "
                 "95th percentile %.2f %%; Kendall tau %.3f, regret %.2f %%.",
                 p->predicted_by, p->measured_by, p->plans, 100 * p->mean_abs_error,
                 100 * p->median_abs_error, 100 * p->p95_abs_error, p->kendall_tau,
                 100 * p->regret);
        page_paragraph(to, "", line);
    }
    comparisons_free(&pairs);
}

static enum status put_picture(struct report_page *p, const char *name, const char *const *path,
                               size_t n, const char *caption)
{
    const struct plot_request request = {.path = path, .n = n};
    return report_plot(p, name, &request, caption);
}

static enum status put_pictures(struct report_page *p, const struct contents *c)
{
    enum status st = STATUS_OK;
    if (c->measurements == 0)
        return STATUS_OK;
    page_heading(p->to, "Pictures");
    TRY(put_picture(p, "scatter", c->name, c->measurements, "Predicted against measured"));
    TRY(put_picture(p, "bars", c->name, c->measurements, "Iteration time by plan and engine"));
    TRY(put_picture(p, "breakdown", c->name, c->measurements < 40 ? c->measurements : 40,
                    "Where an iteration goes"));
    for (size_t i = 0; i < c->measurements && i < MAX_DETAILS; i++) {
        char caption[300];
        snprintf(caption, sizeof caption, "Memory: %.250s", c->name[i]);
        TRY(put_picture(p, "memory", &c->name[i], 1, caption));
        snprintf(caption, sizeof caption, "Links: %.250s", c->name[i]);
        TRY(put_picture(p, "links", &c->name[i], 1, caption));
    }
out:
    return st;
}

static enum status put_timelines(struct report_page *p, const struct contents *c)
{
    enum status st = STATUS_OK;
    size_t shown = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->file[i].what != TRACE || shown == MAX_DETAILS)
            continue;
        if (shown++ == 0) {
            page_heading(p->to, "Timelines");
            page_paragraph(p->to, "note",
                           "Wheel: zoom; drag: move; double click: everything. Light blue: "
                           "forward, orange: backward, black: update, green: on the wire, grey: "
                           "nothing to compute.");
        }
        st = page_timeline(p->to, c->file[i].path, c->file[i].path);
        if (st == STATUS_INVALID) { /* too many ops */
            page_paragraph(p->to, "warning", error_message());
            st = STATUS_OK;
        }
        TRY(st);
    }
out:
    return st;
}

static enum status put_tables(struct report_page *p, const struct contents *c)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < c->n; i++) {
        struct table t = {0};
        const char *path = c->file[i].path;
        if (c->file[i].what != TABLE)
            continue;
        page_heading(p->to, path);
        st = table_read(path, &t);
        if (st == STATUS_PARSE) {
            page_paragraph(p->to, "warning", error_message());
            st = STATUS_OK;
            continue;
        }
        TRY(st);
        page_table(p->to, &t, TABLE_ROWS);
        table_free(&t);
        TRY(put_picture(p, "throughput", &path, 1, "Throughput"));
        TRY(put_picture(p, "regret", &path, 1, "Behind the best"));
    }
out:
    return st;
}

static void put_warnings(FILE *to, const struct contents *c)
{
    bool any = false;
    for (size_t i = 0; i < c->measurements; i++) {
        for (size_t k = 0; k < c->m[i].warnings; k++) {
            char line[700];
            if (!any)
                page_heading(to, "Warnings");
            any = true;
            snprintf(line, sizeof line, "%.250s: %.400s", c->name[i], c->m[i].warning[k]);
            page_paragraph(to, "warning", line);
        }
    }
}

static enum status put_provenance(struct report_page *p, const struct contents *c)
{
    enum status st = STATUS_OK;
    static const char *const head[] = {"file", "SHA-256"};
    report_made_by(p);
    page_table_open(p->to);
    page_row(p->to, "th", head, 2);
    for (size_t i = 0; i < c->n; i++) {
        char hash[DIGEST_HEX], *text = NULL;
        size_t length;
        TRY(file_read(c->file[i].path, &text, &length));
        digest_hex(text, length, hash);
        free(text);
        const char *const cell[] = {c->file[i].path, hash};
        page_row(p->to, "td", cell, 2);
    }
    page_table_close(p->to);
out:
    return st;
}

enum status report_directory(struct report_page *p, const char *directory)
{
    enum status st;
    struct contents c = {0};
    TRY(read_contents(directory, &c));
    page_open(p->to, p->question ? p->question : directory);
    if (c.measurements > 0) {
        put_measurements(p->to, &c);
        put_comparison(p->to, &c);
    }
    TRY(put_pictures(p, &c));
    TRY(put_timelines(p, &c));
    TRY(put_tables(p, &c));
    put_warnings(p->to, &c);
    TRY(put_provenance(p, &c));
    page_close(p->to);
out:
    contents_free(&c);
    return st;
}
