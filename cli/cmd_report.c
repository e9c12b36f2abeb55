/* report - one HTML page about a sweep, or about what is in a directory. */
#include "cli/command.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "plots/page.h"
#include "study/report.h"

static const char details[] =
    "Page of a sweep's database: the best point and whether it leads by more than the expected\n"
    "error; all points, to sort, to filter, with the commands that repeat each; where along the "
    "last\n"
    "setting another plan becomes the best and which part of its time causes that; figures, "
    "warnings.\n"
    "\n"
    "Page of a directory (and the directories in it): measurements, traces, timelines (JSON) and\n"
    "tables (.tsv, such as those of validate); other files are only listed. The page compares\n"
    "predictions with runs, lays their timelines over each other, to zoom and to inspect, and "
    "shows\n"
    "links, ranks, memory, warnings and the origin of each file.\n"
    "\n"
    "The page is self-contained and opens from disk; foreline prints its name. Figures need "
    "gnuplot.";

static enum status name_page(const char *operand, bool directory, char *path, size_t size)
{
    size_t n = strlen(operand);
    const char *suffix = directory ? "/report.html" : ".html";
    if (!directory && n > 3 && !strcmp(operand + n - 3, ".db"))
        n -= 3;
    int length = snprintf(path, size, "%.*s%s", (int)n, operand, suffix);
    return length > 0 && (size_t)length < size
               ? STATUS_OK
               : error_set(STATUS_INVALID,
                           "path of the report is too long, expected at most %zu bytes", size - 1);
}

static enum status cmd_report(struct invocation *in)
{
    enum status st;
    const char *about = in->operand[0], *output = in->a.output;
    struct file_out f = {0};
    struct stat s;
    char path[4096];
    struct report_page page = {.question = in->a.question,
                               .by = &in->by,
                               .tokens = in->a.train_tokens,
                               .price = in->a.price};
    if (in->operands != 1)
        return error_set(STATUS_USAGE, "expected foreline report DATABASE or foreline report DIR");
    if (stat(about, &s) != 0)
        return error_set(STATUS_IO, "%s: %s", about, strerror(errno));
    bool directory = S_ISDIR(s.st_mode);
    TRY(name_page(about, directory, path, sizeof path));
    TRY(output ? file_create(output, &f) : file_create_beside(path, page_mark, &f));
    page.to = f.stream;
    TRY(directory ? report_directory(&page, about) : report_sweep(&page, about));
    TRY(file_commit(&f));
    if (!output)
        puts(path);
    else if (strcmp(output, "-") != 0)
        puts(output);
out:
    report_page_free(&page);
    file_discard(&f);
    return st;
}

const struct command command_report = {
    .name = "report",
    .synopsis = "DATABASE|DIR",
    .summary = "write a self-contained HTML page about a sweep or a directory of results",
    .details = details,
    .examples = "foreline report microbatches.db -o microbatches.html\n"
                "foreline report microbatches.db --tokens 15T --price 2.5\n",
    .run = cmd_report,
};
