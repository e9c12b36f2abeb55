/* plot - pictures of traces, measurements and tables. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "plots/kind.h"
#include "study/sweep.h"

static const char details[] =
    "bars MEASUREMENT...       iteration time of every plan by every engine, side by side\n"
    "breakdown MEASUREMENT...  where the time goes: compute, optimizer, exposed communication by\n"
    "                          purpose, bubble\n"
    "heatmap TABLE             a value over two columns, or a matrix of bandwidths as 'topology\n"
    "                          show --matrix' writes it\n"
    "links MEASUREMENT         utilisation of the busiest links\n"
    "memory MEASUREMENT        each stage's fullest rank: weights, gradients, optimizer state,\n"
    "                          stash, scratch, against the memory of its device\n"
    "regret TABLE              how far each line is behind the best at every x\n"
    "scatter MEASUREMENT...    predicted against measured iteration times, bands of 5 and 10 %\n"
    "speedup TABLE             each line over its own value at the smallest x\n"
    "throughput TABLE          a rate over a varied parameter, a line per algorithm or schedule\n"
    "timeline TRACE            Gantt chart of a trace (simulate --trace, run --trace): a row per\n"
    "                          rank, compute above communication, grey where a rank is idle\n"
    "\n"
    "A table has tab-separated columns, named in its first line (what 'foreline compare' prints "
    "and\n"
    "'foreline sweep --export tsv'), or is the database of a sweep. Cells are numbers, quantities\n"
    "('10Gbps') or words; several rows for one place count with their median. Rows whose status "
    "is\n"
    "not ok are left out, and those of other engines than the first's, unless --where asks for "
    "them.\n"
    "\n"
    "The plotted data is written beside the picture as tab-separated values (X.tsv for X.svg).\n"
    "Drawing needs gnuplot (Debian: gnuplot-nox). Files appear only when complete.";

static enum status plot(struct invocation *in)
{
    enum status st;
    const struct plot_kind *kind;
    const struct arguments *a = &in->a;
    struct plot_request request = {
        .x = a->x, .y = a->y, .by = a->by, .value = a->value, .where = a->where};
    struct sweep sweep = {0};
    struct table table = {0};
    if (!a->output)
        return error_set(STATUS_USAGE, "plot needs -o FILE.svg, .png or .pdf");
    if (in->operands < 2)
        return error_set(STATUS_USAGE, "expected plot KIND FILE...");
    TRY(plot_kind_find(in->operand[0], &kind));
    request.path = (const char *const *)(in->operand + 1);
    request.n = (size_t)in->operands - 1;
    if (kind->input == PLOT_TABLE && database_is(request.path[0])) {
        TRY(sweep_open(request.path[0], &sweep));
        TRY(sweep_table(&sweep, NULL, NULL, &table));
        request.table = &table;
    }
    TRY(plot_files(kind, &request, a->output, &in->by));
out:
    table_free(&table);
    sweep_free(&sweep);
    return st;
}

const struct command command_plot = {
    .name = "plot",
    .synopsis = "KIND FILE...",
    .summary = "pictures: timelines, throughput, breakdowns, memory, links, heat maps, ...",
    .details = details,
    .run = plot,
};
