/* report_page.h - the kinds of pages of `foreline report`, and what they share. Private to the
 * command. */
#ifndef STUDY_REPORT_PAGE_H
#define STUDY_REPORT_PAGE_H

#include <stdio.h>

#include "core/error.h"
#include "core/provenance.h"

/* A page being written. */
struct report_page {
    FILE *to;
    const char *question; /* its title; NULL: what is reported */
    char directory[64];   /* for pictures before they are in the page; "": not made yet */
};
void report_page_free(struct report_page *p); /* accepts {0} */

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
/* The last part: version and command of this page. */
void report_made_by(struct report_page *p);

/* About measurements, traces and tables in a directory. */
enum status report_directory(struct report_page *p, const char *directory) MUST_CHECK;
/* About a sweep's database. */
enum status report_sweep(struct report_page *p, const char *database) MUST_CHECK;

#endif
