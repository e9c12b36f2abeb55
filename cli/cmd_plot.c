/* plot - pictures of traces and measurements. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/measurement.h"
#include "plots/plot.h"

static const char *output;

static const struct option_spec options[] = {
    {OPTION_STRING, "output", &output, "FILE", "picture: .svg, .png or .pdf (also -o FILE)"},
    {.type = OPTION_END},
};

static const char details[] =
    "timeline TRACE       Gantt chart of a trace (simulate --trace, run --trace): a row per rank,\n"
    "                     compute above communication, grey where a rank is idle\n"
    "scatter MEASUREMENT...  predicted against measured iteration times, with bands of 5 and 10 %\n"
    "bars MEASUREMENT...  iteration time of every plan by every engine, side by side\n"
    "\n"
    "The plotted data is written beside the picture as tab-separated values (X.tsv for X.svg).\n"
    "Drawing needs gnuplot (Debian: gnuplot-nox). Files appear only when complete.";

static enum status plot_measurements(int argc, char **argv,
                                     enum status (*plot)(const struct measurement *,
                                                         const char *const *, size_t, const char *,
                                                         const struct provenance *))
{
    enum status st = STATUS_OK;
    size_t n = (size_t)argc, read = 0;
    struct measurement *m = calloc(n, sizeof *m);
    if (!m) {
        st = error_set(STATUS_NOMEM, "%zu files", n);
        goto out;
    }
    for (; read < n; read++)
        TRY(measurement_read(argv[read], &m[read]));
    struct provenance by = command_provenance(0);
    TRY(plot(m, (const char *const *)argv, n, output, &by));
out:
    for (size_t i = 0; i < read; i++)
        measurement_free(&m[i]);
    free(m);
    return st;
}

static enum status plot(int argc, char **argv)
{
    const char *kind = argc > 0 ? argv[0] : "";
    struct provenance by = command_provenance(0);
    if (!output)
        return error_set(STATUS_USAGE, "plot needs -o FILE.svg, .png or .pdf");
    if (strcmp(kind, "timeline") == 0 && argc == 2)
        return plot_timeline(argv[1], output, &by);
    if (strcmp(kind, "scatter") == 0 && argc > 1)
        return plot_measurements(argc - 1, argv + 1, plot_scatter);
    if (strcmp(kind, "bars") == 0 && argc > 1)
        return plot_measurements(argc - 1, argv + 1, plot_bars);
    return error_set(STATUS_USAGE,
                     "expected plot timeline TRACE, plot scatter FILE... or plot bars FILE...");
}

const struct command command_plot = {
    .name = "plot",
    .synopsis = "timeline TRACE | scatter MEASUREMENT... | bars MEASUREMENT...",
    .summary = "pictures: timeline, scatter, bars",
    .details = details,
    .options = options,
    .run = plot,
};
