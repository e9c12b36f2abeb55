/* What pages share: texts, sections, and pictures that are drawn into files and taken in. */
#include "study/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "host/folder.h"
#include "plots/kind.h"
#include "plots/page.h"

void report_page_free(struct report_page *p)
{
    folder_remove(p->directory);
    arena_free(&p->texts);
}

/* ---- texts */

/* Printed twice: the first time for the length. */
static const char *study_report_print(struct report_page *p, const char *fmt, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *text = n >= 0 ? arena_new(&p->texts, (size_t)n + 1, 1) : NULL;
    if (!text) {
        p->st = STATUS_NOMEM;
        return "";
    }
    vsnprintf(text, (size_t)n + 1, fmt, arguments);
    return text;
}

const char *report_text(struct report_page *p, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    const char *text = study_report_print(p, fmt, arguments);
    va_end(arguments);
    return text;
}

const char *report_quantity(struct report_page *p, enum unit unit, double value)
{
    char text[UNITS_TEXT];
    return report_text(p, "%s%s", value < 0 ? "-" : "", units_print(unit, fabs(value), text));
}

const char *report_tokens(struct report_page *p)
{
    return report_text(p, "%s tokens", units_of(UNIT_COUNT, p->tokens).text);
}

const char *report_days(struct report_page *p, double tokens_per_s)
{
    return p->tokens > 0 && tokens_per_s > 0
               ? report_text(p, "%.4g days", p->tokens / tokens_per_s / DAY_S)
               : "";
}

const char *report_cost(struct report_page *p, double tokens_per_s, double gpus)
{
    char money[TEXT_GROUPED];
    return p->price > 0 && p->tokens > 0 && tokens_per_s > 0
               ? report_text(
                     p, "%s",
                     text_grouped(p->tokens / tokens_per_s / HOUR_S * gpus * p->price, money))
               : "";
}

const char *report_training(struct report_page *p, double tokens_per_s, double gpus)
{
    const char *cost = report_cost(p, tokens_per_s, gpus);
    return report_text(p, "%s%s%s", report_days(p, tokens_per_s), *cost ? " at a cost of " : "",
                       cost);
}

double report_each(const struct report_speed *s)
{
    return (s->tokens_per_s > 0 ? s->tokens_per_s : s->samples_per_s) / s->gpus;
}

const char *report_per_gpu(struct report_page *p, const struct report_speed *fastest,
                           const struct report_speed *each)
{
    const char *days = report_training(p, each->tokens_per_s, each->gpus);
    const char *cheapest = *days && p->price > 0
                               ? report_text(p, ", and at %.4g per GPU-hour the cheapest to %s",
                                             p->price, report_tokens(p))
                               : "";
    if (fastest->gpus == each->gpus && !strcmp(fastest->name, each->name))
        return report_text(p, " It is also the best per GPU%s.", cheapest);
    char rate[TEXT_GROUPED], other[TEXT_GROUPED];
    const char *text = report_text(p, " The best per GPU%s%s is %s (%.0f GPU%s): %s %s per GPU",
                                   cheapest, *cheapest ? "," : "", each->name, each->gpus,
                                   each->gpus > 1 ? "s" : "", text_grouped(report_each(each), rate),
                                   each->tokens_per_s > 0 ? "tokens/s" : "samples/s");
    text = *days && !*cheapest ? report_text(p, "%s, %s to %s", text, days, report_tokens(p))
           : *days             ? report_text(p, "%s, %s", text, days)
                               : text;
    return report_text(p, "%s (the fastest: %s%s%s).", text,
                       text_grouped(report_each(fastest), other), *days ? ", " : "",
                       report_training(p, fastest->tokens_per_s, fastest->gpus));
}

void report_say(struct report_page *p, const char *kind, const char *fmt, ...)
{
    va_list arguments;
    va_start(arguments, fmt);
    page_paragraph(p->to, kind, study_report_print(p, fmt, arguments));
    va_end(arguments);
}

void report_made_by(struct report_page *p)
{
    page_paragraph(p->to, "", p->by->version);
    page_paragraph(p->to, "", p->by->command);
}

/* Sections in the order of their table. A page that lost a text fails at its end, as half a page
 * would mislead. */
enum status report_sections(struct report_page *p, const char *title,
                            const struct report_section *section, size_t n, const void *what)
{
    page_open(p->to, p->question ? p->question : title);
    for (size_t i = 0; i < n; i++) {
        if (section[i].heading)
            page_heading(p->to, section[i].heading);
        PASS(section[i].put(p, what));
    }
    page_close(p->to);
    return p->st == STATUS_OK ? STATUS_OK : error_set(p->st, "out of memory");
}

/* ---- pictures */

/* By way of a file in a folder of the page's own, as gnuplot writes files. The table of the
 * picture is left out: the page has its own. */
enum status report_picture(struct report_page *p,
                           enum status (*draw)(const void *context, const char *svg,
                                               const struct provenance *by),
                           const void *context, const char *caption)
{
    char svg[FOLDER_FILE], tsv[FOLDER_FILE];
    if (!*p->directory)
        PASS(folder_temporary(p->directory));
    folder_file(p->directory, "p.tsv", tsv);
    enum status st = draw(context, folder_file(p->directory, "p.svg", svg), p->by);
    if (st == STATUS_OK)
        st = page_picture(p->to, svg, caption);
    else if (st == STATUS_INVALID || st == STATUS_INFEASIBLE)
        st = STATUS_OK; /* a table need not be a sweep, measurements need not pair */
    remove(svg);
    remove(tsv);
    return st;
}

struct wanted {
    const struct plot_kind *kind;
    const struct plot_request *request;
};

static enum status draw_kind(const void *context, const char *svg, const struct provenance *by)
{
    const struct wanted *w = context;
    return plot_files(w->kind, w->request, svg, by);
}

enum status report_plot(struct report_page *p, const char *kind, const struct plot_request *request,
                        const char *caption)
{
    struct wanted w = {.request = request};
    PASS(plot_kind_find(kind, &w.kind));
    return report_picture(p, draw_kind, &w, caption);
}
