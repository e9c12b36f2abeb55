/* page.h - a self-contained HTML page: text, tables, pictures inline, timelines to zoom and hover.
 *
 * Nothing is fetched: styles, pictures and the script are in the page. Text is escaped here. */
#ifndef PLOTS_PAGE_H
#define PLOTS_PAGE_H

#include <stdio.h>

#include "core/base/error.h"
#include "plots/table.h"

/* What every page says in its first lines. */
extern const char page_mark[];
void page_open(FILE *to, const char *title);
void page_close(FILE *to);
void page_heading(FILE *to, const char *text);
/* `kind` is the paragraph's class: "", "answer", "note" or "warning". */
void page_paragraph(FILE *to, const char *kind, const char *text);

/* Lines as they are, in letters of one width. */
void page_lines(FILE *to, const char *text);

/* A table in pieces, which a click on a column sorts: page_row() with the names first, then rows.
 * `name` is for who cannot see it. `cell` [n]. */
void page_table_open(FILE *to, const char *name);
void page_row(FILE *to, const char *tag, const char *const *cell, size_t n); /* "th" or "td" */
void page_table_close(FILE *to);

/* Rows of which the reader chooses, filters and sorts; the script makes their table. */
struct page_points {
    const struct plot_table *rows;
    /* Of a sweep; 0, NULL for other tables: so many columns in front are settings; the command of
     * each row, a word a cell and "" behind its end; what days and money are for. */
    size_t settings;
    const struct plot_table *command;
    double tokens, price;
};
enum status page_points(FILE *to, const struct page_points *p) MUST_CHECK;

/* An SVG file inline, with a caption. STATUS_PARSE when it holds no SVG; STATUS_IO, STATUS_NOMEM.
 */
enum status page_picture(FILE *to, const char *svg, const char *caption) MUST_CHECK;
/* JSON for a view of plots/page/report.js, where it comes to stand on the page. */
void page_data(FILE *to, const char *view, const char *json);
/* Traces (core/data/trace.h) on one time axis: to zoom, to move, to ask about an op. STATUS_PARSE
 * as trace_events_read_all(); STATUS_INVALID above PAGE_OPS ops. */
enum { PAGE_OPS = 200000 };
enum status page_timeline(FILE *to, const char *const *trace, size_t n) MUST_CHECK;

#endif
