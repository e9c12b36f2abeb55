/* plot - pictures of traces, measurements and tables. */
#include "cli/command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/path.h"
#include "plots/kind.h"
#include "study/load.h"
#include "study/model_text.h"
#include "study/sweep.h"

static const char details[] =
    "A table has tab-separated columns that its first line names (the output of 'foreline "
    "compare'\n"
    "and 'foreline sweep --export tsv'), or is the database of a sweep. Cells are numbers,\n"
    "quantities ('10Gbps') or words. Rows at the same place are repeats, of which the median is\n"
    "drawn; of settings that are not shown, the best is drawn, and the figure says so. Rows whose\n"
    "status is not ok are left out, and so are rows of other engines than the first row's, unless\n"
    "--where selects them.\n"
    "\n"
    "The plotted data is written beside the figure as tab-separated values (X.tsv for X.svg).\n"
    "foreline refuses to overwrite an input or a file that it did not write. Drawing needs "
    "gnuplot\n"
    "(Debian: gnuplot-nox). Files appear only when complete.";

static bool kind_row(size_t i, struct command_row *out)
{
    static const char *const file[] = {[PLOT_TRACES] = "TRACE...",
                                       [PLOT_MEASUREMENT] = "MEASUREMENT",
                                       [PLOT_MEASUREMENTS] = "MEASUREMENT...",
                                       [PLOT_TABLE] = "TABLE",
                                       [PLOT_MODEL] = "MODEL",
                                       [PLOT_GRAPH] = "MODEL|PLAN"};
    if (i >= plot_kinds_n)
        return false;
    snprintf(out->term, sizeof out->term, "%s %s", plot_kinds[i]->name, file[plot_kinds[i]->input]);
    out->summary = plot_kinds[i]->summary;
    return true;
}

/* What a model's profile says of its layers, as a table. */
static enum status plot_read_profile(const char *path, struct plot_table *out)
{
    enum status st;
    struct model m = {0};
    char *text = NULL;
    size_t length;
    TRY(load_model(path, &m));
    TRY(model_profile_table(&m, path, &text, &length));
    TRY(table_parse(path, text, length, out));
out:
    free(text);
    model_free(&m);
    return st;
}

/* The graph of a model, or of a plan's model with its stages: a plan is a file that says so. */
static enum status plot_read_graph(const char *path, struct plot_table *out)
{
    enum status st;
    struct loaded_plan l = {0};
    struct json_document d = {0};
    char *text = NULL;
    size_t length;
    char file[PATH_MAX];
    bool plan = path_file(path, file, sizeof file) &&
                json_read(path, plan_format, PLAN_VERSION, &d) == STATUS_OK;
    json_document_free(&d);
    if (plan)
        TRY(load_plan_only(path, &l));
    else
        TRY(load_model(path, &l.model));
    TRY(model_graph_table(&l.model, plan ? &l.plan : NULL, &l.topology, &text, &length));
    TRY(table_parse(path, text, length, out));
out:
    free(text);
    loaded_plan_free(&l);
    return st;
}

static enum status plot(struct invocation *in)
{
    enum status st;
    const struct plot_kind *kind;
    const struct arguments *a = &in->a;
    struct plot_request request = a->picture;
    struct sweep sweep = {0};
    struct plot_table table = {0};
    if (!a->output)
        return error_set(STATUS_USAGE, "plot needs -o FILE.svg, FILE.png or FILE.pdf");
    if (in->operands < 2)
        return error_set(STATUS_USAGE, "expected foreline plot KIND FILE... -o FILE.svg");
    if (plot_kind_find(in->operand[0], &kind) != STATUS_OK)
        return STATUS_USAGE;
    TRY(arguments_check(a, kind->input == PLOT_TRACES ? TAKES(PLOT_TRACES)
                           : kind->input == PLOT_MODEL || kind->input == PLOT_GRAPH
                               ? TAKES(PLOT_MODEL)
                           : kind->input != PLOT_TABLE ? TAKES(PLOT_FILES)
                           : kind->has_value           ? TAKES(PLOT_HEATMAP)
                                                       : TAKES(PLOT_LINES)));
    if (arguments_given(a, "to") && a->picture.window.to_s <= 0) /* 0 stands for the end */
        FAIL(STATUS_USAGE, "--to: got 0 s, expected more than 0 s, where timelines begin");
    request.path = (const char *const *)(in->operand + 1);
    request.n = (size_t)in->operands - 1;
    if (kind->input == PLOT_TABLE && database_is(request.path[0])) {
        TRY(sweep_open(request.path[0], &sweep));
        TRY(sweep_table(&sweep, NULL, NULL, &table));
        request.table = &table;
    }
    if ((kind->input == PLOT_MODEL || kind->input == PLOT_GRAPH) && request.n == 1) {
        TRY(kind->input == PLOT_MODEL ? plot_read_profile(request.path[0], &table)
                                      : plot_read_graph(request.path[0], &table));
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
    .summary = "draw timelines, throughput, breakdowns, memory, links, heat maps, ...",
    .details = details,
    .row = kind_row,
    .examples = "foreline plot timeline timeline.json -o timeline.svg\n"
                "foreline plot breakdown measured.json --style paper -o breakdown.pdf\n",
    .often = "x y by style output",
    .run = plot,
};
