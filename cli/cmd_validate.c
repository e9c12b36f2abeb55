/* validate - how good predictions are: a grid of plans, predicted, run and compared. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/validate.h"
#include "core/file.h"

static const char *output;
static bool measurements;

static const struct option_spec options[] = {
    {OPTION_FLAG, "measurements", &measurements, NULL,
     "operands are measurement files of runs; their plans are predicted now"},
    {OPTION_STRING, "output", &output, "DIR", "write everything there (also -o)"},
    {.type = OPTION_END},
};

static enum status write_results(const struct validation *v, const struct validate_table *t)
{
    enum status st;
    struct file_out f = {0};
    char path[VALIDATE_PATH];
    TRY(validate_path(output, "", "results", ".tsv", path));
    TRY(file_create(path, &f));
    validate_print(v, t, f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

static enum status conclude(const struct validation *v)
{
    enum status st;
    struct validate_table t = {0};
    TRY(validate_tabulate(v, &t));
    validate_print(v, &t, stdout);
    if (output)
        TRY(write_results(v, &t));
    if (t.rows == 0)
        st = error_set(STATUS_INFEASIBLE, "nothing to compare: no plan was both predicted and run");
out:
    validate_table_free(&t);
    return st;
}

static enum status validate(int argc, char **argv)
{
    enum status st;
    struct validation v = {0};
    const struct provenance by = command_provenance(0);
    if (!measurements || argc < 1)
        return error_set(STATUS_USAGE, "expected --measurements FILE...");
    TRY(validate_read_files(&v, (const char *const *)argv, (size_t)argc, output, &by));
    TRY(conclude(&v));
out:
    validation_free(&v);
    return st;
}

const struct command command_validate = {
    .name = "validate",
    .synopsis = "--measurements FILE...",
    .summary = "predict plans, run them, and say how good the predictions were",
    .details = "",
    .options = options,
    .run = validate,
};
