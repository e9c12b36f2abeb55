/* report.h - pages of `foreline report`: a table of sections each, and what all pages share.
 *
 *     report.c            texts, rows and pictures of a page
 *     report_directory.c  a page about measurements, traces and tables in a directory
 *     report_files.c      what there is, and what of it comes first
 *     report_sweep.c      a page about a sweep's database
 *     report_answer.c     of that page: what it begins with
 *     report_change.c     of that page: where the best plan changes, and why
 *     report_points.c     of that page: all points, and the commands that repeat them
 *
 * Texts that a page is made of live as long as the page. When memory for one runs out it is empty,
 * and the page fails at its end. */
#ifndef STUDY_REPORT_H
#define STUDY_REPORT_H

#include <stdio.h>

#include "core/base/array.h"
#include "core/base/provenance.h"
#include "core/base/units.h"
#include "host/folder.h"

/* A page being written. */
struct report_page {
    FILE *to;
    const char *question;        /* its title; NULL: what is reported */
    const struct provenance *by; /* who makes this page */
    double tokens, price;        /* days and money are for these; 0: nobody asks */
    char directory
        [FOLDER_TEMPORARY]; /* for pictures before they are in the page; "": not made yet */
    struct arena texts;
    enum status st; /* STATUS_NOMEM once a text was lost */
};
void report_page_free(struct report_page *p); /* accepts {0} */

/* About measurements, traces and tables in a directory. */
enum status report_directory(struct report_page *p, const char *directory) MUST_CHECK;
/* About a sweep's database. */
enum status report_sweep(struct report_page *p, const char *database) MUST_CHECK;

/* ---- a page in sections */

/* A part of a page: what it says about `what`, below its heading (NULL: it has none, or puts it
 * itself when there is something to say). */
struct report_section {
    const char *heading;
    enum status (*put)(struct report_page *p, const void *what);
};
/* The whole page: title, sections in this order, the end. */
enum status report_sections(struct report_page *p, const char *title,
                            const struct report_section *section, size_t n,
                            const void *what) MUST_CHECK;

/* A text, and a quantity ("1.5 us"; below zero with its sign). */
const char *report_text(struct report_page *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *report_quantity(struct report_page *p, enum unit unit, double value);
/* "1T tokens": what is asked for. */
const char *report_tokens(struct report_page *p);
/* What training on these takes: "49.65 days", "95,330", "49.65 days at a cost of 95,330"; "", and
 * no cost: nobody asks. */
const char *report_days(struct report_page *p, double tokens_per_s);
const char *report_cost(struct report_page *p, double tokens_per_s, double gpus);
const char *report_training(struct report_page *p, double tokens_per_s, double gpus);
/* How fast so many GPUs train; `tokens_per_s` 0: the model has none. */
struct report_speed {
    const char *name;
    double gpus, tokens_per_s, samples_per_s;
};
double report_each(const struct report_speed *s); /* of a GPU: tokens per second, else samples */
/* A sentence, with a blank in front: what is the best per GPU beside the fastest, which costs least
 * as a GPU-hour has one price. */
const char *report_per_gpu(struct report_page *p, const struct report_speed *fastest,
                           const struct report_speed *each);
/* A paragraph; `kind` as in page_paragraph(). */
void report_say(struct report_page *p, const char *kind, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* A row of a table: REPORT_ROW(p, "td", cell, cell, ...) */
#define REPORT_ROW(p, tag, ...)                                                                    \
    page_row((p)->to, tag, (const char *const[]){__VA_ARGS__},                                     \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
/* The part that all pages have: version and command of this page. */
void report_made_by(struct report_page *p);

/* Let `draw` make a picture, and take it in. What cannot be drawn (STATUS_INVALID,
 * STATUS_INFEASIBLE) is left out. */
enum status report_picture(struct report_page *p,
                           enum status (*draw)(const void *context, const char *svg,
                                               const struct provenance *by),
                           const void *context, const char *caption) MUST_CHECK;
/* A kind of picture of plots/kind.h. */
struct plot_request;
enum status report_plot(struct report_page *p, const char *kind, const struct plot_request *request,
                        const char *caption) MUST_CHECK;

/* ---- of the page about a sweep */

struct sweep;
struct best_table;

/* The best point of all, whether it leads by more than the expected error, where its plan stays
 * the best, and where its time goes. */
enum status report_answer(struct report_page *p, const struct sweep *s,
                          const struct best_table *best) MUST_CHECK;
/* Where along the last setting that varies another plan becomes the best, and why: both plans on
 * both sides, by time and memory. */
enum status report_changes(struct report_page *p, const struct sweep *s,
                           const struct best_table *best) MUST_CHECK;
/* Where the time of the best plans goes, and what their memory holds; a bar for each group. */
enum status report_best_plans(struct report_page *p, const struct sweep *s,
                              const struct best_table *best) MUST_CHECK;

/* All rows of sweep_table(), which the reader sorts, filters and chooses columns of. */
struct plot_table;
enum status report_points(struct report_page *p, const struct sweep *s,
                          const struct plot_table *rows) MUST_CHECK;

#endif
