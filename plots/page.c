/* The HTML page: sections of text, tables and inline pictures, written as they come. */
#include "plots/page.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "plots/page_files.h"
#include "plots/trace_events.h"

/* ---- text */

const char page_mark[] = "<meta name=\"generator\" content=\"foreline\">";

void page_open(FILE *to, const char *title)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n%s\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>",
            page_mark);
    text_put_xml(to, title, SIZE_MAX);
    fprintf(to, "</title>\n<style>\n%s</style></head><body>\n<h1>", page_style);
    text_put_xml(to, title, SIZE_MAX);
    fputs("</h1>\n", to);
}

void page_close(FILE *to)
{
    fprintf(to, "<div id=\"tip\"></div>\n<script>\n%s</script>\n</body></html>\n", page_script);
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

void page_table_open(FILE *to)
{
    fputs("<div class=\"scroll\"><table>\n", to);
}

void page_row(FILE *to, const char *tag, const char *const *cell, size_t n)
{
    fputs("<tr>", to);
    for (size_t i = 0; i < n; i++) {
        const char *text = cell[i] ? cell[i] : "";
        fprintf(to, "<%s%s>", tag, text_columns(text) > LONG_CELL ? " class=\"long\"" : "");
        text_put_xml(to, text, SIZE_MAX);
        fprintf(to, "</%s>", tag);
    }
    fputs("</tr>\n", to);
}

void page_table_close(FILE *to)
{
    fputs("</table></div>\n", to);
}

void page_table(FILE *to, const struct plot_table *t, size_t rows)
{
    page_table_open(to);
    page_row(to, "th", (const char *const *)t->name, t->columns);
    for (size_t i = 0; i < t->rows && i < rows; i++)
        page_row(to, "td", (const char *const *)&t->cell[i * t->columns], t->columns);
    page_table_close(to);
    if (t->rows > rows) {
        char text[96];
        snprintf(text, sizeof text, "The first %zu of %zu rows.", rows, t->rows);
        page_paragraph(to, "note", text);
    }
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

/* A JSON string that is also harmless inside a script element. */
static void page_put_json(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '&')
            fprintf(to, "\\u%04x", (unsigned)c);
        else
            putc(c, to);
    }
    putc('"', to);
}

enum status page_timeline(FILE *to, const char *trace, const char *caption)
{
    enum status st;
    struct trace_events t = {0};
    TRY(trace_events_read(trace, NULL, &t));
    if (t.n > PAGE_OPS)
        FAIL(STATUS_INVALID, "%s: trace has %zu ops, a page shows at most %d", trace, t.n,
             PAGE_OPS);
    fputs("<figure><div class=\"timeline\"><canvas></canvas>\n<script type=\"application/json\">"
          "{\"ranks\":[",
          to);
    for (size_t i = 0; i < t.rows; i++) {
        char name[40];
        snprintf(name, sizeof name, "rank %lld", (long long)t.pid[i]);
        fputs(i ? "," : "", to);
        page_put_json(to, t.rank[i] ? t.rank[i] : name);
    }
    fputs("],\"ops\":[", to);
    for (size_t i = 0; i < t.n; i++) { /* row, category, microbatch, start, end in us, name */
        const struct trace_event *e = &t.event[i];
        fprintf(to, "%s[%u,%u,%lld,%.10g,%.10g,", i ? "," : "", e->row, e->category,
                (long long)e->microbatch, e->start_s * 1e6, e->end_s * 1e6);
        page_put_json(to, e->name);
        putc(']', to);
    }
    fputs("]}</script></div>", to);
    char text[4200];
    if (t.step >= 0)
        snprintf(text, sizeof text, "%.4000s, step %lld of the run", caption, (long long)t.step);
    put_caption(to, t.step >= 0 ? text : caption);
out:
    trace_events_free(&t);
    return st;
}
