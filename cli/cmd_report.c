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
    "Of a sweep's database: the experiment's text, its settings, the best plan for each "
    "combination\n"
    "of the rest, where along the last setting that varies another plan becomes the best and what\n"
    "of its time makes it so, pictures, all rows, warnings, and who computed what.\n"
    "\n"
    "Of a directory: the files of DIR and of the directories in it: measurements (JSON), traces\n"
    "(JSON) and tables (.tsv: what validate leaves); other files are only listed. The page has "
    "the\n"
    "measurements' figures, comparison, pictures, timelines that can be zoomed (wheel), moved\n"
    "(drag) and asked for an op (mouse), the tables, warnings and where everything came from.\n"
    "\n"
    "The page needs nothing from elsewhere and opens from disk; its name is printed. Drawing "
    "needs\n"
    "gnuplot.";

static enum status name_page(const char *operand, bool directory, char *path, size_t size)
{
    size_t n = strlen(operand);
    const char *suffix = directory ? "/report.html" : ".html";
    if (!directory && n > 3 && !strcmp(operand + n - 3, ".db"))
        n -= 3;
    int length = snprintf(path, size, "%.*s%s", (int)n, operand, suffix);
    return length > 0 && (size_t)length < size ? STATUS_OK
                                               : error_set(STATUS_INVALID, "path too long");
}

static enum status cmd_report(struct invocation *in)
{
    enum status st;
    const char *about = in->operand[0], *output = in->a.output;
    struct file_out f = {0};
    struct stat s;
    char path[4096];
    struct report_page page = {.question = in->a.question, .by = &in->by};
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
    .summary = "one self-contained HTML page about a sweep or a directory of results",
    .details = details,
    .examples = "foreline report microbatches.db -o microbatches.html\n",
    .run = cmd_report,
};
