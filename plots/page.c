/* The HTML page: sections of text, tables and inline pictures, written as they come. */
#include "plots/page.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "plots/page_files.h"
#include "plots/trace_events.h"

/* ---- text */

const char page_mark[] = "<meta name=\"generator\" content=\"foreline\">";

/* The one script that may run is the page's own, by its hash; pictures have style attributes. */
void page_open(FILE *to, const char *title)
{
    char hash[DIGEST_BASE64];
    digest_base64(page_script, strlen(page_script), hash);
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n%s\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "script-src 'sha256-%s'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            "form-action 'none'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>",
            page_mark, hash);
    text_put_xml(to, title, SIZE_MAX);
    fprintf(to, "</title>\n<style>\n%s</style></head><body>\n<h1>", page_style);
    text_put_xml(to, title, SIZE_MAX);
    fputs("</h1>\n<noscript><p class=\"note\">Sorting, filtering and timelines need JavaScript, "
          "which "
          "is off.</p></noscript>\n",
          to);
}

void page_close(FILE *to)
{
    fprintf(to,
            "<div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>%s</script>\n</body></html>\n",
            page_script);
}

void page_heading(FILE *to, const char *text)
{
    fputs("<h2>", to);
    text_put_xml(to, text, SIZE_MAX);
    fputs("</h2>\n", to);
}

void page_paragraph(FILE *to, const char *kind, const char *text)
{
    fprintf(to, "<p class=\"%s\">", kind);
    text_put_xml(to, text, SIZE_MAX);
    fputs("</p>\n", to);
}

void page_lines(FILE *to, const char *text)
{
    fputs("<pre>", to);
    while (*text) {
        size_t n = strcspn(text, "\n");
        text_put_xml(to, text, n);
        putc('\n', to);
        text += n + (text[n] == '\n');
    }
    fputs("</pre>\n", to);
}

/* ---- tables */

enum { LONG_CELL = 40 }; /* columns from which a cell has several lines */

void page_table_open(FILE *to, const char *name)
{
    fputs("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", to);
    text_put_xml(to, name, SIZE_MAX);
    fputs("\"><table class=\"sorts\">\n", to);
}

void page_row(FILE *to, const char *tag, const char *const *cell, size_t n)
{
    bool head = !strcmp(tag, "th");
    fputs(head ? "<thead><tr>" : "<tr>", to);
    for (size_t i = 0; i < n; i++) {
        const char *text = cell[i] ? cell[i] : "";
        fprintf(to, "<%s%s%s>", tag, head ? " scope=\"col\"" : "",
                text_columns(text) > LONG_CELL ? " class=\"long\"" : "");
        text_put_xml(to, text, SIZE_MAX);
        fprintf(to, "</%s>", tag);
    }
    fputs(head ? "</tr></thead><tbody>\n" : "</tr>\n", to);
}

void page_table_close(FILE *to)
{
    fputs("</tbody></table></div>\n", to);
}

/* ---- pictures */

static void put_caption(FILE *to, const char *caption)
{
    fputs("<figcaption>", to);
    text_put_xml(to, caption, SIZE_MAX);
    fputs("</figcaption></figure>\n", to);
}

enum status page_picture(FILE *to, const char *svg, const char *caption)
{
    enum status st;
    char *text = NULL;
    size_t length;
    TRY(file_read(svg, &text, &length));
    const char *begin = strstr(text, "<svg"), *end = begin ? strstr(begin, "</svg>") : NULL;
    if (!end)
        FAIL(STATUS_PARSE, "%s: not an SVG file: element <svg> is missing", svg);
    fputs("<figure>", to);
    fwrite(begin, 1, (size_t)(end - begin), to);
    fputs("</svg>", to);
    put_caption(to, caption);
out:
    free(text);
    return st;
}

/* Blanks between values are left out. A "<" stands within strings only, where an escape means the
 * same; so no text ends the script. */
void page_data(FILE *to, const char *view, const char *json)
{
    bool within = false;
    fprintf(to, "<div class=\"view\" data-view=\"%s\"><script type=\"application/json\">", view);
    for (const char *c = json; *c; c++) {
        within ^= *c == '"';
        if (*c == '<')
            fputs("\\u003c", to);
        else if (within || !strchr(" \n\r\t", *c))
            putc(*c, to);
        if (*c == '\\' && c[1])
            putc(*++c, to);
    }
    fputs("</script></div>\n", to);
}

/* The columns of the ops, which are in the order of their rows. */
static void put_ops(struct json_writer *w, const struct trace_events *t)
{
    json_open_object(w, "op", false);
    json_open_array(w, "kind", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_integer(w, NULL, t->event[i].category);
    json_close(w);
    json_open_array(w, "microbatch", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_integer(w, NULL, t->event[i].microbatch);
    json_close(w);
    json_open_array(w, "start", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_integer(w, NULL, llround(t->event[i].start_s * 1e9));
    json_close(w);
    json_open_array(w, "duration", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_integer(w, NULL, llround((t->event[i].end_s - t->event[i].start_s) * 1e9));
    json_close(w);
    json_open_array(w, "name", true);
    for (size_t i = 0; i < t->n; i++)
        json_put_string(w, NULL, t->event[i].name);
    json_close(w);
    json_close(w);
}

static int by_row(const void *a, const void *b)
{
    const struct trace_event *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* Rows are ranks; a row with process id -1 begins a trace and is none. */
static void put_timeline(struct json_writer *w, struct trace_events *t)
{
    /* as timeline.js calls the categories of trace_events.h */
    static const char *const kinds[TRACE_CATEGORIES] = {"COPY", "WIRE", "F0",    "F",
                                                        "B",    "W",    "UPDATE"};
    qsort(t->event, t->n, sizeof *t->event, by_row);
    json_open_object(w, NULL, false);
    json_open_array(w, "kinds", true);
    for (size_t i = 0; i < TRACE_CATEGORIES; i++)
        json_put_string(w, NULL, kinds[i]);
    json_close(w);
    json_open_array(w, "ranks", false);
    for (size_t r = 0, first = 0, trace = 0; r < t->rows; r++) {
        char name[40];
        trace += t->pid[r] < 0 && r > 0;
        for (; first < t->n && t->event[first].row < r; first++)
            continue;
        if (t->pid[r] < 0)
            continue;
        snprintf(name, sizeof name, "rank %lld", (long long)t->pid[r]);
        json_open_object(w, NULL, true);
        json_put_string(w, "name", t->rank[r] ? t->rank[r] : name);
        json_put_integer(w, "trace", (int64_t)trace);
        json_put_integer(w, "first", (int64_t)first);
        json_close(w);
    }
    json_close(w);
    put_ops(w, t);
    json_close(w);
}

enum status page_timeline(FILE *to, const char *const *trace, size_t n)
{
    enum status st;
    struct trace_events t = {0};
    struct file_text text = {0};
    TRY(trace_events_read_all(trace, n, NULL, &t));
    if (t.n > PAGE_OPS)
        FAIL(STATUS_INVALID, "%s: %s %zu ops, a page shows at most %d", trace[0],
             n > 1 ? "traces have" : "trace has", t.n, PAGE_OPS);
    TRY(file_text_open(&text));
    put_timeline(&(struct json_writer){.stream = text.stream}, &t);
    TRY(file_text_close(&text, STATUS_OK));
    page_data(to, "timeline", text.text);
out:
    free(text.text);
    trace_events_free(&t);
    return st;
}
