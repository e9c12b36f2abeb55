/* plot.h - pictures of traces and measurements, drawn by gnuplot.
 *
 * `output` ends in .svg, .png or .pdf; beside it a table with the plotted data is written, with the
 * extension .tsv, whose first line says which version and command made both (an SVG says it too, at
 * its end; PNG and PDF carry no text). An `output` that ends in .tsv is the table alone, without
 * gnuplot. A file of that name which is no such table stays: STATUS_IO. Both appear only when
 * complete. Colours are Okabe and Ito's
 * ("Color universal design", 2008), told apart by lightness too. Same input, same bytes (a PDF
 * carries its date). All return STATUS_USAGE for another extension, STATUS_EXTERNAL when gnuplot
 * is missing or fails, STATUS_IO, STATUS_NOMEM. */
#ifndef PLOTS_PLOT_H
#define PLOTS_PLOT_H

#include "core/base/provenance.h"
#include "core/data/breakdown.h"
#include "core/data/measurement.h"

struct plot_style; /* style.h */

/* Gantt chart of n traces (core/data/trace.h), one below the other on one time axis: a row per
 * rank, compute above, communication below, grey where a rank computes nothing; a box shows its
 * microbatch where there is room. Rows are means over neighbouring ranks, and ops become shares of
 * a column's time, where there are too many (timeline.h); the picture says so. STATUS_PARSE with
 * path:line:column when a trace is malformed, STATUS_INVALID when nothing is left to draw,
 * STATUS_USAGE for a window that ends before it begins or ranks that are no list of numbers. */
struct timeline_window {
    double from_s, to_s;            /* to_s 0: the end of the longest trace */
    const char *ranks;              /* "0,8-15"; NULL: all */
    const struct plot_style *style; /* NULL: none */
};
enum status plot_timeline(const char *const *trace, size_t n, const struct timeline_window *window,
                          const char *output, const struct provenance *by) MUST_CHECK;

/* Predicted against measured iteration time, a point per plan and pair of engines, with the line of
 * equality and bands of 5 and 10 %. Pairing and errors as in core/data/compare.h; `name` [n] are
 * the files of m[n]. */
enum status plot_scatter(const struct measurement *m, const char *const *name, size_t n,
                         const char *output, const struct provenance *by) MUST_CHECK;

/* Iteration time of every plan by every engine, side by side; several runs of one engine: their
 * median. n >= 1. */
enum status plot_bars(const struct measurement *m, const char *const *name, size_t n,
                      const char *output, const struct provenance *by) MUST_CHECK;

/* Seconds of an iteration by what it waits for, a bar each: b[n], name[n]; m[n], or NULL, says by
 * which engine, and which step of a run it is. STATUS_INVALID also when one sums up to nothing. */
enum status plot_breakdown(const struct breakdown *b, const char *const *name,
                           const struct measurement *m, size_t n, const char *output,
                           const struct provenance *by) MUST_CHECK;

/* What fills the memory of a rank, a bar each, with a mark at what its device has; bars that would
 * hardly be seen beside it have a note instead. */
struct plot_memory_bar {
    const char *name, *rank; /* of the bar; of the rank, or "" */
    int64_t weight_bytes, gradient_bytes, state_bytes, stash_bytes, scratch_bytes;
    int64_t peak_bytes, capacity_bytes; /* 0: not known */
};
enum status plot_memory(const struct plot_memory_bar *bar, size_t n, const char *label,
                        const char *output, const struct provenance *by) MUST_CHECK;

#endif
